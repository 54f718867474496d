// The translation task of `corpus --pairs-of`: its probabilities and entropies are exact, and its translations are
// checked.

#include "data/corpus/translation.hpp"

#include <cmath>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "check.hpp"
#include "data/corpus/corpus_files.hpp"
#include "data/files/json.hpp"
#include "data/strings/format.hpp"
#include "small_run.hpp"

namespace {

// Features, a homonym that its verb decides, synonyms on either side, a word that may be missing, both orders, and a
// clause in a clause.
const std::string kSmallGrammar = R"(
N: one / many s n
C: being / thing
clause:
  the [noun C N] [verb C N] = (3) [2] [1] | (1) [1] [2]
  (2) the [noun being N] said that [^clause] = [2] del dir{N} [1] | (4) [2] dir{N} [1]
  [^clause] before [^clause] = (2) [2] pos [1] | [1] ante [2]
  [^clause] after [^clause] = [1] pos [2]
noun being N:
  (2) bat{N} = flita{N} / duck{N} = (3) kvako{N} | (1) nado{N} / drake{N} = kvako{N}
noun thing N:
  bat{N} = klubo{N}
verb being N:
  slept = dorm{N} / (2) dozed = dorm{N}
verb thing N:
  fell = fal{N} / aged = vet{N} | sen{N}
)";

// Every derivation of a rule: what it writes, and its probability.
struct Written {
  std::string source, target;
  double probability;
};

// Counts through all choices, in an order that nothing else shares.
std::vector<Written> all_of(const SynchronousGrammar& grammar, int rule) {
  std::vector<Written> all;
  for (const Production& p : grammar.rules[rule]) {
    std::vector<std::vector<Written>> children = {{}};
    for (const int child : p.children) {
      std::vector<std::vector<Written>> longer;
      for (const Written& one : all_of(grammar, child))
        for (std::vector<Written> before : children) {
          before.push_back(one);
          longer.push_back(before);
        }
      children = longer;
    }
    for (const auto& [share, side] : p.targets)
      for (const std::vector<Written>& of : children) {
        Written w{"", "", p.share * share};
        for (const Written& child : of) w.probability *= child.probability;
        for (const SideSymbol& s : p.source) w.source += s.child < 0 ? s.text : of[s.child].source;
        for (const SideSymbol& s : side) w.target += s.child < 0 ? s.text : of[s.child].target;
        all.push_back(w);
      }
  }
  return all;
}

double entropy_of(const std::map<std::string, double>& probability) {
  double nats = 0;
  for (const auto& [text, p] : probability) nats -= p * std::log(p);
  return nats;
}

// The number of derivations of a text.
double derivations(const SynchronousGrammar& grammar, const std::string& text) {
  const SynchronousGrammar forest = grammar.given(text);
  std::vector<double> counts;
  for (const std::vector<Production>& rule : forest.rules) {
    counts.push_back(0);
    for (const Production& p : rule) {
      double ways = 1;
      for (const int child : p.children) ways *= counts[child];
      counts.back() += ways;
    }
  }
  return counts.empty() ? 0 : counts.back();
}

// A sum of numbers, and what it says about their mean.
struct Mean {
  double n = 0, sum = 0, squares = 0;
  void add(double x) {
    ++n;
    sum += x;
    squares += x * x;
  }
  double mean() const { return sum / n; }
  double standard_error() const { return std::sqrt((squares / n - mean() * mean()) / n); }
};

// Exact sums over the strings of a small grammar.
struct Strings {
  std::map<std::string, double> sources, targets, pairs;  // pairs with a tab

  explicit Strings(const SynchronousGrammar& grammar) {
    for (const Written& w : all_of(grammar, static_cast<int>(grammar.rules.size()) - 1)) {
      sources[w.source] += w.probability;
      targets[w.target] += w.probability;
      pairs[w.source + "\t" + w.target] += w.probability;
    }
  }
};

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(1., std::abs(b)); }

}  // namespace

