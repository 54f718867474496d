#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>

#if __has_include(<CLI/CLI.hpp>)
#include <CLI/CLI.hpp>
#else
#include <CLI11.hpp>
#endif

#include "files.hpp"

namespace {

// ---- values as TOML --------------------------------------------------------------------------------------

std::string toml(bool b) { return b ? "true" : "false"; }

// The shortest digits that read back as the same number.
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
std::string toml(T x) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

std::string toml(const std::string& s) {
  const bool literal = s.find_first_of("\"\\") != std::string::npos;
  return literal ? "'" + s + "'" : '"' + s + '"';
}

std::string toml(const std::vector<std::string>& list) {
  std::string s = "[";
  for (const auto& item : list) s += (s.size() > 1 ? ", " : "") + toml(item);
  return s + "]";
}

std::string unquoted(const std::string& s) {
  return s.size() >= 2 && (s[0] == '"' || s[0] == '\'') ? s.substr(1, s.size() - 2) : s;
}

// ---- describing ------------------------------------------------------------------------------------------

struct Setting {
  std::string name;
  std::function<std::string()> value;  // "" where there is none
  std::function<bool()> open;          // left to the placement, the preset or the other sizes
};

// Adds options to a CLI11 application and remembers how to print their values.
class Describe {
 public:
  explicit Describe(CLI::App& app) : app_(app) {}

  std::vector<Setting> settings;

  void group(const std::string& name) { group_ = name; }

  template <class T>
  CLI::Option* value(const std::string& name, T& variable, const std::string& help) {
    CLI::Option* option = app_.add_option("--" + name, variable, help);
    remember(name, [&variable] { return toml(variable); }, [] { return false; });
    return finish(option, unquoted(toml(variable)));
  }

  // A number within limits; NaN is outside all of them.
  template <class T>
  CLI::Option* number(const std::string& name, T& variable, double low, double high, const std::string& help) {
    return value(name, variable, help)->check([=](const std::string& text) -> std::string {
      double x = 0;
      if (!CLI::detail::lexical_cast(text, x)) return "'" + text + "' is not a number";
      if (x >= low && x <= high) return {};
      return text + " is outside " + toml(low) + " to " + toml(high);
    });
  }

  // A size that is worked out from the others where it is 0.
  CLI::Option* derived(const std::string& name, int& variable, double high, const std::string& help) {
    CLI::Option* option = number(name, variable, 0, high, help);
    settings.back().open = [&variable] { return variable == 0; };
    return variable == 0 ? option->default_str("") : option;
  }

  template <class E, size_t N>
  CLI::Option* choice(const std::string& name, const Named<E> (&names)[N], E& variable, const std::string& help) {
    std::string list;
    for (const auto& entry : names) list += (list.empty() ? "" : "|") + std::string(entry.name);
    CLI::Option* option = app_.add_option_function<std::string>(
        "--" + name, [&variable, &names, name](const std::string& s) { variable = value_of(names, name, s); },
        help + ": " + list);
    remember(name, [&variable, &names] { return toml(std::string(name_of(names, variable))); }, [] { return false; });
    return finish(option, name_of(names, variable));
  }

  CLI::Option* flag(const std::string& name, bool& variable, const std::string& help) {
    CLI::Option* option = app_.add_flag("--" + name + ",!--no-" + name, variable,
                                        help + (variable ? " (default: on)" : " (default: off)"));
    remember(name, [&variable] { return toml(variable); }, [] { return false; });
    option->group(group_);
    return option;
  }

  CLI::Option* open_flag(const std::string& name, std::optional<bool>& variable, const std::string& help) {
    CLI::Option* option = app_.add_flag_function(
        "--" + name + ",!--no-" + name, [&variable](int64_t given) { variable = given > 0; }, help);
    remember(name, [&variable] { return variable ? toml(*variable) : ""; }, [&variable] { return !variable; });
    option->group(group_);
    return option;
  }

  CLI::Option* open_number(const std::string& name, std::optional<double>& variable, double low, double high,
                           const std::string& help) {
    CLI::Option* option = app_.add_option_function<double>(
        "--" + name,
        [=, &variable](const double& x) {
          if (!(x >= low && x <= high))
            throw CLI::ValidationError("--" + name, toml(x) + " is outside " + toml(low) + " to " + toml(high));
          variable = x;
        },
        help);
    remember(name, [&variable] { return variable ? toml(*variable) : ""; }, [&variable] { return !variable; });
    option->group(group_);
    return option;
  }

