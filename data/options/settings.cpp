#include "settings.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <variant>

#include "data/host/utf8.hpp"
#include "data/text/corpus.hpp"
#include "data/tokenizer/stored_tokenizer.hpp"
#include "layers/config/fields.hpp"
#include "layers/model/presets.hpp"

namespace {

// Writes "1e6" and "1e-6" instead of "1e+06" and "1e-06".
std::string limit(double x) {
  std::string s = toml(x);
  std::erase(s, '+');
  const size_t zero = s.find("e0") != s.npos ? s.find("e0") + 1 : s.find("e-0") != s.npos ? s.find("e-0") + 2 : s.npos;
  return zero == s.npos ? s : s.erase(zero, 1);
}

// Turns "10k" into "10e3" if the option counts something, and "10%" into "10e-2" if it is a fraction.
std::string without_suffix(std::string digits, double high, bool whole) {
  const auto replace_last = [&](const char* exponent) { digits.replace(digits.size() - 1, 1, exponent); };
  const bool number = digits.size() > 1 && std::isdigit(static_cast<unsigned char>(digits[digits.size() - 2]));
  const char last = number && digits.find_first_of("eE") == digits.npos ? digits.back() : '\0';
  if (whole && (last == 'k' || last == 'K')) replace_last("e3");
  if (whole && last == 'M') replace_last("e6");
  if (!whole && last == '%' && high <= 1) replace_last("e-2");
  return digits;
}

// Parses a number from `low` to `high`, both included. "1e3", "1_000" and "1k" are whole numbers, "10%" is a fraction.
// NaN is outside all limits.
double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole) {
  std::string digits = text;
  std::erase(digits, '_');
  digits = without_suffix(digits, high, whole);
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  const bool decimal = digits.find_first_of("xX \t\n") == digits.npos;  // strtod also reads hexadecimal
  const std::string range = limit(low) + " to " + limit(high), given = "--" + name + " " + one_line(text) + " is ";
  if (digits.empty() || *end || !decimal) throw std::invalid_argument(given + "not a number: choose " + range);
  if (!(x >= low && x <= high)) throw std::invalid_argument(given + "outside the range: choose " + range);
  if (whole && x != std::floor(x)) throw std::invalid_argument(given + "not a whole number: choose one in " + range);
  return x;
}

// Collects the rows of the table.
class Table {
 public:
  std::vector<Setting> settings;

  // The group of the rows that follow, a heading of the help. "" keeps them out of the help.
  void group(const std::string& name) { group_ = name; }

  // T is std::string or an optional one.
  template <class T>
  Setting& text(const std::string& name, T& variable, const std::string& takes, const std::string& help) {
    return add(name, takes, help, [&variable](const std::string& text) { variable = text; },
               [&variable] { return toml(variable); });
  }

  Setting& list(const std::string& name, std::vector<std::string>& variable, const std::string& takes,
                const std::string& help) {
    Setting& s = add(name, takes, help, [&variable](const std::string& text) { variable.push_back(text); },
                     [&variable] { return toml(variable); });
    s.list = true;
    return s;
  }

  // T is bool or std::optional<bool>.
  template <class T>
  Setting& flag(const std::string& name, T& variable, const std::string& help) {
    return add(name, "", help, [&variable, name](const std::string& text) { variable = parse_bool(name, text); },
               [&variable] { return toml(variable); });
  }

  template <class T>
  Setting& number(const std::string& name, T& variable, double low, double high, const std::string& help) {
    constexpr bool whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<int>>;
    const auto set = [=, &variable](const std::string& text) {
      variable = static_cast<T>(parse_number(name, text, low, high, whole));
    };
    return add(name, whole ? "N" : "X", help, set, [&variable] { return toml(variable); });
  }

  // "200", or "20%" of all.
  Setting& steps_or_percent(const std::string& name, int64_t& steps, double& percent, const std::string& help) {
    const auto set = [name, &steps, &percent](const std::string& text) {
      const bool share = text.ends_with('%');
      percent = share ? parse_number(name, text.substr(0, text.size() - 1), 0, 100, false) : 0;
      steps = share ? 0 : static_cast<int64_t>(parse_number(name, text, 0, kLargest, true));
    };
    return add(name, "N", help, set, [&] { return percent > 0 ? toml(toml(percent) + "%") : toml(steps); });
  }

