// GGUF files that come in: number formats, keys, tokenizers, and files that are damaged or have what we do not.

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "check.hpp"
#include "data/files/files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/gguf/gguf.hpp"
#include "data/formats/gguf/gguf_file.hpp"
#include "data/formats/gguf/gguf_model.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_json.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/gguf/gguf_tokenizer.hpp"
#include "data/tokenizer/gguf/gguf_vocabulary.hpp"
#include "data/tokenizer/gguf/pre_tokenizers.hpp"
#include "data/tokenizer/pipeline/unknown.hpp"
#include "layers/embedding/position.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

using nlohmann::json;

namespace {

Config small_config(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.n_layer = 2, c.n_head = 2, c.kv_heads = 0, c.channels = 32, c.hidden = 40, c.context = 8, c.vocab_size = 256;
  if (c.window > 0) c.window = 5;
  return c;
}

std::string written(const Model& model, const Tokenizer& tokenizer = Tokenizer::bytes()) {
  const Folder f;
  write_gguf(f.path("m.gguf"), {model, tokenizer, "a run", "f32"});
  return f.read("m.gguf");
}

const std::string& small_file() {
  static const std::string file = [] {
    Config c = small_config("llama");
    c.n_layer = 1;
    return written(random_model(c));
  }();
  return file;
}

// Opens the bytes as a model.
std::unique_ptr<ForeignModel> opened(const Folder& f, const std::string& bytes) {
  f.write("m.gguf", bytes);
  return open_gguf(f.path("m.gguf"));
}

Config config_in(const std::string& bytes) {
  const Folder f;
  return opened(f, bytes)->config();
}

std::string refusal(const std::string& bytes) {
  const Folder f;
  const std::string message = message_of<std::exception>([&] {
    const auto from = opened(f, bytes);
    from->tokenizer();
    Model model(from->config(), false);
    from->load(model);
  });
  CHECK(count_lines(message) == 0);
  return message.starts_with(f.path("m.gguf")) ? message.substr(f.path("m.gguf").size()) : "NO FILE: " + message;
}

template <class T>
std::string bytes_of(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string text_of(const std::string& text) { return bytes_of<uint64_t>(text.size()) + text; }

constexpr size_t kNumberOfKeys = 16, kFirstKey = 24;  // bytes from the start of the file

// Adds a key with the type and the bytes of its value, and another that keeps the data aligned.
std::string with_key(std::string file, const std::string& key, uint32_t type, const std::string& value) {
  std::string added = text_of(key) + bytes_of(type) + value;
  const std::string name = text_of("general.filler") + bytes_of<uint32_t>(8);
  const size_t rest = (32 - (added.size() + name.size() + 8) % 32) % 32;
  added += name + text_of(std::string(rest, '-'));
  uint64_t keys = 0;
  std::memcpy(&keys, &file[kNumberOfKeys], sizeof keys);
  file.replace(kNumberOfKeys, sizeof keys, bytes_of(keys + 2));
  return file.insert(kFirstKey, added);
}

// Replaces the number in a key.
template <class T>
std::string with_number(std::string file, const std::string& key, T number) {
  const size_t at = file.find(text_of(key));
  REQUIRE(at != file.npos);
  return file.replace(at + text_of(key).size() + sizeof(uint32_t), sizeof number, bytes_of(number));
}

// Replaces a number of a tensor in f32.
std::string with_element(std::string file, const std::string& tensor, size_t index, float number) {
  const Folder f;
  f.write("m.gguf", file);
  const GgufFile read(f.path("m.gguf"));
  for (const GgufTensor& t : read.tensors())
    if (t.name == tensor) return file.replace(t.begin + index * sizeof number, sizeof number, bytes_of(number));
  FAIL("no tensor " << tensor);
  return "";
}

// The key gets another name of the same length, so that the file lacks it.
std::string without_key(std::string file, const std::string& key) {
  const size_t at = file.find(text_of(key));
  REQUIRE(at != file.npos);
  return file.replace(at + sizeof(uint64_t), 1, "x");
}

json keys_of(const GgufTokenizer& t) {
  json keys = {{"tokenizer.ggml.model", t.model},   {"tokenizer.ggml.tokens", t.tokens},
               {"tokenizer.ggml.token_type", t.types}, {"tokenizer.ggml.add_bos_token", t.add_first}};
  if (!t.pre.empty()) keys["tokenizer.ggml.pre"] = t.pre;
  if (!t.merges.empty()) keys["tokenizer.ggml.merges"] = t.merges;
  if (!t.scores.empty()) keys["tokenizer.ggml.scores"] = t.scores;
  if (t.first) keys["tokenizer.ggml.bos_token_id"] = *t.first;
  if (t.end) keys["tokenizer.ggml.eos_token_id"] = *t.end;
  if (t.unknown) keys["tokenizer.ggml.unknown_token_id"] = *t.unknown;
  if (t.dummy_prefix) keys["tokenizer.ggml.add_space_prefix"] = *t.dummy_prefix;
  return keys;
}

json keys_of(const Tokenizer& tokenizer, int more = 0) {
  return keys_of(gguf_tokenizer(tokenizer, tokenizer.vocabulary() + more));
}

Tokenizer read(const json& keys) { return tokenizer_in_gguf("m.gguf", keys); }

std::string unsupported(const json& keys) { return message_of<UnsupportedPart>([&] { read(keys); }); }

}  // namespace

// python_ref/check_gguf.py writes test/gguf/types.gguf: llama.cpp quantized the numbers, and gguf.quants read them.
TEST_CASE("blocks of every number format are the numbers that the package gguf reads", "[gguf]") {
  const GgufFile file("test/gguf/types.gguf");
  int types = 0;
  for (const GgufTensor& t : file.tensors()) {
    if (t.name.ends_with(".f32")) continue;
    INFO(t.name);
    const auto want = std::find_if(file.tensors().begin(), file.tensors().end(),
                                   [&](const GgufTensor& other) { return other.name == t.name + ".f32"; });
    REQUIRE(want != file.tensors().end());
    CHECK(t.type->name == t.name);
    std::vector<float> a(256), b(256);
    REQUIRE(t.shape == std::vector<uint64_t>{256});
    file.read(a.data(), t);
    file.read(b.data(), *want);
    double largest = 0, error = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(b[i])));
      error = std::max(error, std::abs(static_cast<double>(a[i]) - b[i]));
    }
    CHECK(largest > 1);
    check_error("GGUF blocks", error / largest, 2e-7);  // products and sums may be fused
    ++types;
  }
  CHECK(types == 13);
}

// Writes the model and reads it again, as a model of this preset (null: any). Returns the file.
std::string check_comes_back(const Model& model, const char* preset = nullptr) {
  const Folder f;
  const std::string file = written(model);
  const auto from = opened(f, file);
  if (preset) CHECK(std::string(from->preset()) == preset);
  CHECK(from->tokenizer().kind() == Tokenizer::Kind::byte);
  Model again(from->config(), false);
  from->load(again);
  REQUIRE(again.floats == model.floats);
  if (!model.config.norm_unit_offset)  // 1 + w is rounded
    CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
  CHECK(written(again) == file);
  const Config& a = again.config;
  Config b = model.config;
  if (b.rope_magnitude) CHECK(a.rope_magnitude.value() == Approx(*b.rope_magnitude).epsilon(1e-6));
  b.rope_magnitude = a.rope_magnitude;  // a file rounds it
  CHECK(same_model(a, b));
  return file;
}