TEST_CASE("a small synchronous grammar has exactly its pairs, with their probabilities", "[translation]") {
  const SynchronousGrammar grammar(kSmallGrammar, "clause", 1);
  const Strings all(grammar);
  // A clause has 3 nouns for 2 verbs or 1 for 2, in the singular or plural. 3 nouns in the singular or plural say one.
  // "before" and "after" join two.
  CHECK(all.sources.size() == 16 + 6 * 16 + 2 * 16 * 16);
  double sum = 0;
  for (const auto& [pair, p] : all.pairs) sum += p;
  CHECK(near(sum, 1));
  // Odds 1 of 5, two features, the verb; the order.
  CHECK(near(all.pairs.at("the bat fell\tfal klubo"), 1. / 5 / 4 / 2 * 3 / 4));
  CHECK(near(all.pairs.at("the bats aged\tklubon senn"), 1. / 5 / 4 / 2 / 2 / 4));
  CHECK(near(all.pairs.at("the bat dozed\tdorm flita"), 1. / 5 / 4 * 2 / 4 * 2 / 3 * 3 / 4));
  CHECK(near(all.pairs.at("the ducks said that the bats fell\tfaln klubon dirn nadon"),
             2. / 5 / 2 / 4 / 4 * 4 / 5 / 4 / 2 * 3 / 4));
  CHECK(near(all.pairs.at("the bat fell before the bat aged\tvet klubo pos fal klubo"),
             1. / 5 / 8 / 8 * 2 / 3 / 2 * 9 / 16));
  CHECK_FALSE(all.pairs.contains("the bat fell\tfal flita"));
  CHECK_FALSE(all.pairs.contains("the bats fell\tfal klubon"));

  const SynchronousGrammar targets = grammar.targets();
  for (const auto& [source, p] : all.sources) CHECK(near(grammar.nats(source), -std::log(p)));
  for (const auto& [target, p] : all.targets) CHECK(near(targets.nats(target), -std::log(p)));
  size_t number = 0;
  for (const auto& [source, p] : all.sources) {
    const SynchronousGrammar translations = grammar.given(source);
    for (auto pair = all.pairs.lower_bound(source + "\t"); pair != all.pairs.lower_bound(source + "\n"); ++pair)
      CHECK(near(translations.nats(pair->first.substr(source.size() + 1)), -std::log(pair->second / p)));
    for (const auto& [target, q] : all.targets)
      if (++number % 67 == 0 && !all.pairs.contains(source + "\t" + target))
        CHECK(std::isinf(translations.nats(target)));
  }
  size_t readable = 0;
  CHECK(grammar.given("the bat sang", &readable).rules.empty());
  CHECK(readable == std::string("the bat sa").size());
  CHECK(std::isinf(grammar.given("the bat sang").nats("fal klubo")));
  CHECK(std::isinf(grammar.given("the bat fell").nats("fal kvako", &readable)));
  CHECK(readable == std::string("fal k").size());
}

TEST_CASE("the entropies of a small synchronous grammar are those of its strings", "[translation]") {
  for (const bool literal : {false, true}) {
    const SynchronousGrammar grammar(kSmallGrammar, "clause", 1, literal);
    const Strings all(grammar);
    const PairEntropies h = entropies_of(grammar);
    CHECK(near(h.source, entropy_of(all.sources)));
    CHECK(near(h.target, entropy_of(all.targets)));
    CHECK(std::abs(h.floor - (entropy_of(all.pairs) - entropy_of(all.sources))) < 1e-12);
    CHECK((h.floor == 0) == literal);
    CHECK((all.pairs.size() == all.sources.size()) == literal);
    std::map<std::string, double> words;
    double bytes = 0, count = 0, unigram = 0;
    size_t longest = 0;
    for (const auto& [target, p] : all.targets) {
      std::istringstream in(target);
      for (std::string word; in >> word;) words[word] += p;
      bytes += p * static_cast<double>(target.size());
      longest = std::max(longest, target.size());
    }
    for (const auto& [word, n] : words) count += n;
    for (const auto& [word, n] : words) unigram -= n * std::log(n / count);
    CHECK(near(h.bytes, bytes));
    CHECK(near(h.words, count));
    CHECK(near(h.unigram, unigram));
    CHECK(h.longest == static_cast<double>(longest));
  }
}

