#pragma once
// eval --pairs, --choices and --hellaswag: the share of questions that a model gets right.

#include <string>

#include "data/options/options.hpp"
#include "data/run_directory/checkpoint.hpp"

// True if the options name questions instead of a text.
bool asks_questions(const EvalOptions& options);

// Measures and prints. `checkpoint` is its name for messages.
void eval_questions(const EvalOptions& options, const std::string& checkpoint, const CheckpointHeader& header,
                    const Model& model);
