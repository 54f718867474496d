// A libFuzzer program. The environment variable PARSER names the parser that it tests.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

#include "test/support/parsers.hpp"

namespace fs = std::filesystem;

namespace {

const Parser* wanted() {
  const char* name = std::getenv("PARSER");
  for (const Parser& parser : kParsers)
    if (name && name == std::string(parser.name)) return &parser;
  return nullptr;
}

// In memory if the system has such a folder.
std::string scratch_folder() {
  const fs::path memory = "/dev/shm", base = fs::exists(memory) ? memory : fs::temp_directory_path();
  const fs::path folder = base / ("train_gpt-fuzz-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  static const std::string made = folder;
  std::atexit([] { fs::remove_all(made); });
  return made;
}

}  // namespace

// Without a parser, lists them.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (wanted()) return 0;
  for (const Parser& parser : kParsers) std::puts(parser.name);
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  static const Parser& parser = *wanted();
  static const std::string folder = scratch_folder();
  accepts(parser, folder, {reinterpret_cast<const char*>(data), size});
  return 0;
}
