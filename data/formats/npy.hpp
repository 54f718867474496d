#pragma once
// Writes NumPy's array files.
//
// .npy (numpy.lib.format, version 1.0):
//   "\x93NUMPY"  u8 1  u8 0  u16 length of the header
//   header       a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces and a line break,
//                so that the data begins at a multiple of 64 bytes
//   data         row-major, little-endian
//
// .npz: a zip archive of such files without compression (PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16),
// which numpy.load opens. It does not use zip64, so it holds less than 4 GB.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// An array of float32 numbers.
struct NpyArray {
  std::string name;  // its name in an archive
  std::vector<uint64_t> shape;
  const float* values;
};

// Both throw std::runtime_error, and then keep an older file.
void write_npy(const std::string& path, const std::vector<uint64_t>& shape, const float* values);
void write_npz(const std::string& path, const std::vector<NpyArray>& arrays);

// Continues the CRC-32 (of zip, gzip and PNG) `crc` of earlier bytes over more bytes.
uint32_t crc32(std::string_view bytes, uint32_t crc = 0);
