#include "gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

constexpr uint64_t kLongestHeader = 1 << 28;                 // bytes; a vocabulary of 262,144 tokens has 11 MB
constexpr uint64_t kMostKeys = 1 << 16, kMostTensors = 1 << 20;
constexpr uint64_t kMostElements = 1 << 22;                  // of all lists together
constexpr uint32_t kMostDimensions = 4;                      // GGML_MAX_DIMS
constexpr uint32_t kOldest = 2, kNewest = 3;                 // versions
constexpr uint64_t kStandardAlignment = 32, kLargestAlignment = 1 << 20;

// Reads a file from its start on.
class Cursor {
 public:
  explicit Cursor(const InputFile& file) : file_(file) {}

  uint64_t at() const { return at_; }

  template <class T>
  T number() {
    T x;
    take(&x, sizeof x);
    return x;
  }

  std::string text() {
    const auto length = number<uint64_t>();
    require(length);
    std::string bytes(length, '\0');
    take(bytes.data(), length);
    return bytes;
  }

  // Throws unless so many bytes follow, in a header that is not too long.
  void require(uint64_t bytes) const {
    if (bytes > file_.size() - at_) fail("it is truncated, or corrupted: its header does not fit into the file");
    if (bytes > kLongestHeader - at_) fail("its header is longer than 256 MB");
  }

  [[noreturn]] void fail(const std::string& why) const { file_.fail(" cannot be used: " + why); }

 private:
  void take(void* to, uint64_t bytes) {
    require(bytes);
    char* next = static_cast<char*>(to);
    while (bytes > 0) {
      if (at_ >= begin_ + piece_.size()) refill();
      const uint64_t n = std::min<uint64_t>(bytes, begin_ + piece_.size() - at_);
      std::memcpy(next, piece_.data() + (at_ - begin_), n);
      next += n;
      at_ += n;
      bytes -= n;
    }
  }

  void refill() {
    constexpr uint64_t kPiece = 1 << 18;
    begin_ = at_;
    piece_.resize(std::min(kPiece, file_.size() - at_));
    file_.read(piece_.data(), piece_.size(), begin_);
  }

  const InputFile& file_;
  uint64_t at_ = 0, begin_ = 0;  // begin_: where piece_ begins in the file
  std::string piece_;
};

// ---- keys ------------------------------------------------------------------------------------------------

constexpr uint32_t kArray = 9;

json plain_value(Cursor& from, uint32_t type, const std::string& key) {
  switch (type) {
    case 0: return from.number<uint8_t>();
    case 1: return from.number<int8_t>();
    case 2: return from.number<uint16_t>();
    case 3: return from.number<int16_t>();
    case 4: return from.number<uint32_t>();
    case 5: return from.number<int32_t>();
    case 6: return from.number<float>();
    case 7: return from.number<uint8_t>() != 0;
    case 8: return from.text();
    case 10: return from.number<uint64_t>();
    case 11: return from.number<int64_t>();
    case 12: return from.number<double>();
  }
  from.fail("its key " + in_quotes(key) + " has the unknown type " + std::to_string(type));
}

// Adds the length of a list to `elements`, which is limited for all lists together.
json value_of_key(Cursor& from, const std::string& key, uint64_t& elements) {
  const auto type = from.number<uint32_t>();
  if (type != kArray) return plain_value(from, type, key);
  const auto element = from.number<uint32_t>();
  const auto count = from.number<uint64_t>();
  from.require(count);
  if ((elements += count) > kMostElements) from.fail("its key " + in_quotes(key) + " has too many elements");
  if (element == kArray) from.fail("its key " + in_quotes(key) + " is a list of lists");
  json list = json::array();
  for (uint64_t i = 0; i < count; ++i) list.push_back(plain_value(from, element, key));
  return list;
}

json read_keys(Cursor& from, uint64_t count) {
  json keys = json::object();
  uint64_t elements = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = from.text();
    if (keys.contains(key)) from.fail("it holds the key " + in_quotes(key) + " twice");
    keys[key] = value_of_key(from, key, elements);
  }
  return keys;
}

// ---- tensors ---------------------------------------------------------------------------------------------

