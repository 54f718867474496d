#include "command_line.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "command_settings.hpp"
#include "completion.hpp"
#include "data/files/files.hpp"
#include "data/files/foreign_files.hpp"
#include "data/host/version.hpp"
#include "data/ranks/mpi_group.hpp"
#include "data/strings/utf8.hpp"
#include "foreign_names.hpp"
#include "help.hpp"
#include "layers/model/presets.hpp"
#include "man_page.hpp"
#include "values.hpp"

namespace {

using Words = std::vector<std::string>;
using Givens = std::vector<Given>;

constexpr size_t kLargestConfig = 16 << 20;  // bytes

Given* find(Givens& givens, const std::string& name) {
  const auto given = std::find_if(givens.begin(), givens.end(), [&](const Given& g) { return g.name == name; });
  return given == givens.end() ? nullptr : &*given;
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// ---- names -----------------------------------------------------------------------------------------------

// The options of a command, which give words their meaning.
struct KnownOptions {
  const CommandRow& row;
  const std::vector<CommandSetting>& settings;
  Words notices = {};  // the foreign names that were accepted

  const CommandSetting* find(const std::string& name) const { return find_setting(settings, name); }
};

KnownOptions known_options(Command::Kind kind) { return {command_row(kind), settings_of(kind)}; }

[[noreturn]] void refuse_option(const KnownOptions& r, const std::string& name, const std::string& answer) {
  if (!answer.empty()) throw std::invalid_argument("there is no --" + name + ": " + answer);
  const std::string command = r.row.name;
  for (const CommandRow& other : commands())
    if (known_options(other.kind).find(name))
      throw std::invalid_argument("--" + name + " is an option of " + other.name + ", not of " + command +
                                  ": leave it out");
  Words listed;
  for (const CommandSetting& s : r.settings)
    if (!s.group.empty()) listed.push_back(s.name);  // the others are written by the program alone
  const std::string near = did_you_mean(name, listed, "--");
  const std::string list = "train_gpt " + command + " --help-all lists all options";
  throw std::invalid_argument("unknown option '--" + one_line(name) + "': " +
                              (near.empty() ? list : near + " (" + list + ")"));
}

struct Meant {
  const Setting* setting;
  bool negated;
};

// Returns the setting that the user means, by our name or by a foreign name with exactly the same meaning.
Meant meant_by(KnownOptions& r, const std::string& typed) {
  const std::string name = dashed(typed);
  if (const Setting* s = r.find(name)) return {s, false};
  const bool no = name.starts_with("no-");
  const std::string positive = no ? name.substr(3) : name;
  const Setting* flag = r.find(positive);
  if (flag && flag->stands_alone()) return {flag, true};
  for (const Setting& s : r.settings)  // --nobias
    if (s.stands_alone() && squeezed(name) == "no" + squeezed(s.name)) {
      r.notices.push_back("--" + name + " is --no-" + s.name + " here");
      return {&s, true};
    }
  const std::string whole = meaning_of(name, names_of(r.settings));
  const std::string meaning = whole.empty() ? meaning_of(positive, names_of(r.settings)) : whole;
  const Setting* ours = r.find(meaning);
  if (!ours || (no && !ours->stands_alone())) refuse_option(r, name, ours ? "" : meaning);
  const std::string option = (no ? "--no-" : "--") + ours->name;
  r.notices.push_back("--" + name + " is " + (ours->positional ? ours->takes : option) + " here");
  return {ours, no};
}

// "placement" of --placement NAME, "format" of --to FORMAT
std::string noun_of(const Setting& s) {
  const bool word = std::ranges::all_of(s.takes, [](unsigned char c) { return std::isupper(c) != 0; });
  return word && s.takes != "NAME" ? dashed(s.takes) : s.name;
}

// Returns our name for a value, if the option takes names.
std::string value_meant(KnownOptions& r, const Setting& s, const std::string& typed) {
  if (s.choices.empty() || contains(s.choices, typed) || contains(s.synonyms, typed)) return typed;
  std::error_code error;
  if (s.files && (typed.find_first_of("./:") != typed.npos || std::filesystem::exists(typed, error))) return typed;
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  if (s.free && !std::all_of(typed.begin(), typed.end(), is_letter)) return typed;
  for (const Words* names : {&s.choices, &s.synonyms})
    for (const std::string& name : *names)
      if (squeezed(name) == squeezed(typed)) return name;
  const std::string meaning = meaning_of(squeezed(typed), s.choices, s.name), hub = s.files ? hub_advice(typed) : "";
  if (meaning.empty()) throw std::invalid_argument(unknown_name(noun_of(s), one_line(typed), s.choices) + hub);
  if (!contains(s.choices, meaning))
    throw std::invalid_argument("there is no --" + s.name + " " + typed + ": " + meaning + hub);
  r.notices.push_back("--" + s.name + " " + typed + " is " + meaning + " here");
  return meaning;
}

// ---- words and TOML → givens -----------------------------------------------------------------------------

// The values of a list, and --config files, accumulate. For other options the last value counts.
void add(Givens& givens, KnownOptions& r, const Meant& meant, Words values, const std::string& where = "") {
  const Setting& s = *meant.setting;
  if (s.flag() || meant.negated) values = {toml(parse_bool(s.name, values[0]) != meant.negated)};
  const bool path = contains({"DIR", "FILE", "PATH", "RUN"}, s.takes);
  if (path && where.empty() && contains(values, ""))
    throw std::invalid_argument("--" + s.name + " is given an empty name: is a variable unset?");
  for (std::string& value : values) value = value_meant(r, s, value);
  Given* same = find(givens, s.name);
  if (!same) {
    givens.push_back({s.name, values, where});
    return;
  }
  if (!s.list && s.name != "config") same->values.clear();
  same->values.insert(same->values.end(), values.begin(), values.end());
}

// True for options that say how long to train. One of them overrides any of them in a file that it overrides.
bool is_length(const KnownOptions& r, const std::string& name) {
  const Setting* s = r.find(name);
  return s && s->length;
}

Givens without_contradictions(const KnownOptions& r, Givens givens) {
  Words lengths;
  for (const Setting& s : r.settings)
    if (s.length && find(givens, s.name)) lengths.push_back(s.name);
  if (lengths.size() > 1)
    throw std::invalid_argument("--" + lengths[0] + " and --" + lengths[1] +
                                " both say how long to train: leave one out");
  return givens;
}

void add_positional(Givens& givens, KnownOptions& r, const std::string& word) {
  const Setting* s = r.find(r.row.positional);
  if (!s || (find(givens, s->name) && !s->list))
    throw std::invalid_argument("'" + one_line(word) + "' is one word too many: usage: " + usage_of(r.row));
  add(givens, r, {s, false}, {word});
}

// 0 and 1 after a flag are files or runs.
bool is_value(const Setting& s, const std::string& word) {
  return (word.size() > 1 && truth_of(word)) || contains(s.choices, dashed(word));
}

// The values that follow the option words[i]; moves i to the last of them.
Words values_after(const Words& words, size_t& i, const Setting& s) {
  Words values;
  const auto more = [&] { return i + 1 < words.size() && !words[i + 1].starts_with("--"); };
  if (s.stands_alone()) return more() && is_value(s, words[i + 1]) ? Words{words[++i]} : Words{"true"};
  while (more() && (s.list || values.empty())) values.push_back(words[++i]);
  if (!values.empty()) return values;
  std::string usage = "write --" + s.name + " " + s.takes;
  if (i + 1 < words.size() && !s.list) usage += ", or --" + s.name + "=" + s.takes + " if it begins with --";
  throw std::invalid_argument("--" + s.name + " needs a value: " + usage);
}

// Reads the words after the name of the command.
Givens read_words(KnownOptions& r, const Words& words) {
  Givens givens;
  bool options = true;  // until "--", after which all words are files or runs
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (options && word == "--") {
      options = false;
    } else if (!options || word[0] != '-' || word == "-") {
      add_positional(givens, r, word);
    } else if (!word.starts_with("--")) {
      throw std::invalid_argument("unknown option '" + one_line(word) + "': options begin with two dashes (train_gpt " +
                                  r.row.name + " --help lists them)");
    } else {
      const size_t equals = word.find('=');
      const Meant meant = meant_by(r, word.substr(2, equals == word.npos ? equals : equals - 2));
      add(givens, r, meant,
          equals == word.npos ? values_after(words, i, *meant.setting) : Words{word.substr(equals + 1)});
    }
  }
  return without_contradictions(r, givens);
}

Givens read_toml_options(KnownOptions& r, const std::string& text, const std::string& file) {
  Givens givens;
  std::string where = file + (file.empty() ? "" : " ");
  try {
    for (const TomlEntry& entry : read_toml(text)) {
      where = file + (file.empty() ? "line " : " line ") + std::to_string(entry.line) + ": ";
      const Meant meant = meant_by(r, entry.name);
      const Setting& s = *meant.setting;
      if (s.name == "config")
        throw std::invalid_argument("a config file cannot read another one: give both on the command line");
      if (entry.values.size() != 1 && !s.list)
        throw std::invalid_argument("--" + s.name + " takes one value: write it without []");
      add(givens, r, meant, entry.values, where);
    }
    where = file + (file.empty() ? "" : ": ");
    return without_contradictions(r, givens);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(where + error.what());
  }
}

// `top` overrides `under`.
Givens put_under(const KnownOptions& r, Givens top, const Givens& under) {
  const auto overrides = [&](const Given& a, const Given& b) {
    return a.name == b.name || (is_length(r, a.name) && is_length(r, b.name));
  };
  const Givens above = top;
  for (const Given& given : under)
    if (std::none_of(above.begin(), above.end(), [&](const Given& g) { return overrides(g, given); }))
      top.push_back(given);
  return top;
}

// Replaces --config FILE by the options in the file. A later file overrides an earlier one.
Givens expand_config(KnownOptions& r, Givens givens) {
  const Given* config = find(givens, "config");
  if (!config) return givens;
  const Words files = config->values;
  std::erase_if(givens, [](const Given& g) { return g.name == "config"; });
  for (size_t i = files.size(); i-- > 0;)
    givens = put_under(r, givens, read_toml_options(r, read_file(files[i], kLargestConfig), files[i]));
  return givens;
}

// ---- givens → a command ----------------------------------------------------------------------------------

// Widths that a preset sets stay in proportion to the channels. A number of heads that is given decides their width.
void scale_preset_widths(Command& c) {
  if (!c.said("channels")) return;
  Config& config = c.train.config;
  const Config preset = preset_config(c.train.preset, c.train.size);
  for (const Width& width : kWidths) {
    const bool of_heads = width.size == &Config::head_dim && c.said("heads");
    if (!c.said(width.field) && !of_heads) config.*width.size = scaled(preset, width, config.channels);
  }
}

// Chooses the heads of the base model of a size by depth, such as d8: those of the size that has its channels. A model
// whose heads were changed has no such base model.
void set_base_heads(Command& c) {
  Config& config = c.train.config;
  const Config size = preset_config(c.train.preset, c.train.size);
  const bool tuned = config.parametrization != Parametrization::sp && config.base_channels > 0;
  const bool as_sized = config.channels == size.channels && config.n_head == size.n_head &&
                        config.head_dim == size.head_dim && c.init_report.widths.empty();
  if (tuned && as_sized && config.base_heads == 0 && is_size_by_depth(c.train.size))
    config.base_heads = heads_by_depth(config.base_channels);
}

void set_options(Command& c) {
  // The preset comes first, because the other options change it.
  if (const Given* preset = find(c.given, "preset")) c.train.preset = preset->values[0];
  if (Given* size = find(c.given, "size")) {
    for (const Preset& row : presets())  // 7b is 7B
      if (row.name == c.train.preset && squeezed(row.size) == squeezed(size->values[0])) size->values[0] = row.size;
    c.train.size = size->values[0];
  }
  try {
    c.train.config = preset_config(c.train.preset, c.train.size);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("--size: ") + error.what());
  }
  const std::vector<CommandSetting>& settings = settings_of(c.kind);
  for (const Given& g : c.given)
    for (const std::string& value : g.values) find_setting(settings, g.name)->set(c, value);
  scale_preset_widths(c);
  set_base_heads(c);
  const bool reads_no_text = c.said("pairs") || c.said("choices") || c.said("hellaswag");
  for (const Setting& s : settings)
    if (s.required && !c.said(s.name) && !(s.name == "data" && reads_no_text)) {
      const std::string option = s.positional ? s.takes : "--" + s.name;
      const std::string usage =
          s.positional ? "usage: " + usage_of(command_row(c.kind)) : "write " + option + " " + s.takes;
      throw std::invalid_argument(option + " is missing: " + usage);
    }
  if (c.sample.greedy) c.sample.temperature = 0;
  if (c.sample.interactive && (c.sample.count > 1 || c.sample.prompt == "-"))
    throw std::invalid_argument("--interactive reads lines from standard input and answers each once: "
                                "leave out --count and --prompt -");
  complete(c.train);
}

