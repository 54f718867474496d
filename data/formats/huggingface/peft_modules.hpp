#pragma once
// The adapters of a model in the layout of peft: the names of their tensors, and the order of their rows.

#include <functional>
#include <string>
#include <vector>

#include "architectures.hpp"
#include "layers/config/tensors.hpp"

inline constexpr const char *kAdapterConfig = "/adapter_config.json", *kAdapterWeights = "/adapter_model.safetensors";

struct AdapterTensor {
  TensorSpec spec;           // ours: a (r,in), or b (out,r)
  std::string name;          // "base_model.model.transformer.h.3.attn.c_attn.lora_A.weight"
  std::string target;        // the module, without the layer's number: "attn.c_attn"
  bool transposed = false;   // the module stores its matrix as (in, out)
  std::vector<size_t> rows;  // the place in theirs of each row of ours
};

// Returns the matrices that an adapter belongs to: attention.q, attention.k and attention.v for "attention.qkv". The
// adapter has their rows in this order.
std::vector<std::string> adapted_parts(const std::string& group);

// Returns the tensors of the adapters of a model with this Config. The architecture is the base's.
std::vector<AdapterTensor> adapter_tensors(const Architecture& architecture, const Config& config);

// Returns Config::lora_shared of a class: which of the joined matrices, "qkv" and "gate_up", it stores as one.
std::string joined_matrices(const Architecture& architecture);

// Returns Config::lora_on for adapters of the first layer: the matrices whose tensors there are.
std::string adapted_matrices(const Architecture& architecture, const std::function<bool(const std::string&)>& is_there);
