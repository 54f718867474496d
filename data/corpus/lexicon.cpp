#include "lexicon.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layers/kernels/random.hpp"

namespace {

constexpr std::string_view kConsonants = "bdfghjklmnprstvwz", kVowels = "aeiou";

// A list of words by their rank.
struct WordList {
  std::vector<std::string> words;
  std::vector<double> below;  // the sum of the weights of all words before each; its last number is the sum of all

  double nats(size_t rank) const { return std::log(below.back() / (below[rank + 1] - below[rank])); }

  double entropy() const {
    double sum = 0;
    for (size_t rank = 0; rank < words.size(); ++rank)
      sum += (below[rank + 1] - below[rank]) / below.back() * nats(rank);
    return sum;
  }

  // The rank below which a share u of the probability lies.
  size_t rank_at(double u) const {
    const auto above = std::upper_bound(below.begin(), below.end() - 1, u * below.back());
    return static_cast<size_t>(above - below.begin()) - 1;
  }
};

// The words allowed at one position, each with its -log P.
using Choices = std::map<std::string, double, std::less<>>;

struct Lexicon {
  WordList shared;
  std::vector<std::string> names;  // of the topics
  std::vector<WordList> topics;
  Choices openings;                              // "vala:"
  std::map<std::string, Choices> after_opening;  // the words of its topic, and the shared ones
};

// Spells words that no list has yet.
class Speller {
 public:
  std::string word(size_t syllables) {
    for (;;) {
      std::string text;
      for (size_t i = 0; i < syllables; ++i) text += {letter(kConsonants), letter(kVowels)};
      if (spelled_.insert(text).second) return text;
    }
  }

  WordList list(size_t count, size_t short_words) {
    constexpr size_t kMiddle = 300;  // rarer words have three syllables: frequent ones are short (Zipf 1949)
    WordList list{{}, {0}};
    for (size_t rank = 0; rank < count; ++rank) {
      list.words.push_back(word(rank < short_words ? 1 : rank < kMiddle ? 2 : 3));
      // r^(-5/4), from roots: they are rounded in the same way on every machine, and powers are not.
      const auto r = static_cast<double>(rank + 1);
      list.below.push_back(list.below.back() + 1 / (r * std::sqrt(std::sqrt(r))));
    }
    return list;
  }

 private:
  char letter(std::string_view from) { return from[rng::below(from.size(), key_, choice_++)]; }

  std::set<std::string> spelled_;
  uint64_t key_ = rng::key({rng::word(kLexicon)}), choice_ = 0;
};

void add_choices(Choices& choices, const WordList& list) {
  for (size_t rank = 0; rank < list.words.size(); ++rank)
    choices.emplace(list.words[rank], std::log(2) + list.nats(rank));
}

Lexicon make_lexicon() {
  constexpr size_t kShortShared = 10;
  Speller speller;
  Lexicon lexicon;
  lexicon.shared = speller.list(kLexiconSize.shared, kShortShared);
  for (size_t topic = 0; topic < kLexiconSize.topics; ++topic) {
    lexicon.names.push_back(speller.word(2));
    lexicon.topics.push_back(speller.list(kLexiconSize.of_a_topic, 0));
    const std::string opening = lexicon.names.back() + ":";
    lexicon.openings.emplace(opening, std::log(kLexiconSize.topics));
    add_choices(lexicon.after_opening[opening], lexicon.shared);
    add_choices(lexicon.after_opening[opening], lexicon.topics.back());
  }
  return lexicon;
}

const Lexicon& lexicon() {
  static const Lexicon made = make_lexicon();
  return made;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The length of the longest beginning of `text` that one of the choices, followed by `end`, begins with.
size_t readable_length(const Choices& choices, std::string_view text, char end) {
  size_t longest = 0;
  const auto after = choices.lower_bound(text);
  for (const auto& near : {after, after == choices.begin() ? after : std::prev(after)})
    if (near != choices.end()) longest = std::max(longest, common_prefix(near->first + end, text));
  return longest;
}

// Reads a line from left to right.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  // Takes a choice that ends before `end`, and takes `end`, too. Returns nothing if there is none.
  const std::string* take(const Choices& choices, char end) {
    const std::string_view rest = line_.substr(at_);
    const size_t length = rest.find(end);
    const auto found = length == rest.npos ? choices.end() : choices.find(rest.substr(0, length));
    if (found == choices.end()) {
      at_ += readable_length(choices, rest, end);
      return nullptr;
    }
    at_ += length + 1;
    nats_ += found->second;
    return &found->first;
  }

  LineReading reading(bool whole) const {
    if (whole && at_ == line_.size()) return {.nats = nats_};
    return {.readable = std::string(line_.substr(0, at_)), .wrong = std::string(line_.substr(at_))};
  }

 private:
  std::string_view line_;
  size_t at_ = 0;
  double nats_ = 0;
};

}  // namespace

Story tell_lexicon_line(uint64_t seed, uint64_t index) {
  const uint64_t key = rng::key({rng::word(kLexicon), seed, index});
  uint64_t choice = 0;
  const size_t topic = rng::below(kLexiconSize.topics, key, choice++);
  Story line{lexicon().names[topic] + ":", std::log(kLexiconSize.topics)};
  for (size_t i = 0; i < kLexiconSize.words; ++i) {
    const WordList& list = rng::below(2, key, choice++) ? lexicon().shared : lexicon().topics[topic];
    const size_t rank = list.rank_at(rng::uniform(key, choice++));
    line.text += " " + list.words[rank];
    line.nats += std::log(2) + list.nats(rank);
  }
  line.text += ".\n";
  return line;
}

LineReading read_lexicon_line(std::string_view line) {
  LineReader reader(line);
  const std::string* opening = reader.take(lexicon().openings, ' ');
  bool right = opening != nullptr;
  for (size_t i = 0; i < kLexiconSize.words && right; ++i)
    right = reader.take(lexicon().after_opening.at(*opening), i + 1 < kLexiconSize.words ? ' ' : '.') != nullptr;
  return reader.reading(right);
}

StoryCheck check_lexicon(std::string_view text, std::string_view known) {
  return check_lines(text, known, [](std::string_view line) { return std::string(line); }, read_lexicon_line);
}

double lexicon_entropy() {
  const double word = std::log(2) + (lexicon().shared.entropy() + lexicon().topics.front().entropy()) / 2;
  return std::log(kLexiconSize.topics) + static_cast<double>(kLexiconSize.words) * word;
}
