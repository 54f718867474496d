#pragma once
// Structs with the options of every command.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/documents.hpp"
#include "data/text/load_dataset.hpp"
#include "layers/model/generate.hpp"
#include "layers/model/resolve.hpp"
#include "layers/training/run_optimizer.hpp"

// The largest whole number that options take. Double represents all whole numbers up to 2^53, some 9e15, exactly.
inline constexpr double kLargest = 1e15;

inline constexpr Named<Schedule> kSchedules[] = {
    {Schedule::cosine, "cosine"}, {Schedule::linear, "linear"}, {Schedule::constant, "constant"},
    {Schedule::wsd, "wsd"},       {Schedule::inverse_sqrt, "inverse-sqrt"}};
inline constexpr Named<MuonScale> kMuonScales[] = {{MuonScale::rms, "rms"}, {MuonScale::spectral, "spectral"}};
inline constexpr Named<PolarIteration> kPolarIterations[] = {{PolarIteration::newton_schulz, "newton-schulz"},
                                                              {PolarIteration::polar_express, "polar-express"}};
inline constexpr Named<Unknown> kUnknowns[] = {
    {Unknown::error, "error"}, {Unknown::skip, "skip"}, {Unknown::replace, "replace"}};
inline constexpr Named<bool> kSpecialNames[] = {{false, "text"}, {true, "tokens"}};
inline constexpr Named<ValSplit> kValSplits[] = {{ValSplit::tail, "tail"}, {ValSplit::spread, "spread"}};
inline constexpr Named<LearnedPart> kLearnedParts[] = {{LearnedPart::completion, "completion"},
                                                       {LearnedPart::all, "all"}};
inline constexpr Named<Packing> kPackings[] = {
    {Packing::stream, "stream"}, {Packing::documents, "documents"}, {Packing::padded, "padded"}};
inline constexpr Named<NumberType> kNumberTypes[] = {
    {NumberType::fp32, "fp32"}, {NumberType::bf16, "bf16"}, {NumberType::fp16, "fp16"}};
inline constexpr Named<NumberType> kMomentTypes[] = {{NumberType::fp32, "fp32"}, {NumberType::bf16, "bf16"}};
inline constexpr Named<Draws> kDraws[] = {{Draws::random, "random"}, {Draws::shuffle, "shuffle"}};

struct TrainOptions : TextOptions {
  std::string preset = "gpt2", size = "nano";
  Config config;

  int batch = 4, accumulate = 1, lanes = 1;
  int64_t steps = 3000;
  double epochs = 0;             // replaces `steps`; 0 if not given
  double tokens_per_parameter = 0;  // replaces `steps`; 0 if not given
  std::string time_limit;        // --for
  double time_in_all = 0;        // --for in seconds, including the time before --resume; 0 if none
  std::string config_file;       // --config
  LearningRate rate;
  std::optional<double> min_lr;  // open: a tenth of the peak learning rate
  int64_t schedule_start = 0, schedule_end = 0;  // steps; schedule_end = 0 means the run's last step
  std::vector<std::string> earlier_schedules;    // if the run was resumed with another schedule (schedule.hpp)
  const RunOptimizer* optimizer = &run_optimizers().front();
  OptimizerOptions optimizer_options;
  NumberType moments = NumberType::fp32;  // of AdamW
  std::optional<double> beta2, momentum;  // open: as the optimizer says
  std::optional<float> output_norm_decay;  // open: as norm_decay
  std::optional<bool> nesterov;           // open: as the optimizer says
  double clip = 1;
  std::string train_only, freeze;  // regular expressions for tensor names; "" means all, and none
  NumberType frozen_weights = NumberType::fp32;
  std::optional<double> lr_norm, lr_embedding, lr_head, lr_vector;  // open: as lr
  uint64_t seed = 1, data_seed = 1;
  int threads = 0;            // 0 means one per processor
  double rank_timeout = 600;  // seconds; 0 waits forever
  bool textbook = false;      // train with the naive loops of layers/textbook/

