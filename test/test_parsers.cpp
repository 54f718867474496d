// Files that fuzzing has found: each is accepted, or refused in one line.

#include <filesystem>

#include "catch.hpp"
#include "data/host/files.hpp"
#include "parsers.hpp"
#include "program.hpp"

namespace fs = std::filesystem;

TEST_CASE("inputs that fuzzing kept are accepted, or refused in one line", "[parsers]") {
  int refused = 0;
  for (const Parser& parser : kParsers) {
    const Folder f;
    int accepted = 0;
    for (const auto& entry : fs::directory_iterator(fs::path("test/fuzz") / parser.name)) {
      INFO(entry.path());
      ++(accepts(parser, f.path("."), read_file(entry.path())) ? accepted : refused);
    }
    INFO(parser.name);
    CHECK(accepted > 0);
  }
  CHECK(refused > 10);
}
