#!/usr/bin/env bash
# Writes build/train-gpt_VERSION_amd64.deb, a Debian package with programs for x86-64-v3 and -v4 that use the shared
# libraries of this system. `make deb` runs it. Needs dpkg-dev. DEBFULLNAME and DEBEMAIL name the maintainer, as in
# Debian's own tools; without them it is the author of the last commit.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."
die() { printf 'deb: %s\n' "$*" >&2; exit 1; }
command -v dpkg-shlibdeps >/dev/null || die "dpkg-shlibdeps is missing: install dpkg-dev"

version=$(dev/release/version.sh)
case $version in *-dirty) die "the tree has changes: commit them" ;; esac
name=train-gpt version=${version/+/'~'} architecture=$(dpkg --print-architecture)
tree=$PWD/build/deb/root
programs=$tree/usr/lib/$name docs=$tree/usr/share/doc/$name
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
seconds=$(git log -1 --format=%ct)
rm -rf build/deb

for march in x86-64-v3 x86-64-v4; do
  "${MAKE:-make}" --no-print-directory MARCH=$march build/deb/train_gpt-$march
  install -D -m 755 build/deb/train_gpt-$march "$programs/train_gpt-$march"
done
dev/release/install.sh build/deb/train_gpt-x86-64-v3 "$tree/usr" >/dev/null  # the manual page and tab completion
install -m 755 dev/release/launcher.sh "$programs/train_gpt"
ln -sf ../lib/$name/train_gpt "$tree/usr/bin/train_gpt"
mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
gzip -9n "$tree/usr/share/man/man1/train_gpt.1"

mkdir -p "$docs" "$tree/DEBIAN"
cat >"$docs/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: train_gpt

Files: *
Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE)
License: Expat
$(sed -n '/^Permission/,$s/^/ /p' LICENSE | sed 's/^ *$/ ./')
END
gzip -9nc dev/CHANGELOG.md >"$docs/NEWS.gz"
gzip -9nc >"$docs/changelog.gz" <<END
$name ($version) unstable; urgency=medium

  * NEWS.gz says what this version brings.

 -- $maintainer  $(date -uRd "@$seconds")
END

# dpkg-shlibdeps reads the list of packages from debian/control.
mkdir build/deb/debian
echo "Source: $name" >build/deb/debian/control
depends=$(cd build/deb && dpkg-shlibdeps -O "$programs"/train_gpt-*)
cat >"$tree/DEBIAN/control" <<END
Package: $name
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Depends: ${depends#shlibs:Depends=}
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Section: science
Priority: optional
Description: trainer of small GPT, Llama, BERT and T5 models on the CPU
 train_gpt trains small language models on a text with one command, samples
 from them, and exchanges them with transformers, llama.cpp and llm.c. The
 normalization and where it goes are options, and comparisons of them can be
 repeated to the bit.
 .
 It needs a processor with AVX2.
END
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
package=build/${name}_${version}_$architecture.deb
SOURCE_DATE_EPOCH=$seconds dpkg-deb --root-owner-group -b "$tree" "$package"
if command -v lintian >/dev/null; then lintian --allow-root --fail-on error,warning "$package"; fi
