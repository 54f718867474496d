#!/usr/bin/env bash
# Fuzzes the parsers, one after the other on all processors; `make fuzz` builds the program and calls this.
#
#   fuzz.sh PROGRAM                      each parser for 30 minutes
#   fuzz.sh PROGRAM --seconds 60 text    one of them for a minute
#   fuzz.sh PROGRAM --keep               copies a small set of inputs that reach all code found so far to test/fuzz/
#
# Begins with the inputs in test/fuzz/PARSER/, and keeps new ones in build/fuzz/PARSER/. An input that crashes the
# program, takes ten seconds or allocates 1 GB is a finding, and stays in build/fuzz/findings/PARSER-*.
# The last line counts parsers and findings.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
program=$1 seconds=1800 keep=
shift
wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    *) wanted+=("$1"); shift ;;
  esac
done
known=($(PARSER='' "$program"))
[ ${#wanted[@]} -gt 0 ] || wanted=("${known[@]}")
for parser in "${wanted[@]}"; do
  case " ${known[*]} " in *" $parser "*) ;; *)
    echo "fuzz: there is no parser '$parser'; they are: ${known[*]}" >&2; exit 2 ;;
  esac
done

export OMP_NUM_THREADS=1
workers=$(nproc 2>/dev/null || sysctl -n hw.ncpu)
mkdir -p build/fuzz/findings
for parser in "${wanted[@]}"; do
  export PARSER=$parser
  found=build/fuzz/$parser seeds=test/fuzz/$parser
  mkdir -p "$found" "$seeds"
  if [ -n "$keep" ]; then
    rm -rf "$found.all" && cp -R "$found" "$found.all" && cp "$seeds"/* "$found.all/" 2>/dev/null
    rm -f "$seeds"/*
    "$program" -merge=1 -max_len=4096 "$seeds" "$found.all" >"$found.log" 2>&1 || { cat "$found.log"; exit 1; }
    rm -rf "$found.all"
    printf '%-20s %3s inputs, %s\n' "$parser" "$(find "$seeds" -type f | wc -l)" "$(du -sh "$seeds" | cut -f 1)"
    continue
  fi
  for ((w = 1; w <= workers; w++)); do
    "$program" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=1024 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/findings/$parser-" "$found" "$seeds" >"$found.$w.log" 2>&1 &
  done
  wait
  runs=$(cat "$found".?*.log | awk '/stat::number_of_executed_units/ { n += $2 } END { print n + 0 }')
  printf '%-20s %12s runs, %s findings so far\n' "$parser" "$runs" "$(find build/fuzz/findings -type f | wc -l)"
done
findings=$(find build/fuzz/findings -type f | wc -l)
[ -n "$keep" ] || echo "${#wanted[@]} parsers, $findings findings"
[ "$findings" -eq 0 ]
