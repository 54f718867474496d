// Files that are published whole, or not at all.

#include "data/host/files.hpp"

#include <filesystem>
#include <iterator>
#include <stdexcept>

#include <unistd.h>

#include "catch.hpp"
#include "data/host/mapped_file.hpp"
#include "message.hpp"
#include "program.hpp"

#ifdef __GLIBC__
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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

TEST_CASE("what is missing of a mapped file is zeros, and an error that names it", "[files]") {
  const Folder f;
  const std::string text(20000, 'x');
  const auto why = [] { return message_of<std::runtime_error>([] { require_mapped_files(); }); };
  for (const size_t bytes : {0, 5000, 19999}) {
    f.write("a", text);
    const MappedFile file(f.path("a"));
    const char* read = static_cast<const char*>(file.data());
    CHECK(why() == "");
    REQUIRE(truncate(f.path("a").c_str(), static_cast<off_t>(bytes)) == 0);
    CHECK(std::string(read, file.size()) == text.substr(0, bytes) + std::string(text.size() - bytes, '\0'));
    CHECK(why() == f.path("a") + " was cut from 20000 to " + std::to_string(bytes) +
                       " bytes while it was read: restore it and start again");
  }
  f.write("a", text);
  const MappedFile file(f.path("a"));
  f.write("b", "another");
  std::filesystem::rename(f.path("b"), f.path("a"));
  CHECK(std::string(static_cast<const char*>(file.data()), file.size()) == text);
  CHECK(why() == "");
  std::filesystem::remove(f.path("a"));
  CHECK(why() == "");
}

TEST_CASE("read_file refuses a file that is larger than its limit", "[files]") {
  const Folder f;
  f.write("x", std::string((1 << 20) + 1, 'a'));
  CHECK(read_file(f.path("x"), (1 << 20) + 1).size() == (1 << 20) + 1);
  CHECK_THROWS_AS(read_file(f.path("x"), 1 << 20), std::runtime_error);
}
