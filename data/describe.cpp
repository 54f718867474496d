#include "describe.hpp"

namespace {

std::string names_of_placements() {
  std::string list;
  for (const Placement& row : placements()) list += (list.empty() ? "" : "|") + std::string(row.name);
  return list;
}

std::string names_of_presets() {
  std::string list;
  for (const std::string& name : preset_names()) list += (list.empty() ? "" : "|") + name;
  return list;
}

}  // namespace

void describe_model(Describe& d, TrainOptions& o) {
  Config& c = o.config;
  d.group("Model");
  d.value("preset", o.preset, "the wiring of a family of models: " + names_of_presets());
  d.value("size", o.size, "numbers of a preset: nano, or a size of the model's own: 124M, 7B, ... (train_gpt info --preset P --size S)");
  d.value("placement", c.placement, "where the norms sit: " + names_of_placements());
  d.choice("block", kBlockForms, c.block, "the branches one after the other, or side by side (with a norm each, or sharing one)");
  d.number("mix-fraction", c.mix_fraction, 0, 1, "share of the blocks, from the first, that are Post-LN under mix-ln");
  d.choice("norm", kNormKinds, c.norm, "which normalization");
  d.number("norm-eps", c.norm_eps, 0, 1, "epsilon under the root of the norm");
  d.open_flag("norm-bias", c.norm_bias, "norms have a bias (default: as --bias; rmsnorm and scalenorm none)");
  d.flag("norm-unit-offset", c.norm_unit_offset, "the gain of layernorm or rmsnorm is 1 + w, as Gemma has it");
  d.number("dyt-alpha", c.dyt_alpha, 0, 1e3, "where alpha of dyt and derf starts");
  d.flag("embedding-norm", c.embedding_norm, "a norm behind the embedding");
  d.open_flag("final-norm", c.final_norm, "a norm before the classifier (default: as the placement says)");
  d.choice("qk-norm", kQkNormKinds, c.qk_norm, "a norm of queries and keys, over each head or over all heads together");
  d.number("layers", c.n_layer, 1, 10000, "blocks (L)");
  d.number("heads", c.n_head, 1, 4096, "query heads (H)");
  d.derived("kv-heads", c.kv_heads, 4096, "key/value heads, fewer for GQA (default: as many as heads)");
  d.derived("head-dim", c.head_dim, 1 << 14, "size of a head (D) (default: channels / heads)");
  d.number("channels", c.channels, 1, 1 << 20, "width of the stream (C)");
  d.derived("hidden", c.hidden, 1 << 22, "width of the feed-forward layer (F) (default: 4 C; gated: 8/3 C)");
  d.number("context", c.context, 1, 1 << 22, "tokens the model sees at once (T)");
  d.derived("vocab-size", c.vocab_size, 1 << 24, "size of the vocabulary, for benchmarks (default: the data's)");
  d.choice("position", kPositions, c.position, "how positions are told");
  d.number("rope-theta", c.rope_theta, 1, 1e12, "base of the RoPE angles");
  d.number("rope-fraction", c.rope_fraction, 0, 1, "share of each head that RoPE turns (GPT-NeoX .25, Phi-2 .4)");
  d.number("window", c.window, 0, 1 << 22, "keys that a query sees, itself among them; 0: all");
  d.number("window-every", c.window_every, 1, 10000, "layers 0, n, 2n, ... have it, the others see all (Gemma-2: 2)");
  d.number("attention-cap", c.attention_cap, 0, 1e6, "attention scores become c tanh(S/c) (Gemma-2: 50); 0: they stay");
  d.open_number("attention-scale", c.attention_scale, 1e-6, 1e3, "factor on q.k (default: 1/sqrt(head-dim))");
  d.choice("activation", kActivations, c.activation, "of the feed-forward layer");
  d.flag("bias", c.bias, "biases in linear layers and norms (rmsnorm and scalenorm have none)");
  d.open_flag("qkv-bias", c.qkv_bias, "biases of q, k and v (default: as --bias)");
  d.flag("head-bias", c.head_bias, "a bias in the classifier");
  d.flag("tied", c.tied, "the classifier shares the token embedding");
  d.number("embedding-scale", c.embedding_scale, 1e-6, 1e6, "factor on the token embedding (Gemma: sqrt(channels))");
  d.number("logit-cap", c.logit_cap, 0, 1e6, "logits become c tanh(l/c) (Gemma-2: 30); 0: they stay");
  d.number("dropout", c.dropout, 0, .99, "share of elements dropped in training");
  d.group("Initialisation");
  d.choice("init", kInitChoices, c.init, "base of the initial weights");
  d.open_flag("residual-gain", c.residual_gain, "GPT-2's 1/sqrt(2L) on the output matrices (default: as --init)");
  d.open_number("init-gain", c.init_gain, 0, 1e3, "factor on v, o and the feed-forward matrices (default: as --init)");
  d.open_number("skip-scale", c.skip_scale, 0, 1e3, "factor on the skip path (default: as the placement)");
  d.open_number("layer-scale-init", c.layer_scale_init, 0, 1e3, "layerscale's gains (default: .1; above 18 layers 1e-5, above 24 1e-6)");
}

