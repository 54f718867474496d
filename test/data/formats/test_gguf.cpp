// GGUF files: what is in them, number by number; how numbers are rounded; models and options that are refused.
// python_ref/check_gguf.py runs them with the real llama.cpp.

#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "check.hpp"
#include "data/files/files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/gguf/ggml_types.hpp"
#include "data/formats/gguf/gguf.hpp"
#include "data/formats/gguf/gguf_architectures.hpp"
#include "data/formats/safetensors.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/gguf/gguf_tokenizer.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

namespace {

// ---- a reader of GGUF ------------------------------------------------------------------------------------

struct ReadTensor {
  std::vector<uint64_t> dims;
  uint32_t type = 0;
  std::string bytes;
};

// Values as text: "4:12" is the u32 12. Arrays have their elements' type and values: "8:[a|b]".
struct GgufFile {
  std::map<std::string, std::string> keys;
  std::map<std::string, ReadTensor> tensors;
  bool whole = false;  // nothing follows the last tensor

  explicit GgufFile(std::string bytes) : bytes_(std::move(bytes)) {
    CHECK(bytes_.substr(0, 4) == "GGUF");
    at_ = 4;
    CHECK(number<uint32_t>() == 3);
    const auto tensor_count = number<uint64_t>(), key_count = number<uint64_t>();
    for (uint64_t i = 0; i < key_count; ++i) {
      const std::string key = text();
      const auto type = number<uint32_t>();
      CHECK(keys.emplace(key, value(type)).second);
    }
    read_tensors(tensor_count);
  }

 private:
  void read_tensors(uint64_t count) {
    std::vector<std::pair<std::string, uint64_t>> offsets;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string name = text();
      CHECK(name.size() < 64);  // GGML_MAX_NAME
      ReadTensor& t = tensors[name];
      t.dims.resize(number<uint32_t>());
      for (uint64_t& d : t.dims) d = number<uint64_t>();
      t.type = number<uint32_t>();
      offsets.emplace_back(name, number<uint64_t>());
    }
    const auto padded = [](uint64_t n) { return (n + 31) / 32 * 32; };
    const uint64_t data = padded(at_);
    uint64_t end = 0;
    for (const auto& [name, offset] : offsets) {
      ReadTensor& t = tensors[name];
      uint64_t size = 1;
      for (const uint64_t d : t.dims) size *= d;
      CHECK(offset == end);  // llama.cpp rejects gaps
      size = t.type == 0 ? 4 * size : t.type == 8 ? size / 32 * 34 : 2 * size;
      REQUIRE(data + offset + size <= bytes_.size());
      t.bytes = bytes_.substr(data + offset, size);
      end = offset + padded(size);
    }
    whole = bytes_.size() == data + end;
  }

  template <class T>
  T number() {
    REQUIRE(at_ + sizeof(T) <= bytes_.size());
    T x;
    std::memcpy(&x, &bytes_[at_], sizeof x);
    at_ += sizeof x;
    return x;
  }

  std::string text() {
    const auto length = number<uint64_t>();
    REQUIRE(length <= bytes_.size() - at_);
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }

  std::string plain(uint32_t type) {
    switch (type) {
      case 4: return std::to_string(number<uint32_t>());
      case 5: return std::to_string(number<int32_t>());
      case 6: return std::to_string(std::bit_cast<uint32_t>(number<float>()));
      case 7: return number<uint8_t>() ? "true" : "false";
      case 8: return text();
    }
    FAIL("type " << type);
    throw 0;  // FAIL does not return
  }

  std::string value(uint32_t type) {
    if (type != 9) return std::to_string(type) + ":" + plain(type);
    const auto element = number<uint32_t>();
    const auto count = number<uint64_t>();
    std::string list = std::to_string(element) + ":[";
    for (uint64_t i = 0; i < count; ++i) list += (i > 0 ? "|" : "") + plain(element);
    return list + "]";
  }

  std::string bytes_;
  size_t at_ = 0;
};

std::string f32(float x) { return "6:" + std::to_string(std::bit_cast<uint32_t>(x)); }

// ---- models ----------------------------------------------------------------------------------------------

constexpr int kC = 32, kHeads = 2, kKv = 1, kD = 16, kF = 40, kT = 8;

Config small_config(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.n_layer = 2, c.n_head = kHeads, c.kv_heads = 0, c.channels = kC, c.hidden = kF, c.context = kT, c.vocab_size = 256;
  if (c.window > 0) c.window = 5;
  return c;
}

GgufFile file_of(const Model& model, const std::string& dtype = "f32", const Tokenizer& t = Tokenizer::bytes()) {
  const Folder f;
  check_gguf({model, t, "a run", dtype});
  write_gguf(f.path("model.gguf"), {model, t, "a run", dtype});
  return GgufFile(f.read("model.gguf"));
}

std::string refusal(const Config& config, const std::string& dtype = "f32") {
  const Tokenizer bytes = Tokenizer::bytes();
  return message_of<std::invalid_argument>([&] { check_gguf({random_model(config), bytes, "", dtype}); });
}

