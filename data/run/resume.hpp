#pragma once
// Resuming a stopped run, and starting from the weights of another.

#include <string>

#include "checkpoint.hpp"
#include "data/text/dataset.hpp"

// Options, and for `header` the tokenizer, where a checkpoint brings them: its model and its kind of tokens are those to
// go on with. A run to resume that has no checkpoint yet starts from the beginning: the result is without --resume.
// Throws std::invalid_argument where the command line says otherwise.
Command on_top_of_checkpoint(const Command& command, CheckpointHeader& header);

// Makes the paths in a run's options independent of the current folder. "-" stays.
void make_paths_absolute(TrainOptions& options);

// What --resume changes and what stays, for the user; "" if there is nothing to say. Sets the schedule in `o`, and
// forgets the best loss in `header` if it was measured on other batches.
std::string adapt_to_resume(TrainOptions& o, CheckpointHeader& header, const Command& given);

// The same of words of `train` and an option or two besides, as train_options takes them.
TrainOptions options_on_checkpoint(const std::vector<std::string>& words,
                                   const std::vector<std::pair<std::string, std::string>>& more, CheckpointHeader& header);

// The text, as tokens of the checkpoint's kind where there is one, and what `o` left to it: the vocabulary, and the
// steps of --epochs.
Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program);
