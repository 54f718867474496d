#include "tree.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/options/options.hpp"
#include "markdown.hpp"
#include "parse.hpp"

namespace fs = std::filesystem;

namespace pages {
namespace {

constexpr const char* kGoalLetters = "abcdefghijklmnopqrstuvwxyz-";
constexpr const char* kOptionLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
constexpr const char* kExercises = "dev/exercise/exercises.txt";

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

bool is_cpp(const std::string& path) { return path.ends_with(".cpp") || path.ends_with(".hpp"); }

bool is_makefile(const std::string& path) { return path == "Makefile" || path.ends_with(".mk"); }

bool is_source(const std::string& path) {
  if (is_makefile(path) || path == ".ci/run") return true;
  // These contain names that no page may use.
  for (const char* file : {"test/support/pages.cpp", "test/project/test_pages.cpp", "python_ref/markdown_faults.py"})
    if (path == file) return false;
  for (const char* ending : {".py", ".sh", ".toml", ".js", "requirements.txt"})
    if (path.ends_with(ending)) return true;
  return is_cpp(path);
}

std::string without_comments(const std::string& text) {
  std::istringstream in(text);
  std::string left;
  for (std::string line; std::getline(in, line);) left += line.substr(0, line.find("//")) + "\n";
  return left;
}

// Options such as "--quick": in quotes only, or anywhere in the text.
std::set<std::string> options_in(const std::string& text, bool quoted) {
  std::set<std::string> found;
  for (size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
    const std::string option = text.substr(at, text.find_first_not_of(kOptionLetters, at) - at);
    if (option.size() > 2 && (!quoted || (at > 0 && (text[at - 1] == '"' || text[at - 1] == '\''))))
      found.insert(option);
  }
  return found;
}

}  // namespace

std::vector<Place> identifiers(const std::string& text) {
  std::vector<Place> places;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_identifier(text[end])) ++end;
    const bool name = end > i && !std::isdigit(static_cast<unsigned char>(text[i]));
    const bool alone = (i == 0 || is_ascii(text[i - 1])) && (end == text.size() || is_ascii(text[end]));
    if (name && alone) places.push_back({i, end});
    i = std::max(end, i + 1);
  }
  return places;
}

// ---- the tree ----------------------------------------------------------------------------------------------

Tree tree_of(std::map<std::string, std::string> files) {
  Tree tree;
  tree.files = std::move(files);
  for (const auto& [path, text] : tree.files) {
    for (fs::path p = fs::path(path).parent_path(); !p.empty(); p = p.parent_path()) tree.folders.insert(p.string());
    if (is_source(path)) tree.sources[path] = is_cpp(path) ? without_comments(text) : text;
  }
  for (const auto& [path, text] : tree.sources) {
    for (const auto& [begin, end] : identifiers(text)) {
      tree.words[path].insert(text.substr(begin, end - begin));
      if (text[end] == '(') tree.calls.insert(text.substr(begin, end - begin));
    }
    if (path.starts_with("dev/") || path.starts_with("python_ref/"))
      tree.options.merge(options_in(text, !path.ends_with(".sh")));
  }
  for (const auto& [path, text] : tree.sources) {
    if (!is_makefile(path)) continue;
    std::istringstream makefile(text);
    for (std::string line; std::getline(makefile, line);) {
      const size_t end = line.find_first_not_of(kGoalLetters);
      if (end != line.npos && end > 0 && line[end] == ':') tree.goals.insert(line.substr(0, end));
    }
    tree.variables.insert(tree.words[path].begin(), tree.words[path].end());
  }
  return tree;
}

namespace {

Tree read() {
  static const std::set<std::string> kLeftOut = {"build", "runs", "__pycache__"};
  std::map<std::string, std::string> files;
  for (auto entry = fs::recursive_directory_iterator("."); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename(), path = entry->path().lexically_normal();
    if (entry->is_directory()) {
      if (kLeftOut.contains(name) || (name[0] == '.' && name != ".ci")) entry.disable_recursion_pending();
    } else if (is_source(path) || path.ends_with(".md") || path == kExercises) {
      std::stringstream text;
      text << std::ifstream(entry->path()).rdbuf();
      files[path] = text.str();
    } else {
      files[path];
    }
  }
  return tree_of(std::move(files));
}

}  // namespace

