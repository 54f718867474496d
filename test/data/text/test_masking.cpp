// Masked language modeling: which tokens are masked, by what, and what a model reads and predicts.

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "check.hpp"
#include "data/run/fill_masks.hpp"
#include "data/run/step_inputs.hpp"
#include "data/text/load_dataset.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "message.hpp"
#include "numbered_lines.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

using nlohmann::json;

namespace {

// Tokens 0 to 9 of which 9 is the mask and 8 is special, too.
Masking masking(double fraction) {
  return {.fraction = fraction, .token = 9, .special = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1}};
}

struct Masked {
  std::vector<int> tokens, targets;

  Masked(std::vector<int> text, double fraction, uint64_t key)
      : tokens(std::move(text)), targets(tokens.size(), kIgnore) {
    mask_tokens(tokens, targets, masking(fraction), key);
  }
  int count() const { return static_cast<int>(tokens.size() - std::ranges::count(targets, kIgnore)); }
};

Dataset load(const Folder& f, const std::string& file, int context, DocumentOptions how,
             const std::string& tokenizer = "byte") {
  TextOptions options;
  how.mask_fraction = .15;
  static_cast<DocumentOptions&>(options) = how;
  options.data = {f.path(file)};
  options.tokenizer = tokenizer;
  return load_dataset(options, nullptr, context);
}

Model masked_model(Config c = {}) {
  c.objective = Objective::mlm;
  c.n_layer = 1, c.n_head = 2, c.channels = 8, c.context = 16, c.vocab_size = 258;
  Model model(c);
  randomize(model);
  return model;
}

}  // namespace

TEST_CASE("masking hides the fraction of the tokens, and these are the targets", "[masking]") {
  const std::vector<int> text = random_ints(200, 1, 8);
  const Masked masked(text, .15, 7);
  CHECK(masked.count() == 30);
  for (size_t i = 0; i < text.size(); ++i) {
    if (masked.targets[i] == kIgnore) CHECK(masked.tokens[i] == text[i]);
    else CHECK(masked.targets[i] == text[i]);
  }
  CHECK(Masked({1, 2}, .15, 7).count() == 1);  // at least one
  CHECK(Masked({8, 9, 8}, .15, 7).count() == 0);
  CHECK(Masked({8, 1, 8, 8}, .9, 7).targets == std::vector<int>{kIgnore, 1, kIgnore, kIgnore});
  CHECK(Masked(text, .15, 7).tokens == masked.tokens);
  CHECK(Masked(text, .15, 8).targets != masked.targets);
}

TEST_CASE("of the hidden tokens, 80 % are masked, 10 % are another token and 10 % stay", "[masking]") {
  std::map<std::string, int> share;
  std::map<int, int> others;
  int all = 0;
  for (uint64_t key = 0; key < 200; ++key) {
    const Masked masked(std::vector<int>(100, 3), .5, key);
    for (size_t i = 0; i < masked.tokens.size(); ++i) {
      if (masked.targets[i] == kIgnore) continue;
      ++all;
      const int token = masked.tokens[i];
      ++share[token == 9 ? "mask" : token == 3 ? "same" : "other"];
      if (token != 9 && token != 3) ++others[token];
    }
  }
  CHECK(all == 10000);
  // The standard deviation of a share is at most 40. One other token in eight is the same.
  CHECK(std::abs(share["mask"] - 8000) < 160);
  CHECK(std::abs(share["other"] - 875) < 120);
  CHECK(std::abs(share["same"] - 1125) < 130);
  CHECK(others.size() == 7);  // any token but the special ones
  for (const auto& [token, count] : others) CHECK((token < 8 && count > 60));
}

TEST_CASE("every place of a window is masked equally often", "[masking]") {
  std::vector<int> times(20);
  for (uint64_t key = 0; key < 4000; ++key) {
    const Masked masked(std::vector<int>(20, 3), .25, key);
    for (int i = 0; i < 20; ++i) times[i] += masked.targets[i] != kIgnore;
  }
  for (const int n : times) CHECK(std::abs(n - 1000) < 140);  // 5 standard deviations
}

TEST_CASE("a tokenizer without a mask gets one, and its name", "[masking]") {
  const Folder f;
  f.write("a.txt", numbered_lines(40));
  const Dataset data = load(f, "a.txt", 16, {});
  CHECK(mask_name(data.tokenizer) == "[MASK]");
  CHECK(data.masking.token == data.tokenizer.special("[MASK]"));
  CHECK(data.tokenizer.vocabulary() == 257);
  CHECK(mask_name(Tokenizer::bytes().with_special({"<s>", "<mask>"})) == "<mask>");
  CHECK(mask_name(Tokenizer::bytes()).empty());
  CHECK(std::isnan(data.bits_per_byte(1)));
}