TEST_CASE("a model of every architecture comes back from its GGUF file", "[gguf]") {
  for (const char* preset :
       {"gpt2", "llama", "qwen2", "qwen3", "olmo", "olmo2", "gemma2", "gemma3", "mixtral", "qwen3-moe", "olmoe",
        "bloom", "gpt-neox", "phi-2"}) {
    INFO(preset);
    check_comes_back(random_model(small_config(preset)), preset);
  }
}

TEST_CASE("variants of an architecture come back from its GGUF file", "[gguf]") {
  struct Case {
    const char* preset;
    void (*change)(Config&);
  };
  const std::vector<Case> cases = {
      {"gpt2", [](Config& c) { c.tied = false; c.kv_heads = 1; }},
      {"llama", [](Config& c) { c.tied = true; c.kv_heads = 1; c.head_dim = 24; c.norm_eps = 3e-4f; }},
      {"llama", [](Config& c) { c.bias = true; c.qkv_bias.reset(); }},
      {"llama", [](Config& c) { c.qkv_bias = true; }},
      {"qwen2", [](Config& c) { c.tied = true; c.head_bias = true; }},
      {"qwen3", [](Config& c) { c.qkv_bias = true; c.rope_theta = 12345; }},
      {"olmo2", [](Config& c) { c.tied = true; }},  // llama.cpp's file has the matrix twice
      {"olmoe", [](Config& c) { c.tied = true; }},
      {"gemma2", [](Config& c) { c.window = 0; c.rope_fraction = .5f; c.attention_cap = 7; }},
      {"gpt-neox", [](Config& c) { c.block = BlockForm::sequential; c.rope_fraction = .5f; c.kv_heads = 1; }},
      {"bloom", [](Config& c) { c.tied = false; c.kv_heads = 1; }},
  };
  for (const Case& one : cases) {
    INFO(one.preset);
    Config c = small_config(one.preset);
    one.change(c);
    check_comes_back(random_model(c));
  }
}

TEST_CASE("models that are variants of a preset become architectures of their own", "[gguf]") {
  struct Case {
    const char *architecture, *preset;
    void (*change)(Config&);
  };
  const std::vector<Case> cases = {
      {"gemma", "gemma2", [](Config& c) {
         c.placement = "pre";
         c.window = 0, c.window_layers = "all";
         c.attention_cap = c.logit_cap = 0;
       }},
      {"stablelm", "llama", [](Config& c) {
         c.norm = NormKind::layernorm;
         c.norm_bias = true;
         c.rope_fraction = .25f;
       }},
      {"stablelm", "llama", [](Config& c) {
         c.norm = NormKind::layernorm;
         c.norm_bias = c.qkv_bias = true;
         c.block = BlockForm::parallel_shared;
       }},
      {"starcoder2", "gpt2", [](Config& c) { c.position = Position::rope; c.kv_heads = 1; c.rope_theta = 999; }},
      {"phi3", "llama", [](Config& c) { c.rope_fraction = .5f; }},
      {"phi3", "llama",
       [](Config& c) {
         c.rope_fraction = .5f, c.rope_scaling = RopeScaling::longrope, c.rope_factor = 2, c.rope_original = 4;
         c.rope_short = "1.0,1.5,2.0,2.25", c.rope_long = "2.0,3.0,4.5,1.08", c.rope_magnitude = 1.25;
       }},
      {"smollm3", "llama", [](Config& c) { c.n_layer = 5, c.rope_layers = "3 of 4"; }},
      {"granite", "llama",
       [](Config& c) {
         c.branch_scale = .22, c.logit_scale = 1 / 13., c.embedding_scale = 12.1, c.attention_scale = .05;
       }},
      {"smollm3", "llama", [](Config& c) { c.n_layer = 4, c.rope_layers = "0,1,2"; c.tied = true; c.qkv_bias = true; }},
  };
  for (const Case& one : cases) {
    INFO(one.architecture);
    Config c = small_config(one.preset);
    one.change(c);
    CHECK(contains(check_comes_back(random_model(c)), text_of(one.architecture)));
  }
}

// OLMo 3 and Gemma 3. RoPE is not stretched in layers with a window, and Gemma 3 has another base there.
TEST_CASE("windows in some layers come back from a GGUF file", "[gguf]") {
  const auto with = [](const std::string& preset, const std::string& layers, std::optional<double> base) {
    Config c = small_config(preset);
    c.n_layer = 7, c.window = 5, c.window_layers = layers, c.window_rope_theta = base;
    return c;
  };
  for (const char* layers : {"3 of 4", "5 of 6", "all", "last 1 of 2", "0,3"}) {
    INFO(layers);
    const std::string olmo = check_comes_back(random_model(with("olmo2", layers, 5e5)), "olmo2");
    CHECK(written(random_model(with("olmo2", layers, {}))) == olmo);
    check_comes_back(random_model(with("gemma3", layers, 777.5)), "gemma3");
    const std::string gemma = check_comes_back(random_model(with("gemma3", layers, 1e6)), "gemma3");
    CHECK(written(random_model(with("gemma3", layers, {}))) == gemma);
  }
  Config c = with("gemma3", "5 of 6", 1e4);
  c.tied = false, c.logit_cap = 30, c.rope_fraction = .5f, c.rope_scaling = RopeScaling::linear, c.rope_factor = 8;
  const std::string file = check_comes_back(random_model(c), "gemma3");
  CHECK(!contains(file, "sliding_window_pattern"));  // as llama.cpp's converter writes it
  c.window = c.context;  // RoPE still has another base
  check_comes_back(random_model(c), "gemma3");
  c = with("olmo2", "3 of 4", 5e5);
  c.rope_scaling = RopeScaling::yarn, c.rope_factor = 8, c.rope_magnitude = 1.25;
  check_comes_back(random_model(c), "olmo2");
  c.window_layers = "none";
  CHECK(config_in(written(random_model(c))).window == 0);
}