// True if row `theirs` of the tensor is row `row` of ours, both of kC floats.
bool is_row(const GgufFile& file, const std::string& name, int theirs, const float* from, int row) {
  const std::string& bytes = file.tensors.at(name).bytes;
  return std::memcmp(&bytes.at(theirs * kC * sizeof(float)), from + row * kC, kC * sizeof(float)) == 0;
}

bool is_tensor(const GgufFile& file, const std::string& name, const float* from) {
  const std::string& bytes = file.tensors.at(name).bytes;
  return std::memcmp(bytes.data(), from, bytes.size()) == 0;
}

}  // namespace

TEST_CASE("a Llama model has llama.cpp's keys and tensors", "[gguf]") {
  Config c = small_config("llama");
  c.kv_heads = kKv, c.rope_theta = 5000, c.norm_eps = 1e-5f;
  const Model model = random_model(c);
  const GgufFile file = file_of(model);
  const std::map<std::string, std::string> numbers = {
      {"general.architecture", "8:llama"},
      {"general.name", "8:a run"},
      {"general.file_type", "4:0"},
      {"general.quantization_version", "4:2"},
      {"llama.block_count", "4:2"},
      {"llama.context_length", "4:8"},
      {"llama.embedding_length", "4:32"},
      {"llama.feed_forward_length", "4:40"},
      {"llama.attention.head_count", "4:2"},
      {"llama.attention.head_count_kv", "4:1"},
      {"llama.attention.key_length", "4:16"},
      {"llama.attention.value_length", "4:16"},
      {"llama.attention.layer_norm_rms_epsilon", f32(1e-5f)},
      {"llama.rope.dimension_count", "4:16"},
      {"llama.rope.freq_base", f32(5000)},
      {"llama.vocab_size", "4:256"}};
  for (const auto& [key, value] : numbers) {
    INFO(key);
    CHECK(file.keys.at(key) == value);
  }
  for (const auto& [key, value] : file.keys) {
    INFO(key);
    CHECK((numbers.contains(key) || key.starts_with("tokenizer.ggml.")));
  }
  CHECK(file.whole);
  CHECK(file.tensors.size() == 3 + 2 * 9);
  for (const auto& [name, t] : file.tensors) CHECK(t.type == 0);
  const auto dims = [&](const std::string& name) { return file.tensors.at(name).dims; };
  CHECK(dims("token_embd.weight") == std::vector<uint64_t>{kC, 256});
  CHECK(dims("output_norm.weight") == std::vector<uint64_t>{kC});
  CHECK(dims("blk.1.attn_q.weight") == std::vector<uint64_t>{kC, kHeads * kD});
  CHECK(dims("blk.1.attn_k.weight") == std::vector<uint64_t>{kC, kKv * kD});
  CHECK(dims("blk.1.ffn_down.weight") == std::vector<uint64_t>{kF, kC});
  CHECK(is_tensor(file, "token_embd.weight", tensor_of(model, "embedding.token.weight")));
  CHECK(is_tensor(file, "output.weight", tensor_of(model, "head.weight")));
  CHECK(is_tensor(file, "blk.0.attn_v.weight", tensor_of(model, "block.0.attention.v.weight")));
  CHECK(is_tensor(file, "blk.1.attn_output.weight", tensor_of(model, "block.1.attention.o.weight")));
  CHECK(is_tensor(file, "blk.1.ffn_gate.weight", tensor_of(model, "block.1.ffn.gate.weight")));
  CHECK(is_tensor(file, "blk.1.ffn_up.weight", tensor_of(model, "block.1.ffn.up.weight")));
  CHECK(is_tensor(file, "blk.1.ffn_down.weight", tensor_of(model, "block.1.ffn.down.weight")));
  CHECK(is_tensor(file, "blk.1.attn_norm.weight", tensor_of(model, "block.1.attention.norm_in.gain")));
  CHECK(is_tensor(file, "blk.1.ffn_norm.weight", tensor_of(model, "block.1.ffn.norm_in.gain")));
}

TEST_CASE("arch llama has the two channels of each RoPE pair one behind the other, the others have not", "[gguf]") {
  Config c = small_config("llama");
  c.bias = true;
  c.qkv_bias.reset();
  const Model llama = random_model(c);
  const GgufFile file = file_of(llama);
  for (const std::string part : {"q", "k"}) {
    const float* weight = tensor_of(llama, "block.0.attention." + part + ".weight");
    const float* bias = tensor_of(llama, "block.0.attention." + part + ".bias");
    for (int h = 0; h < kHeads; ++h)
      for (int i = 0; i < kD / 2; ++i) {
        const int row = h * kD;
        CHECK(is_row(file, "blk.0.attn_" + part + ".weight", row + 2 * i, weight, row + i));
        CHECK(is_row(file, "blk.0.attn_" + part + ".weight", row + 2 * i + 1, weight, row + i + kD / 2));
        const std::string& bytes = file.tensors.at("blk.0.attn_" + part + ".bias").bytes;
        CHECK(std::memcmp(&bytes[4 * (row + 2 * i)], bias + row + i, 4) == 0);
        CHECK(std::memcmp(&bytes[4 * (row + 2 * i + 1)], bias + row + i + kD / 2, 4) == 0);
      }
  }
  for (const std::string preset : {"qwen2", "qwen3", "olmo2", "gemma2"}) {
    INFO(preset);
    const Model other = random_model(small_config(preset));
    const GgufFile written = file_of(other);
    CHECK(written.keys.at("general.architecture") == "8:" + preset);
    CHECK(is_tensor(written, "blk.1.attn_q.weight", tensor_of(other, "block.1.attention.q.weight")));
    CHECK(is_tensor(written, "blk.1.attn_k.weight", tensor_of(other, "block.1.attention.k.weight")));
  }
}

