#pragma once
// How a GGUF file says which layers have a window, and by what base RoPE rotates there.
//
// Source: ggml-org/llama.cpp, src/llama-model.cpp (load_swa_pattern) and src/models/NAME.cpp.

#include <optional>
#include <string>

#include "data/formats/huggingface/config_keys.hpp"

// A window in some layers, in which RoPE is never stretched.
struct WindowKeys {
  std::string absent;         // the set of layers, if the file does not state one
  std::optional<float> base;  // of RoPE, if the file does not state one; nothing: the base of all layers, and no key
};
ConfigField windows(const WindowKeys& keys);

// The key of the set of layers. It may be a list, with a value for each layer. We write it only if it is not `absent`,
// because older builds of llama.cpp ignore it.
inline constexpr const char* kWindowPattern = "attention.sliding_window_pattern";

// Not a key of the file: true if the model that is being written leaves the base in layers with a window open. Only
// gguf_expressed() sees this value.
inline constexpr const char* kOpenBase = "base in layers with a window is open";