uint64_t padded(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

uint64_t alignment_of(const Cursor& from, const json& keys) {
  const json value = keys.value("general.alignment", json(kStandardAlignment));
  const uint64_t alignment = value.is_number_unsigned() ? value.get<uint64_t>() : 0;
  if (!std::has_single_bit(alignment) || alignment > kLargestAlignment)
    from.fail("its key 'general.alignment' is no power of two up to 2^20");
  return alignment;
}

// Returns the number of elements, or 0 for a shape that no tensor has.
uint64_t count_elements(const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t d : shape) {
    if (d == 0 || d > std::numeric_limits<uint32_t>::max() || count > (uint64_t{1} << 56) / d) return 0;
    count *= d;
  }
  return count;
}

// The tensors must follow one another: `end` is the offset of the next, from the start of the data.
GgufTensor read_tensor(Cursor& from, uint64_t& end, uint64_t alignment) {
  GgufTensor t;
  t.name = from.text();
  const auto fail = [&](const std::string& why) { from.fail("its tensor " + in_quotes(t.name) + " " + why); };
  const auto dimensions = from.number<uint32_t>();
  if (dimensions == 0 || dimensions > kMostDimensions)
    fail("has " + std::to_string(dimensions) + " dimensions instead of 1 to 4");
  t.shape.resize(dimensions);
  for (auto d = t.shape.rbegin(); d != t.shape.rend(); ++d) *d = from.number<uint64_t>();
  const auto type = from.number<uint32_t>();
  t.type = find_ggml_type(type);
  if (!t.type)
    fail("has numbers of the type " + name_of_ggml_type(type) + "; train_gpt reads " + readable_ggml_types());
  const uint64_t count = count_elements(t.shape);
  if (count == 0) fail("has a shape that no tensor has");
  if (t.shape.back() % t.type->block != 0)
    fail("has rows that are no whole blocks of " + std::to_string(t.type->block) + " numbers");
  t.bytes = count / t.type->block * t.type->bytes;
  t.begin = from.number<uint64_t>();
  if (t.begin != end) fail("does not begin where the tensor before it ends");
  end = padded(end + t.bytes, alignment);
  return t;
}

std::vector<GgufTensor> read_tensors(Cursor& from, uint64_t count, uint64_t alignment, uint64_t most) {
  std::vector<GgufTensor> tensors;
  std::set<std::string> names;
  for (uint64_t i = 0, end = 0; i < count; ++i) {
    tensors.push_back(read_tensor(from, end, alignment));
    const GgufTensor& t = tensors.back();
    if (!names.insert(t.name).second) from.fail("it holds the tensor " + in_quotes(t.name) + " twice");
    if (t.begin + t.bytes > most) from.fail("it is truncated: its tensors need more bytes than it has");
  }
  const uint64_t data = padded(from.at(), alignment);
  for (GgufTensor& t : tensors) t.begin += data;
  if (!tensors.empty() && tensors.back().begin + tensors.back().bytes > most)
    from.fail("it is truncated: it has " + std::to_string(most) + " bytes, and its tensors end at " +
              std::to_string(tensors.back().begin + tensors.back().bytes));
  return tensors;
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : file_(path) {
  Cursor from(file_);
  if (from.number<uint32_t>() != std::bit_cast<uint32_t>(std::to_array({'G', 'G', 'U', 'F'})))
    file_.fail(" is no GGUF file");
  const auto version = from.number<uint32_t>();
  const bool swapped = version != 0 && (version & 0xffffff) == 0;
  if (swapped) file_.fail(" is a GGUF file for big-endian processors, which train_gpt does not read");
  if (version < kOldest || version > kNewest)
    file_.fail(" has version " + std::to_string(version) + " of GGUF; train_gpt reads versions 2 and 3");
  const auto tensors = from.number<uint64_t>(), keys = from.number<uint64_t>();
  if (tensors > kMostTensors || keys > kMostKeys) file_.fail(" is corrupted: it asks for too many tensors or keys");
  keys_ = read_keys(from, keys);
  tensors_ = read_tensors(from, tensors, alignment_of(from, keys_), file_.size());
}

void GgufFile::read(float* to, const GgufTensor& tensor) const {
  const GgmlType& type = *tensor.type;
  std::vector<unsigned char> piece;
  const uint64_t most = (uint64_t{1} << 18) / type.bytes * type.bytes;
  for (uint64_t done = 0; done < tensor.bytes; done += piece.size()) {
    piece.resize(std::min(most, tensor.bytes - done));
    file_.read(piece.data(), piece.size(), tensor.begin + done);
    for (size_t at = 0; at < piece.size(); at += type.bytes, to += type.block) type.decode(to, piece.data() + at);
  }
}
