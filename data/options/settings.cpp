#include "settings.hpp"

#include "data/text/story_grammars.hpp"

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
  d.value("size", o.size, "size of the preset: nano, or 124M, 7B, ...").takes = "NAME";
}

void describe_norms(Describe& d, Config& c) {
  d.group("Norms");
  describe_placement(d, c);
  d.choice("norm", kNormKinds, c.norm, "normalization");
  d.number("norm-eps", c.norm_eps, 0, 1, "epsilon under the root");
  d.open_flag("norm-bias", c.norm_bias, "bias in norms (default: as --bias; rmsnorm, scalenorm: off)");
  d.flag("norm-unit-offset", c.norm_unit_offset, "gain 1 + w of layernorm and rmsnorm (Gemma)");
  d.number("dyt-alpha", c.dyt_alpha, 0, 1e3, "initial alpha of dyt and derf");
  d.number("mix-fraction", c.mix_fraction, 0, 1, "share of Post-LN blocks under mix-ln");
  d.flag("embedding-norm", c.embedding_norm, "norm after the embedding");
  d.open_flag("final-norm", c.final_norm, "norm before the classifier (default: as --placement)");
  d.choice("qk-norm", kQkNormKinds, c.qk_norm, "norm of queries and keys, per head or over all");
}

void describe_attention(Describe& d, Config& c) {
  d.group("Attention and positions");
  d.choice("position", kPositions, c.position, "positional encoding");
  d.number("rope-theta", c.rope_theta, 1, 1e12, "base of the RoPE angles");
  d.number("rope-fraction", c.rope_fraction, 0, 1, "share of each head that RoPE rotates");
  d.number("window", c.window, 0, 1 << 22, "sliding window in tokens (0: off)");
  d.number("window-every", c.window_every, 1, 10000, "use the window in every Nth layer");
  d.number("attention-cap", c.attention_cap, 0, 1e6, "soft cap on attention scores (0: off)");
  d.open_number("attention-scale", c.attention_scale, 1e-6, 1e3, "factor on attention scores (default: 1/sqrt(head-dim))");
}

void describe_sizes(Describe& d, Config& c) {
  d.number("layers", c.n_layer, 1, 10000, "number of blocks (L)");
  d.number("heads", c.n_head, 1, 4096, "number of query heads (H)");
  d.derived("kv-heads", c.kv_heads, 4096, "number of key/value heads (default: as --heads)");
  d.derived("head-dim", c.head_dim, 1 << 14, "size of a head (D) (default: channels / heads)");
  d.number("channels", c.channels, 1, 1 << 20, "width of the residual stream (C)");
  d.derived("hidden", c.hidden, 1 << 22, "width of the feed-forward layer (default: 4 C; gated: 8/3 C)");
  d.number("context", c.context, 1, 1 << 22, "context length in tokens (T)");
  d.derived("vocab-size", c.vocab_size, 1 << 24, "vocabulary size (default: the data's)");
}

void describe_blocks(Describe& d, Config& c) {
  d.choice("block", kBlockForms, c.block, "attention and feed-forward branches");
  d.choice("activation", kActivations, c.activation, "activation of the feed-forward layer");
  d.flag("bias", c.bias, "bias in linear layers and norms");
  d.open_flag("qkv-bias", c.qkv_bias, "bias of queries, keys and values (default: as --bias)");
  d.flag("head-bias", c.head_bias, "bias in the classifier");
  d.flag("tied", c.tied, "classifier shares the token embedding");
  d.open_number("embedding-scale", c.embedding_scale, 1e-6, 1e6, "factor on the token embedding (default: 1; gemma2: sqrt(C))");
  d.number("logit-cap", c.logit_cap, 0, 1e6, "soft cap on logits (0: off)");
  d.number("dropout", c.dropout, 0, .99, "dropout probability in training");
}

void describe_init(Describe& d, Config& c) {
  d.group("Weight initialization");
  d.choice("init", kInitChoices, c.init, "distribution of the initial weights");
  d.open_flag("residual-gain", c.residual_gain, "scale output matrices by 1/sqrt(2L) (default: as --init)");
  d.open_number("init-gain", c.init_gain, 0, 1e3, "factor on v, o and feed-forward weights (default: as --init)");
  d.open_number("skip-scale", c.skip_scale, 0, 1e3, "factor on the skip path (default: as --placement)");
  d.open_number("layer-scale-init", c.layer_scale_init, 0, 1e3, "initial gains of layerscale (default: by depth)");
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
  d.value("exclude", o.exclude, "files and folders to skip in folders: '*.json' drafts").takes = "PATTERN...";
  d.choice("unknown", kUnknowns, o.unknown, "characters that a char model has no token for");
}