TEST_CASE("a faulty synchronous grammar is refused with its reason", "[translation]") {
  const auto fault = [](const std::string& text) {
    return message_of<std::exception>([&] { SynchronousGrammar("N: one / many s n\n" + text, "s", 1); });
  };
  CHECK(fault("s:\n  a = b\n").empty());
  CHECK(contains(fault("t:\n  a = b\n"), "the rule s has no entry"));
  CHECK(contains(fault("s:\n  a [t] = b\n"), "the rule t has no entry"));
  CHECK(contains(fault("s:\n  a [s] = b [1]\n"), "the rule s contains itself without ^"));
  CHECK(contains(fault("s:\n  a [^s] = b [1]\n"), "the rule s has no entry"));  // it would never end
  CHECK(contains(fault("s\n  a = b\n"), "no colon follows the rule's name: s"));
  CHECK(contains(fault("s:\n  a b\n"), "not one = between two sides in: a b"));
  CHECK(contains(fault("s:\n  a = b = c\n"), "not one = between two sides"));
  CHECK(contains(fault("s:\n  a [t = b\nt:\n  c = d\n"), "a bracket is not closed in: [t"));
  CHECK(contains(fault("s:\n  a [t] = b [2]\nt:\n  c = d\n"), "no child [2] in: a [t] = b [2]"));
  CHECK(contains(fault("s:\n  a [t] = b [0]\nt:\n  c = d\n"), "no child [0] in"));
  CHECK(contains(fault("s:\n  a [t M] = b\n"), "no feature is named M"));
  CHECK(contains(fault("s:\n  a [t none] = b\nt N:\n  c = d\n"), "the rule t none has no entry"));
  CHECK(contains(fault("s:\n  (0) a = b\n"), "no positive odds and text in: (0) a"));
  CHECK(contains(fault("s:\n  a = (x) b\n"), "no positive odds and text in: (x) b"));
  CHECK(contains(fault("s:\n  a = b | (2)\n"), "no positive odds and text in: (2)"));
  CHECK(contains(message_of<std::exception>([] { SynchronousGrammar("  a = b\n", "s", 1); }), "before the first rule"));
}

TEST_CASE("a sentence has one derivation, and so has a target, and the checker knows their probability",
          "[translation][long]") {
  const SynchronousGrammar &grammar = pair_grammar(), targets = grammar.targets();
  const SynchronousGrammar& literal = pair_grammar("literal");
  const PairEntropies h = entropies_of(grammar);
  Mean source, target, floor, of_source, words;
  for (uint64_t index = 0; index < 500; ++index) {
    const SentencePair pair = tell_pair(3, index, grammar);
    INFO(pair.source << "\n" << pair.target);
    REQUIRE(static_cast<double>(pair.target.size()) <= h.longest);
    for (const std::string* text : {&pair.source, &pair.target}) {
      for (const char c : *text) REQUIRE((c == ' ' || c == ',' || c == '.' || std::isalpha(c)));
      REQUIRE_FALSE(contains(*text, "  "));
      REQUIRE(text->ends_with("."));
    }
    const SynchronousGrammar translations = grammar.given(pair.source);
    REQUIRE(translations.nats(pair.target) == Approx(pair.nats).margin(1e-12));
    REQUIRE(derivations(literal, pair.source) == 1);
    REQUIRE(derivations(targets, pair.target) == 1);
    source.add(grammar.nats(pair.source));
    target.add(targets.nats(pair.target));
    floor.add(pair.nats);
    of_source.add(translations.mean([](const Production& p) { return -std::log(p.share); }));
    words.add(1 + static_cast<double>(std::ranges::count(pair.target, ' ') + 1));
  }
  // Means over 500 pairs, and the sums over the grammar.
  for (const auto& [sample, exact] : {std::pair(source, h.source), {target, h.target}, {floor, h.floor},
                                      {of_source, h.floor}, {words, h.words}}) {
    INFO(sample.mean() << " +- " << sample.standard_error() << ", exact " << exact);
    CHECK(std::abs(sample.mean() - exact) < 3 * sample.standard_error());
  }
  CHECK(entropies_of(literal).floor == 0);
  CHECK(entropies_of(literal).source == Approx(h.source));
}

