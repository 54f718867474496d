// The story corpus: its grammars are unambiguous and its probabilities are right.

#include "data/corpus/corpus_files.hpp"
#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <sys/resource.h>

#include "small_run.hpp"

namespace {

namespace fs = std::filesystem;

// -log P of every derivation of a story, without the '\n' at its end.
std::vector<double> derivations(const Story& story, const Grammar& grammar) {
  const std::string_view text = std::string_view(story.text).substr(0, story.text.size() - 1);
  return grammar.read("story", text);
}

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// Returns every text of a small grammar with its probability, by counting through the choices like an odometer.
std::map<std::string, double> all_texts(const Grammar& grammar, const std::string& start) {
  std::map<std::string, double> probability;
  std::vector<size_t> choice, sizes;
  do {
    size_t depth = 0;
    double nats = 0;
    const std::string text = grammar.tell(
        start,
        [&](size_t n) {
          if (depth == choice.size()) choice.push_back(0), sizes.push_back(n);
          return choice[depth++];
        },
        nats);
    probability[text] += std::exp(-nats);
    while (!choice.empty() && ++choice.back() == sizes.back()) choice.pop_back(), sizes.pop_back();
  } while (!choice.empty());
  return probability;
}

// Proves properties of a grammar without generating a story.
struct Proof {
  const Grammar& grammar;
  std::map<char, std::set<std::string>> remembers;  // the rules whose entries a variable can hold

  explicit Proof(const Grammar& g) : grammar(g) {
    for (int pass = 0; pass < 2; ++pass) {  // the second pass knows p in [v=p.home]
      for (const auto& [name, entries] : g.rules) {
        for (const GrammarEntry& entry : entries) {
          for (const GrammarSymbol& s : entry.body) {
            if (s.kind != GrammarSymbol::pick || !s.variable) continue;
            for (const std::string& rule : rules_of(s)) remembers[s.variable].insert(rule);
          }
        }
      }
    }
  }

  std::set<std::string> rules_of(const GrammarSymbol& pick) const {
    if (!pick.of) return {pick.text};
    std::set<std::string> rules;
    for (const std::string& word : words_of(pick.of, pick.column)) rules.insert(word);
    return rules;
  }

  std::set<std::string> words_of(char variable, const std::string& column) const {
    std::set<std::string> words;
    const auto rules = remembers.find(variable);
    if (rules == remembers.end()) return words;
    for (const std::string& rule : rules->second) {
      for (const GrammarEntry& entry : grammar.rules.at(rule)) words.insert(entry.columns.at(column));
    }
    return words;
  }

  // No text of these symbols is longer than this.
  size_t longest(const std::vector<GrammarSymbol>& body) const {
    size_t sum = 0;
    for (const GrammarSymbol& s : body) {
      size_t most = s.kind == GrammarSymbol::article ? 3 : s.text.size();
      if (s.kind == GrammarSymbol::recall) {
        for (const std::string& word : words_of(s.variable, s.column)) most = std::max(most, word.size());
      }
      if (s.kind == GrammarSymbol::pick) {
        most = 0;
        for (const std::string& rule : rules_of(s)) {
          for (const GrammarEntry& entry : grammar.rules.at(rule)) most = std::max(most, longest(entry.body));
        }
      }
      sum += most;
    }
    return sum;
  }

  // True only if no text of `a` is a prefix of a text of `b` or the reverse, so that a reader can tell them apart at
  // the first difference. Skips symbols that both begin with.
  bool apart(std::vector<GrammarSymbol> a, std::vector<GrammarSymbol> b) const {
    while (!a.empty() && !b.empty()) {
      GrammarSymbol &x = a.front(), &y = b.front();
      if (x.kind == GrammarSymbol::literal && y.kind == GrammarSymbol::literal) {
        const size_t same = static_cast<size_t>(
            std::mismatch(x.text.begin(), x.text.end(), y.text.begin(), y.text.end()).first - x.text.begin());
        if (same < x.text.size() && same < y.text.size()) return true;
        x.text.erase(0, same);
        y.text.erase(0, same);
        if (x.text.empty()) a.erase(a.begin());
        if (y.text.empty()) b.erase(b.begin());
      } else if (x.kind == y.kind && x.text == y.text && x.variable == y.variable && x.of == y.of &&
                 x.column == y.column) {
        a.erase(a.begin());
        b.erase(b.begin());
      } else if (x.kind == GrammarSymbol::recall && y.kind == GrammarSymbol::recall && x.column.empty() &&
                 y.column.empty() && remembers.at(x.variable) == remembers.at(y.variable)) {
        return true;  // two variables never hold the same entry, and the entries of a rule are apart
      } else if (x.kind == GrammarSymbol::literal || x.kind == GrammarSymbol::article) {
        if (y.kind == GrammarSymbol::article) return false;
        std::swap(a, b);
        if (a.front().kind == GrammarSymbol::article) return false;
        return all_apart(a, b);
      } else {
        return all_apart(a, b);
      }
    }
    return false;
  }

