#!/usr/bin/env bash
# Exercises: copies of the project in which one function is blank, and what judges them (`make exercise`).
#
#   dev/exercise/exercise.sh               the list, and which are done
#   dev/exercise/exercise.sh begin NAME    copies the project to build/exercise/NAME with NAME's function blank;
#                                          HINT=1 shows the formula that was cut, FORCE=1 begins anew
#   dev/exercise/exercise.sh check [NAME]  compiles what is written there and judges it; NAME: the one written last
#
# CXX names the compiler, EXERCISE_DIR another folder than build/exercise. exercises.txt has a row for each exercise,
# blank.awk makes the blanks from the files as they are.
set -u
cd "$(dirname "$0")/../.." || exit 1
# In a copy, the project's exercises are meant, and by default the copy's own.
own=
if [ -d .check ]; then own=${PWD##*/} && cd ../../.. || exit 1; fi

here=dev/exercise all=${EXERCISE_DIR:-build/exercise}
table=$here/exercises.txt
die() { printf 'exercise: %s\n' "$*" >&2; exit 1; }

# ---- the table -----------------------------------------------------------------------------------

names() { sed -n 's/^\([a-z_]*\) | .*/\1/p' "$table"; }

# Sets name level file blanks judge page cut what, and copy and written.
row() {
  local line
  name=$(printf %s "$1" | tr 'A-Z-' 'a-z_')
  line=$(grep "^$name | " "$table") || die "there is none called '$1': $(names | tr '\n' ' ')"
  IFS=$'\t' read -r _ level file blanks judge page cut what <<<"${line// | /$'\t'}"
  page=$(cd layers && ls ./*/"$page.md") && page=${page#./} && page=${page%.md}
  copy=$all/$name written=$all/$name/$file
}

hint() { awk -v name="$name" '/^[a-z]/ { on = $1 == name } on && sub(/^    /, "")' "$table"; }

# blank WANT FILE: what blank.awk makes of it
blank() { WANT=$1 NAMES=$blanks CUT=$cut HINT=$(hint) awk -f "$here/blank.awk" "$2"; }

done_mark() { [ -e "$all/$1/.check/done" ]; }

list() {
  local name level file blanks judge page cut what copy written mark
  for one in $(names); do
    row "$one"
    mark='    '
    if [ -d "$copy" ]; then mark='open'; fi
    if done_mark "$name"; then mark='done'; fi
    printf '%s  %-17s  %-4s  %s (layers/%s.md)\n' "$mark" "$name" "$level" "$what" "$page"
  done
  echo
  echo "make exercise LAYER=linear        makes build/exercise/linear/, where that function is yours to write"
  echo "make check-exercise               judges what you wrote last; LAYER=linear, that one"
  echo "make exercise LAYER=linear HINT=1 shows the formula"
}

# ---- a copy of the project -----------------------------------------------------------------------

# Where to write, what to read.
describe() {
  local lines
  lines=$(grep -n 'Yours to write' "$written" | cut -d: -f1 | tr '\n' ' ' | sed 's/ $//; s/ /, /g')
  printf 'write    %s%s\n' "$written" "${lines:+, line $lines}"
  printf '         %s\n' "${blanks//\{/} · $what"
  [ ! -e "$copy/layers/$page.md" ] || printf 'read     %s/layers/%s.md\n' "$copy" "$page"
  printf 'later    %s%s: do not open yet, there it is written\n' "$file" \
    "$([ ! -e "layers/$page.cpp" ] || echo " and layers/$page.cpp")"
  printf 'then     make check-exercise LAYER=%s\n' "$name"
  printf 'stuck    make exercise LAYER=%s HINT=1 shows the formula\n' "$name"
}

# All that is not hidden, built, trained or a large text.
sources() { find . \( -name '.?*' -o -path ./build -o -path ./runs \) -prune -o -type f -size -16000k -print; }

begin() {
  row "$1"
  if [ -n "${HINT:-}" ]; then
    formula
    exit
  fi
  if [ -e "$copy" ] && [ -z "${FORCE:-}" ]; then
    printf '%s/ is there, and what you wrote in it stays. FORCE=1 throws it away and begins anew.\n\n' "$copy"
    describe
    exit 1
  fi
  rm -rf "$copy.new" && mkdir -p "$copy.new/.check" || die "cannot write to $all"
  sources | tar cf - -T - | (cd "$copy.new" && tar xf -) || die "cannot copy the project"
  [ ! -d build/include ] || { mkdir -p "$copy.new/build" && cp -Rp build/include "$copy.new/build/"; }
  blank blank "$file" >"$copy.new/$file" || die "cannot make the blank"
  # Pages show the code as it is: in the copy, the blank.
  [ ! -x dev/pages.sh ] || (cd "$copy.new" && dev/pages.sh >/dev/null) || die "cannot bring the pages up to date"
  # What was written goes when the new copy is there, and not before.
  rm -rf "$copy" && mv "$copy.new" "$copy" || die "cannot replace $copy"
  printf '%s/ is a copy of the project with a blank in it.\n\n' "$copy"
  describe
}

formula() {
  local formula
  formula=$(blank cut "$file") || exit
  [ -n "$formula" ] || formula="Nothing was cut: the comments of $file have the formula. In the blank stood:
$(hint)"
  printf '%s\n' "$formula"
}

# ---- the judge -----------------------------------------------------------------------------------

# The exercise whose file was written last.
newest() {
  local files=() one
  for one in $(names); do
    row "$one"
    [ ! -e "$written" ] || files+=("$written")
  done
  [ ${#files[@]} -gt 0 ] || die "none is begun: make exercise LAYER=linear begins one, make exercise lists them"
  # shellcheck disable=SC2012
  one=$(ls -t "${files[@]}" | head -n 1) one=${one#"$all/"}
  echo "${one%%/*}"
}

# The project's own versions of all that this judge knows, as textbook::answer::NAME. (In a shell of its own.)
answers() (
  wanted=$judge
  echo '#pragma once'
  for one in $(names); do
    row "$one"
    case $judge:$file in "$wanted":*.hpp) ;; *) continue ;; esac
    printf '#include "%s"\nnamespace textbook::answer {\n' "$file"
    blank function "$file" || exit
    echo '}'
  done
)

# The compiler's own words, without the templates around them.
errors() {
  awk '
    /^[^ ].*: (fatal )?error: / || /^[^ ].*: warning: / { shown = !said[$0]++ && ++count <= 4; if (shown) print; next }
    /^[^ ]/ || / from / { shown = 0 }
    shown' "$1"
}

compile() {
  local work=$copy/.check cxx=${CXX:-c++} log=$copy/.check/log object=$all/.judge.o
  answers >"$work/answer.hpp" || die "cannot take the answer out of $file"
  if [ ! "$object" -nt $here/check.cpp ] || [ ! "$object" -nt $here/check.hpp ]; then
    # shellcheck disable=SC2086
    $cxx -std=c++20 -O1 -c $here/check.cpp -o "$object" || die "no C++20 compiler? CXX names another than $cxx"
  fi
  # Unoptimized: it compiles sooner, and a loop that never ends is one.
  # shellcheck disable=SC2086
  LC_ALL=C $cxx -std=c++20 -O0 -Wall -Wno-sign-compare -Wno-unused-function -I"$copy" -I"$work" \
    $here/judges/$judge.cpp "$object" -o "$work/judge" >"$log" 2>&1 || { explain "$log"; return 1; }
  errors "$log"
}
explain() {
  echo "It does not compile:"
  echo
  errors "$1" >"$1.short"
  if [ -s "$1.short" ]; then cat "$1.short"; else cat "$1"; fi
}

check() {
  local wanted=${1:-} status
  [ -n "$wanted" ] || wanted=$own
  [ -n "$wanted" ] || wanted=$(newest) || exit
  row "$wanted"
  [ -d "$copy" ] || die "$name is not begun: make exercise LAYER=$name"
  rm -f "$copy/.check/done"
  printf '%s · %s\n\n' "$name" "$written"
  compile || exit 1
  { "$copy/.check/judge" "$name"; } 2>/dev/null
  status=$?
  case $status in
    0) touch "$copy/.check/done"; praise ;;
    1) printf '%s\n' "Open $written, mend it, make check-exercise." ;;
    142) echo; echo "It did not end within 10 seconds: a loop that never stops? A size_t is never below 0." ;;
    *)
      echo
      echo "It crashed (status $status): an index far outside of its tensor, or a pointer that is null?"
      echo "Which may be null, the comments say."
      ;;
  esac
  return "$status"
}

praise() {
  local next
  printf 'compare  %s, as the project has it\n' "$file"
  case $file in layers/textbook/*)
    printf "train    cd %s && make train ARGS='--textbook --batch 1 --steps 20', with what you wrote\n" "$copy"
    printf 'faster   layers/%s.cpp; layers/%s.md tells why, in "The fast version"\n' "$page" "$page"
    ;;
  esac
  # The next that is not done, from here on around.
  next=$(for one in $(names | sed "1,/^$name\$/d") $(names); do done_mark "$one" || echo "$one"; done | head -n 1)
  echo "next     ${next:+make exercise LAYER=}${next:-none: all are done}"
}

case ${1:-} in
  begin) begin "${2:?which?}" ;;
  check) check "${2:-}" ;;
  '' | list) list ;;
  *) die "unknown word '$1': begin NAME, check [NAME]" ;;
esac
