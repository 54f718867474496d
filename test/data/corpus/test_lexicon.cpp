// The lexicon of `corpus --grammar lexicon`: each line has one derivation, whose probability is right.

#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "catch.hpp"
#include "check.hpp"
#include "data/corpus/corpus_files.hpp"
#include "data/corpus/lexicon.hpp"
#include "small_run.hpp"

namespace {

std::string without_end(const std::string& line) { return line.substr(0, line.size() - 1); }

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line.substr(0, line.find_first_of(".\n")));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Probabilities of a list of words, in the order of their ranks, from the definition.
std::vector<double> zipf(size_t words) {
  std::vector<double> p;
  double sum = 0;
  for (size_t rank = 1; rank <= words; ++rank) sum += p.emplace_back(std::pow(rank, -1.25));
  for (double& share : p) share /= sum;
  return p;
}

double entropy(const std::vector<double>& p) {
  double nats = 0;
  for (const double share : p) nats -= share * std::log(share);
  return nats;
}

// How often each word occurs.
struct Count {
  std::map<std::string, size_t> words;
  size_t all = 0;
};

Count count_words(size_t lines) {
  Count count;
  for (uint64_t index = 0; index < lines; ++index) {
    const std::vector<std::string> words = words_of(tell_lexicon_line(1, index).text);
    for (size_t i = 1; i < words.size(); ++i) ++count.words[words[i]], ++count.all;
  }
  return count;
}

}  // namespace

TEST_CASE("a line of the lexicon is read as it was told", "[lexicon]") {
  for (uint64_t index = 0; index < 3000; ++index) {
    const Story line = tell_lexicon_line(1, index);
    INFO(line.text);
    REQUIRE(line.text.size() <= kLexiconSize.longest);
    REQUIRE(words_of(line.text).size() == kLexiconSize.words + 1);
    const LineReading reading = read_lexicon_line(without_end(line.text));
    REQUIRE(reading.nats);
    REQUIRE(*reading.nats == Approx(line.nats).epsilon(1e-12));
  }
  const LineReading known = read_lexicon_line("vala: paje juni sene ziti kopo mibo da ri.");  // on the page
  REQUIRE(known.nats);
  CHECK(*known.nats == Approx(35.555919).margin(1e-6));
  CHECK(tell_lexicon_line(1, 5).text == tell_lexicon_line(1, 5).text);
  CHECK(tell_lexicon_line(1, 5).text != tell_lexicon_line(2, 5).text);
}

TEST_CASE("the entropy of the lexicon is that of its definition, and the mean of its lines", "[lexicon]") {
  const double word = std::log(2) + (entropy(zipf(10000)) + entropy(zipf(2000))) / 2;
  CHECK(lexicon_entropy() == Approx(std::log(8) + 8 * word).epsilon(1e-12));

  double sum = 0, squares = 0;
  constexpr int kLines = 20000;
  for (uint64_t index = 0; index < kLines; ++index) {
    const double nats = tell_lexicon_line(1, index).nats;
    sum += nats, squares += nats * nats;
  }
  const double mean = sum / kLines, error = std::sqrt((squares / kLines - mean * mean) / kLines);
  CHECK(std::abs(mean - lexicon_entropy()) < 4 * error);
  CHECK(error < .01 * mean);
}

TEST_CASE("words of the lexicon occur as often as Zipf's law says", "[lexicon]") {
  const Count count = count_words(20000);
  std::multimap<size_t, std::string, std::greater<>> by_count;
  for (const auto& [word, times] : count.words) by_count.emplace(times, word);
  // The first five of the shared list are more frequent than any of a topic.
  const std::vector<double> p = zipf(10000);
  auto next = by_count.begin();
  for (size_t rank = 0; rank < 5; ++rank, ++next) {
    const auto all = static_cast<double>(count.all), expected = all * p[rank] / 2;
    INFO(next->second << ", rank " << rank + 1);
    CHECK(std::abs(static_cast<double>(next->first) - expected) < 4 * std::sqrt(expected));
  }
  CHECK(count.words.size() > 10000);
}

TEST_CASE("a wrong line of the lexicon is refused where it goes wrong", "[lexicon]") {
  const std::string line = without_end(tell_lexicon_line(1, 0).text);
  const auto wrong_at = [&](const std::string& text) {
    const LineReading reading = read_lexicon_line(text);
    CHECK_FALSE(reading.nats);
    CHECK(reading.readable + reading.wrong == text);
    return reading.wrong;
  };
  CHECK(wrong_at(line + "x") == "x");
  CHECK(wrong_at(line + " ma.") == " ma.");
  CHECK(wrong_at(without_end(line)) == "");
  CHECK(wrong_at("") == "");
  CHECK(wrong_at("Anna had a ball.") == "Anna had a ball.");
  const size_t first = line.find(' ') + 1, second = line.find(' ', first);
  CHECK(wrong_at(line.substr(0, second) + "x" + line.substr(second)).front() == 'x');
  CHECK(wrong_at(line.substr(0, first) + line.substr(second + 1)).front() == '.');
}

TEST_CASE("a word of another topic is wrong", "[lexicon]") {
  std::map<std::string, std::vector<std::string>> topics;  // opening: words
  for (uint64_t index = 0; index < 2000; ++index) {
    const std::vector<std::string> words = words_of(tell_lexicon_line(1, index).text);
    topics[words[0]].insert(topics[words[0]].end(), words.begin() + 1, words.end());
  }
  REQUIRE(topics.size() == kLexiconSize.topics);
  const auto& [opening, own] = *topics.begin();
  for (auto topic = std::next(topics.begin()); topic != topics.end(); ++topic) {
    size_t allowed = 0;
    for (const std::string& word : topic->second) {
      std::string line = opening;
      for (size_t i = 0; i + 1 < kLexiconSize.words; ++i) line += " " + own.front();
      allowed += read_lexicon_line(line + " " + word + ".").nats.has_value();
    }
    // Half of the words are shared by all topics.
    const auto all = static_cast<double>(topic->second.size());
    CHECK(std::abs(static_cast<double>(allowed) - all / 2) < 4 * std::sqrt(all) / 2);
  }
}

TEST_CASE("corpus writes and checks a lexicon, and a run knows its floor", "[lexicon]") {
  Folder f;
  CHECK(contains(f.run("corpus --grammar lexicon --bytes 200k --seed 3 --out l.txt").out, "floor 0.9"));
  const std::string text = f.read("l.txt");
  const StoryCheck check = check_lexicon(text, "");
  CHECK(check.stories == check.lines);
  CHECK(check.distinct == check.lines);
  double sum = 0;
  for (const double nats : read_nats(f.path("l.txt"), text)) sum += nats;
  CHECK(sum == Approx(check.nats).epsilon(1e-6));
  CHECK(contains(f.run("corpus --check l.txt --grammar lexicon").out, "(100.0 %)"));
  CHECK(contains(f.run("corpus --check l.txt").err, "--grammar lexicon"));
  CHECK(contains(f.run("train --data l.txt --steps 1 --dry-run").out, "floor 0.9"));
  CHECK(contains(f.run("corpus --grammar lexicon --pairs p.jsonl").err, "makes no minimal pairs"));
}