TEST_CASE("llama.cpp's own set of layers with a window is read", "[gguf]") {
  Config c = small_config("gemma3");
  c.n_layer = 7, c.window_layers = "5 of 6", c.rope_theta = 12345;
  const std::string file = written(random_model(c));
  CHECK(config_in(file).window_layers == "5 of 6");
  CHECK(config_in(without_key(file, "gemma3.rope.freq_base_swa")).window_rope_theta == 1e4);
  CHECK(config_in(without_key(file, "gemma3.attention.sliding_window")).window == 0);
  const auto layers = [&](uint32_t type, const std::string& value) {
    return config_in(with_key(file, "gemma3.attention.sliding_window_pattern", type, value)).window_layers;
  };
  CHECK(layers(4, bytes_of(3u)) == "2 of 3");
  CHECK(layers(4, bytes_of(1u)) == "none");
  CHECK(layers(4, bytes_of(0u)) == "all");
  const auto list = [](uint32_t type, const auto& values) {
    std::string bytes = bytes_of(type) + bytes_of<uint64_t>(values.size());
    for (const auto x : values) bytes += bytes_of(x);
    return bytes;
  };
  CHECK(layers(9, list(7, std::vector<char>{1, 0, 1, 0, 1, 0, 1})) == "1 of 2");
  CHECK(layers(9, list(5, std::vector<int32_t>{0, 0, 1, 1, 0, 0, 1})) == "last 2 of 4");
  const auto refused = [&](const std::string& key, uint32_t type, const std::string& value) {
    return refusal(with_key(file, key, type, value));
  };
  CHECK(refused("gemma3.attention.sliding_window_pattern", 9, list(7, std::vector<char>{1, 0})) ==
        " cannot be used: attention.sliding_window_pattern is not a list of 7 layers");
  CHECK(contains(refused("gemma3.attention.sliding_window_pattern", 8, text_of("x")), "is not a whole number"));
  CHECK(contains(refusal(with_key(small_file(), "llama.attention.sliding_window_pattern", 4, bytes_of(2u))),
                 "is a key that train_gpt does not know"));

  c = small_config("olmo2");
  c.n_layer = 4, c.window = 5, c.window_layers = "1 of 2";
  const std::string olmo = written(random_model(c));
  CHECK(config_in(olmo).window_rope_theta == 5e5);
  CHECK(config_in(without_key(olmo, "olmo2.attention.sliding_window_pattern")).window_layers == "3 of 4");
  // llama.cpp reads this base of OLMo 3, and rotates by the other one.
  CHECK(contains(refusal(with_key(olmo, "olmo2.rope.freq_base_swa", 6, bytes_of(1e4f))),
                 "rope.freq_base_swa is 10000.0; train_gpt has 500000.0 only"));
  CHECK(refusal(with_key(olmo, "olmo2.rope.freq_base_swa", 6, bytes_of(5e5f))) == "NO FILE: ");

  // Keys of the published OLMo 3 that say what llama.cpp computes without them.
  c.rope_scaling = RopeScaling::yarn, c.rope_factor = 8, c.window_rope_theta = 5e5;
  const std::string yarn = written(random_model(c));
  const auto add = [&](const std::string& key, float number) {
    return refusal(with_key(yarn, "olmo2.rope.scaling." + key, 6, bytes_of(number)));
  };
  CHECK(add("yarn_attn_factor", 1.2079441541679836f) == "NO FILE: ");
  CHECK(add("yarn_beta_fast", 32) == "NO FILE: ");
  CHECK(add("yarn_beta_slow", 1) == "NO FILE: ");
  CHECK(add("yarn_ext_factor", 1) == "NO FILE: ");
  CHECK(contains(add("yarn_attn_factor", 1), "yarn_attn_factor is 1.0; train_gpt has 1.2079"));
  CHECK(contains(add("yarn_beta_fast", 16), "yarn_beta_fast is 16.0; train_gpt has 32.0 only"));
}

TEST_CASE("stretched RoPE comes back from a GGUF file", "[gguf]") {
  struct Case {
    const char* preset;
    void (*change)(Config&);
  };
  const std::vector<Case> cases = {
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::linear; c.rope_factor = 2.5f; }},
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::linear; c.rope_factor = 1; c.rope_original = 3; }},
      {"qwen2", [](Config& c) { c.rope_scaling = RopeScaling::linear; c.rope_factor = 4; c.rope_magnitude = 1.5; }},
      {"qwen3", [](Config& c) { c.rope_scaling = RopeScaling::yarn; c.rope_factor = 4; c.rope_original = 4096; }},
      {"phi-2", [](Config& c) { c.rope_scaling = RopeScaling::yarn; c.rope_factor = 3; c.rope_magnitude = .7; }},
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::yarn; c.rope_factor = 8; c.rope_magnitude = 1.2079442; }},
      // 1 mixed pair, 3, none, and two of the others
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::llama3; c.rope_factor = 8; c.rope_original = 8192; }},
      {"mixtral", [](Config& c) { c.rope_scaling = RopeScaling::llama3; c.rope_factor = 32; c.rope_original = 8192; }},
      {"llama", [](Config& c) { c.branch_scale = .22f;  // Granite
                                c.rope_scaling = RopeScaling::llama3; c.rope_factor = 8; c.rope_original = 8192; }},
      {"llama", [](Config& c) { c.rope_theta = 100; c.rope_scaling = RopeScaling::llama3; c.rope_factor = 5;
                                c.rope_original = 50; }},
      {"llama", [](Config& c) { c.rope_theta = 1e6f; c.rope_scaling = RopeScaling::llama3; c.rope_factor = 3;
                                c.rope_original = 1024; }}};
  for (const Case& one : cases) {
    Config c = small_config(one.preset);
    one.change(c);
    INFO(one.preset << " " << c.rope_theta << " " << name_of(kRopeScalings, c.rope_scaling));
    check_comes_back(random_model(c), one.preset);
  }
  Config c = small_config("llama");
  c.rope_scaling = RopeScaling::dynamic, c.rope_factor = 4;  // begins beyond the context
  CHECK(config_in(written(random_model(c))).rope_scaling == RopeScaling::none);
}

TEST_CASE("a Granite without RoPE is refused", "[gguf]") {
  Config c = small_config("llama");
  c.logit_scale = .125f;
  const std::string file = written(random_model(c));
  const auto finetuned = [&](bool x) {
    return refusal(with_key(file, "granite.rope.scaling.finetuned", 7, bytes_of(x)));
  };
  CHECK(finetuned(true) == "NO FILE: ");
  CHECK(contains(finetuned(false), "rope.scaling.finetuned is not true; train_gpt has true only"));
}

// The numbers do not say by which settings they came about.
TEST_CASE("other settings of Llama 3's stretching come back with the same angles", "[gguf]") {
  struct Case {
    float theta, factor, slow, fast;
    int original;
  };
  for (const auto& [theta, factor, slow, fast, original] :
       {Case{100, 5, 1.5f, 7, 50}, Case{1e4f, 8, 2, 4, 8192}, Case{1e4f, 8, 1, 4, 32768}, Case{1e4f, 8, 1, 4, 1 << 20},
        Case{1e4f, 8, 1, 4, 4}, Case{10, 16, .25f, 100, 77}, Case{1e6f, 3, 1, 1.01f, 1024},
        Case{5e5f, 32, 3, 3.5f, 8191}, Case{1e4f, 1, 1, 4, 8192}}) {
    Config c = small_config("llama");
    c.rope_theta = theta, c.rope_scaling = RopeScaling::llama3, c.rope_factor = factor;
    c.rope_slow = slow, c.rope_fast = fast, c.rope_original = original;
    const Model model = random_model(c);
    const Config again = config_in(written(model));
    INFO(theta << " " << factor << " " << slow << " " << fast << " " << original);
    const std::vector<double> want = rope_frequencies(16, RopeAngles(model.config));
    const std::vector<double> got = rope_frequencies(16, RopeAngles(again));
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-5));
  }
}