// Rejects --out runs, unless that folder holds a run to continue.
void refuse_folder_of_runs(const Command& c) {
  const std::string& out = c.kind == Command::Kind::import_model ? c.import_model.out : c.train.out;
  if (c.train.resume || out.empty() || std::filesystem::path(out + "/").lexically_normal() != "runs/") return;
  throw std::invalid_argument("--out " + out + " is the folder of all runs: name a folder in it, e.g. --out runs/mine");
}

// Options that have no effect on this command line. unused_options() has those of a run.
Words idle_options(const Command& c) {
  Words lines;
  for (const CommandSetting& s : settings_of(c.kind))
    for (const auto& need : s.needs)
      if (need.of_words && c.said(s.name) && !need.met(c))
        lines.push_back("--" + s.name + " has no effect " + spelled(need.otherwise, "--"));
  return lines;
}

// Rejects options of a model together with a run, which has its own model.
void refuse_model_beside_run(const Command& command) {
  if (command.kind != Command::Kind::info || command.info_checkpoint.empty()) return;
  for (const Setting& s : settings_of(command.kind))
    if (s.model && command.said(s.name))
      throw std::invalid_argument("--" + s.name + " says what a model is, and " + command.info_checkpoint +
                                  " is a model already: leave out --" + s.name);
}