 private:
  void remember(const std::string& name, std::function<std::string()> value, std::function<bool()> open) {
    settings.push_back({name, std::move(value), std::move(open)});
  }
  CLI::Option* finish(CLI::Option* option, const std::string& shown) {
    option->group(group_);
    if (!shown.empty() && shown != "[]") option->default_str(shown);
    return option->multi_option_policy(option->get_items_expected_max() > 1 ? CLI::MultiOptionPolicy::TakeAll
                                                                           : CLI::MultiOptionPolicy::TakeLast);
  }

  CLI::App& app_;
  std::string group_ = "Options";
};

std::string names_of_placements() {
  std::string list;
  for (const Placement& row : placements()) list += (list.empty() ? "" : "|") + std::string(row.name);
  return list;
}

void describe_model(Describe& d, TrainOptions& o) {
  Config& c = o.config;
  d.group("Model");
  d.value("preset", o.preset, "the wiring of a family of models: gpt2|llama2");
  d.value("size", o.size, "numbers of a preset: nano, 124M, 355M, ... (train_gpt info --preset P --size S)");
  d.value("placement", c.placement, "where the norms sit: " + names_of_placements());
  d.choice("norm", kNormKinds, c.norm, "which normalization");
  d.number("norm-eps", c.norm_eps, 0, 1, "epsilon under the root of the norm");
  d.open_flag("norm-bias", c.norm_bias, "norms have a bias (default: LayerNorm as --bias, RMSNorm none)");
  d.flag("embedding-norm", c.embedding_norm, "a norm behind the embedding");
  d.open_flag("final-norm", c.final_norm, "a norm before the classifier (default: as the placement says)");
  d.number("layers", c.n_layer, 1, 10000, "blocks (L)");
  d.number("heads", c.n_head, 1, 4096, "query heads (H)");
  d.derived("kv-heads", c.kv_heads, 4096, "key/value heads, fewer for GQA (default: as many as heads)");
  d.derived("head-dim", c.head_dim, 1 << 14, "size of a head (D) (default: channels / heads)");
  d.number("channels", c.channels, 1, 1 << 20, "width of the stream (C)");
  d.derived("hidden", c.hidden, 1 << 22, "width of the feed-forward layer (F) (default: 4 C; swiglu: 8/3 C)");
  d.number("context", c.context, 1, 1 << 22, "tokens the model sees at once (T)");
  d.derived("vocab-size", c.vocab_size, 1 << 24, "size of the vocabulary, for benchmarks (default: the data's)");
  d.choice("position", kPositions, c.position, "how positions are told");
  d.number("rope-theta", c.rope_theta, 1, 1e12, "base of the RoPE angles");
  d.choice("activation", kActivations, c.activation, "of the feed-forward layer");
  d.flag("bias", c.bias, "biases in linear layers (and LayerNorm)");
  d.flag("tied", c.tied, "the classifier shares the token embedding");
  d.number("dropout", c.dropout, 0, .99, "share of elements dropped in training");
  d.group("Initialisation");
  d.choice("init", kInitChoices, c.init, "base of the initial weights");
  d.open_flag("residual-gain", c.residual_gain, "GPT-2's 1/sqrt(2L) on the output matrices (default: as --init)");
  d.open_number("init-gain", c.init_gain, 0, 1e3, "factor on v, o and the feed-forward matrices (default: as --init)");
  d.open_number("skip-scale", c.skip_scale, 0, 1e3, "factor on the skip path (default: as the placement)");
}

void describe_training(Describe& d, TrainOptions& o) {
  const double big = 1e15;
  d.group("Data");
  d.value("data", o.data, "text files, folders, or - for standard input")->expected(1, 1 << 20);
  d.choice("tokenizer", kTextUnits, o.tokenizer, "what a token is; char: Unicode code points");
  d.number("val-fraction", o.val_fraction, 0, .9, "share of the text kept for validation, at its end");
  d.group("Training");
  d.number("batch", o.batch, 1, 1 << 20, "sequences in a micro-batch (B)");
  d.number("accumulate", o.accumulate, 1, 1 << 20, "micro-batches in a step");
  d.number("steps", o.steps, 0, big, "optimizer steps");
  d.number("lr", o.rate.lr, 0, 1e6, "largest learning rate");
  d.number("min-lr", o.rate.min_lr, 0, 1e6, "learning rate at the end of the schedule");
  d.number("warmup", o.rate.warmup, 0, big, "steps over which the learning rate rises");
  d.choice("schedule", kSchedules, o.rate.schedule, "how the learning rate falls after the warm-up");
  d.number("weight-decay", o.adamw.weight_decay, 0, 100, "AdamW's decay, on tensors of two and more dimensions");
  d.number("beta1", o.adamw.beta1, 0, .999999, "AdamW's memory of gradients");
  d.number("beta2", o.adamw.beta2, 0, .9999999, "AdamW's memory of their squares");
  d.number("adam-eps", o.adamw.eps, 0, 1, "AdamW's epsilon");
  d.number("clip", o.clip, 0, 1e9, "largest norm of the gradient; 0: never clip");
  d.number("seed", o.seed, 0, big, "of weights and dropout");
  d.number("data-seed", o.data_seed, 0, big, "of the batches");
  d.group("Run");
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
  d.choice("matmul", kMatmuls, o.config.matmul, "numbers that matrix products read, all else is float; bf16 is faster where the processor has it");
  d.flag("recompute", o.config.recompute, "keep less: run each block again before its backward; same bits, more time");
  d.number("eval-every", o.eval_every, 0, big, "steps between validations; 0: never");
  d.number("eval-batches", o.eval_batches, 0, big, "batches in a validation; 0: the whole validation split");
  d.number("sample-every", o.sample_every, 0, big, "steps between samples of text; 0: never");
  d.number("save-every", o.save_every, 0, big, "steps between checkpoints; 0: only at the end");
  d.value("init-from", o.init_from, "start from the weights of this checkpoint");
}

// What concerns this call only and is not written to config.toml.
void describe_call(CLI::App& app, TrainOptions& o, std::string& config_file) {
  const char* group = "Run";
  app.add_option("--for", o.time_limit, "choose --steps so that training takes about this long: 90s, 10m, 2h")
      ->group(group);
  app.add_option("--config", config_file, "read options from a TOML file; the command line overrides it")
      ->group(group);
  app.add_option("--out", o.out, "directory of the run (default: runs/NUMBER-PLACEMENT-NORM)")->group(group);
  app.add_flag("--resume", o.resume, "go on with the run in --out")->group(group);
  app.add_flag("--force", o.force, "replace what is in --out")->group(group);
  app.add_flag("--dry-run", o.dry_run, "say what would be done, and stop")->group(group);
  app.add_flag("--quiet", o.quiet, "no sample and no advice at the end")->group(group);
}

void describe_sample(CLI::App& app, SampleOptions& o) {
  app.add_option("checkpoint", o.checkpoint, "a checkpoint or a run's directory (default: the newest run)");
  app.add_option_function<std::string>(
         "--prompt", [&o](const std::string& s) { o.prompt = s, o.prompt_given = true; },
         "text to go on from (default: standard input if it is not a terminal, else a new line)");
  Describe d(app);
  d.number("length", o.length, 0, 1e9, "tokens to write");
  d.number("temperature", o.sampling.temperature, 0, 100, "below 1 bolder choices become rarer; 0: greedy");
  d.number("top-k", o.sampling.top_k, 0, 1e9, "choose among the k likeliest tokens; 0: all");
  d.number("top-p", o.sampling.top_p, 0, 1, "choose among the fewest tokens that hold this probability");
  app.add_flag("--greedy", o.sampling.greedy, "always the likeliest token");
  d.number("seed", o.sampling.seed, 0, 1e15, "of the choices");
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
}

void describe_eval(CLI::App& app, EvalOptions& o) {
  app.add_option("checkpoint", o.checkpoint, "a checkpoint or a run's directory (default: the newest run)");
  app.add_option("--data", o.data, "text files, folders, or - for standard input")->required()->expected(1, 1 << 20);
  Describe d(app);
  d.number("batch", o.batch, 1, 1 << 20, "sequences at a time");
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
}

void describe_corpus(CLI::App& app, CorpusOptions& o) {
  Describe d(app);
  d.value("bytes", o.bytes, "size of the text: 500k, 4M, ...");
  d.number("seed", o.seed, 0, 1e15, "of the stories");
  app.add_option("--out", o.out, "file to write; the floor goes beside it, into FILE.nats")->required();
  app.add_flag("--force", o.force, "replace FILE if it is there");
}

// ---- one command line ------------------------------------------------------------------------------------

struct Grammar {
  CLI::App app{"train_gpt: trains small GPT and Llama models on the CPU; where the normalization sits, and which\n"
               "it is, are switches.",
               "train_gpt"};
  CLI::App *train, *sample, *eval, *info, *compare, *corpus;
  std::string config_file;

