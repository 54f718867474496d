#!/usr/bin/env bash
# Writes build/dist/: programs for two kinds of x86-64 processor, linked statically, a script that starts the one that
# fits, the sources of the last commit, the changelog, licenses and SHA256SUMS. `make dist` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
die() { printf 'dist: %s\n' "$*" >&2; exit 1; }

version=$(git describe --always --dirty 2>/dev/null) || die "this is not a clone: version and sources come from git"
case $version in *-dirty) die "the tree has changes that the source archive would lack: commit them" ;; esac
name=train_gpt-$version to=build/dist
rm -rf "$to"

for march in x86-64-v3 x86-64-v4; do
  program=$to/train_gpt-$march
  "${MAKE:-make}" --no-print-directory MARCH=$march "$program"
  if readelf -l "$program" | grep -q INTERP; then die "$program is not linked statically"; fi
done
install -m 755 dev/release/launcher.sh "$to/train_gpt"

# An unpacked archive has no git to ask for the version.
git archive --prefix="$name/" --add-virtual-file="$name/VERSION:$version" HEAD | gzip -9n >"$to/$name.tar.gz"
cp dev/CHANGELOG.md LICENSE "$to/"

# The programs contain these libraries. Debian and its descendants keep their licenses here.
for package in libpcre2-dev libutf8proc-dev nlohmann-json3-dev libstdc++-12-dev libc6-dev; do
  text=/usr/share/doc/$package/copyright
  if [ -r "$text" ]; then printf '==== %s ====\n\n' "$package" && cat "$text" && echo; fi
done >"$to/LICENSES-OF-LIBRARIES"

sums=$(cd "$to" && sha256sum -- *)
echo "$sums" >"$to/SHA256SUMS"
env -i "$to/train_gpt" --version
ls -l "$to"