Command command_of(const KnownOptions& r, const Givens& givens, const std::string& program) {
  Command c;
  c.kind = r.row.kind;
  c.program = program;
  c.given = givens;
  c.notices = r.notices;
  try {
    set_options(c);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(c.located(error.what()));
  }
  refuse_model_beside_run(c);
  refuse_folder_of_runs(c);
  for (const std::string& line : idle_options(c)) c.notices.push_back(line);
  return c;
}

// ---- words that are not options --------------------------------------------------------------------------

const CommandRow& command_named(const std::string& word) {
  for (const CommandRow& row : commands())
    if (word == row.name) return row;
  constexpr const char* kForeign[][2] = {
      {"generate", "sample"}, {"chat", "sample"}, {"evaluate", "eval"}, {"finetune", "train --init-from RUN"},
      {"resume", "train --out RUN --resume"}, {"pretrain", "train"}, {"sweep", "compare"}};
  for (const auto& [theirs, ours] : kForeign)
    if (word == theirs) throw std::invalid_argument("there is no command " + word + ": write train_gpt " + ours);
  const std::string shown = one_line(word);
  if (word.starts_with("-"))
    throw std::invalid_argument("the command comes before the options: train_gpt train " + shown + " ...");
  if (std::filesystem::exists(word))
    throw std::invalid_argument("'" + shown + "' is not a command: to train on it, write train_gpt train " + shown);
  throw std::invalid_argument(unknown_name("command", shown, names_of(commands())));
}

