#include "corpus.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include "layers/kernels/random.hpp"
#include "layers/model/named.hpp"
#include "data/host/files.hpp"
#include "story_grammars.hpp"

namespace {

// How the file of nats begins, for printf and scanf; the seed follows for people.
constexpr const char* kHeader = "# -log P of each story in nats; text: %zu bytes, %zu stories";

std::string nats_path(const std::string& text_path) { return text_path + ".nats"; }

// A story (without its newline) as the grammar that can say most of it says it.
struct Reading {
  std::optional<double> nats;  // none: no grammar can say all of it
  size_t readable = 0;
};

Reading read_story(std::string_view story) {
  Reading best;
  for (const NamedGrammar& row : kStoryGrammars) {
    size_t readable = 0;
    const std::vector<double> derivations = story_grammar(row.name).read("story", story, &readable);
    if (!derivations.empty()) return {derivations.front(), story.size()};
    best.readable = std::max(best.readable, readable);
  }
  return best;
}

}  // namespace

const Grammar& story_grammar(std::string_view name) {
  static const std::vector<Grammar> grammars = [] {
    std::vector<Grammar> all;
    for (const NamedGrammar& row : kStoryGrammars) all.emplace_back(row.source);
    return all;
  }();
  std::vector<std::string> names;
  for (const NamedGrammar& row : kStoryGrammars) {
    if (name == row.name) return grammars[names.size()];
    names.emplace_back(row.name);
  }
  throw std::invalid_argument("--grammar: " + unknown_name("grammar", std::string(name), names));
}

Story tell_story(uint64_t seed, uint64_t index, const Grammar& grammar) {
  const uint64_t key = rng::key({rng::word("story"), seed, index});
  uint64_t choice = 0;
  Story story{"", 0};
  const auto choose = [&](size_t n) { return rng::below(n, key, choice++); };
  story.text = grammar.tell("story", choose, story.nats);
  story.text += '\n';
  return story;
}

std::optional<double> story_nats(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return read_story(text).nats;
}

CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed, const Grammar& grammar) {
  namespace fs = std::filesystem;
  for (const std::string& target : {path, nats_path(path)}) {
    std::error_code ignored;
    const fs::file_status status = fs::status(target, ignored);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw std::runtime_error("cannot write " + target + ": it is not a regular file; choose another name");
    }
  }

  WholeFile text(path), floor(nats_path(path));
  CorpusSummary summary;
  std::string numbers;
  // A story told before is skipped, so that no validation story occurs in training. Two stories are alike with
  // probability 7e-8 (the mean of P over 200,000 stories), so of the 20,000 in 4 MB about 14 are skipped. A
  // model that remembered all earlier stories could rule them out: that is worth -log(1 - 20,000 · 7e-8) = 0.0014 nats of
  // a story's 18, so the floor is right to 1e-4 of itself.
  std::unordered_set<uint64_t> told;
  for (uint64_t index = 0;; ++index) {
    const Story story = tell_story(seed, index, grammar);
    if (!told.insert(rng::word(story.text)).second) continue;
    if (summary.bytes + story.text.size() > bytes) break;
    text.write(story.text);
    char number[32];
    std::snprintf(number, sizeof number, "%.6f\n", story.nats);
    numbers += number;
    ++summary.stories;
    summary.bytes += story.text.size();
    summary.nats += story.nats;
  }
  if (summary.stories == 0) {
    throw std::runtime_error("cannot write " + path + ": " + std::to_string(bytes) +
                             " bytes hold no story; ask for 256 or more");
  }
  char header[128];
  std::snprintf(header, sizeof header, kHeader, summary.bytes, summary.stories);
  floor.write(header + (", seed " + std::to_string(seed)) + "\n");
  floor.write(numbers);

  // An older floor goes first: whenever the power fails, no text stands beside the floor of another.
  text.finish();
  floor.finish();
  if (::unlink(nats_path(path).c_str()) != 0 && errno != ENOENT) fail_file("replace", nats_path(path), errno);
  text.publish();
  floor.publish();
  return summary;
}

std::vector<double> read_nats(const std::string& text_path, size_t text_bytes, size_t stories) {
  const std::string path = nats_path(text_path);
  if (!std::filesystem::exists(path)) return {};
  std::ifstream file(path);
  std::string line;
  size_t said_bytes = 0, said_stories = 0;
  if (!std::getline(file, line) || std::sscanf(line.c_str(), kHeader, &said_bytes, &said_stories) != 2) {
    throw std::runtime_error(path + " holds no -log P of stories; delete it to train without a floor");
  }
  std::vector<double> nats;
  while (std::getline(file, line)) {
    char* end = nullptr;
    const double value = std::strtod(line.c_str(), &end);
    if (line.empty() || *end != '\0' || !(value >= 0) || std::isinf(value)) {
      throw std::runtime_error(path + ": line " + std::to_string(nats.size() + 2) +
                               " is not a number of nats: " + line.substr(0, 40));
    }
    nats.push_back(value);
  }
  if (said_bytes != text_bytes || said_stories != stories || nats.size() != stories) {
    throw std::runtime_error(path + " belongs to another text (" + std::to_string(said_bytes) + " bytes, " +
                             std::to_string(said_stories) + " stories, " + std::to_string(nats.size()) +
                             " numbers; " + text_path + " has " + std::to_string(text_bytes) + " bytes, " +
                             std::to_string(stories) + " stories); delete it or write the corpus anew");
  }
  return nats;
}

StoryCheck check_stories(std::string_view text, std::string_view known) {
  const auto lines_of = [](std::string_view all, auto&& use) {
    for (size_t number = 1; !all.empty(); ++number) {
      const std::string_view line = all.substr(0, all.find('\n'));
      all.remove_prefix(std::min(all.size(), line.size() + 1));
      if (!line.empty()) use(line, number);
    }
  };
  std::unordered_set<std::string_view> known_lines, seen;
  lines_of(known, [&](std::string_view line, size_t) { known_lines.insert(line); });
  StoryCheck check;
  lines_of(text, [&](std::string_view line, size_t number) {
    const Reading reading = read_story(line);
    ++check.lines;
    check.distinct += seen.insert(line).second;
    check.known += known_lines.count(line);
    if (reading.nats) {
      ++check.stories;
      check.nats += *reading.nats;
    } else if (check.first_wrong == 0) {
      check.first_wrong = number;
      check.readable = line.substr(0, reading.readable), check.wrong = line.substr(reading.readable);
    }
  });
  return check;
}
