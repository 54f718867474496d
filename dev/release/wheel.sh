#!/usr/bin/env bash
# Writes the wheel of the programs in build/dist/ and of the module in dev/release/python/ to build/dist/, installs it
# in an environment that has nothing else, and tests it there. `make wheel` runs it, with a Python that has Hatchling.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$PWD/$1 from=build/wheel to=build/dist installed=build/wheel-installed

rm -rf "$from" "$installed" "$to"/*.whl
mkdir -p "$from"
git archive HEAD:dev/release/python | tar -x -C "$from"
install -D -m 755 -t "$from/train_gpt/bin" "$to"/train_gpt "$to"/train_gpt-x86-64-v?
cp "$to/LICENSE" "$to/LICENSES-OF-LIBRARIES" "$from/"

# The same commit gives the same bytes, if the same compiler and libraries made the programs.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
VERSION=$(dev/release/version.sh)
export SOURCE_DATE_EPOCH VERSION
(cd "$from" && "$python" -m hatchling build --target wheel --directory ../dist)
rm "$to/SHA256SUMS"
sums=$(cd "$to" && sha256sum -- *)
echo "$sums" >"$to/SHA256SUMS"

"$python" -m auditwheel show "$to"/*.whl 2>/dev/null | grep 'no external shared libraries' ||
  { echo "wheel: auditwheel finds libraries that the programs load" >&2; exit 1; }
python3 -m venv "$installed"
"$installed/bin/pip" install --quiet --disable-pip-version-check --no-index "$to"/*.whl
env -i "$installed/bin/train_gpt" --version
env -u TRAIN_GPT_PROGRAM -u PYTHONPATH "$installed/bin/python" dev/release/test_module.py
ls -l "$to"/*.whl
