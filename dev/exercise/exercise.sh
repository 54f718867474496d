#!/usr/bin/env bash
# Exercises: copies of the project without one function, and their checker (`make exercise`).
#
#   dev/exercise/exercise.sh               lists the exercises and which are done
#   dev/exercise/exercise.sh begin NAME    copies the project to build/exercise/NAME without NAME's function;
#                                          HINT=1 prints the formula, FORCE=1 starts again
#   dev/exercise/exercise.sh blank NAME    prints NAME's file with the blank
#   dev/exercise/exercise.sh check [NAME]  compiles and checks NAME (default: the latest exercise)
#
# CXX is the compiler, EXERCISE_DIR replaces build/exercise. exercises.txt has a row for each exercise. blank.awk makes
# the blank from the current file.
set -u
cd "$(dirname "$0")/../.." || exit 1
# Inside a copy: use the project's exercises; the default is the copy's own.
own=
if [ -d .check ]; then own=${PWD##*/} && cd ../../.. || exit 1; fi

here=dev/exercise all=${EXERCISE_DIR:-build/exercise}
table=$here/exercises.txt
die() { printf 'exercise: %s\n' "$*" >&2; exit 2; }  # 1: the answer is not right yet

# ---- the table -----------------------------------------------------------------------------------

names() { sed -n 's/^\([a-z_]*\) | .*/\1/p' "$table"; }

# Sets name level file blanks judge page cut what, and copy and written.
row() {
  local line
  name=$(printf %s "$1" | tr 'A-Z-' 'a-z_')
  line=$(grep "^$name | " "$table") || die "there is no exercise called '$1': $(names | tr '\n' ' ')"
  IFS=$'\t' read -r _ level file blanks judge page cut what <<<"${line// | /$'\t'}"
  page=$(cd layers && ls ./*/"$page.md") && page=${page#./} && page=${page%.md}
  copy=$all/$name written=$all/$name/$file
}

hint() { awk -v name="$name" '/^[a-z]/ { on = $1 == name } on && sub(/^    /, "")' "$table"; }

# blank WANT FILE: the output of blank.awk
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
  echo "make exercise LAYER=linear          makes build/exercise/linear/, a copy without linear_backward"
  echo "make check-exercise                 checks your latest exercise"
  echo "make check-exercise LAYER=linear    checks this one"
  echo "make exercise LAYER=linear HINT=1   prints the formula"
}

# ---- a copy of the project -----------------------------------------------------------------------

# Says which file to write and which page to read.
describe() {
  local lines
  lines=$(grep -n 'Yours to write' "$written" | cut -d: -f1 | tr '\n' ' ' | sed 's/ $//; s/ /, /g')
  printf 'write    %s%s\n' "$written" "${lines:+, line $lines}"
  printf '         %s\n' "${blanks//\{/} · $what"
  [ ! -e "$copy/layers/$page.md" ] || printf 'read     %s/layers/%s.md\n' "$copy" "$page"
  printf 'avoid    %s in the project itself: it has the answer\n' "$file"
  printf 'then     make check-exercise LAYER=%s\n' "$name"
  printf 'stuck    make exercise LAYER=%s HINT=1 prints the formula\n' "$name"
}

# All files except hidden ones, builds, runs and large texts.
sources() { find . \( -name '.?*' -o -path ./build -o -path ./runs \) -prune -o -type f -size -16000k -print; }

# reuse COPY: takes over what is built, so that `make` in the copy compiles only what reads the blank. The compiler
# replaces objects, so they can be links; other files it overwrites. clang's .gch names its folder.
reuse() {
  local out file kept
  for out in build/auto-*/; do
    [ -e "$out/command" ] && ! grep -q clang "$out/command" || continue
    (cd "$out" && find . -type d) | (mkdir -p "$1/$out" && cd "$1/$out" && xargs mkdir -p)
    find "$out" -type f \( -name '*.o' -o -name '*.gch' \) | while IFS= read -r file; do
      ln "$file" "$1/$file" 2>/dev/null || cp -p "$file" "$1/$file"
    done
    find "$out" -type f ! -name '*.o' ! -name '*.gch' -size -1000k | tar cf - -T - | (cd "$1" && tar xf -)
  done
  for kept in build/include build/setup build/config-auto-*; do [ ! -e "$kept" ] || cp -Rp "$kept" "$1/build/"; done
}

begin() {
  row "$1"
  if [ -n "${HINT:-}" ]; then
    formula
    exit
  fi
  if [ -e "$copy" ] && [ -z "${FORCE:-}" ]; then
    printf '%s/ exists already. FORCE=1 deletes it and starts again.\n\n' "$copy"
    describe
    exit 1
  fi
  rm -rf "$copy.new" && mkdir -p "$copy.new/.check" || die "cannot write to $all"
  sources | tar cf - -T - | (cd "$copy.new" && tar xf -) || die "cannot copy the project"
  mkdir -p "$copy.new/build" && reuse "$copy.new" || die "cannot copy what is built"
  blank blank "$file" >"$copy.new/$file" || die "cannot make the blank"
  # In the copy, pages show the blank.
  [ ! -x dev/pages.sh ] || (cd "$copy.new" && dev/pages.sh >/dev/null) || die "cannot bring the pages up to date"
  # Deletes the old copy only after the new one is complete.
  rm -rf "$copy" && mv "$copy.new" "$copy" || die "cannot replace $copy"
  printf '%s/ is a copy of the project with a blank to fill in.\n\n' "$copy"
  describe
}

formula() {
  local formula
  formula=$(blank cut "$file") || exit
  [ -n "$formula" ] || formula="The comments of $file have the formula. The comment in the blank was:
$(hint)"
  printf '%s\n' "$formula"
}

# ---- the judge -----------------------------------------------------------------------------------

# The exercise whose file was changed last.
newest() {
  local files=() one
  for one in $(names); do
    row "$one"
    [ ! -e "$written" ] || files+=("$written")
  done
  [ ${#files[@]} -gt 0 ] || die "no exercise is started: \`make exercise\` lists them"
  # shellcheck disable=SC2012
  one=$(ls -t "${files[@]}" | head -n 1) one=${one#"$all/"}
  echo "${one%%/*}"
}

# The project's own versions of this judge's functions, as textbook::answer::NAME. (Runs in a subshell.)
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

# The compiler's errors without the template backtraces.
errors() {
  awk '
    /^[^ ].*: (fatal )?error: / || /^[^ ].*: warning: / { shown = !said[$0]++ && ++count <= 4; if (shown) print; next }
    /^[^ ]/ || / from / { shown = 0 }
    shown' "$1"
}

compile() {
  local work=$copy/.check cxx=${CXX:-c++} log=$copy/.check/log object=$all/.judge.o
  answers >"$work/answer.hpp" || die "cannot read the answer from $file"
  if [ ! "$object" -nt $here/check.cpp ] || [ ! "$object" -nt $here/check.hpp ]; then
    # shellcheck disable=SC2086
    $cxx -std=c++20 -O1 -c $here/check.cpp -o "$object" || die "$cxx does not work: set CXX to a C++20 compiler"
  fi
  # Unoptimized: it compiles faster, and an endless loop stays one.
  # shellcheck disable=SC2086
  LC_ALL=C $cxx -std=c++20 -O0 -Wall -Wno-sign-compare -Wno-unused-function -Wno-unused-variable \
    -Wno-unused-but-set-variable -I"$copy" -I"$work" \
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
  [ -d "$copy" ] || die "$name is not started: make exercise LAYER=$name"
  rm -f "$copy/.check/done"
  printf '%s · %s\n\n' "$name" "$written"
  compile || exit 1
  { "$copy/.check/judge" "$name"; } 2>/dev/null
  status=$?
  case $status in
    0) touch "$copy/.check/done"; praise ;;
    1) printf '%s\n' "Correct $written, then run make check-exercise." ;;
    142) echo; echo "It did not end within 10 seconds. Is there an endless loop? A size_t is never below 0." ;;
    *)
      echo
      echo "It crashed (status $status). Is an index out of range, or a pointer null?"
      echo "The comments say which pointers may be null."
      ;;
  esac
  return "$status"
}

praise() {
  local next
  printf "compare  %s in the project has its version\n" "$file"
  case $file in layers/textbook/*)
    printf "train    cd %s && make train ARGS='--textbook --batch 1 --steps 20' uses your function\n" "$copy"
    printf 'faster   layers/%s.md, "The fast version"\n' "$page"
    ;;
  esac
  # The next one that is not done, in circular order.
  next=$(for one in $(names | sed "1,/^$name\$/d") $(names); do done_mark "$one" || echo "$one"; done | head -n 1)
  echo "next     ${next:+make exercise LAYER=}${next:-none: all are done}"
}

case ${1:-} in
  begin) begin "${2:?name an exercise}" ;;
  check) check "${2:-}" ;;
  blank) row "${2:?name an exercise}" && blank blank "$file" ;;
  '' | list) list ;;
  *) die "unknown command '$1': use begin NAME or check [NAME]" ;;
esac
