#!/usr/bin/env bash
# Writes a source file that contains these tests, each in a namespace of its own, after all that they include.
#
#   test/join.sh FILE...
set -eu
grep -h '^#include' "$@" | sort -u
for file in "$@"; do
  name=${file##*/}
  printf 'namespace %s {\n#include "%s"\n}\n' "${name%.cpp}" "$file"
done
