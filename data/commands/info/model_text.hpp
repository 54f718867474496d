#pragma once
// Describes a model: its name and sizes in one line, and a drawing.

#include <string>

#include "data/options/options.hpp"

// "rmsnorm", or "rmsnorm+1" if the gain is 1 + w.
std::string norm_name(const Config& config);
std::string norm_name_at(const Config& config, const char* norm);  // of the norm called so: "norm_in", "final_norm"
// "layernorm (norm_in rmsnorm, final_norm dyt)": with the norms that are named by site.
std::string norm_names_of(const Config& config);

// "gpt2 nano: pre, layernorm, 4 layers x 128 channels, 4 heads, context 256, 859 k parameters"
std::string describe_briefly(const TrainOptions& options, size_t parameters);

// Draws the blocks, the layers around them, and the branches' formulas.
std::string draw_model(const Config& config);
