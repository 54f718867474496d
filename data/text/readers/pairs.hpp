#pragma once
// Pairs of a source and a target, for a model whose encoder reads the source and whose decoder writes the target. Each
// line of a file is a pair:
//
//   {"source": "...", "target": "..."}   in JSON lines; JsonFields names other fields
//   source<TAB>target                    in any other text

#include <string>
#include <string_view>
#include <vector>

#include "json_lines.hpp"

inline constexpr const char* kPadding = "<pad>";  // a special token of many tokenizers

// Appends the texts of a file's pairs to `text`, and returns where they are: a source, its target, the next source, and
// so on, each a document. A file is JSON lines by its name, or if its first line is a JSON object. Skips blank lines.
// Throws std::runtime_error that names the line ("p.tsv, line 7: ...") if it is no pair, or if one of its texts is
// empty.
std::vector<TextSpan> append_pairs(std::string& text, std::string_view file, const std::string& name,
                                   const JsonFields& fields);

// The tokens of pairs: a source is its tokens and `last`. A target begins with `first`, which is read only, and ends
// with `last`, which counts. This function alone decides which tokens they are: those around a document. If nothing
// begins a text, as in T5's tokenizer, and the separator is open or <pad>, a target begins with <pad>. If the tokenizer
// begins texts with another token than `first`, as BART's does, that token comes before a source, and after `first`.
DocumentTokens tokens_around_pairs(const Tokenizer& tokenizer, const std::string& separator);
