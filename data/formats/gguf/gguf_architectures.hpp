#pragma once
// The table of llama.cpp's architectures that can express a Config, with the keys and tensor names of their GGUF files.
//
// Sources: ggml-org/llama.cpp, src/models/NAME.cpp (what it computes and which tensors it asks for), src/llama-arch.cpp
// (keys), src/llama-model.cpp (llama_model_rope_type); docs/gguf.md in ggml-org/ggml.

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/formats/huggingface/architectures.hpp"

// Returns the architecture for a Config. Throws std::invalid_argument that names the option that the nearest one cannot
// express.
Expressed gguf_expressed(Config config);

// Returns the model's numbers by key. Keys lack the architecture's name: "block_count". The file holds whole numbers as
// u32, others as f32.
nlohmann::json gguf_keys(const Expressed& model);

// Returns the architecture and the Config of a file, given all its keys, the names of its tensors and the numbers of
// those that say how RoPE is stretched (kRopeTensors in gguf_rope.hpp). It must have the key vocab_size. Throws
// std::runtime_error or std::invalid_argument that names the key: one that is missing, has a value that we do not
// compute, or is unknown and may change what the model computes.
Expressed expressed_by_gguf(const nlohmann::json& file, const std::set<std::string>& tensors,
                            const std::map<std::string, std::vector<float>>& rope_tensors);

// True if the file must hold the classifier's matrix even if it is tied to the token embedding.
bool needs_own_head(const Expressed& model);

// True if this tensor of a file says how RoPE is stretched, and is none of the model's weights.
bool may_have_rope_tensor(const Expressed& model, const std::string& name);
