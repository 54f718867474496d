#pragma once
// Files that are not part of the project: below $SHARED, or below ../shared.

#include <cstdlib>
#include <filesystem>
#include <string>

// The path of data/NAME there, or "" if there is none.
inline std::string shared_file(const std::string& name) {
  const char* folder = std::getenv("SHARED");
  const std::string path = std::string(folder ? folder : "../shared") + "/data/" + name;
  return std::filesystem::exists(path) ? path : "";
}
