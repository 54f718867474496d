#include "minimal_pairs.hpp"

#include <algorithm>
#include <utility>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "layers/kernels/random.hpp"

namespace {

using Entry = Telling::Entry;

struct Recalled {
  Entry entry;
  std::string column;

  const std::string& word_of(Entry other) const { return other->columns.at(column); }
};

// A story as the entries that it picks and recalls, in this order.
struct StoryParts {
  const Grammar& grammar;
  std::vector<Entry> picks = {};
  std::vector<Recalled> recalls = {};

  // Tells the story. If `exchanged`, the entries a and b change places. If `wrong` is the number of a recall, that one
  // says the word of the other entry.
  std::string tell(Entry a, Entry b, bool exchanged, size_t wrong) const {
    const auto other = [=](Entry entry) { return entry == a ? b : entry == b ? a : entry; };
    size_t pick = 0, recall = 0;
    double nats = 0;
    const Telling how = {[&](const auto&) { return exchanged ? other(picks[pick++]) : picks[pick++]; },
                         [&](Entry entry, const std::string&) { return recall++ == wrong ? other(entry) : entry; }};
    return grammar.tell("story", how, nats);
  }
};

StoryParts tell_parts(const Grammar& grammar, uint64_t key) {
  StoryParts story{grammar};
  double nats = 0;
  const auto pick = [&](const std::vector<Entry>& left) {
    return story.picks.emplace_back(left[rng::below(left.size(), key, story.picks.size())]);
  };
  const auto say = [&](Entry entry, const std::string& column) {
    story.recalls.push_back({entry, column});
    return entry;
  };
  grammar.tell("story", {pick, say}, nats);
  return story;
}

// Returns the rule that an entry belongs to.
const std::pair<const std::string, std::vector<GrammarEntry>>& rule_of(const Grammar& grammar, Entry entry) {
  return *std::ranges::find_if(grammar.rules, [&](const auto& rule) {
    return std::ranges::any_of(rule.second, [&](const GrammarEntry& e) { return &e == entry; });
  });
}

// Returns an entry of the same rule with another word, or null. Prefers one that the story tells of, because a new word
// is easier to find wrong.
Entry other_entry(const StoryParts& story, const Recalled& said, uint64_t draw) {
  std::vector<Entry> told, all;
  for (const GrammarEntry& entry : rule_of(story.grammar, said.entry).second) {
    if (said.word_of(&entry) == said.word_of(said.entry)) continue;
    all.push_back(&entry);
    if (std::ranges::find(story.picks, &entry) != story.picks.end()) told.push_back(&entry);
  }
  const std::vector<Entry>& from = told.empty() ? all : told;
  return from.empty() ? nullptr : from[draw % from.size()];
}

// "farm animal", "food" → "animal_food"
std::string category_of(const std::string& rule, const std::string& column) {
  return rule.substr(rule.rfind(' ') + 1) + (column.empty() ? "" : "_" + column);
}

}  // namespace

std::vector<MinimalPair> make_pairs(uint64_t seed, uint64_t index, const Grammar& grammar) {
  const uint64_t key = rng::key({rng::word("pair"), seed, index});
  const StoryParts story = tell_parts(grammar, key);
  if (story.recalls.empty()) return {};
  const size_t wrong = rng::below(story.recalls.size(), key, story.picks.size());
  const Recalled& said = story.recalls[wrong];
  const Entry other = other_entry(story, said, rng::below(UINT32_MAX, key, story.picks.size() + 1));
  if (!other) return {};
  std::vector<MinimalPair> pairs;
  const auto can_tell = [&](const std::string& text) { return !grammar.read("story", text).empty(); };
  for (const bool exchanged : {false, true}) {
    const std::string good = story.tell(said.entry, other, exchanged, story.recalls.size());
    const std::string bad = story.tell(said.entry, other, exchanged, wrong);
    if (!can_tell(good) || can_tell(bad)) return {};
    pairs.push_back({good, bad, category_of(rule_of(grammar, said.entry).first, said.column)});
  }
  return pairs;
}

int64_t write_pairs(const std::string& path, int64_t count, uint64_t seed, const std::string& name,
                    const Grammar& grammar) {
  WholeFile file(path);
  int64_t written = 0;
  for (uint64_t index = 0; written < count; ++index)
    for (const MinimalPair& pair : make_pairs(seed, index, grammar))
      file.write(to_ascii({{"sentence_good", pair.good}, {"sentence_bad", pair.bad}, {"field", name},
                           {"UID", pair.category}, {"pairID", written++}}) + "\n");
  file.publish();
  return written;
}
