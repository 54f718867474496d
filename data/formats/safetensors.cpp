#include "safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "data/files/files.hpp"
#include "data/files/foreign_files.hpp"
#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "shard_index.hpp"

using nlohmann::json;

namespace {

constexpr uint64_t kLongestHeader = 100000000;  // bytes, as in safetensors/src/tensor.rs
constexpr size_t kMostDimensions = 8, kLengthBytes = 8;
constexpr const char *kWeights = "model.safetensors", *kIndex = "model.safetensors.index.json",
                     *kMetadata = "__metadata__";

struct TypeRow {
  std::string_view name;
  TensorType type;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"F32", TensorType::f32, 4},     {"F16", TensorType::f16, 2},     {"BF16", TensorType::bf16, 2},
    {"F64", TensorType::other, 8},   {"I64", TensorType::other, 8},   {"U64", TensorType::other, 8},
    {"I32", TensorType::other, 4},   {"U32", TensorType::other, 4},   {"I16", TensorType::other, 2},
    {"U16", TensorType::other, 2},   {"I8", TensorType::other, 1},    {"U8", TensorType::other, 1},
    {"BOOL", TensorType::other, 1},  {"F8_E4M3", TensorType::other, 1}, {"F8_E5M2", TensorType::other, 1},
};

const TypeRow* find_type(std::string_view name) {
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& t) { return t.name == name; });
  return row == std::end(kTypes) ? nullptr : row;
}

// Returns a·b. Throws if it needs more than 64 bits.
uint64_t product(uint64_t a, uint64_t b) {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) throw std::overflow_error("too large");
  return a * b;
}

uint64_t elements(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (const uint64_t d : shape) n = product(n, d);
  return n;
}

// ---- the header ------------------------------------------------------------------------------------------

// Receives the header value by value. So memory grows only with the tensors listed, and deep nesting is not followed.
// Throws std::runtime_error that says what is wrong with the header.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<StoredTensor> tensors;  // with offsets from the end of the header
  std::map<std::string, std::string> metadata;

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a truth value"); }
  bool number_integer(number_integer_t) override { return misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return misplaced("a number that is not whole"); }
  bool binary(binary_t&) override { return misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t x) override {
    if (!in_array_) misplaced("a number");
    numbers_.push_back(x);
    if (numbers_.size() > kMostDimensions) throw std::runtime_error(in_quotes(name_) + " has more than 8 dimensions");
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ != 2 || in_array_) misplaced("a text");
    if (name_ == kMetadata) {
      metadata[key_] = text;
      return true;
    }
    if (key_ != "dtype") misplaced("a text");
    const TypeRow* type = find_type(text);
    if (!type) throw std::runtime_error(in_quotes(name_) + " has the unknown dtype " + in_quotes(text));
    tensors.back().type_name = text;
    tensors.back().type = type->type;
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ > 1 || in_array_) misplaced("an object");
    if (++depth_ == 2 && name_ != kMetadata) tensors.emplace_back().name = name_;
    keys_.clear();
    return true;
  }

  bool key(string_t& key) override {
    if (!(depth_ == 1 ? names_ : keys_).insert(key).second)
      throw std::runtime_error("it holds " + in_quotes(key) + " twice");
    const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
    if (depth_ == 2 && name_ != kMetadata && !known)
      throw std::runtime_error(in_quotes(name_) + " has an unknown field " + in_quotes(key));
    (depth_ == 1 ? name_ : key_) = key;
    return true;
  }

  bool end_object() override {
    if (depth_-- == 2 && name_ != kMetadata && keys_.size() != 3)
      throw std::runtime_error(in_quotes(name_) + " lacks dtype, shape or data_offsets");
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || name_ == kMetadata || key_ == "dtype") misplaced("a list");
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    StoredTensor& t = tensors.back();
    if (key_ == "shape") {
      t.shape = std::exchange(numbers_, {});
      return true;
    }
    if (numbers_.size() != 2) throw std::runtime_error(in_quotes(name_) + " has data_offsets that are not two numbers");
    t.begin = numbers_[0];
    t.end = numbers_[1];
    numbers_.clear();
    return true;
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    throw std::runtime_error("it is no JSON at byte " + std::to_string(at));
  }

 private:
  [[noreturn]] bool misplaced(const std::string& what) const {
    throw std::runtime_error("it has " + what + " in a wrong place" +
                             (name_.empty() ? "" : ", at " + in_quotes(name_)));
  }

  int depth_ = 0;
  bool in_array_ = false;
  std::string name_, key_;
  std::set<std::string> names_, keys_;
  std::vector<uint64_t> numbers_;
};

// Checks that each tensor has as many bytes as its shape needs and begins where the previous one ends. Returns the end
// of the last.
uint64_t checked_extents(std::vector<StoredTensor>& tensors) {
  for (const StoredTensor& t : tensors) {
    uint64_t bytes = 0;
    try {
      bytes = product(elements(t.shape), find_type(t.type_name)->bytes);
    } catch (const std::overflow_error&) {
      throw std::runtime_error(in_quotes(t.name) + " has more elements than can be counted");
    }
    if (t.end < t.begin || t.end - t.begin != bytes)
      throw std::runtime_error(in_quotes(t.name) + " has data_offsets that do not fit its shape");
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t end = 0;
  for (const StoredTensor& t : tensors) {
    const char* problem = t.begin < end ? " overlaps another tensor" : " begins after a gap";
    if (t.begin != end) throw std::runtime_error(in_quotes(t.name) + problem);
    end = t.end;
  }
  return end;
}

}  // namespace

