#!/bin/sh
# make pages: writes the code that pages show into them, so that no copy can grow old. Behind a mark, a line of its own,
#
#   <!-- listing: layers/textbook/linear.hpp -->       the whole file
#   <!-- excerpt: layers/model/config.cpp {"deepnorm" -->    a piece of it, from the first line that has {"deepnorm" in it
#
# stands a block ```cpp ... ```, whose lines become those of the file. The text of an excerpt is taken letter for letter
# (no pattern, quotes are part of it). A piece ends
#
#   where it starts at the margin     at the first line that starts with }, or with its first if that ends in ; or };
#                                     the comment and the template<...> right above it go with it
#   where it is indented              at the first line that ends in }, or ; whatever // remark is behind: a table's
#                                     row, a statement
#
#   dev/pages.sh [--check] [PAGE...]  pages: all below layers/ if none is named; --check writes nothing, and fails if one is
#                                     out of date
set -eu
cd "$(dirname "$0")/.."
check=
[ "${1:-}" = --check ] && { check=1; shift; }
[ $# -gt 0 ] || set -- layers/*.md layers/*/*.md

fill='
function fail(what) { printf "%s:%d: %s\n", page, NR, what | "cat >&2"; exit failed = 1 }
function listing(path,    line, some) {
  while ((getline line < path) > 0) { print line; some = 1 }
  close(path)
  if (!some) fail("there is no " path)
}
function excerpt(path, text,    line, bare, above, inside, indented, ended) {
  while (!ended && (getline line < path) > 0) {
    if (!inside && !index(line, text)) {
      above = line ~ /^(\/\/|template)/ ? above line "\n" : ""
      continue
    }
    bare = line
    sub(/ *\/\/.*/, "", bare)
    if (!inside) indented = line ~ /^ /
    if (!inside && !indented) printf "%s", above
    ended = indented ? bare ~ /([}],|;)$/ : line ~ /^[}]/ || (!inside && bare ~ /[;}]$/)
    inside = 1
    print line
  }
  close(path)
  if (!ended) fail(inside ? "no end of \"" text "\" in " path : path " has no \"" text "\"")
}
marked && !/^```[a-z]/ { fail("a mark, and no block behind it") }
marked {
  print
  if (kind == "listing") listing(path); else excerpt(path, text)
  marked = 0; skipping = 1; next
}
skipping && !/^```$/ { next }
skipping { skipping = 0 }
/^<!-- (listing|excerpt): .* -->$/ {
  kind = substr($2, 1, length($2) - 1); path = $3; marked = 1
  text = substr($0, index($0, path) + length(path) + 1); sub(/ *-->$/, "", text)
  if ((kind == "excerpt") != (text != "")) fail("listing: PATH, or excerpt: PATH TEXT")
}
{ print }
END { if (!failed && (marked || skipping)) fail("a block without end") }
'

new=$(mktemp)
trap 'rm -f "$new"' EXIT
status=0
for page; do
  awk -v page="$page" "$fill" "$page" >"$new" || { status=2; continue; }
  cmp -s "$new" "$page" && continue
  if [ -n "$check" ]; then
    echo "$page does not show the code as it is: \`make pages\` brings it up to date"
    [ $status -ne 0 ] || status=1
  else
    # Beside the page, so that it is moved whole.
    cp "$new" "$page.new" && mv "$page.new" "$page"
    echo "$page"
  fi
done
exit $status
