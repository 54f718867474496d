#pragma once
// Finds the code blocks and the code spans of a Markdown page. python_ref/check_markdown.py parses the rest.

#include <string>
#include <vector>

namespace pages {

struct Block {
  enum class Kind { heading, paragraph, table, code, comment } kind;
  int line;          // the number of its first line in the file
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

std::vector<std::string> words_of(const std::string& text);  // split at spaces, with quotes as in a shell

}  // namespace pages