TEST_CASE("masks differ from step to step, and not when a run is resumed or validated again", "[masking]") {
  const Folder f;
  f.write("a.txt", numbered_lines(80));
  for (const char* documents : {"file", "line"}) {
    const Dataset data = load(f, "a.txt", 16, {.documents = documents});
    const RowBatch batch = draw_batch(data, 4, 16, {1, 5, 4}, 0);
    CHECK(draw_batch(data, 4, 16, {1, 5, 4}, 0).tokens == batch.tokens);
    CHECK(draw_batch(data, 2, 16, {1, 5, 4}, 2).tokens ==
          std::vector<int>(batch.tokens.begin() + 32, batch.tokens.end()));  // another cut into micro-batches
    CHECK(draw_batch(data, 4, 16, {2, 5, 4}, 0).tokens != batch.tokens);
    const RowBatch first = fill_rows(data, data.rows.empty() ? data.val : data.rows, 0, 1, 16);
    CHECK(fill_rows(data, data.rows.empty() ? data.val : data.rows, 0, 1, 16).targets == first.targets);
  }
  // The same window in another step has other masks: of the two rows of one epoch, each comes once.
  f.write("b.txt", "aaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbb\nccccccccccccccc\n");
  const Dataset data = load(f, "b.txt", 32, {.documents = "line"});
  std::set<std::vector<int>> seen;
  for (uint64_t step = 0; step < 8; ++step) seen.insert(draw_batch(data, 1, 32, {1, step, 1}, 0).targets);
  CHECK(seen.size() > 4);
}

TEST_CASE("masked documents are whole, and fillers are examples of their own", "[masking]") {
  const Folder f;
  f.write("a.txt", numbered_lines(12));
  for (const Packing packing : {Packing::documents, Packing::padded}) {
    const Dataset data = load(f, "a.txt", 40, {.documents = "line", .packing = packing});
    const int end = data.around.last;
    const RowBatch batch = draw_batch(data, 2, 40, {1, 0, 2}, 0);
    REQUIRE(batch.begins.size() == 80);
    int counted = 0;
    for (int b = 0; b < 2; ++b) {
      const auto windows = draw_row(data, 40, {1, 0, 2}, b);
      const int used = windows.back().length * (packing == Packing::padded ? 1 : int(windows.size()));
      for (const TokenWindow& window : windows)  // the token that ends a document is read, too
        CHECK(int(data.tokens[window.start + window.length - 1]) == end);
      for (int t = used; t < 40; ++t) {
        CHECK(batch.begins[b * 40 + t] >= windows[0].length);
        CHECK((t < 38 || batch.targets[b * 40 + t] == kIgnore));
      }
    }
    for (const int target : batch.targets) counted += target != kIgnore;
    TrainOptions o;
    static_cast<DocumentOptions&>(o) = {.documents = "line", .packing = packing};
    o.batch = 2, o.config.context = 40, o.data_seed = 1;
    CHECK(micro_batches(data, o, 0).targets == counted);
  }
}

TEST_CASE("a stream that is no multiple of the context ends in a row that sees no filler", "[masking]") {
  const Folder f;
  f.write("a.txt", numbered_lines(40));
  const Dataset data = load(f, "a.txt", 16, {});
  const size_t last = data.val.size() - 1;
  const int length = data.val[last][0].length;
  REQUIRE(length < 16);
  const RowBatch row = fill_rows(data, data.val, last, 1, 16);
  for (int t = 0; t < 16; ++t) CHECK(row.begins[t] == (t < length ? 0 : length));
}

TEST_CASE("a model of masks lists the likeliest tokens, and fills a text with them", "[masking]") {
  const Model model = masked_model();
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({"<|endoftext|>", "[MASK]"});
  const std::vector<int> tokens = masked_prompt(tokenizer, "a [MASK]b[MASK]", {256, 256}, Unknown::error, 16);
  CHECK(tokens == std::vector<int>{256, 'a', ' ', 257, 'b', 257, 256});
  const Activations activations = allocate_activations(model.config, 1, 7, false);
  std::vector<float> logits(7 * 258);
  batch_logits(logits.data(), model, activations, {tokens.data(), nullptr, 1, 7});
  const std::vector<FilledMask> masks = fill_masks(model, activations, tokens, 257, 300);
  REQUIRE(masks.size() == 2);
  CHECK((masks[0].place == 3 && masks[1].place == 5));
  for (const FilledMask& mask : masks) {
    const float* row = &logits[mask.place * 258];
    double sum = 0;
    REQUIRE(mask.guesses.size() == 258);
    CHECK(mask.guesses[0].token == std::max_element(row, row + 258) - row);
    for (size_t i = 0; i < mask.guesses.size(); ++i) {
      sum += mask.guesses[i].probability;
      if (i > 0) CHECK(mask.guesses[i].probability <= mask.guesses[i - 1].probability);
    }
    CHECK(sum == Approx(1));
  }
  std::vector<FilledMask> known = {{3, {{'x', 1}}}, {5, {{'y', 1}}}};
  CHECK(filled_text(tokenizer, tokens, known) == "a xby");
  CHECK(contains(message_of<std::runtime_error>([&] { masked_prompt(tokenizer, "duck", {}, Unknown::error, 16); }),
                 "write [MASK] in the place of a token, such as --prompt 'duck [MASK]'"));
  CHECK(contains(message_of<std::runtime_error>(
                     [&] { masked_prompt(tokenizer, "a long text with a [MASK]", {}, Unknown::error, 16); }),
                 "20 tokens"));
}

