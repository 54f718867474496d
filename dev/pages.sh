#!/bin/sh
# make pages: copies code from the sources into the pages that show it. A page marks the place with a line
#
#   <!-- listing: layers/textbook/linear.hpp -->               the whole file
#   <!-- listing: layers/textbook/attention.hpp softmax -->    the section below its line "// ---- softmax ----..."
#   <!-- excerpt: layers/config/placements.cpp {.name = "deepnorm" -->  a piece, from the first line that contains it
#
# followed by a block ```cpp ... ```, whose lines are replaced. A section ends at the next such line or at the end of
# the namespace. The text of an excerpt is matched literally. An excerpt ends
#
#   if it starts at the margin    at the first line that starts with }, or with its first line if that ends in ; or };
#                                 the comment and the template<...> right above it are included
#   if it is indented             at the first line that ends in }, or ; before any // comment and closes all braces:
#                                 a row of a table, a statement
#
#   dev/pages.sh [--check] [PAGE...]    default: all pages in layers/
#
# --check writes nothing, and fails if a page is out of date.
set -eu
cd "$(dirname "$0")/.."
check=
[ "${1:-}" = --check ] && { check=1; shift; }
[ $# -gt 0 ] || set -- layers/*.md layers/*/*.md

fill='
function fail(what) { printf "%s:%d: %s\n", page, NR, what | "cat >&2"; exit failed = 1 }
function listing(path, section,    line, border, inside, blank, some) {
  inside = section == ""
  while ((getline line < path) > 0) {
    border = section != "" && line ~ /^(\/\/ ---- |}  \/\/ namespace)/
    if (border) inside = index(line, "// ---- " section " -") == 1
    if (border || !inside) continue
    if (line == "") { blank = blank "\n"; continue }
    printf "%s%s\n", some ? blank : "", line
    some = 1; blank = ""
  }
  close(path)
  if (!some) fail("there is no " path " " section)
}
function excerpt(path, text,    line, bare, above, inside, indented, depth, ended) {
  while (!ended && (getline line < path) > 0) {
    if (!inside && !index(line, text)) {
      above = line ~ /^(\/\/|template)/ ? above line "\n" : ""
      continue
    }
    bare = line
    sub(/ *\/\/.*/, "", bare)
    if (!inside) indented = line ~ /^ /
    if (!inside && !indented) printf "%s", above
    depth += gsub(/[{]/, "{", bare) - gsub(/[}]/, "}", bare)
    ended = indented ? depth <= 0 && bare ~ /([}],|;)$/ : line ~ /^[}]/ || (!inside && bare ~ /[;}]$/)
    inside = 1
    print line
  }
  close(path)
  if (!ended) fail(inside ? "no end of \"" text "\" in " path : path " has no \"" text "\"")
}
marked && !/^```[a-z]/ { fail("a mark without a block after it") }
marked {
  print
  if (kind == "listing") listing(path, text); else excerpt(path, text)
  marked = 0; skipping = 1; next
}
skipping && !/^```$/ { next }
skipping { skipping = 0 }
/^<!-- (listing|excerpt): .* -->$/ {
  kind = substr($2, 1, length($2) - 1); path = $3; marked = 1
  text = substr($0, index($0, path) + length(path) + 1); sub(/ *-->$/, "", text)
  if (kind == "excerpt" && text == "") fail("excerpt: PATH TEXT")
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
    # Next to the page, so that mv replaces it atomically.
    cp "$new" "$page.new" && mv "$page.new" "$page"
    echo "$page"
  fi
done
exit $status
