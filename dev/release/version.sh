#!/bin/sh
# Prints the version of this tree: 0.1.0 at the commit with the tag v0.1.0, and 0.1.0+ab12cd at a commit without it.
# --number prints 0.1.0 alone, which is the first heading of the changelog. An unpacked archive has its version in the
# file VERSION.
cd "$(dirname "$0")/../.." || exit 1
number=$(sed -n '/^## /{s/^## \([0-9.]*\).*/\1/p;q;}' dev/CHANGELOG.md)
if [ "${1:-}" = --number ]; then echo "$number"; exit; fi
commit=$([ -e .git ] && git describe --always --dirty --exclude '*' 2>/dev/null)
if [ -z "$commit" ]; then cat VERSION 2>/dev/null || echo "$number"; exit; fi
released=$(git describe --tags --dirty --exact-match --match "v$number" 2>/dev/null)
if [ "$released" = "v$number" ]; then echo "$number"; else echo "$number+$commit"; fi
