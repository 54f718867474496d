#pragma once
// Factors on what branches add to the stream, which grow linearly from 0 to 1 in training.
//
//   prores       α = min(t/(T·l), 1), the first block being l = 1: early blocks learn first (Chen et al. 2026, arXiv
//                2603.05369)
//   branchnorm   α = min(t/T, 1) in all blocks (Liu et al. 2023, arXiv 2305.02790)
//
// t counts the updates of the weights so far, and T is Config::branch_warmup_steps. α multiplies the branch scale, in
// forward and in backward. Each block keeps its α as an untrained tensor, so that a checkpoint computes what the model
// computed when it was saved.

#include <cstdint>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

// Declares the factor of a block, which is 0. Returns null without a warm-up.
float* declare_branch_warmup(Layout& layout, const Config& config);

// Returns α of block `layer` after `updates` updates.
float branch_warmup(const Config& config, int layer, int64_t updates);
