#!/bin/sh
# Prints what dist.sh says about the libraries that the programs contain, from Debian's records of the packages they
# were compiled from:
#
#   dev/release/libraries.sh licenses        their copyright files, one after the other
#   dev/release/libraries.sh sbom VERSION    a bill of materials, in CycloneDX's JSON
#
# A system without dpkg has no such records, and both are empty there.
set -eu
compiler=$(c++ -dumpversion 2>/dev/null | cut -d. -f1)  # libgcc-N-dev has OpenMP's static library
packages="libpcre2-dev libutf8proc-dev nlohmann-json3-dev libstdc++-$compiler-dev libgcc-$compiler-dev libc6-dev"
# shellcheck disable=SC1091
system=$(. /etc/os-release 2>/dev/null && echo "$ID") || system=

components() {
  separator=
  for package in $packages; do
    # shellcheck disable=SC2016
    fields=$(dpkg-query -W -f '${db:Status-Status} ${Version} ${Architecture}' "$package" 2>/dev/null) || continue
    # shellcheck disable=SC2086
    set -- $fields
    [ "$1" = installed ] || continue
    url="pkg:deb/$system/$(encoded "$package")@$(encoded "$2")?arch=$3"
    printf '%s\n    {"type": "library", "name": "%s", "version": "%s", "purl": "%s"}' \
      "$separator" "$package" "$2" "$url"
    separator=,
  done
}
encoded() { printf %s "$1" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g'; }

case ${1:-} in
  licenses)
    for package in $packages; do
      text=/usr/share/doc/$package/copyright
      if [ -r "$text" ]; then printf '==== %s ====\n\n' "$package" && cat "$text" && echo; fi
    done ;;
  sbom)
    cat <<END
{
  "bomFormat": "CycloneDX",
  "specVersion": "1.5",
  "version": 1,
  "metadata": {"component": {"type": "application", "name": "train_gpt", "version": "${2:?}",
                             "licenses": [{"license": {"id": "MIT"}}]}},
  "components": [$(components)
  ]
}
END
    ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2 ;;
esac
