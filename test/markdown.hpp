#pragma once
// A parser for GitHub's Markdown, as far as the tests of pages need it: blocks and their contents.

#include <string>
#include <vector>

namespace pages {

struct Block {
  enum class Kind { heading, paragraph, table, code, comment } kind;
  int line;          // of its first line in the file
  std::string text;  // heading: its words; code: the lines between the fences; else the lines unchanged
  std::string info;  // heading: "##"; code: the language

  bool prose() const { return kind != Kind::code && kind != Kind::comment; }
};

struct Page {
  std::string path;
  std::vector<Block> blocks;
};

Page parse_page(const std::string& path, const std::string& text);

struct Span {
  int line;
  std::string text;
};
std::vector<Span> code_spans(const Block& block);  // the text in `...`, newlines as spaces
std::vector<Span> links(const Block& block);       // targets of links and pictures
std::vector<std::string> anchors(const Page& page);

std::vector<std::string> words_of(const std::string& text);       // split at spaces, with quotes as in a shell
std::vector<std::string> cells_of(const std::string& table_row);  // split at |, but not at \|

// Formulas that GitHub would not show as intended: without an end, with unbalanced braces, or with characters that
// its Markdown parser takes before its mathematics does.
std::vector<Span> faults_of_formulas(const Block& block);

}  // namespace pages
