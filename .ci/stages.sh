# What .ci/run and .ci/nightly share: stages, their counts, and the last line "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

only=("$@")  # names of stages; none: all
scratch=$(mktemp -d)
passed=0 failed=0 skipped=0
TIMEFORMAT='  (%1R s; processors: %1U s + %1S s)'

finish() {
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  rm -rf "$scratch"
  if [ $((passed + failed + skipped)) = 0 ]; then failed=1; echo "no stage ran${only:+: none is named ${only[*]}}"; fi
  echo
  printf '%d passed, %d failed' $passed $failed
  if [ $skipped -gt 0 ]; then printf ', %d skipped' $skipped; fi
  echo
  [ $failed = 0 ] || exit 1
}
trap finish EXIT

# wanted NAME: does the stage of this name run?
wanted() {
  [ ${#only[@]} -gt 0 ] || return 0
  local name
  for name in "${only[@]}"; do [ "$name" != "$1" ] || return 0; done
  return 1
}

# stage NAME COMMAND...: counts what the command's own last line says, or the command as one.
counts='^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$'
stage() {
  local name=$1 status=0 line
  shift
  wanted "$name" || return 0
  printf '\n== %s: %s\n' "$name" "$*"
  time "$@" 2>&1 </dev/null | tee "$scratch/log" || status=1
  line=$(grep -E "$counts" "$scratch/log" | tail -n 1 | tr -d ,) || true
  if [ -n "$line" ]; then
    # shellcheck disable=SC2086
    set -- $line
    passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + ${5:-0}))
    if [ $status = 0 ] || [ "$3" -gt 0 ]; then return; fi
  fi
  # No count, or a clean count from a command that failed (it crashed later, say).
  if [ $status = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  if [ $status != 0 ]; then echo "== $name FAILED"; fi
}

# beside NAME COMMAND...: runs it beside the stages that follow. After `wait`, `stage NAME ended NAME` counts it.
beside() {
  local name=$1
  wanted "$name" || return 0
  shift
  {
    local status=0
    time "$@" </dev/null || status=$?
    echo $status >"$scratch/$name.status"
  } >"$scratch/$name.log" 2>&1 &
}
ended() {
  cat "$scratch/$1.log"
  return "$(cat "$scratch/$1.status")"
}

# Under the sanitizers: parsing, files, training runs and each layer. The rest of the tests run the same code longer.
sanitized='~[slow]~[long]~[nightly]~[recompute]~[pages]~[textbook]~[equivalence]~[huggingface]~[compare]'
sanitized+='~[diagnostics]~[model]~[cost]~[block]~[presets]~[sampling]~[end]~[resume]~[words]~[corpus]~[rooms]'
sanitized+='~[coordinates]~*comparison*'  # last: a name ends at the next bracket only

# processor_has MACRO: does the compiler define it for this processor?
processor_has() { ${CXX:-c++} -march=native -dM -E -x c++ /dev/null 2>/dev/null | grep " $1 " >/dev/null; }

# avx2 and sse2: all tests as an x86 processor of this kind runs them, if this one has more.
avx2() { if processor_has __AVX512F__; then stage "AVX2 alone" make test-elsewhere ON=x86-64-v3; fi; }
sse2() { if processor_has __AVX2__; then stage "SSE2 alone" make test-elsewhere ON=x86-64; fi; }

# without_amx WORDS...: the tests as a processor with AVX-512 and bf16 runs them that has no AMX.
without_amx() {
  if processor_has __AMX_BF16__; then stage "without AMX" make test-elsewhere ON=cooperlake "$@"; fi
}

# arm WORDS...: tests as a 64-bit ARM processor runs them, unless this is one. Skipped without a cross compiler or an
# emulator: only Debian's packages of them are known.
arm() {
  wanted NEON || return 0
  if [ "$(uname -m)" = aarch64 ] || [ "$(uname -m)" = arm64 ]; then return; fi
  if CXX='' dev/setup.sh arm >"$scratch/log" 2>&1; then
    stage NEON make test-arm CXX=aarch64-linux-gnu-g++ "$@"
  else
    printf '\n== NEON: skipped: no cross compiler for ARM and emulator: %s\n' "$(tail -n 1 "$scratch/log")"
    skipped=$((skipped + 1))
  fi
}

# with_packages PACKAGES NAME COMMAND...: a stage that needs packages of Python. Skipped where they cannot be had.
# OLDEST=1 before it: in their oldest supported versions.
with_packages() {
  local packages=$1 folder=${OLDEST:+build/oldest}
  shift
  wanted "$1" || return 0
  if make "${folder:-.venv}/.$packages"; then
    stage "$@"
  else
    printf '\n== %s: skipped: Python lacks its packages, and pip cannot get them\n' "$1"
    skipped=$((skipped + 1))
  fi
}
