#pragma once
// Names from nanoGPT, llm.c, llama2.c, litgpt, PyTorch and Hugging Face, and suggestions for misspelled names.

#include <string>
#include <string_view>
#include <vector>

// The meaning of an option name from another program, or with `option`, of a value of that option: one of the names
// `known`, with exactly the same meaning, or an answer to the user in several words; "" if the name is unknown.
std::string meaning_of(const std::string& foreign, const std::vector<std::string>& known,
                       const std::string& option = "");

// Lower case, with dashes instead of underscores: "n_layer" → "n-layer".
std::string dashed(std::string_view name);
// Without dashes, underscores and dots as well: "Layer_Norm" → "layernorm".
std::string squeezed(std::string_view name);

// "did you mean '--layers'?": the nearest name, or up to three names that have a word that starts with `given`, or what
// the nearest option of another program means; "" if nothing is close.
std::string did_you_mean(const std::string& given, const std::vector<std::string>& known,
                         const std::string& dashes = "");
