#!/usr/bin/env bash
# Estimates how long a build will take: dev/build_time.sh FILES PROCESSORS COMPILER...
# Compiles one large header as a yardstick, so the estimate includes the load of this machine.
set -eu
files=$1 processors=$2
shift 2
TIMEFORMAT=%R
yardstick=$({ time echo '#include <nlohmann/json.hpp>' |
  "$@" -std=c++20 -isystem build/include -fsyntax-only -x c++ - 2>/dev/null; } 2>&1)
# An average file of this project takes 1.4 times as long as the header.
awk -v t="$yardstick" -v n="$files" -v p="$processors" 'BEGIN {
  seconds = 1.4 * t * n / p
  printf "building %d files on %d processors: about %s\n", n, p,
    seconds < 90 ? int(seconds / 10 + 1) * 10 " seconds" : int(seconds / 60 + 1) " minutes" }'
