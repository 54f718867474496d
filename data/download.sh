#!/usr/bin/env bash
# Fetches real text to train on, where there is a network:
#
#   data/download.sh shakespeare [DIR]    all of Shakespeare's plays in one file, 1.1 MB
#   data/download.sh tinystories [DIR]    short stories for children written by GPT-4, 2.2 GB and 23 MB
#
# DIR is data/ unless given. A broken download continues where it stopped. A file gets its name only when its SHA-256 is
# right. TEXT_URL=... takes the files from a mirror instead: TEXT_URL/tinyshakespeare.txt, ...
#
# shakespeare: "tiny Shakespeare" (Karpathy, char-rnn). tinystories: TinyStoriesV2 (Eldan and Li 2023,
# arXiv 2305.07759), licence CDLA-Sharing-1.0.
set -u

say() { printf '%s\n' "$*" >&2; }
die() { say "download: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"; }

sha256() { if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }
bytes() { wc -c <"$1" | tr -d ' '; }

# get URL FILE: downloads the part that FILE lacks.
get() {
  if have curl; then
    local quiet=--progress-bar
    [ -t 2 ] || quiet=-sS
    curl -fL $quiet --connect-timeout 20 --retry 3 -C - -o "$2" "$1" && return
    [ $? = 33 ] || return 1
    say "this server cannot go on in the middle: starting over"
    curl -fL $quiet --connect-timeout 20 --retry 3 -o "$2" "$1"
  elif have wget; then
    wget -nv --timeout=60 --tries=4 -c -O "$2" "$1"
  else
    die "curl or wget is needed"
  fi
}

fetch() {  # fetch URL NAME BYTES SHA-256
  local url=$1 file=$folder/$2 part=$folder/$2.part sum
  [ -n "${TEXT_URL:-}" ] && url=$TEXT_URL/$2
  if [ -f "$file" ]; then
    if [ "$(sha256 "$file")" = "$4" ]; then say "$file is there and complete"; return; fi
    die "$file is there, but is not the published text; move it away first"
  fi

  [ -f "$part" ] && [ "$(bytes "$part")" -gt "$3" ] && rm "$part"
  if [ ! -f "$part" ] || [ "$(bytes "$part")" -lt "$3" ]; then
    if [ -f "$part" ]; then say "$2: going on after $(bytes "$part") of $3 bytes"; else say "$2: $3 bytes"; fi
    if ! get "$url" "$part"; then
      say "download: could not fetch $url"
      [ -s "$part" ] && say "  $part keeps the $(bytes "$part") bytes that came; the same command goes on"
      say "  Without a network: put it at $file by hand,"
      say "  or train on text the program writes (make train) or on your own (make train DATA=my.txt)."
      exit 1
    fi
  fi

  sum=$(sha256 "$part")
  if [ "$sum" != "$4" ]; then
    say "download: $2 is not the published text"
    say "  expected $3 bytes, SHA-256 $4"
    say "  received $(bytes "$part") bytes, SHA-256 $sum"
    rm -f "$part"
    die "removed it; nothing was kept"
  fi
  mv "$part" "$file"
  say "$file is complete, SHA-256 checked"
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
  shakespeare | tinystories) ;;
  '') usage >&2; exit 2 ;;
  *) die "unknown text '$1': shakespeare or tinystories" ;;
esac
[ $# -le 2 ] || die "too many arguments (try --help)"
folder=${2:-$(dirname "$0")}
mkdir -p "$folder" || exit 1

case $1 in
  shakespeare)
    fetch https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt \
      tinyshakespeare.txt 1115394 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
    say "next: make train DATA=$folder/tinyshakespeare.txt"
    ;;
  tinystories)
    # A fixed revision, so that the sums stay right.
    stories=https://huggingface.co/datasets/roneneldan/TinyStories/resolve
    stories=$stories/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64
    fetch $stories/TinyStoriesV2-GPT4-valid.txt TinyStoriesV2-GPT4-valid.txt 22502601 \
      6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d
    fetch $stories/TinyStoriesV2-GPT4-train.txt TinyStoriesV2-GPT4-train.txt 2227753162 \
      6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443
    say "next: make train DATA=$folder/TinyStoriesV2-GPT4-valid.txt, which is the small part of it"
    ;;
esac