// rope_freqs.weight by llama.cpp's converter, which computes in floats, for Llama 3.1 8B and Llama 3.2 1B. The
// other numbers are 1 before these, and the factor behind them.
TEST_CASE("the stretching of Llama 3.1 and 3.2 is recognized", "[gguf]") {
  struct Case {
    int head_dim;
    float factor;
    int first;
    std::vector<float> mixed;
  };
  const std::vector<Case> cases = {
      {128, 8, 29, {1.2074838876724243f, 1.5534145832061768f, 2.026313066482544f, 2.6945300102233887f,
                    3.684253215789795f, 5.257327079772949f}},
      {64, 32, 15, {1.6513292789459229f, 3.2922627925872803f, 9.666730880737305f}}};
  for (const Case& one : cases) {
    INFO(one.head_dim);
    Config c = small_config("llama");
    c.rope_theta = 5e5f, c.context = 16, c.head_dim = one.head_dim;
    c.rope_scaling = RopeScaling::llama3, c.rope_factor = one.factor, c.rope_original = 8192;
    const std::string ours = written(random_model(c));
    std::string file = ours;
    for (int i = 0; i < one.head_dim / 2; ++i) {
      const int at = i - one.first, count = static_cast<int>(one.mixed.size());
      file = with_element(file, "rope_freqs.weight", i, at < 0 ? 1 : at < count ? one.mixed[at] : one.factor);
    }
    const Config found = config_in(file);
    CHECK(found.rope_scaling == RopeScaling::llama3);
    CHECK(found.rope_factor == one.factor);
    CHECK(found.rope_original == 8192);
    CHECK(found.rope_slow == 1);
    CHECK(found.rope_fast == 4);
    for (size_t i = 0; i < one.mixed.size(); ++i)
      CHECK(config_in(with_element(ours, "rope_freqs.weight", one.first + i, one.mixed[i])).rope_original == 8192);
    const auto changed = [&](int i, float x) { return refusal(with_element(file, "rope_freqs.weight", i, x)); };
    const std::string other = " cannot be used: rope_freqs.weight has numbers that Llama 3's formula does not give, "
                              "and train_gpt has no others";
    CHECK(changed(one.first, one.mixed[0] * 1.0001f) == other);
    CHECK(changed(0, 1.001f) == other);
    CHECK(changed(0, one.factor) == other);
    CHECK(changed(one.head_dim / 2 - 1, one.factor * 1.1f) == other);
    for (const float bad : {0.f, -1.f, 1e-30f, std::nanf(""), HUGE_VALF})
      for (const int i : {0, one.first, one.head_dim / 2 - 1}) {
        INFO(bad << " at " << i);
        CHECK(changed(i, bad) == other);
      }
  }
}

TEST_CASE("numbers of rope_freqs.weight that are all equal are no stretching of Llama 3", "[gguf]") {
  Config c = small_config("llama");
  c.rope_scaling = RopeScaling::llama3, c.rope_factor = 8;
  const auto with = [&](float number) {
    std::string file = written(random_model(c));
    for (int i = 0; i < 8; ++i) file = with_element(file, "rope_freqs.weight", i, number);
    return file;
  };
  CHECK(config_in(with(1)).rope_scaling == RopeScaling::none);
  CHECK(config_in(with(3)).rope_scaling == RopeScaling::linear);
  CHECK(config_in(with(3)).rope_factor == 3);
  CHECK(contains(refusal(with(.5f)), "that Llama 3's formula does not give"));
  std::string file = written(random_model(c));
  const auto both = with_key(file, "llama.rope.scaling.factor", 6, bytes_of(2.f));
  CHECK(contains(refusal(both), "rope_freqs.weight and rope.scaling.factor both stretch RoPE"));
  const size_t size = file.find(text_of("rope_freqs.weight")) + 8 + 17 + 4;
  CHECK(contains(refusal(file.replace(size, 8, bytes_of<uint64_t>(7))), "rope_freqs.weight has 7 numbers, and the"));
  c.qkv_bias = true;
  std::string qwen = written(random_model(c));
  for (size_t at = 0; (at = qwen.find("llama", at)) != qwen.npos;) qwen.replace(at, 5, "qwen2");
  CHECK(contains(refusal(qwen), " holds 'rope_freqs.weight', which the model of its header does not have"));
}

TEST_CASE("a model without RoPE has no factors of its pairs, whatever its options say", "[gguf]") {
  for (const RopeScaling scaling : {RopeScaling::longrope, RopeScaling::llama3}) {
    Config c = small_config("gpt2");
    c.rope_scaling = scaling, c.rope_factor = 2, c.rope_original = 4;
    c.rope_short = c.rope_long = "1.0,1.5,2.0,2.5,3.0,3.5,4.0,4.5";
    const std::string file = written(random_model(c));
    CHECK(!contains(file, "rope_f"));
    CHECK(config_in(file).position == Position::learned);
  }
}

// As llama.cpp's converter writes Phi-3 and Phi-4-mini.
TEST_CASE("the two tensors of longrope are read with the original context and the magnitude", "[gguf]") {
  Config c = small_config("llama");
  c.rope_scaling = RopeScaling::longrope, c.rope_factor = 2, c.rope_original = 4, c.rope_magnitude = 1.25;
  c.rope_short = "1.0,1.5,2.0,2.5,3.0,3.5,4.0,4.5", c.rope_long = "2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0";
  const std::string file = written(random_model(c));
  CHECK(!contains(file, "rope.scaling.type"));
  CHECK(!contains(file, "as given"));
  const Config got = config_in(with_element(file, "rope_factors_long.weight", 7, 9.0625f));
  CHECK(got.rope_long == "2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0625");
  CHECK(got.rope_short == c.rope_short);
  CHECK(*got.rope_magnitude == 1.25);
  CHECK(got.rope_original == 4);
  CHECK(got.rope_factor == 2);  // the context by the original one
  CHECK(*config_in(without_key(file, "phi3.rope.scaling.attn_factor")).rope_magnitude == 1);
  CHECK(config_in(without_key(file, "phi3.rope.scaling.original_context_length")).rope_original == c.context);
  const std::string typed = with_key(file, "phi3.rope.scaling.type", 8, text_of("longrope"));
  CHECK(config_in(typed).rope_scaling == RopeScaling::longrope);
  CHECK(contains(refusal(with_element(file, "rope_factors_short.weight", 0, 0)), "has a number that is not positive"));
  CHECK(contains(refusal(with_key(file, "phi3.rope.scaling.factor", 6, bytes_of(2.f))), "both stretch RoPE"));
  std::string one = file;
  one.replace(one.find("rope_factors_long.weight"), 4, "none");
  CHECK(contains(refusal(one), "rope_factors_long.weight is missing"));
  std::string shorter = file;
  shorter.replace(shorter.find(text_of("rope_factors_long.weight")) + 8 + 24 + 4, 8, bytes_of<uint64_t>(7));
  CHECK(contains(refusal(shorter), "rope_factors_long.weight has 7 numbers, and the header asks for 8"));
  c.rope_scaling = RopeScaling::none;
  c.rope_fraction = .5f;
  const std::string plain = written(random_model(c));
  CHECK(contains(refusal(with_key(plain, "phi3.rope.scaling.type", 8, text_of("longrope"))), "which train_gpt lacks"));
}