  // A field of the model.
  Setting& field(const Field& f, Config& c) {
    if (std::string_view(f.group) != kComputing) group_ = f.group;
    return std::visit([&](const auto& member) -> Setting& { return of_field(f, c, member); }, f.member);
  }

  template <class E, size_t N>
  Setting& choice(const std::string& name, const Named<E> (&names)[N], E& variable, const std::string& help) {
    Setting& s = add(name, "NAME", help,
                     [&variable, &names, name](const std::string& text) { variable = value_of(names, name, text); },
                     [&variable, &names] { return toml(std::string(name_of(names, variable))); });
    for (const auto& entry : names) s.choices.emplace_back(entry.name);
    return s;
  }

 private:
  template <class T>
  Setting& of_field(const Field& f, Config& c, T Config::*member) {
    T& variable = c.*member;
    const std::string help = spelled(f.help, "--");
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) {
      return flag(f.name, variable, help);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return text(f.name, variable, "NAMES", help);
    } else {
      Setting& s = number(f.name, variable, f.low, f.high, help);
      if (!f.derived_if_0) return s;
      s.value = [&variable] { return variable == 0 ? "" : toml(variable); };
      s.shown = s.value();
      return s;
    }
  }

  Setting& of_field(const Field& f, Config& c, const FieldChoice& choice) {
    Setting& s = add(f.name, *f.alone ? "[NAME]" : "NAME", spelled(f.help, "--"),
                     [&c, &f, choice](const std::string& text) {
                       const bool alone = *f.alone && text == "true", no = *f.alone && text == "false";
                       choice.set(c, f.name, alone ? f.alone : no ? "none" : text);
                     },
                     [&c, choice] { return toml(std::string(choice.get(c))); });
    s.choices = choice.names();
    if (choice.aliases) s.synonyms = choice.aliases();
    if (*f.alone) s.synonyms = {"true", "false"};
    return s;
  }

  Setting& add(const std::string& name, const std::string& takes, const std::string& help,
               const std::function<void(const std::string&)>& set, const std::function<std::string()>& value) {
    std::string shown = value();
    std::erase(shown, '"');
    if (takes.empty()) shown = shown == "true" ? "on" : "";
    if (shown == "[]") shown = "";
    return settings.emplace_back(Setting{.name = name, .group = group_, .help = help, .takes = takes, .shown = shown,
                                         .choices = {}, .synonyms = {}, .set = set, .value = value});
  }

  std::string group_ = "Options";
};

// ---- the model -------------------------------------------------------------------------------------------

// The fields that are part of the model, or those that say how it is computed.
void describe_fields(Table& t, Config& c, bool computing) {
  for (const Field& field : model_fields())
    if ((std::string_view(field.group) == kComputing) == computing) t.field(field, c);
}

void describe_model(Table& t, TrainOptions& o) {
  t.group("Model");
  t.text("preset", o.preset, "NAME", "model family").choices = preset_names();
  t.text("size", o.size, "NAME", "model size of the preset: nano, 124M, 7B, ...");
  describe_fields(t, o.config, false);
}

// ---- training --------------------------------------------------------------------------------------------

void describe_text(Table& t, TextFiles& o, bool required) {
  t.list("data", o.data, "FILE...", "text files, folders, or - for standard input").required = required;
  t.list("include", o.include, "PATTERN...", "files to read in folders: '*.md' '*.txt'");
  t.list("exclude", o.exclude, "PATTERN...", "files and subfolders to skip in folders: '*.json' drafts");
}

void describe_files(Table& t, TextFiles& o, bool required) {
  describe_text(t, o, required);
  t.choice("unknown", kUnknowns, o.unknown, "handling of characters outside the vocabulary");
}

void describe_separator(Table& t, std::string& separator) {
  t.text("document-separator", separator, "TOKEN", "special token before each file: '<|endoftext|>'");
}

void describe_tokenizer(Table& t, std::string& tokenizer) {
  Setting& s = t.text("tokenizer", tokenizer, "NAME", "tokenizer, or a tokenizer file");
  s.choices = {"byte", "char", "bpe:VOCABULARY"}, s.files = true;
  s.set = [&tokenizer](const std::string& text) {
    vocabulary_of_bpe(text);
    tokenizer = text;
  };
}

