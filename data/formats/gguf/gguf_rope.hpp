#pragma once
// How a GGUF file says how RoPE is stretched.
//
//   linear, yarn   keys: rope.scaling.type, .factor, .original_context_length and .attn_factor, a factor on the
//                  magnitude that llama.cpp computes for the type
//   llama3         no key, but the tensor rope_freqs.weight (R/2): the numbers by which the frequencies are divided
//
// Sources: ggml-org/llama.cpp, src/llama-model.cpp (load_hparams) and src/llama-context.cpp (keys), ggml/src/ggml.c
// (ggml_rope_yarn_corr_dims), conversion/llama.py (generate_extra_tensors).

#include <vector>

#include "data/formats/huggingface/config_keys.hpp"

// The tensor of Llama 3's stretching. rope_factors_tensor() expects its numbers among the keys, under this name.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";

// Not a key of the file: the magnitude of the model that is being written. A file holds it divided by YaRN's own, which
// rounds it. Only gguf_expressed() sees this value.
inline constexpr const char* kRopeAsGiven = "magnitude of RoPE as given";

// Keys that rope_scaling_keys() reads.
inline constexpr const char *kRopeType = "rope.scaling.type", *kRopeFactor = "rope.scaling.factor",
                            *kOldRopeFactor = "rope.scale_linear",
                            *kRopeOriginal = "rope.scaling.original_context_length";
inline constexpr const char* kRopeScalingKeys[] = {kRopeType, kRopeFactor, kOldRopeFactor, kRopeOriginal};

// linear and yarn. Needs the sizes. `magnitude`: llama.cpp applies .attn_factor where it stretches, and only there.
ConfigField rope_scaling_keys(bool magnitude = true);

// llama3, for architectures with the tensor. Needs what rope_scaling_keys() reads.
ConfigField rope_factors_tensor();

// The numbers of the tensor, for a model with llama3.
std::vector<float> rope_factors(const Config& config);