// Phi-3's window, which llama.cpp ignores.
TEST_CASE("a window that llama.cpp ignores is read and not written", "[gguf]") {
  Config c = small_config("llama");
  c.rope_fraction = .5f;
  const Folder f;
  const std::string file = written(random_model(c));
  const auto from = opened(f, with_key(file, "phi3.attention.sliding_window", 4, bytes_of(3u)));
  CHECK(from->config().window == 3);
  const Tokenizer bytes = Tokenizer::bytes();
  const Model model(from->config(), false);
  CHECK(contains(message_of<std::invalid_argument>([&] { check_gguf({model, bytes, "", "f32"}); }),
                 "has no --window 3 (it has 0)"));
}

// llama.cpp found the loss of transformers for these files (python_ref/check_gguf.py).
TEST_CASE("a file that llama.cpp computes right has the weights of its folder", "[gguf]") {
  for (const std::string name : {"gpt2", "llama", "llama3.2", "olmo3"}) {
    const auto file = find_format("gguf").open("test/gguf/" + name + ".gguf");
    const auto folder = find_format("hf").open("test/huggingface/" + name);
    Model a(file->config(), false), b(folder->config(), false);
    file->load(a);
    folder->load(b);
    REQUIRE(a.floats == b.floats);
    CHECK(same_bits({a.weights.get(), a.floats}, {b.weights.get(), b.floats}));
    CHECK(a.config.rope_theta == b.config.rope_theta);
    CHECK(a.config.norm_eps == b.config.norm_eps);
  }
}

TEST_CASE("a GGUF file with quantized weights is read", "[gguf]") {
  const Folder f;
  Config c = small_config("llama");
  c.hidden = 64;
  const Model model = random_model(c);
  for (const auto& [dtype, bound] : {std::pair("f16", 1e-3), {"bf16", 8e-3}, {"q8_0", 8e-3}}) {
    INFO(dtype);
    write_gguf(f.path("m.gguf"), {model, Tokenizer::bytes(), "a run", dtype});
    const auto from = open_gguf(f.path("m.gguf"));
    Model again(from->config(), false);
    from->load(again);
    double error = 0, largest = 0;
    for (size_t i = 0; i < model.floats; ++i) {
      error = std::max(error, std::abs(static_cast<double>(again.weights[i]) - model.weights[i]));
      largest = std::max(largest, std::abs(static_cast<double>(model.weights[i])));
    }
    CHECK(error > 0);
    CHECK(error < bound * largest);
  }
}

TEST_CASE("keys of a GGUF file that we do not compute are refused by name", "[gguf]") {
  const std::string& file = small_file();
  CHECK(refusal(file) == "NO FILE: ");
  const auto add = [&](const std::string& key, auto number) {
    using T = decltype(number);
    const uint32_t type = std::is_same_v<T, bool> ? 7 : std::is_same_v<T, float> ? 6 : 4;
    return refusal(with_key(file, key, type, bytes_of(number)));
  };
  const auto add_text = [&](const std::string& key, const std::string& text) {
    return refusal(with_key(file, key, 8, text_of(text)));
  };
  CHECK(add("llama.future", 1u) == " cannot be used: 'future' is a key that train_gpt does not know, and it may change "
                                   "what the model computes");
  CHECK(add("general.future", 1u) == "NO FILE: ");
  CHECK(add("qwen2.future", 1u) == "NO FILE: ");
  CHECK(add_text("llama.rope.scaling.type", "none") == "NO FILE: ");
  CHECK(add_text("llama.rope.scaling.type", "longrope") ==
        " cannot be used: rope.scaling.type is \"longrope\", which train_gpt lacks");
  CHECK(add_text("llama.rope.scaling.type", "yarn") == "NO FILE: ");
  CHECK(add("llama.rope.scaling.factor", 2.f) == "NO FILE: ");
  CHECK(add("llama.rope.scaling.factor", 0.f) == "NO FILE: ");  // no factor for llama.cpp
  CHECK(config_in(with_key(file, "llama.rope.scale_linear", 6, bytes_of(3.f))).rope_factor == 3);
  CHECK(contains(add("llama.rope.scaling.factor", .5f), "rope-factor is 0.5"));
  CHECK(contains(add("llama.rope.scaling.factor", std::nanf("")), "rope.scaling.factor is not a number"));
  CHECK(contains(add("llama.rope.scaling.attn_factor", 2.f), "attn_factor is 2.0; train_gpt has 1.0 only"));
  for (const char* name : {"yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor", "yarn_attn_factor",
                           "yarn_log_multiplier"})
    CHECK(contains(add("llama.rope.scaling." + std::string(name), 7.f), std::string(name) + " is 7.0; train_gpt has"));
  CHECK(add("llama.attention.causal", true) == "NO FILE: ");
  CHECK(contains(add("llama.attention.causal", false), "attention.causal is false"));
  CHECK(contains(add("llama.attention.sliding_window", 4u), "attention.sliding_window is 4; train_gpt has 0 only"));
  CHECK(contains(add("llama.expert_count", 8u), "lacks") == false);
  CHECK(add("llama.expert_count", 0u) == "NO FILE: ");
  CHECK(add("split.count", 1u) == "NO FILE: ");
  CHECK(contains(add("split.count", 3u), " is one of several files of a model: join them with llama-gguf-split"));

  const auto change = [&](const std::string& key, auto number) { return refusal(with_number(file, key, number)); };
  CHECK(contains(change("llama.attention.value_length", 8u), "attention.value_length is 8; train_gpt has 16 only"));
  CHECK(contains(change("llama.rope.dimension_count", 8u), "rope.dimension_count is 8; train_gpt has 16 only"));
  CHECK(contains(change("llama.feed_forward_length", 48u),
                 ": 'blk.0.ffn_down.weight' has the shape (32, 40), and its header asks for (32, 48)"));
  CHECK(contains(change("llama.block_count", 2u), " lacks the tensor 'blk.1.attn_k.weight'"));
  CHECK(contains(change("llama.block_count", 0u), " cannot be used: "));
  CHECK(contains(change("llama.block_count", 4000000000u), "block_count is not a whole number from 0 to"));
  CHECK(contains(change("llama.vocab_size", 200u), "its header asks for (200, 32)"));
  CHECK(contains(change("llama.attention.layer_norm_rms_epsilon", std::nanf("")), "layer_norm_rms_epsilon is not a"));

  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"})
    CHECK(refusal(without_key(file, "llama." + std::string(key))) ==
          " cannot be used: " + std::string(key) + " is missing");
  CHECK(contains(refusal(without_key(file, "general.architecture")), "general.architecture is missing"));
  // llama.cpp derives these.
  for (const char* key : {"attention.head_count_kv", "attention.key_length", "rope.freq_base", "vocab_size"})
    CHECK(refusal(without_key(file, "llama." + std::string(key))) == "NO FILE: ");

  std::string other = file;
  other.replace(other.find(text_of("llama")) + 8, 5, "mamba");
  CHECK(refusal(other) ==
        " cannot be used: general.architecture is 'mamba', and train_gpt reads bloom gemma gemma2 gemma3 gpt2 "
        "gptneox granite llama olmo olmo2 olmoe phi2 phi3 qwen2 qwen3 qwen3moe smollm3 stablelm starcoder starcoder2");
}

