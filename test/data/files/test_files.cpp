// Files that are published whole, or not at all.

#include "data/files/files.hpp"

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include <unistd.h>

#include "catch.hpp"
#include "data/files/mapped_file.hpp"
#include "data/run_directory/directory.hpp"
#include "data/text/readers/text_files.hpp"
#include "data/text/token_files.hpp"
#include "message.hpp"
#include "program.hpp"

#ifdef __GLIBC__
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace {
std::string calls;  // "fsync 5, rename, ": calls of the C library, with the bytes in the file
}

// These replace the C library's functions: they record the call and pass it on to the kernel.
extern "C" int fsync(int handle) {
  struct stat status {};
  fstat(handle, &status);
  calls += "fsync " + std::to_string(status.st_size) + ", ";
  return static_cast<int>(syscall(SYS_fsync, handle));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  calls += "rename, ";
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

// If not negative, these functions end a listing after so many names. Programs call either.
namespace {
int names_left = -1;

template <class Entry>
Entry* next_name(const char* function, DIR* directory) {
  if (names_left == 0) return errno = EIO, nullptr;
  names_left -= names_left > 0;
  return reinterpret_cast<Entry* (*)(DIR*)>(dlsym(RTLD_NEXT, function))(directory);
}
}  // namespace

extern "C" dirent* readdir(DIR* directory) { return next_name<dirent>("readdir", directory); }
extern "C" dirent64* readdir64(DIR* directory) { return next_name<dirent64>("readdir64", directory); }

TEST_CASE("a folder that cannot be listed is an error, and not an empty folder", "[files]") {
  const Folder f;
  for (const char* name : {"tokens/train_0.bin", "tokens/val_0.bin", "runs/0007-x/checkpoint.safetensors"})
    f.write(name, name);
  const auto why = [](const auto& list) {
    return message_of<std::runtime_error>([&] {
      names_left = 2;
      try {
        list();
      } catch (...) {
        names_left = -1;
        throw;
      }
      names_left = -1;
    });
  };
  const std::string tokens = f.path("tokens"), here = std::filesystem::current_path(), error = ": Input/output error";
  CHECK(why([&] { names_in(tokens); }) == "cannot read the folder " + tokens + error);
  CHECK(why([&] { find_token_files({tokens}, true); }) == "cannot read the folder " + tokens + error);
  CHECK(why([&] { find_token_files({tokens}, true, true); }) == "cannot read the folder " + tokens + error);
  TextFiles filter;
  CHECK(why([&] { read_text({tokens}, filter); }) == "cannot read the folder " + tokens + error);
  std::filesystem::current_path(f.path(""));
  CHECK(why([] { next_run_directory("x"); }) == "cannot read the folder runs" + error);
  CHECK(why([] { find_checkpoint(""); }) == "cannot read the folder runs" + error);
  CHECK(next_run_directory("x") == "runs/0008-x");
  std::filesystem::current_path(here);
  CHECK(why([&] {  // it should remove leftovers, and continues if it cannot
          WholeFile file(f.path("whole"));
          file.publish();
        }) == "");
  CHECK(names_in(f.path("none")).empty());
}

TEST_CASE("a file's bytes are on disk before it gets its name", "[files]") {
  const Folder f;
  WholeFile file(f.path("x"));
  file.write("12345");
  calls.clear();
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

TEST_CASE("a file that cannot be removed is an error", "[files]") {
  const Folder f;
  f.write("a", "x");
  f.write("folder/b", "x");
  remove_file(f.path("a"));
  remove_file(f.path("a"));
  remove_file(f.path("folder"));
  CHECK(!f.has("a"));
  CHECK(f.has("folder/b"));
  const std::string long_name(300, 'x');
  CHECK(contains(message_of<std::runtime_error>([&] { remove_file(f.path(long_name)); }), "cannot remove "));
  CHECK(contains(message_of<std::runtime_error>([&] { remove_outcome(f.path(long_name)); }), "cannot remove "));
  f.write("r/outcome.json/x", "x");
  CHECK(contains(message_of<std::runtime_error>([&] { prepare_run_directory(f.path("r"), true); }), "it is a folder"));
}

TEST_CASE("a file that cannot be read next to token files is an error", "[files]") {
  const Folder f;
  f.write("tokens/README", "x");
  write_token_file(f.path("tokens/train_0.bin"), {1, 2}, false);
  CHECK(find_token_files({f.path("tokens")}, false).size() == 1);
  std::filesystem::create_symlink("gone.txt", f.path("tokens/notes.txt"));
  CHECK(find_token_files({f.path("tokens")}, false).size() == 1);
  std::filesystem::create_symlink("gone.bin", f.path("tokens/val_0.bin"));
  CHECK(contains(message_of<std::runtime_error>([&] { find_token_files({f.path("tokens")}, false); }),
                 "cannot read " + f.path("tokens/val_0.bin") + ": No such file or directory"));
}

TEST_CASE("read_file refuses a file that is larger than its limit", "[files]") {
  const Folder f;
  f.write("x", std::string((1 << 20) + 1, 'a'));
  CHECK(read_file(f.path("x"), (1 << 20) + 1).size() == (1 << 20) + 1);
  CHECK_THROWS_AS(read_file(f.path("x"), 1 << 20), std::runtime_error);
}