void describe_data(Describe& d, TrainOptions& o) {
  d.group("Data");
  describe_files(d, o, false);
  d.choice("tokenizer", kTokenizers, o.tokenizer, "what a token is");
  d.number("val-fraction", o.val_fraction, 0, .9, "share of the text for validation");
  d.choice("val-split", kValSplits, o.val_split, "the end of the text, or blocks all over it");
  d.value("val-data", o.val_data, "files to validate on, not a share of --data").takes = "FILE...";
  d.choice("sampling", kDraws, o.sampling, "windows anywhere in the text, or each once per epoch");
}

void describe_batch(Describe& d, TrainOptions& o) {
  d.number("batch", o.batch, 1, 1 << 20, "sequences in a micro-batch (B)");
  d.number("accumulate", o.accumulate, 1, 1 << 20, "micro-batches in a step");
}

void describe_seeds(Describe& d, TrainOptions& o) {
  d.number("seed", o.seed, 0, kLargest, "seed of weights and dropout");
  d.number("data-seed", o.data_seed, 0, kLargest, "seed of the batches");
}

void describe_threads(Describe& d, int& threads) {
  d.number("threads", threads, 0, 4096, "number of threads (0: all processors)");
}

void describe_machine(Describe& d, TrainOptions& o) {
  describe_threads(d, o.threads);
  d.choice("matmul", kMatmuls, o.config.matmul, "matmul input precision; everything else stays fp32");
  d.flag("recompute", o.config.recompute, "recompute each block in backward: less memory, more time");
}

void describe_training(Describe& d, TrainOptions& o) {
  describe_data(d, o);
  d.group("Training");
  describe_batch(d, o);
  d.number("steps", o.steps, 0, kLargest, "optimizer steps");
  d.number("lr", o.rate.lr, 0, 1e6, "peak learning rate");
  d.open_number("min-lr", o.min_lr, 0, 1e6, "learning rate after the last step (default: lr / 10)");
  d.number("warmup", o.rate.warmup, 0, kLargest, "warm-up steps");
  d.choice("schedule", kSchedules, o.rate.schedule, "learning-rate schedule after the warm-up");
  d.number("schedule-end", o.schedule_end, 0, kLargest, "step at which the schedule ends (0: the last)");
  d.number("weight-decay", o.adamw.weight_decay, 0, 100, "AdamW's weight decay, on matrices");
  d.number("beta1", o.adamw.beta1, 0, .999999, "AdamW's beta1");
  d.number("beta2", o.adamw.beta2, 0, .9999999, "AdamW's beta2");
  d.number("adam-eps", o.adamw.eps, 0, 1, "AdamW's epsilon");
  d.number("clip", o.clip, 0, 1e9, "largest gradient norm (0: no clipping)");
  describe_seeds(d, o);
  d.group("Run");
  describe_machine(d, o);
  d.flag("textbook", o.textbook, "train with the plain loops of layers/textbook/: slow");
  d.number("eval-every", o.eval_every, 0, kLargest, "validate every N steps (0: never)");
  d.number("eval-batches", o.eval_batches, 0, kLargest, "batches of a validation (0: the whole split)");
  d.number("patience", o.patience, 0, kLargest, "stop after N validations without a new best (0: off)");
  d.open_number("final-batches", o.final_batches, 0, kLargest,
                "batches of a split measured whole at the end (0: any; default: a tenth of the training)");
  d.number("sample-every", o.sample_every, 0, kLargest, "print a sample every N steps (0: never)");
  d.number("save-every", o.save_every, 0, kLargest, "save a checkpoint every N steps (0: only at the end)");
  d.number("diagnostics", o.diagnostics, 0, kLargest, "write diagnostics.csv every N steps (0: off)");
  d.value("init-from", o.init_from, "start from the weights of this run or checkpoint").takes = "RUN";
  d.group("");  // what --resume and --for write down; not in the help
  d.number("schedule-start", o.schedule_start, 0, kLargest, "step at which the schedule begins");
  d.value("earlier-schedules", o.earlier_schedules, "FROM TO SCHEDULE LR MIN-LR WARMUP");
}

// What concerns one call and is not written to config.toml.
void describe_call(Describe& d, TrainOptions& o, bool comparison) {
  const char *group = "Run", *of_train = comparison ? "" : group;  // "" stays out of the help
  d.group(of_train);
  d.number("epochs", o.epochs, 1e-6, 1e6, "passes over the training text, instead of --steps").shown = "";
  d.value("for", o.time_limit, "train for about this long: 90s, 10m, 2h").takes = "TIME";
  d.flag("quiet", o.quiet, "no sample and no advice at the end");
  d.group(group);
  d.value("config", o.config_file, "read options from a TOML file; command line wins").takes = "FILE";
  d.value("out", o.out, comparison ? "directory of the comparison (default: runs/NUMBER-compare)"
                                   : "directory of the run (default: runs/NUMBER-PLACEMENT-NORM)").takes = "DIR";
  d.flag("resume", o.resume, comparison ? "continue the comparison in --out" : "continue the run in --out");
  d.flag("force", o.force, "replace what is in --out");
  d.flag("dry-run", o.dry_run, "print the plan and stop");
}

