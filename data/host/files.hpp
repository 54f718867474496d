#pragma once
// Files that are either whole or absent, locks of directories, and standard streams.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "paths.hpp"

inline constexpr size_t kWholeFileBuffer = 1 << 20;  // bytes: a checkpoint is written tensor by tensor

// A file that appears under its name only when it is whole and on the disk. Until then it is NAME.PID.partial, which
// no other process writes to. If it is never published, an older file of that name survives. One that it replaces
// hands its permissions on. Writing the file again removes the partial files of processes that were killed. Throws
// std::runtime_error, also if the name belongs to a link, a pipe, a device or a folder.
class WholeFile {
 public:
  explicit WholeFile(std::string path);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile();

  void write(std::string_view bytes);
  void write(const void* data, size_t bytes);
  void finish();   // flushes to the disk
  void publish();  // renames; call finish() first

 private:
  std::string path_, partial_;
  std::unique_ptr<char[]> buffer_;
  size_t written_ = 0, sent_ = 0;  // bytes, and those that the disk has begun to write
  std::FILE* file_ = nullptr;
};

// Removes a file of our own, and the partial files of processes that were killed while they wrote it.
void remove_output(const std::string& path);

// A file that a run appends lines to. Opening it replaces its content with `start`.
class GrowingFile {
 public:
  GrowingFile(std::string path, std::string_view start);
  void write(std::string_view lines);  // hands them to the operating system

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// Keeps other processes from working in a directory until the last copy is destroyed or the process ends. A shared lock
// lets in those that share it, too.
class DirectoryLock {
 public:
  enum class Kind { alone, shared };
  DirectoryLock() = default;  // holds nothing
  // Throws std::runtime_error naming the process that holds it.
  explicit DirectoryLock(const std::string& directory, Kind kind = Kind::alone);

 private:
  std::shared_ptr<void> held_;
};

bool is_locked(const std::string& directory);

// Makes writes beyond the file-size limit fail instead of ending the process, and opens /dev/null for standard streams
// that are closed: otherwise the next file that is opened would receive the output.
void make_output_safe();

// Throws std::runtime_error if some output could not be written to standard output.
void finish_output();

// From now on standard output is for json_line(), and what other code prints to it goes to standard error.
void begin_json_lines();
bool has_json_lines();
void json_line(const std::string& json);  // errors are left to finish_output()

// A regular file to read from anywhere. Throws std::runtime_error in one line that names the file.
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

// Throws std::runtime_error if `file` is a device, which may go on without end.
void refuse_device(std::FILE* file, const std::string& path);

// A fast hash of bytes, going on from `hash`.
uint64_t hash_bytes(uint64_t hash, const void* data, size_t bytes);

// What a path leads to, through links. Throws std::runtime_error if the system does not say.
enum class PathKind { absent, file, folder, other };  // other: a pipe or a device
PathKind kind_of_path(const std::string& path);

// The names in a folder, sorted. A folder that is absent has none. Throws std::runtime_error if it cannot be listed.
std::vector<std::string> names_in(const std::string& folder);

// Removes a file or an empty folder, if it is there. Throws std::runtime_error. A folder that is not empty stays: what
// is to be written in its place will say so.
void remove_file(const std::string& path);

// The path, made absolute; "" and "-" stay.
std::string absolute_path(const std::string& path);

// The whole of a file, or of standard input for "-". Throws std::runtime_error if it cannot be read or is larger than
// `most` bytes.
std::string read_file(const std::string& path, size_t most = SIZE_MAX);
