// Tab completion and the manual page, in the shells and in groff if they are installed.

#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/completion.hpp"
#include "data/options/help.hpp"
#include "data/options/man_page.hpp"
#include "message.hpp"
#include "program.hpp"

namespace {

namespace fs = std::filesystem;

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// Returns what a shell command prints in the folder, errors included. The command finds the program by its name.
std::string printed(const Folder& f, const std::string& command) {
  const std::string path = "PATH='" + fs::path(program_path()).parent_path().string() + "':$PATH";
  const int status = std::system(("cd " + f.path("") + " && " + path + " && (" + command + ") >printed 2>&1").c_str());
  INFO(command << " printed: " << f.read("printed"));
  CHECK(WEXITSTATUS(status) == 0);
  return f.read("printed");
}

// The options of a command that help shows.
std::vector<CommandSetting> shown_options(const CommandRow& row) {
  std::vector<CommandSetting> all = settings_of(row.kind);
  std::erase_if(all, [](const Setting& s) { return s.group.empty() || s.positional; });
  return all;
}

// True if the text contains the word as a whole word.
bool has_word(const std::string& text, const std::string& word) {
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-'; };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if ((at == 0 || !inside(text[at - 1])) && !inside(text.c_str()[at + word.size()])) return true;
  return false;
}

std::string without_roff(std::string page) {
  for (const auto& [from, to] : {std::pair{"\\fB", ""}, {"\\fR", ""}, {"\\-", "-"}})
    for (size_t at; (at = page.find(from)) != page.npos;) page.replace(at, std::string(from).size(), to);
  return page;
}

struct Case {
  const char *typed, *offered;  // a command line whose last word is to be completed; the words offered for it
};

const Case kCases[] = {
    {"train_gpt|tok", "tokenizer tokenize"},
    {"train_gpt|help|tr", "train"},
    {"train_gpt|completion|", "bash zsh fish"},
    {"train_gpt|train|--norm-e", "--norm-eps"},
    {"train_gpt|train|--no-qk", "--no-qkv-bias"},
    {"train_gpt|sample|--norm", ""},
    {"train_gpt|train|--norm|",
     "layernorm rmsnorm scalenorm batchnorm dyt derf gatednorm nonparametric-layernorm simple-rmsnorm"},
    {"train_gpt|compare|--placement|de", "deepnorm"},
    {"train_gpt|export|--to|", "hf gguf llmc llama2c"},
    {"train_gpt|train|--lr|", ""},
    {"train_gpt|train|--tokenizer|b", "byte bpe: FILES"},
    {"train_gpt|train|", "FILES"},
    {"train_gpt|train|--lr|1|", "FILES"},
    {"train_gpt|train|--bias|", "FILES"},
    {"train_gpt|train|--data|", "FILES"},
    {"train_gpt|train|--data|a.txt|", "FILES"},
    {"train_gpt|train|--include|*.md|", ""},
    {"train_gpt|train|--out|", "FOLDERS"},
    {"train_gpt|sample|", "FILES"},
    {"train_gpt|man|", ""},
};

std::vector<std::string> words_of(const std::string& typed) {
  std::vector<std::string> words = {""};
  for (const char c : typed)
    if (c == '|') words.emplace_back();
    else words.back() += c;
  return words;
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " '" + word + "'";
  return text;
}

// Simulates bash completing a word.
const char* const kBash = R"(source ./script || exit
shown=
compopt() { case $2 in default) shown+=" FILES" ;; dirnames) shown+=" FOLDERS" ;; esac; }
complete_line() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=() shown=
  _train_gpt "$1"
  set -- ${COMPREPLY[*]} $shown
  echo "$*"
}
)";

