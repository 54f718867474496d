// The made-up town of `corpus --grammar town`: its facts, and questions about them.

#include <regex>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "check.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/minimal_pairs.hpp"
#include "data/corpus/town.hpp"
#include "data/files/json.hpp"
#include "small_run.hpp"

namespace {

using nlohmann::json;

struct Question {
  std::string name, prompt, completion;
};

// Returns the first two neighboring words that both begin with a capital: a person's name.
std::string name_in(const std::string& text) {
  static const std::regex kName("[A-Z][a-z]+ [A-Z][a-z]+");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, kName));
  return found.str();
}

std::vector<Question> questions_in(const std::string& lines) {
  std::vector<Question> all;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const json j = parse_json(line);
    const json turns = j.contains("messages") ? j["messages"] : json{{{"content", j.at("prompt")}},
                                                                     {{"content", j.at("completion")}}};
    for (size_t i = 0; i < turns.size(); i += 2) {
      const std::string prompt = turns[i].at("content");
      all.push_back({name_in(prompt), prompt, turns[i + 1].at("content")});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a line of the town has one derivation, of the probability that is said", "[town][long]") {
  const Grammar town = town_grammar(1);
  CorpusSummary summary = tell_stories(30000, teller_of(1, town), [&](const Story& story) {
    const std::string line = story.text.substr(0, story.text.size() - 1);
    const std::vector<double> read = town.read("story", line);
    INFO(line);
    REQUIRE(read.size() == 1);
    CHECK(read[0] == Approx(story.nats));
    // Every choice is among 200 people, 24 orders, four forms of each fact, and a name or a pronoun.
    const double pronouns = (story.nats - std::log(kTownPeople) - std::log(24) - 4 * std::log(4)) / std::log(2);
    CHECK(pronouns == Approx(std::round(pronouns)).margin(1e-9));
    CHECK((-.5 < pronouns && pronouns < 3.5));
  });
  CHECK(summary.stories > 200);
  CHECK(town_grammar(2).read("story", tell_story(1, 0, town).text).empty());  // other people are other
}

TEST_CASE("the answers of the town's questions are what its text tells", "[town]") {
  const TownQuestions questions = town_questions(3);
  const auto asked = questions_in(questions.asked), held_out = questions_in(questions.held_out);
  CHECK(asked.size() == 4 * 160);
  CHECK(held_out.size() == 4 * 40);
  std::map<std::string, std::string> told;  // a person → a line, of which each tells all facts
  tell_stories(300000, teller_of(3, town_grammar(3)),
               [&](const Story& story) { told[name_in(story.text)] = story.text; });
  std::set<std::string> names;
  for (const Question& q : asked) names.insert(q.name);
  CHECK(names.size() == 160);
  for (const Question& q : held_out) CHECK_FALSE(names.contains(q.name));
  for (const auto* part : {&asked, &held_out})
    for (const Question& q : *part) {
      const size_t last = q.completion.rfind(' ') + 1;
      const std::string fact = q.completion.substr(last, q.completion.size() - 1 - last);
      INFO(q.prompt << " " << q.completion << " " << told[q.name]);
      CHECK(contains(" " + told[q.name], " " + fact));
    }
}

TEST_CASE("pairs of the town: a pronoun agrees with its name, and a fact belongs to its person", "[town][long]") {
  std::map<std::string, std::string> pronoun;  // name → "She"
  const TownQuestions questions = town_questions(1);
  for (const Question& q : questions_in(questions.asked + questions.held_out))
    pronoun[q.name] = q.completion.substr(0, q.completion.find(' '));
  CHECK(pronoun.size() == kTownPeople);
  std::map<std::string, int> made;
  const Grammar town = town_grammar(1);
  for (uint64_t index = 0; index < 500; ++index)
    for (const MinimalPair& pair : make_pairs(5, index, town)) {
      ++made[pair.category];
      if (pair.category != "person_she") continue;
      INFO(pair.good << "\n" << pair.bad);
      const std::string own = " " + pronoun.at(name_in(pair.good)) + " ", other = own == " She " ? " He " : " She ";
      CHECK(contains(pair.good, own));
      CHECK_FALSE(contains(pair.good, other));
      CHECK(contains(pair.bad, other));
    }
  for (const std::string column : {"name", "she", "home", "job", "pet", "food"}) CHECK(made["person_" + column] > 20);
}

TEST_CASE("corpus writes the town and its questions, and a model's answers are counted", "[town][program][long]") {
  const Folder f;
  const std::string files = " --questions q.jsonl --held-out h.jsonl ";
  REQUIRE(f.run("corpus --grammar town --bytes 20k --out t.txt" + files).status == 0);
  CHECK(f.has("t.txt.nats"));
  check_refused(f, "corpus --grammar town --bytes 20k --out u.txt" + files, "q.jsonl is there already");
  CHECK_FALSE(f.has("u.txt"));
  check_refused(f, "corpus --out u.txt --questions r.jsonl", "--questions and --held-out are about --grammar town");
  for (const std::string name : {"out", "pairs", "questions", "held-out"})
    check_refused(f, "corpus --check t.txt --" + name + " u.txt",
                  "--check reads stories and writes no file: leave out --" + name);

  const Outcome checked = f.run("corpus --check t.txt --grammar town");
  CHECK(contains(checked.out, " stories follow the grammar (100.0 %)"));
  CHECK_FALSE(contains(checked.err, "NOTE"));
  CHECK(contains(f.run("corpus --check t.txt").err, "for the text of a town, name --grammar town and its --seed"));
  const Outcome other = f.run("corpus --check t.txt --grammar town --seed 2");
  CHECK(contains(other.out, "(0.0 %)"));
  CHECK(contains(other.err, "a town depends on its --seed"));

  // A conversation of one question, and one of two.
  const std::string asked = f.read("q.jsonl");
  std::istringstream in(asked);
  for (size_t questions = 1; questions <= 2; ++questions) {
    std::string line;
    std::getline(in, line);
    const json messages = parse_json(line).at("messages");
    CHECK(messages.size() == 2 * questions);
    CHECK(messages[0].at("role") == "user");
    CHECK(messages[1].at("role") == "assistant");
  }

  // Three answers that a model of 150 steps knows by heart, and one that it has never seen.
  const std::string all = f.read("h.jsonl"), known = all.substr(0, all.rfind('\n', all.find("What does")) + 1);
  f.write("known.jsonl", known);
  f.write("other.jsonl", known + "{\"prompt\": \"Where does Ada Ash live?\", \"completion\": \"Nowhere.\"}\n");
  REQUIRE(f.run("train known.jsonl --val-fraction 0 --layers 1 --heads 2 --channels 32 --context 128 --steps 150 "
                "--lr 1e-2 --quiet --out r").status == 0);
  CHECK(contains(f.run("eval r --data known.jsonl").out,
                 "3 of 3 answers exact (100.0 %): greedy decoding writes them"));
  const json counts = parse_json(f.run("eval r --json --data other.jsonl").out);
  CHECK(counts.at("answers") == 4);
  CHECK(counts.at("exact") == 3);
  const std::string first = parse_json(known.substr(0, known.find('\n'))).at("prompt");
  CHECK(f.run("sample r --greedy", first).out == first +
        parse_json(known.substr(0, known.find('\n'))).at("completion").get<std::string>() + "\n");
  f.write("text.jsonl", "{\"text\": \"no question\"}\n");
  CHECK_FALSE(contains(f.run("eval r --data text.jsonl").out, "exact"));
}
