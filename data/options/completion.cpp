#include "completion.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "help.hpp"
#include "settings.hpp"

namespace {

using Words = std::vector<std::string>;

// ---- what is completed ---------------------------------------------------------------------------------------

// What an option takes.
struct Values {
  Words words;
  bool files = false, folders = false;
  bool operator==(const Values&) const = default;
};

// Returns the part of a choice that can be completed: "bpe:" for "bpe:VOCABULARY".
std::string fixed_part(const std::string& choice) {
  return choice.substr(0, std::find_if(choice.begin(), choice.end(), [](char c) { return c >= 'A' && c <= 'Z'; }) -
                              choice.begin());
}

Values values_of(const Setting& s) {
  Values values;
  for (const std::string& choice : s.choices) values.words.push_back(fixed_part(choice));
  values.folders = s.takes == "DIR";
  values.files = s.files || s.takes.starts_with("FILE") || s.takes == "RUN" || s.takes == "PATH";
  return values;
}

struct Shown {
  const CommandRow& row;
  std::vector<Setting> settings;  // with names; without those that help hides
  Values positional;
};

std::vector<Shown> shown_commands() {
  static Command scratch;  // the settings point into it; only their names are used
  std::vector<Shown> all;
  for (const CommandRow& row : commands()) {
    scratch.kind = row.kind;
    Shown shown{row, settings_of(scratch), {}};
    if (const Setting* s = find_setting(shown.settings, row.positional)) shown.positional = values_of(*s);
    std::erase_if(shown.settings, [](const Setting& s) { return s.group.empty() || s.positional; });
    all.push_back(std::move(shown));
  }
  return all;
}

// Other words that may come first.
constexpr const char* kQuestions[][2] = {{"help", "show the options of a command"}, {"version", "print the version"}};

std::string joined(const Words& words, const std::string& separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string command_names() {
  Words names;
  for (const CommandRow& row : commands()) names.emplace_back(row.name);
  return joined(names);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// ---- bash and zsh --------------------------------------------------------------------------------------------

// Quotes text for bash and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string assignments(const Values& values) {
  Words all;
  if (!values.words.empty()) all.push_back("names='" + joined(values.words) + "'");
  if (values.files) all.push_back("paths=default");
  if (values.folders) all.push_back("paths=dirnames");
  return joined(all);
}

// Returns the branches of a `case` over $option, which is "--data" for the first value of --data and "--data..." for
// the others. Options that take the same values share a branch. A flag takes no value, so a positional argument follows
// it.
std::string branches(const Shown& command) {
  std::vector<std::pair<std::string, Words>> rows;
  for (const Setting& s : command.settings) {
    if (s.flag()) continue;
    const std::string then = assignments(values_of(s));
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == then; });
    if (row == rows.end()) row = rows.insert(rows.end(), {then, {}});
    row->second.push_back("--" + s.name);
    if (s.list) row->second.push_back("--" + s.name + "...");
  }
  std::string text;
  for (const auto& [then, names] : rows) text += "        " + joined(names, " | ") + ") " + then + " ;;\n";
  return text + "        *) " + assignments(command.positional) + " ;;\n";
}

Words option_names(const Shown& command) {
  Words names;
  for (const Setting& s : command.settings) {
    names.push_back("--" + s.name);
    if (s.negatable()) names.push_back("--no-" + s.name);
  }
  return names;
}

std::string bash_cases() {
  std::string text;
  for (const Shown& command : shown_commands())
    text += std::string("    ") + command.row.name + ")\n      options='" + joined(option_names(command)) +
            "'\n      case $option in\n" + branches(command) + "      esac ;;\n";
  return text;
}

const char* const kBash = R"(# Completion of train_gpt for bash.
# Install: train_gpt completion bash > ~/.local/share/bash-completion/completions/train_gpt
_train_gpt() {
  local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} last=$((COMP_CWORD - 1)) i option= options= names= paths=
  # bash splits words at "=".
  if [[ $cur == '=' ]]; then cur=; elif [[ ${COMP_WORDS[last]} == '=' ]]; then last=$((last - 1)); fi
  # The option before the word: directly, or further back ("--data...").
  for ((i = last; i > 1; i--)); do [[ ${COMP_WORDS[i]} == --* ]] && break; done
  ((i > 1)) && option=${COMP_WORDS[i]}
  ((i > 1 && i < last)) && option+=...
  if ((COMP_CWORD == 1)); then names='@COMMANDS@ help version'; else case ${COMP_WORDS[1]} in
    help) names='@COMMANDS@' ;;
@CASES@  esac; fi
  [[ $cur == -* ]] && names="$options --help --help-all" paths=
  COMPREPLY=($(compgen -W "$names" -- "$cur"))
  [[ ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  [[ $paths ]] && compopt -o "$paths" 2>/dev/null  # if no name fits
  return 0
}
complete -F _train_gpt train_gpt
)";

// 'name:explanation' for _describe.
std::string described(const std::string& name, const std::string& help) {
  return " " + quoted(name + ":" + replaced(help, ":", "\\:"));
}

