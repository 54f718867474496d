#include "corpus_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include "data/files/files.hpp"
#include "data/files/partial_files.hpp"
#include "data/strings/utf8.hpp"
#include "layers/kernels/random.hpp"

namespace fs = std::filesystem;

namespace {

// The first line of a .nats file, for printf and scanf. A remark follows, for human readers.
constexpr const char* kHeader = "# -log P of each story in nats; text: %zu bytes, %zu stories, hash %llx";

}  // namespace

std::string nats_path(const std::string& text_path) { return text_path + ".nats"; }

CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed) {
  return write_corpus(path, bytes, seed, teller_of(seed));
}

CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed, const StoryTeller& tell) {
  const std::string nothing = std::to_string(bytes) + " bytes hold no story; ask for 256 or more";
  return write_with_nats(path, "seed " + std::to_string(seed), nothing,
                         [&](const auto& use) { return tell_stories(bytes, tell, use); });
}

CorpusSummary write_with_nats(const std::string& path, const std::string& remark, const std::string& nothing,
                              const std::function<CorpusSummary(const std::function<void(const Story&)>&)>& tell) {
  PublishTogether files({nats_path(path)});  // removed first, so that it is never next to another text's
  WholeFile text(path), floor(nats_path(path));
  std::string numbers;
  unsigned long long hash = rng::word("");
  const CorpusSummary summary = tell([&](const Story& story) {
    text.write(story.text);
    for (const char byte : story.text) hash = rng::word_byte(hash, static_cast<unsigned char>(byte));
    char number[32];
    std::snprintf(number, sizeof number, "%.6f\n", story.nats);
    numbers += number;
  });
  if (summary.stories == 0) throw std::runtime_error("cannot write " + path + ": " + nothing);
  char header[128];
  std::snprintf(header, sizeof header, kHeader, summary.bytes, summary.stories, hash);
  floor.write(header + (", " + remark) + "\n");
  floor.write(numbers);
  text.publish();
  floor.publish();
  files.publish();
  return summary;
}

std::vector<double> read_nats(const std::string& text_path, std::string_view text) {
  const std::string path = nats_path(text_path);
  if (!fs::exists(path)) return {};
  const size_t stories = std::count(text.begin(), text.end(), '\n');
  std::istringstream file(read_file(path));
  std::string line;
  size_t said_bytes = 0, said_stories = 0;
  unsigned long long said_hash = 0;
  std::getline(file, line);
  const int found = std::sscanf(line.c_str(), kHeader, &said_bytes, &said_stories, &said_hash);
  if (found < 2) throw std::runtime_error(path + " holds no -log P of stories; delete it to train without a floor");
  if (found == 2)
    throw std::runtime_error(path + " has no hash of its text, as of an earlier version: write the corpus anew, or "
                                    "delete it to train without a floor");
  std::vector<double> nats;
  while (std::getline(file, line)) {
    char* end = nullptr;
    const double value = std::strtod(line.c_str(), &end);
    if (line.empty() || *end != '\0' || !(value >= 0) || std::isinf(value))
      throw std::runtime_error(path + ": line " + std::to_string(nats.size() + 2) +
                               " is not a number of nats: " + in_quotes(line));
    nats.push_back(value);
  }
  if (said_bytes != text.size() || said_stories != stories || nats.size() != stories)
    throw std::runtime_error(path + " belongs to another text (" + std::to_string(said_bytes) + " bytes, " +
                             std::to_string(said_stories) + " stories, " + std::to_string(nats.size()) +
                             " numbers; " + text_path + " has " + std::to_string(text.size()) + " bytes, " +
                             std::to_string(stories) + " stories); delete it or write the corpus anew");
  if (said_hash != rng::word(text))
    throw std::runtime_error(path + " belongs to another text: " + text_path +
                             " has been altered or reordered since; delete it or write the corpus anew");
  return nats;
}