TEST_CASE("GPT-2 has q, k and v in one matrix, and zeros for biases that are missing", "[gguf]") {
  Config c = small_config("gpt2");
  c.kv_heads = kKv;
  const Model model = random_model(c);
  const GgufFile file = file_of(model);
  CHECK(file.keys.at("gpt2.attention.layer_norm_epsilon") == f32(1e-5f));
  CHECK(file.keys.at("gpt2.attention.head_count_kv") == "4:1");
  CHECK(!file.keys.contains("gpt2.rope.freq_base"));
  CHECK(file.tensors.at("blk.0.attn_qkv.weight").dims == std::vector<uint64_t>{kC, (kHeads + 2 * kKv) * kD});
  CHECK(is_row(file, "blk.0.attn_qkv.weight", 0, tensor_of(model, "block.0.attention.q.weight"), 0));
  CHECK(is_row(file, "blk.0.attn_qkv.weight", kHeads * kD, tensor_of(model, "block.0.attention.k.weight"), 0));
  CHECK(is_row(file, "blk.0.attn_qkv.weight", (kHeads + kKv) * kD, tensor_of(model, "block.0.attention.v.weight"), 0));
  CHECK(is_tensor(file, "position_embd.weight", tensor_of(model, "embedding.position.weight")));
  CHECK(is_tensor(file, "blk.1.ffn_norm.bias", tensor_of(model, "block.1.ffn.norm_in.bias")));
  CHECK(!file.tensors.contains("output.weight"));  // tied
  c.bias = false;
  c.qkv_bias.reset(), c.norm_bias.reset();
  const GgufFile unbiased = file_of(random_model(c));
  for (const char* name : {"blk.0.attn_qkv.bias", "blk.1.ffn_up.bias", "output_norm.bias"})
    CHECK(unbiased.tensors.at(name).bytes.find_first_not_of('\0') == std::string::npos);
}

TEST_CASE("norms, windows, caps and heads of the other architectures", "[gguf]") {
  Config c = small_config("gemma2");
  const Model gemma = random_model(c);
  GgufFile file = file_of(gemma);
  CHECK(file.keys.at("gemma2.attention.sliding_window") == "4:5");
  CHECK(file.keys.at("gemma2.attn_logit_softcapping") == f32(50));
  CHECK(file.keys.at("gemma2.final_logit_softcapping") == f32(30));
  const float* w = tensor_of(gemma, "block.1.ffn.norm_out.gain");
  float gain;
  std::memcpy(&gain, file.tensors.at("blk.1.post_ffw_norm.weight").bytes.data(), sizeof gain);
  CHECK(gain == 1 + w[0]);
  CHECK(!file.tensors.contains("output.weight"));
  c.window = 0;
  CHECK(file_of(random_model(c)).keys.at("gemma2.attention.sliding_window") == "4:8");  // the context
  c.norm_unit_offset = false;
  const Model plain = random_model(c);
  CHECK(is_tensor(file_of(plain), "blk.1.post_ffw_norm.weight", tensor_of(plain, "block.1.ffn.norm_out.gain")));

  c = small_config("olmo2");
  c.tied = true;  // llama.cpp needs the matrix anyway
  const Model olmo = random_model(c);
  file = file_of(olmo);
  CHECK(is_tensor(file, "output.weight", tensor_of(olmo, "embedding.token.weight")));
  CHECK(is_tensor(file, "blk.1.attn_q_norm.weight", tensor_of(olmo, "block.1.attention.q_norm.gain")));
  CHECK(is_tensor(file, "blk.1.post_attention_norm.weight", tensor_of(olmo, "block.1.attention.norm_out.gain")));

  c = small_config("qwen2");
  c.head_bias = true;
  const Model qwen = random_model(c);
  file = file_of(qwen);
  CHECK(is_tensor(file, "output.bias", tensor_of(qwen, "head.bias")));
  CHECK(is_tensor(file, "blk.0.attn_k.bias", tensor_of(qwen, "block.0.attention.k.bias")));
}

