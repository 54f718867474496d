#include <algorithm>
#include <sstream>

#include "describe.hpp"
#include "files.hpp"

namespace {

struct CommandRow {
  const char* name;
  Command::Kind value;
  const char* help;
};
constexpr CommandRow kCommands[] = {
    {"train", Command::Kind::train, "train a model on text"},
    {"sample", Command::Kind::sample, "write text with a trained model"},
    {"eval", Command::Kind::eval, "loss of a trained model on a text"},
    {"info", Command::Kind::info, "a drawing of a model and its tensors; what a step costs (--cost)"},
    {"compare", Command::Kind::compare, "train one model for each combination of options and compare them"},
    {"init-report", Command::Kind::init_report, "gradients and activations of a model before its first step"},
    {"corpus", Command::Kind::corpus, "write a corpus of stories whose exact entropy is known"},
};

// What is behind the name of a command.
void describe_command(CLI::App& app, Command& c, std::string& config_file) {
  Describe d(app);
  switch (c.kind) {
    case Command::Kind::train:
    case Command::Kind::compare:
      if (c.kind == Command::Kind::compare) describe_compare(d, c.compare);
      describe_model(d, c.train);
      describe_training(d, c.train);
      return describe_call(app, c.train, config_file, c.kind);
    case Command::Kind::info:
      app.add_option("checkpoint", c.info_checkpoint, "a checkpoint or a run's directory (default: the newest run)");
      describe_model(d, c.train);
      d.group("Step");
      d.number("batch", c.train.batch, 1, 1 << 20, "sequences in a micro-batch (B)");
      d.flag("cost", c.info_cost, "memory and flops of a step, part by part and by formula, instead of drawing and tensors");
      return;
    case Command::Kind::sample: return describe_sample(app, c.sample);
    case Command::Kind::eval: return describe_eval(app, c.eval);
    case Command::Kind::init_report: return describe_init_report(app, c.train, c.init_report);
    case Command::Kind::corpus: return describe_corpus(app, c.corpus);
  }
}

struct CommandLine {
  CLI::App app{"train_gpt: trains small GPT and Llama models on the CPU; where the normalization sits, and which\n"
               "it is, are switches.",
               "train_gpt"};
  std::string config_file;

  explicit CommandLine(Command& c) {
    app.require_subcommand(1);
    app.footer("\ntrain_gpt COMMAND --help shows the options of a command.");
    for (const CommandRow& row : kCommands) {
      c.kind = row.value;
      describe_command(*app.add_subcommand(row.name, row.help), c, config_file);
    }
  }
};

using Words = std::vector<std::string>;

// The entries of a TOML file as command-line words.
Words words_of_toml(std::istream& in) {
  Words words;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
    if (item.inputs.empty()) continue;
    const bool boolean = item.inputs.size() == 1 && (item.inputs[0] == "true" || item.inputs[0] == "false");
    if (boolean) {
      words.push_back("--" + item.name + "=" + item.inputs[0]);
    } else {
      words.push_back("--" + item.name);
      words.insert(words.end(), item.inputs.begin(), item.inputs.end());
    }
  }
  return words;
}

// Puts `under` behind the sub-command, without the options that `words` has too: these override it.
Words put_under(Words words, const Words& under) {
  const auto name_of_word = [](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    if (name == "--epochs" || name == "--for") return std::string("--steps");  // each overrides the others
    return name.starts_with("--no-") ? "--" + name.substr(5) : name;
  };
  const auto given = [&](const std::string& name) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return name_of_word(word) == name; });
  };
  Words kept;
  bool keep = false;
  for (const std::string& word : under) {
    if (word.starts_with("--")) keep = !given(name_of_word(word));
    if (keep) kept.push_back(word);
  }
  words.insert(words.begin() + 1, kept.begin(), kept.end());
  return words;
}

// --config FILE is replaced by the file's options.
Words expand_config(const Words& words) {
  Words rest, from_file;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string file;
    if (words[i].starts_with("--config=")) {
      file = words[i].substr(9);
    } else if (words[i] == "--config" && i + 1 < words.size()) {
      file = words[++i];
    } else {
      rest.push_back(words[i]);
      continue;
    }
    std::istringstream text(read_file(file));
    const Words more = words_of_toml(text);
    from_file.insert(from_file.end(), more.begin(), more.end());
  }
  return rest.empty() ? rest : put_under(rest, from_file);
}

std::string unexpected(const CommandLine& line, const Words& words) {
  const CLI::App* used = &line.app;
  Words commands;
  for (const CommandRow& row : kCommands) {
    commands.emplace_back(row.name);
    if (!words.empty() && words[0] == row.name) used = line.app.get_subcommand(row.name);
  }
  if (used == &line.app)
    return words.empty() ? "which command? (train_gpt --help lists them)" : unknown_name("command", words[0], commands);
  Words known;
  for (const CLI::Option* option : used->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : words)
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      if (std::find(known.begin(), known.end(), name) == known.end())
        return "unknown option '" + name + "': did you mean '" + nearest_name(name, known) + "'? (train_gpt " +
               used->get_name() + " --help lists them all)";
    }
  return "";
}