 private:
  // Replaces the first symbol of `a` by everything it can expand to.
  bool all_apart(const std::vector<GrammarSymbol>& a, const std::vector<GrammarSymbol>& b) const {
    std::vector<std::vector<GrammarSymbol>> firsts;
    const GrammarSymbol& s = a.front();
    if (s.kind == GrammarSymbol::recall) {
      for (std::string word : words_of(s.variable, s.column)) {
        if (s.capital) word[0] = static_cast<char>(std::toupper(word[0]));
        GrammarSymbol literal;
        literal.text = word;
        firsts.push_back({literal});
      }
    } else {
      for (const std::string& rule : rules_of(s)) {
        for (const GrammarEntry& entry : grammar.rules.at(rule)) firsts.push_back(entry.body);
      }
    }
    for (std::vector<GrammarSymbol>& first : firsts) {
      first.insert(first.end(), a.begin() + 1, a.end());
      if (!apart(first, b)) return false;
    }
    return true;
  }
};

const std::string small = R"(
name: he
  Ann | she / Bob | he / Eve | she
toy: feels
  owl | soft / red ball | round
soft:
  fur / down
round:
  rubber
tale:
  [a=name] and [b=name] had a(n) [x=toy]. [A.he] gave it to [b], for [a] liked
      [t=x.feels] more. "Take my [x]!" said [a].
  [a=name] slept.
)";

}  // namespace

TEST_CASE("a small grammar has exactly its texts, with their probabilities", "[corpus]") {
  const Grammar grammar(small);
  const std::map<std::string, double> texts = all_texts(grammar, "tale");
  // Pairs of names with (owl: fur, down; ball: rubber), and those who slept.
  REQUIRE(texts.size() == 3 * 2 * (2 + 1) + 3);
  double sum = 0;
  for (const auto& [text, probability] : texts) {
    INFO(text);
    sum += probability;
    const std::vector<double> nats = grammar.read("tale", text);
    REQUIRE(nats.size() == 1);
    CHECK(near(std::exp(-nats[0]), probability, 1e-15));
  }
  CHECK(near(sum, 1, 1e-14));

  const auto tale = [](const char* names, const char* toy, const char* he_gave_it, const char* liked) {
    return std::string(names) + " had " + toy + ". " + he_gave_it + liked;
  };
  const char* const eve = "She gave it to Bob, for Eve liked ";
  const char* const end = "down more. \"Take my owl!\" said Eve.";
  REQUIRE(texts.count(tale("Eve and Bob", "an owl", eve, end)) == 1);
  CHECK(near(texts.at(tale("Eve and Bob", "an owl", eve, end)), 1.0 / (2 * 3 * 2 * 2 * 2), 1e-15));
  CHECK(near(texts.at("Bob slept."), 1.0 / (2 * 3), 1e-15));
  const char* const ball = "rubber more. \"Take my red ball!\" said Eve.";
  CHECK(grammar.read("tale", tale("Eve and Bob", "a red ball", eve, ball)).size() == 1);
  for (const std::string& wrong :
       {tale("Eve and Bob", "a owl", eve, end), tale("Eve and Bob", "an red ball", eve, ball),
        tale("Eve and Ann", "an owl", eve, end), tale("Ann and Bob", "an owl", eve, end),
        tale("Eve and Bob", "an owl", "He gave it to Bob, for Eve liked ", end),
        tale("Eve and Bob", "an owl", eve, ball), tale("Eve and Eve", "an owl", eve, end),
        std::string("Bob slept"), std::string("Bob slept. "), std::string("Eve slept.Ann"), std::string()}) {
    INFO(wrong);
    CHECK(grammar.read("tale", wrong).empty());
  }
}