TEST_CASE("stretched RoPE in the file is what llama.cpp's converter writes", "[gguf]") {
  Config c = small_config("llama");
  c.head_dim = 64, c.rope_theta = 5e5f;  // as in Llama 3.2 1B
  c.rope_scaling = RopeScaling::llama3, c.rope_factor = 32, c.rope_original = 8192;
  GgufFile file = file_of(random_model(c), "f16");
  const ReadTensor& t = file.tensors.at("rope_freqs.weight");
  CHECK(t.dims == std::vector<uint64_t>{32});
  REQUIRE(t.type == 0);
  std::vector<float> numbers(32);
  std::memcpy(numbers.data(), t.bytes.data(), t.bytes.size());
  const float mixed[] = {1.6513292789459229f, 3.2922627925872803f, 9.666730880737305f};
  for (int i = 0; i < 32; ++i) {
    if (i < 15 || i >= 18) CHECK(numbers[i] == (i < 15 ? 1 : 32));
    else CHECK(numbers[i] == Approx(mixed[i - 15]).epsilon(1e-5));
  }
  for (const auto& [key, value] : file.keys) CHECK(!contains(key, "rope.scaling"));

  c.rope_scaling = RopeScaling::yarn, c.rope_factor = 4, c.rope_magnitude.reset();
  file = file_of(random_model(c));
  CHECK(!file.tensors.contains("rope_freqs.weight"));
  CHECK(file.keys.at("llama.rope.scaling.type") == "8:yarn");
  CHECK(file.keys.at("llama.rope.scaling.factor") == f32(4));
  CHECK(file.keys.at("llama.rope.scaling.original_context_length") == "4:8192");
  CHECK(!file.keys.contains("llama.rope.scaling.attn_factor"));  // llama.cpp multiplies by 0.1·ln 4 + 1 of its own
  c.rope_magnitude = 1;
  const float off = static_cast<float>(1 / (.1 * std::log(4) + 1));
  CHECK(file_of(random_model(c)).keys.at("llama.rope.scaling.attn_factor") == f32(off));
  c.rope_scaling = RopeScaling::linear, c.rope_magnitude = 1.5;
  file = file_of(random_model(c));
  CHECK(file.keys.at("llama.rope.scaling.type") == "8:linear");
  CHECK(file.keys.at("llama.rope.scaling.attn_factor") == f32(1.5));
}

TEST_CASE("windows in some layers are in the file as llama.cpp's converter writes them", "[gguf]") {
  Config c = small_config("gemma3");
  c.n_layer = 7, c.window_layers = "5 of 6";
  GgufFile file = file_of(random_model(c));
  CHECK(file.keys.at("general.architecture") == "8:gemma3");
  CHECK(file.keys.at("gemma3.attention.sliding_window") == "4:5");
  CHECK(file.keys.at("gemma3.rope.freq_base") == f32(1e6f));
  CHECK(file.keys.at("gemma3.rope.freq_base_swa") == f32(1e4f));
  CHECK(!file.keys.contains("gemma3.attention.sliding_window_pattern"));
  CHECK(!file.keys.contains("gemma3.final_logit_softcapping"));
  CHECK(!file.tensors.contains("output.weight"));
  const Model gemma = random_model(c);
  const float* w = tensor_of(gemma, "block.1.attention.k_norm.gain");
  float gain;
  std::memcpy(&gain, file.tensors.at("blk.1.attn_k_norm.weight").bytes.data(), sizeof gain);
  CHECK(gain == 1 + w[0]);
  c.window_layers = "last 1 of 2";
  CHECK(file_of(random_model(c)).keys.at("gemma3.attention.sliding_window_pattern") ==
        "7:[false|true|false|true|false|true|false]");
  c = small_config("olmo2");
  c.n_layer = 5, c.window = 3, c.window_layers = "3 of 4";
  file = file_of(random_model(c));
  CHECK(file.keys.at("olmo2.attention.sliding_window") == "4:3");
  CHECK(!file.keys.contains("olmo2.attention.sliding_window_pattern"));  // what llama.cpp has without the key
  const Folder f;
  const Tokenizer bytes = Tokenizer::bytes();
  const auto note = [&] { return write_gguf(f.path("m.gguf"), {random_model(c), bytes, "a run", "f32"}); };
  CHECK(!contains(note(), "llama.cpp ignores"));
  c.window_layers = "all";
  CHECK(file_of(random_model(c)).keys.at("olmo2.attention.sliding_window_pattern") ==
        "7:[true|true|true|true|true]");
  CHECK(contains(note(), "in f32; build 8929 of llama.cpp ignores which layers have a window"));
}

// python_ref/check_gguf.py writes these files, and checks that llama.cpp and transformers have the same losses.
TEST_CASE("files that llama.cpp reads are written again", "[gguf]") {
  for (const std::string name : {"gpt2", "llama", "llama3.2", "olmo3"}) {
    INFO(name);
    const auto from = find_format("hf").open("test/huggingface/" + name);
    Model model(from->config(), false);
    from->load(model);
    std::vector<uint32_t> alphabet(from->config().vocab_size);
    std::iota(alphabet.begin(), alphabet.end(), 'A');
    const Tokenizer letters = Tokenizer::characters(alphabet);
    const Folder f;
    write_gguf(f.path("model.gguf"), {model, letters, name, "f32"});
    CHECK(f.read("model.gguf") == read_file("test/gguf/" + name + ".gguf"));
  }
}