// Throws CommandLineExit if the words ask for help or for the version, or if a shell asks for completions.
void answer_questions(const Words& words) {
  if (words.empty()) throw CommandLineExit{help_of_program()};
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version")
    throw CommandLineExit{version_text() + mpi_line()};
  if (words[0] == "complete") throw CommandLineExit{completions({words.begin() + 1, words.end()})};
  const bool all = contains(words, "--help-all");
  const size_t at = words[0] == "help" ? 1 : 0;  // index of the command
  if (at == 0 && !all && !contains(words, "--help") && !contains(words, "-h")) return;
  if (at >= words.size() || words[at].starts_with("-")) throw CommandLineExit{help_of_program()};
  throw CommandLineExit{help_of(command_named(words[at]), all || words.back() == "all")};
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  answer_questions(words);
  const char* launcher = std::getenv("TRAIN_GPT_COMMAND");  // the command that the user typed, if a launcher was it
  const Command command = parse_words(words, {}, launcher ? launcher : argv[0]);
  if (command.kind == Command::Kind::completion) throw CommandLineExit{completion_script(command.shell)};
  if (command.kind == Command::Kind::man) throw CommandLineExit{man_page()};
  return command;
}

Command parse_words(Words words, const std::vector<std::pair<std::string, std::string>>& more,
                    const std::string& program) {
  for (const auto& [option, value] : more) words.push_back("--" + option + "=" + value);
  KnownOptions r = known_options(command_named(words[0]).kind);
  Givens givens = expand_config(r, read_words(r, words));
  // A config file contains its run's steps, which --for has chosen. Only --resume keeps the limit.
  std::erase_if(givens, [](const Given& g) { return g.name == "time-in-all"; });
  return command_of(r, givens, program);
}