TEST_CASE("the reader and the proof detect ambiguity", "[corpus]") {
  const Grammar ambiguous("s:\n  the [xs]\n  [ys] cat\nxs:\n  cat / dog\nys:\n  the / a\n");
  const std::vector<double> two = ambiguous.read("s", "the cat");
  REQUIRE(two.size() == 2);
  CHECK(near(two[0], std::log(4.0), 1e-15));
  CHECK(ambiguous.read("s", "a cat").size() == 1);
  const auto& sentences = ambiguous.rules.at("s");
  CHECK_FALSE(Proof(ambiguous).apart(sentences[0].body, sentences[1].body));
  const Grammar prefix("s:\n  Tom\n  Tommy\n  Ben\n");
  const auto& names = prefix.rules.at("s");
  CHECK_FALSE(Proof(prefix).apart(names[0].body, names[1].body));
  CHECK(Proof(prefix).apart(names[0].body, names[2].body));
}

TEST_CASE("a faulty grammar is refused with its reason", "[corpus]") {
  const auto fault = [](const char* source) { return message_of<std::exception>([&] { Grammar grammar(source); }); };
  CHECK(contains(fault("s:\n  a [nobody] here\n"), "no rule is named nobody"));
  CHECK(contains(fault("s:\nt:\n  x\n"), "the rule s has no entry"));
  CHECK(contains(fault("s:\n  x\ns:\n  y\n"), "two rules are named s"));
  CHECK(contains(fault("s: he\n  x\n"), "another number of columns"));
  CHECK(contains(fault("s:\n  x [aa\n"), "not closed"));
  CHECK(contains(fault("  x\n"), "before the first rule"));
  CHECK(contains(fault("s\n  x\n"), "no colon"));
  const Grammar forgetful("s:\n  [a] slept.\n");
  CHECK(contains(message_of<std::exception>([&] { forgetful.read("s", "Tom slept."); }), "nothing is remembered as a"));
  const Grammar crowded("s:\n  [a=name] met [b=name].\nname:\n  Tom\n");
  CHECK(contains(message_of<std::exception>([&] { crowded.read("s", "Tom met Tom."); }), "no entry of name is left"));
}

TEST_CASE("no story has two derivations, none is too long", "[corpus]") {
  for (const NamedGrammar& row : kStoryGrammars) {
    const Grammar& grammar = story_grammar(row.name);
    const Proof proof(grammar);
    for (const auto& [name, entries] : grammar.rules)
      for (size_t i = 0; i < entries.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          INFO(row.name << ", " << name << ": \"" << entries[j].columns.at("") << "\" and \""
                        << entries[i].columns.at("") << "\"");
          CHECK(proof.apart(entries[j].body, entries[i].body));
        }
    size_t longest = 0;
    for (const GrammarEntry& entry : grammar.rules.at("story"))
      longest = std::max<size_t>(longest, proof.longest(entry.body) + 1);
    INFO(row.name);
    CHECK(longest == row.longest);
  }
}

TEST_CASE("no text is a story of both grammars, and a tale has at least the entropy of a story", "[corpus]") {
  double stories = 0, tales = 0;
  const Grammar &long_ones = story_grammar("stories"), &short_ones = story_grammar("tales");
  for (uint64_t index = 0; index < 2000; ++index) {
    const Story story = tell_story(9, index, long_ones), tale = tell_story(9, index, short_ones);
    REQUIRE(derivations(story, short_ones).empty());
    REQUIRE(derivations(tale, long_ones).empty());
    stories += story.nats, tales += tale.nats;
  }
  CHECK(tales > stories);
  CHECK(contains(message_of<std::exception>([] { story_grammar("storys"); }), "did you mean 'stories'?"));
}

