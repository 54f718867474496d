#include "pages.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

namespace fs = std::filesystem;

namespace pages {
namespace {

// Words in backticks that belong to other programs.
constexpr struct {
  const char *word, *whose;
} kNotOurs[] = {
    {"apply_residual_connection_post_layernorm", "BLOOM's and Falcon's configuration"},
    {"modeling_llama.py", "repositories that dev/studies looks into"},
    {"num_layers", "one of them"},
    {"train_gpt2.c", "llm.c"},
    {"track_running_stats", "PyTorch's BatchNorm"},
    {"batch_norm", "PyTorch"},
};

bool is_ours(const std::string& word) {
  return std::none_of(std::begin(kNotOurs), std::end(kNotOurs), [&](const auto& row) { return word == row.word; });
}

struct Writer {
  const Page& page;
  Complaints complaints = {};
  void operator()(int line, const std::string& what) {
    complaints.push_back(page.path + ":" + std::to_string(line) + ": " + what);
  }
};

std::string beside(const Page& page, const std::string& path) {
  return (fs::path(page.path).parent_path() / path).lexically_normal();
}

}  // namespace

// ---- links -------------------------------------------------------------------------------------------------

Complaints wrong_links(const Page& page, const Tree& tree) {
  Writer complain{page};
  for (const Block& block : page.blocks)
    for (const auto& [line, target] : links(block)) {
      if (target.find("://") != target.npos || target.starts_with("mailto:")) continue;
      const size_t hash = std::min(target.find('#'), target.size());
      const std::string file = hash == 0 ? page.path : beside(page, target.substr(0, hash));
      if (hash > 0 && !tree.has_path(file)) {
        complain(line, "a link to " + target + ": there is no " + file);
      } else if (hash < target.size()) {
        const auto text = tree.files.find(file);
        const std::vector<std::string> known =
            anchors(hash == 0 ? page : parse_page(file, text == tree.files.end() ? "" : text->second));
        if (std::find(known.begin(), known.end(), target.substr(hash + 1)) == known.end())
          complain(line, "a link to " + target + ": " + file + " has no such heading");
      }
    }
  return complain.complaints;
}

// ---- names and commands ------------------------------------------------------------------------------------

namespace {

constexpr const char* kCode[] = {".cpp", ".hpp", ".c", ".py", ".sh", ".md"};
constexpr const char* kWritten[] = {".toml", ".txt", ".csv", ".json", ".npy", ".bin", ".png", ".html", "/"};

template <class Endings>
bool has_ending(const std::string& word, const Endings& endings) {
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](const std::string& ending) { return word.ends_with(ending) && word.size() > ending.size(); });
}

// Decides by the ending, or by whether the first folder exists.
bool looks_like_path(const std::string& word, const Page& page, const Tree& tree) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("_.*<>/-").find(c) != std::string::npos;
  };
  if (!std::all_of(word.begin(), word.end(), fits)) return false;
  if (has_ending(word, kCode) || has_ending(word, kWritten)) return true;
  const std::string first = word.substr(0, word.find('/'));
  return first != word && !first.empty() && (tree.has_path(first) || tree.has_path(beside(page, first)));
}

// A glob pattern: <case> and NAME match anything.
std::string pattern_of(const std::string& path) {
  std::string pattern;
  for (size_t i = 0; i < path.size();) {
    size_t end = i;
    while (end < path.size() && path[end] >= 'A' && path[end] <= 'Z') ++end;
    if (path[i] == '<') end = path.find('>', i) + 1;
    if (end > i + 1)
      pattern += '*', i = end;
    else
      pattern += path[i++];
  }
  return pattern;
}

bool is_path(const std::string& word, const Page& page, const Tree& tree) {
  for (const std::string& place : {word, beside(page, word), "layers/" + word})
    if (tree.has_path(place)) return true;
  const auto ends_so = [&](const auto& file) { return file.first.ends_with("/" + word); };
  if (std::any_of(tree.files.begin(), tree.files.end(), ends_so)) return true;
  const std::string pattern = pattern_of(word);
  const auto matches = [&](const auto& file) {
    const char* path = file.first.c_str();
    return fnmatch(pattern.c_str(), path, 0) == 0 || fnmatch(("*/" + pattern).c_str(), path, 0) == 0;
  };
  if (pattern.find('*') != pattern.npos && std::any_of(tree.files.begin(), tree.files.end(), matches)) return true;
  // The name of a file that a program writes occurs in a source.
  const std::string bare = word.ends_with("/") ? word.substr(0, word.size() - 1) : word;
  return !has_ending(word, kCode) && tree.writes(fs::path(bare).filename());
}