  explicit Grammar(Command& c) {
    app.require_subcommand(1);
    app.footer("\ntrain_gpt COMMAND --help shows the options of a command.");
    train = app.add_subcommand("train", "train a model on text");
    sample = app.add_subcommand("sample", "write text with a trained model");
    eval = app.add_subcommand("eval", "loss of a trained model on a text");
    info = app.add_subcommand("info", "tensors, parameters, memory and a drawing of a model");
    compare = app.add_subcommand("compare", "train one model for each combination of options and compare them");
    corpus = app.add_subcommand("corpus", "write a corpus of stories whose exact entropy is known");

    Describe for_train(*train), for_compare(*compare), for_info(*info);
    describe_model(for_train, c.train);
    describe_training(for_train, c.train);
    describe_call(*train, c.train, config_file);

    compare->add_option("--grid", c.compare.grid, "placement=post,pre norm=layernorm,rmsnorm seed=1,2")
        ->expected(1, 1 << 20);
    describe_model(for_compare, c.train);
    describe_training(for_compare, c.train);
    describe_call(*compare, c.train, config_file);

    info->add_option("checkpoint", c.info_checkpoint, "a checkpoint or a run's directory (default: the newest run)");
    describe_model(for_info, c.train);
    for_info.group("Step");
    for_info.number("batch", c.train.batch, 1, 1 << 20, "sequences in a micro-batch (B)");

    describe_sample(*sample, c.sample);
    describe_eval(*eval, c.eval);
    describe_corpus(*corpus, c.corpus);
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

std::string nearest(const std::string& given, const Words& known) {
  const std::string message = unknown_name("", given, known);  // "... did you mean 'X'? ..."
  const size_t at = message.find("did you mean '");
  return at == std::string::npos ? "" : message.substr(at + 14, message.find('\'', at + 14) - at - 14);
}

std::string unexpected(const Grammar& grammar, const Words& words) {
  const CLI::App* used = &grammar.app;
  Words commands;
  for (const CLI::App* sub : grammar.app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(sub->get_name());
    if (!words.empty() && words[0] == sub->get_name()) used = sub;
  }
  if (used == &grammar.app)
    return words.empty() ? "which command? (train sample eval info compare corpus; train_gpt --help)"
                         : unknown_name("command", words[0], commands);
  Words known;
  for (const CLI::Option* option : used->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : words)
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      if (std::find(known.begin(), known.end(), name) == known.end())
        return "unknown option '" + name + "': did you mean '" + nearest(name, known) + "'? (train_gpt " +
               used->get_name() + " --help lists them all)";
    }
  return "";
}

void parse_words(Command& command, const Words& words) {
  Grammar grammar(command);
  try {
    Words reversed(words.rbegin(), words.rend());
    grammar.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw CommandLineExit{grammar.app.help()};
  } catch (const CLI::ParseError& error) {
    const std::string hint = unexpected(grammar, words);
    throw std::invalid_argument(hint.empty() ? error.what() : hint);
  }
  const CLI::App* used = grammar.app.get_subcommands().front();
  command.kind = used == grammar.train     ? Command::Kind::train
                 : used == grammar.sample  ? Command::Kind::sample
                 : used == grammar.eval    ? Command::Kind::eval
                 : used == grammar.info    ? Command::Kind::info
                 : used == grammar.compare ? Command::Kind::compare
                                           : Command::Kind::corpus;
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
  return second;
}

std::vector<Setting> settings_of(TrainOptions& options, CLI::App& app, bool training = true) {
  Describe d(app);
  describe_model(d, options);
  if (training) describe_training(d, options);
  return d.settings;
}

// A line for every option that has a value; what is open in `given` becomes a comment.
std::string lines_of(TrainOptions in_force, TrainOptions given, bool training) {
  CLI::App a, b;
  const std::vector<Setting> settings = settings_of(in_force, a, training), open = settings_of(given, b, training);
  std::string text;
  for (size_t i = 0; i < settings.size(); ++i) {
    const std::string value = settings[i].value();
    if (value == "\"\"" || value == "[]") continue;
    text += (open[i].open() ? "# " : "") + settings[i].name + " = " + value + "\n";
  }
  return text;
}

TrainOptions closed(TrainOptions options) {
  options.config = resolve(options.config);
  return options;
}

Command parse(const Words& words, const std::string& program) {
  Command command = parse_twice(words);
  command.program = program;
  command.words = words;
  command.info_needs_checkpoint = words.size() == 1 || !words[1].starts_with("--");
  return command;
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  const Words words = expand_config(Words(argv + 1, argv + argc));
  if (words.empty()) {
    Command none;
    throw CommandLineExit{Grammar(none).app.help()};
  }
  return parse(words, argv[0]);
}

Command parse_on_top(const Command& command, const std::string& toml) {
  std::istringstream in(toml);
  return parse(put_under(command.words, words_of_toml(in)), command.program);
}

std::vector<std::string> Command::cell_words() const {
  Words kept;
  bool dropping = false;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("--")) {
      const std::string name = words[i].substr(0, words[i].find('='));
      dropping = name == "--grid" || name == "--out" || name == "--resume" || name == "--force" || name == "--dry-run";
    }
    if (!dropping) kept.push_back(words[i]);
  }
  return kept;
}

