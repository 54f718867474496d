#include "npy.hpp"

#include <array>
#include <stdexcept>

#include "data/files/files.hpp"

namespace {

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

std::string npy_header(const std::vector<uint64_t>& shape) {
  constexpr size_t kPreamble = 10;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const uint64_t d : shape) header += std::to_string(d) + ", ";
  header += "), }";
  header.append(63 - (kPreamble + header.size()) % 64, ' ') += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(header.size(), 2) + header;
}

std::string_view data_of(const NpyArray& array) {
  uint64_t size = sizeof(float);
  for (const uint64_t d : array.shape) size *= d;
  return {reinterpret_cast<const char*>(array.values), size};
}

// A file in an archive.
struct Entry {
  std::string name, header;
  std::string_view data;
  uint64_t offset = 0;  // where its local header begins

  uint64_t size() const { return header.size() + data.size(); }
  uint64_t size_with_header() const { return 30 + name.size() + size(); }

  // The fields that the local header and the central directory share.
  std::string fields() const {
    constexpr int kVersion = 20, kStored = 0, kMidnight = 0, kFirstOfJanuary1980 = 1 << 5 | 1;
    return little_endian(kVersion, 2) + little_endian(0, 2) + little_endian(kStored, 2) + little_endian(kMidnight, 2) +
           little_endian(kFirstOfJanuary1980, 2) + little_endian(crc32(data, crc32(header)), 4) +
           little_endian(size(), 4) + little_endian(size(), 4) + little_endian(name.size(), 2) + little_endian(0, 2);
  }
};

std::vector<Entry> entries_of(const std::string& path, const std::vector<NpyArray>& arrays) {
  constexpr uint64_t kMostBytes = 0xffffffff, kMostEntries = 0xffff, kCentral = 46, kEnd = 22;
  std::vector<Entry> entries;
  uint64_t offset = 0, central = 0;
  for (const NpyArray& array : arrays) {
    entries.push_back({array.name + ".npy", npy_header(array.shape), data_of(array), offset});
    offset += entries.back().size_with_header();
    central += kCentral + entries.back().name.size();
  }
  if (offset + central + kEnd > kMostBytes || entries.size() >= kMostEntries)
    throw std::runtime_error(path + " would hold " + std::to_string(entries.size()) + " arrays in " +
                             std::to_string(offset + central + kEnd) +
                             " bytes, and .npz here ends at 4 GB and 65534 arrays: use a smaller model");
  return entries;
}

}  // namespace

uint32_t crc32(std::string_view bytes, uint32_t crc) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0xedb88320u : 0);
    }
    return t;
  }();
  crc = ~crc;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

void write_npy(const std::string& path, const std::vector<uint64_t>& shape, const float* values) {
  WholeFile file(path);
  file.write(npy_header(shape));
  file.write(data_of({"", shape, values}));
  file.publish();
}

void write_npz(const std::string& path, const std::vector<NpyArray>& arrays) {
  const std::vector<Entry> entries = entries_of(path, arrays);
  WholeFile file(path);
  std::string central;
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    const std::string fields = entry.fields();
    file.write("PK\x03\x04" + fields + entry.name + entry.header);
    file.write(entry.data);
    // version made by, fields, comment length, disk, attributes (inside and outside), offset
    central += "PK\x01\x02" + little_endian(20, 2) + fields + little_endian(0, 2 + 2 + 2 + 4) +
               little_endian(entry.offset, 4) + entry.name;
    end = entry.offset + entry.size_with_header();
  }
  // disks, number of entries (here and in all), size and offset of the central directory, comment length
  file.write(central + "PK\x05\x06" + little_endian(0, 4) + little_endian(entries.size(), 2) +
             little_endian(entries.size(), 2) + little_endian(central.size(), 4) + little_endian(end, 4) +
             little_endian(0, 2));
  file.publish();
}
