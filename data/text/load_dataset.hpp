#pragma once
// Loads datasets: reads text files or token files, encodes the text, and splits it into training and validation.

#include <string>
#include <vector>

#include "dataset.hpp"
#include "text_options.hpp"

// Reads and splits the text, and sets Dataset::documents and packing where options are open: a generated corpus with
// its .nats file has a document per line, any other text one per file, in a stream. If there are several documents, a
// new tokenizer has a special token that ends them. Uses a checkpoint's `tokenizer`, or makes a new one if that is
// null. Maps token files (token_files.hpp). Throws std::runtime_error for missing, empty and too short data, and says
// how many tokens are needed. Also throws it for token files next to the file of another tokenizer.
Dataset load_dataset(const TextOptions& options, const Tokenizer* tokenizer, int context);

// Returns the tokenizer to use: --tokenizer, or without it the tokenizer file next to token files, or byte.
std::string tokenizer_of(const TextOptions& options);

// Reads a whole text as validation data, for `eval`. Throws std::runtime_error as load_dataset() does.
Dataset load_for_evaluation(const TextFiles& files, const Tokenizer& tokenizer, int context,
                            const DocumentOptions& how);
