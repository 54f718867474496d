#include "mapped_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.hpp"

namespace {

// No lock: files are mapped and unmapped only while no other thread reads them.
struct Range {
  char *begin, *end;
  const MappedFile* file;
};
std::vector<Range> ranges;
std::atomic<const MappedFile*> unreadable = nullptr;

// Maps zeros over the rest of the file, and resumes.
void replace_by_zeros(int signal, siginfo_t* info, void*) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  char* const at = static_cast<char*>(info->si_addr);
  for (const Range& range : ranges) {
    if (at < range.begin || at >= range.end) continue;
    char* const from = at - reinterpret_cast<uintptr_t>(at) % page;
    const size_t bytes = static_cast<size_t>(range.end - from);
    if (::mmap(from, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
    unreadable = range.file;
    return;
  }
  std::signal(signal, SIG_DFL);  // the access repeats and ends the process
}

void catch_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = replace_by_zeros;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const OpenFile file = open_input(path_);
  const int handle = fileno(file.get());
  struct stat status {};
  if (::fstat(handle, &status) != 0) fail_file("read", path_, errno);
  size_ = static_cast<size_t>(status.st_size);
  device_ = static_cast<uint64_t>(status.st_dev);
  number_ = static_cast<uint64_t>(status.st_ino);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, handle, 0);
  if (data_ == MAP_FAILED) fail_file("map", path_, errno);
  if (size_ == 0) return;
  read_in_order(false);
  ranges.push_back({static_cast<char*>(data_), static_cast<char*>(data_) + size_, this});
  catch_bus_errors();
}

MappedFile::~MappedFile() {
  std::erase_if(ranges, [this](const Range& range) { return range.file == this; });
  if (unreadable == this) unreadable = nullptr;
  if (data_) ::munmap(data_, size_);
}

// Batches and statistics jump around in the file; with read-ahead the system would read megabytes at each place.
void MappedFile::read_in_order(bool in_order) const {
  if (size_ > 0) ::madvise(data_, size_, in_order ? MADV_SEQUENTIAL : MADV_RANDOM);
}

// A file truncated within its last page reads as zeros without a signal, hence the check of sizes. A file that was
// replaced or removed stays mapped.
void require_mapped_files() {
  const auto require = [](const MappedFile& file) {
    struct stat now {};
    const bool same = ::stat(file.path_.c_str(), &now) == 0 && static_cast<uint64_t>(now.st_dev) == file.device_ &&
                      static_cast<uint64_t>(now.st_ino) == file.number_;
    if (same && static_cast<uint64_t>(now.st_size) < file.size_)
      throw std::runtime_error(file.path_ + " was cut from " + std::to_string(file.size_) + " to " +
                               std::to_string(now.st_size) + " bytes while it was read: restore it and start again");
    if (unreadable == &file) fail_file("read", file.path_, EIO);
  };
  for (const Range& range : ranges) require(*range.file);
}