TEST_CASE("a translation reverses clauses, agrees with a noun that comes later, and knows what a word means",
          "[translation]") {
  const auto is_right = [](const std::string& source, const std::string& target) {
    const std::optional<double> nats = translation_nats(pair_grammar(), source + ".", target + ".");
    return nats && std::isfinite(*nats);
  };
  // The order of clauses, and who is first.
  const std::string slept = "By the river, the baker slept before the cat sang";
  CHECK(is_right(slept, "kantisa le miava pos dormiso le pano sur rivu"));
  CHECK(is_right(slept, "ve trilisa le miava pos dormiso le pano sur rivu"));
  CHECK(is_right("By the river, the cat sang after the baker slept", "kantisa le miava pos dormiso le pano sur rivu"));
  CHECK_FALSE(is_right(slept, "dormiso le pano pos kantisa le miava sur rivu"));
  CHECK_FALSE(is_right(slept, "sur rivu kantisa le miava pos dormiso le pano"));
  const std::string both = "By the river, the baker slept and the cat danced";
  CHECK(is_right(both, "salsisa le miava i dormiso le pano sur rivu"));
  CHECK_FALSE(is_right(both, "dormiso le pano i salsisa le miava sur rivu"));
  CHECK(is_right(both, "dormiso le pano ed salsisa le miava sur rivu"));
  // A verb and "that" agree with the baker or the cat, which come later, after another clause.
  for (const auto& [noun, ending] : {std::pair("le pano", "o"), {"le miava", "a"}})
    for (const auto& [verb_ending, that_ending] : {std::pair("o", "o"), {"o", "a"}, {"a", "o"}, {"a", "a"}}) {
      const std::string subject = *ending == 'o' ? "the baker" : "the cat";
      const std::string source = "At the market, the dog ran because " + subject + " that the hens that sang saw slept";
      const std::string target = std::string("dormis") + verb_ending + " vidisan kantisan kian le klakan ki" +
                                 that_ending + " " + noun + " zar kuriso le vufo sur bazu";
      INFO(source << " = " << target);
      CHECK(is_right(source, target) == (*verb_ending == *ending && *that_ending == *ending));
    }
  // Its verb says whether a bat is an animal or a club, and a relative clause may stand between.
  const std::string bat = "On the hill, the bat that Ben liked ", sam = " when Sam ran";
  CHECK(is_right(bat + "slept" + sam, "kuriso Samo tem dormisa amiso Beno kia le flita sur montu"));
  CHECK(is_right(bat + "fell" + sam, "kuriso Samo tem faliso amiso Beno kio le klubo sur montu"));
  CHECK_FALSE(is_right(bat + "slept" + sam, "kuriso Samo tem dormiso amiso Beno kio le klubo sur montu"));
  CHECK_FALSE(is_right(bat + "fell" + sam, "kuriso Samo tem falisa amiso Beno kia le flita sur montu"));
  // Its object says what "drew" is.
  const std::string drew = "On the hill, Ben drew ";
  CHECK(is_right(drew + "one frog" + sam, "kuriso Samo tem un ribo skiziso Beno sur montu"));
  CHECK(is_right(drew + "one cart" + sam, "kuriso Samo tem un karo tiriso Beno sur montu"));
  CHECK_FALSE(is_right(drew + "one frog" + sam, "kuriso Samo tem un ribo tiriso Beno sur montu"));
  CHECK_FALSE(is_right(drew + "one bat" + sam, "kuriso Samo tem un flita skiziso Beno sur montu"));  // it may be a club
  // The scene says what a bank is.
  const std::string bank = ", Anna sang and Mia saw every bank";
  CHECK(is_right("By the river" + bank, "omi ripa vidisa Mia i kantisa Anna sur rivu"));
  CHECK(is_right("On the square" + bank, "omi mono vidisa Mia i kantisa Anna sur plasu"));
  CHECK_FALSE(is_right("By the river" + bank, "omi mono vidisa Mia i kantisa Anna sur rivu"));
  CHECK_FALSE(is_right("On the square" + bank, "omi ripa vidisa Mia i kantisa Anna sur plasu"));
}

