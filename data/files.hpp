#pragma once
// Files that are either whole or not there.

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Throws std::runtime_error "cannot WHAT WHERE: reason; advice" for the errno value `error`.
[[noreturn]] void fail_file(const std::string& what, const std::string& where, int error);

// A file that appears under its name only when it is whole and on the disk. Before that it is NAME.partial, and
// if it is never published, nothing stays and an older file of that name survives. Throws std::runtime_error.
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
  bool published_ = false;
};

// A file that grows line by line while a run goes on. It begins with `start`, whatever was there before.
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

// The whole of a file, or of standard input for "-". Throws std::runtime_error if it cannot be read.
std::string read_file(const std::string& path);

// Files as they are, folders as the regular files below them in alphabetical order (hidden ones left out).
// Throws std::runtime_error for what does not exist and for folders without files.
std::vector<std::string> expand_folders(const std::vector<std::string>& paths);
