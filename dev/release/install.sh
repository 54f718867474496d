#!/bin/sh
# Installs train_gpt with its manual page and tab completion, or removes them:
#
#   dev/release/install.sh PROGRAM FOLDER     FOLDER is /usr/local, for example
#   dev/release/install.sh --remove FOLDER
#
# The program needs no other file.
set -eu
umask 022
[ $# = 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2; }
program=$1 to=$2
bin=$to/bin/train_gpt
page=$to/share/man/man1/train_gpt.1
bash=$to/share/bash-completion/completions/train_gpt
zsh=$to/share/zsh/site-functions/_train_gpt
fish=$to/share/fish/vendor_completions.d/train_gpt.fish

if [ "$program" = --remove ]; then
  rm -f "$bin" "$page" "$bash" "$zsh" "$fish"
  exit
fi

put() {  # put FILE WORDS...: writes what the program prints
  file=$1
  shift
  mkdir -p "${file%/*}"
  "$program" "$@" >"$file"
}
mkdir -p "${bin%/*}"
install -m 755 "$program" "$bin"
put "$page" man
put "$bash" completion bash
put "$zsh" completion zsh
put "$fish" completion fish
printf '%s\n' "$bin" "$page" "$bash" "$zsh" "$fish"