std::string zsh_cases() {
  std::string text;
  for (const Shown& command : shown_commands()) {
    text += std::string("    ") + command.row.name + ")\n      options=(";
    for (const Setting& s : command.settings) {
      text += "\n       " + described("--" + s.name, s.help);
      if (s.negatable()) text += "\n       " + described("--no-" + s.name, s.help);
    }
    text += ")\n      case $option in\n" + branches(command) + "      esac ;;\n";
  }
  return text;
}

std::string zsh_commands() {
  std::string text;
  for (const CommandRow& row : commands()) text += "\n   " + described(row.name, row.help);
  for (const auto& [word, help] : kQuestions) text += "\n   " + described(word, help);
  return text;
}

const char* const kZsh = R"(#compdef train_gpt
# Completion of train_gpt for zsh.
# Install: train_gpt completion zsh > FOLDER/_train_gpt, FOLDER being one of those that `print $fpath` lists.
_train_gpt() {
  local option= names= paths= i
  local -a commands options
  commands=(@COMMANDS_DESCRIBED@)
  if ((CURRENT == 2)); then _describe -t commands command commands; return; fi
  # The option before the word: directly, or further back ("--data...").
  for ((i = CURRENT - 1; i > 2; i--)); do [[ $words[i] == --* ]] && break; done
  ((i > 2)) && option=$words[i]
  ((i > 2 && i < CURRENT - 1)) && option+=...
  if [[ $PREFIX == --*=* ]]; then option=${PREFIX%%=*}; compset -P '*='; fi
  case $words[2] in
    help) names='@COMMANDS@' ;;
@CASES@  esac
  options+=('--help:show common options' '--help-all:show all options')
  if [[ $PREFIX == -* ]]; then _describe -o option options; return; fi
  compadd -S '' -- ${(M)${=names}:#*:}
  compadd -- ${${=names}:#*:}
  case $paths in
    default) _files ;;
    dirnames) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _train_gpt ]]; then _train_gpt "$@"; else compdef _train_gpt train_gpt; fi
)";

// ---- fish ----------------------------------------------------------------------------------------------------

std::string quoted_for_fish(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// Returns the end of a `complete` line for an option or argument with these values.
std::string fish_values(const Values& values) {
  Words words = values.words;
  if (values.folders) words.emplace_back("(__fish_complete_directories)");
  return (words.empty() ? "" : " -a '" + joined(words) + "'") + (values.files ? " -F" : " -f");
}

std::string fish_options() {
  std::vector<std::pair<std::string, Words>> rows;  // an option, the commands that have it
  const auto add = [&](const std::string& line, const char* command) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == line; });
    if (row == rows.end()) row = rows.insert(rows.end(), {line, {}});
    row->second.emplace_back(command);
  };
  for (const Shown& command : shown_commands()) {
    for (const Setting& s : command.settings) {
      const std::string help = " -d " + quoted_for_fish(s.help);
      add("-l " + s.name + (s.flag() ? "" : " -r" + fish_values(values_of(s))) + help, command.row.name);
      if (s.negatable()) add("-l no-" + s.name + help, command.row.name);
    }
    add(fish_values(command.positional).substr(1), command.row.name);
  }
  std::string text;
  for (const auto& [line, names] : rows)
    text += "complete -c train_gpt -n '__train_gpt_runs " + joined(names) + "' " + line + "\n";
  return text;
}

std::string fish_commands() {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& help) {
    text += "complete -c train_gpt -n __train_gpt_runs_nothing -a " + name + " -d " + quoted_for_fish(help) + "\n";
  };
  for (const CommandRow& row : commands()) add(row.name, row.help);
  for (const auto& [word, help] : kQuestions) add(word, help);
  return text;
}

const char* const kFish = R"(# Completion of train_gpt for fish.
# Install: train_gpt completion fish > ~/.config/fish/completions/train_gpt.fish
function __train_gpt_runs_nothing
    test (count (commandline -opc)) -eq 1
end
function __train_gpt_runs
    set -l typed (commandline -opc)
    test (count $typed) -gt 1; and contains -- $typed[2] $argv
end
complete -c train_gpt -f
complete -c train_gpt -n '__train_gpt_runs help' -a '@COMMANDS@'
complete -c train_gpt -l help -d 'show common options'
complete -c train_gpt -l help-all -d 'show all options'
@COMMANDS_DESCRIBED@@CASES@)";

}  // namespace

std::string completion_script(const std::string& shell) {
  const auto filled = [](std::string text, const std::string& described, const std::string& cases) {
    text = replaced(text, "@COMMANDS@", command_names());
    return replaced(replaced(text, "@COMMANDS_DESCRIBED@", described), "@CASES@", cases);
  };
  if (shell == "bash") return filled(kBash, "", bash_cases());
  if (shell == "zsh") return filled(kZsh, zsh_commands(), zsh_cases());
  if (shell == "fish") return filled(kFish, fish_commands(), fish_options());
  throw std::invalid_argument("no completion for the shell " + shell + ": choose bash, zsh or fish");
}
