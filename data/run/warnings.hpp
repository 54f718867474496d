#pragma once
// Settings that are allowed and surely a mistake. One line each, with what to do.

#include "data/text/dataset.hpp"
#include "data/options/options.hpp"

std::vector<std::string> warnings_about(const TrainOptions& options);

// About a text that is too small for the model and for how often it is read.
std::vector<std::string> warnings_about(const Dataset& data, const TrainOptions& options, size_t parameters);

// Times that the steps go over the training text.
double epochs_of(const Dataset& data, const TrainOptions& options);
