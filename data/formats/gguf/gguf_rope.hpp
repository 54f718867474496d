#pragma once
// How a GGUF file says how RoPE is stretched.
//
//   linear, yarn   keys: rope.scaling.type, .factor, .original_context_length and .attn_factor, a factor on the
//                  magnitude that llama.cpp computes for the type
//   llama3         no key, but the tensor rope_freqs.weight (R/2): the numbers by which the frequencies are divided
//   longrope       rope.scaling.original_context_length and .attn_factor, the magnitude; the tensors
//                  rope_factors_short.weight and rope_factors_long.weight (R/2). llama.cpp takes the long ones if its
//                  context is longer than the original one, however short the text is
//
// Sources: ggml-org/llama.cpp, src/llama-model.cpp (load_hparams) and src/llama-context.cpp (keys), ggml/src/ggml.c
// (ggml_rope_yarn_corr_dims), conversion/llama.py and phi.py (generate_extra_tensors).

#include <map>
#include <string>
#include <vector>

#include "data/formats/huggingface/config_keys.hpp"

// The tensors of llama3 and longrope. The fields below expect their numbers among the keys, under these names.
inline constexpr const char *kRopeFactors = "rope_freqs.weight", *kShortFactors = "rope_factors_short.weight",
                            *kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kRopeTensors[] = {kRopeFactors, kShortFactors, kLongFactors};

// Not keys of the file: the magnitude and the factor of the model that is being written. A file holds the magnitude
// divided by YaRN's own, which rounds it, and not the factor of longrope. Only gguf_expressed() sees these values.
inline constexpr const char *kRopeAsGiven = "magnitude of RoPE as given", *kFactorAsGiven = "factor of RoPE as given";

// Keys that rope_scaling_keys() reads.
inline constexpr const char *kRopeType = "rope.scaling.type", *kRopeFactor = "rope.scaling.factor",
                            *kOldRopeFactor = "rope.scale_linear",
                            *kRopeOriginal = "rope.scaling.original_context_length";
inline constexpr const char* kRopeScalingKeys[] = {kRopeType, kRopeFactor, kOldRopeFactor, kRopeOriginal};

// linear and yarn. Needs the sizes. `magnitude`: llama.cpp applies .attn_factor where it stretches, and only there.
ConfigField rope_scaling_keys(bool magnitude = true);

// llama3, for architectures with the tensor. Needs what rope_scaling_keys() reads.
ConfigField rope_factors_tensor();

// longrope, for architectures with its two tensors. Needs what rope_scaling_keys() reads.
ConfigField longrope_tensors();

// The numbers of the tensors that a model has in its file, by their names.
std::map<std::string, std::vector<float>> rope_tensors(const Config& config);
