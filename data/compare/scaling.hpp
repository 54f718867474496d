#pragma once
// The sizes and lengths of a scaling comparison: --flops and --tokens-per-parameter.

#include "summary.hpp"

// Replaces --flops by sizes in --grid, the nearest to each budget, and by --tokens-per-parameter. Reads the text,
// because the vocabulary is part of the costs. Throws std::invalid_argument if a budget is below or above all sizes, or
// if two have the same size.
Command with_sizes(const Command& command);

// With --tokens-per-parameter, fills Comparison::tokens and sets the steps of the planned runs. All cells of a size
// train on the same number of tokens, which follows from their preset, size and --init-from alone.
void set_lengths(Comparison& comparison);

// Returns the options with the vocabulary of the text, and the steps of --tokens-per-parameter.
TrainOptions with_length(const Comparison& comparison, size_t cell, TrainOptions options);

// Returns what the options follow from in a text that is read with this context.
TextFacts facts_of(const Dataset& data, int context);

// Returns the same of the text of a run; {} if none is read yet. Reads it again if no planned run reads it so. Throws
// std::invalid_argument if it is too short for that.
TextFacts text_of(const Comparison& comparison, const TrainOptions& run);
