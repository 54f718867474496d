#include "command_settings.hpp"

#include <algorithm>

#include "data/corpus/corpus.hpp"
#include "data/corpus/lexicon.hpp"
#include "data/corpus/town.hpp"
#include "data/corpus/translation.hpp"
#include "shared_settings.hpp"

namespace {

template <class Options, class Place>
void describe_tokens_per_parameter(SettingTable<Options>& t, Place place, const std::string& by_default) {
  t.number("tokens-per-parameter", place, 1e-6, 1e6, "training tokens per parameter, instead of --steps" + by_default,
           {.common = true, .length = true})
      .shown = "";
}

// Settings of one call, not written to config.toml.
template <bool comparison>
void describe_call(TrainTable& t) {
  t.group(comparison ? "" : "Run");
  t.number("epochs", &TrainOptions::epochs, 1e-6, 1e6, "passes over the training text, instead of --steps",
           {.common = true, .length = true})
      .shown = "";
  if (!comparison) describe_tokens_per_parameter(t, &TrainOptions::tokens_per_parameter, "");
  t.text("for", &TrainOptions::time_limit, "TIME", "approximate training time: 90s, 10m, 2h; a number: seconds",
         {.common = true, .length = true})
      .set = [](TrainOptions& o, const std::string& text) {
    parse_seconds(text);  // refused before the text is read
    o.time_limit = text;
  };
  t.flag("quiet", &TrainOptions::quiet, "no sample and no suggestions at the end");
  t.flag("json", &TrainOptions::json, "JSON lines on standard output, text on standard error", {.call = true});
  t.group("Run");
  const Traits traits = {.common = true, .call = true};
  t.text("config", &TrainOptions::config_file, "FILE", "TOML file of options; the command line overrides it",
         {.common = true});
  t.text("out", &TrainOptions::out, "DIR",
         comparison ? "comparison directory (default: runs/NUMBER-compare)"
                    : "run directory (default: runs/NUMBER-PLACEMENT-NORM)",
         traits);
  t.flag("resume", &TrainOptions::resume,
         comparison ? "continue the comparison in --out" : "continue the run in --out", traits);
  t.flag("force", &TrainOptions::force, "overwrite what is in --out", {.call = true});
  t.flag("dry-run", &TrainOptions::dry_run, "print the plan and stop", traits);
  t.group("");  // written by compare; not in the help
  t.list("input-hashes", &TrainOptions::input_hashes, "HASH...", "hashes of text, tokenizer and initial weights");
}

// ---- the other commands ----------------------------------------------------------------------------------

template <class Options>
void describe_checkpoint(SettingTable<Options>& t, std::string Options::*checkpoint) {
  t.text("checkpoint", checkpoint, "RUN", "run directory or checkpoint (default: the newest run)",
         {.common = true, .positional = true});
}

void describe_sample(SettingTable<SampleOptions>& t) {
  using Options = SampleOptions;
  const auto by = [](auto member) { return in(&Options::sampling, member); };
  const Condition<Options> samples = {[](const Options& o) { return !o.greedy; }, nullptr, "with {greedy}", true};
  const Condition<Options> no_beams = {[](const Options& o) { return o.beams == 0; }, nullptr, "with {beams}", true};
  const Condition<Options> draws = {[](const Options& o) { return o.greedy || o.beams > 0 || o.draws(); }, nullptr,
                                    "with {temperature} 0", true};
  describe_checkpoint(t, &Options::checkpoint);
  t.text("prompt", &Options::prompt, "TEXT",
         "text to continue, or source; -: standard input (default: that, or a newline)");
  t.choice("unknown", kUnknowns, &Options::unknown, "handling of prompt characters outside the vocabulary");
  describe_special(t);
  t.number("length", &Options::length, 0, 1e9,
           "tokens to generate (default: up to 500, to the end of the context or line)");
  t.number("count", &Options::count, 1, 1e9, "samples to generate, each from the same prompt", {}, {no_beams});
  t.text("stop", &Options::stop, "TEXT", "stop sequence (\\n: a newline)");
  t.number("temperature", &Options::temperature, 0, 100,
           "sampling temperature (0: greedy; default: 1, or 0 with an encoder)", {}, {samples, no_beams});
  t.number("top-k", by(&Sampling::top_k), 0, 1e9, "top-k sampling: only the K likeliest tokens (0: all)", {},
           {samples, no_beams, draws});
  t.number("top-p", by(&Sampling::top_p), 0, 1,
           "nucleus sampling: only the likeliest tokens up to this probability (1: off)", {},
           {samples, no_beams, draws});
  t.number("min-p", by(&Sampling::min_p), 0, 1,
           "min-p sampling: tokens with this share of the top probability (0: off)", {}, {samples, no_beams, draws});
  t.number("repeat-penalty", by(&Sampling::repeat_penalty), .01, 100,
           "penalty on tokens that the context has (1: off)", {}, {no_beams});
  t.flag("greedy", &Options::greedy, "greedy decoding: always the likeliest token", {}, {no_beams});
  t.number("beams", &Options::beams, 0, 1000, "beams of beam search: the likeliest text (0: none)");
  t.number("seed", by(&Sampling::seed), 0, kLargest, "sampling seed", {}, {samples, no_beams, draws});
  t.flag("json", &Options::json, "print each sample and its tokens as JSON");
  t.flag("interactive", &Options::interactive,
         "prompt loop: lines continue the text, an empty one restarts (Ctrl-D: end)");
  t.flag("raw", &Options::raw, "continue the prompt as text, not as a conversation");
  t.choice("weights", kNumberTypes, &Options::weights,
           "number type of matrices (default: as stored); bf16 is faster");
  describe_threads(t);
}

void describe_eval(SettingTable<EvalOptions>& t) {
  using Options = EvalOptions;
  describe_checkpoint(t, &Options::checkpoint);
  describe_files(t, true);
  describe_json_lines(t);
  describe_pairs(t);
  t.number("batch", &Options::batch, 1, 1 << 20, "sequences per batch");
  t.number("context", &Options::context, 0, 1 << 20, "tokens per sequence (0: the model's)");
  t.flag("json", &Options::json, "print the result as JSON, in full precision");
  t.text("logits", &Options::logits, "FILE", "write the first batch's logits as .npy (float32; B, T, vocabulary)");
  t.text("gradients", &Options::gradients, "FILE", "write the gradients of the first batch as .npz");
  t.flag("force", &Options::force, "overwrite the files of --logits and --gradients");
  t.list("pairs", &Options::pairs, "FILE...", "accuracy on minimal pairs such as BLiMP's, instead of --data");
  t.list("choices", &Options::choices, "FILE...", "accuracy on questions in JSON lines, instead of --data");
  t.list("hellaswag", &Options::hellaswag, "FILE...", "accuracy on questions in llm.c's format, instead of --data");
  t.named("pairs-of", &Options::pairs_of, names_of(kPairGrammars), "grammar that parses the translations of --data");
  describe_threads(t);
}

void describe_info(SettingTable<Command>& t) {
  t.text("checkpoint", &Command::info_checkpoint, "RUN",
         "run or checkpoint (default: the newest run, or what model options say)",
         {.common = true, .positional = true});
  t.flag("cost", &Command::info_cost, "memory and FLOPs of one step, part by part", {.common = true});
  t.flag("json", &Command::info_json, "print the model, its tensors and its cost as JSON");
  t.add(&Command::train, rows_of(describe_batch));
  t.number("ranks", &Command::info_ranks, 1, 4096, "number of ranks whose memory and traffic --cost shows");
  t.text("bandwidth", &Command::info_bandwidth, "BITS", "network of a rank in bits per second, e.g. 10G");
  t.number("speed", &Command::info_speed, 0, 1e12, "tokens per second of one process (0: the run's)");
  for (const auto describe : {describe_lanes, describe_optimizer, describe_trained, describe_model})
    t.add(&Command::train, rows_of(describe));
}

void describe_tokenizer_command(SettingTable<TokenizerOptions>& t) {
  describe_text(t, true);
  t.number("vocab", &TokenizerOptions::vocabulary, 256, 1e6, "vocabulary size, including the 256 bytes");
  describe_separator(t);
  t.text("out", &TokenizerOptions::out, "FILE", "output file, a tokenizer.json", {.required = true});
  t.flag("force", &TokenizerOptions::force, "overwrite the file");
  describe_threads(t);
}

void describe_tokenize(SettingTable<TokenizeOptions>& t) {
  describe_files(t, true);
  describe_tokenizer(t);
  describe_documents(t, &TokenizeOptions::documents);
  describe_separator(t);
  describe_json_lines(t);
  t.number("val-fraction", &TokenizeOptions::val_fraction, 0, .9,
           "fraction of the tokens held out for validation");
  t.number("shard-tokens", &TokenizeOptions::shard_tokens, 1, 2147483647, "maximum number of tokens per file");
  t.text("out", &TokenizeOptions::out, "DIR", "output folder", {.required = true});
  t.flag("force", &TokenizeOptions::force, "overwrite what is in --out");
  describe_threads(t);
}

void describe_corpus(SettingTable<CorpusOptions>& t) {
  std::vector<std::string> grammars = names_of(kStoryGrammars);
  grammars.insert(grammars.end(), {kLexicon, kTown});
  t.text("out", &CorpusOptions::out, "FILE", "output file; its entropy goes to FILE.nats");
  t.named("grammar", &CorpusOptions::grammar, grammars, "grammar of the text").needs = {
      {[](const CorpusOptions& o) { return o.pairs_of.empty(); }, nullptr, "with {pairs-of}", true}};
  t.text("bytes", &CorpusOptions::bytes, "SIZE", "text size in bytes: 500k, 4M, ...", {},
         {{[](const CorpusOptions& o) { return o.pairs_of.empty() || !o.count; }, nullptr, "with {count}", true}});
  t.named("pairs-of", &CorpusOptions::pairs_of, names_of(kPairGrammars), "grammar of sources and their translations");
  t.text("pairs", &CorpusOptions::pairs, "FILE", "output file of minimal pairs, for eval --pairs");
  t.number("count", &CorpusOptions::count, 1, 1e7, "number of pairs (default: --bytes, or 1000 minimal pairs)", {},
           {{[](const CorpusOptions& o) { return !o.pairs.empty() || !o.pairs_of.empty(); }, nullptr,
             "without {pairs} or {pairs-of}", true}});
  t.number("seed", &CorpusOptions::seed, 0, kLargest, "seed of the text");
  t.text("questions", &CorpusOptions::questions, "FILE", "questions about four of five people of the town");
  t.text("held-out", &CorpusOptions::held_out, "FILE", "questions about the other people");
  t.flag("force", &CorpusOptions::force, "overwrite the files");
  t.text("check", &CorpusOptions::check, "FILE", "count the lines of FILE that follow the grammar");
  t.text("known", &CorpusOptions::known, "FILE", "with --check: count lines that also occur in FILE");
}

void describe_import(SettingTable<ImportOptions>& t) {
  t.text("from", &ImportOptions::path, "PATH", "model of another program: a file or folder",
         {.required = true, .positional = true});
  t.text("base", &ImportOptions::base, "DIR", "folder of the model that adapters in PATH belong to");
  t.text("out", &ImportOptions::out, "DIR", "run directory", {.required = true});
  t.flag("force", &ImportOptions::force, "overwrite what is in --out");
}

void describe_export(SettingTable<ExportOptions>& t) {
  describe_checkpoint(t, &ExportOptions::checkpoint);
  t.text("out", &ExportOptions::out, "PATH", "output file or folder", {.required = true});
  t.text("to", &ExportOptions::to, "FORMAT", "output format").choices = format_names();
  auto& dtype = t.text("dtype", &ExportOptions::dtype, "TYPE", "number type of the weights");
  dtype.choices = format_dtypes();
  dtype.shown = "as the model came, or f32";
  t.flag("lora-merge", &ExportOptions::lora_merge,
         "add the adapters of --lora to the weights (default for hf: adapters alone)");
  t.flag("force", &ExportOptions::force, "overwrite what is in --out");
}

void describe_completion(SettingTable<Command>& t) {
  t.text("shell", &Command::shell, "SHELL", "shell", {.required = true, .positional = true}).choices = {"bash", "zsh",
                                                                                                      "fish"};
}

void describe_comparison(SettingTable<Command>& t) {
  using Options = CompareOptions;
  const auto by = [](auto member) { return in(&Command::compare, member); };
  const Condition<Command> tunes = {
      [](const Command& c) { return c.train.resume || !c.compare.tune.empty(); }, nullptr, "without {tune}", true};
  t.group("Comparison");
  t.list("grid", by(&Options::grid), "KEY=A,B...", "option values to combine: placement=post,pre seed=1,2,3",
         {.common = true});
  t.list("tune", by(&Options::tune), "KEY=A,B...", "values from which to tune each cell: lr=1e-3,3e-3 warmup=20%,50%",
         {.common = true});
  t.list("flops", by(&Options::flops), "X,X...", "compute budgets of a run, one size for each: 1e13,3e13,1e14",
         {.common = true});
  describe_tokens_per_parameter(t, in(&Command::train, &TrainOptions::tokens_per_parameter), " (with --flops: 20)");
  t.number("tune-runs", by(&Options::tune_runs), 2, 1e6,
           "maximum tuning runs per cell (default: 1.5 x --tune's combinations)", {}, {tunes});
  t.number("tune-seed", by(&Options::tune_seed), 0, kLargest, "seed of the tuning runs, different from all others", {},
           {tunes});
  t.text("tune-size", by(&Options::tune_size), "SIZE", "tune at this size only; other sizes take its values", {},
         {tunes});
  t.number("jobs", by(&Options::jobs), 1, 1024, "parallel runs; above 1, no times are reported", {.common = true});
  t.flag("join", by(&Options::join), "share the runs with other processes; no times are reported");
  t.text("shard", by(&Options::shard), "I/N", "train part I of N; other processes --join", {.call = true});
  t.text("baseline", by(&Options::baseline), "CELL", "baseline cell: placement=pre (default: the first)",
         {.common = true});
  t.number("margin", by(&Options::margin), 0, 1e6, "treat losses this close as equal in verdicts (0: off)");
  t.number("target", by(&Options::target), 0, 1e6, "target loss of steps_to_target (0: the worst run's best)");
}

void describe_pass(TrainTable& t) {
  describe_model(t);
  describe_data(t);
  t.group("Pass");
  describe_batch(t);
  describe_seeds(t);
  describe_machine(t);
}

// The options of a coordinate check's steps.
void describe_steps(TrainTable& t) {
  t.group("Steps of a coordinate check");
  describe_step(t);
}

bool checks_coordinates(const Command& c) { return !c.init_report.widths.empty() || !c.init_report.depths.empty(); }

void describe_init_report(SettingTable<Command>& t) {
  const auto by = [](auto member) { return in(&Command::init_report, member); };
  const Condition<Command> checks = {checks_coordinates, nullptr, "without {widths} and {depths}", true};
  t.group("Report");
  t.list("grid", by(&InitReportOptions::grid), "KEY=A,B...", "option values to combine: layers=6,12 seed=1,2",
         {.common = true});
  t.list("widths", by(&InitReportOptions::widths), "N,N...", "coordinate check of models of these widths (channels)",
         {.common = true});
  t.list("depths", by(&InitReportOptions::depths), "N,N...", "coordinate check of models of these depths (layers)",
         {.common = true});
  t.number("steps", by(&InitReportOptions::steps), 1, 1e6, "steps of the coordinate check", {.common = true}, {checks});
  t.text("out", by(&InitReportOptions::out), "FILE", "output CSV file, one row per statistic", {.common = true});
  t.flag("force", by(&InitReportOptions::force), "overwrite the file");
  t.add(&Command::train, rows_of(describe_pass));
  const size_t first = t.rows.size();
  t.add(&Command::train, rows_of(describe_steps));
  for (size_t i = first; i < t.rows.size(); ++i) t.rows[i].needs.push_back(checks);
}

std::vector<CommandSetting> rows_for(Command::Kind kind) {
  using Kind = Command::Kind;
  SettingTable<Command> t;
  switch (kind) {
    case Kind::compare:
      describe_comparison(t);
      t.add(&Command::train, train_settings());
      t.add(&Command::train, rows_of(describe_call<true>));
      break;
    case Kind::train:
      t.add(&Command::train, train_settings());
      t.add(&Command::train, rows_of(describe_call<false>));
      break;
    case Kind::info: describe_info(t); break;
    case Kind::sample: t.add(&Command::sample, rows_of(describe_sample)); break;
    case Kind::eval: t.add(&Command::eval, rows_of(describe_eval)); break;
    case Kind::init_report: describe_init_report(t); break;
    case Kind::corpus: t.add(&Command::corpus, rows_of(describe_corpus)); break;
    case Kind::tokenizer: t.add(&Command::tokenizer, rows_of(describe_tokenizer_command)); break;
    case Kind::tokenize: t.add(&Command::tokenize, rows_of(describe_tokenize)); break;
    case Kind::import_model: t.add(&Command::import_model, rows_of(describe_import)); break;
    case Kind::export_model: t.add(&Command::export_model, rows_of(describe_export)); break;
    case Kind::completion: describe_completion(t); break;
    case Kind::man: break;
  }
  return t.rows;
}

}  // namespace

const std::vector<CommandSetting>& settings_of(Command::Kind kind) {
  static const std::vector<std::vector<CommandSetting>> tables = [] {
    std::vector<std::vector<CommandSetting>> all;
    for (int k = 0; k <= static_cast<int>(Command::Kind::man); ++k)
      all.push_back(rows_for(static_cast<Command::Kind>(k)));
    return all;
  }();
  return tables[static_cast<size_t>(kind)];
}

bool said_any(const Command& command, bool Traits::*trait) {
  return std::any_of(command.given.begin(), command.given.end(), [&](const Given& g) {
    const Setting* s = find_setting(settings_of(command.kind), g.name);
    return s && s->*trait;
  });
}
