#!/usr/bin/env bash
# Writes build/dist/: programs for two kinds of x86-64 processor, linked statically, a script that starts the one that
# fits, the sources of the last commit, the changelog, licenses, a bill of materials, what package managers need to
# build the sources, and SHA256SUMS. `make dist` runs it. RELEASE_URL is the address that the files get.
set -euo pipefail
cd "$(dirname "$0")/../.."
die() { printf 'dist: %s\n' "$*" >&2; exit 1; }

[ -e .git ] || die "this is not a clone: version and sources come from git"
version=$(dev/release/version.sh)
case $version in *-dirty) die "the tree has changes that the source archive would lack: commit them" ;; esac
name=train_gpt-$version to=build/dist
rm -rf "$to"

for march in x86-64-v3 x86-64-v4; do
  program=$to/train_gpt-$march
  "${MAKE:-make}" --no-print-directory MARCH=$march "$program"
  if readelf -l "$program" | grep -q INTERP; then die "$program is not linked statically"; fi
done
install -m 755 dev/release/launcher.sh "$to/train_gpt"

# An unpacked archive has no git to ask for the version. Hosts and archives look for the citation at its top.
git archive --prefix="$name/" --add-virtual-file="$name/VERSION:$version" \
  --add-file=dev/release/CITATION.cff HEAD | gzip -9n >"$to/$name.tar.gz"
cp dev/CHANGELOG.md dev/release/CITATION.cff LICENSE "$to/"
dev/release/libraries.sh licenses >"$to/LICENSES-OF-LIBRARIES"
dev/release/libraries.sh sbom "$version" >"$to/$name.cdx.json"

# A formula of Homebrew and a recipe of conda, with the address and the hash of the archive.
release=${RELEASE_URL:-ADDRESS-OF-THE-PROJECT/releases}
sum=$(sha256sum <"$to/$name.tar.gz")
for template in train-gpt.rb meta.yaml; do
  sed "s|@VERSION@|$version|; s|@HOMEPAGE@|${release%%/releases*}|; s|@URL@|$release/$name.tar.gz|; \
    s|@SHA256@|${sum%% *}|" "dev/release/$template" >"$to/$template"
done

sums=$(cd "$to" && sha256sum -- *)
echo "$sums" >"$to/SHA256SUMS"
env -i "$to/train_gpt" --version
ls -l "$to"
