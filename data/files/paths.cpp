#include "paths.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/strings/errors.hpp"

namespace fs = std::filesystem;

// ---- reading ---------------------------------------------------------------------------------------------

namespace {

// The files that this process reads, by device and inode number, because a file may have several names.
class Inputs {
 public:
  void add(const struct stat& file) {
    const std::lock_guard alone(mutex_);
    files_.emplace(file.st_dev, file.st_ino);
  }
  bool contain(const struct stat& file) {
    const std::lock_guard alone(mutex_);
    return files_.contains({file.st_dev, file.st_ino});
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<dev_t, ino_t>> files_;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

void require_writer(std::FILE* file, const std::string& path) {
  const int handle = fileno(file);
  pollfd wanted{handle, POLLIN, 0};
  if (::poll(&wanted, 1, 1000) != 0) return;
  char byte;
  const ssize_t n = ::read(handle, &byte, 1);  // -1 with EAGAIN: a writer exists, but is slow
  if (n == 0) throw std::runtime_error(path + " is a pipe that nothing writes to");
  if (n > 0) std::ungetc(static_cast<unsigned char>(byte), file);
}

}  // namespace

OpenFile open_input(const std::string& path) {
  if (path == "-") return OpenFile(stdin);
  const int handle = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (handle < 0) fail_file("read", path, errno);
  OpenFile file(::fdopen(handle, "rb"));
  struct stat is {};
  if (!file || ::fstat(handle, &is) != 0) fail_file("read", path, errno);
  if (S_ISDIR(is.st_mode)) throw std::runtime_error(path + " is a folder, not a file");
  if (S_ISFIFO(is.st_mode)) require_writer(file.get(), path);
  const int flags = ::fcntl(handle, F_GETFL);
  if (flags < 0 || ::fcntl(handle, F_SETFL, flags & ~O_NONBLOCK) < 0) fail_file("read", path, errno);
  inputs().add(is);
  return file;
}

void will_read(const std::string& path, const std::string& out) {
  struct stat is {}, own {};
  if (::stat(path.c_str(), &is) != 0) return;  // reading it will fail, too
  inputs().add(is);
  if (!S_ISDIR(is.st_mode)) return;
  const bool known = ::stat(out.c_str(), &own) == 0;
  fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    if (::stat(entry->path().c_str(), &is) != 0) continue;
    if (known && is.st_dev == own.st_dev && is.st_ino == own.st_ino) entry.disable_recursion_pending();
    else inputs().add(is);
  }
}

// ---- writing ---------------------------------------------------------------------------------------------

namespace {

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK: return "a symbolic link";
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFCHR: case S_IFBLK: return "a device";
    default: return "a socket";
  }
}

// Returns false if nothing has this name. Throws if something other than a file has it.
bool is_plain_file(const std::string& path, struct stat& is) {
  if (::lstat(path.c_str(), &is) != 0) {
    if (errno == ENOENT) return false;
    fail_file("write", path, errno);
  }
  if (!S_ISREG(is.st_mode))
    throw std::runtime_error("cannot write " + path + ": it is " + kind_of(is.st_mode) +
                             ", not a regular file; remove it or choose another name");
  return true;
}

bool begins_with(const std::string& path, std::string_view start) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0 || !S_ISREG(is.st_mode)) return false;  // a pipe would block
  std::string found(start.size(), ' ');
  return std::ifstream(path, std::ios::binary).read(found.data(), std::ssize(found)) && found == start;
}

}  // namespace

bool is_there(const std::string& path) {
  struct stat is {};
  if (::lstat(path.c_str(), &is) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail_file("look at", path, errno);
  return false;
}

bool is_own_folder(const std::string& folder) {
  return begins_with(folder + "/" + kRunConfig, kRunStart) ||
         begins_with(folder + "/comparison.toml", kComparisonStart);
}

void check_replaced(const std::string& path) {
  if (path == "-") throw std::runtime_error("cannot write to standard output: name a file instead of -");
  struct stat is {};
  if (is_plain_file(path, is) && inputs().contain(is))
    throw std::runtime_error("cannot write " + path + ": this command reads it; choose another name");
}

void check_output(const std::string& path, bool force) {
  check_replaced(path);
  if (!is_there(path)) return;
  const fs::path folder = fs::path(path).parent_path();
  if (is_own_folder(folder.empty() ? "." : folder.string()))
    throw std::runtime_error("cannot write " + path + ": it belongs to a run or a comparison; choose another name");
  if (!force) throw std::runtime_error(path + " is there already: --force replaces it");
}

void check_new_folder(const std::string& folder, const std::string& allowed) {
  std::error_code error;
  const fs::directory_iterator end;
  for (fs::directory_iterator entry(folder, error); !error && entry != end; entry.increment(error)) {
    const fs::path name = entry->path().filename();
    const bool log = name == "log.txt" || name.extension() == ".log" || name.extension() == ".out";
    const bool unfinished = name.extension() == ".partial";  // another process may share the comparison
    if (log || unfinished || name.string().starts_with('.')) continue;
    if (allowed.empty() || !is_there(folder + "/" + allowed))
      throw std::runtime_error(folder + " holds other files, as " + name.string() +
                               ": choose another --out, or write among them with --force");
  }
  if (error) fail_file("read the folder", folder, error.value());
}

void check_own_output(const std::string& path) {
  struct stat is {};
  is_plain_file(path, is);
}

int open_to_append(const std::string& path) {
  check_own_output(path);
  const int handle = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (handle < 0) fail_file("write", path, errno);
  return handle;
}