TEST_CASE("what is no translation is refused, though some of it is a sentence of the language", "[translation]") {
  const SynchronousGrammar targets = pair_grammar().targets();
  const std::string slept = "By the river, the baker slept before the cat sang.";
  const std::string bat = "On the hill, the bat slept when Sam ran.";
  const std::string drew = "On the hill, Ben drew one cart when Sam ran.";
  const std::string bank = "By the river, Anna sang and Mia saw every bank.";
  struct Row {
    const char* fault;  // nullptr: right
    std::string source, target;
    bool is_sentence = false;
  };
  const Row rows[] = {
      {nullptr, slept, "kantisa le miava pos dormiso le pano sur rivu.", true},
      {"the order of clauses", slept, "dormiso le pano pos kantisa le miava sur rivu.", true},
      {"the order of words in a clause", slept, "le miava kantisa pos dormiso le pano sur rivu."},
      {"the scene comes first", slept, "sur rivu kantisa le miava pos dormiso le pano."},
      {"a verb that does not agree", slept, "kantiso le miava pos dormiso le pano sur rivu."},
      {"a noun in the plural, and its verb", slept, "kantisan le miavan pos dormiso le pano sur rivu.", true},
      {"a word is missing", slept, "kantisa miava pos dormiso le pano sur rivu."},
      {"the end is missing", slept, "kantisa le miava pos dormiso le pano sur rivu"},
      {nullptr, bat, "kuriso Samo tem dormisa le flita sur montu.", true},
      {"a bat that is a club and sleeps", bat, "kuriso Samo tem dormiso le klubo sur montu."},
      {"a bat that is a club and falls", bat, "kuriso Samo tem faliso le klubo sur montu.", true},
      {nullptr, drew, "kuriso Samo tem un karo tiriso Beno sur montu.", true},
      {"a cart that is sketched", drew, "kuriso Samo tem un karo skiziso Beno sur montu."},
      {nullptr, bank, "omi ripa vidisa Mia i kantisa Anna sur rivu.", true},
      {"a bank for money by the river", bank, "omi mono vidisa Mia i kantisa Anna sur rivu."},
      {"nothing", slept, ""}};
  for (const Row& row : rows) {
    INFO((row.fault ? row.fault : "right") << ": " << row.target);
    CHECK(translation_nats(pair_grammar(), row.source, row.target).has_value() == (row.fault == nullptr));
    CHECK(std::isfinite(targets.nats(row.target)) == row.is_sentence);
  }
}

TEST_CASE("a translation with one wrong word is wrong", "[translation]") {
  const SynchronousGrammar& grammar = pair_grammar("literal");
  const auto words_of = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(in), {}};
  };
  size_t changed = 0;
  for (uint64_t index = 0; index < 60; ++index) {
    const SentencePair pair = tell_pair(4, index, grammar), other = tell_pair(5, index, grammar);
    CHECK_FALSE(translation_nats(grammar, pair.source, other.target));
    CHECK_FALSE(translation_nats(grammar, pair.target, pair.source));
    const std::vector<std::string> words = words_of(pair.target), others = words_of(other.target);
    for (size_t i = 0; i < words.size(); ++i) {
      std::string text;
      for (size_t j = 0; j < words.size(); ++j)
        text += (j == 0 ? "" : " ") + (i == j ? others[i % others.size()] : words[j]);
      INFO(pair.source << "\n" << text);
      CHECK(translation_nats(grammar, pair.source, text).has_value() == (text == pair.target));
      changed += text != pair.target;
    }
  }
  CHECK(changed > 900);
}

