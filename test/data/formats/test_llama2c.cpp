// llama2.c's models: written, read, and damaged.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "check.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/llama2c.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/model/generate.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "program.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

namespace {

constexpr int kVocabulary = 440;  // pieces in test/reference/pieces/llama2.model

const Tokenizer& pieces() {
  static const Tokenizer tokenizer = read_tokenizer("test/reference/pieces/llama2.model");
  return tokenizer;
}

Config small(bool tied, int kv_heads) {
  Config c = preset_config("llama2", "nano");
  c.n_layer = 2, c.n_head = 4, c.kv_heads = kv_heads, c.channels = 24, c.hidden = 20, c.context = 7;
  c.vocab_size = kVocabulary, c.tied = tied;
  return c;
}

float number_at(const std::string& file, size_t index) {
  float x;
  std::memcpy(&x, file.data() + 28 + 4 * index, sizeof x);
  return x;
}

std::string refusal(const Folder& f, const std::string& bytes) {
  f.write("model.bin", bytes);
  const std::string message = message_of<std::runtime_error>([&] { open_llama2c(f.path(".")); });
  CHECK(message.starts_with(f.path("./model.bin")));
  CHECK(count_lines(message) == 0);
  return message;
}

std::string with_int(std::string file, int field, int32_t value) {
  std::memcpy(file.data() + 4 * field, &value, sizeof value);
  return file;
}

std::string cannot_express(const Config& config, const Tokenizer& tokenizer = pieces()) {
  const Model model(config, false);
  return message_of<std::invalid_argument>([&] { check_llama2c({model, tokenizer, "run", "f32"}); });
}

}  // namespace

TEST_CASE("a Llama has the same bits after llama2.c's file", "[llama2c]") {
  const Folder f;
  for (const bool tied : {false, true})
    for (const int kv_heads : {4, 2}) {
      INFO(tied << " " << kv_heads);
      const Model model = random_model(small(tied, kv_heads));
      check_llama2c({model, pieces(), "run", "f32"});
      CHECK(contains(write_llama2c(f.path("."), {model, pieces(), "run", "f32"}), "Llama of llama2.c, version 0"));
      for (const std::string& path : {f.path("."), f.path("model.bin")}) {
        REQUIRE(format_of(path));
        CHECK(std::string(format_of(path)->name) == "llama2c");
        const auto from = open_llama2c(path);
        CHECK(std::string(from->preset()) == "llama2");
        CHECK(from->tokenizer().vocabulary() == kVocabulary);
        Model again(from->config(), false);
        from->load(again);
        REQUIRE(again.floats == model.floats);
        CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
        CHECK(again.config.norm_eps == 1e-5f);
        CHECK(again.config.context == 7);
      }
    }
}

// As llama2.c and transformers do.
TEST_CASE("a Llama that comes in reads <s> before a prompt and before a text", "[llama2c]") {
  const Folder f;
  const Model model = random_model(small(false, 2));
  write_llama2c(f.path("."), {model, pieces(), "run", "f32"});
  const std::string prompt = "the";
  std::vector<int> tokens = {1};
  for (const uint32_t token : pieces().encode(prompt)) tokens.push_back(static_cast<int>(token));
  Generator generator(model, 6);
  std::string expected = prompt;
  for (int i = 0; i < 3; ++i) {
    const float* logits = generator.feed(tokens);
    tokens = {static_cast<int>(std::max_element(logits, logits + kVocabulary) - logits)};
    expected += pieces().decode(tokens[0]);
  }
  const Outcome sampled = f.run("sample model.bin --greedy --length 3 --prompt " + prompt);
  INFO(sampled.err);
  CHECK(sampled.out == expected + "\n");

  f.write("a.txt", "the norm of a layer");
  f.write("b.txt", "a token");
  const size_t count = pieces().encode(f.read("a.txt")).size() + pieces().encode(f.read("b.txt")).size();
  const Outcome measured = f.run("eval model.bin --data a.txt --data b.txt --threads 1 --json");
  CHECK(contains(measured.out, "\"tokens\":" + std::to_string(count + 2) + ","));  // all, and </s> <s> between them
}

