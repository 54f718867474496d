#include "data/run/generate_text.hpp"

#include "forms.hpp"
#include "generated.hpp"
#include "layers/model/initialize.hpp"
#include "message.hpp"

namespace {

// Measured: 0. Kernels that fuse multiply-adds differently would differ by up to 1.4e-6.
constexpr double kTolerance = 3e-6;
constexpr int V = 31, kContext = 72;

Model make_model(const Form& form, bool llama) {
  Config c;
  form.apply(c);
  c.n_layer = 3, c.n_head = 4, c.channels = 32, c.context = kContext, c.vocab_size = V;
  c.init = InitChoice::xavier;  // large enough that attention matters
  if (llama) like_llama(c);
  Model model(c, false);
  initialize(model, 7);
  set_learned_gains(model);
  const std::vector<float> nudge = random_floats(model.floats, 8, 0, .1f);
  for (size_t i = 0; i < model.floats; ++i) model.weights[i] += nudge[i];
  return model;
}

std::vector<float> copy(const float* logits) { return {logits, logits + V}; }

// How often each token is drawn.
std::vector<double> shares(const std::vector<float>& logits, const Sampling& sampling, int draws) {
  std::vector<double> share(logits.size());
  for (int i = 0; i < draws; ++i)
    share[sample_token(logits.data(), logits.size(), sampling, i)] += 1. / draws;
  return share;
}

}  // namespace

TEST_CASE("logits with a cache are those of the full forward pass", "[generate][long]") {
  const std::vector<int> tokens = random_ints(kContext, 1, V);
  for (const Form& form : forms())
    for (const bool llama : {false, true})
      check_generated("generate/" + form.name + (llama ? " llama" : " gpt"), make_model(form, llama), tokens,
                      {1, 5, kContext}, kTolerance);
}

TEST_CASE("beyond the context, the older half is forgotten", "[generate]") {
  const Model model = make_model({"pre", "pre"}, true);
  const std::vector<int> tokens = random_ints(100, 1, V);
  Generator generator(model, model.config.context);
  generator.feed({tokens.begin(), tokens.begin() + kContext});
  CHECK_FALSE(generator.beyond_context());
  std::vector<float> got = copy(generator.feed({tokens[kContext]}));
  CHECK(generator.beyond_context());
  const auto window = [&](int begin, int end) {
    Generator fresh(model, model.config.context);
    return copy(fresh.feed({tokens.begin() + begin, tokens.begin() + end}));
  };
  CHECK(same_bits(got, window(kContext + 1 - kContext / 2, kContext + 1)));
  got = copy(generator.feed({tokens[kContext + 1]}));  // the next token
  check_close("generate/beyond", got, widen(window(kContext + 1 - kContext / 2, kContext + 2)), kTolerance);

  Generator all_at_once(model, model.config.context);  // only the end of a long prompt is read
  got = copy(all_at_once.feed(tokens));
  CHECK(all_at_once.beyond_context());
  CHECK(same_bits(got, window(100 - kContext / 2, 100)));
}

