#pragma once
// Resumes a stopped run, or starts from another run's weights.

#include <string>

#include "data/run_directory/checkpoint.hpp"
#include "data/text/load_dataset.hpp"

// Merges a command line with the checkpoint that --resume or --init-from names. Keeps the checkpoint's model and
// tokenizer, and fills in `header`. A run without a checkpoint starts from the beginning: then the result has no
// --resume. Throws std::invalid_argument if the command line contradicts the checkpoint.
Command on_top_of_checkpoint(const Command& command, CheckpointHeader& header);

// Does the same for words of `train` and some more options, as in parse_words().
TrainOptions options_on_checkpoint(const std::vector<std::string>& words,
                                   const std::vector<std::pair<std::string, std::string>>& more,
                                   CheckpointHeader& header);

// Return what on_top_of_checkpoint() chose for --init-from because the command line leaves it open: the learning rate,
// and a context that fits into memory. "" if it chose nothing. `o` are the options in force, `from` is the checkpoint.
std::string note_on_rate(const Command& given, const TrainOptions& o);
std::string note_on_context(const Command& given, const TrainOptions& o, const CheckpointHeader& from);

// Returns the options by which the model of a run with --init-from computes something else than the one that its
// weights come from: "these options change what the weights compute: --logit-scale is 1 there and 2 here", or "".
std::string note_on_function(const TrainOptions& o, const CheckpointHeader& from);

// Makes the paths in a run's options independent of the current folder. Leaves "-" as it is.
void make_paths_absolute(TrainOptions& options);

// Loads the text, with the checkpoint's tokenizer if there is one. Sets the options that depend on the text: the
// vocabulary, and the steps of --epochs or --tokens-per-parameter. Throws std::invalid_argument if a resumed run would
// read another text.
Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program);

// Sets the time limit in `o`, and the schedule if the run is resumed. A resumed run that had not finished keeps its
// limit unless the command line says how long to train. Forgets the best loss in `header` if it was measured on other
// batches. Returns a message for the user, or "" if nothing changes.
std::string adapt_to_resume(TrainOptions& o, CheckpointHeader& header, const Command& given);
