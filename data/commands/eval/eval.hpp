#pragma once
// The sub-command eval: the loss of a trained model on a text.

#include "data/options/options.hpp"

void run_eval(const EvalOptions& options);