TEST_CASE("tokens are drawn as often as their probabilities say", "[generate]") {
  const std::vector<float> logits = {std::log(.4f), std::log(.1f), std::log(.3f), std::log(.2f)};
  const int draws = 20000;
  const auto expect = [&](const Sampling& sampling, const std::vector<double>& want) {
    const std::vector<double> got = shares(logits, sampling, draws);
    for (size_t v = 0; v < want.size(); ++v) {
      if (want[v] == 0 || want[v] == 1) CHECK(got[v] == Approx(want[v]));
      CHECK(std::abs(got[v] - want[v]) <= 5 * std::sqrt(want[v] * (1 - want[v]) / draws) + 1e-9);
    }
  };
  expect({}, {.4, .1, .3, .2});
  expect({.temperature = .5f}, {.16 / .3, .01 / .3, .09 / .3, .04 / .3});
  expect({.temperature = 0}, {1, 0, 0, 0});
  expect({.top_k = 1}, {1, 0, 0, 0});
  expect({.top_k = 2}, {4 / 7., 0, 3 / 7., 0});
  expect({.top_k = 100}, {.4, .1, .3, .2});
  expect({.top_p = .75f}, {4 / 9., 0, 3 / 9., 2 / 9.});
  expect({.top_p = .65f}, {4 / 7., 0, 3 / 7., 0});
  expect({.top_k = 3, .top_p = .7f}, {4 / 7., 0, 3 / 7., 0});  // .7 of the remaining .9
  expect({.top_p = 1e-6f}, {1, 0, 0, 0});
  expect({.min_p = .6f}, {4 / 7., 0, 3 / 7., 0});
  expect({.min_p = .3f}, {4 / 9., 0, 3 / 9., 2 / 9.});
  expect({.min_p = 1}, {1, 0, 0, 0});
  expect({.top_k = 2, .min_p = .3f}, {4 / 7., 0, 3 / 7., 0});
  expect({.temperature = .5f, .min_p = .3f}, {.16 / .25, 0, .09 / .25, 0});  // .04 is less than .3 of .16
}

TEST_CASE("tokens that were seen lose by the repeat penalty, once each", "[generate]") {
  const std::vector<float> logits = {3, -1, 2, 1}, after = {1.5, -2, 2, 1};
  const std::vector<int> seen = {0, 1, 0, 7};
  const Sampling penalty{.repeat_penalty = 2};
  for (int i = 0; i < 200; ++i)
    CHECK(sample_token(logits.data(), 4, penalty, i, seen) == sample_token(after.data(), 4, {}, i));
  const Sampling greedy{.repeat_penalty = 2, .temperature = 0};
  CHECK(sample_token(logits.data(), 4, greedy, 0, seen) == 2);
  CHECK(sample_token(logits.data(), 4, greedy, 0) == 0);
}

TEST_CASE("a sampled token depends only on the seed and its index", "[generate]") {
  const std::vector<float> logits = random_floats(V, 1);
  const auto sequence = [&](uint64_t seed) {
    std::vector<int> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sample_token(logits.data(), V, {.seed = seed}, i));
    return tokens;
  };
  CHECK(sequence(1) == sequence(1));
  CHECK(sequence(1) != sequence(2));
  std::vector<float> shifted = logits;
  for (float& x : shifted) x += 1000;
  for (int i = 0; i < 50; ++i)
    CHECK(sample_token(shifted.data(), V, {.top_k = 3}, i) == sample_token(logits.data(), V, {.top_k = 3}, i));
}

TEST_CASE("tokens that the tokenizer does not have are never drawn", "[generate]") {
  Config c;
  c.n_layer = 1, c.n_head = 2, c.channels = 8, c.context = 32, c.vocab_size = 300, c.head_bias = true;
  Model model(c, false);
  initialize(model, 1);
  for (int v = 256; v < 300; ++v) model.p.head_bias[v] = 1000;  // not bytes, and likelier than all of them
  int pieces = 0;
  const auto write = [&](const std::string& piece) { pieces += piece.size() == 1; };
  for (const float temperature : {0.f, 1.f})
    generate_text(model, Tokenizer::bytes(), "a",
                  {.length = 20, .stop = "", .sampling = {.temperature = temperature}}, write);
  CHECK(pieces == 40);
}

