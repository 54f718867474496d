// llm.c's files: models and gpt2_tokenizer.bin.

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "check.hpp"
#include "data/files/files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/llmc.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_files.hpp"
#include "data/tokenizer/files/llmc_tokenizer.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "program.hpp"
#include "shared.hpp"
#include "small_run.hpp"

namespace {

std::vector<std::vector<uint32_t>> merges_of(const Tokenizer& tokenizer) {
  std::vector<std::vector<uint32_t>> rows;
  for (const Merge& m : tokenizer.bpe()->tables().merges) rows.push_back({m.left, m.right, m.token});
  return rows;
}

void check_equal(const Tokenizer& a, const Tokenizer& b) {
  REQUIRE(a.kind() == b.kind());
  CHECK(a.alphabet() == b.alphabet());
  if (!a.bpe()) return;
  CHECK(a.bpe()->tables().tokens == b.bpe()->tables().tokens);
  CHECK(merges_of(a) == merges_of(b));
  REQUIRE(a.bpe()->tables().special.size() == b.bpe()->tables().special.size());
  for (size_t i = 0; i < a.bpe()->tables().special.size(); ++i)
    CHECK(a.bpe()->tables().special[i].token == b.bpe()->tables().special[i].token);
}

Tokenizer trained(const std::string& end) {
  BpeTables tables = train_bpe(read_file("test/reference/tokenizer/trained_on.txt"), 400).tables();
  if (!end.empty()) tables.special.push_back({400, end}), tables.tokens.push_back(end);
  return Tokenizer::bpe(Bpe(tables));
}

// A file with these tokens.
std::string file_of(const std::vector<std::string>& tokens, uint32_t version = 2, uint32_t end = 0) {
  const uint32_t header[256] = {20240328, version, static_cast<uint32_t>(tokens.size()), end};
  std::string file(reinterpret_cast<const char*>(header), sizeof header);
  for (const std::string& token : tokens) file += static_cast<char>(token.size()) + token;
  return file;
}

std::vector<std::string> bytes_and(const std::vector<std::string>& more) {
  std::vector<std::string> tokens = byte_tokens();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

std::string refusal(const std::string& bytes) {
  return message_of<std::runtime_error>([&] { tokenizer_from_llmc(bytes); });
}

// ---- models ----------------------------------------------------------------------------------------------

Config small() {
  Config c = preset_config("gpt2", "nano");
  c.n_layer = 2, c.n_head = 2, c.channels = 8, c.context = 6, c.vocab_size = 256;
  return c;
}

// With random numbers in every tensor.
Model random_gpt2(const Config& config) {
  Model model(config);
  const std::vector<float> values = random_floats(model.floats, 3, 0, .3f);
  for (const TensorSpec& spec : model.table)
    std::copy_n(values.begin() + spec.offset, spec.size(), model.weights.get() + spec.offset);
  return model;
}

const TensorSpec& spec_of(const Model& model, const std::string& name) {
  for (const TensorSpec& spec : model.table)
    if (spec.name == name) return spec;
  throw std::runtime_error("no tensor " + name);
}

ExportedModel exported(const Model& model, const char* dtype = "f32") {
  static const Tokenizer bytes = Tokenizer::bytes();
  return {model, bytes, "run", dtype};
}

float number_at(const std::string& file, size_t index) {
  float x;
  std::memcpy(&x, file.data() + 1024 + 4 * index, sizeof x);
  return x;
}

std::string with_int(std::string file, int field, int32_t value) {
  std::memcpy(file.data() + 4 * field, &value, sizeof value);
  return file;
}

std::string refusal_of_model(const Folder& f, const std::string& bytes) {
  f.write("model.bin", bytes);
  const std::string message = message_of<std::runtime_error>([&] { open_llmc(f.path(".")); });
  CHECK(message.starts_with(f.path("./model.bin")));
  CHECK(count_lines(message) == 0);
  return message;
}

}  // namespace

TEST_CASE("a GPT-2 has the same bits after llm.c's file", "[llmc]") {
  const Folder f;
  for (const int vocabulary : {256, 300}) {
    Config c = small();
    c.vocab_size = vocabulary;
    const Model model = random_gpt2(c);
    CHECK(write_llmc(f.path("."), exported(model)) ==
          "GPT-2 of llm.c, version 3, in model.bin, with gpt2_tokenizer.bin");
    for (const std::string& path : {f.path("."), f.path("model.bin")}) {
      REQUIRE(format_of(path));
      CHECK(std::string(format_of(path)->name) == "llmc");
      const auto from = open_llmc(path);
      CHECK(std::string(from->preset()) == "gpt2");
      CHECK(from->config().vocab_size == vocabulary);  // without the padding
      Model again(from->config(), false);
      from->load(again);
      REQUIRE(again.floats == model.floats);
      CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
    }
  }
}

// The layout of write_tensors() in llm.c, element by element.
TEST_CASE("llm.c's file has its tensors in order, and the vocabulary padded with zeros", "[llmc]") {
  const Folder f;
  Config c = small();
  c.vocab_size = 130;
  const Model model = random_gpt2(c);
  write_llmc(f.path("."), exported(model));
  const std::string file = f.read("model.bin");
  int32_t header[256];
  std::memcpy(header, file.data(), sizeof header);
  CHECK(std::vector<int32_t>(header, header + 9) == std::vector<int32_t>{20240326, 3, 6, 130, 2, 2, 8, 256, 0});
  constexpr size_t C = 8, V = 130, P = 256, T = 6;
  size_t at = 0;
  const auto check_tensor = [&](const std::string& name, size_t size) {
    INFO(name);
    const TensorSpec& spec = spec_of(model, name);
    REQUIRE(spec.size() == size);
    size_t same = 0;
    for (size_t i = 0; i < size; ++i) same += number_at(file, at + i) == model.weights[spec.offset + i];
    CHECK(same == size);
    at += size;
  };
  const auto check_layers = [&](const std::vector<std::string>& parts, size_t size) {
    for (const std::string layer : {"block.0.", "block.1."})
      for (const std::string& part : parts) check_tensor(layer + part, size);
  };
  check_tensor("embedding.token.weight", V * C);
  for (const size_t end = P * C; at < end; ++at) CHECK(number_at(file, at) == 0);
  check_tensor("embedding.position.weight", T * C);
  check_layers({"attention.norm_in.gain"}, C);
  check_layers({"attention.norm_in.bias"}, C);
  check_layers({"attention.q.weight", "attention.k.weight", "attention.v.weight"}, C * C);
  check_layers({"attention.q.bias", "attention.k.bias", "attention.v.bias"}, C);
  check_layers({"attention.o.weight"}, C * C);
  check_layers({"attention.o.bias"}, C);
  check_layers({"ffn.norm_in.gain"}, C);
  check_layers({"ffn.norm_in.bias"}, C);
  check_layers({"ffn.up.weight"}, 4 * C * C);
  check_layers({"ffn.up.bias"}, 4 * C);
  check_layers({"ffn.down.weight"}, 4 * C * C);
  check_layers({"ffn.down.bias"}, C);
  check_tensor("final_norm.gain", C);
  check_tensor("final_norm.bias", C);
  CHECK(file.size() == 1024 + 4 * at);

  std::string garbage = file;  // padding is not part of the model
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(garbage.data() + 1024 + 4 * (V * C), &nan, sizeof nan);
  f.write("model.bin", garbage);
  Model again(open_llmc(f.path("."))->config(), false);
  open_llmc(f.path("."))->load(again);
  CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
}

TEST_CASE("llm.c's version 5 has bfloat16, rounded to the nearest", "[llmc]") {
  const Folder f;
  const Model model = random_gpt2(small());
  write_llmc(f.path("."), exported(model, "bf16"));
  const auto from = open_llmc(f.path("."));
  Model rounded(from->config(), false);
  from->load(rounded);
  for (const TensorSpec& spec : model.table)
    for (size_t i = spec.offset; i < spec.offset + spec.size(); ++i) {
      const float x = model.weights[i], got = rounded.weights[i];
      REQUIRE((std::bit_cast<uint32_t>(got) & 0xffff) == 0);
      REQUIRE(std::abs(got - x) <= std::abs(x) / 256);
    }
  write_llmc(f.path("."), exported(rounded, "bf16"));
  Model again(from->config(), false);
  open_llmc(f.path("."))->load(again);
  CHECK(same_bits({again.weights.get(), again.floats}, {rounded.weights.get(), rounded.floats}));

  Model large = random_gpt2(small());
  large.weights[0] = std::numeric_limits<float>::max();
  CHECK(contains(message_of<std::runtime_error>([&] { write_llmc(f.path("."), exported(large, "bf16")); }),
                 "too large for bfloat16: choose --dtype f32"));
  CHECK(message_of<std::invalid_argument>([&] { write_llmc(f.path("."), exported(model, "f16")); }) ==
        "llm.c has no --dtype f16");
}

TEST_CASE("a model without biases has zeros for them in llm.c's file", "[llmc]") {
  const Folder f;
  Config c = small();
  c.bias = false;
  const Model model = random_gpt2(c);
  write_llmc(f.path("."), exported(model));
  const auto from = open_llmc(f.path("."));
  Model again(from->config(), false);
  from->load(again);
  for (const TensorSpec& spec : again.table) {
    INFO(spec.name);
    const std::span<const float> got(again.weights.get() + spec.offset, spec.size());
    if (spec.leaf() == "bias") CHECK(norm_of(widen(got)) == 0);
    else CHECK(same_bits(got, {model.weights.get() + spec_of(model, spec.name).offset, spec.size()}));
  }
}

TEST_CASE("models that llm.c does not have are refused by the option in the way", "[llmc]") {
  const auto with = [](auto change) {
    Config c = small();
    change(c);
    const Model model(c, false);
    return message_of<std::invalid_argument>([&] { check_llmc(exported(model)); });
  };
  CHECK(with([](Config&) {}) == "");
  CHECK(with([](Config& c) { c.dropout = .1f; }) == "");
  CHECK(contains(with([](Config& c) { c.hidden = 24; }), "--hidden 24 (it has 32)"));
  CHECK(contains(with([](Config& c) { c.placement = "deepnorm"; }), "--placement"));
  CHECK(contains(with([](Config& c) { c.norm = NormKind::rmsnorm; }), "--norm"));
  CHECK(contains(with([](Config& c) { c.activation = Activation::gelu; }), "--activation"));
  CHECK(contains(with([](Config& c) { c.position = Position::sinusoidal; }), "--position"));
  CHECK(contains(with([](Config& c) { c.kv_heads = 1; }), "--kv-heads 1 (it has 2)"));
  CHECK(contains(with([](Config& c) { c.norm_eps = 1e-6f; }), "--norm-eps"));
  CHECK(contains(with([](Config& c) { c.tied = false; }), "--tied"));
}

TEST_CASE("a damaged model of llm.c is refused before anything is allocated", "[llmc]") {
  const Folder f;
  Model model = random_gpt2(small());
  write_llmc(f.path("."), exported(model));
  const std::string file = f.read("model.bin");
  for (const size_t size : {0, 3, 1000, 1023})
    CHECK(contains(refusal_of_model(f, file.substr(0, size)), "is truncated: it is shorter than a header"));
  for (size_t size = 1024; size < file.size(); size += 4 * 8)
    CHECK(contains(refusal_of_model(f, file.substr(0, size)), "is truncated: its header asks for"));
  CHECK(contains(refusal_of_model(f, file.substr(0, file.size() - 1)), "is truncated: its header asks for"));
  CHECK(contains(refusal_of_model(f, file + "x"), "is too long: its header asks for"));
  const auto with = [&](int field, int32_t value) { return refusal_of_model(f, with_int(file, field, value)); };
  CHECK(contains(with(0, 20240327), "is not a model of llm.c"));
  CHECK(contains(with(0, 20240803), "is a Llama 3 model of llm.c; train_gpt reads its GPT-2 only"));
  CHECK(contains(with(1, 1), "has version 1; train_gpt reads 3 (f32) and 5 (bf16)"));
  CHECK(contains(with(1, 5), "is too long: its header asks for"));
  CHECK(contains(with(2, 0), "has a header that cannot be used: context is 0"));
  CHECK(contains(with(2, 1 << 22), "is truncated: its header asks for"));
  CHECK(contains(with(3, -1), "has a header that cannot be used: vocab-size is -1"));
  CHECK(contains(with(3, 257), "the vocabulary of 257 is padded to 256"));
  CHECK(contains(with(4, 10000), "is truncated: its header asks for"));
  CHECK(contains(with(4, 0x7fffffff), "has a header that cannot be used: layers is 2147483647"));
  CHECK(contains(with(5, 3), "has a header that cannot be used: heads 3 does not divide channels 8"));
  CHECK(contains(with(6, 1 << 20), "is truncated: its header asks for"));
  CHECK(contains(with(7, 0x7fffffff), "is truncated: its header asks for"));
  CHECK(contains(with(8, 7), "has 7 in int 8 of its header, where llm.c has 0"));

  f.write("model.bin", file);
  const auto from = open_llmc(f.path("."));
  CHECK(from->tokenizer().kind() == Tokenizer::Kind::byte);
  const auto tokenizer = [&] { return message_of<std::runtime_error>([&] { from->tokenizer(); }); };
  f.write("gpt2_tokenizer.bin", to_llmc(Tokenizer::characters(std::string_view("ab"))));
  CHECK(contains(tokenizer(), "gpt2_tokenizer.bin has 2 tokens, and the model 256"));
  std::filesystem::remove(f.path("gpt2_tokenizer.bin"));
  CHECK(contains(from->tokenizer().unread()->why, "model.bin has no gpt2_tokenizer.bin next to it"));

  model.weights[spec_of(model, "block.1.attention.k.bias").offset] = std::numeric_limits<float>::quiet_NaN();
  write_llmc(f.path("."), exported(model));
  Model again(from->config(), false);
  CHECK(contains(message_of<std::runtime_error>([&] { open_llmc(f.path("."))->load(again); }),
                 "model.bin cannot be used: block.1.attention.k.bias is not finite"));
}

TEST_CASE("a run is exported for llm.c, and its folder is a checkpoint", "[llmc]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --tokenizer bpe:280 --steps 2 --out run" + kTiny).status == 0);
  const Outcome done = f.run("export run --to llmc --out their");
  INFO(done.err);
  REQUIRE(done.status == 0);
  CHECK(contains(done.out, "their: GPT-2 of llm.c, version 3, in model.bin, with gpt2_tokenizer.bin"));
  CHECK(same_bits(weights_in(f.path("their")), last_weights(f, "run")));
  CHECK(f.run("sample their --greedy --length 9").out == f.run("sample run --greedy --length 9").out);
  CHECK(f.run("export run --to llmc --dtype bf16 --out half").status == 0);
  CHECK(f.read("half/model.bin").size() < f.read("their/model.bin").size());
  REQUIRE(f.run("train stories.txt --placement post --steps 1 --out post" + kTiny).status == 0);
  check_refused(f, "export post --to llmc --out none", "has no --");
  CHECK(!f.has("none"));
}

