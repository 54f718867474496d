#pragma once
// Names from nanoGPT, llm.c, llama2.c, litgpt, PyTorch and Hugging Face, and suggestions for misspelled names.

#include <string>
#include <string_view>
#include <vector>

// Returns what another program's option name means, or with `option`, what its value for that option means. The result
// is one of the names `known` if it means exactly the same, an answer to the user in several words, or "" if the name
// is unknown.
std::string meaning_of(const std::string& foreign, const std::vector<std::string>& known,
                       const std::string& option = "");

// Returns the name in lower case, with dashes instead of underscores: "n_layer" → "n-layer".
std::string dashed(std::string_view name);
// Returns the name in lower case, without dashes, underscores and dots: "Layer_Norm" → "layernorm".
std::string squeezed(std::string_view name);

// Returns "did you mean '--layers'?". Suggests the nearest name, up to three names with a word that starts with
// `given`, or the meaning of another program's nearest option. Returns "" if nothing is close.
std::string did_you_mean(const std::string& given, const std::vector<std::string>& known,
                         const std::string& dashes = "");