std::string fault_of_identifiers(const std::string& text, const Tree& tree) {
  const std::vector<Place> places = identifiers(text);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [begin, end] = places[i];
    const std::string word = text.substr(begin, end - begin);
    if (is_placeholder(word) || !is_ours(word)) continue;
    if (!tree.has_word(word)) return "the sources have no " + word;
    const bool called = text.compare(end, 2, "()") == 0;
    if (called && !tree.calls.contains(word)) return "the sources have no function " + word;
    if (i == 0 || text.substr(places[i - 1].end, begin - places[i - 1].end) != "::") continue;
    const std::string scope = text.substr(places[i - 1].begin, places[i - 1].end - places[i - 1].begin);
    if (!tree.has_qualified(scope, word)) return "there is no " + scope + "::" + word;
  }
  return "";
}

// Checks paths one by one, without the quotes and commas around them. The rest is code.
std::string fault_of_span(const std::string& text, const Page& page, const Tree& tree) {
  if (is_command(text)) return fault_of_command(text, tree);
  if (is_option(text)) return text == "--no-" ? "" : fault_of_options(text, tree);
  std::string code;
  std::istringstream in(text);
  for (std::string word; in >> word; code += " ") {
    const size_t first = word.find_first_not_of("\"'(["), last = word.find_last_not_of("\"',;:)]");
    const std::string bare = first == word.npos || last == word.npos ? "" : word.substr(first, last + 1 - first);
    const bool ours = bare[0] != '/' && is_ours(fs::path(bare).filename());
    if (!looks_like_path(bare, page, tree))
      code += word;
    else if (ours && !is_path(bare, page, tree))
      return "there is no " + bare;
  }
  return fault_of_identifiers(code, tree);
}

}  // namespace

Complaints wrong_names(const Page& page, const Tree& tree) {
  Writer complain{page};
  for (const Block& block : page.blocks)
    for (const auto& [line, text] : code_spans(block)) {
      const std::string fault = fault_of_span(text, page, tree);
      if (!fault.empty()) complain(line, "`" + text + "`: " + fault);
    }
  return complain.complaints;
}

// Checks lines that begin with make or train_gpt, with or without "$ ".
Complaints wrong_commands(const Page& page, const Tree& tree) {
  Writer complain{page};
  for (const Block& block : page.blocks) {
    if (block.kind != Block::Kind::code || block.info == "cpp") continue;
    std::istringstream in(block.text);
    int number = block.line;
    for (std::string line, more; std::getline(in, line); ++number) {
      while (line.ends_with("\\") && std::getline(in, more)) line.pop_back(), line += more, ++number;
      const std::string command = line.starts_with("$ ") ? line.substr(2) : line;
      const std::string first = command.substr(0, command.find(' '));
      if (first != "make" && fs::path(first).filename() != "train_gpt") continue;
      const std::string fault = fault_of_command(command, tree);
      if (!fault.empty()) complain(number, command + ": " + fault);
    }
  }
  return complain.complaints;
}

// ---- names of test cases -----------------------------------------------------------------------------------

namespace {

// The quoted text right after a place or right before it: `test/test_norm.cpp`, "a norm may ...";
// "a norm may ..." in `test/test_norm.cpp`.
std::string quoted_behind(const std::string& text, size_t at) {
  const size_t begin = text.find_first_not_of("`),: (\n", at);
  if (begin == text.npos || text[begin] != '"') return "";
  return text.substr(begin + 1, text.find('"', begin + 1) - begin - 1);
}
std::string quoted_before(std::string text) {
  const auto trim = [&](const char* what) { text.erase(text.find_last_not_of(what) + 1); };
  trim("`[(, \n");
  if (text.ends_with("\" in") || text.ends_with("\"\nin")) text.erase(text.size() - 3);
  if (!text.ends_with('"')) return "";
  text.pop_back();
  return text.substr(text.rfind('"') + 1);
}

}  // namespace

