#pragma once
// The names that people bring from nanoGPT, llm.c, llama2.c, litgpt, PyTorch and Hugging Face.

#include <string>
#include <string_view>
#include <vector>

// A foreign name is either one of ours, with exactly the same meaning, or has an answer.
struct Meaning {
  std::string ours, answer;
};

// What a foreign option means in a command that has the options `known`. Both are empty for unknown ones.
Meaning meaning_of_option(const std::string& foreign, const std::vector<std::string>& known);
// What a foreign value of an option means.
Meaning meaning_of_value(const std::string& option, const std::string& foreign);

// Lower case, with dashes instead of underscores: "n_layer" → "n-layer".
std::string dashed(std::string_view name);
// Without dashes, underscores and dots as well: "Layer_Norm" → "layernorm".
std::string squeezed(std::string_view name);

// "did you mean '--layers'?": the nearest name, or up to three that `given` begins; "" if nothing is close.
std::string did_you_mean(const std::string& given, const std::vector<std::string>& known,
                         const std::string& dashes = "");