// Simulates zsh completing a word.
const char* const kZsh = R"(compdef() { }
source ./script || exit
compset() { PREFIX=${PREFIX#*=} }
offer() { local word; for word; do [[ $word == $PREFIX* ]] && shown+=($word); done }
_describe() { local name; for name in ${(P)@[-1]}; do offer ${${${name//\\:/@}%%:*}/@/:}; done }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; offer $@ }
_files() { [[ $1 == -/ ]] && shown+=(FOLDERS) || shown+=(FILES) }
complete_line() {
  local -a shown words=("$@")
  local CURRENT=$# PREFIX=$@[-1]
  _train_gpt
  print -r -- $shown
}
)";

std::vector<std::string> sorted_words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::sort(words.begin(), words.end());
  return words;
}

// Completes every line of kCases in the shell, after `start`.
void check_cases(const Folder& f, const std::string& shell, std::string start) {
  for (const Case& c : kCases) start += "complete_line" + quoted(words_of(c.typed)) + "\n";
  f.write("lines", start);
  std::istringstream lines(printed(f, shell + " ./lines"));
  for (const Case& c : kCases) {
    INFO(c.typed);
    std::string line;
    std::getline(lines, line);
    CHECK(sorted_words(line) == sorted_words(c.offered));
  }
}

}  // namespace

TEST_CASE("tab completion and the manual page have every command and option", "[completion]") {
  const std::string page = without_roff(man_page());
  std::string missing, hidden;
  for (const CommandRow& row : commands()) {
    if (!has_word(page, row.name) || !contains(completions({""}), std::string("\n") + row.name + "\t"))
      missing += std::string(row.name) + " ";
    const std::string offered = completions({row.name, "--"});
    for (const Setting& s : shown_options(row)) {
      if (!contains(offered, "\n--" + s.name + "\t")) missing += s.name + " ";
      if (!has_word(page, "--" + s.name) && !contains(page, "--[no-]" + s.name + "\n")) missing += s.name + " ";
      const std::string values = completions({row.name, "--" + s.name, ""}) + page;
      for (const std::string& choice : s.choices)
        if (!has_word(values, choice) && !contains(choice, "VOCABULARY")) missing += choice + " ";
    }
    if (contains(offered, "earlier-schedules")) hidden += row.name;
  }
  CHECK(missing == "");
  CHECK(hidden == "");
  CHECK(std::all_of(page.begin(), page.end(), [](unsigned char c) { return c < 0x80; }));
}

TEST_CASE("a word is completed from the table of options", "[completion]") {
  for (const Case& c : kCases) {
    INFO(c.typed);
    std::vector<std::string> words = words_of(c.typed);
    words.erase(words.begin());
    std::istringstream lines(completions(words));
    std::string path, offered;
    std::getline(lines, path);
    for (std::string line; std::getline(lines, line);) offered += line.substr(0, line.find('\t')) + " ";
    offered += path == "files" ? "FILES" : path == "folders" ? "FOLDERS" : "";
    CHECK(sorted_words(offered) == sorted_words(c.offered));
  }
  CHECK(completions({"train", "--norm=r"}) == "none\nrmsnorm\n");
  CHECK(completions({"nothing", ""}) == "none\n");
  CHECK(completions({}) == completions({""}));
}

TEST_CASE("choices need no quotes in a shell", "[completion]") {
  for (const CommandRow& row : commands())
    for (const Setting& s : shown_options(row))
      for (const std::string& choice : s.choices)
        CHECK(std::all_of(choice.begin(), choice.end(), [](unsigned char c) {
          return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == ':';
        }));
}

TEST_CASE("bash completes commands, options, choices and files", "[completion][program]") {
  if (!installed("bash")) return skip_test("no bash");
  const Folder f;
  f.write("script", completion_script("bash"));
  printed(f, "bash -n script");
  check_cases(f, "bash", kBash);
  // bash splits --norm=r into three words.
  f.write("lines", std::string(kBash) + "complete_line train_gpt train --norm =\n"
                                        "complete_line train_gpt train --norm = r\n"
                                        "complete_line train_gpt train --data = a.txt\n");
  CHECK(printed(f, "bash lines") ==
        "layernorm rmsnorm scalenorm batchnorm dyt derf gatednorm nonparametric-layernorm simple-rmsnorm\n"
        "rmsnorm\nFILES\n");
}

TEST_CASE("zsh completes commands, options, choices and files", "[completion][program]") {
  if (!installed("zsh")) return skip_test("no zsh");
  const Folder f;
  f.write("script", completion_script("zsh"));
  printed(f, "zsh -f -n script");
  check_cases(f, "zsh -f", kZsh);
  f.write("lines", std::string(kZsh) + "complete_line train_gpt train --norm=r\n");
  CHECK(printed(f, "zsh -f lines") == "rmsnorm\n");
}

TEST_CASE("fish completes commands, options, choices and files", "[completion][program]") {
  if (!installed("fish")) return skip_test("no fish");
  const Folder f;
  f.write("script", completion_script("fish"));
  f.write("data/a.txt", "");
  f.write("data/folder/b.txt", "");
  for (const Case& c : kCases) {
    const std::vector<std::string> words = words_of(c.typed);
    std::string line, offered;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
    INFO(line);
    const std::string script = "\"source ../script; complete -C '" + line + "'\"";
    std::istringstream in(printed(f, "cd data && HOME=. fish --no-config -c " + script + " | cut -f 1"));
    for (std::string word; std::getline(in, word);) offered += (word == "a.txt" ? "FILES" : word) + " ";
    const std::string folder = "folder/ ";
    if (const size_t at = offered.find(folder); at != offered.npos)
      offered.replace(at, folder.size(), contains(offered, "FILES") ? "" : "FOLDERS");
    if (contains(c.offered, " FILES")) continue;  // fish offers only files that fit
    CHECK(sorted_words(offered) == sorted_words(c.offered));
  }
}

TEST_CASE("groff formats the manual page without a warning", "[completion]") {
  if (!installed("groff")) return skip_test("no groff");
  const Folder f;
  f.write("page", man_page());
  CHECK(printed(f, "groff -man -Tutf8 -ww page 2>&1 >/dev/null") == "");
  const std::string text = printed(f, "groff -man -Tascii -P-cbou page");
  CHECK(contains(text, "--lr X"));
  CHECK(contains(text, "--[no-]bias"));
  CHECK(contains(text, "vocabulary size (default: the"));
  CHECK(contains(text, "stop sequence (\\n: a newline)"));
  CHECK(contains(text, "train_gpt sample --prompt 'One day' --temperature 0.8"));
  CHECK(contains(text, "OMP_NUM_THREADS"));
  CHECK(contains(text, "Options as described above: "));
}

TEST_CASE("the program prints completion and the manual page", "[completion][program]") {
  const Folder f;
  for (const char* shell : {"bash", "zsh", "fish"})
    CHECK(f.run(std::string("completion ") + shell).out == completion_script(shell));
  CHECK(f.run("man").out == man_page());
  CHECK(f.run("complete train --norm-e").out == completions({"train", "--norm-e"}));
  const Outcome other = f.run("completion tcsh");
  CHECK(other.status == 1);
  CHECK(contains(other.err, "tcsh"));
  CHECK(contains(other.err, "choose one of bash zsh fish"));
  CHECK(contains(f.run("completion").err, "SHELL is missing: usage: train_gpt completion bash|zsh|fish\n"));
  CHECK(contains(f.run("man me").err, "'me' is one word too many: usage: train_gpt man\n"));
}
