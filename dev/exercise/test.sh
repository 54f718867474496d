#!/usr/bin/env bash
# Tests the exercises: each blank must fail, the project's own code must pass, and for each mistake in mistakes.txt the
# judge must give the answer listed there. Works in build/exercise-test/. Ends with "N passed, M failed".
#
#   dev/exercise/test.sh          all
#   dev/exercise/test.sh NAME...  some
#   dev/exercise/test.sh --fit    of all, whether the blank and the mistakes still fit their file; compiles nothing
set -u
cd "$(dirname "$0")/../.." || exit 1
unset FORCE HINT
export EXERCISE_DIR=build/exercise-test
exercise=dev/exercise/exercise.sh results=$EXERCISE_DIR/results

# verdict WHAT STATUS: prints one line and appends a letter to $results
verdict() {
  printf '%s' "$2" >>"$results"
  printf '%s  %s\n' "$([ "$2" = p ] && echo 'ok    ' || echo 'FAILED')" "$1"
}

# judged NAME STATUS WORDS WHAT: whether check ends with the status and prints the words
judged() {
  local output status
  output=$($exercise check "$1" 2>&1)
  status=$?
  if [ $status = "$2" ] && [ "${output#*"$3"}" != "$output" ]; then return 0; fi
  printf 'status %s, wanted %s; wanted to read: %s\n%s\n' $status "$2" "$3" "$output"
  return 1
}
expect() { # NAME STATUS WORDS WHAT
  local output
  if output=$(judged "$@"); then verdict "$1: $4" p; else verdict "$1: $4" f; printf '%s\n' "$output"; fi
}

# replaced FILE OLD NEW: the file with the one OLD replaced
replaced() {
  local text before after
  text=$(cat "$1" && echo .) && text=${text%.}
  before=${text%%"$2"*} after=${text#*"$2"}
  [ "$before" != "$text" ] && [ "${after#*"$2"}" = "$after" ] || return
  printf %s "$before$3$after"
}

# may_alias FILE FUNCTION: whether the function's section of the file says that one array may be another
may_alias() {
  awk -v name="$2" '
    /^\/\/ ---- / { said = 0 }
    /^\/\/ .* may be [a-z]+[,.]?( |$)/ && !/may be null/ { said = 1 }
    index($0, "void " name "(") { found = said }
    END { exit !found }' "$1"
}

# In `make`, an answer that is not right yet is no error.
quiet_make() {
  local output
  if output=$(make check-exercise LAYER="$1" 2>&1) && [ "${output#*"Not yet"}" != "$output" ] &&
    [ "${output#*'***'}" = "$output" ]; then
    verdict "$1: make ends without an error of its own" p
  else
    verdict "$1: make ends without an error of its own" f
    printf '%s\n' "$output"
  fi
  make check-exercise LAYER=nothing >/dev/null 2>&1 && verdict "make check-exercise LAYER=nothing fails" f
}

# What is built already is built in the copy, too: only what reads the blank is compiled.
reused() {
  local object
  for object in build/auto-*/layers/kernels/gemm.o; do
    if [ ! -e "$object" ] || grep -q clang "${object%%/layers/*}/command"; then continue; fi
    [ "$EXERCISE_DIR/$1/$object" -nt "$object" ] || [ "$object" -nt "$EXERCISE_DIR/$1/$object" ]
    verdict "$1: the copy has $object" "$([ $? = 1 ] && echo p || echo f)"
  done
}

file_of() { sed -n "s/^$1 | [^|]* | \([^ |]*\) | .*/\1/p" dev/exercise/exercises.txt; }

# fits NAME: its blank can be made, and the file has the old text of each mistake. Compiles nothing.
fits() {
  local name=$1 file line old status=p
  file=$(file_of "$name")
  $exercise blank "$name" >/dev/null || status=f
  while IFS= read -r line; do
    case $line in "$name | "*) ;; *) continue ;; esac
    line=${line#* | } old=${line%%' | '*}
    replaced "$file" "$old" "" >/dev/null && continue
    status=f
    echo "mistakes.txt: $file does not have this exactly once: $old"
  done <dev/exercise/mistakes.txt
  verdict "$name: the blank and the mistakes fit the file" $status
}

one() {
  local name=$1 function file line old new words
  file=$(file_of "$name")
  [ -e layers/*/"$(awk -F ' [|] ' -v name="$name" '$1 == name { print $6 }' dev/exercise/exercises.txt).md" ] ||
    verdict "$name: its page exists" f
  $exercise begin "$name" >/dev/null 2>&1 || { verdict "$name: begins" f; return; }
  expect "$name" 1 "Not yet: 0 of" "blank"
  function=$(sed -n "s/^$name | [^|]* | [^|]* | \([^ |]*\) | .*/\1/p" dev/exercise/exercises.txt)
  if may_alias "$file" "$function"; then
    grep -q "$function.*(out\[0\], out\[0\]" dev/exercise/judges/*.cpp || verdict "$name: judged with one buffer" f
  fi
  [ ! -x dev/pages.sh ] || (cd "$EXERCISE_DIR/$name" && dev/pages.sh --check) || verdict "$name: pages show the blank" f
  $exercise begin "$name" >/dev/null 2>&1 && verdict "$name: does not begin over what is there" f
  cp "$file" "$EXERCISE_DIR/$name/$file"
  expect "$name" 0 "Right in" "as the project has it"
  while IFS= read -r line; do
    case $line in "$name | "*) ;; *) continue ;; esac
    line=${line#* | }
    old=${line%%' | '*} line=${line#*' | '}
    case $line in '| '*) new='' words=${line#| } ;; *) new=${line%%' | '*} words=${line#*' | '} ;; esac
    if replaced "$file" "$old" "$new" >"$EXERCISE_DIR/$name/$file"; then
      local status=1
      case $words in "It crashed") status=139 ;; "It did not end") status=142 ;; esac
      expect "$name" $status "$words" "$old  ->  $new"
    else
      verdict "$name: mistakes.txt: the file does not have this exactly once: $old" f
    fi
  done <dev/exercise/mistakes.txt
  rm -rf "${EXERCISE_DIR:?}/$name"
}

all() { sed -n 's/^\([a-z_]*\) | .*/\1/p' dev/exercise/exercises.txt; }

rm -rf "$EXERCISE_DIR" && mkdir -p "$EXERCISE_DIR" && : >"$results" || exit
trap 'rm -rf "$EXERCISE_DIR"' EXIT
# shellcheck disable=SC2207
case ${1:-} in
  '') names=($(all)) ;;
  --fit)
    for name in $(all); do fits "$name"; done
    names=()
    ;;
  *) names=("$@") ;;
esac
$exercise check nothing 2>&1 | grep -q "there is no exercise called 'nothing'"
verdict "an unknown name is refused" "$([ $? = 0 ] && echo p || echo f)"

# Run the first alone, because it compiles the shared part. Then run one per processor.
if [ ${#names[@]} -gt 0 ]; then
  one "${names[0]}"
  if $exercise begin "${names[0]}" >/dev/null; then quiet_make "${names[0]}"; reused "${names[0]}"; fi
fi
workers=$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 1)
for ((w = 0; w < workers; w++)); do
  for ((i = 1 + w; i < ${#names[@]}; i += workers)); do one "${names[i]}"; done &
done
wait
letters=$(cat "$results") passed=${letters//f/} failed=${letters//p/}
echo
echo "${#passed} passed, ${#failed} failed"
[ -n "$passed" ] && [ -z "$failed" ]