// ---- gpt2_tokenizer.bin ----------------------------------------------------------------------------------

TEST_CASE("a tokenizer is written for llm.c and read again", "[llmc]") {
  for (const Tokenizer& tokenizer : {Tokenizer::bytes(), Tokenizer::characters(std::string_view("a z\u00e9\u65e5\n")),
                                     trained(""), trained("<|endoftext|>"), trained("end of text")}) {
    const std::string file = to_llmc(tokenizer);
    check_equal(tokenizer_from_llmc(file), tokenizer);
    const Folder f;
    f.write("gpt2_tokenizer.bin", file);
    check_equal(read_tokenizer(f.path("gpt2_tokenizer.bin")), tokenizer);
    check_equal(read_tokenizer(f.path(".")), tokenizer);
    uint32_t header[4];
    std::memcpy(header, file.data(), sizeof header);
    CHECK(header[2] == static_cast<uint32_t>(tokenizer.vocabulary()));
    const int end = tokenizer.vocabulary() == 401 ? 400 : tokenizer.newline();
    CHECK(header[3] == static_cast<uint32_t>(end));
  }
}

TEST_CASE("tokenizers that llm.c's file cannot hold are refused", "[llmc]") {
  const auto refused = [](const BpeTables& tables) {
    return message_of<std::invalid_argument>([&] { to_llmc(Tokenizer::bpe(Bpe(tables))); });
  };
  const std::string cannot = "llm.c's gpt2_tokenizer.bin cannot hold this tokenizer: ";
  const BpeTables tables = trained("").bpe()->tables();
  BpeTables changed = tables;
  changed.words_first = true;
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  std::swap(changed.merges[0], changed.merges[50]);
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  changed.merges.pop_back();
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  changed.tokens.push_back(std::string(256, 'a'));
  CHECK(refused(changed) == cannot + "a token has 256 bytes");
  changed.tokens.back() = "two";
  changed.tokens.push_back("ends");
  changed.special = {{400, "two"}, {401, "ends"}};
  CHECK(contains(refused(changed), cannot + "token 40"));
}