TEST_CASE("a masked token sees both sides, a causal one the left", "[masking]") {
  for (const bool causal : {false, true}) {
    Config c;
    if (causal) c.attention = Attending::causal;
    const Model model = masked_model(c);
    const Activations activations = allocate_activations(model.config, 1, 8, false);
    const auto logits_of = [&](int last) {
      const std::vector<int> tokens = {1, 2, 257, 4, 5, 6, 7, last};
      std::vector<float> logits(8 * 258);
      batch_logits(logits.data(), model, activations, {tokens.data(), nullptr, 1, 8});
      return std::vector<float>(&logits[2 * 258], &logits[3 * 258]);
    };
    CHECK(same_bits(logits_of(8), logits_of(9)) == causal);
  }
}

TEST_CASE("an encoder trains, resumes with the same bits, is measured, and fills masks", "[masking][program][long]") {
  const Folder f;
  f.write("a.txt", numbered_lines(400));
  const std::string words = "train a.txt --preset bert --layers 1 --heads 2 --channels 16 --context 32 --batch 2 "
                            "--documents line --quiet --dropout 0.1 ";
  f.must(words + "--schedule constant --steps 6 --out whole");
  f.must(words + "--schedule constant --steps 3 --out parts");
  f.must("train --out parts --resume --steps 6");
  CHECK(last_weights(f, "parts") == last_weights(f, "whole"));
  const auto measured = [&](const std::string& what) {
    const json result = json::parse(f.run("eval " + what + " --data a.txt --json").out);
    return std::pair(result["loss"].get<double>(), result["tokens"].get<int>());
  };
  const auto [loss, tokens] = measured("whole");
  CHECK(tokens == 10 * 2 + 390 * 3);  // of the 16, or 17 and 18 letters of a line
  CHECK(measured("whole --batch 3").first == Approx(loss));
  const json filled = json::parse(f.run("sample whole --json", "line [MASK] of a te[MASK]t").out);
  REQUIRE(filled["masks"].size() == 2);
  CHECK(filled["masks"][0]["guesses"].size() == 5);
  CHECK(filled["masks"][0]["place"] == 6);
  CHECK(count_lines(f.run("sample whole --prompt [MASK]").out) == 5);
  const Outcome unread =
      f.run("sample whole --prompt [MASK] --count 3 --beams 2 --length 4 --stop x --raw --threads 1");
  for (const char* option : {"count", "beams", "length", "stop", "raw"})
    CHECK(contains(unread.err, "NOTE: --" + std::string(option) + " has no effect with a model of masked tokens\n"));
  CHECK_FALSE(contains(unread.err, "--threads"));
  CHECK_FALSE(contains(unread.err, "--prompt"));
  CHECK(contains(f.run("sample whole --prompt line").err, "write [MASK] in the place of a token"));
  check_refused(f, "train a.txt --attention bidirectional", "choose --objective mlm, or --attention causal");
  CHECK(contains(f.run("train a.txt --mask-fraction .3 --dry-run").out,
                 "--mask-fraction has no effect with --objective lm"));
  f.write("pairs.jsonl", R"({"sentence_good": "a", "sentence_bad": "b"})" "\n");
  check_refused(f, "eval whole --pairs pairs.jsonl", "need a model of the next token");
  f.write("qa.jsonl", R"({"prompt": "who", "completion": "me"})" "\n");
  check_refused(f, "train qa.jsonl --objective mlm --val-fraction 0", "add --loss all");
  CHECK(contains(f.run("export whole --to hf --out hf").out, "BertForMaskedLM"));
  CHECK(contains(f.read("hf/tokenizer_config.json"), "\"mask_token\": \"[MASK]\""));
  f.must("train a.txt --objective mlm --layers 1 --heads 2 --channels 16 --context 32 --steps 2 --quiet --out stream");
  f.must("export stream --to hf --out stream-hf");
  CHECK(measured("stream-hf") == measured("stream"));
  check_refused(f, "export whole --to gguf --out m.gguf", "has no --objective");
}
