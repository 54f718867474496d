#pragma once
// Encodes a source and appends it to a dataset.

#include <vector>

#include "split.hpp"
#include "text_source.hpp"

// Appends the tokens of a source to those of a dataset. Returns its documents if there are separators. Notes what was
// skipped. Throws std::runtime_error for a character without a token.
std::vector<Document> append_source(Dataset& data, TextSource& source, const TextFiles& filter);
