#!/bin/sh
# train_gpt: starts the program next to this file that fits the processor, train_gpt-x86-64-v4 (AVX-512) or
# train_gpt-x86-64-v3 (AVX2). To choose yourself, start one of them directly.
here=$(dirname "$(readlink -f "$0")")
flags=$(sed -n '/^flags/{s/.*://p;q;}' /proc/cpuinfo)

has() {
  for flag in "$@"; do
    case " $flags " in *" $flag "*) ;; *) return 1 ;; esac
  done
}

if ! has avx2 bmi1 bmi2 f16c fma abm movbe; then
  echo "train_gpt: this program needs a processor with AVX2: compile it from the source archive" >&2
  exit 1
fi
kind=x86-64-v3
if has avx512f avx512bw avx512cd avx512dq avx512vl; then kind=x86-64-v4; fi
# Suggested commands begin with this.
if [ "$(command -v train_gpt)" = "$0" ]; then own=train_gpt; else own=$0; fi
export TRAIN_GPT_COMMAND="${TRAIN_GPT_COMMAND:-$own}"
exec "$here/train_gpt-$kind" "$@"
