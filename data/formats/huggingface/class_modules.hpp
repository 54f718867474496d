#pragma once
// The tensor names of each model class of Hugging Face's transformers, and the place of our rows in its tensors.

#include <cstddef>
#include <vector>

#include "layers/config/config.hpp"

// Maps row `r` of our tensor to a row of theirs.
using ForeignRow = size_t (*)(size_t r, const Config& config);

// One matrix holds q of all heads, then k, then v: where our k and v begin in theirs.
size_t behind_q(size_t r, const Config& config);
size_t behind_k(size_t r, const Config& config);
// One matrix holds the gate's rows, then those of the up projection.
size_t behind_gate(size_t r, const Config& config);
// The sines of sinusoidal positions come first in the channels, then the cosines; ours alternate.
size_t of_sines_first(size_t r, const Config& config);
// We rotate the pairs (i, i + R/2) of the first R channels of a head; GLM and Llama's own programs rotate (2i, 2i + 1).
size_t of_neighbors(size_t r, const Config& config);

// Our module and its name in transformers, in which the layer's number replaces '#', the expert's number '@', and
// Architecture::prefix '^'. If only our name has '@', their tensor holds the matrices of all experts.
// `ours` may also be one tensor of a module, "head.bias", which then is the whole name of theirs.
struct ModuleRow {
  const char *ours, *theirs;
  ForeignRow foreign_row = nullptr;  // null if rows are equal
  bool transposed = false;           // Conv1D stores (in, out)
  size_t unused = 0;                 // their rows that are none of ours
  bool bare = false;                 // their weight has the module's name, and their bias that name with "_bias"
  bool (*when)(const Config&) = nullptr;  // null, or which models the row is for
  ForeignRow foreign_column = nullptr;    // null if columns are equal
  bool one_row = false;                   // their vector is a matrix of one row
};
using Modules = std::vector<ModuleRow>;

inline constexpr const char* kHeadBias = "head.bias";  // a class with a row for it always has one

inline constexpr int kCodegenParts = 4;  // of its joined matrix of q, v and k

// Some are of several classes: Llama's and its relatives', Qwen3-MoE's and OLMoE's, Command R's two. "Reordered" has
// the norms of OLMo 2 and 3, and "sandwich" has Gemma 2's and 3's. Marian and Pegasus name their tensors as BART does,
// but order their channels differently.
extern const Modules kBartModules, kBertModules, kBloomModules, kCodegenModules, kCohereModules, kFalcon7bModules,
    kFalcon40bModules, kGlmModules, kGlm4Modules, kGpt1Modules, kGpt2Modules, kGptBigcodeModules, kGptjModules,
    kGptNeoModules, kGptNeoxModules, kGptOssModules, kHyperclovaxModules, kLlamaModules, kMarianModules,
    kMixtralModules, kNanochatModules, kQwen3MoeModules, kReorderedModules, kRobertaModules, kSandwichModules,
    kOptModules, kPhiModules, kPhi3Modules, kStarcoder2Modules, kT5Modules;
