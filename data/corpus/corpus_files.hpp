#pragma once
// Files of generated stories: the text, and next to it a file with the -log P of each story.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corpus.hpp"

// Returns the path of the file with the -log P of each story.
std::string nats_path(const std::string& text_path);

// Writes distinct whole stories, at most `bytes` bytes in total, into `path`, and the -log P of each into
// nats_path(path). Throws std::runtime_error if it cannot, and leaves nothing half-written.
CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed);  // "stories"
CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed, const StoryTeller& tell);

// Does the same with any lines that tell(use) tells. `remark` ends the header of the -log P, and `nothing` says why
// there is no line.
CorpusSummary write_with_nats(const std::string& path, const std::string& remark, const std::string& nothing,
                              const std::function<CorpusSummary(const std::function<void(const Story&)>&)>& tell);

// Reads the -log P of each story from nats_path(text_path). Returns nothing if there is no such file. Throws
// std::runtime_error if the file belongs to another text.
std::vector<double> read_nats(const std::string& text_path, std::string_view text);
