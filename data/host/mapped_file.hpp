#pragma once
// Files that are mapped into memory.

#include <cstddef>
#include <cstdint>
#include <string>

// A whole file, mapped for reading. If another program cuts it, or its disk fails, what cannot be read is zeros, and
// require_mapped_files() says so. Without that, the system would end the process (SIGBUS).
class MappedFile {
 public:
  // Throws std::runtime_error.
  explicit MappedFile(std::string path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const void* data() const { return data_; }
  size_t size() const { return size_; }  // bytes

  // Tells the system that reading is in order, and not here and there, so that it reads ahead.
  void read_in_order(bool in_order) const;

 private:
  friend void require_mapped_files();

  std::string path_;
  void* data_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, number_ = 0;  // which tell the file from another of its name
};

// Throws std::runtime_error naming a mapped file that was cut or could not be read since it was mapped. Call it between
// reading and using what was read.
void require_mapped_files();