Complaints wrong_tests(const Page& page, const Tree& tree) {
  Writer complain{page};
  for (const Block& block : page.blocks) {
    if (!block.prose()) continue;
    const std::string& text = block.text;
    for (size_t at = text.find("test/test_"); at != text.npos; at = text.find("test/test_", at + 1)) {
      const size_t end = std::min(text.find_first_of("` \n)", at), text.size());
      const auto file = tree.files.find(text.substr(at, end - at));
      if (file == tree.files.end()) continue;
      for (std::string name : {quoted_behind(text, end), quoted_before(text.substr(0, at))}) {
        std::replace(name.begin(), name.end(), '\n', ' ');
        if (!name.empty() && file->second.find("TEST_CASE(\"" + name + "\"") == std::string::npos)
          complain(block.line, file->first + " has no TEST_CASE \"" + name + "\"");
      }
    }
  }
  return complain.complaints;
}

// ---- formulas and tables -----------------------------------------------------------------------------------

Complaints wrong_formulas(const Page& page) {
  Writer complain{page};
  for (const Block& block : page.blocks)
    for (const auto& [line, fault] : faults_of_formulas(block)) complain(line, fault);
  return complain.complaints;
}

Complaints wrong_tables(const Page& page) {
  Writer complain{page};
  for (const Block& block : page.blocks) {
    if (block.kind != Block::Kind::table) continue;
    std::istringstream in(block.text);
    int number = block.line;
    size_t columns = 0;
    for (std::string line; std::getline(in, line); ++number) {
      const size_t cells = cells_of(line).size();
      if (columns == 0) columns = cells;
      if (cells != columns)
        complain(number, "a row of " + std::to_string(cells) + " cells in a table of " + std::to_string(columns));
    }
  }
  return complain.complaints;
}

// ---- measurements ------------------------------------------------------------------------------------------

namespace {

constexpr const char* kUnits[] = {
    "GB/s",         "GFLOP/s", "TFLOP/s", "tokens/s", "tokens a second", "times as fast", "times the speed",
    "times faster", "ms",      "µs",      "ns",       "% of the peak"};

bool has_measurement(const Block& block) {
  if (block.kind == Block::Kind::heading || block.kind == Block::Kind::comment || block.info == "cpp") return false;
  const std::string& text = block.text;
  if (text.find_first_of("0123456789") == text.npos) return false;
  const auto letter = [&](size_t i) { return i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])); };
  for (const std::string unit : kUnits)
    for (size_t at = text.find(unit); at != text.npos; at = text.find(unit, at + 1))
      if (!letter(at - 1) && !letter(at + unit.size())) return true;
  return false;
}

// "Measured with `COMMAND`" at the beginning of a line: COMMAND.
std::string measuring_command(const Block& block) {
  static const std::string kMeasured = "Measured with `";
  const size_t at = block.text.find(kMeasured), begin = at + kMeasured.size();
  if (!block.prose() || at == block.text.npos || (at > 0 && block.text[at - 1] != '\n')) return "";
  std::string command = block.text.substr(begin, block.text.find('`', begin) - begin);
  std::replace(command.begin(), command.end(), '\n', ' ');
  return command;
}

}  // namespace

Complaints unnamed_measurements(const Page& page, const Tree& tree) {
  Writer complain{page};
  std::vector<int> open;  // lines of measurements whose command has not come yet
  const auto close = [&] {
    for (const int line : open)
      complain(line, "a measured figure; the line \"Measured with `COMMAND`\" below it is missing");
    open.clear();
  };
  for (const Block& block : page.blocks) {
    if (block.kind == Block::Kind::heading) close();
    if (has_measurement(block)) open.push_back(block.line);
    const std::string command = measuring_command(block);
    if (command.empty()) continue;
    open.clear();
    const std::string fault = is_command(command) ? fault_of_command(command, tree) : "no command of make or train_gpt";
    if (!fault.empty()) complain(block.line, command + ": " + fault);
  }
  close();
  return complain.complaints;
}

