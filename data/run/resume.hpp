#pragma once
// Resuming a stopped run, and starting from the weights of another.

#include <string>

#include "data/run_directory/checkpoint.hpp"
#include "data/text/load_dataset.hpp"

// Merges a command line with the checkpoint that --resume or --init-from names, whose model and tokenizer it keeps, and
// fills in `header`. A run without a checkpoint yet starts from the beginning: the result is without --resume then.
// Throws std::invalid_argument if the command line contradicts the checkpoint.
Command on_top_of_checkpoint(const Command& command, CheckpointHeader& header);

// The same for words of `train` and some options besides, as parse_words() takes them.
TrainOptions options_on_checkpoint(const std::vector<std::string>& words,
                                   const std::vector<std::pair<std::string, std::string>>& more,
                                   CheckpointHeader& header);

// Makes the paths in a run's options independent of the current folder. "-" stays.
void make_paths_absolute(TrainOptions& options);

// Loads the text, with the checkpoint's tokenizer if there is one. Sets the options that depend on the text: the
// vocabulary, and the steps of --epochs. Throws std::invalid_argument if a resumed run would read another text.
Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program);

// Sets the time limit in `o`, and the schedule if the run is resumed. A resumed run that was not over keeps its limit
// unless the command line says how long to train. Forgets the best loss in `header` if it was measured on other
// batches. Returns a message for the user; "" if nothing changes.
std::string adapt_to_resume(TrainOptions& o, CheckpointHeader& header, const Command& given);