const Tree& read_tree() {
  static const Tree tree = read();
  return tree;
}

bool Tree::has_path(std::string path) const {
  if (path.ends_with("/")) path.pop_back();
  return files.contains(path) || folders.contains(path);
}

bool Tree::has_word(const std::string& word) const {
  return std::any_of(words.begin(), words.end(), [&](const auto& of) { return of.second.contains(word); });
}

bool Tree::has_qualified(const std::string& scope, const std::string& name) const {
  return std::any_of(words.begin(), words.end(), [&](const auto& of) {
    const bool place = scope != "textbook" || of.first.starts_with("layers/textbook/");
    return place && of.second.contains(scope) && of.second.contains(name);
  });
}

bool Tree::writes(const std::string& file) const {
  return std::any_of(sources.begin(), sources.end(),
                     [&](const auto& source) { return source.second.find(file) != std::string::npos; });
}

// ---- the program's command line ----------------------------------------------------------------------------

namespace {

using Words = std::vector<std::string>;

struct Outcome {
  std::string fault, help;  // help: if the words ask for it
};

// Parses the words after train_gpt with the program's own parser.
Outcome parsed(Words words) {
  words.insert(words.begin(), "train_gpt");
  try {
    parse_program_words(words);
  } catch (const CommandLineExit& exit) {
    return {"", exit.text};
  } catch (const std::exception& error) {
    return {error.what(), ""};
  }
  return {};
}

// "--[no-]bias" → "--bias --no-bias"
std::string negations_written_out(std::string help) {
  const std::string both = "--[no-]";
  for (size_t at = help.find(both); at != help.npos; at = help.find(both, at)) {
    const size_t begin = at + both.size(), end = help.find_first_not_of(kOptionLetters, begin);
    const std::string name = help.substr(begin, end - begin);
    help.replace(at, end - at, "--" + name + " --no-" + name);
  }
  return help;
}

// Each command of train_gpt with the options in its --help-all.
const std::map<std::string, std::set<std::string>>& commands() {
  static const auto all = [] {
    std::map<std::string, std::set<std::string>> found;
    std::istringstream in(parsed({"--help"}).help);
    for (std::string word; in >> word;) {
      const std::string help = word[0] == '-' ? "" : parsed({word, "--help-all"}).help;
      if (!help.empty()) found[word] = options_in(negations_written_out(help), false);
    }
    return found;
  }();
  return all;
}

std::string fault_of_option(const std::string& command, const std::string& word, const Tree& tree) {
  const std::string option = word.substr(0, word.find('='));
  for (const auto& [name, options] : commands())
    if ((command.empty() || command == name) && options.contains(option)) return "";
  if (command.empty() && tree.options.contains(option)) return "";
  return "there is no option " + option + (command.empty() ? "" : " of " + command);
}

// Checks the words after train_gpt. If they contain placeholders, only the names of options can be checked.
std::string fault_of_program(const Words& words, const Tree& tree) {
  if (words.empty() || is_placeholder(words[0])) return "";
  if (std::none_of(words.begin(), words.end(), is_placeholder)) return parsed(words).fault;
  if (!commands().contains(words[0])) return "train_gpt has no command " + words[0];
  for (const std::string& word : words) {
    const std::string fault = is_option(word) ? fault_of_option(words[0], word, tree) : "";
    if (!fault.empty()) return fault;
  }
  return "";
}

bool is_train_gpt(const std::string& word) { return fs::path(word).filename() == "train_gpt"; }

}  // namespace

