#include "completion.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_settings.hpp"
#include "help.hpp"

namespace {

using Words = std::vector<std::string>;

// The words that fit what is typed, and the path that is possible.
struct Offers {
  std::string typed, path = "none", lines = {};

  void add(const std::string& word, const std::string& help = "") {
    if (word.starts_with(typed)) lines += word + (help.empty() ? "" : "\t" + help) + "\n";
  }
  std::string text() const { return path + "\n" + lines; }
};

void add_commands(Offers& offers) {
  for (const CommandRow& row : commands()) offers.add(row.name, row.help);
}

void add_options(Offers& offers, const std::vector<CommandSetting>& settings) {
  for (const Setting& s : settings) {
    if (s.group.empty() || s.positional) continue;
    offers.add("--" + s.name, s.help);
    if (s.negatable()) offers.add("--no-" + s.name, s.help);
  }
  offers.add("--help", "show common options");
  offers.add("--help-all", "show all options");
}

// A choice may end with a placeholder, which the user replaces: "bpe:VOCABULARY" is offered as "bpe:".
void add_values(Offers& offers, const Setting& s) {
  constexpr const char* kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (const std::string& choice : s.choices) offers.add(choice.substr(0, choice.find_first_of(kCapitals)));
  if (s.files || s.takes.starts_with("FILE") || s.takes == "RUN" || s.takes == "PATH") offers.path = "files";
  if (s.takes == "DIR") offers.path = "folders";
}

// The option that takes the last word: the one before it, or further back one that takes several values.
const Setting* option_before(const Words& words, const std::vector<CommandSetting>& settings) {
  for (size_t i = words.size() - 1; i-- > 1;) {
    if (!words[i].starts_with("--")) continue;
    const Setting* s = find_setting(settings, words[i].substr(2));
    return s && !s->flag() && (s->list || i + 2 == words.size()) ? s : nullptr;
  }
  return nullptr;
}

// "--norm=r" as the two words that mean the same. bash has split it into three.
void split_at_equals(Words& words) {
  if (words.back() == "=") words.back().clear();
  std::erase(words, "=");
  const std::string last = words.back();
  const size_t equals = last.find('=');
  if (!last.starts_with("--") || equals == last.npos) return;
  words.back() = last.substr(0, equals);
  words.push_back(last.substr(equals + 1));
}

const char* const kBash = R"(# Completion of train_gpt for bash.
# Install: train_gpt completion bash > ~/.local/share/bash-completion/completions/train_gpt
_train_gpt() {
  local IFS=$'\n' lines
  lines=($("$1" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
  COMPREPLY=("${lines[@]:1}")
  [[ ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  case ${lines[0]} in  # if no word fits
    files) compopt -o default 2>/dev/null ;;
    folders) compopt -o dirnames 2>/dev/null ;;
  esac
  return 0
}
complete -F _train_gpt train_gpt
)";

const char* const kZsh = R"(#compdef train_gpt
# Completion of train_gpt for zsh.
# Install: train_gpt completion zsh > FOLDER/_train_gpt, FOLDER being one of those that `print $fpath` lists.
_train_gpt() {
  local -a lines offers
  lines=("${(@f)$($words[1] complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  offers=("${(@)${(@)lines[2,-1]//:/\\:}/$'\t'/:}")  # name:explanation
  if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
  if [[ $#offers == 1 && $offers == *: ]]; then compadd -S '' -- ${offers//\\/}; else _describe -t words word offers; fi
  case $lines[1] in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _train_gpt ]]; then _train_gpt "$@"; else compdef _train_gpt train_gpt; fi
)";

const char* const kFish = R"(# Completion of train_gpt for fish.
# Install: train_gpt completion fish > ~/.config/fish/completions/train_gpt.fish
function __train_gpt
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete $words[2..-1] 2>/dev/null
end
function __train_gpt_path
    test (__train_gpt)[1] = $argv[1]
end
function __train_gpt_words
    set -l option (string match -r -- '^--[^=]*=' (commandline -ct))
    for line in (__train_gpt)[2..-1]
        echo "$option$line"
    end
end
complete -c train_gpt -f -a '(__train_gpt_words)'
complete -c train_gpt -n '__train_gpt_path files' -F
complete -c train_gpt -n '__train_gpt_path folders' -a '(__fish_complete_directories)'
)";

}  // namespace

std::string completion_script(const std::string& shell) {
  const std::map<std::string, const char*> scripts = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  if (scripts.contains(shell)) return scripts.at(shell);
  throw std::invalid_argument("no completion for the shell " + shell + ": choose bash, zsh or fish");
}

std::string completions(Words words) {
  if (words.empty()) words = {""};
  split_at_equals(words);
  Offers offers{words.back()};
  if (words.size() == 1 || (words.size() == 2 && words[0] == "help")) add_commands(offers);
  if (words.size() == 1) {
    offers.add("help", "show the options of a command");
    offers.add("version", "print the version");
    return offers.text();
  }
  const auto is_meant = [&](const CommandRow& row) { return row.name == words[0]; };
  const auto row = std::find_if(commands().begin(), commands().end(), is_meant);
  if (row == commands().end()) return offers.text();
  const std::vector<CommandSetting>& settings = settings_of(row->kind);
  const Setting* takes = option_before(words, settings);
  if (!takes) takes = find_setting(settings, row->positional);
  if (offers.typed.starts_with("-")) add_options(offers, settings);
  else if (takes) add_values(offers, *takes);
  return offers.text();
}
