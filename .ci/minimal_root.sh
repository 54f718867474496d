#!/usr/bin/env bash
# Sets up, builds, trains and tests from nothing in a minimal Debian: dev/setup.sh must install whatever is missing.
# Needs root and debootstrap. MINIMAL_ROOT names an existing root. The last line is the tests' last line.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "no minimal Debian: $*"
  echo "0 passed, 0 failed, 1 skipped"
  exit
}

[ "$(id -u)" = 0 ] || skip "it needs root"
root=${MINIMAL_ROOT:-}
if [ -z "$root" ]; then
  command -v debootstrap >/dev/null || skip "debootstrap is not installed"
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  debootstrap --variant=minbase "$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")" "$root" >"$root.log" ||
    { tail -n 3 "$root.log"; rm "$root.log"; skip "debootstrap failed"; }
  rm "$root.log"
fi
cp /etc/resolv.conf "$root/etc/"
rm -rf "$root/train_gpt"
mkdir "$root/train_gpt"
git archive HEAD | tar -x -C "$root/train_gpt"
# With /proc, which launchers and comparisons read; it is gone when the command ends.
unshare --pid --fork --mount-proc="$root/proc" chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec '
  cd /train_gpt
  apt-get -qq update
  dev/setup.sh test
  make train ARGS="--steps 20 --eval-batches 4"
  make test'
