# Removes the bodies of functions from a C++ file, or extracts the functions.
#
#   NAMES='linear_backward'  names of functions; {"deepnorm" is the row of a table with that name
#   WANT=blank     the file with blank bodies, HINT in the last of them, and the comments of their section cut
#                  after the match of CUT (a section begins with a line "// ---- NAME ----...")
#   WANT=function  only the functions
#   WANT=cut       only the text cut from the comments
#
# A function must begin at the start of a line. A blank body keeps its first lines if they name the members of an
# argument: "const auto [N, I, O] = shape;", "const size_t S = k.S, N = k.N;".

function code(text) { sub(/\/\/.*/, "", text); return text }
function fail(text) { print "blank.awk: " text > "/dev/stderr"; failed = 1; exit 1 }

# The line in which `name` begins: a function's name and (, or a row's {.name = "...
function find(name,    n, text, row) {
  row = "{.name = " substr(name, 2)
  for (n = 1; n <= NR; ++n) {
    text = code(line[n])
    if (name ~ /^[{]/ ? index(text, row) : text ~ ("^[A-Za-z](.*[^A-Za-z0-9_])?" name "[(]")) return n
  }
  fail(FILENAME " has no " name)
}

# Sets open_line, open_at and close_line: the first brace outside parentheses after line `start`, and its partner.
function braces(start,    n, i, c, text, round, depth) {
  for (n = start; n <= NR; ++n) {
    text = code(line[n])
    for (i = 1; i <= length(text); ++i) {
      c = substr(text, i, 1)
      if (c == "(") ++round
      if (c == ")") --round
      if (c == "{" && (depth || !round) && depth++ == 0) { open_line = n; open_at = i }
      if (c == "}" && depth && --depth == 0) { close_line = n; return }
    }
  }
  fail(FILENAME ": no body from line " start " on")
}

# Whether a line names members of an argument.
function unpacks(text) {
  return text ~ /^  const auto(&)? \[[A-Za-z0-9_, ]+\] = [a-z]+;$/ ||
         text ~ /^  const size_t [A-Z]+ = [a-z]+[.][A-Z]+(, [A-Z]+ = [a-z]+[.][A-Z]+)*;$/
}

# Prints the comment in a blank. The last blank has the hint.
function comment(indent, last,    parts, count, i) {
  print indent "// Yours to write." (last ? "" : " See below.")
  count = last ? split(ENVIRON["HINT"], parts, "\n") : 0
  for (i = 1; i <= count; ++i) if (parts[i] != "") print indent "// " parts[i]
}

# The column of a comment's text, 0 if the line is not a comment.
function depth_of(text) { return match(text, /^ *\/\/ */) ? RLENGTH : 0 }

{ line[NR] = $0 }

END {
  if (failed) exit 1
  want = ENVIRON["WANT"]
  cut = ENVIRON["CUT"]
  count = split(ENVIRON["NAMES"], names, " ")
  for (k = 1; k <= count; ++k) {
    first[k] = find(names[k])
    returns[k] = line[first[k]] !~ /^void/
    braces(first[k])
    from[k] = open_line; brace[k] = open_at; to[k] = close_line
    if (line[first[k] - 1] ~ /^template/) --first[k]
  }

  if (want == "function") {
    for (k = 1; k <= count; ++k) { for (n = first[k]; n <= to[k]; ++n) print line[n]; print "" }
    exit
  }

  # The section of the file that the functions are in.
  for (section = from[1]; section > 1 && line[section] !~ /^\/\/ ---- /; ) --section

  # Cut from after CUT to the end of the line, and the lines below that are indented at least as far.
  for (n = section; n <= NR && cut != "" && cut != "-"; ++n) {
    if (n > section && line[n] ~ /^\/\/ ---- /) break
    depth = depth_of(line[n])
    if (depth && match(line[n], cut)) {
      deep = RSTART + RLENGTH - 1
      gone[n] = line[n]
      line[n] = substr(line[n], 1, deep) (substr(line[n], deep, 1) == " " ? "" : " ") "(yours to find)"
    } else if (depth && deep && depth >= deep) {
      gone[n] = line[n]
      dropped[n] = 1
    } else deep = 0
  }
  if (want == "cut") {
    for (n = 1; n <= NR; ++n) if (n in gone) print gone[n]
    exit
  }

  k = 1
  for (n = 1; n <= NR; ++n) {
    if (n in dropped) continue
    if (k > count || n < from[k]) { print line[n]; continue }
    if (names[k] ~ /^[{]/) {  # a row: keep its name and its source
      for (m = n; m < to[k]; ++m) {
        print line[m]
        if (line[m] ~ /[.]source = /) break
      }
      comment("       ", k == count)
      print "      },"
    } else {
      print substr(line[n], 1, brace[k])
      for (m = n + 1; unpacks(line[m]); ++m) print line[m]
      comment("  ", k == count)
      if (returns[k]) print "  return {};"
      print "}"
    }
    n = to[k++]
  }
}
