#include "gguf.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "data/files/files.hpp"
#include "data/formats/foreign_tensors.hpp"
#include "data/formats/huggingface/companions.hpp"
#include "data/strings/format.hpp"
#include "ggml_types.hpp"
#include "gguf_architectures.hpp"
#include "gguf_rope.hpp"
#include "data/tokenizer/gguf/gguf_tokenizer.hpp"
#include "gguf_windows.hpp"
#include "layers/model/size.hpp"

using nlohmann::json;

namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kAlignment = 32;
constexpr uint32_t kQuantizationVersion = 2;  // GGML_QNT_VERSION

// ---- bytes -----------------------------------------------------------------------------------------------

template <class T>
void put(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_string(std::string& to, const std::string& text) {
  put<uint64_t>(to, text.size());
  to += text;
}

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// ---- keys ------------------------------------------------------------------------------------------------

enum class ValueType : uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };

class Keys {
 public:
  void add_size(const std::string& key, uint32_t x) { start(key, ValueType::u32); put(bytes_, x); }
  void add_float(const std::string& key, float x) { start(key, ValueType::f32); put(bytes_, x); }
  void add_choice(const std::string& key, bool x) { start(key, ValueType::boolean); put<uint8_t>(bytes_, x); }
  void add_text(const std::string& key, const std::string& x) { start(key, ValueType::string); put_string(bytes_, x); }

  void add_texts(const std::string& key, const std::vector<std::string>& list) {
    start_array(key, ValueType::string, list.size());
    for (const std::string& x : list) put_string(bytes_, x);
  }
  void add_floats(const std::string& key, const std::vector<float>& list) {
    start_array(key, ValueType::f32, list.size());
    for (const float x : list) put(bytes_, x);
  }
  void add_choices(const std::string& key, const std::vector<bool>& list) {
    start_array(key, ValueType::boolean, list.size());
    for (const bool x : list) put<uint8_t>(bytes_, x);
  }
  void add_integers(const std::string& key, const std::vector<int32_t>& list) {
    start_array(key, ValueType::i32, list.size());
    for (const int32_t x : list) put(bytes_, x);
  }

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void start(const std::string& key, ValueType type) {
    ++count_;
    put_string(bytes_, key);
    put(bytes_, type);
  }
  void start_array(const std::string& key, ValueType element, size_t count) {
    start(key, ValueType::array);
    put(bytes_, element);
    put<uint64_t>(bytes_, count);
  }

  uint64_t count_ = 0;
  std::string bytes_;
};

void add_model(Keys& keys, const std::string& architecture, const json& numbers) {
  const std::string prefix = architecture + ".";
  for (const auto& [key, value] : numbers.items()) {
    if (value.is_boolean()) keys.add_choice(prefix + key, value);
    else if (value.is_string()) keys.add_text(prefix + key, value);
    else if (value.is_array()) keys.add_choices(prefix + key, value);
    else if (value.is_number_float()) keys.add_float(prefix + key, value);
    else keys.add_size(prefix + key, value);
  }
}

void add_tokenizer(Keys& keys, const GgufTokenizer& t, const ExportedModel& exported) {
  const std::string prefix = "tokenizer.ggml.";
  keys.add_text(prefix + "model", t.model);
  if (!t.pre.empty()) keys.add_text(prefix + "pre", t.pre);
  keys.add_texts(prefix + "tokens", t.tokens);
  keys.add_integers(prefix + "token_type", t.types);
  if (!t.merges.empty()) keys.add_texts(prefix + "merges", t.merges);
  if (!t.scores.empty()) keys.add_floats(prefix + "scores", t.scores);
  if (t.first) keys.add_size(prefix + "bos_token_id", *t.first);
  const int end = end_of_answers(exported);
  if (end >= 0) keys.add_size(prefix + "eos_token_id", static_cast<size_t>(end));
  else if (t.end) keys.add_size(prefix + "eos_token_id", *t.end);
  if (t.unknown) keys.add_size(prefix + "unknown_token_id", *t.unknown);
  if (t.dummy_prefix) keys.add_choice(prefix + "add_space_prefix", *t.dummy_prefix);
  keys.add_choice(prefix + "add_bos_token", t.add_first);
  keys.add_choice(prefix + "add_eos_token", false);
  const std::string chat = chat_template_of(exported);
  if (!chat.empty()) keys.add_text("tokenizer.chat_template", chat);
}

// ---- tensors ---------------------------------------------------------------------------------------------

struct FileTensor {
  std::string name;
  ForeignTensor tensor;
  const GgmlType* type;

  size_t row() const { return tensor.vector ? tensor.rows : tensor.columns; }
  size_t bytes() const { return tensor.rows * tensor.columns / type->block * type->bytes; }
};