void describe_data(Table& t, TrainOptions& o) {
  t.group("Data");
  describe_files(t, o, false);
  describe_tokenizer(t, o.tokenizer);
  describe_separator(t, o.separator);
  t.number("val-fraction", o.val_fraction, 0, .9, "fraction of the text held out for validation");
  t.choice("val-split", kValSplits, o.val_split, "validation text, at the end or in spread blocks");
  t.list("val-data", o.val_data, "FILE...", "validation files, instead of a fraction of --data");
  t.choice("sampling", kDraws, o.sampling, "training windows, anywhere or each once per epoch");
}

void describe_batch(Table& t, TrainOptions& o) {
  t.number("batch", o.batch, 1, 1 << 20, "sequences per micro-batch (B)");
  t.number("accumulate", o.accumulate, 1, 1 << 20, "micro-batches per step");
}

void describe_lanes(Table& t, TrainOptions& o) {
  t.number("lanes", o.lanes, 1, 1 << 20, "partial gradient sums per step (mpirun: the number of ranks)");
}

void describe_seeds(Table& t, TrainOptions& o) {
  t.number("seed", o.seed, 0, kLargest, "seed of weights and dropout");
  t.number("data-seed", o.data_seed, 0, kLargest, "seed of the batches");
}

void describe_threads(Table& t, int& threads) {
  t.number("threads", threads, 0, 4096, "threads (0: OMP_NUM_THREADS or all allowed processors)");
}

void describe_trained(Table& t, TrainOptions& o) {
  t.text("train-only", o.train_only, "REGEX", "train only tensors whose names match: norm");
  t.text("freeze", o.freeze, "REGEX", "do not train tensors whose names match: embedding");
}

void describe_machine(Table& t, TrainOptions& o) {
  describe_threads(t, o.threads);
  t.number("rank-timeout", o.rank_timeout, 0, 1e6, "seconds until a silent rank ends the job (0: never)");
  describe_fields(t, o.config, true);
}

void describe_optimizer(Table& t, TrainOptions& o) {
  OptimizerOptions& by = o.optimizer_options;
  t.choice("optimizer", kOptimizers, o.optimizer, "optimizer (muon, normuon: hidden matrices; adamw: the rest)");
  t.number("weight-decay", by.weight_decay, 0, 100, "weight decay of matrices");
  t.flag("cautious-decay", by.cautious_decay, "decay only weights that the step moves toward zero");
  t.number("beta1", by.beta1, 0, .999999, "beta1 of adamw and lion");
  t.number("beta2", o.beta2, 0, .9999999, "beta2 of adamw, lion, normuon (default: 0.95; lion: 0.99)");
  t.number("adam-eps", by.eps, 0, 1, "AdamW epsilon");
  t.number("momentum", o.momentum, 0, .999999, "momentum of sgd, muon (default: 0.95; sgd: 0.9)");
  t.flag("nesterov", o.nesterov, "Nesterov momentum (default: muon on, sgd off)");
  t.choice("muon-scale", kMuonScales, by.muon_scale, "Muon step size: RMS as AdamW, or spectral norm");
  t.choice("muon-iteration", kPolarIterations, by.polar, "polynomials that orthogonalize Muon's step");
}

