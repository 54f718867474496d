#pragma once
// Encodes a source and appends it to a dataset.

#include <vector>

#include "split.hpp"
#include "text_source.hpp"

// Appends a source's tokens to a dataset, and its notes, such as one on skipped characters. Returns the source's
// documents; none without a token that separates them. Throws std::runtime_error for a character without a token.
std::vector<Document> append_source(Dataset& data, TextSource& source, const TextFiles& filter);
