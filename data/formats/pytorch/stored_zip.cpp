#include "stored_zip.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "data/strings/utf8.hpp"

namespace {

constexpr uint64_t kLongestDirectory = 1 << 26;  // bytes
constexpr size_t kEnd = 22, kEndLocator = 20, kEnd64 = 56, kRow = 46, kLocal = 30;  // bytes of the fixed parts
constexpr uint32_t kInExtra = 0xffffffff;  // the number has 64 bits, which an extra field holds

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T x;
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

std::string read(const InputFile& file, uint64_t at, uint64_t bytes) {
  if (at > file.size() || bytes > file.size() - at)
    file.fail(" is truncated, or corrupted: its zip directory is wrong");
  std::string text(bytes, '\0');
  file.read(text.data(), bytes, at);
  return text;
}

// Returns the list of entries, which the end of the file refers to.
std::string directory_of(const InputFile& file) {
  const uint64_t tail_size = std::min<uint64_t>(file.size(), kEnd + 0xffff), tail_begin = file.size() - tail_size;
  const std::string tail = read(file, tail_begin, tail_size);
  const size_t end = tail.rfind("PK\x05\x06");
  if (end == tail.npos || tail.size() - end < kEnd)
    file.fail(" is truncated, or no zip file: it has no list of entries");
  uint64_t size = number_at<uint32_t>(tail, end + 12), begin = number_at<uint32_t>(tail, end + 16);
  if (end >= kEndLocator && tail.compare(end - kEndLocator, 4, "PK\x06\x07") == 0) {
    const std::string large = read(file, number_at<uint64_t>(tail, end - kEndLocator + 8), kEnd64);
    size = number_at<uint64_t>(large, 40);
    begin = number_at<uint64_t>(large, 48);
  }
  if (size > kLongestDirectory) file.fail(" is corrupted: its zip directory is longer than 64 MB");
  return read(file, begin, size);
}

// The numbers of an entry that did not fit into 32 bits: size, compressed size and offset, in this order.
class LargeNumbers {
 public:
  explicit LargeNumbers(std::string_view extra) {
    while (extra.size() >= 4) {
      const size_t size = number_at<uint16_t>(extra, 2);
      if (size > extra.size() - 4) return;
      if (number_at<uint16_t>(extra, 0) == 1) rest_ = extra.substr(4, size);
      extra.remove_prefix(4 + size);
    }
  }

  // Returns the number, or nothing if it is missing.
  std::optional<uint64_t> value_of(uint32_t number) {
    if (number != kInExtra) return number;
    if (rest_.size() < 8) return {};
    const auto large = number_at<uint64_t>(rest_, 0);
    rest_.remove_prefix(8);
    return large;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::map<std::string, ZipEntry> entries_of_zip(const InputFile& file) {
  const std::string directory = directory_of(file);
  std::map<std::string, ZipEntry> entries;
  for (std::string_view rest = directory; !rest.empty();) {
    const auto damaged = [&] { file.fail(" is corrupted: its zip directory is wrong"); };
    if (rest.size() < kRow || !rest.starts_with("PK\x01\x02")) damaged();
    const size_t name_size = number_at<uint16_t>(rest, 28), extra_size = number_at<uint16_t>(rest, 30);
    const size_t row_size = kRow + name_size + extra_size + number_at<uint16_t>(rest, 32);
    if (row_size > rest.size()) damaged();
    const std::string name(rest.substr(kRow, name_size));
    LargeNumbers large(rest.substr(kRow + name_size, extra_size));
    const auto size = large.value_of(number_at<uint32_t>(rest, 24));
    const auto stored = large.value_of(number_at<uint32_t>(rest, 20));
    const auto local = large.value_of(number_at<uint32_t>(rest, 42));
    const bool encrypted = number_at<uint16_t>(rest, 8) & 1;
    if (encrypted || number_at<uint16_t>(rest, 10) != 0 || size != stored)
      file.fail(": its entry " + in_quotes(name) + " is compressed or encrypted, which torch.save() does not do");
    if (!size || !local) damaged();
    const std::string header = read(file, *local, kLocal);
    if (!header.starts_with("PK\x03\x04")) damaged();
    const uint64_t begin = *local + kLocal + number_at<uint16_t>(header, 26) + number_at<uint16_t>(header, 28);
    if (begin > file.size() || *size > file.size() - begin)
      file.fail(" is truncated, or corrupted: " + in_quotes(name) + " does not fit into it");
    if (!entries.emplace(name, ZipEntry{begin, *size}).second) file.fail(" holds " + in_quotes(name) + " twice");
    rest.remove_prefix(row_size);
  }
  return entries;
}
