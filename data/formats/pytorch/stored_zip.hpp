#pragma once
// Finds the entries of a zip file whose entries are not compressed, as torch.save() writes it (PKWARE, APPNOTE.TXT).

#include <cstdint>
#include <map>
#include <string>

#include "data/files/files.hpp"

struct ZipEntry {
  uint64_t begin = 0, size = 0;  // bytes, from the start of the file
};

// Returns the entries by name. Throws std::runtime_error in one line that names the file if it is damaged, or has an
// entry that is compressed or encrypted.
std::map<std::string, ZipEntry> entries_of_zip(const InputFile& file);