// The layout of legacy_export() in llama2.c, element by element.
TEST_CASE("llama2.c's file has its tensors in order, and RoPE's channels in pairs", "[llama2c]") {
  const Folder f;
  const Model model = random_model(small(false, 2));
  write_llama2c(f.path("."), {model, pieces(), "run", "f32"});
  const std::string file = f.read("model.bin");
  int32_t header[7];
  std::memcpy(header, file.data(), sizeof header);
  CHECK(std::vector<int32_t>(header, header + 7) == std::vector<int32_t>{24, 20, 2, 4, 2, -kVocabulary, 7});
  constexpr size_t C = 24, D = 6, K = 12, F = 20, V = kVocabulary, T = 7;
  size_t at = 0;
  const auto check_tensor = [&](const std::string& name, size_t size) {
    INFO(name);
    const float* ours = tensor_of(model, name);
    size_t same = 0;
    for (size_t i = 0; i < size; ++i) same += number_at(file, at + i) == ours[i];
    CHECK(same == size);
    at += size;
  };
  const auto check_layers = [&](const std::string& part, size_t size) {
    for (const char* layer : {"block.0.", "block.1."}) check_tensor(layer + part, size);
  };
  const auto check_paired = [&](const std::string& part, size_t rows) {
    for (const std::string layer : {"block.0.", "block.1."}) {
      const float* ours = tensor_of(model, layer + part);
      size_t same = 0;
      for (size_t r = 0; r < rows; ++r) {  // theirs: pair (r % D) / 2 of head r / D, its first or second channel
        const size_t row = r / D * D + r % D / 2 + r % 2 * (D / 2);
        for (size_t c = 0; c < C; ++c) same += number_at(file, at + r * C + c) == ours[row * C + c];
      }
      CHECK(same == rows * C);
      at += rows * C;
    }
  };
  check_tensor("embedding.token.weight", V * C);
  check_layers("attention.norm_in.gain", C);
  check_paired("attention.q.weight", C);
  check_paired("attention.k.weight", K);
  check_layers("attention.v.weight", K * C);
  check_layers("attention.o.weight", C * C);
  check_layers("ffn.norm_in.gain", C);
  check_layers("ffn.gate.weight", F * C);
  check_layers("ffn.down.weight", C * F);
  check_layers("ffn.up.weight", F * C);
  check_tensor("final_norm.gain", C);
  for (size_t t = 0; t < T; ++t)
    for (size_t i = 0; i < D / 2; ++i, ++at) {
      const double angle = double(t) * std::pow(10000., -2. * double(i) / D);
      CHECK(number_at(file, at) == float(std::cos(angle)));
      CHECK(number_at(file, at + T * D / 2) == float(std::sin(angle)));
    }
  at += T * D / 2;
  check_tensor("head.weight", V * C);
  CHECK(file.size() == 28 + 4 * at);
}

TEST_CASE("models that llama2.c does not have are refused by the option in the way", "[llama2c]") {
  CHECK(cannot_express(small(false, 2)) == "");
  const auto with = [](auto change) {
    Config c = small(false, 2);
    change(c);
    return cannot_express(c);
  };
  CHECK(contains(with([](Config& c) { c.norm_eps = 1e-6f; }), "--norm-eps"));
  CHECK(contains(with([](Config& c) { c.rope_theta = 500000; }), "--rope-theta"));
  CHECK(contains(with([](Config& c) { c.head_dim = 8; }), "--head-dim 8 (it has 6)"));
  CHECK(contains(with([](Config& c) { c.qkv_bias = true; }), "--qkv-bias"));
  CHECK(contains(with([](Config& c) { c.placement = "sandwich"; }), "--placement"));
  CHECK(contains(with([](Config& c) { c.window = 3; }), "--window 3 (it has 0)"));
  CHECK(contains(with([](Config& c) { c.norm = NormKind::layernorm; }), "--norm"));
  CHECK(contains(with([](Config& c) { c.qk_norm = QkNormKind::head; }), "--qk-norm"));
  Config bytes = small(false, 2);
  bytes.vocab_size = 256;
  CHECK(contains(cannot_express(bytes, Tokenizer::bytes()), "llama2.c reads SentencePiece tokenizers only"));
}