uint64_t StoredTensor::size() const { return elements(shape); }

// ---- reading ---------------------------------------------------------------------------------------------

void StoredTensors::open(std::shared_ptr<const InputFile> file) {
  uint64_t length = 0;
  if (file->size() < kLengthBytes) file->fail(" is truncated: it is shorter than the length of a header");
  file->read(&length, sizeof length, 0);
  if (length > kLongestHeader)
    if (const std::string foreign = foreign_model(start_of_file(file->path())); !foreign.empty())
      file->fail(" " + foreign);
  if (length > kLongestHeader) file->fail(" is not a safetensors file, or corrupted: its header is longer than 100 MB");
  if (length > file->size() - kLengthBytes) file->fail(" is truncated: it is shorter than its header");
  std::string text(length, ' ');
  file->read(text.data(), length, kLengthBytes);
  const uint64_t data = kLengthBytes + length, bytes = file->size() - data;
  HeaderReader header;
  const uint64_t end = explained(file->path() + " has a header that cannot be used: ", [&] {
    if (!text.starts_with('{')) throw std::runtime_error("it is no JSON object");
    json::sax_parse(text, &header);
    return checked_extents(header.tensors);
  });
  if (end != bytes)
    file->fail((end > bytes ? " is truncated" : " is corrupted") + (": its tensors take " + std::to_string(end)) +
               " bytes, and the file has " + std::to_string(bytes) + " for them");
  for (StoredTensor& t : header.tensors) {
    t.begin += data;
    t.end += data;
    t.file = files_.size();
    tensors_.push_back(std::move(t));
  }
  metadata_.merge(header.metadata);
  files_.push_back(std::move(file));
}

void StoredTensors::open_shards(const std::string& folder) {
  const ShardIndex index(folder, kIndex);
  for (const std::string& name : index.files()) {
    const size_t before = tensors_.size();
    open(std::make_shared<const InputFile>(folder + "/" + name));
    for (size_t i = before; i < tensors_.size(); ++i) index.require(tensors_[i].name, name);
  }
  index.require_all(tensors_.size());
}

StoredTensors::StoredTensors(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string weights = path + "/" + kWeights, index = path + "/" + kIndex;
  if (fs::is_directory(path) && !fs::exists(weights) && fs::exists(index)) open_shards(path);
  else open(std::make_shared<const InputFile>(fs::is_directory(path) ? weights : path));
  sort();
}

StoredTensors::StoredTensors(std::shared_ptr<const InputFile> file) {
  open(std::move(file));
  sort();
}

void StoredTensors::sort() {
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

const StoredTensor* StoredTensors::find(const std::string& name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const StoredTensor& t, const std::string& n) { return t.name < n; });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

const std::string& StoredTensors::path_of(const StoredTensor& tensor) const { return files_[tensor.file]->path(); }

void StoredTensors::read(float* to, const StoredTensor& tensor, uint64_t first, uint64_t count) const {
  const InputFile& file = *files_[tensor.file];
  if (tensor.type == TensorType::other)
    file.fail(": " + in_quotes(tensor.name) + " has dtype " + tensor.type_name + "; train_gpt reads F32, F16 and BF16");
  if (tensor.type == TensorType::f32) return file.read(to, count * sizeof(float), tensor.begin + first * sizeof(float));
  const auto convert = tensor.type == TensorType::f16 ? float_of_half : float_of_bfloat16;
  uint16_t piece[1 << 12];
  uint64_t at = tensor.begin + 2 * first;
  for (uint64_t rest = count, n; rest > 0; rest -= n, at += 2 * n) {
    n = std::min<uint64_t>(rest, std::size(piece));
    file.read(piece, 2 * n, at);
    to = std::transform(piece, piece + n, to, convert);
  }
}

// ---- writing ---------------------------------------------------------------------------------------------

std::string safetensors_header(const std::string& path, const std::vector<NewTensor>& tensors,
                               const std::map<std::string, std::string>& metadata, size_t alignment,
                               const FloatType& type) {
  std::string text = "{" + to_text(json(kMetadata)) + ":" + to_text(json(metadata));
  uint64_t end = 0;
  for (const NewTensor& t : tensors) {
    const uint64_t begin = end;
    const FloatType& numbers = t.type ? *t.type : type;
    end += product(elements(t.shape), numbers.bytes);
    const nlohmann::ordered_json row = {{"dtype", numbers.stored}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
    text += "," + to_text(json(t.name)) + ":" + to_text(row);
  }
  text += "}";
  text.append((alignment - (kLengthBytes + text.size()) % alignment) % alignment, ' ');
  const uint64_t length = text.size();
  if (length > kLongestHeader)
    throw std::runtime_error("cannot write " + path + ": safetensors allows a header of 100 MB, and this one has " +
                             std::to_string(length) + " bytes; choose fewer layers or a smaller vocabulary");
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

void write_safetensors(const std::string& path, std::vector<NewTensor> tensors,
                       const std::map<std::string, std::string>& metadata, const FloatType& type) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const std::string header = safetensors_header(path, tensors, metadata, 8, type);
  WholeFile file(path);
  file.write(header);
  for (const NewTensor& t : tensors) {
    const std::vector<float> values = t.values();
    if (values.size() != elements(t.shape)) throw std::logic_error(t.name + " has other values than its shape");
    constexpr size_t kPiece = 1 << 16;
    for (size_t i = 0; i < values.size(); i += kPiece) {
      std::string bytes;
      type.encode(bytes, values.data() + i, std::min(kPiece, values.size() - i));
      file.write(bytes);
    }
  }
  file.publish();
}
