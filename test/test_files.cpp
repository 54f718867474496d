// Files that are published whole, or not at all.

#include "data/host/files.hpp"

#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "catch.hpp"
#include "program.hpp"

#ifdef __GLIBC__
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
std::string calls;  // "fsync 5, rename, ": calls of the C library, with the bytes in the file
}

// These replace the C library's functions: they record the call and pass it on to the kernel.
int fsync(int handle) {
  struct stat status {};
  fstat(handle, &status);
  calls += "fsync " + std::to_string(status.st_size) + ", ";
  return static_cast<int>(syscall(SYS_fsync, handle));
}
int rename(const char* from, const char* to) noexcept {
  calls += "rename, ";
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

TEST_CASE("a file's bytes are on disk before it gets its name", "[files]") {
  const Folder f;
  WholeFile file(f.path("x"));
  file.write("12345");
  calls.clear();
  file.finish();
  file.publish();
  CHECK(calls == "fsync 5, rename, ");
  CHECK(f.read("x") == "12345");
}
#endif

TEST_CASE("a file that is not published leaves nothing, and the old one survives", "[files]") {
  const Folder f;
  f.write("folder/x", "old");
  {
    WholeFile file(f.path("folder/x"));
    file.write("new");
    file.finish();
  }
  CHECK(f.read("folder/x") == "old");
  using std::filesystem::directory_iterator;
  CHECK(std::distance(directory_iterator(f.path("folder")), directory_iterator()) == 1);
}

TEST_CASE("read_file refuses a file that is larger than its limit", "[files]") {
  const Folder f;
  f.write("x", std::string((1 << 20) + 1, 'a'));
  CHECK(read_file(f.path("x"), (1 << 20) + 1).size() == (1 << 20) + 1);
  CHECK_THROWS_AS(read_file(f.path("x"), 1 << 20), std::runtime_error);
}