TEST_CASE("a story is a function of seed and index", "[corpus]") {
  const Story story = tell_story(1, 5);
  CHECK(tell_story(1, 5).text == story.text);
  CHECK(tell_story(1, 5).nats == story.nats);
  CHECK(tell_story(1, 6).text != story.text);
  CHECK(tell_story(2, 5).text != story.text);
}

TEST_CASE("thousands of stories, each with one derivation of the same probability", "[corpus]") {
  for (uint64_t index = 0; index < 10000; ++index) {
    const NamedGrammar& row = kStoryGrammars[index % 2];
    const Grammar& grammar = story_grammar(row.name);
    const Story story = tell_story(3, index, grammar);
    INFO(story.text);
    REQUIRE(story.text.size() <= row.longest);
    REQUIRE(story.text.find('\n') == story.text.size() - 1);
    for (char c : story.text.substr(0, story.text.size() - 1)) REQUIRE((c >= ' ' && c <= '~'));
    REQUIRE_FALSE(contains(story.text, "  "));
    REQUIRE_FALSE(contains(story.text, "(n)"));
    REQUIRE(story.text.find_first_of("[]|/=") == story.text.npos);
    REQUIRE(story.nats > 14);
    const std::vector<double> nats = derivations(story, grammar);
    REQUIRE(nats.size() == 1);
    REQUIRE(nats[0] == story.nats);
    REQUIRE(story_nats(story.text) == story.nats);
  }
}

TEST_CASE("a text that mixes up a story's names is not a story", "[corpus]") {
  CHECK_FALSE(story_nats(""));
  CHECK_FALSE(story_nats("\n"));
  CHECK_FALSE(story_nats("Once upon a time there was a king."));
  size_t swapped = 0;
  for (uint64_t index = 0; index < 500; ++index) {
    const Story story = tell_story(4, index);
    CHECK_FALSE(story_nats(story.text + story.text));
    CHECK_FALSE(story_nats(story.text.substr(0, story.text.size() / 2)));
    // Replace the last name by another: no story introduces a name so late.
    size_t last = 0, length = 0;
    for (const GrammarEntry& name : story_grammar().rules.at("name")) {
      const std::string& word = name.columns.at("");
      const size_t at = story.text.rfind(word);
      if (at != story.text.npos && at > last) last = at, length = word.size();
    }
    std::string other = story.text;
    other.replace(last, length, contains(story.text, "Ivy") ? "Sam" : "Ivy");
    if (contains(story.text, "Sam") && contains(story.text, "Ivy")) continue;
    INFO(other);
    CHECK_FALSE(story_nats(other));
    ++swapped;
  }
  CHECK(swapped > 400);
}

TEST_CASE("choices occur as often as their probability says", "[corpus]") {
  // The first person of a story: each name equally often.
  const size_t stories = 20000;
  const std::vector<GrammarEntry>& people = story_grammar().rules.at("name");
  std::map<std::string, size_t> names;
  for (uint64_t index = 0; index < stories; ++index) {
    const std::string text = tell_story(5, index).text;
    size_t first = text.size();
    std::string who;
    for (const GrammarEntry& person : people) {
      const size_t at = text.find(person.columns.at(""));
      if (at < first) first = at, who = person.columns.at("");
    }
    ++names[who];
  }
  REQUIRE(names.size() == people.size());
  const double expected = static_cast<double>(stories) / static_cast<double>(people.size());
  double chi_squared = 0;
  for (const auto& [name, count] : names) {
    chi_squared += std::pow(static_cast<double>(count) - expected, 2) / expected;
  }
  const double freedom = static_cast<double>(people.size() - 1);
  CHECK(chi_squared < freedom + 5 * std::sqrt(2 * freedom));
}

