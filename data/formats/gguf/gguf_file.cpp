#include "gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "data/files/gguf_keys.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

constexpr uint32_t kMostDimensions = 4;  // GGML_MAX_DIMS
constexpr uint64_t kStandardAlignment = 32, kLargestAlignment = 1 << 20;

// ---- tensors ---------------------------------------------------------------------------------------------

uint64_t padded(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

uint64_t alignment_of(const GgufCursor& from, const json& keys) {
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
GgufTensor read_tensor(GgufCursor& from, uint64_t& end, uint64_t alignment) {
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

std::vector<GgufTensor> read_tensors(GgufCursor& from, uint64_t count, uint64_t alignment, uint64_t most) {
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
  GgufCursor from(file_);
  GgufKeys keys = read_gguf_keys(from);
  keys_ = std::move(keys.values);
  tensors_ = read_tensors(from, keys.tensors, alignment_of(from, keys_), file_.size());
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
