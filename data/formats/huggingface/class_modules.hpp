#pragma once
// The tensor names of each model class of Hugging Face's transformers, and the place of our rows in its tensors.

#include <cstddef>
#include <vector>

#include "layers/config/config.hpp"

// Maps row `r` of our tensor to a row of theirs.
using ForeignRow = size_t (*)(size_t r, const Config& config);

// Our module and its name in transformers. '#' stands for the layer's number and '@' for the expert's. If only our name
// has '@', their tensor holds the matrices of all experts.
struct ModuleRow {
  const char *ours, *theirs;
  ForeignRow foreign_row = nullptr;  // null if rows are equal
  bool transposed = false;           // Conv1D stores (in, out)
  size_t unused = 0;                 // their rows that are none of ours
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
Modules reordered_modules();  // Llama's, with OLMo 2's norms
Modules sandwich_modules();   // Llama's, with Gemma 2's norms
Modules opt_modules();
Modules phi_modules();
Modules phi3_modules();
Modules starcoder2_modules();
