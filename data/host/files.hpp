#pragma once
// Files that are either whole or not there.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

// Throws std::runtime_error "cannot WHAT WHERE: reason; advice" for the errno value `error`.
[[noreturn]] void fail_file(const std::string& what, const std::string& where, int error);

// A file that appears under its name only when it is whole and on the disk. Until then it is NAME.PID.partial, which
// no other process writes to. If it is never published, an older file of that name survives. What a killed process
// left under such a name goes when the file is written again. Throws std::runtime_error.
class WholeFile {
 public:
  explicit WholeFile(std::string path);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile();

  void write(std::string_view bytes);
  void write(const void* data, size_t bytes);
  void finish();   // flushed to the disk
  void publish();  // renamed; after finish()

 private:
  std::string path_, partial_;
  std::FILE* file_ = nullptr;
};

// Removes PATH.PID.partial of processes that were killed while they wrote PATH.
void remove_leftovers(const std::string& path);

// A file that a run appends lines to. Opening it replaces its content with `start`.
class GrowingFile {
 public:
  GrowingFile(std::string path, std::string_view start);
  void write(std::string_view lines);  // on its way to the disk when it returns

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// One process at a time works in a directory: this one, until the object is destroyed or the process ends.
class DirectoryLock {
 public:
  DirectoryLock() = default;                              // holds nothing
  explicit DirectoryLock(const std::string& directory);   // throws std::runtime_error naming the process that holds it
  DirectoryLock(DirectoryLock&& other) noexcept { std::swap(handle_, other.handle_), std::swap(path_, other.path_); }
  DirectoryLock& operator=(DirectoryLock other) noexcept;
  ~DirectoryLock();

 private:
  std::string path_;
  int handle_ = -1;
};

bool is_locked(const std::string& directory);

// Opens /dev/null for standard input, output and error where they are closed: otherwise the next file that is opened
// would receive what is printed.
void open_closed_streams();

// Throws std::runtime_error if standard output could not take all that was printed.
void finish_output();

// Throws std::runtime_error if `file` is a device, which may go on without end.
void refuse_device(std::FILE* file, const std::string& path);

// The path as it is from any folder; "" and "-" stay.
std::string absolute_path(const std::string& path);

// The whole of a file, or of standard input for "-". Throws std::runtime_error if it cannot be read or is larger than
// `most` bytes.
std::string read_file(const std::string& path, size_t most = SIZE_MAX);
