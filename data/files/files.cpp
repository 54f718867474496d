#include "files.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/strings/utf8.hpp"
#include "partial_files.hpp"

namespace fs = std::filesystem;

// ---- folders ---------------------------------------------------------------------------------------------

PathKind kind_of_path(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode)) return PathKind::file;
    return S_ISDIR(status.st_mode) ? PathKind::folder : PathKind::other;
  }
  if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) fail_file("read", path, errno);
  return PathKind::absent;
}

namespace {

// Returns an error as in errno, or 0.
int list(const std::string& folder, std::vector<std::string>& names) {
  DIR* const directory = ::opendir(folder.c_str());
  if (!directory) return errno;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(directory);
  return error;
}

}  // namespace

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const int error = list(folder, names);
  if (error != 0 && error != ENOENT) fail_file("read the folder", folder, error);
  std::sort(names.begin(), names.end());
  return names;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_file("make the directory", path, error.value());
}

void remove_file(const std::string& path) {
  if (std::remove(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_file("remove", path, errno);
}

// ---- whole files -----------------------------------------------------------------------------------------

namespace {

constexpr size_t kToDisk = 1 << 25;           // the disk starts writing after this many bytes

// Gives a new file the permissions of the one that it replaces. If the file cannot get the same group, its group gets
// no permissions.
void keep_permissions(const std::string& path, std::FILE* file) {
  struct stat old {}, now {};
  const int handle = ::fileno(file);
  if (::lstat(path.c_str(), &old) != 0 || ::fstat(handle, &now) != 0) return;
  mode_t mode = old.st_mode & 0777;
  const bool belongs = (old.st_uid == now.st_uid && old.st_gid == now.st_gid) ||
                       ::fchown(handle, old.st_uid, old.st_gid) == 0 || old.st_gid == now.st_gid ||
                       ::fchown(handle, uid_t(-1), old.st_gid) == 0;
  if (!belongs) mode &= ~mode_t{070};
  if (mode != (now.st_mode & 0777) && ::fchmod(handle, mode) != 0) fail_file("set the permissions of", path, errno);
}

}  // namespace

WholeFile::WholeFile(std::string path)
    : path_(std::move(path)), buffer_(std::make_unique_for_overwrite<char[]>(kWholeFileBuffer)) {
  check_own_output(path_);
  remove_leftovers(path_);
  file_ = create_partial(path_, partial_);
  keep_permissions(path_, file_);
  std::setvbuf(file_, buffer_.get(), _IOFBF, kWholeFileBuffer);
}

WholeFile::~WholeFile() {
  if (!partial_.empty()) remove_partial(partial_);
  if (file_) std::fclose(file_);
}

void WholeFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  for (size_t n; bytes > 0; from += n, bytes -= n) {
    n = std::min(bytes, kToDisk);
    if (std::fwrite(from, 1, n, file_) != n) fail_file("write", path_, errno);
    written_ += n;
#if defined(__linux__)
    if (written_ - sent_ < kToDisk) continue;
    ::sync_file_range(::fileno(file_), static_cast<off_t>(sent_), static_cast<off_t>(written_ - sent_),
                      SYNC_FILE_RANGE_WRITE);  // the disk writes while this thread copies, so finish() waits less
    sent_ = written_;
#endif
  }
}

void WholeFile::write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

void WholeFile::finish() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail_file("write", path_, errno);
}

void WholeFile::publish() {
  finish();
  publish_partial(partial_, path_);
  partial_.clear();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_file("write", path_, errno);
}

void write_file(const std::string& path, std::string_view bytes) {
  WholeFile file(path);
  file.write(bytes);
  file.publish();
}

void remove_output(const std::string& path) {
  remove_leftovers(path);
  remove_file(path);
}

GrowingFile::GrowingFile(std::string path, std::string_view start)
    : path_(std::move(path)), file_(nullptr, std::fclose) {
  write_file(path_, start);
  file_.reset(::fdopen(open_to_append(path_), "ab"));
  if (!file_) fail_file("write", path_, errno);
}

void GrowingFile::write(std::string_view lines) {
  const bool written = std::fwrite(lines.data(), 1, lines.size(), file_.get()) == lines.size();
  if (!written || std::fflush(file_.get()) != 0) fail_file("write", path_, errno);
}

// ---- one process at a time -------------------------------------------------------------------------------

