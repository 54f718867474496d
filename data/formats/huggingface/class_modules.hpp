#pragma once
// The names of the tensors of each model class of Hugging Face's transformers, and where our rows are in them.

#include <cstddef>
#include <vector>

#include "layers/config/config.hpp"

// Maps row `r` of our tensor to its row in theirs.
using RowOf = size_t (*)(size_t r, const Config& config);

// A module of ours and its name in transformers. In both, '#' stands for the number of the layer, and '@' for that of
// the expert. If theirs has none, it holds the matrices of all experts.
struct ModuleRow {
  const char *ours, *theirs;
  RowOf row_of = nullptr;   // null: the same row
  bool transposed = false;  // Conv1D stores (in, out)
  size_t unused = 0;        // rows of theirs that no row of ours is
};
using Modules = std::vector<ModuleRow>;

Modules bloom_modules();
Modules falcon_7b_modules();
Modules falcon_40b_modules();
Modules glm_modules();
Modules gpt1_modules();
Modules gpt2_modules();
Modules gpt_bigcode_modules();
Modules gpt_neox_modules();
Modules llama_modules();      // and its relatives with the same names
Modules mixtral_modules();
Modules qwen3_moe_modules();  // and OLMoE's
Modules reordered_modules();  // Llama's with the norms of OLMo 2
Modules sandwich_modules();   // Llama's with the norms of Gemma 2
Modules opt_modules();
Modules phi_modules();
Modules phi3_modules();
Modules starcoder2_modules();