const GgmlType& type_of(const std::string& name, const ForeignTensor& tensor, const GgmlType& wanted) {
  if (tensor.vector || name == "position_embd.weight" || name.ends_with("ffn_gate_inp.weight")) return kF32;
  return tensor.columns % wanted.block == 0 ? wanted : kF16;
}

std::vector<FileTensor> file_tensors(const Expressed& model, const GgmlType& wanted) {
  std::map<std::string, ForeignTensor> all = foreign_tensors(model.architecture, model.config);
  if (needs_own_head(model)) all.emplace("output.weight", all.at("token_embd.weight"));  // no effect if it exists
  for (const auto& [name, numbers] : rope_tensors(model.config))
    all[name] = {.sources = {}, .rows = numbers.size(), .vector = true};
  std::vector<FileTensor> list;
  for (const auto& [name, tensor] : all) list.push_back({name, tensor, &type_of(name, tensor, wanted)});
  return list;
}

// Returns the numbers that llama.cpp computes with: its gains have no offset.
std::vector<float> file_values(const FileTensor& t, const Expressed& expressed, const Model& model) {
  if (t.tensor.sources.empty()) return rope_tensors(expressed.config).at(t.name);
  std::vector<float> values = values_of(t.tensor, expressed.config, model);
  if (expressed.config.norm_unit_offset && t.tensor.sources[0].spec.role == Role::norm_gain)
    for (float& x : values) x += 1;
  return values;
}

// Throws if a number is not finite, or would not be finite in the file.
void check_values(const FileTensor& t, const Expressed& expressed, const Model& model) {
  for (const float x : file_values(t, expressed, model))
    check_limit(x, t.type->limit, t.type->name, t.tensor.sources.empty() ? t.name : t.tensor.sources[0].spec.name);
}

std::string header(const std::vector<FileTensor>& tensors, const Keys& keys) {
  std::string bytes = "GGUF";
  put(bytes, kVersion);
  put<uint64_t>(bytes, tensors.size());
  put<uint64_t>(bytes, keys.count());
  bytes += keys.bytes();
  uint64_t offset = 0;
  for (const FileTensor& t : tensors) {
    const std::vector<uint64_t> shape = t.tensor.shape();
    put_string(bytes, t.name);
    put<uint32_t>(bytes, static_cast<uint32_t>(shape.size()));
    for (auto d = shape.rbegin(); d != shape.rend(); ++d) put(bytes, *d);
    put(bytes, t.type->id);
    put(bytes, offset);
    offset += padded(t.bytes());
  }
  bytes.resize(padded(bytes.size()));
  return bytes;
}

// ", with 2 tensors of rows ... in f16"
std::string exceptions(const std::vector<FileTensor>& tensors, const GgmlType& type) {
  const auto count = std::count_if(tensors.begin(), tensors.end(), [&](const FileTensor& t) {
    return t.type == &kF16 && &type != &kF16;
  });
  if (count == 0) return "";
  return ", with " + counted(static_cast<double>(count), "tensor") + " in f16, whose rows are not multiples of " +
         std::to_string(type.block);
}

}  // namespace

void check_gguf(const ExportedModel& exported) {
  const Expressed expressed = gguf_expressed(exported.model.config);
  gguf_tokenizer(exported.tokenizer, expressed.config.vocab_size);
  for (const FileTensor& t : file_tensors(expressed, find_ggml_type(exported.dtype)))
    check_values(t, expressed, exported.model);
}

std::string write_gguf(const std::string& out, const ExportedModel& exported) {
  const Model& model = exported.model;
  const Expressed expressed = gguf_expressed(model.config);
  const GgmlType& type = find_ggml_type(exported.dtype);
  const std::string architecture = expressed.architecture.model_type;
  Keys keys;
  keys.add_text("general.architecture", architecture);
  keys.add_text("general.name", exported.name);
  keys.add_size("general.file_type", type.file_type);
  keys.add_size("general.quantization_version", kQuantizationVersion);
  const json numbers = gguf_keys(expressed);
  add_model(keys, architecture, numbers);
  add_tokenizer(keys, gguf_tokenizer(exported.tokenizer, expressed.config.vocab_size), exported);
  const std::vector<FileTensor> tensors = file_tensors(expressed, type);
  WholeFile file(out);
  file.write(header(tensors, keys));
  for (const FileTensor& t : tensors) {
    const std::vector<float> values = file_values(t, expressed, model);
    std::string bytes;
    for (size_t at = 0; at < values.size(); at += t.row()) {
      bytes.clear();
      t.type->encode(bytes, &values[at], t.row());
      file.write(bytes);
    }
    file.write(std::string(padded(t.bytes()) - t.bytes(), '\0'));
  }
  file.publish();
  return "architecture " + architecture + " of llama.cpp, " +
         counted(static_cast<double>(count_parameters(model.table)), "parameter") + ", in " + type.name +
         exceptions(tensors, type) +
         (numbers.contains(kWindowPattern) ? "; build 8929 of llama.cpp ignores which layers have a window" : "");
}
