#pragma once
// The formats of other programs that models are read from and written in, as a table.

#include <memory>
#include <string>
#include <vector>

#include "other_model.hpp"

struct Format {
  const char *name, *description;
  std::vector<std::string> dtypes;  // that it can be written in; the first is the default
  bool folder;                      // is a folder, not a file

  bool (*is)(const std::string& path);                            // null: cannot be read
  std::unique_ptr<OtherModel> (*open)(const std::string& path);

  // check() throws std::invalid_argument naming the option that the format cannot express. write() returns one line
  // about what it wrote, and throws std::runtime_error if it cannot write.
  void (*check)(const ExportedModel& exported);  // null: cannot be written
  std::string (*write)(const std::string& out, const ExportedModel& exported);

  std::vector<std::string> files;                // that write() may leave in a folder
  bool (*is_export)(const std::string& folder);  // write() left them; null: it writes no folder
};
const std::vector<Format>& formats();

// The format of a file or folder, or null if it is none of these.
const Format* format_of(const std::string& path);

// The format with this name. Throws std::invalid_argument.
const Format& find_format(const std::string& name);
