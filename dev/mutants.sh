#!/usr/bin/env bash
# Mutation testing: breaks the program in many small ways, one at a time; each time a test must fail.
#
#   dev/mutants.sh              all mutants of dev/mutants.txt
#   dev/mutants.sh TEXT         those with TEXT anywhere in their line
#   dev/mutants.sh --part 1/4   the first quarter of them
#   dev/mutants.sh --list [TEXT]   only check that their texts are still there, and show them
#
# A row may select the tests that see its mutant, as Catch2 selects them. Otherwise all tests run except [slow],
# [program] and [pages] ([pages] would fail because a page shows the line). TESTS='~[corpus]' selects for all rows.
#
# Copies the sources to build/mutants/, one copy per processor, and breaks them only there. Ends with
# "N mutants, N caught". Fails if a mutant survives, does not compile, or no longer fits its file. Leaves out a mutant
# whose object file does not change, because its code is for another processor.
set -u
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL # the makes below are independent
die() { printf 'mutants: %s\n' "$*" >&2; exit 2; }

list_only='' part=1/1
case ${1:-} in
  --list) list_only=1; shift ;;
  --part) part=${2:-}; shift $(($# < 2 ? $# : 2)) ;;
esac
[[ $part =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] && first=${BASH_REMATCH[1]} parts=${BASH_REMATCH[2]} ||
  die "--part needs two numbers, such as 1/4, but got '$part'"
[ "$first" -le "$parts" ] || die "--part $part: there are parts 1 to $parts"
wanted=${1:-}

# ---- the list ------------------------------------------------------------------------------------

# Splits the file's text into $before, the old text and $after. Fails unless the old text occurs exactly once. Slow.
split_file() {
  local text
  text=$(cat "$1" && echo .) || return
  text=${text%.}
  before=${text%%"$2"*} after=${text#*"$2"}
  [ "$before" != "$text" ] && [ "${after#*"$2"}" = "$after" ]
}

everywhere='~[slow]~[program]~[pages]'
files=() olds=() news=() whats=() specs=() stale=0 number=0
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  case $line in '' | '#'*) continue ;; esac
  file=${line%%' | '*} rest=${line#*' | '}
  old=${rest%%' | '*} rest=${rest#*' | '}
  new=${rest%%' | '*} rest=${rest#*' | '}
  what=${rest%%' | '*} spec=$everywhere
  [ "$what" = "$rest" ] || spec=${rest#*' | '}
  if [ "$line" != "$file | $old | $new | $rest" ] || [ "${spec#*' | '}" != "$spec" ]; then
    die "dev/mutants.txt:$number is not 'file | old text | new text | what it breaks'" \
      "or has more than ' | tests' after it"
  fi
  if [ "$(grep -oFe "$old" "$file" 2>/dev/null | wc -l)" -ne 1 ]; then
    printf 'dev/mutants.txt:%s: %s does not have this text exactly once: %s\n' "$number" "$file" "$old" >&2
    stale=$((stale + 1))
    continue
  fi
  case $line in *"$wanted"*)
    files+=("$file") olds+=("$old") news+=("$new") whats+=("$what") specs+=("${TESTS:-$spec}") ;;
  esac
done <dev/mutants.txt
count=${#files[@]}
[ "$stale" -eq 0 ] || die "$stale mutants no longer fit the sources; bring dev/mutants.txt up to date"
[ "$count" -gt 0 ] || die "no mutant has '$wanted' in its line"
begin=$((count * (first - 1) / parts)) end=$((count * first / parts))
count=$((end - begin))
[ "$count" -gt 0 ] || die "part $part of so few mutants has none"
if [ -n "$list_only" ]; then
  for ((i = begin; i < end; i++)); do
    printf '%s: %s\n    %s\n    %s\n' "${files[i]}" "${whats[i]}" "${olds[i]}" "${news[i]}"
  done
  echo "$count mutants"
  exit
fi

# ---- the copies ----------------------------------------------------------------------------------

root=$PWD/build/mutants
workers=$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 1)
[ "$workers" -le "$count" ] || workers=$count
export OMP_WAIT_POLICY=passive # several tests run at once
export CXXFLAGS="${CXXFLAGS:-} -O1"
export ROOMS_JOINED= # one file changes at a time

# Copy 0 is never broken, and stays from one call to the next, so that only changed files are compiled again.
mkdir -p "$root/0" || exit
sources() { # all files except hidden ones, builds, runs and large texts
  find . \( -name '.?*' -o -path ./build -o -path ./runs \) -prune -o -type f -size -16000k -print
}
sources | while IFS= read -r path; do
  cmp -s "$path" "$root/0/$path" && continue
  mkdir -p "$root/0/${path%/*}" && cp -p "$path" "$root/0/$path" && touch "$root/0/$path" || exit 1
done || die "cannot copy the sources"
(cd "$root/0" && sources) | while IFS= read -r path; do
  [ -e "$path" ] || rm "$root/0/$path"
done
[ ! -d build/include ] || { mkdir -p "$root/0/build" && cp -Rp build/include "$root/0/build/"; }

cd "$root/0" || exit
echo "building the tests"
out=$(make -pn test 2>/dev/null | sed -n 's/^OUT := //p' | tail -n 1) tests=$out/tests
make "$tests" "$out/train_gpt" >"$root/log" 2>&1 || { cat "$root/log"; die "the tests do not compile"; }
tests_of() { # SPEC: the first failing test case of these in this folder; empty if all pass
  local status output
  output=$($limit "$tests" --abort --filenames-as-tags "$1" 2>&1)
  status=$?
  [ "$status" -eq 0 ] && return
  [ "$status" -eq 124 ] && { echo "(they hang)"; return; }
  printf '%s\n' "$output" | awk '/^-+$/ { getline; print; found = 1; exit } END { exit !found }' ||
    echo "(they crash: status $status)"
}
# nearest FILE SPEC: the tests in the file's own test file, which catch most of its mutants quickly; otherwise SPEC.
nearest() {
  local own=test_${1##*/}
  if [ "$2" = "$everywhere" ] && [ -n "$(find test -name "$own")" ]; then echo "[#${own%.cpp}]"; else echo "$2"; fi
}
limit=''
selections=()
while IFS= read -r spec; do selections+=("$spec"); done < <(printf '%s\n' "${specs[@]:begin:count}" | sort -u)
unbroken() { # every workers-th selection, from $1 on; prints the seconds of each
  local i failing
  for ((i = $1; i < ${#selections[@]}; i += workers)); do
    SECONDS=0
    failing=$(tests_of "${selections[i]}")
    [ -z "$failing" ] || die "without any mutant this test fails already: $failing"
    echo "$SECONDS"
  done
}
running=()
for ((w = 0; w < workers; w++)); do unbroken $w >"$root/seconds-$w" & running+=($!); done
for job in "${running[@]}"; do wait "$job" || { kill "${running[@]}" 2>/dev/null; exit 2; }; done
longest=$(for ((w = 0; w < workers; w++)); do cat "$root/seconds-$w"; done | sort -n | tail -n 1)
for tool in timeout gtimeout; do
  command -v "$tool" >/dev/null && limit="$tool $((5 * longest + 30))" && break
done
for ((w = 1; w <= workers; w++)); do
  rm -rf "${root:?}/$w" && cp -Rp "$root/0" "$root/$w" || die "cannot copy to $root/$w"
done

# ---- the mutants ---------------------------------------------------------------------------------

worker() { # every workers-th mutant, in copy $1
  cd "$root/$1" || exit
  local i failing object broken=''
  for ((i = begin + $1 - 1; i < end; i += workers)); do
    [ -n "$broken" ] && [ "$broken" != "${files[i]}" ] && cp "$root/0/$broken" "$broken"
    broken=${files[i]}
    split_file "$root/0/$broken" "${olds[i]}"
    printf '%s' "$before${news[i]}$after" >"$broken"
    if ! make "$tests" "$out/train_gpt" >"$root/log-$1" 2>&1; then
      verdict BROKEN "$i" "does not compile: $(grep -m 1 error "$root/log-$1")"
      continue
    fi
    object=$out/${broken%.cpp}.o
    if [ "${broken%.cpp}" != "$broken" ] && cmp -s "$object" "$root/0/$object"; then
      verdict absent "$i" "not compiled for this processor"
      continue
    fi
    failing=$(tests_of "$(nearest "$broken" "${specs[i]}")")
    [ -n "$failing" ] || failing=$(tests_of "${specs[i]}")
    if [ -n "$failing" ]; then verdict caught "$i" "$failing"; else verdict SURVIVED "$i" ""; fi
  done
  [ -z "$broken" ] || cp "$root/0/$broken" "$broken"
}
verdict() {
  printf '%-8s %s: %s%s\n' "$1" "${files[$2]}" "${whats[$2]}" "${3:+   [$3]}" | tee -a "$root/verdicts"
}

: >"$root/verdicts"
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
for ((w = 1; w <= workers; w++)); do worker "$w" & done
wait

caught=$(grep -c '^caught' "$root/verdicts") absent=$(grep -c '^absent' "$root/verdicts")
if [ "$caught" -ne "$count" ]; then
  echo
  grep -v '^caught' "$root/verdicts"
fi
echo "$count mutants, $caught caught$([ "$absent" -eq 0 ] || echo ", $absent for other processors")"
[ "$((caught + absent))" -eq "$count" ]
