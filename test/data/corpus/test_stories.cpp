// Stories written by a model: checking them against the grammar, and ending a sample with a story.

#include "data/corpus/corpus.hpp"
#include "data/run/generate_text.hpp"
#include "check.hpp"
#include "data/files/json.hpp"
#include "layers/model/initialize.hpp"
#include "small_run.hpp"

TEST_CASE("check_stories checks line by line", "[corpus]") {
  const std::string one = tell_story(1, 1).text, two = tell_story(1, 2).text;
  const std::string begun = "One foggy morning, Mia, Anna and Ben";
  const std::string text = one + two + "\n" + begun + " sang.\n" + one + "Two days ago";
  const StoryCheck check = check_stories(text, two);
  CHECK(check.lines == 5);
  CHECK(check.stories == 3);
  CHECK(check.distinct == 4);
  CHECK(check.known == 1);
  CHECK(check.nats == 2 * tell_story(1, 1).nats + tell_story(1, 2).nats);
  CHECK(check.first_wrong == 4);  // empty lines are numbered too
  CHECK(check.readable + check.wrong == begun + " sang.");
  CHECK(check_stories(one, "").first_wrong == 0);
}

TEST_CASE("check_stories finds the first wrong word", "[corpus]") {
  const std::string said =
      "One rainy day, Leo had a red pot. Ben had an old drum. Leo gave Ben the red pot, and Ben gave Leo the ";
  const StoryCheck check = check_stories(said + "old pot. Then", "");
  CHECK(check.stories == 0);
  CHECK(check.readable == said + "old ");
  CHECK(check.wrong == "pot. Then");
}

TEST_CASE("corpus --check counts stories and refuses wrong input", "[program]") {
  const Folder f;
  f.write("good.txt", tell_story(1, 1).text + tell_story(1, 2).text);
  f.write("mixed.txt", tell_story(1, 1).text + "Once upon a time.\n");
  f.write("empty.txt", "\n");
  const Outcome good = f.run("corpus --check good.txt --known mixed.txt");
  CHECK(good.status == 0);
  CHECK(contains(good.out, "2 of 2 stories follow the grammar (100.0 %); 2 are different; 1 occurs in mixed.txt; "));
  const Outcome mixed = f.run("corpus --check mixed.txt");
  CHECK(mixed.status == 0);
  CHECK(contains(mixed.out, "1 of 2 stories follow"));
  CHECK(contains(mixed.out, "line 2 goes wrong after \"On\", at \"ce upon a time.\""));
  CHECK(contains(f.run("corpus --check -", tell_story(1, 3).text).out, "standard input: 1 of 1 stories"));
  check_refused(f, "corpus --check empty.txt", "empty.txt has no stories to check");
  check_refused(f, "corpus --check missing.txt", "cannot read missing.txt");
  check_refused(f, "corpus --known good.txt --out x", "--known goes with --check");
  check_refused(f, "corpus", "--out is missing");
}

TEST_CASE("--stop ends a sample, even if it spans several tokens", "[generate]") {
  Config config;
  config.n_layer = 1, config.n_head = 1, config.channels = 8, config.context = 16, config.vocab_size = 256;
  Model model(resolve(config), false);
  initialize(model, 1);
  const auto text = [&](const std::string& stop, uint64_t number) {
    std::string all;
    generate_text(model, Tokenizer::bytes(), "a", {.length = 200, .stop = stop, .sampling = {}, .number = number},
                  [&](const std::string& piece) { all += piece; });
    return all;
  };
  const std::string whole = text("", 0);
  REQUIRE(whole.size() == 200);
  for (const size_t length : {1, 2, 5}) {
    const std::string stop = whole.substr(150, length);
    CHECK(text(stop, 0) == whole.substr(0, whole.find(stop)));
  }
  CHECK(text(whole.substr(195) + "x", 0) == whole);  // a partial match at the end is written
  CHECK(text("", 1) != whole);
}

TEST_CASE("sample --count writes independent samples, one per line with --stop", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --out r" + kSmall).status == 0);
  const std::string one = f.run("sample r --length 60 --seed 7").out;
  const std::string three = f.run("sample r --length 60 --seed 7 --count 3").out;
  CHECK(three.starts_with(one));
  CHECK(three.size() == 3 * one.size());
  CHECK(three.substr(one.size(), one.size()) != one);
  CHECK(count_lines(f.run("sample r --length 4000 --count 5 --stop \\n").out) == 5);
  CHECK(f.run("sample r --count 0").status == 1);
}

TEST_CASE("a sample of documents begins and ends as one, and a sample of a stream ends with the context",
          "[program]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --steps 2 --layers 1 --heads 1 --channels 8 --context 251 --batch 1 "
      "--eval-every 0 ";
  const Outcome whole = f.run(words + "--out whole");
  CHECK(contains(whole.out, "sample whole --prompt One\n"));
  for (int seed = 0; seed < 5; ++seed) {
    const auto line = parse_json(f.run("sample whole --json --length 2000 --seed " + std::to_string(seed)).out);
    CHECK((line["end"] == "document" || line["tokens"].size() == 2000));
    for (const int token : line["tokens"]) CHECK(token < 256);
  }
  CHECK(contains(f.run(words + "--documents file --out any").out, "sample any --prompt One\n"));
  const Outcome any = f.run("sample any --json --prompt Leo");
  CHECK(parse_json(any.out)["end"] == "context");
  CHECK(parse_json(any.out)["tokens"].size() == 251 - 3 + 1);
  CHECK(contains(any.err, "[the context of 251 tokens is full: --length N goes on beyond it]"));
  CHECK(contains(f.run("sample any --length 300").err, "beyond the context of 251 tokens"));
}
