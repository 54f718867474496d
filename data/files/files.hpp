#pragma once
// Files that appear only when they are whole, directory locks, standard streams, and input files.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/strings/errors.hpp"
#include "paths.hpp"

inline constexpr size_t kWholeFileBuffer = 1 << 20;  // bytes: a checkpoint is written tensor by tensor

// A file that gets its name only when it is whole and on the disk. Until then it is NAME.PID.partial, which no other
// process writes to. If it is never published, an older file of that name survives. If it replaces a file, it keeps
// that file's permissions. The next write removes partial files that killed processes left (partial_files.hpp). Throws
// std::runtime_error, also if the name belongs to a link, a pipe, a device or a folder.
class WholeFile {
 public:
  explicit WholeFile(std::string path);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile();

  void write(std::string_view bytes);
  void write(const void* data, size_t bytes);
  void publish();  // flushes to the disk and renames
  void finish();   // flushes; call it for several files before publishing the first

 private:
  std::string path_, partial_;
  std::unique_ptr<char[]> buffer_;
  size_t written_ = 0, sent_ = 0;  // bytes so far; bytes that the disk has begun to write
  std::FILE* file_ = nullptr;
};

// Writes these bytes as a WholeFile.
void write_file(const std::string& path, std::string_view bytes);

// Removes a file that this program wrote, and its partial files left by killed processes.
void remove_output(const std::string& path);

// A file that a run appends lines to. Opening it replaces its content with `start`.
class GrowingFile {
 public:
  GrowingFile(std::string path, std::string_view start);
  void write(std::string_view lines);  // the system has them when it returns

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// Locks a directory against other processes until the last copy is destroyed or the process ends. Processes that ask
// for a shared lock can hold it together.
class DirectoryLock {
 public:
  enum class Kind { alone, shared };
  DirectoryLock() = default;  // holds nothing
  // Throws std::runtime_error that names the process holding the lock.
  explicit DirectoryLock(const std::string& directory, Kind kind = Kind::alone);

 private:
  std::shared_ptr<void> held_;
};

bool is_locked(const std::string& directory);

// Makes a write beyond the file-size limit fail instead of ending the process. Opens /dev/null for each closed standard
// stream, because the next file opened would otherwise receive its output.
void make_output_safe();

// Throws std::runtime_error if some output could not be written to standard output.
void finish_output();

// From now on only json_line() writes to standard output. What other code prints there goes to standard error.
void begin_json_lines();
bool has_json_lines();
void json_line(const std::string& json);  // finish_output() reports errors

// A regular file, read at any offset. Errors are std::runtime_error, in one line that names the file.
class InputFile {
 public:
  explicit InputFile(std::string path);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // bytes
  void read(void* to, uint64_t bytes, uint64_t at) const;
  [[noreturn]] void fail(const std::string& why) const;  // throws "FILE" + why

 private:
  std::string path_;
  OpenFile file_;
  uint64_t size_ = 0;
};

// Throws std::runtime_error if `file` is a device, because a device may never end.
void refuse_device(std::FILE* file, const std::string& path);

// Continues the hash `hash` over more bytes. Fast, not cryptographic.
uint64_t hash_bytes(uint64_t hash, const void* data, size_t bytes);

// Tells what a path leads to, following links. Throws std::runtime_error if the system cannot tell.
enum class PathKind { absent, file, folder, other };  // other: a pipe or a device
PathKind kind_of_path(const std::string& path);

// Returns the names in a folder, sorted; none if it does not exist. Throws std::runtime_error if it cannot be listed.
std::vector<std::string> names_in(const std::string& folder);

// Makes a folder and those above it, unless they exist. Throws std::runtime_error.
void make_folder(const std::string& path);

// Removes a file or an empty folder if it exists; throws std::runtime_error if that fails. A folder that is not empty
// stays: the write that would replace it reports the error.
void remove_file(const std::string& path);

// Makes a path absolute. Leaves "" and "-" as they are.
std::string absolute_path(const std::string& path);

// Returns a whole file, or standard input for "-". Throws std::runtime_error if it cannot be read or is larger than
// `most` bytes.
std::string read_file(const std::string& path, size_t most = SIZE_MAX);