TEST_CASE("a key with a value for each layer is read if they are equal", "[gguf]") {
  const std::string file = without_key(small_file(), "llama.attention.head_count_kv");
  const auto with_list = [&](std::vector<uint32_t> values) {
    std::string bytes = bytes_of<uint32_t>(4) + bytes_of<uint64_t>(values.size());
    for (const uint32_t x : values) bytes += bytes_of(x);
    return refusal(with_key(file, "llama.attention.head_count_kv", 9, bytes));
  };
  CHECK(with_list({2, 2}) == "NO FILE: ");
  CHECK(with_list({2, 1}) == " cannot be used: 'llama.attention.head_count_kv' differs between layers, and train_gpt "
                             "has one value for all");
  CHECK(contains(with_list({}), "differs between layers"));
}

TEST_CASE("a damaged GGUF file is refused in one line", "[gguf]") {
  const std::string& file = small_file();
  for (size_t size = 4; size < file.size(); size += 1 + size / 60) {
    INFO(size);
    CHECK(!refusal(file.substr(0, size)).starts_with("NO FILE"));
  }
  CHECK(!refusal(file.substr(0, file.size() - 32)).starts_with("NO FILE"));
  const auto with = [&](size_t at, auto number) {
    return refusal(std::string(file).replace(at, sizeof number, bytes_of(number)));
  };
  CHECK(with(0, 0x46554747u + 1) == " is no GGUF file");
  CHECK(with(4, 1u) == " has version 1 of GGUF; train_gpt reads versions 2 and 3");
  CHECK(with(4, 2u) == "NO FILE: ");
  CHECK(with(4, 0x03000000u) == " is a GGUF file for big-endian processors, which train_gpt does not read");
  CHECK(contains(with(8, ~uint64_t{0}), "it asks for too many tensors or keys"));
  CHECK(contains(with(16, ~uint64_t{0}), "it asks for too many tensors or keys"));
  CHECK(contains(with(24, ~uint64_t{0}), "its header does not fit into the file"));
  const size_t type = file.find(text_of("general.architecture")) + 28;
  CHECK(contains(with(type, 13u), "its key 'general.architecture' has the unknown type 13"));
  const size_t list = file.find(text_of("tokenizer.ggml.tokens")) + 8 + 21 + 4;
  CHECK(contains(with(list, 9u), "its key 'tokenizer.ggml.tokens' is a list of lists"));
  CHECK(contains(with(list + 4, ~uint64_t{0}), "its header does not fit into the file"));
  const auto add = [&](const std::string& key, uint32_t x) { return refusal(with_key(file, key, 4, bytes_of(x))); };
  CHECK(contains(add("llama.block_count", 1), "it holds the key 'llama.block_count' twice"));
  CHECK(contains(add("general.alignment", 0), "its key 'general.alignment' is no power of two up to 2^20"));
  CHECK(contains(add("general.alignment", 24), "its key 'general.alignment' is no power of two"));
  const size_t tensor = file.find(text_of("blk.0.attn_q.weight")) + 8 + 19;  // u32, 2 × u64, u32 type, u64 offset
  CHECK(contains(with(tensor, 5u), "its tensor 'blk.0.attn_q.weight' has 5 dimensions instead of 1 to 4"));
  CHECK(contains(with(tensor + 4, uint64_t{0}), "has a shape that no tensor has"));
  CHECK(contains(with(tensor + 4, uint64_t{1} << 40), "has a shape that no tensor has"));
  CHECK(contains(with(tensor + 4, uint64_t{1} << 30), "is truncated"));
  CHECK(contains(with(tensor + 20, 23u), "has numbers of the type IQ4_XS; train_gpt reads F32, F16, BF16, Q8_0, Q4_0"));
  CHECK(contains(with(tensor + 20, 77u), "has numbers of the type 77; train_gpt reads"));
  CHECK(contains(with(tensor + 20, 12u), "has rows that are no whole blocks of 256 numbers"));
  CHECK(contains(with(tensor + 24, uint64_t{32}), "does not begin where the tensor before it ends"));
  CHECK(contains(refusal(std::string(file).replace(tensor - 7, 1, "z")), "lacks the tensor 'blk.0.attn_q.weight'"));
  CHECK(contains(refusal(std::string(file).replace(file.size() - 4, 4, bytes_of(std::nanf("")))), "is not finite"));
}

TEST_CASE("tokenizers come back from GGUF", "[gguf]") {
  const std::string text = "It's 12 or 345 cats,\n\n  isn't it? \xc3\xa9\xe4\xb8\xad";
  const auto same = [&](const Tokenizer& before, int more = 0) {
    const Tokenizer after = read(keys_of(before, more)).finding_special(true);
    CHECK(after.kind() == before.kind());
    CHECK(after.vocabulary() == before.vocabulary());
    CHECK(after.encode(text, Unknown::skip) == before.encode(text, Unknown::skip));
    CHECK(after.begin() == before.begin());
    if (before.bpe()) CHECK(after.bpe()->tables().words_first == before.bpe()->tables().words_first);
    for (int token = 0; token < before.vocabulary(); ++token) {
      CHECK(after.decode(token) == before.decode(token));
      CHECK(after.name_of_special(token) == before.name_of_special(token));
    }
    CHECK(keys_of(after, more) == keys_of(before, more));
  };
  const Tokenizer bytes = Tokenizer::bytes();
  same(bytes);
  same(bytes, 3);
  same(bytes.with_special({"<|endoftext|>", "<|im_start|>"}));
  same(bytes.with_special({"<|endoftext|>"}).with_begin(256));
  const Tokenizer letters = Tokenizer::characters(std::vector<uint32_t>{0, '\n', ' ', '2', '\\', 'a', 'c', 's', 0xe9});
  same(letters, 2);
  same(letters.with_special({"<|endoftext|>"}).with_begin(9));
  const Tokenizer bpe = Tokenizer::bpe(train_bpe("the cat and the hat isn't 345 cats or 12", 280));
  same(bpe);
  same(bpe, 5);
  BpeTables tables = bpe.bpe()->tables();
  tables.tokens.insert(tables.tokens.end(), {"<s>", "<|endoftext|>"});
  const auto end = static_cast<uint32_t>(tables.tokens.size() - 1);
  tables.special = {{end - 1, "<s>"}, {end, "<|endoftext|>"}};
  for (const Split split : {Split::gpt2, Split::llama3, Split::qwen2}) {
    tables.split = split;
    tables.words_first = split == Split::llama3;
    tables.begin = -1;
    same(Tokenizer::bpe(Bpe(tables)));
    tables.begin = static_cast<int>(end - 1);
    same(Tokenizer::bpe(Bpe(tables)));
  }
  const Pieces pieces = read_pieces("test/reference/pieces/llama2.model");
  same(Tokenizer::pieces(pieces));
  same(Tokenizer::pieces(pieces), 1);
  PieceTables of_pieces = pieces.tables();
  of_pieces.dummy_prefix = false;
  of_pieces.begin = -1;
  same(Tokenizer::pieces(Pieces(of_pieces)));
  json keys = keys_of(Tokenizer::pieces(pieces));
  keys["tokenizer.ggml.add_bos_token"] = false;
  CHECK(read(keys).begin() == -1);
  keys.erase("tokenizer.ggml.add_bos_token");
  CHECK(read(keys).begin() == 1);
}

