#pragma once
// .npy, the file format of NumPy's arrays (numpy.lib.format, version 1.0):
//
//   "\x93NUMPY"  u8 1  u8 0  u16 length of the header
//   header       a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, padded with spaces to a
//                multiple of 64 bytes with all before it, and a line break
//   data         row-major, little-endian

#include <cstdint>
#include <string>
#include <vector>

// Writes float32 numbers, as many as the product of `shape`. Throws std::runtime_error; an older file survives then.
void write_npy(const std::string& path, const std::vector<uint64_t>& shape, const float* values);