TEST_CASE("a pair is a function of seed and index, and its line has two forms", "[translation]") {
  const SynchronousGrammar& grammar = pair_grammar();
  const SentencePair pair = tell_pair(1, 5, grammar);
  CHECK(tell_pair(1, 5, grammar).target == pair.target);
  CHECK(tell_pair(1, 6, grammar).source != pair.source);
  CHECK(tell_pair(2, 5, grammar).source != pair.source);
  CHECK(contains(message_of<std::exception>([] { pair_grammar("literaly"); }), "did you mean 'literal'?"));
  // Sources do not repeat, though a small grammar tells them again.
  const SynchronousGrammar small(kSmallGrammar, "clause", 1);
  std::set<std::string> sources;
  std::string text;
  double nats = 0;
  const CorpusSummary summary = tell_pairs(0, 300, 1, small, PairForm::tabs, [&](const Story& line) {
    text += line.text;
    const SentencePair told = read_pair(line.text.substr(0, line.text.size() - 1));
    sources.insert(told.source);
    CHECK(translation_nats(small, told.source, told.target) == Approx(line.nats).margin(1e-12));
    nats += line.nats;
  });
  CHECK(summary.stories == 300);
  CHECK(sources.size() == 300);
  CHECK(summary.nats == nats);
  CHECK(check_pairs(text, "", small).stories == 300);
  CHECK(check_pairs(text, "", small).nats == Approx(nats));
  CHECK(form_of("a.tsv") == PairForm::tabs);
  CHECK(form_of("a.jsonl") == PairForm::json);
  CHECK(line_of({"a b", "c"}, PairForm::tabs) == "a b\tc\n");
  CHECK(line_of({"a \"b", "c"}, PairForm::json) == "{\"source\":\"a \\\"b\",\"target\":\"c\"}\n");
  for (const std::string line : {"a \"b\tc", "{\"target\": \"c\", \"source\": \"a \\\"b\"}"}) {
    CHECK(read_pair(line).source == "a \"b");
    CHECK(read_pair(line).target == "c");
  }
  const auto fault = [](const std::string& line) { return message_of<std::exception>([&] { read_pair(line); }); };
  CHECK(contains(fault("a b"), "not two texts with a tab between them: 'a b'"));
  CHECK(contains(fault("a\tb\tc"), "not two texts with a tab"));
  CHECK(contains(fault("{\"source\": \"a\"}"), "there is no text \"target\""));
  CHECK(contains(fault("{\"source\": 1, \"target\": \"b\"}"), "there is no text \"source\""));
  CHECK(contains(fault("{\"source\""), "not JSON"));
}