bool is_placeholder(const std::string& word) {
  if (word.find("...") != word.npos) return true;
  if (word.size() == 1) return std::isalpha(static_cast<unsigned char>(word[0]));
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool is_option(const std::string& word) { return word.starts_with("--"); }

bool is_command(const std::string& text) {
  const Words words = words_of(text);
  if (words.empty() || words[0] == "make") return !words.empty();
  return std::any_of(words.begin(), words.end() - 1, is_train_gpt);
}

// "--qk-norm head|full": one of the commands must accept the option with each value.
std::string fault_of_options(const std::string& text, const Tree& tree) {
  Words words = words_of(text);
  for (const std::string& word : words) {
    const std::string fault = is_option(word) ? fault_of_option("", word, tree) : "";
    if (!fault.empty()) return fault;
  }
  if (is_option(words.back())) words.pop_back();  // an option without its value
  if (words.empty() || tree.options.contains(words[0])) return "";
  if (std::any_of(words.begin(), words.end(), is_placeholder)) return "";
  std::istringstream values(words.back());
  for (std::string value; std::getline(values, value, '|');) {
    Words line = words;
    line.back() = value;
    line.insert(line.begin(), "");
    const bool taken = std::any_of(commands().begin(), commands().end(), [&](const auto& command) {
      line[0] = command.first;
      return parsed(line).fault.empty();
    });
    line[0] = "train";
    if (!taken) return parsed(line).fault;
  }
  return "";
}

// ---- make --------------------------------------------------------------------------------------------------

namespace {

// Tags of tests: "[optimizer],[lanes]".
std::string fault_of_tags(const std::string& word, const Tree& tree) {
  std::istringstream tags(word);
  for (std::string tag; std::getline(tags, tag, ',');)
    if (tag[0] == '[' && !tree.writes(tag)) return "no test is tagged " + tag;
  return "";
}

// ARGS of a goal: options of the program that it runs, or the names of benchmarks, ladders or tests.
std::string fault_of_arguments(const std::string& goal, Words words, const Tree& tree) {
  if (goal == "train" || goal == "compare") {
    words.insert(words.begin(), goal);
    return fault_of_program(words, tree);
  }
  const std::string folder = goal == "bench" ? "dev/bench/" : goal == "ladders" ? "dev/ladder/" : "";
  for (const std::string& word : words) {
    const bool number = word.find_first_not_of("0123456789,") == word.npos;
    const std::string fault = goal == "test" ? fault_of_tags(word, tree) : "";
    if (!fault.empty()) return fault;
    if (is_option(word) && !tree.options.contains(word.substr(0, word.find('=')))) return "there is no option " + word;
    if (!is_option(word) && !number && !folder.empty() && !tree.has_path(folder + word + ".cpp"))
      return "there is no " + folder + word + ".cpp";
  }
  return "";
}

std::string text_of(const Tree& tree, const std::string& path) {
  const auto file = tree.files.find(path);
  return file == tree.files.end() ? "" : file->second;
}

std::string fault_of_make(const Words& words, const Tree& tree) {
  std::map<std::string, std::string> variables;
  Words goals;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (word[0] == '-') continue;
    if (equals == word.npos)
      goals.push_back(word);
    else
      variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  for (const std::string& goal : goals)
    if (!tree.goals.contains(goal)) return "no makefile has " + goal;
  for (const auto& [name, value] : variables) {
    if (!tree.variables.contains(name)) return "no makefile has " + name;
    if (name == "STUDY" && !is_placeholder(value) && !tree.has_path("dev/studies/" + value))
      return "there is no dev/studies/" + value;
    const std::string row = "\n" + value + " | ";
    if (name == "LAYER" && !is_placeholder(value) && text_of(tree, kExercises).find(row) == row.npos)
      return "there is no exercise " + value;
  }
  for (const std::string& goal : goals) {
    const std::string fault = fault_of_arguments(goal, words_of(variables["ARGS"]), tree);
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace

std::string fault_of_command(const std::string& command, const Tree& tree) {
  Words words = words_of(command);
  const auto ends = [](const std::string& word) {
    return word.empty() || word == "&&" || word == "|" || word == ";" || word == ">" || word[0] == '#';
  };
  words.erase(std::find_if(words.begin(), words.end(), ends), words.end());
  if (words.empty()) return "";
  if (words[0] == "make") return fault_of_make({words.begin() + 1, words.end()}, tree);
  const auto program = std::find_if(words.begin(), words.end(), is_train_gpt);
  return program == words.end() ? "" : fault_of_program({program + 1, words.end()}, tree);
}

}  // namespace pages