void describe_training(Table& t, TrainOptions& o) {
  describe_data(t, o);
  t.group("Training");
  describe_batch(t, o);
  describe_lanes(t, o);
  t.number("steps", o.steps, 0, kLargest, "optimizer steps");
  t.number("lr", o.rate.lr, 0, 1e6, "peak learning rate");
  t.number("min-lr", o.min_lr, 0, 1e6, "final learning rate (default: lr / 10)");
  t.steps_or_percent("warmup", o.rate.warmup, o.rate.warmup_percent, "warm-up steps, or a share of all: 10%");
  t.choice("schedule", kSchedules, o.rate.schedule, "learning-rate schedule after the warm-up");
  t.number("decay-steps", o.rate.decay, 0, kLargest, "decay of the wsd schedule (steps; 0: a tenth)");
  t.number("schedule-end", o.schedule_end, 0, kLargest, "last step of the schedule (0: the run's last)");
  describe_optimizer(t, o);
  describe_trained(t, o);
  t.number("lr-embedding", o.lr_embedding, 0, 1e6, "peak learning rate of embeddings (default: lr)");
  t.number("lr-head", o.lr_head, 0, 1e6, "peak learning rate of an untied classifier (default: lr)");
  t.number("lr-vector", o.lr_vector, 0, 1e6, "peak learning rate of biases and gains (default: lr)");
  t.number("norm-lr", o.norm_lr, 0, 1e6, "peak learning rate of norms (default: lr-vector)");
  t.number("clip", o.clip, 0, 1e9, "gradient norm clipping threshold (0: off)");
  describe_seeds(t, o);
  t.group("Run");
  describe_machine(t, o);
  t.flag("textbook", o.textbook, "train with the naive loops of layers/textbook/ (slow)");
  t.number("eval-every", o.eval_every, 0, kLargest,
           "validate every N steps (0: never; default: a tenth of the steps, at most 300)");
  t.number("eval-batches", o.eval_batches, 0, kLargest, "batches per validation (0: the whole split)");
  t.number("patience", o.patience, 0, kLargest, "early stopping after N validations without improvement (0: off)");
  t.number("final-batches", o.final_batches, 0, kLargest,
                "largest split evaluated whole at the end (batches; 0: any; default: a tenth of the training)");
  t.number("sample-every", o.sample_every, 0, kLargest, "print a sample every N steps (0: never)");
  t.number("save-every", o.save_every, 0, kLargest, "save a checkpoint every N steps (0: only at the end)");
  t.number("diagnostics", o.diagnostics, 0, kLargest, "write diagnostics.csv every N steps (0: off)");
  t.text("init-from", o.init_from, "RUN", "run, checkpoint or Hugging Face folder with initial weights");
  t.group("");  // not in the help: --resume and --for write them
  t.number("schedule-start", o.schedule_start, 0, kLargest, "first step of the schedule");
  t.list("earlier-schedules", o.earlier_schedules, "TEXT...", "FROM TO SCHEDULE LR MIN-LR WARMUP");
  t.number("time-in-all", o.time_in_all, 0, kLargest, "seconds of training after which --for ends the run").value =
      [&o] { return o.time_in_all > 0 ? toml(o.time_in_all) : ""; };
}

// Settings of one call, which config.toml does not contain.
void describe_call(Table& t, TrainOptions& o, bool comparison) {
  t.group(comparison ? "" : "Run");
  t.number("epochs", o.epochs, 1e-6, 1e6, "passes over the training text, instead of --steps").shown = "";
  t.text("for", o.time_limit, "TIME", "approximate training time: 90s, 10m, 2h").set = [&o](const std::string& text) {
    parse_seconds(text);  // reject it before the text is read
    o.time_limit = text;
  };
  t.flag("quiet", o.quiet, "no sample and no suggestions at the end");
  t.flag("json", o.json, "JSON lines on standard output, text on standard error");
  t.group("Run");
  t.text("config", o.config_file, "FILE", "TOML file of options; the command line overrides it");
  t.text("out", o.out, "DIR", comparison ? "comparison directory (default: runs/NUMBER-compare)"
                                         : "run directory (default: runs/NUMBER-PLACEMENT-NORM)");
  t.flag("resume", o.resume, comparison ? "continue the comparison in --out" : "continue the run in --out");
  t.flag("force", o.force, "overwrite what is in --out");
  t.flag("dry-run", o.dry_run, "print the plan and stop");
  t.group("");  // not in the help: compare writes it
  t.list("input-hashes", o.input_hashes, "HASH...", "hashes of text, tokenizer and initial weights");
}

// ---- the other commands ----------------------------------------------------------------------------------

void describe_checkpoint(Table& t, std::string& checkpoint) {
  t.text("checkpoint", checkpoint, "RUN", "run directory or checkpoint (default: the newest run)").positional = true;
}

