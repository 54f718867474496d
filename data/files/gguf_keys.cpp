#include "gguf_keys.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "data/strings/utf8.hpp"
#include "foreign_files.hpp"

using nlohmann::json;

namespace {

constexpr uint64_t kLongestHeader = 1 << 28;                 // bytes; a vocabulary of 262,144 tokens has 11 MB
constexpr uint64_t kMostKeys = 1 << 16, kMostTensors = 1 << 20;
constexpr uint64_t kMostElements = 1 << 22;                  // of all lists together
constexpr uint32_t kOldest = 2, kNewest = 3;                 // versions
constexpr uint32_t kArray = 9;

json plain_value(GgufCursor& from, uint32_t type, const std::string& key) {
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
json value_of_key(GgufCursor& from, const std::string& key, uint64_t& elements) {
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

json read_keys(GgufCursor& from, uint64_t count) {
  json keys = json::object();
  uint64_t elements = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = from.text();
    if (keys.contains(key)) from.fail("it holds the key " + in_quotes(key) + " twice");
    keys[key] = value_of_key(from, key, elements);
  }
  return keys;
}

}  // namespace

std::string GgufCursor::text() {
  const auto length = number<uint64_t>();
  require(length);
  std::string bytes(length, '\0');
  take(bytes.data(), length);
  return bytes;
}

void GgufCursor::require(uint64_t bytes) const {
  if (bytes > file_.size() - at_) fail("it is truncated, or corrupted: its header does not fit into the file");
  if (bytes > kLongestHeader - at_) fail("its header is longer than 256 MB");
}

void GgufCursor::take(void* to, uint64_t bytes) {
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

void GgufCursor::refill() {
  constexpr uint64_t kPiece = 1 << 18;
  begin_ = at_;
  piece_.resize(std::min(kPiece, file_.size() - at_));
  file_.read(piece_.data(), piece_.size(), begin_);
}

GgufKeys read_gguf_keys(GgufCursor& from) {
  const InputFile& file = from.file();
  if (from.number<uint32_t>() != std::bit_cast<uint32_t>(std::to_array({'G', 'G', 'U', 'F'})))
    file.fail(" is no GGUF file");
  const auto version = from.number<uint32_t>();
  const bool swapped = version != 0 && (version & 0xffffff) == 0;
  if (swapped) file.fail(" is a GGUF file for big-endian processors, which train_gpt does not read");
  if (version < kOldest || version > kNewest)
    file.fail(" has version " + std::to_string(version) + " of GGUF; train_gpt reads versions 2 and 3");
  const auto tensors = from.number<uint64_t>(), keys = from.number<uint64_t>();
  if (tensors > kMostTensors || keys > kMostKeys) file.fail(" is corrupted: it asks for too many tensors or keys");
  return {tensors, read_keys(from, keys)};
}

bool is_gguf(const std::string& path) { return start_of_file(path).starts_with("GGUF"); }
