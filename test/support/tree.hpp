#pragma once
// Everything that pages may refer to: files, identifiers in sources, make's goals, the program's commands.

#include <map>
#include <set>
#include <string>
#include <vector>

namespace pages {

struct Tree {
  std::map<std::string, std::string> files;            // path from the project's root → text ("" for a picture)
  std::set<std::string> folders;                       // "layers"
  std::map<std::string, std::string> sources;          // code files, C++ without comments
  std::map<std::string, std::set<std::string>> words;  // the identifiers of each source
  std::set<std::string> calls;                         // identifiers followed by (
  std::set<std::string> options;                       // "--quick": options of programs in dev/ and python_ref/
  std::set<std::string> goals, variables;              // of the Makefile and of all *.mk

  bool has_path(std::string path) const;  // a file or a folder
  bool has_word(const std::string& word) const;
  // textbook::linear_backward: one source has both words; for textbook:: it must be in layers/textbook/.
  bool has_qualified(const std::string& scope, const std::string& name) const;
  bool writes(const std::string& file) const;  // a source contains this text
};
Tree tree_of(std::map<std::string, std::string> files);
const Tree& read_tree();  // reads the files once

// The identifiers in a text, except those next to a letter outside ASCII: dγ and x̂ belong to formulas.
struct Place {
  size_t begin, end;
};
std::vector<Place> identifiers(const std::string& text);

// NAME, RUN..., W, n: words that a reader replaces.
bool is_placeholder(const std::string& word);

// "make ..." or "... train_gpt COMMAND ...", but not a name alone.
bool is_command(const std::string& text);
bool is_option(const std::string& word);

// What is wrong with a command such as "make bench ARGS=norm" or options such as "--placement post"; "" if nothing.
std::string fault_of_command(const std::string& command, const Tree& tree);
std::string fault_of_options(const std::string& options, const Tree& tree);

}  // namespace pages
