#pragma once
// Files of generated stories: the text, and the -log P of each story beside it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corpus.hpp"

// The file with the -log P of each story of a text.
std::string nats_path(const std::string& text_path);

// Writes different whole stories of at most `bytes` bytes into `path`, and the -log P of each into nats_path(path).
// Throws std::runtime_error, and leaves nothing half-written, if that cannot be done.
CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed,
                           const Grammar& grammar = story_grammar());

// Reads the -log P of each story of a text from the file beside it; empty if there is no such file. Throws
// std::runtime_error if the file belongs to another text.
std::vector<double> read_nats(const std::string& text_path, std::string_view text);