// ---- the form of a layer's page ----------------------------------------------------------------------------

namespace {

const std::vector<std::string> kHeadings = {"What it is for", "Shapes",           "Forward", "Backward", "By hand",
                                            "The code",       "The fast version", "Traps",   "Exercises"};

void check_headings(Writer& complain, const Page& page) {
  std::vector<std::string> headings;
  int titles = 0;
  const Block* last = nullptr;
  for (const Block& block : page.blocks) {
    if (block.kind == Block::Kind::heading && last && last->kind == Block::Kind::heading && last->info == block.info)
      complain(last->line, "nothing below " + last->text);
    last = &block;
    titles += block.info == "#" && block.kind == Block::Kind::heading;
    if (block.info == "##" && block.kind == Block::Kind::heading) headings.push_back(block.text);
  }
  if (titles != 1) complain(1, std::to_string(titles) + " titles, not one");
  if (headings == kHeadings) return;
  const auto [found, wanted] = std::mismatch(headings.begin(), headings.end(), kHeadings.begin(), kHeadings.end());
  complain(1, "its headings are not those of a layer's page: " + (found == headings.end() ? "the end" : *found) +
                  " where " + (wanted == kHeadings.end() ? "the end" : *wanted) + " should stand");
}

// A paragraph such as BENCH: a placeholder that was never filled in.
void check_placeholders(Writer& complain, const Page& page) {
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  for (const Block& block : page.blocks)
    if (block.kind == Block::Kind::paragraph && std::all_of(block.text.begin(), block.text.end(), capital))
      complain(block.line, "nothing but " + block.text);
}

// Expects three times: an exercise, <details><summary>Answer</summary>, a blank line (GitHub needs it), </details>.
void check_exercises(Writer& complain, const Page& page) {
  int answers = 0, texts = 0;  // texts: blocks since the last <details> or </details>
  bool below = false, inside = false;
  for (const Block& block : page.blocks) {
    if (block.kind == Block::Kind::heading && block.info == "##") below = block.text == "Exercises";
    if (!below || block.kind == Block::Kind::heading) continue;
    const bool begins = block.text.find("<details>") != block.text.npos, ends = block.text.ends_with("</details>");
    const bool alone = block.text == "<details><summary>Answer</summary>";
    if (begins && (!alone || inside))
      complain(block.line, "an answer begins with <details><summary>Answer</summary> and a blank line");
    if (ends && !inside) complain(block.line, "</details> ends nothing");
    if ((begins || (ends && block.text == "</details>")) && texts == 0)
      complain(block.line, begins ? "an answer without an exercise" : "an empty answer");
    answers += begins;
    inside = begins || (inside && !ends);
    texts = alone || ends ? 0 : texts + 1;
  }
  if (answers != 3 || inside) complain(1, std::to_string(answers) + " answers to exercises, not three");
}

}  // namespace

bool is_layer(const Page& page) {
  return std::any_of(page.blocks.begin(), page.blocks.end(), [](const Block& block) {
    return block.kind == Block::Kind::comment && block.text.starts_with("<!-- listing: layers/textbook/");
  });
}

Complaints wrong_form_of_layer(const Page& page) {
  Writer complain{page};
  check_headings(complain, page);
  check_placeholders(complain, page);
  check_exercises(complain, page);
  if (page.blocks.empty() || page.blocks.back().text.find(".md)") == std::string::npos)
    complain(1, "its last line does not lead to another page");
  return complain.complaints;
}

Complaints untested_examples(const Page& page, const Tree& tree) {
  const fs::path path = fs::path(page.path).lexically_relative("layers").replace_extension();
  const std::string test = "test/test_worked_" + path.stem().string() + ".cpp", quoted = '"' + path.string() + '"';
  const bool worked = std::any_of(page.blocks.begin(), page.blocks.end(), [](const Block& block) {
    return block.kind == Block::Kind::comment && block.text == "<!-- worked -->";
  });
  const auto file = tree.files.find(test);
  if (!worked || (file != tree.files.end() && file->second.find(quoted) != std::string::npos)) return {};
  return {page.path + ":1: an example, and no " + test + " that reads this page"};
}

}  // namespace pages
