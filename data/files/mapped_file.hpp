#pragma once
// Files that are mapped into memory.

#include <cstddef>
#include <cstdint>
#include <string>

// A whole file, mapped for reading. If another program truncates it or its disk fails, the unreadable part reads as
// zeros and require_mapped_files() reports it. Otherwise the system would end the process (SIGBUS).
class MappedFile {
 public:
  // Throws std::runtime_error.
  explicit MappedFile(std::string path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const void* data() const { return data_; }
  size_t size() const { return size_; }  // bytes

  // Tells the system whether to read ahead: true if the reads go in order, false if they jump.
  void read_in_order(bool in_order) const;

 private:
  friend void require_mapped_files();

  std::string path_;
  void* data_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, number_ = 0;  // identify the file even if another takes its name
};

// Throws std::runtime_error that names a mapped file if it was truncated or became unreadable. Call it after reading,
// before you use what you read.
void require_mapped_files();