void describe_sample(Table& t, SampleOptions& o) {
  describe_checkpoint(t, o.checkpoint);
  t.text("prompt", o.prompt, "TEXT", "text to continue; -: standard input (default: standard input, or a newline)");
  t.choice("unknown", kUnknowns, o.unknown, "handling of prompt characters outside the vocabulary");
  t.number("length", o.length, 0, 1e9, "tokens to generate (default: up to 500, to the end of the context or line)");
  t.number("count", o.count, 1, 1e9, "samples to generate, each from the same prompt");
  t.text("stop", o.stop, "TEXT", "stop sequence (\\n: a newline)");
  t.number("temperature", o.sampling.temperature, 0, 100, "sampling temperature (0: greedy)");
  t.number("top-k", o.sampling.top_k, 0, 1e9, "top-k sampling: only the K likeliest tokens (0: all)");
  t.number("top-p", o.sampling.top_p, 0, 1, "nucleus sampling: only the likeliest tokens of this total probability");
  t.number("min-p", o.sampling.min_p, 0, 1, "only tokens with this share of the largest probability");
  t.number("repeat-penalty", o.sampling.repeat_penalty, .01, 100, "makes tokens of the context less likely (1: off)");
  t.flag("greedy", o.greedy, "greedy decoding: always the likeliest token");
  t.number("seed", o.sampling.seed, 0, kLargest, "sampling seed");
  t.flag("json", o.json, "print each sample and its tokens as JSON");
  t.flag("interactive", o.interactive, "prompt loop: lines continue the text, an empty one restarts (Ctrl-D: end)");
  describe_threads(t, o.threads);
}

void describe_eval(Table& t, EvalOptions& o) {
  describe_checkpoint(t, o.checkpoint);
  describe_files(t, o, true);
  t.number("batch", o.batch, 1, 1 << 20, "sequences per batch");
  t.flag("json", o.json, "print the result as JSON, in full precision");
  t.text("logits", o.logits, "FILE", "write the first batch's logits as .npy (float32; B, T, vocabulary)");
  t.text("gradients", o.gradients, "FILE", "write the gradients of the first batch as .npz");
  t.flag("force", o.force, "overwrite the files of --logits and --gradients");
  t.text("hellaswag", o.hellaswag, "FILE", "accuracy on questions in llm.c's format, instead of --data");
  describe_threads(t, o.threads);
}

void describe_info(Table& t, Command& c) {
  describe_checkpoint(t, c.info_checkpoint);
  t.flag("cost", c.info_cost, "memory and FLOPs of one step, part by part");
  t.flag("json", c.info_json, "print the model, its tensors and its cost as JSON");
  describe_batch(t, c.train);
  t.number("ranks", c.info_ranks, 1, 4096, "with --cost: memory and bytes of each rank");
  t.text("bandwidth", c.info_bandwidth, "BITS", "network of a rank in bits per second: 10G");
  t.number("speed", c.info_speed, 0, 1e12, "tokens per second of one process (default: the run's)");
  describe_lanes(t, c.train);
  describe_trained(t, c.train);
  describe_model(t, c.train);
}

void describe_tokenizer(Table& t, TokenizerOptions& o) {
  describe_text(t, o, true);
  t.number("vocab", o.vocabulary, 256, 1e6, "vocabulary size, of which 256 tokens are the bytes");
  describe_separator(t, o.separator);
  t.text("out", o.out, "FILE", "output file, a tokenizer.json").required = true;
  t.flag("force", o.force, "overwrite the file");
  describe_threads(t, o.threads);
}

void describe_tokenize(Table& t, TokenizeOptions& o) {
  describe_text(t, o, true);
  describe_tokenizer(t, o.tokenizer);
  describe_separator(t, o.separator);
  t.number("val-fraction", o.val_fraction, 0, .9, "fraction of the tokens held out for validation");
  t.number("shard-tokens", o.shard_tokens, 1, 2147483647, "most tokens in a file");
  t.text("out", o.out, "DIR", "output folder").required = true;
  t.flag("force", o.force, "overwrite what is in --out");
  describe_threads(t, o.threads);
}

void describe_corpus(Table& t, CorpusOptions& o) {
  t.text("out", o.out, "FILE", "output file; its entropy goes to FILE.nats");
  Setting& grammar = t.text("grammar", o.grammar, "NAME", "grammar of the text");
  for (const NamedGrammar& row : kStoryGrammars) grammar.choices.emplace_back(row.name);
  t.text("bytes", o.bytes, "SIZE", "text size in bytes: 500k, 4M, ...");
  t.number("seed", o.seed, 0, kLargest, "seed of the text");
  t.flag("force", o.force, "overwrite the file");
  t.text("check", o.check, "FILE", "count the lines of FILE that follow the grammar");
  t.text("known", o.known, "FILE", "with --check: count lines that also occur in FILE");
}

void describe_import(Table& t, ImportOptions& o) {
  Setting& path = t.text("from", o.path, "PATH", "model of another program: a file or folder");
  path.positional = path.required = true;
  t.text("out", o.out, "DIR", "run directory").required = true;
  t.flag("force", o.force, "overwrite what is in --out");
}

