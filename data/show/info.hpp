#pragma once
// What a model is made of, in text.

#include <string>

#include "data/run/checkpoint.hpp"
#include "data/text/dataset.hpp"

// The block, what is around it and the formula of its branches.
std::string draw_model(const Config& config);

// "gpt2 nano: pre, layernorm, 4 layers x 128 channels, 4 heads, context 256, 859 k parameters"
std::string describe_briefly(const TrainOptions& options, size_t parameters);

// What a run will do: its text, model, machine, steps and directory.
void print_plan(const TrainOptions& options, const Dataset& data);

// The sub-command.
void run_info(const Command& command);