// ---- the other commands ----------------------------------------------------------------------------------

void describe_checkpoint(Describe& d, std::string& checkpoint) {
  d.positional("checkpoint", checkpoint, "run directory or checkpoint (default: the newest run)").takes = "RUN";
}

void describe_sample(Describe& d, SampleOptions& o) {
  describe_checkpoint(d, o.checkpoint);
  Setting& prompt = d.value("prompt", o.prompt, "text to continue (default: standard input, or a new line)");
  prompt.set = [&o](const std::string& text) { o.prompt = text, o.prompt_given = true; };
  d.choice("unknown", kUnknowns, o.unknown, "prompt characters that a char model has no token for");
  d.number("length", o.length, 0, 1e9, "tokens to write");
  d.number("count", o.count, 1, 1e9, "samples to write, each from the prompt");
  d.value("stop", o.stop, "end each sample at this text (\\n: a new line)");
  d.number("temperature", o.sampling.temperature, 0, 100, "sampling temperature (0: greedy)");
  d.number("top-k", o.sampling.top_k, 0, 1e9, "sample from the K likeliest tokens (0: all)");
  d.number("top-p", o.sampling.top_p, 0, 1, "sample from the likeliest tokens of this total probability");
  d.flag("greedy", o.greedy, "always take the likeliest token");
  d.number("seed", o.sampling.seed, 0, kLargest, "seed of the choices");
  describe_threads(d, o.threads);
}

void describe_eval(Describe& d, EvalOptions& o) {
  describe_checkpoint(d, o.checkpoint);
  describe_files(d, o, true);
  d.number("batch", o.batch, 1, 1 << 20, "sequences at a time");
  describe_threads(d, o.threads);
}

void describe_info(Describe& d, Command& c) {
  describe_checkpoint(d, c.info_checkpoint);
  d.flag("cost", c.info_cost, "memory and flops of a step, part by part");
  describe_model(d, c.train);
  d.number("batch", c.train.batch, 1, 1 << 20, "sequences in a micro-batch (B)");
}

void describe_grammar(Describe& d, CorpusOptions& o) {
  Setting& s = d.value("grammar", o.grammar, "grammar to write with");
  s.takes = "NAME";
  for (const NamedGrammar& row : kStoryGrammars) s.choices.emplace_back(row.name);
}

void describe_corpus(Describe& d, CorpusOptions& o) {
  d.value("out", o.out, "file to write; its entropy goes to FILE.nats").takes = "FILE";
  describe_grammar(d, o);
  d.value("bytes", o.bytes, "size of the text: 500k, 4M, ...").takes = "SIZE";
  d.number("seed", o.seed, 0, kLargest, "seed of the stories");
  d.flag("force", o.force, "replace the file");
  d.value("check", o.check, "count the lines of this file that the grammar writes").takes = "FILE";
  d.value("known", o.known, "with --check: also count lines of this text").takes = "FILE";
}

void describe_comparison(Describe& d, CompareOptions& o) {
  d.group("Comparison");
  d.value("grid", o.grid, "options and their values, all combinations: placement=post,pre seed=1,2").takes = "KEY=A,B...";
  d.value("tune", o.tune, "tune each cell first: lr=3e-4,1e-3,3e-3").takes = "KEY=A,B";
  d.number("tune-seed", o.tune_seed, 0, kLargest, "seed of the tuning runs; not one of the others");
  d.number("extend", o.extend, 0, 10, "values to try beyond an edge of --tune");
  d.number("jobs", o.jobs, 1, 1024, "runs at a time; above 1, no times are reported");
  d.value("baseline", o.baseline, "cell to compare with: placement=pre (default: the first)").takes = "CELL";
  d.number("target", o.target, 0, 1e6, "loss to time (0: the highest final loss)");
}

void describe_init_report(Describe& d, TrainOptions& o, InitReportOptions& report) {
  d.group("Report");
  d.value("grid", report.grid, "options and their values, all combinations: layers=6,12 seed=1,2").takes = "KEY=A,B...";
  d.value("out", report.out, "CSV file to write, a row per statistic").takes = "FILE";
  d.flag("force", report.force, "replace the file");
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
