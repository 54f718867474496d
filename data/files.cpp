#include "files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <unistd.h>

namespace fs = std::filesystem;

void fail_file(const std::string& what, const std::string& where, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  const char* advice = error == ENOSPC || error == EDQUOT || error == EFBIG
                           ? "; free some space or choose another place"
                       : missing && what == "write"        ? "; make the folder or choose another place"
                       : missing                           ? "; is the path right?"
                       : error == EACCES || error == EROFS ? "; choose a place you may use"
                                                           : "";
  throw std::runtime_error("cannot " + what + " " + where + ": " + std::strerror(error) + advice);
}

WholeFile::WholeFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  file_ = std::fopen(partial_.c_str(), "wb");
  if (!file_) fail_file("write", path_, errno);
}

WholeFile::~WholeFile() {
  if (file_) std::fclose(file_);
  if (!published_) ::unlink(partial_.c_str());
}

void WholeFile::write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) fail_file("write", path_, errno);
}

void WholeFile::write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

void WholeFile::finish() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail_file("write", path_, errno);
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_file("write", path_, errno);
}

void WholeFile::publish() {
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail_file("write", path_, errno);
  published_ = true;
}

GrowingFile::GrowingFile(std::string path, std::string_view start) : path_(std::move(path)) {
  WholeFile whole(path_);
  whole.write(start);
  whole.finish();
  whole.publish();
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) fail_file("write", path_, errno);
}

void GrowingFile::write(std::string_view lines) {
  const bool written = std::fwrite(lines.data(), 1, lines.size(), file_.get()) == lines.size();
  if (!written || std::fflush(file_.get()) != 0) fail_file("write", path_, errno);
}

std::string read_file(const std::string& path) {
  if (path != "-" && fs::is_directory(path)) throw std::runtime_error(path + " is a folder, not a file");
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) fail_file("read", path, errno);
  std::string text;
  char buffer[1 << 16];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, n);
  const int error = std::ferror(file) ? errno : 0;
  if (file != stdin) std::fclose(file);
  if (error) fail_file("read", path, error);
  return text;
}

std::vector<std::string> expand_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (path == "-" || !fs::is_directory(path)) {
      if (path != "-" && !fs::exists(path)) fail_file("read", path, ENOENT);
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (auto entry = fs::recursive_directory_iterator(path); entry != fs::recursive_directory_iterator(); ++entry) {
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (hidden && entry->is_directory()) entry.disable_recursion_pending();
      if (!hidden && entry->is_regular_file()) inside.push_back(entry->path().string());
    }
    if (inside.empty()) throw std::runtime_error("folder " + path + " has no files in it to train on");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}