namespace {

// Returns the option --data.
CLI::Option* describe_files(Describe& d, TextFiles& o) {
  CLI::Option* data = d.value("data", o.data, "text files, folders, or - for standard input")->expected(1, 1 << 20);
  d.value("include", o.include, "files to read in folders: '*.md' '*.txt'")->expected(1, 1 << 20);
  d.value("exclude", o.exclude, "files and folders to skip in folders: '*.json' drafts")->expected(1, 1 << 20);
  d.choice("unknown", kUnknowns, o.unknown, "characters that a char model has no token for");
  return data;
}

void describe_data(Describe& d, TrainOptions& o) {
  d.group("Data");
  describe_files(d, o);
  d.choice("tokenizer", kTokenizers, o.tokenizer, "what a token is; char: Unicode code points");
  d.number("val-fraction", o.val_fraction, 0, .9, "share of the text kept for validation");
  d.choice("val-split", kValSplits, o.val_split, "where that share lies: at the end, or in up to 100 blocks spread over the text");
  d.value("val-data", o.val_data, "files to validate on, instead of a share of --data")->expected(1, 1 << 20);
  d.choice("sampling", kDraws, o.sampling, "training windows: anywhere in the text, or each once an epoch");
}

void describe_batch(Describe& d, TrainOptions& o) {
  d.number("batch", o.batch, 1, 1 << 20, "sequences in a micro-batch (B)");
  d.number("accumulate", o.accumulate, 1, 1 << 20, "micro-batches in a step");
}

void describe_seeds(Describe& d, TrainOptions& o) {
  d.number("seed", o.seed, 0, kLargest, "of weights and dropout");
  d.number("data-seed", o.data_seed, 0, kLargest, "of the batches");
}

void describe_machine(Describe& d, TrainOptions& o) {
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
  d.choice("matmul", kMatmuls, o.config.matmul, "numbers that matrix products read, all else is float; bf16 is faster where the processor has it");
  d.flag("recompute", o.config.recompute, "keep less: run each block again before its backward; same bits, more time");
}

}  // namespace