  std::optional<double> final_batches;  // open: as many as cost a tenth of the training time
  std::optional<int64_t> eval_every;    // open: ten times in a short run
  int64_t eval_batches = 50, patience = 0, sample_every = 0, save_every = 300, diagnostics = 0;
  std::vector<std::string> eval_pairs;  // files of minimal pairs
  std::string init_from;
  std::vector<std::string> input_hashes;  // the only inputs allowed (data/run/inputs.hpp); empty for any
  bool resume = false, force = false, dry_run = false;
  bool quiet = false;  // print no sample and no suggestions at the end
  bool json = false;   // print a run's or comparison's events as JSON lines

  Optimizers optimizers() const { return optimizer->rows_with(moments); }
};

// Tensors that may have a learning rate of their own. A tensor of several groups has the last one's.
struct RateGroup {
  const char* option;
  std::optional<double> TrainOptions::*rate;
  bool (*has)(const TensorSpec&);
  const char* help;
};
inline constexpr RateGroup kRateGroups[] = {
    {"lr-embedding", &TrainOptions::lr_embedding, is_embedding, "peak learning rate of embeddings (default: lr)"},
    {"lr-head", &TrainOptions::lr_head, is_head, "peak learning rate of an untied classifier (default: lr)"},
    {"lr-vector", &TrainOptions::lr_vector, is_vector, "peak learning rate of biases and gains (default: lr)"},
    {"lr-norm", &TrainOptions::lr_norm, is_norm, "peak learning rate of norms (default: lr-vector)"}};

struct SampleOptions {
  std::string checkpoint;
  std::optional<std::string> prompt;  // open: standard input, or a newline; "-" for standard input
  bool greedy = false, json = false, interactive = false;
  bool raw = false;  // continue the prompt as text, although the model has learned conversations
  Unknown unknown = Unknown::error;
  std::optional<bool> finds_special;  // open: as the tokenizer does
  std::optional<NumberType> weights;  // of matrices; open: as stored
  std::optional<int> length;  // open: up to 500 within the context
  int count = 1, threads = 0;
  int beams = 0;  // of beam search; 0: none
  std::optional<float> temperature;  // open: 1, but 0 for a model with an encoder
  std::string stop;  // as typed: \n and \t stand for a newline and a tab
  Sampling sampling;  // but for the temperature

  bool draws() const { return !greedy && beams == 0 && temperature != 0.f; }
};

struct EvalOptions : TextFiles {
  std::string checkpoint, logits, gradients;
  std::vector<std::string> pairs, choices, hellaswag;  // files of questions; only one kind, and no --data
  std::string pairs_of;  // a grammar of sentences and translations, which parses what the model writes
  int batch = 8, context = 0, threads = 0;  // context 0: the model's
  bool json = false, force = false;
};

struct ImportOptions {
  std::string path, out;
  std::string base;  // the folder of the model that adapters belong to
  bool force = false;
};

struct ExportOptions {
  std::string checkpoint, to = "hf", dtype, out;
  bool force = false, lora_merge = false;
};

struct CorpusOptions {
  std::string bytes = "4M", grammar = "stories", out;
  std::string pairs;         // a file of minimal pairs to write
  std::string pairs_of;      // a grammar of sentences and translations, which --out and --check are about
  std::optional<int64_t> count;  // of pairs; open: 1000 minimal pairs, or as many translations as --bytes holds
  std::string check, known;  // a file of stories to check, and a file of stories that they should not repeat
  std::string questions, held_out;  // files of questions about the town
  uint64_t seed = 1;
  bool force = false;
};

struct TokenizerOptions : TextFiles {
  int vocabulary = 4096, threads = 0;
  std::string separator = kEndOfText;
  bool force = false;
};

struct TokenizeOptions : TextFiles {
  std::string tokenizer = "bpe:4096", separator = kEndOfText;
  std::string documents = kDocuments[0];
  double val_fraction = 0.1;
  int64_t shard_tokens = 100000000;
  int threads = 0;
  bool force = false;
};

