#pragma once
// The lines of a grammar that is written as text: headers without an indent, and entries with one.

#include <string>
#include <string_view>
#include <vector>

// A rule's header or an entry, with the lines that continue it: those with a deeper indent.
struct GrammarLine {
  bool is_header;
  std::string words;
};
std::vector<GrammarLine> grammar_lines(std::string_view source);

// The parts of a text between separators, without the spaces around them.
std::vector<std::string> split(std::string_view text, std::string_view separator);