TEST_CASE("samples that advance together have the texts that they have alone", "[generate][long]") {
  const int count = kMostSequences + 3;  // two batches
  const auto check = [&](const Model& model, const Generation& how, int samples) {
    std::vector<std::string> texts(samples);
    std::vector<Generated> results(samples);
    generate_texts(model, Tokenizer::bytes(), "\1\2\3", how, samples,
                   {[&](int n, const std::string& piece) { texts[n] += piece; },
                    [&](int n, const Generated& result) { results[n] = result; }});
    for (int n = 0; n < samples; ++n) {
      Generation alone = how;
      alone.number += n;
      std::string text;
      const Generated want = generate_text(model, Tokenizer::bytes(), "\1\2\3", alone,
                                           [&](const std::string& piece) { text += piece; });
      CHECK(texts[n] == text);
      CHECK(results[n].tokens == want.tokens);
      CHECK(std::string(results[n].end) == want.end);
    }
    std::erase_if(results, [](const Generated& r) { return std::string(r.end) == "length"; });
    return results.size();
  };
  for (const Form& form : forms())
    for (const bool llama : {false, true}) {
      INFO(form.name);
      check(make_model(form, llama), {.length = kContext + 40, .stop = "", .sampling = {.seed = 3}}, 3);
    }
  const Model model = make_model({"pre", "pre"}, true);
  const size_t stopped = check(model, {.length = kContext, .stop = "\5", .sampling = {}, .number = 7}, count);
  CHECK(stopped > 10);  // so they end at different times
  CHECK(stopped < static_cast<size_t>(count));
  CHECK(check(model, {.length = 0, .stop = "", .sampling = {}}, 2) == 0);
}

TEST_CASE("a text within the context ends when it is full, and a model of lines begins each with an empty one",
          "[generate]") {
  Model model = make_model({"pre", "pre"}, true);
  std::vector<uint32_t> alphabet = {'\n'};
  for (uint32_t point = 'A'; alphabet.size() < V; ++point) alphabet.push_back(point);
  const Tokenizer tokenizer = Tokenizer::characters(alphabet);
  REQUIRE(tokenizer.newline() == 0);
  const auto write = [](const std::string&) {};

  Generation how = {.length = 500, .stop = "", .sampling = {}, .within_context = true};
  const Generated full = generate_text(model, tokenizer, "ABC", how, write);
  CHECK(std::string(full.end) == "context");
  CHECK(full.tokens.size() == kContext - 3 + 1);
  how.length = 20;
  CHECK(std::string(generate_text(model, tokenizer, "ABC", how, write).end) == "length");
  how = {.length = 500, .stop = "", .sampling = {}};
  const Generated beyond = generate_text(model, tokenizer, "ABC", how, write);
  CHECK(beyond.tokens.size() == 500);

  // Beam search does not go beyond the context.
  how = {.length = 500, .sampling = {.temperature = 0}, .beams = 2};
  const Generated found = generate_text(model, tokenizer, "ABC", how, write);
  CHECK(std::string(found.end) == "context");
  CHECK(found.tokens.size() == kContext - 3 + 1);
  how.length = kContext - 3 + 1;
  CHECK(std::string(generate_text(model, tokenizer, "ABC", how, write).end) == "length");
  how.length = 1;
  const std::string most(kContext, 'A');
  CHECK(generate_text(model, tokenizer, most, how, write).tokens.size() == 1);
  CHECK(contains(message_of<std::runtime_error>([&] { generate_text(model, tokenizer, most + "A", how, write); }),
                 "beam search stays within the context of " + std::to_string(kContext) + ": shorten it"));

  // With at_first, every prompt follows the token that begins a document.
  how = {.length = 5, .sampling = {.temperature = 0}, .around = {3, 3}, .at_first = true};
  Generator generator(model, 8);
  const float* logits = generator.feed({3, 1, 2});
  std::vector<int> want;
  for (int token; want.size() < 5 && (token = sample_token(logits, V, how.sampling, want.size())) != 3;) {
    want.push_back(token);
    logits = generator.step({token});
  }
  CHECK(generate_text(model, tokenizer, "AB", how, write).tokens == want);
}

TEST_CASE("as many samples advance together as a gigabyte of keys and values allows", "[generate]") {
  Config c;
  c.n_layer = 12, c.n_head = 12, c.kv_heads = 12, c.head_dim = 64, c.context = 1024;
  CHECK(sequences_together(c, 1 << 20, 1000) == 14);  // 72 MB each
  CHECK(sequences_together(c, 100, 1000) == kMostSequences);
  CHECK(sequences_together(c, 100, 5) == 5);
  c.context = 1 << 24;
  CHECK(sequences_together(c, 1 << 24, 5) == 1);
}
