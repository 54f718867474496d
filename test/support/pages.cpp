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
  // A file that a program writes: its name occurs in a source.
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

}  // namespace pages