namespace {

constexpr const char* kLock = ".lock";

// "process 1234 on host", as the holder wrote it.
std::string holder_of(int handle) {
  char text[300];
  const ssize_t n = ::pread(handle, text, sizeof text, 0);
  const std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
  return holder.empty() ? "another process" : for_terminal(holder);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, Kind kind) {
  const std::string path = directory + "/" + kLock;
  int handle = -1;
  for (int tries = 0;;) {
    handle = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (handle < 0) fail_file("lock", directory, errno);
    const int how = kind == Kind::alone ? LOCK_EX : LOCK_SH;
    const bool refused = ::flock(handle, how | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat status {};
    const bool removed = ::fstat(handle, &status) == 0 && status.st_nlink == 0;  // by the previous holder
    if (!refused && !removed) break;
    const std::string holder = holder_of(handle);
    ::close(handle);
    // A killed process holds its locks until its memory is freed, so wait for a second.
    if (refused && ++tries == 20)
      throw std::runtime_error(directory + " is in use by " + holder +
                               ": wait until it ends, or end it (also if it is paused)");
    if (refused) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  held_ = std::shared_ptr<void>(nullptr, [path, handle](void*) {
    if (::flock(handle, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());  // unless another process shares it
    ::close(handle);
  });
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string self = "process " + std::to_string(::getpid()) + " on " + host;
  if (::ftruncate(handle, 0) != 0 || ::pwrite(handle, self.data(), self.size(), 0) != ssize_t(self.size())) {
    // The lock holds anyway; only the next process's error message cannot name this one.
  }
}

bool is_locked(const std::string& directory) {
  const int handle = ::open((directory + "/" + kLock).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (handle < 0) return false;
  const bool locked = ::flock(handle, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(handle);
  return locked;
}

// ---- standard streams ------------------------------------------------------------------------------------

void make_output_safe() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);  // gets the lowest free number
}

namespace {

std::FILE* json_lines = nullptr;
int json_error = 0;

}  // namespace

void begin_json_lines() {
  std::fflush(stdout);
  const int handle = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  json_lines = handle < 0 ? nullptr : ::fdopen(handle, "w");
  if (!json_lines || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) fail_file("write", "standard output", errno);
}

bool has_json_lines() { return json_lines != nullptr; }

void json_line(const std::string& json) {
  if (std::fputs((json + "\n").c_str(), json_lines) < 0 || std::fflush(json_lines) != 0) json_error = errno;
}

void finish_output() {
  if (json_error != 0) fail_file("write", "standard output", json_error);
  if (std::fflush(stdout) != 0) fail_file("write", "standard output", errno);
  if (!std::ferror(stdout)) return;
  const bool works_again = ::write(STDOUT_FILENO, "\n", 1) == 1;  // if not, errno tells why
  fail_file("write", "standard output", works_again ? EIO : errno);
}

// ---- reading ---------------------------------------------------------------------------------------------

InputFile::InputFile(std::string path) : path_(std::move(path)), file_(open_input(path_)) {
  struct stat is {};
  if (::fstat(fileno(file_.get()), &is) != 0) fail_file("read", path_, errno);
  if (!S_ISREG(is.st_mode)) fail(" is not a file");
  size_ = static_cast<uint64_t>(is.st_size);
}

void InputFile::fail(const std::string& why) const { throw std::runtime_error(path_ + why); }

void InputFile::read(void* to, uint64_t bytes, uint64_t at) const {
  for (char* p = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = ::pread(fileno(file_.get()), p, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("read", path_, errno);
    if (n == 0) fail(" is truncated");
    p += n;
    at += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

void refuse_device(std::FILE* file, const std::string& path) {
  struct stat is;
  if (fstat(fileno(file), &is) == 0 && (S_ISCHR(is.st_mode) || S_ISBLK(is.st_mode)))
    throw std::runtime_error(path + " is a device, not a file with text");
}

uint64_t hash_bytes(uint64_t hash, const void* data, size_t bytes) {
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    uint64_t word = 0;
    const size_t n = std::min(bytes, sizeof word);
    std::memcpy(&word, from, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;  // 2⁶⁴ / the golden ratio
    hash ^= hash >> 32;
    from += n;
    bytes -= n;
  }
  return hash;
}

std::string absolute_path(const std::string& path) {
  return path.empty() || path == "-" ? path : fs::absolute(path).lexically_normal().string();
}

std::string read_file(const std::string& path, size_t most) {
  const OpenFile opened = open_input(path);
  std::FILE* const file = opened.get();
  std::string text;
  char buffer[1 << 16];
  size_t n;
  while (text.size() <= most && (n = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
    if (n == sizeof buffer) refuse_device(file, path);
    text.append(buffer, n);
  }
  const int error = std::ferror(file) ? errno : 0;
  if (error) fail_file("read", path, error);
  if (text.size() > most)
    throw std::runtime_error(path + " is larger than " + std::to_string(most >> 20) + " MB: is it the right file?");
  return text;
}