TEST_CASE("a damaged tokenizer of llm.c is refused in one line that names it", "[llmc]") {
  CHECK(refusal(file_of(bytes_and({"ab", "abc"}))) == "");
  CHECK(refusal(file_of({"a"}, 1)) == "the end of a text, 50256, is not one of its tokens");
  CHECK(refusal(file_of(bytes_and({}), 3)) == "its version is 3, and train_gpt reads 1 and 2");
  CHECK(refusal(file_of(bytes_and({}), 2, 256)) == "the end of a text, 256, is not one of its tokens");
  CHECK(refusal(file_of(bytes_and({""}))) == "token 256 is empty");
  CHECK(refusal(file_of(bytes_and({"ab", "ab"}))) == "token 257 is there twice");
  CHECK(refusal(file_of(bytes_and({"abc"}))) == "token 256 is not the merge of two tokens before it");
  CHECK(refusal(file_of(bytes_and({"abc", "ab"}))) == "token 256 is not the merge of two tokens before it");
  CHECK(refusal(file_of(bytes_and({"abc", "ab", "bc"}))) == "token 256 is not the merge of two tokens before it");
  CHECK(refusal(file_of({"a", "b", "ab"})) == "it has no token for byte 0");
  const std::string file = file_of(bytes_and({"ab", "abc"}));
  CHECK(refusal(file + "x") == "it continues after its 258 tokens");
  CHECK(refusal("x" + file.substr(1)) == "it is not a tokenizer of llm.c");
  std::string many = file;
  many.replace(8, 4, "\xff\xff\xff\xff");
  CHECK(refusal(many) == "it is cut short in token 258 of 4294967295");
  const Folder f;
  for (size_t size = 4; size < file.size(); size += size < 1020 ? 127 : 1) {
    f.write("t.bin", file.substr(0, size));
    const std::string message = message_of<std::runtime_error>([&] { read_tokenizer(f.path("t.bin")); });
    CHECK(message.starts_with(f.path("t.bin") + " cannot be used as a tokenizer: it is "));
    CHECK(count_lines(message) == 0);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {  // must throw or succeed
    std::string damaged = file;
    damaged[rng::key({seed, 1}) % damaged.size()] = static_cast<char>(rng::key({seed, 2}) >> 8);
    refusal(damaged);
  }
}

TEST_CASE("GPT-2's merges follow from the numbers of its tokens", "[llmc]") {
  const std::string encoder = shared_file("gpt2/encoder.json");
  if (encoder.empty()) return skip_test("no gpt2/encoder.json");
  const Tokenizer gpt2 = read_tokenizer(encoder);
  REQUIRE(gpt2.vocabulary() == 50257);
  check_equal(tokenizer_from_llmc(to_llmc(gpt2)), gpt2);
}