struct CompareOptions {
  std::vector<std::string> grid;  // "placement=post,pre"
  std::vector<std::string> flops;  // "1e13,3e13": budgets of runs, which become sizes in `grid`
  std::vector<std::string> tune;  // "lr=1e-3,3e-3"
  std::optional<int> tune_runs;   // most per cell; open: 1.5 times the combinations of --tune
  uint64_t tune_seed = 0;
  std::string tune_size;          // cells of other sizes take what the cell of this size found; "": each tunes
  int jobs = 1;
  bool join = false;              // other processes work on the same comparison
  std::string shard;              // "3/16": only every 16th run, from the third on
  std::string baseline;           // the name of a cell; "": the first
  double target = 0;              // a loss; 0 means the highest best loss of a finished run
  double margin = 0;              // losses this close count as equal; 0 is off
};

struct InitReportOptions {
  std::vector<std::string> grid;
  std::vector<std::string> widths, depths;  // of a coordinate check: "64", "64,128"
  int64_t steps = 10;
  std::string out;
  bool force = false;
};

// An option with its values.
struct Given {
  std::string name;
  std::vector<std::string> values;
  std::string where = "";  // the place in a config file, "recipe.toml line 3: "; "" for the command line
};

// A parsed command line. `train` also holds the options of compare's and init-report's cells and of info without a
// checkpoint.
struct Command {
  enum class Kind {
    train,
    sample,
    eval,
    info,
    compare,
    init_report,
    corpus,
    tokenizer,
    tokenize,
    import_model,
    export_model,
    completion,
    man
  };
  Kind kind = Kind::train;
  std::string program;  // as typed, for suggested commands
  TrainOptions train;
  SampleOptions sample;
  EvalOptions eval;
  CompareOptions compare;
  InitReportOptions init_report;
  CorpusOptions corpus;
  TokenizerOptions tokenizer;
  TokenizeOptions tokenize;
  ImportOptions import_model;
  ExportOptions export_model;
  std::string shell;  // the shell to complete for
  std::string info_checkpoint;
  bool info_cost = false, info_json = false;
  int info_ranks = 1;
  std::string info_bandwidth;         // a rank's network, "25G" bits per second
  double info_speed = 0;              // tokens per second of one process; 0 takes the checkpoint's
  std::vector<Given> given;           // with our names; options from config files replace --config
  std::vector<std::string> notices;   // notes to the user about names from other programs

  // True if the option is on the command line or in a config file.
  bool said(const std::string& option) const;
  // Returns the message, preceded by the place in a config file of the first option that it names.
  std::string located(const std::string& message) const;
};

// Calls resolve(), and spells settings as options in errors: "--heads 3 does not divide --channels 128: ...".
Config resolved(const Config& config);

// Sets what follows from other options. Call it after all are read. Throws std::invalid_argument if a step has more
// sequences than an int can count, or if --textbook is combined with an option that it does not support.
void complete(TrainOptions& options);

// Returns the options with every value filled in that a resumed run must keep.
TrainOptions closed(TrainOptions options);

// Returns the options with every value filled in. A new --lr changes some of these values.
TrainOptions in_full(TrainOptions options);

// Returns the options, with a vocabulary of 256 if it depends on the text, which is not read yet.
TrainOptions with_vocabulary(TrainOptions options);

// Sets the vocabulary to the data's if it is open. Throws if a given one is too small.
void set_vocabulary(Config& config, int of_data);

// Returns the number of steps of `o` that train on so many tokens, if a row of its batches counts `row` tokens.
int64_t steps_of_tokens(const TrainOptions& o, double tokens, double row);

// Returns the steps between validations; 0 if there are none.
int64_t eval_every(const TrainOptions& options);

// Returns the largest validation split, in batches, that a run measures whole at its end; 0 means any size.
int64_t final_batches(const TrainOptions& options);

// Parse bytes such as "4M", "64k", "1000", and seconds such as "90s", "10m", "1h". Throw std::invalid_argument that
// names --bytes, --bandwidth or --for.
size_t parse_bytes(const std::string& text);
double parse_bandwidth(const std::string& text);  // bits per second: "10G"
double parse_seconds(const std::string& text);