TEST_CASE("a corpus on disk and the .nats file next to it", "[corpus]") {
  const Folder folder;
  const std::string path = folder.path("stories.txt");
  const CorpusSummary summary = write_corpus(path, 300000, 7);
  const std::string text = folder.read("stories.txt");
  CHECK(text.size() == summary.bytes);
  CHECK(text.size() <= 300000);
  CHECK(text.size() > 300000 - 256);

  std::istringstream lines(text);
  std::set<std::string> different;
  const std::vector<double> nats = read_nats(path, text);
  REQUIRE(nats.size() == summary.stories);
  double sum = 0;
  size_t index = 0;
  for (std::string line; std::getline(lines, line); ++index) {
    different.insert(line);
    REQUIRE(story_nats(line));
    REQUIRE(near(*story_nats(line), nats[index], 1e-6));
    sum += *story_nats(line);
  }
  CHECK(different.size() == summary.stories);
  CHECK(near(sum, summary.nats, 1e-6));
  CHECK(std::distance(fs::directory_iterator(folder.path("")), fs::directory_iterator()) == 2);

  SECTION("the same seed gives the same bytes, another seed does not") {
    write_corpus(folder.path("again.txt"), 300000, 7);
    CHECK(folder.read("again.txt") == text);
    CHECK(folder.read("again.txt.nats") == folder.read("stories.txt.nats"));
    write_corpus(folder.path("other.txt"), 300000, 8);
    CHECK(folder.read("other.txt") != text);
  }
  SECTION("the .nats file of another text is refused, a missing one is empty") {
    const auto fault = [&](const std::string& of) {
      return message_of<std::exception>([&] { read_nats(path, of); });
    };
    std::string joined = text;
    joined[joined.find('\n')] = ' ';
    CHECK(contains(fault(text + " "), "belongs to another text"));
    CHECK(contains(fault(joined), "belongs to another text"));
    std::string changed = text;  // as long as before
    changed[changed.find("One ") + 4] = 'X';
    CHECK(contains(fault(changed), "has been altered or reordered"));
    const size_t end = text.find('\n') + 1;
    CHECK(contains(fault(text.substr(end) + text.substr(0, end)), "has been altered or reordered"));
    std::string header = folder.read("stories.txt.nats");
    const std::string count = std::to_string(summary.stories) + " stories", more = "9" + count;
    header.replace(header.find(count), count.size(), more);
    const std::string whole = folder.read("stories.txt.nats");
    const size_t hash = whole.find(", hash");
    std::ofstream(path + ".nats") << std::string(whole).erase(hash, whole.find(", seed") - hash);
    CHECK(contains(fault(text), "has no hash of its text"));
    std::ofstream(path + ".nats") << header;
    CHECK(contains(fault(text), "belongs to another text"));
    std::ofstream(path + ".nats") << whole;
    std::ofstream(path + ".nats", std::ios::app) << "30.5\n";
    CHECK(contains(fault(text), "belongs to another text"));
    std::ofstream(path + ".nats", std::ios::app) << "nan\n";
    CHECK(contains(fault(text), "is not a number"));
    std::ofstream(path + ".nats") << "30.5\n30.5\n";
    CHECK(contains(fault(text), "holds no -log P"));
    fs::remove(path + ".nats");
    CHECK(read_nats(path, text).empty());
  }
}

TEST_CASE("a corpus that cannot be written leaves nothing and says why", "[corpus]") {
  const Folder folder;
  const auto fault = [](const std::string& path, size_t bytes = 10000) {
    return message_of<std::exception>([&] { write_corpus(path, bytes, 1); });
  };
  CHECK(contains(fault(folder.path("no/such/folder.txt")), "No such file or directory"));
  CHECK(contains(fault(folder.path("x.txt"), 100), "100 bytes hold no story"));
  CHECK(contains(fault(folder.path("")), "not a regular file"));
  CHECK(fs::is_empty(folder.path("")));

  // A full disk, as a limit on the size of files: an older corpus survives.
  const std::string path = folder.path("stories.txt");
  write_corpus(path, 10000, 1);
  const std::string before = folder.read("stories.txt"), floor_before = folder.read("stories.txt.nats");
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = old;
  tight.rlim_cur = 50000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const std::string full = fault(path, 1000000);
  const std::string full_new = fault(folder.path("new.txt"), 1000000);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  CHECK(contains(full, "cannot write " + path + ": File too large"));
  CHECK(contains(full_new, "File too large"));
  CHECK(folder.read("stories.txt") == before);
  CHECK(folder.read("stories.txt.nats") == floor_before);
  CHECK(std::distance(fs::directory_iterator(folder.path("")), fs::directory_iterator()) == 2);
}
