#pragma once
// Every reader of files that may be damaged or forged, for `make fuzz` and for the tests that replay what it found.

#include <string>
#include <string_view>
#include <vector>

struct Parser {
  const char* name;
  const char* file;                        // what it reads, in its own folder
  void (*read)(const std::string& path);
};
extern const std::vector<Parser> kParsers;

// Internal names of the C++ library and the JSON parser, which no message may contain.
inline constexpr const char* kInternalNames[] = {"json.exception", "filesystem error", "basic_string", "vector::",
                                                 "map::at", "std::", "_M_", "stoul", "stoi", "bad_", "at()"};

// Writes the bytes to `folder` and reads them. True if they were accepted, false if they were refused in one line.
// Throws std::logic_error for any other refusal.
bool accepts(const Parser& parser, const std::string& folder, std::string_view bytes);
