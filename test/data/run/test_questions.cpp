// Minimal pairs and multiple-choice questions: their files, their losses, and what counts as right.

#include <cmath>
#include <cstring>
#include <limits>

#include "check.hpp"
#include "data/corpus/minimal_pairs.hpp"
#include "data/corpus/town.hpp"
#include "data/files/json.hpp"
#include "data/run/multiple_choice.hpp"
#include "data/strings/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/textbook/model.hpp"
#include "random_model.hpp"
#include "small_run.hpp"
#include "textbook.hpp"

namespace {

Config small_config(int vocabulary) {
  Config c;
  c.n_layer = 2, c.n_head = 2, c.channels = 8, c.context = 32, c.vocab_size = vocabulary;
  return resolve(c);
}

// A sentence's loss by the textbook, alone in its batch, from token `from` on.
double textbook_loss(const Model& model, const std::vector<int>& tokens, size_t from) {
  const size_t T = tokens.size() - 1;
  std::vector<int> targets(tokens.begin() + 1, tokens.end());
  for (size_t t = 0; t + 1 < from; ++t) targets[t] = kIgnore;
  textbook::Model<double> book(model, 1, T, {}, false);
  return book.forward({tokens.data(), targets.data(), 1, int(T)});
}

void check_losses(const std::string& name, const Doubles& got, const Doubles& want) {
  check_close(name, std::vector<float>(got.begin(), got.end()), want, 1e-6);
}

const std::string kPairs =
    "{\"sentence_good\": \"a b\", \"sentence_bad\": \"b a b c d\", \"UID\": \"one\"}\n\n"
    "{\"sentence_good\": \"d c b a\", \"sentence_bad\": \"d\", \"UID\": \"two\"}\r\n"
    "{\"sentence_good\": \"abc\", \"sentence_bad\": \"abd\", \"UID\": \"one\", \"field\": 3}";

// Losses of choices that have as many tokens as characters.
Question with_lengths(const std::vector<double>& lengths, int right, const std::string& category = "") {
  Question q{"here", category, {}, right};
  for (const double length : lengths) q.choices.push_back({std::vector<int>(size_t(length) + 1), 1, length});
  return q;
}

std::string refusal_of_line(const Folder& f, const std::string& line, const std::string& good = "") {
  f.write("q.jsonl", good + line);
  const Tokenizer tokenizer = Tokenizer::bytes();
  return message_of<std::runtime_error>([&] { read_choices(f.path("q.jsonl"), {tokenizer}); });
}

using Words = std::vector<uint16_t>;

Words question(int index, int right, const std::string& text, const std::vector<std::string>& completions) {
  Words words = {65535, 0, uint16_t(index), uint16_t(right), uint16_t(completions.size())};
  const auto add = [&](const std::string& part) {
    words.push_back(uint16_t(part.size()));
    for (const char c : part) words.push_back(static_cast<unsigned char>(c));
  };
  add(text);
  for (const std::string& completion : completions) add(completion);
  words[1] = uint16_t(2 * words.size());
  return words;
}

std::string file_of(const std::vector<Words>& questions) {
  std::vector<int32_t> header(256);
  header[0] = 20240522, header[1] = 1, header[2] = int32_t(questions.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  for (const Words& words : questions) bytes.append(reinterpret_cast<const char*>(words.data()), 2 * words.size());
  return bytes;
}

std::string refusal_of_questions(const Folder& f, const std::string& bytes) {
  f.write("q.bin", bytes);
  try {
    read_questions(f.path("q.bin"));
    return "";
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
}

}  // namespace

TEST_CASE("the loss of a sentence is the sum over its tokens, as the textbook has it", "[questions]") {
  const Folder f;
  f.write("p.jsonl", kPairs);
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({kEndOfText});
  const int end = tokenizer.special(kEndOfText);
  const std::vector<Question> pairs = read_pairs(f.path("p.jsonl"), {tokenizer, end});
  REQUIRE(pairs.size() == 3);
  const std::vector<std::string> sentences = {"a b", "b a b c d", "d c b a", "d", "abc", "abd"};
  Config stretched = small_config(tokenizer.vocabulary());  // a sentence's length decides by which factors
  stretched.position = Position::rope, stretched.rope_scaling = RopeScaling::longrope, stretched.rope_original = 4;
  stretched.rope_short = "1,1.5", stretched.rope_long = "2,3";
  for (const Config& config : {small_config(tokenizer.vocabulary()), resolve(stretched)}) {
    Model model(config, false);
    randomize(model);
    std::vector<double> want;
    for (const std::string& sentence : sentences) {
      std::vector<int> tokens = {end};
      tokens.insert(tokens.end(), sentence.begin(), sentence.end());
      want.push_back(textbook_loss(model, tokens, 1));
    }
    for (const int B : {1, 2, 8}) {
      const Activations activations = allocate_activations(model.config, B, longest_of(pairs), false);
      check_losses("losses of sentences", losses_of(model, activations, pairs, B), want);
    }
  }
  CHECK(pairs[0].category == "one");
  CHECK(pairs[1].place.ends_with("p.jsonl, line 3"));
}

TEST_CASE("without a token that begins documents, a sentence counts from its second token", "[questions]") {
  const Folder f;
  f.write("p.jsonl", "{\"sentence_good\": \"abc\", \"sentence_bad\": \"dbc\"}\n");
  const Tokenizer tokenizer = Tokenizer::bytes();
  Model model(small_config(256), false);
  randomize(model);
  const std::vector<Question> pairs = read_pairs(f.path("p.jsonl"), {tokenizer});
  const Activations activations = allocate_activations(model.config, 2, 2, false);
  check_losses("losses from the second token", losses_of(model, activations, pairs, 2),
              Doubles{textbook_loss(model, {'a', 'b', 'c'}, 1), textbook_loss(model, {'d', 'b', 'c'}, 1)});
  CHECK(pairs[0].category == "p");  // the name of the file
  CHECK(contains(note_on_first_tokens(pairs), "it differs in 1 pair"));
  f.write("p.jsonl", "{\"sentence_good\": \"abc\", \"sentence_bad\": \"a\"}\n");
  CHECK(contains(message_of<std::runtime_error>([&] { read_pairs(f.path("p.jsonl"), {tokenizer}); }),
                 "p.jsonl, line 1: 'a' has no token that can be predicted"));
}

TEST_CASE("the completion of a question counts, and not its text", "[questions]") {
  const Folder f;
  f.write("q.jsonl", "{\"ctx\": \"ab  \", \"endings\": [\"cd\", \"d\"], \"label\": \"1\", \"subject\": \"letters\"}\n");
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({kEndOfText});
  const int end = tokenizer.special(kEndOfText);
  Model model(small_config(tokenizer.vocabulary()), false);
  randomize(model);
  const Activations activations = allocate_activations(model.config, 2, 6, false);
  const auto losses = [&](bool at_first) {
    return losses_of(model, activations, read_choices(f.path("q.jsonl"), {tokenizer, end, at_first}), 2);
  };
  check_losses("losses of completions", losses(false),
              Doubles{textbook_loss(model, {'a', 'b', ' ', 'c', 'd'}, 2),
                      textbook_loss(model, {'a', 'b', ' ', 'd'}, 2)});
  check_losses("losses of completions of documents", losses(true),
              Doubles{textbook_loss(model, {end, 'a', 'b', ' ', 'c', 'd'}, 3),
                      textbook_loss(model, {end, 'a', 'b', ' ', 'd'}, 3)});
  const std::vector<Question> read = read_choices(f.path("q.jsonl"), {tokenizer, end});
  CHECK(read[0].right == 1);
  CHECK(read[0].category == "letters");
  CHECK(read[0].choices[0].length == 2);
  f.write("q.jsonl", "{\"ctx\": \"a\", \"endings\": [\"é\", \"bc\"], \"label\": 0}\n");
  CHECK(read_choices(f.path("q.jsonl"), {tokenizer, end})[0].choices[0].length == 1);  // characters, not bytes
}

TEST_CASE("the forms of questions that are published", "[questions]") {
  const Folder f;
  const Tokenizer tokenizer = Tokenizer::bytes();
  const auto right = [&](const std::string& line) {
    f.write("q.jsonl", line);
    const std::vector<Question> read = read_choices(f.path("q.jsonl"), {tokenizer});
    REQUIRE(read.size() == 1);
    return read[0].right;
  };
  CHECK(right(R"({"ctx": "a", "endings": ["b", "c", "d", "e"], "label": 3, "ctx_a": "x", "ind": 7})") == 3);
  CHECK(right(R"({"question": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "answerKey": "B"})") == 1);
  CHECK(right(R"({"question": "a", "choices": {"text": ["b", "c"], "label": ["1", "2"]}, "answerKey": "1"})") == 0);
  CHECK(right(R"({"question_stem": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "gold": "A"})") == 0);
  CHECK(right(R"({"goal": "a", "sol1": "b", "sol2": "c", "label": 1})") == 1);
  CHECK(right(R"({"question": "a", "choices": ["b", "c", "d"], "answer": 2})") == 2);
  CHECK(right(R"({"query": "a", "choices": ["b", "c", "d"], "gold": "C"})") == 2);
  CHECK(right(R"({"prompt": "", "options": ["bb", "cc"], "answer": "0"})") == 0);
}

TEST_CASE("a line that is no question is refused by its number", "[questions]") {
  const Folder f;
  const std::string good = R"({"ctx": "a", "endings": ["b", "c"], "label": 1})" "\n";
  CHECK(refusal_of_line(f, "", good) == "");
  const auto refused = [&](const std::string& line, const std::string& why) {
    const std::string message = refusal_of_line(f, line, good);
    INFO(message);
    CHECK(contains(message, "q.jsonl, line 2: " + why));
  };
  refused("{", "it is not JSON");
  refused("[]", "it is not a JSON object");
  refused(R"({"endings": ["b", "c"], "label": 1})", "there is no \"ctx\", ");
  refused(R"({"ctx": 3, "endings": ["b", "c"], "label": 1})", "the text is not a text");
  refused(R"({"ctx": "a", "question": "b", "endings": ["b", "c"], "label": 1})", "it has more than one of \"ctx\", ");
  refused(R"({"ctx": "a", "endings": ["b"], "label": 0})", "there are fewer than two choices");
  refused(R"({"ctx": "a", "endings": "b", "label": 0})", "the choices are not a list");
  refused(R"({"ctx": "a", "endings": ["b", 3], "label": 0})", "the choices is not a text");
  refused(R"({"ctx": "a", "endings": ["b", "c"]})", "there is no \"label\", ");
  for (const char* label : {"2", "-1", "\"\"", "\"C\"", "true", "1.0", "99999999999999999999", "null", "[1]"})
    refused(R"({"ctx": "a", "endings": ["b", "c"], "label": )" + std::string(label) + "}", "the right answer ");
  refused(R"({"query": "a", "choices": {"text": ["b", "c"], "label": ["A"]}, "gold": "A"})", "there are 1 labels");
  refused(R"({"query": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "gold": 0})", "the right answer");
  refused(R"({"query": "a", "choices": {"label": ["A", "B"]}, "gold": "A"})", "the texts of the choices are not");
  refused(R"({"goal": "a", "sol1": "b", "label": 0})", "sol2 is not a text");
  f.write("q.jsonl", "\n");
  CHECK(contains(message_of<std::runtime_error>([&] { read_pairs(f.path("q.jsonl"), {Tokenizer::bytes()}); }),
                 "q.jsonl has no JSON lines"));
}

TEST_CASE("choices with equal losses share the point of a question", "[questions]") {
  const std::vector<Question> questions = {with_lengths({2, 2}, 0, "a"),    with_lengths({2, 4}, 1, "b"),
                                           with_lengths({1, 1, 1}, 2, "a"), with_lengths({3, 1}, 0, "a")};
  const std::vector<Score> scores = scores_of(questions, {1, 1, 5, 6, 7, 7, 7, 2, 3});
  REQUIRE(scores.size() == 2);
  CHECK(scores[0].category == "a");
  CHECK(scores[0].questions == 3);
  CHECK(scores[0].by_sum == .5 + 1. / 3 + 1);
  CHECK(scores[0].uniform == .5 + 1. / 3);
  CHECK(scores[1].by_sum == 0);
  CHECK(scores[1].by_length == 1);  // 6/4 < 5/2
  CHECK(total_of(scores).questions == 4);
  CHECK(total_of(scores).by_sum == .5 + 1. / 3 + 1);
  CHECK(mean_of(scores) == (.5 + 1. / 3 + 1) / 3 / 2);
}

TEST_CASE("Wilson's interval has the published values", "[questions]") {
  // Newcombe 1998, Statistics in Medicine 17, 857, table I
  const auto check = [](double k, int64_t n, double low, double high) {
    const Interval i = wilson(k / double(n), n);
    CHECK(i.low == Approx(low).margin(5e-5));
    CHECK(i.high == Approx(high).margin(5e-5));
  };
  check(81, 263, .2553, .3662);
  check(15, 148, .0624, .1605);
  check(0, 20, 0, .1611);
  check(1, 29, .0061, .1718);
  CHECK(wilson(0, 20).low == 0);
  CHECK(wilson(1, 3).high == 1);
}

namespace {

// CHECKs the pairs that are made of `stories` stories of each grammar.
void check_pairs_of_grammars(uint64_t stories) {
  for (const Grammar& grammar : {story_grammar("stories"), story_grammar("tales"), town_grammar(1)}) {
    size_t made = 0;
    for (uint64_t index = 0; index < stories; ++index) {
      const std::vector<MinimalPair> pairs = make_pairs(5, index, grammar);
      REQUIRE((pairs.empty() || pairs.size() == 2));
      made += pairs.size();
      for (const MinimalPair& pair : pairs) {
        INFO(pair.good << "\n" << pair.bad);
        CHECK(grammar.read("story", pair.good).size() == 1);
        CHECK(grammar.read("story", pair.bad).empty());
      }
      if (pairs.empty()) continue;
      CHECK(pairs[0].category == pairs[1].category);
      // What the second pair exchanges is as long as what the first one does.
      CHECK(pairs[0].good.size() - pairs[0].bad.size() == pairs[1].bad.size() - pairs[1].good.size());
    }
    CHECK(2 * made > 3 * stories);
  }
}

}  // namespace

TEST_CASE("many pairs made of a grammar are right and wrong", "[questions][nightly]") { check_pairs_of_grammars(400); }

TEST_CASE("pairs made of a grammar: the grammar can tell the good sentence and not the bad one", "[questions][long]") {
  check_pairs_of_grammars(80);
  const Grammar either("word: again\n  ab | x / cd | y\nany:\n  x / y\n"
                       "story:\n  [a=word], [a.again]\n  [a=word], [any]\n");  // "ab, y" is right, too
  for (uint64_t index = 0; index < 20; ++index) CHECK(make_pairs(1, index, either).empty());
  CHECK(make_pairs(5, 1, story_grammar())[0].good == make_pairs(5, 1, story_grammar())[0].good);
  CHECK(make_pairs(5, 1, story_grammar())[0].good != make_pairs(6, 1, story_grammar())[0].good);
}

TEST_CASE("a model that knows nothing, or words without their context, gets half of the pairs", "[questions]") {
  const Folder f;
  for (const std::string name : {"stories", "tales"})
    write_pairs(f.path(name + ".jsonl"), 60, 3, name, story_grammar(name));
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({kEndOfText});
  Config c = small_config(tokenizer.vocabulary());
  c.context = 256;
  c.head_bias = true;
  Model model(resolve(c), false);
  const auto points = [&] {
    const std::vector<Question> pairs = read_all({f.path("stories.jsonl"), f.path("tales.jsonl")}, read_pairs,
                                                 {tokenizer, tokenizer.special(kEndOfText)}, model.config);
    const Activations activations = allocate_activations(model.config, 8, longest_of(pairs), false);
    for (const Score& score : scores_of(pairs, losses_of(model, activations, pairs, 8))) {
      INFO(score.category);
      CHECK(score.uniform == .5 * double(score.questions));
      CHECK(score.by_sum == .5 * double(score.questions));
    }
    return pairs.size();
  };
  CHECK(points() == 120);  // all weights are 0
  const std::vector<float> bias = random_floats(size_t(tokenizer.vocabulary()), 4);
  std::ranges::copy(bias, model.weights.get() + (tensor_of(model, "head.bias") - model.weights.get()));
  points();
}

TEST_CASE("the plan counts words as wc does", "[program][questions]") {
  const Folder f;
  f.write("d/a.txt", " one two\tthree\n\nfour,five\r\n six");
  f.write("d/b.txt", "seven eight");
  const Outcome plan = f.run("train d --dry-run --val-fraction 0 --context 4 --layers 1 --heads 1 --channels 8");
  INFO(plan.err);
  CHECK(contains(plan.out, "vocabulary 257, 7 words\n"));
}

TEST_CASE("corpus --pairs, train --eval-pairs and eval --pairs", "[program][questions]") {
  const Corpus f;
  const Outcome written = f.run("corpus --pairs p.jsonl --count 40 --seed 2");
  CHECK(contains(written.out, "p.jsonl: 40 pairs"));
  CHECK(!f.has("p.jsonl.nats"));
  const std::string pairs = f.read("p.jsonl");
  CHECK(count_lines(pairs) == 40);
  check_refused(f, "corpus --pairs p.jsonl", "p.jsonl");  // exists
  f.run("corpus --pairs again.jsonl --count 40 --seed 2 --out text.txt --bytes 1000");
  CHECK(f.read("again.jsonl") == pairs);
  CHECK(f.has("text.txt.nats"));

  const std::string train = "train stories.txt --layers 1 --heads 1 --channels 8 --context 256 --batch 2 --steps 3 "
                            "--eval-every 0 --threads 1 ";
  const Outcome done = f.run(train + "--eval-pairs p.jsonl --out r");
  INFO(done.err);
  REQUIRE(done.status == 0);
  const auto json = parse_json(f.run("eval r --pairs p.jsonl --json").out);
  CHECK(json["questions"] == 40);
  CHECK(json["acc_uniform"] == .5);
  CHECK(parse_json(f.read("r/outcome.json"))["pairs"] == json["acc_mean"]);
  CHECK(contains(done.out, " of 40 pairs are right, the mean of the categories"));
  double points = 0;
  for (const auto& [name, category] : json["categories"].items())
    points += category["acc"].get<double>() * category["questions"].get<double>();
  CHECK(points / 40 == Approx(json["acc"].get<double>()));
  const Outcome table = f.run("eval r --pairs p.jsonl again.jsonl");
  CHECK(contains(table.out, "on p.jsonl and 1 more file (80 pairs)"));
  CHECK(contains(table.out, "a model to which all tokens are equally likely: acc 0.5000"));
  CHECK(table.err == "");

  const Outcome stream = f.run(train + "--documents file --out s");
  REQUIRE(stream.status == 0);
  f.write("first.jsonl", "{\"sentence_good\": \"ab\", \"sentence_bad\": \"cb\"}\n");
  CHECK(contains(f.run("eval s --pairs first.jsonl").err, "NOTE: no token begins a document of this model"));
  f.write("long.jsonl", "\n{\"sentence_good\": \"" + std::string(300, 'a') + "\", \"sentence_bad\": \"b\"}\n");
  check_refused(f, "eval r --pairs long.jsonl", "long.jsonl, line 2 has 301 tokens, and the model's context is 256");
  check_refused(f, train + "--eval-pairs long.jsonl --out x", "long.jsonl, line 2 has 301 tokens");
  CHECK(!f.has("x"));
  check_refused(f, "eval r --pairs p.jsonl --choices p.jsonl", "leave out --pairs");
  check_refused(f, "eval r --pairs p.jsonl --logits x.npy", "leave out --data");
  check_refused(f, "eval r --choices p.jsonl", "p.jsonl, line 1: there is no \"ctx\"");
  check_refused(f, "eval r --pairs none.jsonl", "none.jsonl");
}

TEST_CASE("compare --eval-pairs has a column of pairs, and no other comparison has one", "[program][questions]") {
  const Corpus f;
  f.run("corpus --pairs p.jsonl --count 20");
  const std::string words = "compare stories.txt --grid placement=post,pre seed=1,2 --layers 1 --heads 1 --channels 8 "
                            "--context 256 --batch 2 --steps 12 --lr 0.03 --warmup 0 --eval-every 6 --eval-batches 1 "
                            "--threads 1 ";
  const Outcome with = f.run(words + "--eval-pairs p.jsonl --out with");
  INFO(with.err);
  REQUIRE(with.status == 0);
  REQUIRE(f.run(words + "--out without").status == 0);
  for (const char* table : {"runs.csv", "summary.csv"}) {
    const auto header = [&](const std::string& out) { return lines_of(f.read(out + "/" + table))[0]; };
    CHECK(contains(header("with"), ",pairs"));
    CHECK(!contains(header("without"), "pairs"));
  }
  CHECK(contains(with.out, "pairs       share of --eval-pairs that is right"));
  double mean = 0;
  for (const std::string seed : {"1", "2"})
    mean += parse_json(f.read("with/placement=pre/seed=" + seed + "/outcome.json"))["pairs"].get<double>() / 2;
  CHECK(contains(with.out, format("  %.4f ± ", mean)));
  f.write("p.jsonl", f.read("p.jsonl") + "{\"sentence_good\": \"a.\", \"sentence_bad\": \"b.\"}\n");
  check_refused(f, "compare --out with --resume", "the file of --eval-pairs has changed");

  const auto too_long = [&](const std::string& cells, const std::string& message) {
    const std::string small = "compare stories.txt --layers 1 --heads 1 --channels 8 --eval-pairs long.jsonl ";
    check_refused(f, small + "--out short --grid " + cells, message);
    CHECK_FALSE(f.has("short"));
  };
  f.write("long.jsonl", "{\"sentence_good\": \"" + std::string(40, 'a') + "\", \"sentence_bad\": \"b.\"}\n");
  too_long("context=64,16", "cell context=16: long.jsonl, line 1 has 40 tokens, and the model's context is 16");
  too_long("objective=lm,mlm", "cell objective=mlm: minimal pairs and questions need a model of the next token, and "
                               "this one has --objective mlm");
}

TEST_CASE("eval --hellaswag counts questions whose right completion has the lowest loss", "[measure]") {
  const Folder f;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "abcd";
  f.write("text.txt", text);
  REQUIRE(f.run("train --data text.txt --steps 150 --lr 0.01 --out r" + kTiny).status == 0);
  // The sums prefer the shorter completion, the means the one that the model knows.
  const Words known = question(0, 1, "abcd", {"ba", "abcdabcd", "dd", "cb"});
  const Words wrong = question(1, 2, "abcdab", {"cd", "dc", "bb"});
  f.write("q.bin", file_of({known, wrong}));
  for (const char* batch : {" --batch 1", " --batch 5", ""}) {
    const Outcome done = f.run(std::string("eval r --hellaswag q.bin --json") + batch);
    INFO(done.err);
    REQUIRE(done.status == 0);
    const auto json = parse_json(done.out);
    CHECK(json["questions"] == 2);
    CHECK(json["acc_norm"] == .5);
  }
  const std::string table = f.run("eval r --hellaswag q.bin").out;
  CHECK(contains(table, "category  questions  acc_norm     95 % interval"));
  CHECK(contains(table, "all               2    0.5000  0.0945 to 0.9055"));
  f.write("long.bin", file_of({question(0, 0, "abcdabcd", {"abcdabcda", "abcdabcdab"})}));
  check_refused(f, "eval r --hellaswag long.bin", "long.bin: question 0 has 18 tokens, and the model's context is 16");
  Words beyond = question(0, 0, "a", {"b", "c"});
  beyond[6] = 300;
  f.write("beyond.bin", file_of({beyond}));
  check_refused(f, "eval r --hellaswag beyond.bin", "question 0 has the token 300");
  check_refused(f, "eval r --hellaswag q.bin --data text.txt", "leave out --data");
}

TEST_CASE("damaged files of questions are refused in one line", "[measure]") {
  const Folder f;
  const Words first = question(0, 1, "ab", {"c", "de"}), second = question(1, 0, "f", {"gh", "i"});
  const std::string good = file_of({first, second});
  CHECK(refusal_of_questions(f, good) == "");
  const std::vector<Question> read = read_questions(f.path("q.bin"));
  REQUIRE(read.size() == 2);
  REQUIRE(read[0].choices.size() == 2);
  CHECK(read[0].choices[0].tokens == std::vector<int>{'a', 'b', 'c'});
  CHECK(read[0].choices[1].tokens == std::vector<int>{'a', 'b', 'd', 'e'});
  CHECK(read[0].choices[1].from == 2);
  CHECK(read[0].choices[1].length == 2);
  CHECK(read[0].right == 1);
  for (size_t size = 0; size < good.size(); ++size) CHECK(refusal_of_questions(f, good.substr(0, size)) != "");
  CHECK(contains(refusal_of_questions(f, good + "xx"), "goes on after its last question"));
  const auto with = [&](size_t word, uint16_t value) {
    Words damaged = first;
    damaged[word] = value;
    return refusal_of_questions(f, file_of({damaged, second}));
  };
  CHECK(contains(with(0, 1), "question 0 does not begin with 65535"));
  CHECK(contains(with(1, 65535), "says that it has 65535 bytes"));
  CHECK(contains(with(1, 2), "says that it has 2 bytes"));
  CHECK(contains(with(1, 65534), "is longer than the file"));
  CHECK(contains(with(1, first[1] + 2), "is shorter than it says"));
  CHECK(contains(with(2, 1), "has the index 1"));
  CHECK(contains(with(3, 2), "has 2 completions, of which 2 is right"));
  CHECK(contains(with(4, 3), "ends before its completion"));
  CHECK(contains(with(5, 60000), "ends before its text"));
  CHECK(contains(with(5, 0), "has a text without tokens"));
}
