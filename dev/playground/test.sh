#!/usr/bin/env bash
# Compares the playground's engine with the native one and talks to its worker, in node. `--speed` measures both.
# Skips with a message if the compiler for WebAssembly or node is missing.
set -eu
cd "$(dirname "$0")/../.."

skip() { echo "skipped: $*" >&2; exit 0; }
node=$(command -v node || command -v nodejs) || skip "node is missing"
[ "$("$node" -p 'process.versions.node.split(".")[0]')" -ge 18 ] || skip "node 18 or newer is needed"
make=${MAKE:-make}
$make build/playground/config.mk || skip "the compiler for WebAssembly is missing: dev/setup.sh playground"
$make build/playground/engine.wasm
$make MARCH="${LIKE:-x86-64}" build/native_engine
$make MARCH="${LIKE:-x86-64}" "build/$(dirname "$(readlink build/native_engine)")/train_gpt"
OMP_NUM_THREADS=1 "$node" dev/playground/test_engine.mjs "$@"