std::string to_toml(const TrainOptions& in_force, const TrainOptions& given) {
  return lines_of(closed(in_force), given, true);
}

std::string to_toml(const TrainOptions& in_force) { return to_toml(in_force, closed(in_force)); }

std::string model_to_toml(const TrainOptions& in_force) { return lines_of(closed(in_force), closed(in_force), false); }

TrainOptions from_toml(const std::string& text) {
  std::istringstream in(text);
  Words words = words_of_toml(in);
  words.insert(words.begin(), "train");
  return parse_twice(words).train;
}

std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::vector<std::string>& except) {
  TrainOptions a = closed(there), b = closed(here);
  CLI::App app_a, app_b;
  const std::vector<Setting> in_a = settings_of(a, app_a), in_b = settings_of(b, app_b);
  std::vector<std::string> list;
  for (size_t i = 0; i < in_a.size(); ++i) {
    const std::string& name = in_a[i].name;
    if (in_a[i].value() == in_b[i].value() || std::find(except.begin(), except.end(), name) != except.end()) continue;
    list.push_back("--" + name + " is " + in_a[i].value() + " there and " + in_b[i].value() + " here");
  }
  return list;
}

// ---- small languages -------------------------------------------------------------------------------------

std::vector<GridCell> grid_cells(const std::vector<std::string>& grid) {
  if (grid.empty())
    throw std::invalid_argument("--grid is missing: say what to compare, e.g. --grid placement=post,pre seed=1,2");
  TrainOptions scratch;
  CLI::App app;
  Words known;
  for (const Setting& setting : settings_of(scratch, app)) known.push_back(setting.name);

  std::vector<GridCell> cells = {{}};
  for (const std::string& entry : grid) {
    const size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw std::invalid_argument("unknown key '" + key + "' in --grid: did you mean '" + nearest(key, known) +
                                  "'? (any option of train_gpt train, e.g. placement=post,pre)");
    Words values;
    std::istringstream list(equals == std::string::npos ? "" : entry.substr(equals + 1));
    for (std::string value; std::getline(list, value, ',');)
      if (!value.empty()) values.push_back(value);
    if (values.empty()) throw std::invalid_argument("--grid " + key + " has no values: write " + key + "=a,b");
    std::vector<GridCell> more;
    for (const GridCell& cell : cells)
      for (const std::string& value : values) {
        GridCell next = cell;
        next.name += (next.name.empty() ? "" : ",") + key + "=" + value;
        next.keys.emplace_back(key, value);
        more.push_back(next);
      }
    cells = std::move(more);
  }
  return cells;
}

namespace {

// A number and one of the units behind it.
double with_unit(const std::string& text, const std::vector<std::pair<char, double>>& units, const char* what) {
  char* end = nullptr;
  double x = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end && !end[1])
    for (const auto& [letter, factor] : units)
      if (std::tolower(*end) == letter) {
        x *= factor;
        ++end;
        break;
      }
  if (end == text.c_str() || *end || !(x > 0) || x > 1e15)
    throw std::invalid_argument("'" + text + "' is not " + what);
  return x;
}

}  // namespace

size_t parse_bytes(const std::string& text) {
  return static_cast<size_t>(
      with_unit(text, {{'k', 1e3}, {'m', 1e6}, {'g', 1e9}}, "a size: write 500k, 4M or 1000000"));
}

double parse_seconds(const std::string& text) {
  return with_unit(text, {{'s', 1}, {'m', 60}, {'h', 3600}}, "a time: write 90s, 10m or 2h");
}