TEST_CASE("a damaged file of llama2.c is refused before anything is allocated", "[llama2c]") {
  const Folder f;
  Model model = random_model(small(true, 2));
  const auto write = [&] { write_llama2c(f.path("."), {model, pieces(), "run", "f32"}); };
  write();
  const std::string file = f.read("model.bin");
  CHECK(contains(refusal(f, ""), "is truncated: it is shorter than a header of 28 bytes"));
  CHECK(contains(refusal(f, file.substr(0, 27)), "shorter than a header"));
  for (size_t size = 28; size < file.size(); size += 4 * 24)
    CHECK(contains(refusal(f, file.substr(0, size)), "is truncated: its header asks for"));
  CHECK(contains(refusal(f, file.substr(0, file.size() - 1)), "is truncated: its header asks for"));
  CHECK(contains(refusal(f, file + "x"), "is too long: its header asks for"));
  CHECK(contains(refusal(f, with_int(file, 0, 0x616b3432)), "of llama2.c; train_gpt reads version 0"));
  CHECK(contains(refusal(f, with_int(file, 0, 0)), "has a header that cannot be used: channels is 0"));
  CHECK(contains(refusal(f, with_int(file, 0, -24)), "has a header that cannot be used"));
  CHECK(contains(refusal(f, with_int(file, 2, 0x7fffffff)), "has a header that cannot be used: layers is 2147483647"));
  CHECK(contains(refusal(f, with_int(file, 2, 10000)), "is truncated: its header asks for"));
  CHECK(contains(refusal(f, with_int(file, 0, 1 << 20)), "is truncated: its header asks for"));
  CHECK(contains(refusal(f, with_int(file, 1, 1 << 22)), "is truncated: its header asks for"));
  CHECK(contains(refusal(f, with_int(file, 5, 1 << 24)), "is truncated: its header asks for"));
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  CHECK(contains(refusal(f, with_int(file, 5, kLowest)), "has a header that cannot be used"));
  CHECK(contains(refusal(f, with_int(file, 3, 5)), "cannot be used: kv-heads 2 does not divide heads 5"));
  CHECK(contains(refusal(f, with_int(file, 4, 3)), "has a header that cannot be used: kv-heads 3 does not divide"));
  CHECK(contains(refusal(f, with_int(file, 5, -kVocabulary)), "is truncated: its header asks for"));

  write();
  const auto from = open_llama2c(f.path("."));
  std::filesystem::remove(f.path("tokenizer.bin"));
  const auto tokenizer = [&] { return message_of<std::runtime_error>([&] { from->tokenizer(); }); };
  CHECK(contains(from->tokenizer().unread()->why, "model.bin has no tokenizer.bin next to it"));
  PieceTables fewer = pieces().pieces()->tables();
  fewer.pieces.pop_back();
  f.write("tokenizer.bin", to_llama2c(Pieces(fewer)));
  CHECK(contains(tokenizer(), "tokenizer.bin has 439 tokens, and the model 440"));

  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const_cast<float*>(tensor_of(model, "block.1.ffn.up.weight"))[5] = bad;
    write();
    Model again(from->config(), false);
    const std::string message = message_of<std::runtime_error>([&] { open_llama2c(f.path("."))->load(again); });
    CHECK(contains(message, "model.bin cannot be used: block.1.ffn.up.weight is not finite"));
  }
}

TEST_CASE("a run is exported for llama2.c, and its folder is a checkpoint", "[llama2c]") {
  const Corpus f;
  f.write("tokenizer.bin", to_llama2c(*pieces().pieces()));
  REQUIRE(f.run("train stories.txt --tokenizer tokenizer.bin --preset llama2 --steps 2 --out run" + kTiny).status == 0);
  const Outcome exported = f.run("export run --to llama2c --out their");
  INFO(exported.err);
  REQUIRE(exported.status == 0);
  CHECK(contains(exported.out, "their: Llama of llama2.c, version 0, in model.bin, with tokenizer.bin"));
  CHECK(same_bits(weights_in(f.path("their")), last_weights(f, "run")));
  const std::string words = " --prompt One --greedy --length 9";
  CHECK(f.run("sample their" + words).out == f.run("sample run" + words).out);
  std::filesystem::copy(f.path("their/model.bin"), f.path("model.bin"));
  CHECK(f.run("sample model.bin" + words).out == f.run("sample run" + words).out);
  REQUIRE(f.run("train stories.txt --preset llama2 --steps 1 --out bytes" + kTiny).status == 0);
  check_refused(f, "export bytes --to llama2c --out none", "llama2.c reads SentencePiece tokenizers only");
  CHECK(!f.has("none"));
}
