#pragma once
// The factors of --branch-warmup in a whole model (layers/residual/branch_warmup.hpp).

#include "layers/model/model.hpp"

// Sets the factors of all blocks to those after `updates` updates.
void set_branch_factors(Model& model, int64_t updates);

// True for the untrained tensor in which a block keeps its factor.
bool is_branch_factor(const TensorSpec& spec);

// True if all factors are 1 or there are none. The second asks for a model with this Config after `updates` updates.
bool branch_warmup_ended(const Model& model);
bool branch_warmup_ended(const Config& config, int64_t updates);

// Returns the same model without a warm-up that has ended. Its weights have the same bits.
Model without_branch_warmup(const Model& model);
