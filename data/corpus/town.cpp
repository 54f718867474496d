#include "town.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "data/files/json.hpp"
#include "layers/kernels/random.hpp"

namespace {

// No name begins with another, so that the text of a line has one derivation.
constexpr std::array kWomen = {"Ada", "Bella", "Cora",  "Dora", "Edith", "Flora", "Greta", "Hanna",
                               "Ida", "Jane",  "Klara", "Lena", "Mona",  "Nora",  "Olga",  "Paula"};
constexpr std::array kMen = {"Alan", "Boris", "Carl", "David", "Emil",   "Felix", "Gregor", "Henry",
                             "Ivan", "Jacob", "Kurt", "Louis", "Martin", "Noah",  "Oscar",  "Peter"};
constexpr std::array kFamilies = {"Ash",  "Birch", "Clay",  "Dale",   "Elm",   "Frost", "Gale",  "Hill",
                                  "Iver", "Jay",   "Knox",  "Lark",   "Marsh", "Nash",  "Oake",  "Pike",
                                  "Quill", "Reed", "Stone", "Thorne", "Urban", "Vale",  "Wood",  "York",
                                  "Zorn", "Abbot", "Bell",  "Cross",  "Drake", "Field", "Grove", "Hart"};
constexpr std::array kHomes = {"Amberg", "Bolton", "Cadiz", "Delft", "Essen", "Fulda", "Ghent", "Halle",
                               "Irun",   "Jena",   "Kiel",  "Lugo",  "Mainz", "Namur", "Oslo",  "Parma"};
constexpr std::array kJobs = {"actor", "baker", "cook",  "dentist", "engineer", "farmer", "gardener", "hunter",
                              "judge", "knight", "lawyer", "miller", "nurse", "painter", "sailor", "teacher"};
constexpr std::array kPets = {"ape", "bear", "cat", "dog", "eagle", "frog", "goat", "horse",
                              "mole", "newt", "owl", "parrot", "rabbit", "snake", "turtle", "wolf"};
constexpr std::array kFoods = {"apples", "beans", "carrots", "dates", "eggs", "figs", "grapes", "honey",
                               "jam",    "lentils", "melons", "nuts", "olives", "pears", "rice", "soup"};

struct Person {
  std::string name;
  std::string she;  // or "he"
  std::string home, job, pet, food;
};

// Draws what the people are, each fact of each person independently.
std::vector<Person> people_of(uint64_t seed) {
  const uint64_t key = rng::key({rng::word(kTown), seed});
  uint64_t choice = 0;
  const auto one_of = [&](const auto& words) { return std::string(words[rng::below(words.size(), key, choice++)]); };
  std::vector<Person> people;
  for (size_t i = 0; people.size() < kTownPeople; ++i) {
    const bool woman = i % 2 == 0;
    const size_t first = i / 2 % kWomen.size(), family = i / 2 / kWomen.size();
    const std::string name = std::string(woman ? kWomen[first] : kMen[first]) + " " + kFamilies.at(family);
    people.push_back({name, woman ? "she" : "he", one_of(kHomes), one_of(kJobs), one_of(kPets), one_of(kFoods)});
  }
  return people;
}

// The variable a remembers the person. The subject is the name or a pronoun, and the name in a line's first sentence.
constexpr const char* kSubject = R"(
subject:
  [a.name] / [A.she]
)";
constexpr const char* kFacts = R"(
home:
  [subject] lives in [a.home] / [subject] comes from [a.home]
  [a.home] is the home of [a.name] / The house of [a.name] is in [a.home]
job:
  [subject] is a(n) [a.job] / [subject] works as a(n) [a.job]
  People know [a.name] as a(n) [a.job] / Ask for [a.name] if you need a(n) [a.job]
pet:
  [subject] keeps a(n) [a.pet] / [subject] looks after a(n) [a.pet]
  The pet of [a.name] is a(n) [a.pet] / At the house of [a.name] there is a(n) [a.pet]
food:
  [subject] likes [a.food] / [subject] eats [a.food] every day
  The favorite food of [a.name] is [a.food] / Nothing tastes better to [a.name] than [a.food]
)";

// The rules of a line's first sentence: "first home" and so on.
std::string first_facts() {
  std::string rules = kFacts;
  for (size_t at; (at = rules.find("[subject]")) != rules.npos;) rules.replace(at, 9, "[a.name]");
  for (const std::string fact : {"home", "job", "pet", "food"})
    rules.insert(rules.find("\n" + fact + ":") + 1, "first ");
  return rules;
}

// A line tells all four facts in some order.
std::string story_rule() {
  std::array facts = {"food", "home", "job", "pet"};
  std::string rule = "story:\n";
  do {
    rule += std::string("  [a=person][first ") + facts[0] + "].";
    for (size_t i = 1; i < facts.size(); ++i) rule += std::string(" [") + facts[i] + "].";
    rule += "\n";
  } while (std::ranges::next_permutation(facts, std::less<std::string_view>()).found);
  return rule;
}

std::string with_article(const std::string& word) {
  return (std::string("aeiou").find(word[0]) == std::string::npos ? "a " : "an ") + word;
}

struct Question {
  std::string question, answer;
};

std::array<Question, 4> questions_about(const Person& p) {
  const std::string she = p.she == "she" ? "She" : "He";
  return {{{"Where does " + p.name + " live?", she + " lives in " + p.home + "."},
           {"What is the job of " + p.name + "?", she + " is " + with_article(p.job) + "."},
           {"Which animal does " + p.name + " keep?", she + " keeps " + with_article(p.pet) + "."},
           {"What does " + p.name + " like to eat?", she + " likes " + p.food + "."}}};
}

std::string line_of(const nlohmann::ordered_json& object) { return to_text(object) + "\n"; }

// Shuffles the questions, and makes conversations of them, which have one question and two in turn.
std::string conversations(std::vector<Question> all, uint64_t key) {
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng::below(i, key, i)]);
  std::string lines;
  size_t turns = 1;
  for (size_t i = 0; i < all.size(); turns = 3 - turns) {
    nlohmann::ordered_json messages;
    for (const size_t end = std::min(i + turns, all.size()); i < end; ++i) {
      messages.push_back({{"role", "user"}, {"content", all[i].question}});
      messages.push_back({{"role", "assistant"}, {"content", all[i].answer}});
    }
    lines += line_of({{"messages", messages}});
  }
  return lines;
}

}  // namespace

Grammar town_grammar(uint64_t seed) {
  std::string source = "person: name she home job pet food\n";
  for (const Person& p : people_of(seed))
    source += "  | " + p.name + " | " + p.she + " | " + p.home + " | " + p.job + " | " + p.pet + " | " + p.food + "\n";
  return Grammar(source + kSubject + kFacts + first_facts() + story_rule());
}

TownQuestions town_questions(uint64_t seed) {
  constexpr int kOneIn = 5;
  std::vector<Question> asked;
  std::string held_out;
  int number = 0;
  for (const Person& p : people_of(seed)) {
    const bool hold = number++ % kOneIn == kOneIn - 1;
    for (const Question& q : questions_about(p))
      if (hold) held_out += line_of({{"prompt", q.question}, {"completion", q.answer}});
      else asked.push_back(q);
  }
  return {conversations(asked, rng::key({rng::word(kTown), seed, rng::word("conversations")})), held_out};
}
