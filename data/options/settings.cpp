#include "settings.hpp"

#include "data/text/corpus.hpp"
#include "layers/model/presets.hpp"

namespace {

// ---- the model -------------------------------------------------------------------------------------------

void describe_placement(Describe& d, Config& c) {
  Setting& s = d.value("placement", c.placement, "norm placement");
  s.takes = "NAME";
  for (const Placement& row : placements()) {
    s.choices.emplace_back(row.name);
    s.synonyms.insert(s.synonyms.end(), row.aliases.begin(), row.aliases.end());
  }
}

void describe_preset(Describe& d, TrainOptions& o) {
  d.group("Model");
  Setting& s = d.value("preset", o.preset, "model family");
  s.takes = "NAME";
  s.choices = preset_names();
  d.value("size", o.size, "model size of the preset: nano, 124M, 7B, ...").takes = "NAME";
}

void describe_norms(Describe& d, Config& c) {
  d.group("Norms");
  describe_placement(d, c);
  d.choice("norm", kNormKinds, c.norm, "normalization");
  d.number("norm-eps", c, "norm epsilon, inside the square root");
  d.open_flag("norm-bias", c.norm_bias, "norm bias (default: as --bias; rmsnorm, scalenorm: off)");
  d.flag("norm-unit-offset", c.norm_unit_offset, "gain 1 + w in layernorm and rmsnorm (Gemma)");
  d.number("dyt-alpha", c, "initial alpha of dyt and derf");
  d.number("mix-fraction", c, "fraction of Post-LN blocks under mix-ln");
  d.flag("embedding-norm", c.embedding_norm, "norm after the embedding");
  d.open_flag("final-norm", c.final_norm, "norm before the classifier (default: as --placement)");
  d.choice("qk-norm", kQkNormKinds, c.qk_norm, "query and key norm, per head or over all heads");
}

void describe_attention(Describe& d, Config& c) {
  d.group("Attention and positions");
  d.choice("position", kPositions, c.position, "positional encoding");
  d.number("rope-theta", c, "RoPE base");
  d.number("rope-fraction", c, "fraction of each head that RoPE rotates");
  d.number("window", c, "sliding attention window (tokens; 0: off)");
  d.number("window-every", c, "sliding window in every Nth layer");
  d.number("attention-cap", c, "soft cap on attention scores (0: off)");
  d.number("attention-scale", c, "attention score scale (default: 1/sqrt(head-dim))");
}

void describe_sizes(Describe& d, Config& c) {
  d.number("layers", c, "number of blocks (L)");
  d.number("heads", c, "number of query heads (H)");
  d.number("kv-heads", c, "number of key/value heads (default: as --heads)");
  d.number("head-dim", c, "head size D (default: channels / heads)");
  d.number("channels", c, "residual stream width (C)");
  d.number("hidden", c, "feed-forward width (default: 4 C; gated: 8/3 C)");
  d.number("context", c, "context length (T, in tokens)");
  d.number("vocab-size", c, "vocabulary size (default: the data's)");
}

void describe_blocks(Describe& d, Config& c) {
  d.choice("block", kBlockForms, c.block, "arrangement of attention and feed-forward branches");
  d.choice("activation", kActivations, c.activation, "feed-forward activation");
  d.flag("bias", c.bias, "bias in linear layers and norms");
  d.open_flag("qkv-bias", c.qkv_bias, "query, key and value bias (default: as --bias)");
  d.flag("head-bias", c.head_bias, "bias in the classifier");
  d.flag("tied", c.tied, "classifier shares the token embedding");
  d.number("embedding-scale", c, "token embedding scale (default: 1; gemma2: sqrt(C))");
  d.number("logit-cap", c, "soft cap on logits (0: off)");
  d.number("dropout", c, "dropout probability during training");
}

void describe_init(Describe& d, Config& c) {
  d.group("Weight initialization");
  d.choice("init", kInitChoices, c.init, "distribution of the initial weights");
  d.open_flag("residual-gain", c.residual_gain, "scale output matrices by 1/sqrt(2L) (default: as --init)");
  d.number("init-gain", c, "gain of v, o and feed-forward weights (default: as --init)");
  d.number("skip-scale", c, "skip connection scale (default: as --placement)");
  d.number("layer-scale-init", c, "initial LayerScale gain (default: by depth)");
}

void describe_model(Describe& d, TrainOptions& o) {
  describe_preset(d, o);
  describe_sizes(d, o.config);
  describe_blocks(d, o.config);
  describe_norms(d, o.config);
  describe_attention(d, o.config);
  describe_init(d, o.config);
}

// ---- training --------------------------------------------------------------------------------------------

void describe_files(Describe& d, TextFiles& o, bool required) {
  Setting& data = d.value("data", o.data, "text files, folders, or - for standard input");
  data.takes = "FILE...", data.required = required;
  d.value("include", o.include, "files to read in folders: '*.md' '*.txt'").takes = "PATTERN...";
  d.value("exclude", o.exclude, "files and subfolders to skip in folders: '*.json' drafts").takes = "PATTERN...";
  d.choice("unknown", kUnknowns, o.unknown, "handling of characters outside the vocabulary");
}

void describe_data(Describe& d, TrainOptions& o) {
  d.group("Data");
  describe_files(d, o, false);
  d.choice("tokenizer", kTokenizers, o.tokenizer, "tokenizer");
  d.number("val-fraction", o.val_fraction, 0, .9, "fraction of the text held out for validation");
  d.choice("val-split", kValSplits, o.val_split, "validation text, at the end or in spread blocks");
  d.value("val-data", o.val_data, "validation files, instead of a fraction of --data").takes = "FILE...";
  d.choice("sampling", kDraws, o.sampling, "training windows, anywhere or each once per epoch");
}

void describe_batch(Describe& d, TrainOptions& o) {
  d.number("batch", o.batch, 1, 1 << 20, "sequences per micro-batch (B)");
  d.number("accumulate", o.accumulate, 1, 1 << 20, "micro-batches per step");
}

void describe_seeds(Describe& d, TrainOptions& o) {
  d.number("seed", o.seed, 0, kLargest, "seed of weights and dropout");
  d.number("data-seed", o.data_seed, 0, kLargest, "seed of the batches");
}

void describe_threads(Describe& d, int& threads) {
  d.number("threads", threads, 0, 4096, "threads (0: all processors)");
}

void describe_machine(Describe& d, TrainOptions& o) {
  describe_threads(d, o.threads);
  d.choice("matmul", kMatmuls, o.config.matmul, "matmul input precision; everything else stays fp32");
  d.flag("recompute", o.config.recompute, "activation checkpointing: less memory, more time, same result");
}

void describe_training(Describe& d, TrainOptions& o) {
  describe_data(d, o);
  d.group("Training");
  describe_batch(d, o);
  d.number("steps", o.steps, 0, kLargest, "optimizer steps");
  d.number("lr", o.rate.lr, 0, 1e6, "peak learning rate");
  d.open_number("min-lr", o.min_lr, 0, 1e6, "final learning rate (default: lr / 10)");
  d.number("warmup", o.rate.warmup, 0, kLargest, "warm-up steps");
  d.choice("schedule", kSchedules, o.rate.schedule, "learning-rate schedule after the warm-up");
  d.number("schedule-end", o.schedule_end, 0, kLargest, "last step of the schedule (0: the run's last)");
  d.number("weight-decay", o.adamw.weight_decay, 0, 100, "AdamW weight decay of matrices");
  d.number("beta1", o.adamw.beta1, 0, .999999, "AdamW beta1");
  d.number("beta2", o.adamw.beta2, 0, .9999999, "AdamW beta2");
  d.number("adam-eps", o.adamw.eps, 0, 1, "AdamW epsilon");
  d.number("clip", o.clip, 0, 1e9, "gradient norm clipping threshold (0: off)");
  describe_seeds(d, o);
  d.group("Run");
  describe_machine(d, o);
  d.flag("textbook", o.textbook, "train with the naive loops of layers/textbook/ (slow)");
  d.number("eval-every", o.eval_every, 0, kLargest, "validate every N steps (0: never)");
  d.number("eval-batches", o.eval_batches, 0, kLargest, "batches per validation (0: the whole split)");
  d.number("patience", o.patience, 0, kLargest, "early stopping after N validations without improvement (0: off)");
  d.open_number("final-batches", o.final_batches, 0, kLargest,
                "largest split evaluated whole at the end (batches; 0: any; default: a tenth of the training)");
  d.number("sample-every", o.sample_every, 0, kLargest, "print a sample every N steps (0: never)");
  d.number("save-every", o.save_every, 0, kLargest, "save a checkpoint every N steps (0: only at the end)");
  d.number("diagnostics", o.diagnostics, 0, kLargest, "write diagnostics.csv every N steps (0: off)");
  d.value("init-from", o.init_from, "run or checkpoint to take initial weights from").takes = "RUN";
  d.group("");  // what --resume and --for write down; not in the help
  d.number("schedule-start", o.schedule_start, 0, kLargest, "first step of the schedule");
  d.value("earlier-schedules", o.earlier_schedules, "FROM TO SCHEDULE LR MIN-LR WARMUP");
}

// Settings of one call, not written to config.toml.
void describe_call(Describe& d, TrainOptions& o, bool comparison) {
  const char *group = "Run", *of_train = comparison ? "" : group;  // "" stays out of the help
  d.group(of_train);
  d.number("epochs", o.epochs, 1e-6, 1e6, "passes over the training text, instead of --steps").shown = "";
  d.value("for", o.time_limit, "approximate training time: 90s, 10m, 2h").takes = "TIME";
  d.flag("quiet", o.quiet, "no sample and no suggestions at the end");
  d.group(group);
  d.value("config", o.config_file, "TOML file of options; the command line overrides it").takes = "FILE";
  d.value("out", o.out, comparison ? "comparison directory (default: runs/NUMBER-compare)"
                                   : "run directory (default: runs/NUMBER-PLACEMENT-NORM)").takes = "DIR";
  d.flag("resume", o.resume, comparison ? "continue the comparison in --out" : "continue the run in --out");
  d.flag("force", o.force, "overwrite what is in --out");
  d.flag("dry-run", o.dry_run, "print the plan and stop");
}

// ---- the other commands ----------------------------------------------------------------------------------

void describe_checkpoint(Describe& d, std::string& checkpoint) {
  d.positional("checkpoint", checkpoint, "run directory or checkpoint (default: the newest run)").takes = "RUN";
}

void describe_sample(Describe& d, SampleOptions& o) {
  describe_checkpoint(d, o.checkpoint);
  Setting& prompt = d.value("prompt", o.prompt, "text to continue (default: standard input, or a newline)");
  prompt.set = [&o](const std::string& text) { o.prompt = text, o.prompt_given = true; };
  d.choice("unknown", kUnknowns, o.unknown, "handling of prompt characters outside the vocabulary");
  d.number("length", o.length, 0, 1e9, "tokens to generate");
  d.number("count", o.count, 1, 1e9, "samples to generate, each from the same prompt");
  d.value("stop", o.stop, "stop sequence (\\n: a newline)");
  d.number("temperature", o.sampling.temperature, 0, 100, "sampling temperature (0: greedy)");
  d.number("top-k", o.sampling.top_k, 0, 1e9, "top-k sampling: only the K likeliest tokens (0: all)");
  d.number("top-p", o.sampling.top_p, 0, 1, "nucleus sampling: only the likeliest tokens of this total probability");
  d.flag("greedy", o.greedy, "greedy decoding: always the likeliest token");
  d.number("seed", o.sampling.seed, 0, kLargest, "sampling seed");
  describe_threads(d, o.threads);
}

void describe_eval(Describe& d, EvalOptions& o) {
  describe_checkpoint(d, o.checkpoint);
  describe_files(d, o, true);
  d.number("batch", o.batch, 1, 1 << 20, "sequences per batch");
  describe_threads(d, o.threads);
}

void describe_info(Describe& d, Command& c) {
  describe_checkpoint(d, c.info_checkpoint);
  d.flag("cost", c.info_cost, "memory and FLOPs of one step, part by part");
  describe_model(d, c.train);
  d.number("batch", c.train.batch, 1, 1 << 20, "sequences per micro-batch (B)");
}

void describe_grammar(Describe& d, CorpusOptions& o) {
  Setting& s = d.value("grammar", o.grammar, "grammar of the text");
  s.takes = "NAME";
  for (const NamedGrammar& row : kStoryGrammars) s.choices.emplace_back(row.name);
}

void describe_corpus(Describe& d, CorpusOptions& o) {
  d.value("out", o.out, "output file; its entropy goes to FILE.nats").takes = "FILE";
  describe_grammar(d, o);
  d.value("bytes", o.bytes, "text size in bytes: 500k, 4M, ...").takes = "SIZE";
  d.number("seed", o.seed, 0, kLargest, "seed of the text");
  d.flag("force", o.force, "overwrite the file");
  d.value("check", o.check, "count the lines of FILE that follow the grammar").takes = "FILE";
  d.value("known", o.known, "with --check: count lines that also occur in FILE").takes = "FILE";
}

void describe_comparison(Describe& d, CompareOptions& o) {
  d.group("Comparison");
  d.value("grid", o.grid, "option values to combine: placement=post,pre seed=1,2").takes = "KEY=A,B...";
  d.value("tune", o.tune, "values to tune each cell over: lr=3e-4,1e-3,3e-3").takes = "KEY=A,B";
  d.number("tune-seed", o.tune_seed, 0, kLargest, "seed of the tuning runs, different from all others");
  d.number("extend", o.extend, 0, 10, "extra values to try beyond an edge of --tune");
  d.number("jobs", o.jobs, 1, 1024, "parallel runs; above 1, no times are reported");
  d.value("baseline", o.baseline, "baseline cell: placement=pre (default: the first)").takes = "CELL";
  d.number("target", o.target, 0, 1e6, "target loss of steps_to_target (0: the highest final loss)");
}

void describe_init_report(Describe& d, TrainOptions& o, InitReportOptions& report) {
  d.group("Report");
  d.value("grid", report.grid, "option values to combine: layers=6,12 seed=1,2").takes = "KEY=A,B...";
  d.value("out", report.out, "output CSV file, one row per statistic").takes = "FILE";
  d.flag("force", report.force, "overwrite the file");
  describe_model(d, o);
  describe_data(d, o);
  d.group("Pass");
  describe_batch(d, o);
  describe_seeds(d, o);
  describe_machine(d, o);
}

}  // namespace

std::vector<Setting> settings_of(Command& c) {
  Describe d;
  switch (c.kind) {
    case Command::Kind::compare: describe_comparison(d, c.compare); [[fallthrough]];
    case Command::Kind::train:
      describe_model(d, c.train);
      describe_training(d, c.train);
      describe_call(d, c.train, c.kind == Command::Kind::compare);
      break;
    case Command::Kind::info: describe_info(d, c); break;
    case Command::Kind::sample: describe_sample(d, c.sample); break;
    case Command::Kind::eval: describe_eval(d, c.eval); break;
    case Command::Kind::init_report: describe_init_report(d, c.train, c.init_report); break;
    case Command::Kind::corpus: describe_corpus(d, c.corpus); break;
  }
  return d.settings;
}

std::vector<Setting> settings_of(TrainOptions& options, bool training) {
  Describe d;
  describe_model(d, options);
  if (training) describe_training(d, options);
  return d.settings;
}

std::vector<Setting> settings_of_comparison(Command& c) {
  Describe d;
  describe_comparison(d, c.compare);
  describe_call(d, c.train, true);
  return d.settings;
}