TEST_CASE("names of control tokens in text are those tokens for a model from GGUF", "[gguf]") {
  BpeTables tables = train_bpe("the cat and the hat", 262).tables();
  tables.tokens.push_back("<|end|>");
  const auto end = static_cast<uint32_t>(tables.tokens.size() - 1);
  tables.special = {{end, "<|end|>"}};
  const Tokenizer before = Tokenizer::bpe(Bpe(tables));
  Config c = small_config("llama");
  c.vocab_size = before.vocabulary();
  const Folder f;
  const auto from = opened(f, written(random_model(c), before));
  CHECK(from->tokenizer().encode("<|end|>") == std::vector<uint32_t>{end});
}

// A vocabulary of SentencePiece with a piece that is found in text, as Phi-3 and Gemma have it.
TEST_CASE("pieces of the user are found in text", "[gguf]") {
  const Pieces pieces = read_pieces("test/reference/pieces/llama2.model");
  json keys = keys_of(Tokenizer::pieces(pieces));
  std::string text = read_file("test/reference/pieces/hard.txt");
  for (size_t at = 0; at < text.size();)
    if (!next_code_point(text, at)) text.erase(at, 1);
  keys["tokenizer.ggml.tokens"].push_back("<|user|>");
  keys["tokenizer.ggml.token_type"].push_back(4);
  keys["tokenizer.ggml.scores"].push_back(-1000);
  const Tokenizer tokenizer = read(keys).finding_special(true);
  REQUIRE(tokenizer.bpe());
  const std::vector<uint32_t> tokens = pieces.encode(text);
  CHECK((tokenizer.encode(text) == tokens));
  CHECK((tokenizer.decode(tokens) == pieces.decode(tokens)));
  const auto user = static_cast<uint32_t>(pieces.vocabulary());
  CHECK(tokenizer.encode("<|user|>").back() == user);
  CHECK(tokenizer.prefixes_space());
}

TEST_CASE("pre-tokenizers of GGUF split text as their models do", "[gguf]") {
  const Tokenizer bpe = Tokenizer::bpe(train_bpe("the 12 12 12 cat; cat; ;; 's 'S the", 280));
  const auto words = [&](const std::string& pre, const std::string& text) {
    json keys = keys_of(bpe);
    keys["tokenizer.ggml.pre"] = pre;
    return read(keys).encode(text).size();
  };
  CHECK(words("gpt-2", "1212") < words("starcoder", "1212"));  // each digit is a word
  CHECK(words("qwen2", "1212") == words("starcoder", "1212"));
  CHECK(words("llama-bpe", "12") == 1);
  for (const std::string pre : {"falcon", "deepseek-llm", "deepseek-coder", "bloom", "viking", "tekken", "gpt-4o",
                                "qwen35", "glm4", "dbrx"}) {
    INFO(pre);
    CHECK(words(pre, "It's 12 or 345 cats,\n\n  isn't it? \xc3\xa9\xe4\xb8\xad") > 10);
    json keys = keys_of(bpe);
    keys["tokenizer.ggml.pre"] = pre;
    const std::string back = keys_of(read(keys))["tokenizer.ggml.pre"];
    CHECK(find_pre_tokenizer(back)->splits == find_pre_tokenizer(pre)->splits);
  }
  json keys = keys_of(bpe);
  keys.erase("tokenizer.ggml.add_bos_token");
  keys["tokenizer.ggml.pre"] = "llama-bpe";
  CHECK(contains(unsupported(keys), "a first token that is no control token"));  // llama.cpp adds one for this name
}

