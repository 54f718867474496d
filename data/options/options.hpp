#pragma once
// The options of every command and what is read from a command line or a config file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/model/config.hpp"
#include "layers/model/generate.hpp"
#include "layers/training/optimizer.hpp"
#include "data/text/dataset.hpp"

inline constexpr Named<Schedule> kSchedules[] = {
    {Schedule::cosine, "cosine"}, {Schedule::linear, "linear"}, {Schedule::constant, "constant"}};
inline constexpr Named<Tokenizer::Kind> kTokenizers[] = {{Tokenizer::Kind::byte, "byte"},
                                                         {Tokenizer::Kind::character, "char"}};
inline constexpr Named<Unknown> kUnknowns[] = {
    {Unknown::error, "error"}, {Unknown::skip, "skip"}, {Unknown::replace, "replace"}};
inline constexpr Named<ValSplit> kValSplits[] = {{ValSplit::tail, "tail"}, {ValSplit::spread, "spread"}};
inline constexpr Named<Draws> kDraws[] = {{Draws::random, "random"}, {Draws::shuffle, "shuffle"}};

struct TrainOptions : TextOptions {
  std::string preset = "gpt2", size = "nano";
  Config config;

  int batch = 4, accumulate = 1;
  int64_t steps = 3000;
  double epochs = 0;       // in place of `steps`; 0: not said
  std::string time_limit;   // --for
  std::string config_file;  // --config
  LearningRate rate;
  std::optional<double> min_lr;  // open: a tenth of the largest
  int64_t schedule_start = 0, schedule_end = 0;  // steps; an end of 0: the run's last step
  std::vector<std::string> earlier_schedules;    // of a run resumed with a new one (schedule.hpp)
  AdamW adamw;
  double clip = 1;
  uint64_t seed = 1, data_seed = 1;
  int threads = 0;  // 0: one for every processor
  bool textbook = false;  // steps by layers/textbook/

  std::optional<double> final_batches;  // open: as many as cost a tenth of the training
  int64_t eval_every = 300, eval_batches = 50, patience = 0, sample_every = 0, save_every = 300, diagnostics = 0;
  std::string out, init_from;
  bool resume = false, force = false, dry_run = false;
  bool quiet = false;  // no sample and no advice at the end
};

struct SampleOptions {
  std::string checkpoint, prompt;
  bool prompt_given = false, greedy = false;
  Unknown unknown = Unknown::error;
  int length = 500, count = 1, threads = 0;
  std::string stop;  // as typed: \n and \t stand for a newline and a tab
  Sampling sampling;
};

struct EvalOptions : TextFiles {
  std::string checkpoint;
  int batch = 8, threads = 0;
};

struct CorpusOptions {
  std::string bytes = "4M", grammar = "stories", out;
  std::string check, known;  // a file of stories to check, and a text that they should not repeat
  uint64_t seed = 1;
  bool force = false;
};

struct CompareOptions {
  std::vector<std::string> grid;  // "placement=post,pre"
  std::string tune;               // "lr=1e-3,3e-3"
  uint64_t tune_seed = 0;
  int extend = 2, jobs = 1;
  std::string baseline;           // the name of a cell; "": the first
  double target = 0;              // a loss; 0: the highest that a finished run ended with
};

struct InitReportOptions {
  std::vector<std::string> grid;
  std::string out;
  bool force = false;
};

// A parsed command line. `train` also holds the options of compare's and init-report's cells and of info without a
// checkpoint.
struct Command {
  enum class Kind { train, sample, eval, info, compare, init_report, corpus } kind = Kind::train;
  std::string program;  // as typed, for the commands that are suggested
  TrainOptions train;
  SampleOptions sample;
  EvalOptions eval;
  CompareOptions compare;
  InitReportOptions init_report;
  CorpusOptions corpus;
  std::string info_checkpoint;
  bool info_needs_checkpoint = true;  // one was named, or nothing was
  bool info_cost = false;
  std::vector<std::string> words;     // the command line in our names, with what --config stands for
  std::map<std::string, std::string> origins;  // option → the place in a file that it comes from: "a.toml line 3: "
  std::vector<std::string> notices;            // what to tell the user about foreign names
  bool said(const std::string& option) const;  // "--seed" stands on the command line or in --config's file
  // The message, behind the place in a file that the first option in it comes from.
  std::string located(const std::string& message) const;
};

// resolve(), with errors that spell settings as options: "--heads 3 does not divide --channels 128: ...".
Config resolved(const Config& config);

// Works out what follows from the settings once all are read. Throws std::invalid_argument if a step has more sequences
// than an int can count, or if --textbook does not have what is asked for.
void complete(TrainOptions& options);

// The same options with nothing left open.
TrainOptions closed(TrainOptions options);

// The options that matter for what is trained, as TOML, with every value as it is in force. What is open in
// `given` ("as the placement says") becomes a comment, so that reading the file back leaves it open.
std::string to_toml(const TrainOptions& in_force, const TrainOptions& given);
std::string to_toml(const TrainOptions& in_force);
std::string model_to_toml(const TrainOptions& in_force);  // only the model

// What can be said before the text is read: a vocabulary stands in for the text's where it was left to it.
TrainOptions with_vocabulary(TrainOptions options);

// And once it is read: the vocabulary of the data where it was left to it. Throws where one that was said is too small.
void set_vocabulary(Config& config, int of_data);

// The largest whole validation split, in batches, that is measured at the end of a run; 0: any.
int64_t final_batches(const TrainOptions& options);

// Names of the options in which two runs differ, with both values: "--lr is 0.001 there and 0.002 here".
std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::vector<std::string>& except);

// "4M", "64k", "1000": a number of bytes. "90s", "10m", "1h": a number of seconds. Both throw.
size_t parse_bytes(const std::string& text);
double parse_seconds(const std::string& text);
