#pragma once
// The architectures of llama.cpp that a Config can be: the keys and tensor names of GGUF files, as a table.
//
// Sources: ggml-org/llama.cpp, src/models/NAME.cpp (what it computes and which tensors it asks for), src/llama-arch.cpp
// (keys), src/llama-model.cpp (llama_model_rope_type); docs/gguf.md in ggml-org/ggml.

#include <nlohmann/json.hpp>

#include "data/formats/huggingface/architectures.hpp"

// Throws std::invalid_argument naming the option that the nearest architecture cannot express.
Expressed gguf_expressed(Config config);

// The numbers of a model by key, without the name of the architecture in front: "block_count". Whole numbers are u32 in
// the file, others f32.
nlohmann::json gguf_keys(const Expressed& model);

// True if the file must hold the classifier's matrix even if it is the token embedding's.
bool needs_own_head(const Expressed& model);