void describe_training(Describe& d, TrainOptions& o) {
  describe_data(d, o);
  d.group("Training");
  describe_batch(d, o);
  d.number("steps", o.steps, 0, kLargest, "optimizer steps");
  d.number("lr", o.rate.lr, 0, 1e6, "largest learning rate");
  d.open_number("min-lr", o.min_lr, 0, 1e6, "learning rate at the end of the schedule (default: a tenth of --lr)");
  d.number("warmup", o.rate.warmup, 0, kLargest, "steps over which the learning rate rises");
  d.choice("schedule", kSchedules, o.rate.schedule, "how the learning rate falls after the warm-up");
  d.number("schedule-end", o.schedule_end, 0, kLargest, "step at which the schedule ends; 0: --steps");
  d.number("weight-decay", o.adamw.weight_decay, 0, 100, "AdamW's decay, on tensors of two and more dimensions");
  d.number("beta1", o.adamw.beta1, 0, .999999, "AdamW's memory of gradients");
  d.number("beta2", o.adamw.beta2, 0, .9999999, "AdamW's memory of their squares");
  d.number("adam-eps", o.adamw.eps, 0, 1, "AdamW's epsilon");
  d.number("clip", o.clip, 0, 1e9, "largest norm of the gradient; 0: never clip");
  describe_seeds(d, o);
  d.group("Run");
  describe_machine(d, o);
  d.flag("textbook", o.textbook, "take the steps with the plain loops of layers/textbook/, in double: slow; validation "
                                 "and samples as always");
  d.number("eval-every", o.eval_every, 0, kLargest, "steps between validations; 0: never");
  d.number("eval-batches", o.eval_batches, 0, kLargest, "batches in a validation; 0: the whole validation split");
  d.number("patience", o.patience, 0, kLargest, "validations in a row without a new best that end training (0: off)");
  d.open_number("final-batches", o.final_batches, 0, kLargest,
                "measure the whole validation split at the end if it has at most N batches; 0: always (default: as "
                "many as cost a tenth of the training)");
  d.number("sample-every", o.sample_every, 0, kLargest, "steps between samples of text; 0: never");
  d.number("save-every", o.save_every, 0, kLargest, "steps between checkpoints; 0: only at the end");
  d.number("diagnostics", o.diagnostics, 0, kLargest,
           "steps between looks inside, written to diagnostics.csv, and one at the first and the last step; 0: never");
  d.value("init-from", o.init_from, "start from the weights of this checkpoint");
  d.group("");  // what --resume and --for write down; not in the help
  d.number("schedule-start", o.schedule_start, 0, kLargest, "step at which the schedule begins");
  d.value("earlier-schedules", o.earlier_schedules, "FROM TO SCHEDULE LR MIN-LR WARMUP")->expected(0, 1 << 20);
}

void describe_call(CLI::App& app, TrainOptions& o, std::string& config_file, Command::Kind kind) {
  const bool comparison = kind == Command::Kind::compare;
  const char *group = "Run", *of_train = comparison ? "" : group;  // "" stays out of the help
  app.add_option("--epochs", o.epochs, "times to go over the training text, in place of --steps")
      ->check(CLI::Range(1e-6, 1e6).description(""))->group(of_train);
  app.add_option("--for", o.time_limit, "choose --steps so that training takes about this long: 90s, 10m, 2h")
      ->group(of_train);
  app.add_option("--config", config_file, "read options from a TOML file; the command line overrides it")
      ->group(group);
  app.add_option("--out", o.out, comparison ? "directory of the comparison (default: runs/NUMBER-compare)"
                                            : "directory of the run (default: runs/NUMBER-PLACEMENT-NORM)")->group(group);
  app.add_flag("--resume", o.resume, comparison ? "go on with the comparison in --out: what is done is not done again"
                                                : "go on with the run in --out")->group(group);
  app.add_flag("--force", o.force, "replace what is in --out")->group(group);
  app.add_flag("--dry-run", o.dry_run, "say what would be done, and stop")->group(group);
  app.add_flag("--quiet", o.quiet, "no sample and no advice at the end")->group(of_train);
}