TEST_CASE("halves and bfloat16s are the nearest, of two the even one", "[gguf]") {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float x = float_of_half(static_cast<uint16_t>(bits));
    REQUIRE(half_of_float(x) == bits);
    REQUIRE(half_of_float(-x) == (bits | 0x8000));
    const float middle = (x + (bits == 0x7bff ? 65536 : float_of_half(static_cast<uint16_t>(bits + 1)))) / 2;
    REQUIRE(half_of_float(middle) == bits + bits % 2);
    REQUIRE(half_of_float(std::nextafter(middle, 0.f)) == bits);
    REQUIRE(half_of_float(std::nextafter(middle, 1e9f)) == bits + 1);
  }
  CHECK(half_of_float(1e9f) == 0x7c00);
  CHECK(half_of_float(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(std::isnan(float_of_half(half_of_float(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(bfloat16_of_float(1) == 0x3f80);
  CHECK(bfloat16_of_float(std::bit_cast<float>(0x3f808000)) == 0x3f80);
  CHECK(bfloat16_of_float(std::bit_cast<float>(0x3f818000)) == 0x3f82);
  CHECK(bfloat16_of_float(std::bit_cast<float>(0xbf808001)) == 0xbf81);
  CHECK(bfloat16_of_float(std::bit_cast<float>(0x7f801234)) == 0x7fc0);  // stays no number
}

TEST_CASE("a block of Q8_0 is a half and 32 bytes", "[gguf]") {
  float x[64] = {};
  x[0] = -254, x[1] = 3, x[2] = -3, x[3] = 2.9f, x[4] = 1, x[5] = 253;  // d is 2
  x[32] = 1e-42f;                                                        // 1/d is infinite
  std::string bytes;
  kQ8.encode(bytes, x, 64);
  REQUIRE(bytes.size() == 68);
  std::string want(68, '\0');
  want[1] = 0x40;                                                            // 2 is 0x4000
  want[2] = -127, want[3] = 2, want[4] = -2, want[5] = 1, want[6] = 1, want[7] = 127;  // halves away from zero
  CHECK(bytes == want);
}

TEST_CASE("matrices have the number type asked for, vectors and positions float32", "[gguf]") {
  const Model model = random_model(small_config("gpt2"));
  struct Case {
    std::string dtype;
    uint32_t type, file_type;
  };
  for (const auto& [dtype, type, file_type] : {Case{"f16", 1, 1}, Case{"bf16", 30, 32}, Case{"q8_0", 8, 7}}) {
    INFO(dtype);
    const GgufFile file = file_of(model, dtype);
    CHECK(file.whole);
    CHECK(file.keys.at("general.file_type") == "4:" + std::to_string(file_type));
    CHECK(file.tensors.at("token_embd.weight").type == type);
    CHECK(file.tensors.at("blk.0.attn_qkv.weight").type == type);
    CHECK(file.tensors.at("blk.0.ffn_down.weight").type == (dtype == "q8_0" ? 1 : type));  // rows of 40
    CHECK(file.tensors.at("blk.0.attn_qkv.bias").type == 0);
    CHECK(file.tensors.at("blk.0.attn_norm.weight").type == 0);
    CHECK(file.tensors.at("position_embd.weight").type == 0);
    std::string want;
    find_ggml_type(dtype).encode(want, tensor_of(model, "block.1.attention.o.weight"), kC * kC);
    CHECK(file.tensors.at("blk.1.attn_output.weight").bytes == want);
  }
}

TEST_CASE("numbers that the type cannot hold are refused", "[gguf]") {
  const Tokenizer bytes = Tokenizer::bytes();
  Model model = random_model(small_config("gpt2"));
  float& w = model.weights[tensor_of(model, "block.1.ffn.up.weight") - model.weights.get()];
  const auto check = [&](const std::string& dtype) { check_gguf({model, bytes, "", dtype}); };
  w = 70000;
  check("f32"), check("bf16"), check("q8_0");
  CHECK(message_of<std::invalid_argument>([&] { check("f16"); }) ==
        "--dtype f16 cannot hold 70000, which is in block.1.ffn.up.weight: use --dtype f32");
  w = 1e7f;
  CHECK(contains(message_of<std::invalid_argument>([&] { check("q8_0"); }), "--dtype q8_0 cannot hold 1e+07"));
  w = 3.4e38f;
  check("f32");
  CHECK(contains(message_of<std::invalid_argument>([&] { check("bf16"); }), "--dtype bf16"));
  w = std::numeric_limits<float>::quiet_NaN();
  CHECK(contains(message_of<std::runtime_error>([&] { check("f32"); }), "block.1.ffn.up.weight is not finite"));
}

TEST_CASE("tokenizers in the file", "[gguf]") {
  GgufTokenizer t = gguf_tokenizer(Tokenizer::bytes(), 258);
  CHECK(t.model == "gpt2");
  CHECK(t.pre == "gpt-2");
  CHECK(t.tokens['A'] == "A");
  CHECK(t.tokens[' '] == "Ġ");
  CHECK(t.tokens['\n'] == "Ċ");
  CHECK(t.tokens[257] == "[PAD257]");
  CHECK(t.types[255] == 1);
  CHECK(t.types[256] == 5);
  CHECK(t.merges == std::vector<std::string>{"Ā Ā"});
  CHECK(t.end == 0u);

  t = gguf_tokenizer(Tokenizer::characters(std::vector<uint32_t>{0, '\n', '\\', 'a', 0xe9, 0x4e2d}), 6);
  CHECK(t.model == "rwkv");
  CHECK(t.pre == "");
  CHECK(t.tokens == std::vector<std::string>{"\\x00", "\n", "\\\\", "a", "é", "中"});
  CHECK(t.merges.empty());
  CHECK(!t.end);

  const Tokenizer bpe = Tokenizer::bpe(train_bpe("the cat and the hat and the mat", 260));
  t = gguf_tokenizer(bpe, bpe.vocabulary());
  CHECK(t.model == "gpt2");
  CHECK(static_cast<int>(t.tokens.size()) == bpe.vocabulary());
  CHECK(static_cast<int>(t.merges.size()) == bpe.vocabulary() - 256);
  const std::string last = t.merges.back();
  CHECK(t.tokens.back() == last.substr(0, last.find(' ')) + last.substr(last.find(' ') + 1));
  CHECK(bpe.decode(*t.end) == std::string(1, '\0'));

  BpeTables tables = bpe.bpe()->tables();
  tables.tokens.insert(tables.tokens.end(), {"<s>", "<|endoftext|>"});
  const auto end = static_cast<uint32_t>(tables.tokens.size() - 1);
  tables.special = {{end - 1, "<s>"}, {end, "<|endoftext|>"}};
  const Tokenizer special = Tokenizer::bpe(Bpe(tables));
  t = gguf_tokenizer(special, special.vocabulary());
  CHECK(t.first == end - 1);
  CHECK(!t.add_first);
  CHECK(t.end == end);
  CHECK(t.types[end] == 3);
  CHECK(contains(message_of<std::invalid_argument>([&] { gguf_tokenizer(special, 256); }), "--vocab-size 256"));
  tables.begin = static_cast<int>(end);
  const Tokenizer begins = Tokenizer::bpe(Bpe(tables));
  CHECK(gguf_tokenizer(begins, begins.vocabulary()).first == end);
  CHECK(gguf_tokenizer(begins, begins.vocabulary()).add_first);
  tables.words_first = true;
  const Tokenizer words = Tokenizer::bpe(Bpe(tables));
  CHECK(contains(message_of<std::invalid_argument>([&] { gguf_tokenizer(words, end + 1); }), "ignore_merges"));
}

TEST_CASE("pieces of SentencePiece in the file", "[gguf]") {
  const Pieces pieces = read_pieces("test/reference/pieces/llama2.model");
  const Tokenizer tokenizer = Tokenizer::pieces(pieces);
  const int size = tokenizer.vocabulary();
  GgufTokenizer t = gguf_tokenizer(tokenizer, size + 1);
  CHECK(t.model == "llama");
  CHECK(t.tokens[1] == "<s>");
  CHECK(t.tokens[3 + 'A'] == "<0x41>");
  CHECK(t.types[0] == 2);
  CHECK(t.types[1] == 3);
  CHECK(t.types[3 + 'A'] == 6);
  CHECK(t.types[size - 1] == 1);
  CHECK(t.types[size] == 5);
  CHECK(t.scores[size - 1] == pieces.tables().pieces[size - 1].score);
  CHECK(t.scores.size() == t.tokens.size());
  CHECK(t.unknown == 0u);
  CHECK(t.first == 1u);
  CHECK(t.end == 2u);
  CHECK(t.dummy_prefix == true);
  PieceTables tables = pieces.tables();
  tables.begin = tables.end = -1;
  CHECK(gguf_tokenizer(Tokenizer::pieces(Pieces(tables)), size).end == 3u);  // the zero byte

  Config c = small_config("llama");
  c.vocab_size = size;
  const GgufFile file = file_of(random_model(c), "f32", tokenizer);
  CHECK(file.keys.at("tokenizer.ggml.model") == "8:llama");
  CHECK(file.keys.at("tokenizer.ggml.unknown_token_id") == "4:0");
  CHECK(file.keys.at("tokenizer.ggml.add_space_prefix") == "7:true");
  const std::string first = std::to_string(std::bit_cast<uint32_t>(tables.pieces[0].score));
  CHECK(file.keys.at("tokenizer.ggml.scores").starts_with("6:[" + first + "|"));
}

TEST_CASE("a tokenizer is written as llama.cpp reads it", "[gguf]") {
  Config c = small_config("llama");
  c.vocab_size = 3;
  const Tokenizer abc = Tokenizer::characters(std::vector<uint32_t>{'a', 'b', 'c'});
  GgufFile file = file_of(random_model(c), "f32", abc);
  CHECK(file.keys.at("tokenizer.ggml.model") == "8:rwkv");
  CHECK(file.keys.at("tokenizer.ggml.tokens") == "8:[a|b|c]");
  CHECK(file.keys.at("tokenizer.ggml.token_type") == "5:[1|1|1]");
  CHECK(file.keys.at("tokenizer.ggml.add_bos_token") == "7:false");
  CHECK(!file.keys.contains("tokenizer.ggml.eos_token_id"));
  CHECK(!file.keys.contains("tokenizer.ggml.merges"));
  c.vocab_size = 256;
  file = file_of(random_model(c));
  CHECK(file.keys.at("tokenizer.ggml.model") == "8:gpt2");
  CHECK(file.keys.at("tokenizer.ggml.pre") == "8:gpt-2");
  CHECK(file.keys.at("tokenizer.ggml.merges") == "8:[Ā Ā]");
  CHECK(file.keys.at("tokenizer.ggml.eos_token_id") == "4:0");
}

TEST_CASE("llama.cpp puts the token before a prompt that sample puts there", "[gguf]") {
  const Corpus f;
  f.write("my.model", read_file("test/reference/pieces/llama2.model"));
  const std::string train = "train stories.txt --preset llama2 --tokenizer my.model --steps 1" + kTiny;
  REQUIRE(f.run(train + "--out without").status == 0);
  REQUIRE(f.run(train + "--out with --document-separator <s>").status == 0);
  REQUIRE(f.run("export without --to llama2c --out llama2c").status == 0);
  const auto keys_of = [&](const std::string& model) {
    REQUIRE(f.run("export " + model + " --to gguf --out " + model + ".gguf").status == 0);
    return GgufFile(f.read(model + ".gguf")).keys;
  };
  CHECK(keys_of("without").at("tokenizer.ggml.add_bos_token") == "7:false");
  for (const std::string model : {"with", "llama2c"}) {  // llama2.c always puts <s> before a text
    const auto keys = keys_of(model);
    CHECK(keys.at("tokenizer.ggml.add_bos_token") == "7:true");
    CHECK(keys.at("tokenizer.ggml.bos_token_id") == "4:1");
    CHECK(keys.at("tokenizer.ggml.eos_token_id") == "4:2");
    CHECK(keys.at("tokenizer.ggml.add_eos_token") == "7:false");
  }
}

TEST_CASE("a model that came with a chat template keeps it, and the end of its answers", "[gguf]") {
  Config c = small_config("llama");
  c.vocab_size = 258;
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({"<|endoftext|>", "<|im_end|>"});
  const Model model = random_model(c);
  const Folder f;
  const auto keys_of = [&](const CompanionFiles& files) {
    write_gguf(f.path("m.gguf"), {.model = model, .tokenizer = tokenizer, .name = "m", .dtype = "f32",
                                  .companions = files});
    return GgufFile(f.read("m.gguf")).keys;
  };
  const std::string end = "tokenizer.ggml.eos_token_id", chat = "tokenizer.chat_template";
  CHECK(keys_of({}).at(end) == "4:256");
  CHECK(!keys_of({}).contains(chat));
  const std::string settings = R"({"eos_token": "<|im_end|>", "chat_template": "{{ x }}"})";
  CHECK(keys_of({{"tokenizer_config.json", settings}}).at(end) == "4:257");
  CHECK(keys_of({{"tokenizer_config.json", settings}}).at(chat) == "8:{{ x }}");
  CHECK(keys_of({{"tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}})"}}).at(end) == "4:257");
  CHECK(keys_of({{"tokenizer_config.json", settings}, {"chat_template.jinja", "{{ y }}"}}).at(chat) == "8:{{ y }}");
  CHECK(keys_of({{"generation_config.json", R"({"eos_token_id": [257, 1]})"}}).at(end) == "4:257");
  CHECK(keys_of({{"generation_config.json", R"({"eos_token_id": 9999})"},
                 {"tokenizer_config.json", R"({"eos_token": "<|other|>"})"}}).at(end) == "4:256");
  CHECK(keys_of({{"tokenizer_config.json", "["}}).at(end) == "4:256");
  constexpr size_t kDeep = 1'000'000;  // to copy such a value would overflow the stack
  const std::string nested = std::string(kDeep, '[') + std::string(kDeep, ']');
  for (const auto& [file, key] : {std::pair("tokenizer_config.json", "eos_token"),
                                  {"generation_config.json", "eos_token_id"},
                                  {"tokenizer_config.json", "chat_template"}}) {
    const auto keys = keys_of({{file, "{\"" + std::string(key) + "\": " + nested + "}"}});
    CHECK(keys.at(end) == "4:256");
    CHECK(!keys.contains(chat));
  }
  write_gguf(f.path("m.gguf"), {.model = model, .tokenizer = tokenizer, .name = "m", .dtype = "f32", .end = 256,
                                .chat_template = "{{ learned }}", .companions = {{"tokenizer_config.json", settings}}});
  CHECK(GgufFile(f.read("m.gguf")).keys.at(end) == "4:256");
  CHECK(GgufFile(f.read("m.gguf")).keys.at(chat) == "8:{{ learned }}");
}

TEST_CASE("models that llama.cpp cannot compute are refused by the option in the way", "[gguf]") {
  struct Case {
    const char* preset;
    void (*change)(Config&);
    const char* option;
  };
  const std::vector<Case> cases = {
      {"gpt2", [](Config& c) { c.activation = Activation::gelu; }, "has no --activation \"gelu\" (it has \"gelu-tanh"},
      {"gpt2", [](Config& c) { c.head_dim = 8; }, "has no --head-dim 8 (it has 16)"},
      {"gpt2", [](Config& c) { c.position = Position::sinusoidal; }, "has no --position \"sinusoidal\""},
      {"llama", [](Config& c) { c.rope_fraction = .5f; c.bias = true; }, "has no --rope-fraction 0.5 (it has 1)"},
      {"mistral", [](Config&) {}, "has no --window 5 (it has 0)"},
      {"llama", [](Config& c) { c.window = 4; c.window_rope_theta = 99; }, "has no --"},
      {"llama", [](Config& c) { c.window = kT; c.window_rope_theta = 99; }, "has no --"},
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::llama3; c.rope_factor = 2; c.rope_magnitude = 2; },
       "has no --rope-magnitude 2 (it has 1)"},
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::yarn; c.rope_factor = 2; c.rope_fast = 16; },
       "has no --rope-fast 16 (it has 32)"},
      {"llama", [](Config& c) { c.rope_scaling = RopeScaling::yarn; c.rope_factor = 2; c.rope_original = 1; },
       "has no --rope-scaling \"yarn\""},
      {"qwen3", [](Config& c) { c.rope_scaling = RopeScaling::llama3; c.rope_factor = 2; },
       "llama, has no --qk-norm \"head\""},
      {"llama", [](Config& c) { c.rope_layers = "1 of 2"; }, "has no --rope-layers"},
      {"olmo2", [](Config& c) { c.window = 4; c.window_rope_theta = 99; }, "has no --window-rope-theta 99 (it has 5"},
      {"olmo2", [](Config& c) { c.window = 4; c.rope_scaling = RopeScaling::linear; c.rope_factor = 2; },
       "has no --window-rope-theta"},
      {"gemma3", [](Config& c) { c.rope_scaling = RopeScaling::linear; c.rope_factor = 2; c.rope_magnitude = 2; },
       "has no --rope-magnitude 2 (it has 1)"},
      {"gemma3", [](Config& c) { c.attention_cap = 30; }, "has no --attention-cap 30 (it has 0)"},
      {"gemma2", [](Config& c) { c.tied = false; }, "has no --tied false (it has true)"},
      {"gemma2", [](Config& c) { c.attention_cap = 0; }, "has no --attention-cap 0 (it has 50)"},
      {"gemma2", [](Config& c) { c.logit_cap = 0; }, "has no --logit-cap 0 (it has 30)"},
      {"gemma2", [](Config& c) { c.attention_scale = .5; }, "has no --attention-scale 0.5"},
      {"olmoe", [](Config& c) { c.kv_heads = 1; }, "olmoe, has no --kv-heads 1 (it has 2)"},
      {"gpt1", [](Config&) {}, "has no --"},
      {"falcon-7b", [](Config& c) { c.kv_heads = 1; },
       "--to hf writes FalconForCausalLM, which its convert_hf_to_gguf.py may know"},
      {"chatglm-6b", [](Config&) {}, "--to hf writes any model, with its own code"},
      {"bloom", [](Config& c) { c.activation = Activation::gelu; }, "has no --activation \"gelu\""},
      {"gpt-neox", [](Config& c) { c.activation = Activation::gelu; }, "has no --activation \"gelu\""},
      {"phi-2", [](Config& c) { c.head_bias = false; }, "has no --block \"parallel-shared\""}};
  for (const Case& one : cases) {
    Config c = small_config(one.preset);
    one.change(c);
    const std::string message = refusal(c);
    INFO(one.preset << " " << one.option << ": " << message);
    CHECK(message.starts_with("no architecture of llama.cpp that train_gpt writes is this model: the nearest, "));
    CHECK(contains(message, one.option));
    CHECK(count_lines(message) == 0);
  }
  Config c = small_config("mistral");
  c.window = kT;  // all keys
  CHECK(refusal(c) == "");
  c = preset_config("gemma2", "27B");
  CHECK(std::string(gguf_expressed(resolve(c)).architecture.model_type) == "gemma2");
  c.n_layer = 45;
  CHECK(contains(message_of<std::invalid_argument>([&] { gguf_expressed(resolve(c)); }), "--attention-scale"));
}

TEST_CASE("a run is exported to GGUF", "[gguf]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --preset llama2 --steps 1 --out run" + kTiny).status == 0);
  const Outcome exported = f.run("export run --to gguf --dtype q8_0 --out folder/model.gguf");
  INFO(exported.err);
  REQUIRE(exported.status == 0);
  CHECK(contains(exported.out, "folder/model.gguf: architecture llama of llama.cpp, "));
  CHECK(contains(exported.out, "in q8_0, with 8 tensors in f16, whose rows are not multiples of 32"));
  const std::string bytes = f.read("folder/model.gguf");
  const GgufFile file(bytes);
  CHECK(file.keys.at("general.architecture") == "8:llama");
  check_refused(f, "export run --to gguf --out folder/model.gguf",
                "folder/model.gguf is there already: --force replaces it");
  CHECK(f.run("export run --to gguf --out folder/model.gguf --force").status == 0);
  CHECK(f.read("folder/model.gguf").size() > bytes.size());
  check_refused(f, "export run --to gguf --dtype q4_0 --out other.gguf", "q4_0");
  const Outcome full = f.run_with_little_space("export run --to gguf --out other.gguf", 4096);
  CHECK(full.status == 1);
  REQUIRE(f.run("train stories.txt --placement post --steps 1 --out post" + kTiny).status == 0);
  check_refused(f, "export post --to gguf --out other.gguf", "has no --placement \"post\"");
  CHECK(!f.has("other.gguf"));
}