TEST_CASE("a tokenizer.json is written as GGUF if llama.cpp finds the same tokens", "[gguf]") {
  const Tokenizer bpe = Tokenizer::bpe(train_bpe("the 12 12 12 cat; cat; ;; the", 270));
  json file = json::parse(to_json(*bpe.bpe()));
  file["pre_tokenizer"] = {{"type", "Sequence"},  // as in SmolLM and StarCoder
                           {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}},
                                              {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  json spaces = {{"id", bpe.vocabulary()}, {"content", "    "}, {"normalized", true}, {"special", false}};
  file["added_tokens"].push_back(spaces);  // as in Phi-2
  const auto written = [](const json& j) { return keys_of(Tokenizer::bpe(bpe_from_json(j.dump()))); };
  const json keys = written(file);
  CHECK(keys["tokenizer.ggml.pre"] == "starcoder");
  CHECK(keys["tokenizer.ggml.token_type"].back() == 4);
  CHECK(keys["tokenizer.ggml.tokens"].back() == "    ");
  const std::string text = "the 12 cats;     1212";
  CHECK(read(keys).encode(text) == Tokenizer::bpe(bpe_from_json(file.dump())).encode(text));

  const auto refusal = [&](const json& j) { return message_of<std::invalid_argument>([&] { written(j); }); };
  const std::string cannot = "added tokens that train_gpt cannot write as GGUF";
  json other = file;
  other["added_tokens"].back()["lstrip"] = true;
  CHECK(contains(refusal(other), cannot));
  other = file;
  other["normalizer"] = {{"type", "Lowercase"}};
  CHECK(contains(refusal(other), cannot));
  other = file;
  other["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  CHECK(contains(refusal(other), cannot));
  other = file;
  other["model"]["ignore_merges"] = true;  // llama.cpp has no such row
  CHECK(contains(refusal(other), cannot));
}

TEST_CASE("an instruct model of GGUF keeps its chat template, and the token that ends its answers", "[gguf]") {
  BpeTables tables = train_bpe("the cat and the hat", 270).tables();
  tables.tokens.insert(tables.tokens.end(), {"<|endoftext|>", "<|im_end|>"});
  const auto end = static_cast<uint32_t>(tables.tokens.size() - 1);
  tables.special = {{end - 1, "<|endoftext|>"}, {end, "<|im_end|>"}};
  const Tokenizer tokenizer = Tokenizer::bpe(Bpe(tables));
  Config c = small_config("llama");
  c.vocab_size = tokenizer.vocabulary();
  const Model model = random_model(c);
  const Folder f;
  write_gguf(f.path("plain.gguf"), {model, tokenizer, "m", "f32"});
  CHECK(open_gguf(f.path("plain.gguf"))->companions().empty());
  const int last = static_cast<int>(end);
  write_gguf(f.path("m.gguf"), {.model = model, .tokenizer = tokenizer, .name = "m", .dtype = "f32", .end = last,
                                .chat_template = "{{ x }}"});
  const Outcome o = f.run("export m.gguf --to hf --out hf");
  INFO(o.err);
  REQUIRE(o.status == 0);
  const auto file = [&](const std::string& name) { return json::parse(f.read("hf/" + name)); };
  CHECK(file("config.json")["eos_token_id"] == end);
  CHECK(file("generation_config.json")["eos_token_id"] == end);
  CHECK(file("tokenizer_config.json")["eos_token"] == "<|im_end|>");
  CHECK(file("tokenizer_config.json")["chat_template"] == "{{ x }}");
  f.must("export hf --to gguf --out again.gguf");
  f.must("export m.gguf --to gguf --dtype f32 --out same.gguf");
  for (const char* name : {"again.gguf", "same.gguf"}) {
    const GgufFile again(f.path(name));
    CHECK(again.keys().at("tokenizer.ggml.eos_token_id") == end);
    CHECK(again.keys().at("tokenizer.chat_template") == "{{ x }}");
  }
}

TEST_CASE("a tokenizer of GGUF that we lack is named, and its model reads token files", "[gguf]") {
  const Tokenizer bpe = Tokenizer::bpe(train_bpe("the cat and the hat", 262));
  const auto with = [&](const char* key, const json& value) {
    json keys = keys_of(bpe);
    keys[std::string("tokenizer.ggml.") + key] = value;
    return keys;
  };
  const std::string start = "m.gguf has a tokenizer that cannot be used: ";
  CHECK(unsupported(with("model", "t5")) == start + "tokenizer.ggml.model = 't5' is not supported");
  CHECK(unsupported(with("pre", "future")) == start + "tokenizer.ggml.pre = 'future' is not supported");
  CHECK(unsupported(with("pre", nullptr)) == start + "a file without tokenizer.ggml.pre is not supported");
  CHECK(contains(unsupported(with("add_eos_token", true)), "(add_eos_token) is not supported"));
  CHECK(contains(unsupported(with("merges", json::array({"a", "b"}))), start + "merge 0 is not two tokens"));
  CHECK(contains(unsupported(with("merges", json::array({"a zz"}))), start + "merge 0 needs"));
  json keys = keys_of(bpe);
  keys["tokenizer.ggml.tokens"][5] = keys["tokenizer.ggml.tokens"][6];
  CHECK(contains(unsupported(keys), "a vocabulary with two tokens"));
  const auto damaged = [&](const json& k) { return message_of<std::runtime_error>([&] { read(k); }); };
  CHECK(damaged(with("model", 3)) ==
        "m.gguf cannot be used: its key 'tokenizer.ggml.model' has a value of another kind");
  CHECK(contains(damaged(with("tokens", json::array({1, 2}))), "'tokenizer.ggml.tokens' is no list of such values"));
  CHECK(contains(damaged(with("token_type", json::array({1, 2}))), "differ in length"));

  std::string file = small_file();
  file.replace(file.find(text_of("gpt-2")) + 8, 5, "gpt-9");
  const Folder f;
  const auto from = opened(f, file);
  const Tokenizer tokenizer = from->tokenizer();
  // A byte vocabulary is known by its tokens.
  CHECK(tokenizer.kind() == Tokenizer::Kind::byte);
  file.replace(file.find(text_of("tokenizer.ggml.model")) + 8 + 20 + 4 + 8, 4, "gptX");
  CHECK(opened(f, file)->tokenizer().kind() == Tokenizer::Kind::unread);
  CHECK(opened(f, file)->tokenizer().vocabulary() == 256);
}

TEST_CASE("a GGUF file is used like a folder of transformers", "[gguf]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --preset llama2 --tokenizer bpe:300 --steps 2 --out run" + kTiny).status == 0);
  REQUIRE(f.run("export run --to gguf --out m.gguf").status == 0);
  const auto losses = [&](const std::string& model) {
    const Outcome o = f.run("eval " + model + " --data stories.txt --threads 1 --json");
    INFO(o.err);
    CHECK(o.status == 0);
    return o.out.substr(0, o.out.find("\"seconds\""));
  };
  CHECK(contains(losses("m.gguf"), "\"loss\":"));
  const auto number = [](const std::string& line) { return line.substr(line.find("\"loss\":"), 15); };
  CHECK(number(losses("m.gguf")) == number(losses("run")));
  const std::string sampled = " --greedy --length 5 --prompt The";
  CHECK(f.run("sample m.gguf" + sampled).out == f.run("sample run" + sampled).out);
  const Outcome trained = f.run("train stories.txt --init-from m.gguf --steps 1 --batch 2 --out more");
  INFO(trained.err);
  CHECK(trained.status == 0);
  CHECK(contains(f.read("more/config.toml"), "m.gguf"));
  CHECK(f.run("import m.gguf --out imported").status == 0);
  CHECK(number(losses("imported")) == number(losses("run")));
  CHECK(contains(f.run("info m.gguf").out, "llama"));
  REQUIRE(f.run("export m.gguf --to hf --out hf").status == 0);
  CHECK(number(losses("hf")) == number(losses("run")));
  std::filesystem::create_directory(f.path("folder"));
  std::filesystem::copy(f.path("m.gguf"), f.path("folder/m.gguf"));
  CHECK(contains(f.run("eval folder --data stories.txt").err, "name its GGUF file, folder/m.gguf"));
}

TEST_CASE("a GGUF file is named for its tokenizer", "[gguf]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --preset llama2 --tokenizer bpe:300 --steps 1 --out run" + kTiny).status == 0);
  REQUIRE(f.run("export run --to gguf --out m.gguf").status == 0);
  REQUIRE(f.run("export run --to hf --out hf").status == 0);
  const auto trained = [&](const std::string& tokenizer) {
    const std::string train = "train stories.txt --preset llama2 --steps 1 --force --out x --tokenizer ";
    const Outcome o = f.run(train + tokenizer + kTiny);
    INFO(o.err);
    CHECK(o.status == 0);
    return last_weights(f, "x");
  };
  CHECK((trained("m.gguf") == trained("hf/tokenizer.json")));
  const auto tokens = [&](const std::string& tokenizer, const std::string& file) {
    const Outcome o = f.run("tokenize stories.txt --force --out tokens --tokenizer " + tokenizer);
    INFO(o.err);
    CHECK(o.status == 0);
    CHECK(f.has("tokens/" + file));
    return f.read("tokens/train_000000.bin");
  };
  CHECK((tokens("m.gguf", "tokenizer.json") == tokens("hf/tokenizer.json", "tokenizer.json")));
  CHECK(f.run("train tokens --preset llama2 --steps 1 --out again" + kTiny).status == 0);

  f.write("my.model", read_file("test/reference/pieces/llama2.model"));
  const std::string with_pieces = "train stories.txt --preset llama2 --tokenizer my.model --document-separator <s> ";
  REQUIRE(f.run(with_pieces + "--steps 1 --out pieces" + kTiny).status == 0);
  REQUIRE(f.run("export pieces --to gguf --out pieces.gguf").status == 0);
  CHECK((tokens("pieces.gguf", "tokenizer.bin") == tokens("my.model", "tokenizer.model")));

  REQUIRE(f.run("train stories.txt --preset llama2 --steps 1 --out bytes" + kTiny).status == 0);
  REQUIRE(f.run("export bytes --to gguf --out bytes.gguf").status == 0);
  CHECK((trained("bytes.gguf") == trained("byte")));
  check_refused(f, "tokenize stories.txt --out other --tokenizer bytes.gguf", "token files need a byte-pair encoding");
  f.write("cut.gguf", f.read("m.gguf").substr(0, 3000));
  const std::string train = "train stories.txt --out other --tokenizer ";
  check_refused(f, train + "cut.gguf", "cut.gguf cannot be used: it is truncated");
  std::string t5 = f.read("m.gguf");
  t5.replace(t5.find(text_of("tokenizer.ggml.model")) + 8 + 20 + 4 + 8, 4, "gptX");
  f.write("t5.gguf", t5);
  check_refused(f, train + "t5.gguf", "t5.gguf has a tokenizer that cannot be used: tokenizer.ggml.model = 'gptX'");
  CHECK(!f.has("other"));
}
