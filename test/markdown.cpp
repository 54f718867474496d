#include "markdown.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

namespace pages {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80; }
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

std::string without_code(const std::string& text) {
  std::string left = text;
  for (const Range& r : code_ranges(text))
    for (size_t i = r.begin; i < r.end; ++i)
      if (left[i] != '\n' && !in_dollars(text, r)) left[i] = 'x';
  return left;
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

std::vector<Span> links(const Block& block) {
  std::vector<Span> found;
  if (!block.prose()) return found;
  const std::string text = without_code(block.text);
  for (const auto& [opening, closing] : {std::pair{"](", ')'}, {"src=\"", '"'}, {"href=\"", '"'}})
    for (size_t at = text.find(opening); at != text.npos; at = text.find(opening, at + 1)) {
      const size_t first = at + std::string(opening).size(), end = text.find_first_of(std::string{closing, ' '}, first);
      if (end != text.npos) found.push_back({line_at(block, at), text.substr(first, end - first)});
    }
  return found;
}

// ---- headings ----------------------------------------------------------------------------------------------

namespace {

// GitHub's anchor for a heading: lowercase, with hyphens for spaces, and only letters, digits, hyphens and underscores.
// Latin, Greek and Cyrillic letters outside ASCII stay, with their combining accents.
std::string slug(const std::string& heading) {
  std::string s;
  for (size_t i = 0; i < heading.size();) {
    const unsigned char c = heading[i];
    const size_t bytes = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (bytes == 1 && (std::isalnum(c) || c == '-' || c == '_')) s += static_cast<char>(std::tolower(c));
    if (c == ' ') s += '-';
    const std::string letter = heading.substr(i, bytes);
    if (bytes == 2 && c >= 0xc3 && letter != "×" && letter != "÷") s += letter;
    i += bytes;
  }
  return s;
}

}  // namespace

std::vector<std::string> anchors(const Page& page) {
  std::vector<std::string> all;
  std::map<std::string, int> seen;
  for (const Block& block : page.blocks) {
    if (block.kind != Block::Kind::heading) continue;
    const std::string name = slug(block.text);
    const int before = seen[name]++;
    all.push_back(before == 0 ? name : name + "-" + std::to_string(before));
  }
  return all;
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

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells(1);
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '|' && (i == 0 || row[i - 1] != '\\'))
      cells.emplace_back();
    else
      cells.back() += row[i];
  }
  if (!cells.empty() && trimmed(cells.front()).empty()) cells.erase(cells.begin());
  if (!cells.empty() && trimmed(cells.back()).empty()) cells.pop_back();
  return cells;
}

// ---- formulas ----------------------------------------------------------------------------------------------

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

std::string fault_of_tex(const std::string& tex) {
  int depth = 0;
  for (size_t i = 0; i < tex.size() && depth >= 0; ++i) {
    if (tex[i] == '\\')
      ++i;
    else
      depth += (tex[i] == '{') - (tex[i] == '}');
  }
  if (depth != 0) return "braces do not balance";
  if (count(tex, "\\left") - count(tex, "\\leftarrow") != count(tex, "\\right") - count(tex, "\\rightarrow"))
    return "\\left and \\right do not balance";
  if (tex.find("\\operatorname") != tex.npos) return "GitHub has no \\operatorname: write \\mathrm";
  return "";
}

// Between dollars GitHub parses Markdown first (github/markup issue 1575): \{ \, \\ lose their backslash, and two _ or
// * may become emphasis. ```math and $`...`$ are safe.
std::string fault_of_dollars(const std::string& tex) {
  for (size_t i = 0; i + 1 < tex.size(); ++i) {
    if (tex[i] == '\\' && std::ispunct(static_cast<unsigned char>(tex[i + 1])))
      return "GitHub takes the \\ from " + tex.substr(i, 2) + ": write ```math or $`...`$";
    if (tex[i] == '<' && std::isalpha(static_cast<unsigned char>(tex[i + 1])))
      return "GitHub reads < and a letter as HTML: put a space between them";
  }
  return "";
}

// Whether a _ or * can begin or end emphasis (CommonMark 0.31, 6.2).
struct Delimiter {
  bool opens, closes;
};
Delimiter delimiter_at(const std::string& text, size_t i) {
  const char before = i > 0 ? text[i - 1] : ' ', after = i + 1 < text.size() ? text[i + 1] : ' ';
  const bool punctuation_before = !is_space(before) && !is_alnum(before);
  const bool punctuation_after = !is_space(after) && !is_alnum(after);
  const bool left = !is_space(after) && (!punctuation_after || is_space(before) || punctuation_before);
  const bool right = !is_space(before) && (!punctuation_before || is_space(after) || punctuation_after);
  if (text[i] == '*') return {left, right};
  return {left && (!right || punctuation_before), right && (!left || punctuation_after)};
}

struct Formula {
  size_t begin, end;  // without the dollars
  bool raw;           // $`...`$
};

}  // namespace

std::vector<Span> faults_of_formulas(const Block& block) {
  std::vector<Span> faults;
  if (block.kind == Block::Kind::code && block.info == "math") {
    const std::string fault = fault_of_tex(block.text);
    if (!fault.empty()) faults.push_back({block.line, fault});
  }
  if (!block.prose()) return faults;
  const std::string text = without_code(block.text);
  const auto complain = [&](size_t at, const std::string& fault) {
    if (!fault.empty()) faults.push_back({line_at(block, at), fault});
  };
  std::vector<Formula> formulas;
  for (size_t at = text.find('$'); at != text.npos; at = text.find('$', at)) {
    if (at > 0 && text[at - 1] == '\\') {
      ++at;
      continue;
    }
    const std::string next = text.substr(at + 1, 1), mark = next == "$" ? "$$" : next == "`" ? "$`" : "$";
    const std::string closing = mark == "$`" ? "`$" : mark;
    const size_t begin = at + mark.size(), end = text.find(closing, begin);
    if (end == text.npos) {
      complain(at, "a formula begins with " + mark + " and does not end");
      break;
    }
    if (mark == "$" && at > 0 && (is_alnum(text[at - 1]) || text[at - 1] == '-'))
      complain(at, "GitHub sees no formula right behind a letter, digit or hyphen");
    if (mark == "$" && (is_space(text[begin]) || is_space(text[end - 1])))
      complain(at, "GitHub sees no formula with a space at its edge");
    formulas.push_back({begin, end, mark == "$`"});
    at = end + closing.size();
  }
  std::map<char, bool> opened;
  for (const Formula& f : formulas) {
    const std::string tex = text.substr(f.begin, f.end - f.begin);
    complain(f.begin, fault_of_tex(tex));
    if (f.raw) continue;
    complain(f.begin, fault_of_dollars(tex));
    for (size_t i = f.begin; i < f.end; ++i) {
      if (text[i] != '_' && text[i] != '*') continue;
      const Delimiter d = delimiter_at(text, i);
      if (d.closes && opened[text[i]]) {
        complain(i, "GitHub reads this and an earlier " + text.substr(i, 1) +
                        " as emphasis: write \\hat x_i for \\hat{x}_i, ```math or $`...`$");
        opened[text[i]] = false;
      } else if (d.opens) {
        opened[text[i]] = true;
      }
    }
  }
  return faults;
}

}  // namespace pages
