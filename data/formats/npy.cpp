#include "npy.hpp"

#include "data/host/files.hpp"

void write_npy(const std::string& path, const std::vector<uint64_t>& shape, const float* values) {
  constexpr size_t kPreamble = 10;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  uint64_t size = 1;
  for (const uint64_t d : shape) header += std::to_string(d) + ", ", size *= d;
  header += "), }";
  header.append(63 - (kPreamble + header.size()) % 64, ' ') += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  WholeFile file(path);
  file.write(std::string("\x93NUMPY\x01\x00", 8));
  file.write(&length, sizeof length);
  file.write(header);
  file.write(values, size * sizeof(float));
  file.finish();
  file.publish();
}