TEST_CASE("corpus --pairs-of writes pairs and their floor, and checks them", "[translation][program]") {
  const Folder f;
  const Outcome wrote = f.run("corpus p.jsonl --pairs-of translation --bytes 50k --seed 3");
  CHECK(wrote.status == 0);
  CHECK(contains(wrote.out, "p.jsonl: "));
  const PairEntropies h = entropies_of(pair_grammar());
  CHECK(contains(wrote.out, "\nfloor: H(target | source)                  " + format("%.4f ", h.floor)));
  const std::string text = f.read("p.jsonl");
  CHECK(text.size() <= 50000);
  CHECK(text.size() > 50000 - 1100);
  std::istringstream lines(text);
  std::set<std::string> sources;
  std::vector<double> nats;
  for (std::string line; std::getline(lines, line);) {
    const SentencePair pair = read_pair(line);
    sources.insert(pair.source);
    nats.push_back(*translation_nats(pair_grammar(), pair.source, pair.target));
  }
  CHECK(sources.size() == nats.size());
  const std::vector<double> read = read_nats(f.path("p.jsonl"), text);
  REQUIRE(read.size() == nats.size());
  for (size_t i = 0; i < nats.size(); ++i) CHECK(std::abs(read[i] - nats[i]) < 1e-6);

  // The same seed: the same pairs, in either form; another seed: others.
  REQUIRE(f.run("corpus p.tsv --pairs-of translation --count 20 --seed 3").status == 0);
  REQUIRE(f.run("corpus other.tsv --pairs-of translation --count 20 --seed 4").status == 0);
  const std::string tabs = f.read("p.tsv");
  CHECK(count_lines(tabs) == 20);
  CHECK(line_of(read_pair(tabs.substr(0, tabs.find('\n'))), PairForm::json) == text.substr(0, text.find('\n') + 1));
  const Outcome known = f.run("corpus --check p.jsonl --pairs-of translation --known p.tsv");
  const std::string all = std::to_string(nats.size());
  CHECK(contains(known.out, all + " of " + all + " pairs are a source and a translation of it (100.0 %); " + all +
                                " are different; 20 occur in p.tsv; 1."));
  CHECK(contains(f.run("corpus --check other.tsv --pairs-of translation --known p.tsv").out, "; 0 occur in p.tsv"));

  const SentencePair first = read_pair(text.substr(0, text.find('\n')));
  const size_t last_word = first.target.rfind(' ') + 1;
  f.write("wrong.tsv", first.source + "\t" + first.target + "\n\n" + first.source + "\t" +
                           first.target.substr(0, last_word) + "xyz.\nA cat.\tle miava.\n");
  const Outcome wrong = f.run("corpus --check wrong.tsv --pairs-of translation");
  CHECK(wrong.status == 0);
  CHECK(contains(wrong.out, "1 of 3 pairs are a source and a translation of it (33.3 %); 2 are different; "));
  CHECK(contains(wrong.out, "line 3 goes wrong after \"" + first.target.substr(0, last_word) + "\", at \"xyz.\""));
  f.write("no_source.tsv", "By the moon.\tle miava.\n");
  CHECK(contains(f.run("corpus --check no_source.tsv --pairs-of literal").out,
                 "line 1 goes wrong after \"By the \", at \"moon.\""));

  f.write("text.txt", "a\tb\nno pair\n");
  f.write("empty.txt", "\n");
  check_refused(f, "corpus --check text.txt --pairs-of translation", "text.txt, line 2: not {\"source\": ...");
  check_refused(f, "corpus --check empty.txt --pairs-of translation", "empty.txt has no pairs to check");
  check_refused(f, "corpus p.tsv --pairs-of translation", "p.tsv is there already");
  check_refused(f, "corpus x.tsv --pairs-of translation --bytes 100", "100 bytes hold no pair; ask for 2k or more");
  check_refused(f, "corpus x.tsv --pairs-of literaly", "did you mean 'literal'?");
  for (const std::string name : {"pairs", "questions", "held-out"})
    check_refused(f, "corpus x.tsv --pairs-of translation --" + name + " y", "leave out --" + name);
  CHECK_FALSE(f.has("x.tsv"));
}

TEST_CASE("train knows the floor of targets given their sources", "[translation][program]") {
  const Folder f;
  REQUIRE(f.run("corpus p.jsonl --pairs-of translation --count 40").status == 0);
  const auto floor_of = [&](const std::string& options) {
    const std::string out = f.run("train p.jsonl --steps 1 --layers 1 --heads 1 --channels 8 --context 1024 --batch 1 "
                                  "--force --out r " + options).out;
    const size_t at = out.find("floor ");
    return at == out.npos ? 0 : std::stod(out.substr(at + 6));
  };
  // The last four targets and the token that ends each.
  std::istringstream lines(f.read("p.jsonl"));
  std::vector<SentencePair> pairs;
  for (std::string line; std::getline(lines, line);) pairs.push_back(read_pair(line));
  const std::string translates = "--prompt-field source --completion-field target";
  const double floor = floor_of(translates);
  bool found = false;  // for some number of pairs at the end
  for (size_t n = 1; n < 10; ++n) {
    double nats = 0, tokens = 0;
    for (size_t i = pairs.size() - n; i < pairs.size(); ++i) {
      nats += *translation_nats(pair_grammar(), pairs[i].source, pairs[i].target);
      tokens += static_cast<double>(pairs[i].target.size() + 1);
    }
    found = found || std::abs(nats / tokens - floor) < 6e-5;
  }
  CHECK(found);
  CHECK(floor_of("--prompt-field target --completion-field source") == 0);
  CHECK(floor_of("--text-field target") == 0);
  CHECK(floor_of(translates + " --loss all") == 0);
}
