#pragma once
// Files of NumPy's arrays, written.
//
// .npy (numpy.lib.format, version 1.0):
//   "\x93NUMPY"  u8 1  u8 0  u16 length of the header
//   header       a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, padded with spaces to a
//                multiple of 64 bytes with all before it, and a line break
//   data         row-major, little-endian
//
// .npz: a zip archive of such files without compression (PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16),
// which numpy.load opens. No zip64, so it holds less than 4 GB.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// float32 numbers, as many as the product of `shape`.
struct NpyArray {
  std::string name;  // in an archive
  std::vector<uint64_t> shape;
  const float* values;
};

// Throw std::runtime_error; an older file survives then.
void write_npy(const std::string& path, const std::vector<uint64_t>& shape, const float* values);
void write_npz(const std::string& path, const std::vector<NpyArray>& arrays);

// The CRC-32 of zip, gzip and PNG of more bytes; `crc` is that of the bytes before them.
uint32_t crc32(std::string_view bytes, uint32_t crc = 0);
