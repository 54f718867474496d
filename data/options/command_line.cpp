#include "command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "data/host/files.hpp"
#include "data/host/utf8.hpp"
#include "help.hpp"
#include "layers/model/presets.hpp"
#include "names.hpp"
#include "settings.hpp"
#include "version.hpp"

namespace {

using Words = std::vector<std::string>;

constexpr size_t kLargestConfig = 16 << 20;  // bytes

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

// An option with its values, and the place in a file that it comes from: "recipe.toml line 3: ".
struct Given {
  std::string name;
  Words values;
  std::string where;
};
using Givens = std::vector<Given>;

Given* find(Givens& givens, const std::string& name) {
  const auto given = std::find_if(givens.begin(), givens.end(), [&](const Given& g) { return g.name == name; });
  return given == givens.end() ? nullptr : &*given;
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// ---- names -----------------------------------------------------------------------------------------------

// The options of a command, against which words are read.
struct Reading {
  const CommandRow& row;
  std::vector<Setting> settings;
  Words notices = {};  // foreign names that were taken

  const Setting* find(const std::string& name) const {
    for (const Setting& s : settings)
      if (s.name == name) return &s;
    return nullptr;
  }
  Words names() const {
    Words list;
    for (const Setting& s : settings) list.push_back(s.name);
    return list;
  }
};

Reading reading_of(Command::Kind kind) {
  static Command scratch;  // settings point into it; only their names are used
  scratch.kind = kind;
  return {row_of(kind), settings_of(scratch)};
}

[[noreturn]] void refuse_option(const Reading& r, const std::string& name, const std::string& answer) {
  if (!answer.empty()) refuse("there is no --" + name + ": " + answer);
  const std::string command = r.row.name;
  for (const CommandRow& other : commands())
    if (reading_of(other.kind).find(name))
      refuse("--" + name + (&other == &r.row ? " concerns one call and is not stored" :
                            " is an option of " + std::string(other.name) + ", not of " + command) + ": leave it out");
  const std::string near = did_you_mean(name, r.names(), "--");
  const std::string list = "train_gpt " + command + " --help-all lists all options";
  refuse("unknown option '--" + for_terminal(name) + "': " + (near.empty() ? list : near + " (" + list + ")"));
}

struct Meant {
  const Setting* setting;
  bool negated;
};

// By our name, or by one with exactly the same meaning elsewhere.
Meant meant_by(Reading& r, const std::string& typed) {
  const std::string name = dashed(typed);
  if (const Setting* s = r.find(name)) return {s, false};
  const bool no = name.starts_with("no-");
  const std::string positive = no ? name.substr(3) : name;
  const Setting* flag = r.find(positive);
  if (flag && flag->flag()) return {flag, true};
  const Meaning meaning = meaning_of_option(positive, r.names());
  const Setting* ours = r.find(meaning.ours);
  if (!ours || (no && !ours->flag())) refuse_option(r, name, meaning.answer);
  const std::string dashes = ours->positional ? "" : no ? "--no-" : "--";
  r.notices.push_back("--" + name + " is " + dashes + (ours->positional ? ours->takes : ours->name) + " here");
  return {ours, no};
}

// The value in our words, if the option takes names.
std::string value_meant(Reading& r, const Setting& s, const std::string& typed) {
  if (s.choices.empty() || contains(s.choices, typed) || contains(s.synonyms, typed)) return typed;
  for (const Words* names : {&s.choices, &s.synonyms})
    for (const std::string& name : *names)
      if (squeezed(name) == squeezed(typed)) return name;
  const Meaning meaning = meaning_of_value(s.name, typed);
  if (!meaning.answer.empty()) refuse("there is no --" + s.name + " " + typed + ": " + meaning.answer);
  if (meaning.ours.empty()) refuse(unknown_name(s.name, for_terminal(typed), s.choices));
  r.notices.push_back("--" + s.name + " " + typed + " is " + meaning.ours + " here");
  return meaning.ours;
}

// A list grows, the last of other values counts. Every --config is read.
void add(Givens& givens, Reading& r, const Setting& s, Words values, const std::string& where = "") {
  for (std::string& value : values) value = value_meant(r, s, value);
  Given* same = find(givens, s.name);
  if (!same) return void(givens.push_back({s.name, values, where}));
  if (!s.list && s.name != "config") same->values.clear();
  same->values.insert(same->values.end(), values.begin(), values.end());
}

// Options that say how long to train: one on the command line overrides any of them in a file.
const Words kLength = {"steps", "epochs", "for"};

bool decide_the_same(const std::string& a, const std::string& b) {
  return a == b || (contains(kLength, a) && contains(kLength, b));
}

Givens without_contradictions(Givens givens) {
  Words lengths;
  for (const std::string& name : kLength)
    if (find(givens, name)) lengths.push_back(name);
  if (lengths.size() > 1)
    refuse("--" + lengths[0] + " and --" + lengths[1] + " both say how long to train: leave one out");
  return givens;
}

// ---- words → options -------------------------------------------------------------------------------------

void add_positional(Givens& givens, Reading& r, const std::string& word) {
  const Setting* s = r.find(r.row.positional);
  if (find(givens, s->name) && !s->list)
    refuse("'" + for_terminal(word) + "' is one word too many: usage: train_gpt " + r.row.name + " " + r.row.usage);
  add(givens, r, *s, {word});
}

bool is_bool(const std::string& word) { return dashed(word) == "true" || dashed(word) == "false"; }

// The values that follow the option words[i]; leaves i at the last of them.
Words values_behind(const Words& words, size_t& i, const Setting& s) {
  Words values;
  const auto more = [&] { return i + 1 < words.size() && !words[i + 1].starts_with("--"); };
  if (s.flag()) return more() && is_bool(words[i + 1]) ? Words{words[++i]} : Words{"true"};
  while (more() && (s.list || values.empty())) values.push_back(words[++i]);
  if (values.empty())
    refuse("--" + s.name + " needs a value: write --" + s.name + " " + s.takes +
           (i + 1 < words.size() && !s.list ? ", or --" + s.name + "=" + s.takes + " if it begins with --" : ""));
  return values;
}

// Reads the words after the command.
Givens read_words(Reading& r, const Words& words) {
  Givens givens;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {  // only files or runs after it
      while (++i < words.size()) add_positional(givens, r, words[i]);
      break;
    }
    if (word[0] != '-' || word == "-") {
      add_positional(givens, r, word);
      continue;
    }
    if (!word.starts_with("--"))
      refuse("unknown option '" + for_terminal(word) + "': options begin with two dashes (train_gpt " + r.row.name +
             " --help lists them)");
    const size_t equals = word.find('=');
    const auto [setting, negated] = meant_by(r, word.substr(2, equals == word.npos ? equals : equals - 2));
    Words values = equals == word.npos ? values_behind(words, i, *setting) : Words{word.substr(equals + 1)};
    if (negated) values = {toml(!parse_bool(setting->name, values[0]))};
    add(givens, r, *setting, values);
  }
  return without_contradictions(givens);
}

Givens read_toml_options(Reading& r, const std::string& text, const std::string& file) {
  Givens givens;
  std::string where = file + (file.empty() ? "" : " ");
  try {
    for (const TomlEntry& entry : read_toml(text)) {
      where = file + (file.empty() ? "line " : " line ") + std::to_string(entry.line) + ": ";
      const auto [setting, negated] = meant_by(r, entry.name);
      Words values = entry.values;
      if (setting->name == "config") refuse("a config file cannot read another one: give both on the command line");
      if (values.size() != 1 && !setting->list) refuse("--" + setting->name + " takes one value: write it without []");
      if (negated) values = {toml(!parse_bool(setting->name, values[0]))};
      add(givens, r, *setting, values, where);
    }
    where = file + (file.empty() ? "" : ": ");
    return without_contradictions(givens);
  } catch (const std::invalid_argument& error) {
    refuse(where + error.what());
  }
}

// `top` overrides.
Givens put_under(Givens top, const Givens& under) {
  const size_t size = top.size();
  for (const Given& given : under)
    if (std::none_of(top.begin(), top.begin() + size,
                     [&](const Given& g) { return decide_the_same(g.name, given.name); }))
      top.push_back(given);
  return top;
}

// --config FILE is replaced by the file's options. A later file overrides an earlier one.
Givens expand_config(Reading& r, Givens givens) {
  const Given* config = find(givens, "config");
  if (!config) return givens;
  const Words files = config->values;
  givens.erase(givens.begin() + (config - givens.data()));
  for (size_t i = files.size(); i-- > 0;)
    givens = put_under(givens, read_toml_options(r, read_file(files[i], kLargestConfig), files[i]));
  return givens;
}

// ---- options → words -------------------------------------------------------------------------------------

Words words_of(const Reading& r, const Givens& givens) {
  Words words = {r.row.name};
  for (const Given& g : givens) {
    const Setting& s = *r.find(g.name);
    const bool dashes =
        std::any_of(g.values.begin(), g.values.end(), [](const auto& value) { return value.starts_with("--"); });
    if (s.positional) {
      words.insert(words.begin() + 1, g.values[0]);
    } else if (s.flag()) {
      words.push_back((parse_bool(s.name, g.values[0]) ? "--" : "--no-") + s.name);
    } else if (dashes) {
      for (const std::string& value : g.values) words.push_back("--" + s.name + "=" + value);
    } else {
      words.push_back("--" + s.name);
      words.insert(words.end(), g.values.begin(), g.values.end());
    }
  }
  return words;
}

// ---- options → a command ---------------------------------------------------------------------------------

// A preset is what the other options change.
void take_preset(TrainOptions& o, Givens& givens) {
  if (const Given* preset = find(givens, "preset")) o.preset = preset->values[0];
  if (const Given* size = find(givens, "size")) o.size = size->values[0];
  try {
    o.config = preset_config(o.preset, o.size);
  } catch (const std::invalid_argument& error) {
    refuse(std::string("--size: ") + error.what());
  }
}

void set_options(Command& c, Givens& givens) {
  take_preset(c.train, givens);
  const Reading r{row_of(c.kind), settings_of(c)};
  for (const Given& g : givens)
    for (const std::string& value : g.values) r.find(g.name)->set(value);
  for (const Setting& s : r.settings)
    if (s.required && !find(givens, s.name))
      refuse("--" + s.name + " is missing: write --" + s.name + " " + s.takes);
  if (c.sample.greedy) c.sample.sampling.temperature = 0;
  complete(c.train);
}

// A run has its own model: options of another would mean nothing.
void refuse_model_beside_run(const Command& command) {
  if (command.kind != Command::Kind::info || command.info_checkpoint.empty()) return;
  TrainOptions scratch;
  for (const Setting& setting : settings_of(scratch, false))
    if (command.said("--" + setting.name) || command.said("--no-" + setting.name))
      refuse("--" + setting.name + " says what a model is, and " + command.info_checkpoint +
             " has one already: leave one of them out");
}

Command command_of(const Reading& r, Givens givens, const std::string& program) {
  Command c;
  c.kind = r.row.kind;
  c.program = program;
  c.notices = r.notices;
  for (const Given& g : givens) c.origins[g.name] = g.where;
  try {
    c.words = words_of(r, givens);
    set_options(c, givens);
  } catch (const std::invalid_argument& error) {
    refuse(c.located(error.what()));
  }
  c.info_needs_checkpoint = c.words.size() == 1 || !c.info_checkpoint.empty();
  refuse_model_beside_run(c);
  return c;
}

Givens givens_of(Reading& r, const Command& command) {
  Givens givens = read_words(r, Words(command.words.begin() + 1, command.words.end()));
  for (Given& g : givens) {
    const auto origin = command.origins.find(g.name);
    if (origin != command.origins.end()) g.where = origin->second;
  }
  return givens;
}

// ---- words that are no options ---------------------------------------------------------------------------

const CommandRow& command_named(const std::string& word) {
  Words names;
  for (const CommandRow& row : commands()) {
    if (word == row.name) return row;
    names.emplace_back(row.name);
  }
  constexpr const char* kForeign[][2] = {
      {"generate", "sample"}, {"chat", "sample"}, {"evaluate", "eval"}, {"finetune", "train --init-from RUN"},
      {"resume", "train --out RUN --resume"}, {"pretrain", "train"}, {"sweep", "compare"}};
  for (const auto& [theirs, ours] : kForeign)
    if (word == theirs) refuse("there is no command " + word + ": write train_gpt " + ours);
  if (word.starts_with("-"))
    refuse("the command comes before the options: train_gpt train " + for_terminal(word) + " ...");
  if (std::filesystem::exists(word))
    refuse("'" + for_terminal(word) + "' is not a command: to train on it, write train_gpt train " +
           for_terminal(word));
  refuse(unknown_name("command", for_terminal(word), names));
}

// Throws if help or the version was asked for.
void answer_questions(const Words& words) {
  const auto has = [&](const char* word) { return contains(words, word); };
  if (words.empty()) throw CommandLineExit{help_of_program()};
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") throw CommandLineExit{version_text()};
  const bool asked = words[0] == "help" || has("--help") || has("-h") || has("--help-all");
  if (!asked) return;
  const size_t at = words[0] == "help" ? 1 : 0;
  if (at >= words.size() || words[at].starts_with("-")) throw CommandLineExit{help_of_program()};
  throw CommandLineExit{help_of(command_named(words[at]), has("--help-all") || words.back() == "all")};
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  answer_questions(words);
  Reading r = reading_of(command_named(words[0]).kind);
  const Givens givens = expand_config(r, read_words(r, Words(words.begin() + 1, words.end())));
  return command_of(r, givens, argv[0]);
}

Command parse_on_top(const Command& command, const std::string& toml, const std::string& file) {
  Reading r = reading_of(command.kind);
  const Givens givens = givens_of(r, command);
  return command_of(r, put_under(givens, read_toml_options(r, toml, file)), command.program);
}

Words words_for_train(const Command& compare) {
  Reading r = reading_of(Command::Kind::compare);
  Givens kept = givens_of(r, compare);
  Command scratch;
  for (const Setting& own : settings_of_comparison(scratch))
    std::erase_if(kept, [&](const Given& g) { return g.name == own.name; });
  return words_of(reading_of(Command::Kind::train), kept);
}

std::string said_as_toml(const Command& command) {
  Reading r = reading_of(command.kind);
  std::string text;
  for (Given g : givens_of(r, command)) {
    if (g.name == "data" || g.name == "val-data" || g.name == "init-from")
      for (std::string& path : g.values) path = absolute_path(path);
    static const Words kOfThisCall = {"out", "resume", "force", "dry-run"};
    if (contains(kOfThisCall, g.name)) continue;
    const Setting& s = *r.find(g.name);
    text += g.name + " = " + (s.flag() ? g.values[0] : s.list ? toml(g.values) : toml(g.values[0])) + "\n";
  }
  return text;
}

TrainOptions train_options(const Words& words, const std::vector<std::pair<std::string, std::string>>& more) {
  Reading r = reading_of(command_named(words[0]).kind);
  Words all(words.begin() + 1, words.end());
  for (const auto& [option, value] : more) all.push_back("--" + option + "=" + value);
  return command_of(r, read_words(r, all), "").train;
}

TrainOptions from_toml(const std::string& text, const std::string& file) {
  TrainOptions scratch;
  Reading r{row_of(Command::Kind::train), settings_of(scratch)};
  return command_of(r, read_toml_options(r, text, file), "").train;
}
