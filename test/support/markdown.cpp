#include "markdown.hpp"

#include <algorithm>
#include <sstream>

namespace pages {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\0'; }

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == line.npos ? "" : line.substr(first, line.find_last_not_of(' ') + 1 - first);
}

// "- text", "* text", "12. text"
bool begins_item(const std::string& line) {
  const std::string text = trimmed(line);
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return text.starts_with("- ") || text.starts_with("* ") || (digits > 0 && text.substr(digits, 2) == ". ");
}

int line_at(const Block& block, size_t offset) {
  return block.line + static_cast<int>(std::count(block.text.begin(), block.text.begin() + offset, '\n'));
}

// The next run of exactly `ticks` backticks.
size_t closing_ticks(const std::string& text, size_t from, size_t ticks) {
  for (size_t at = text.find('`', from); at != text.npos; at = text.find('`', at)) {
    const size_t end = std::min(text.find_first_not_of('`', at), text.size());
    if (end - at == ticks) return at;
    at = end;
  }
  return text.npos;
}

struct Range {
  size_t begin, end, ticks;  // with the backticks
};
std::vector<Range> code_ranges(const std::string& text) {
  std::vector<Range> ranges;
  for (size_t at = text.find('`'); at != text.npos; at = text.find('`', at)) {
    const size_t inside = std::min(text.find_first_not_of('`', at), text.size()), ticks = inside - at;
    const size_t close = closing_ticks(text, inside, ticks);
    if (close != text.npos) ranges.push_back({at, close + ticks, ticks});
    at = close == text.npos ? inside : close + ticks;
  }
  return ranges;
}

// $`...`$ is a formula, not code.
bool in_dollars(const std::string& text, const Range& r) {
  return r.begin > 0 && text[r.begin - 1] == '$' && r.end < text.size() && text[r.end] == '$';
}

}  // namespace

// ---- blocks ------------------------------------------------------------------------------------------------

Page parse_page(const std::string& path, const std::string& text) {
  using Kind = Block::Kind;
  Page page{path, {}};
  std::istringstream in(text);
  std::string line;
  bool fenced = false, open = false, in_list = false;  // open: the next line may belong to the last block
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string bare = trimmed(line);
    const auto begin = [&](Kind kind, const std::string& words, const std::string& info = "") {
      page.blocks.push_back({kind, number, words, info});
      open = kind == Kind::paragraph || kind == Kind::table;
    };
    if (bare.starts_with("```") && (fenced || bare.find('`', 3) == bare.npos)) {
      fenced = !fenced;
      if (fenced) begin(Kind::code, "", bare.substr(3)), page.blocks.back().line++;
    } else if (fenced) {
      page.blocks.back().text += line + "\n";
    } else if (bare.empty()) {
      open = false;
    } else if (line[0] == '#' && line.find_first_not_of('#') == line.find(' ')) {
      begin(Kind::heading, trimmed(line.substr(line.find(' '))), line.substr(0, line.find(' ')));
      in_list = false;
    } else if (line.starts_with("<!--") && line.ends_with("-->")) {
      begin(Kind::comment, line);
    } else if (!open && !in_list && line.starts_with("    ")) {
      begin(Kind::code, line + "\n", "indented");
    } else {
      const Kind kind = line[0] == '|' ? Kind::table : Kind::paragraph;
      if (kind == Kind::paragraph && line[0] != ' ') in_list = begins_item(line) || (open && in_list);
      if (open && page.blocks.back().kind == kind && !begins_item(line))
        page.blocks.back().text += "\n" + line;
      else
        begin(kind, line);
    }
  }
  return page;
}

std::vector<Span> code_spans(const Block& block) {
  std::vector<Span> spans;
  if (!block.prose()) return spans;
  for (const Range& r : code_ranges(block.text)) {
    if (in_dollars(block.text, r)) continue;
    std::string inside = block.text.substr(r.begin + r.ticks, r.end - r.begin - 2 * r.ticks);
    std::replace(inside.begin(), inside.end(), '\n', ' ');
    spans.push_back({line_at(block, r.begin), inside});
  }
  return spans;
}

// ---- words -------------------------------------------------------------------------------------------------

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char c : text + " ") {
    if (quote && c == quote)
      quote = 0;
    else if (!quote && (c == '\'' || c == '"'))
      quote = c, inside = true;
    else if (!quote && is_space(c)) {
      if (inside) words.push_back(word);
      word.clear(), inside = false;
    } else {
      word += c, inside = true;
    }
  }
  return words;
}

}  // namespace pages