void describe_sample(CLI::App& app, SampleOptions& o) {
  app.add_option("checkpoint", o.checkpoint, "a checkpoint or a run's directory (default: the newest run)");
  app.add_option_function<std::string>(
         "--prompt", [&o](const std::string& s) { o.prompt = s, o.prompt_given = true; },
         "text to go on from (default: standard input if it is not a terminal, else a new line)");
  Describe d(app);
  d.choice("unknown", kUnknowns, o.unknown, "characters of the prompt that a char model has no token for");
  d.number("length", o.length, 0, 1e9, "tokens to write");
  d.number("count", o.count, 1, 1e9, "samples to write, each from the prompt");
  d.value("stop", o.stop, "end each sample at this text (\\n: a new line)");
  d.number("temperature", o.sampling.temperature, 0, 100, "below 1 bolder choices become rarer; 0: greedy");
  d.number("top-k", o.sampling.top_k, 0, 1e9, "choose among the k likeliest tokens; 0: all");
  d.number("top-p", o.sampling.top_p, 0, 1, "choose among the fewest tokens that hold this probability");
  app.add_flag_callback("--greedy", [&o] { o.sampling.temperature = 0; }, "always the likeliest token: --temperature 0");
  d.number("seed", o.sampling.seed, 0, kLargest, "of the choices");
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
}

void describe_eval(CLI::App& app, EvalOptions& o) {
  app.add_option("checkpoint", o.checkpoint, "a checkpoint or a run's directory (default: the newest run)");
  Describe d(app);
  describe_files(d, o)->required();
  d.number("batch", o.batch, 1, 1 << 20, "sequences at a time");
  d.number("threads", o.threads, 0, 4096, "0: one for every processor");
}

void describe_corpus(CLI::App& app, CorpusOptions& o) {
  Describe d(app);
  d.value("bytes", o.bytes, "size of the text: 500k, 4M, ...");
  d.value("grammar", o.grammar, "stories (about 200 bytes each) or tales (about 126, for a small model)");
  d.number("seed", o.seed, 0, kLargest, "of the stories");
  app.add_option("--out", o.out, "file to write; the floor goes beside it, into FILE.nats");
  app.add_flag("--force", o.force, "replace FILE if it is there");
  app.add_option("--check", o.check, "count the lines of this file that are stories of the grammar (-: standard input)");
  app.add_option("--known", o.known, "with --check: also count the lines that stand in this text");
}

void describe_compare(Describe& d, CompareOptions& o) {
  d.group("Comparison");
  d.value("grid", o.grid, "options and the values to combine: placement=post,pre norm=layernorm,rmsnorm seed=1,2,3 (+ for more cells: + placement=none)")
      ->expected(1, 1 << 20);
  d.value("tune", o.tune, "find each cell's best value first, on one seed: lr=3e-4,1e-3,3e-3,1e-2; then train with it on seeds 1,2,3");
  d.number("tune-seed", o.tune_seed, 0, kLargest, "the seed to tune on; not one of the others");
  d.number("extend", o.extend, 0, 10, "values to try beyond the grid of --tune where the best is at its edge");
  d.number("jobs", o.jobs, 1, 1024, "runs at a time, which share the threads; above 1 no times are reported");
  d.value("baseline", o.baseline, "the cell the others are compared with: placement=pre,norm=layernorm (default: the first)");
  d.number("target", o.target, 0, 1e6, "loss to report the steps and seconds to; 0: the highest a finished run ended with");
}

void describe_init_report(CLI::App& app, TrainOptions& o, InitReportOptions& report) {
  app.add_option("--grid", report.grid, "placement=post,pre layers=6,12 seed=1,2: options of the model, batch, "
                 "accumulate, data-seed, seed")->expected(1, 1 << 20);
  app.add_option("--out", report.out, "CSV file to write: a row for each statistic");
  app.add_flag("--force", report.force, "replace FILE if it is there");
  Describe d(app);
  describe_model(d, o);
  describe_data(d, o);
  d.group("Pass");
  describe_batch(d, o);
  describe_seeds(d, o);
  describe_machine(d, o);
}

std::vector<Setting> settings_of(TrainOptions& options, CLI::App& app, bool training) {
  Describe d(app);
  describe_model(d, options);
  if (training) describe_training(d, options);
  return d.settings;
}