void describe_export(Table& t, ExportOptions& o) {
  describe_checkpoint(t, o.checkpoint);
  t.text("out", o.out, "PATH", "output file or folder").required = true;
  t.text("to", o.to, "FORMAT", "format").choices = {"hf", "gguf", "llmc", "llama2c"};
  t.text("dtype", o.dtype, "TYPE", "number type of the matrices (default: f32)").choices = {"f32", "f16", "bf16",
                                                                                             "q8_0"};
  t.flag("lora-merge", o.lora_merge, "add the adapters of --lora to the weights (hf: default is the adapters alone)");
  t.flag("force", o.force, "overwrite what is in --out");
}

void describe_completion(Table& t, std::string& shell) {
  Setting& s = t.text("shell", shell, "SHELL", "shell");
  s.choices = {"bash", "zsh", "fish"};
  s.positional = s.required = true;
}

void describe_comparison(Table& t, CompareOptions& o) {
  t.group("Comparison");
  t.list("grid", o.grid, "KEY=A,B...", "option values to combine: placement=post,pre seed=1,2");
  t.list("tune", o.tune, "KEY=A,B...", "options to tune for each cell: lr=1e-3,3e-3 warmup=20%,50%");
  t.number("tune-runs", o.tune_runs, 2, 1e6, "tuning runs per cell at most (default: 1.5 x --tune's combinations)");
  t.number("tune-seed", o.tune_seed, 0, kLargest, "seed of the tuning runs, different from all others");
  t.number("jobs", o.jobs, 1, 1024, "parallel runs; above 1, no times are reported");
  t.flag("join", o.join, "share the runs with other processes; no times are reported");
  t.text("shard", o.shard, "I/N", "train part I of N of the runs; others --join");
  t.text("baseline", o.baseline, "CELL", "baseline cell: placement=pre (default: the first)");
  t.number("margin", o.margin, 0, 1e6, "losses this close count as equal: verdicts say so (0: off)");
  t.number("target", o.target, 0, 1e6, "target loss of steps_to_target (0: the highest final loss)");
}

void describe_init_report(Table& t, TrainOptions& o, InitReportOptions& report) {
  t.group("Report");
  t.list("grid", report.grid, "KEY=A,B...", "option values to combine: layers=6,12 seed=1,2");
  t.text("out", report.out, "FILE", "output CSV file, one row per statistic");
  t.flag("force", report.force, "overwrite the file");
  describe_model(t, o);
  describe_data(t, o);
  t.group("Pass");
  describe_batch(t, o);
  describe_seeds(t, o);
  describe_machine(t, o);
}

}  // namespace

std::vector<Setting> settings_of(Command& c) {
  Table t;
  switch (c.kind) {
    case Command::Kind::compare: describe_comparison(t, c.compare); [[fallthrough]];
    case Command::Kind::train:
      describe_model(t, c.train);
      describe_training(t, c.train);
      describe_call(t, c.train, c.kind == Command::Kind::compare);
      break;
    case Command::Kind::info: describe_info(t, c); break;
    case Command::Kind::sample: describe_sample(t, c.sample); break;
    case Command::Kind::eval: describe_eval(t, c.eval); break;
    case Command::Kind::init_report: describe_init_report(t, c.train, c.init_report); break;
    case Command::Kind::corpus: describe_corpus(t, c.corpus); break;
    case Command::Kind::tokenizer: describe_tokenizer(t, c.tokenizer); break;
    case Command::Kind::tokenize: describe_tokenize(t, c.tokenize); break;
    case Command::Kind::import_model: describe_import(t, c.import_model); break;
    case Command::Kind::export_model: describe_export(t, c.export_model); break;
    case Command::Kind::completion: describe_completion(t, c.shell); break;
    case Command::Kind::man: break;
  }
  return t.settings;
}

std::vector<Setting> settings_of(TrainOptions& options, bool training) {
  Table t;
  describe_model(t, options);
  if (training) describe_training(t, options);
  return t.settings;
}

const Setting* find_setting(const std::vector<Setting>& settings, const std::string& name) {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const Setting& s : settings) names.push_back(s.name);
  return names;
}

bool parse_bool(const std::string& name, const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") return true;
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  throw std::invalid_argument("--" + name + " " + one_line(text) + " is not true or false: write --" + name +
                              " or --no-" + name);
}