void parse_words(Command& command, const Words& words) {
  CommandLine line(command);
  try {
    Words reversed(words.rbegin(), words.rend());
    line.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw CommandLineExit{line.app.help()};
  } catch (const CLI::ParseError& error) {
    const std::string hint = unexpected(line, words);
    throw std::invalid_argument(hint.empty() ? error.what() : hint);
  }
  const std::string used = line.app.get_subcommands().front()->get_name();
  for (const CommandRow& row : kCommands)
    if (used == row.name) command.kind = row.value;
}

// Twice: the first time to learn the preset, the second on top of the preset's numbers.
Command parse_twice(const Words& words) {
  Command first;
  parse_words(first, words);
  Command second;
  second.train.preset = first.train.preset;
  second.train.size = first.train.size;
  second.train.config = preset_config(first.train.preset, first.train.size);
  parse_words(second, words);
  placement_row(second.train.config.placement);  // throws for unknown ones
  second.train.rate.min_lr = second.train.min_lr.value_or(second.train.rate.lr / 10);
  check_batch(second.train);
  check_textbook(second.train);
  return second;
}

// A run has its own model: options of another would mean nothing.
void refuse_model_beside_run(const Command& command) {
  if (command.kind != Command::Kind::info || command.info_checkpoint.empty()) return;
  TrainOptions scratch;
  CLI::App app;
  for (const Setting& setting : settings_of(scratch, app, false))
    if (command.said("--" + setting.name) || command.said("--no-" + setting.name))
      throw std::invalid_argument("--" + setting.name + " says what a model is, and " + command.info_checkpoint +
                                  " has one already: leave one of them out");
}

Command parse(const Words& words, const std::string& program) {
  Command command = parse_twice(words);
  command.program = program;
  command.words = words;
  command.info_needs_checkpoint = words.size() == 1 || !words[1].starts_with("--") || !command.info_checkpoint.empty();
  refuse_model_beside_run(command);
  if (command.train.epochs > 0 && command.said("--steps"))
    throw std::invalid_argument("--steps and --epochs both say how long to train: leave one out");
  if (command.said("--for") && (command.said("--steps") || command.train.epochs > 0))
    throw std::invalid_argument("--for chooses the number of steps: leave --steps, --epochs or --for out");
  return command;
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  const Words words = expand_config(Words(argv + 1, argv + argc));
  if (words.empty()) {
    Command none;
    throw CommandLineExit{CommandLine(none).app.help()};
  }
  return parse(words, argv[0]);
}

Command parse_on_top(const Command& command, const std::string& toml) {
  std::istringstream in(toml);
  return parse(put_under(command.words, words_of_toml(in)), command.program);
}

bool Command::said(const std::string& option) const {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

Words words_for_train(const Command& compare) {
  CLI::App own;
  CompareOptions scratch;
  TrainOptions train;
  std::string file;
  Describe d(own);
  describe_compare(d, scratch);
  describe_call(own, train, file, Command::Kind::compare);
  const auto is_own = [&](const std::string& name) { return own.get_option_no_throw(name) != nullptr; };
  Words kept = {"train"};
  bool keep = true;
  for (size_t i = 1; i < compare.words.size(); ++i) {
    const std::string& word = compare.words[i];
    if (word.starts_with("--")) keep = !is_own(word.substr(0, word.find('=')));
    if (keep) kept.push_back(word);
  }
  return kept;
}

std::string said_as_toml(const Command& command) {
  std::vector<std::pair<std::string, Words>> options;
  for (size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    const size_t equals = word.find('=');
    if (!word.starts_with("--")) options.back().second.push_back(word);
    else if (equals != word.npos) options.push_back({word.substr(2, equals - 2), {word.substr(equals + 1)}});
    else options.push_back({word.substr(2), {}});
  }
  std::string text;
  for (auto& [name, values] : options) {
    if (name == "data" || name == "val-data" || name == "init-from")
      for (std::string& path : values) path = absolute_path(path);
    static const Words kOfThisCall = {"out", "resume", "force", "dry-run"};
    if (std::find(kOfThisCall.begin(), kOfThisCall.end(), name) != kOfThisCall.end()) continue;
    const bool no = values.empty() && name.starts_with("no-");
    text += (no ? name.substr(3) : name) + " = " +
            (values.empty() ? toml(!no) : values.size() == 1 ? toml(values[0]) : toml(values)) + "\n";
  }
  return text;
}

TrainOptions train_options(const Words& words, const std::vector<std::pair<std::string, std::string>>& more) {
  Words all = words;
  for (const auto& [option, value] : more) all.push_back("--" + option + "=" + value);
  return parse_twice(all).train;
}

TrainOptions from_toml(const std::string& text) {
  std::istringstream in(text);
  Words words = words_of_toml(in);
  words.insert(words.begin(), "train");
  return parse_twice(words).train;
}