Command parse_on_top(const Command& command, const std::string& toml, const std::string& file) {
  KnownOptions r = known_options(command.kind);
  return command_of(r, put_under(r, command.given, read_toml_options(r, toml, file)), command.program);
}

Words words_of(const Command& command) {
  const KnownOptions r = known_options(command.kind);
  Words words = {r.row.name};
  for (const Given& g : command.given) {
    const Setting& s = *r.find(g.name);
    const bool dashes =
        std::any_of(g.values.begin(), g.values.end(), [](const auto& value) { return value.starts_with("--"); });
    if (s.positional) {
      words.insert(words.begin() + 1, g.values[0]);
    } else if (s.flag()) {
      words.push_back((g.values[0] == "true" ? "--" : "--no-") + s.name);
    } else if (dashes) {
      for (const std::string& value : g.values) words.push_back("--" + s.name + "=" + value);
    } else {
      words.push_back("--" + s.name);
      words.insert(words.end(), g.values.begin(), g.values.end());
    }
  }
  return words;
}

Words words_for_train(const Command& compare) {
  Command train;
  for (const Given& g : compare.given)
    if (find_setting(train_settings(), g.name)) train.given.push_back(g);
  return words_of(train);
}

std::string said_as_toml(const Command& command) {
  const KnownOptions r = known_options(command.kind);
  std::string text;
  for (Given g : command.given) {
    const Setting& s = *r.find(g.name);
    if (s.call) continue;
    for (std::string& value : g.values) {
      const bool names_one = s.files && value.find_first_of("./") != value.npos && std::filesystem::exists(value);
      if (s.input || names_one) value = absolute_path(value);
    }
    const std::string value = s.list ? toml(g.values) : toml(g.values[0]);
    text += g.name + " = " + (s.flag() ? g.values[0] : value) + "\n";
  }
  return text;
}

TrainOptions from_toml(const std::string& text, const std::string& file) {
  return parse_on_top({}, text, file).train;
}
