#pragma once
// The table of other programs' formats that train_gpt reads models from and writes them to.

#include <memory>
#include <string>
#include <vector>

#include "foreign_model.hpp"

struct Format {
  const char *name = "", *description = "";
  std::vector<std::string> dtypes = {"f32"};  // the number types that write() has; the first is the default
  bool folder = true;                         // or a file
  bool card = false;                          // hubs read a model card from its folder
  bool adapters = false;                      // can hold the adapters of --lora without the weights

  bool (*is)(const std::string& path) = nullptr;  // null if we cannot read the format
  std::unique_ptr<ForeignModel> (*open)(const std::string& path) = nullptr;

  // check() throws std::invalid_argument that names the option that the format cannot express. write() returns one line
  // about what it wrote, and throws std::runtime_error if it cannot.
  void (*check)(const ExportedModel& exported) = nullptr;
  std::string (*write)(const std::string& out, const ExportedModel& exported) = nullptr;

  std::vector<std::string> files = {};                     // what write() may leave in a folder
  bool (*is_export)(const std::string& folder) = nullptr;  // true if write() left them; null if it writes no folder
};
const std::vector<Format>& formats();

// Returns the format of a file or folder, or null.
const Format* format_of(const std::string& path);

// Returns the format with this name. Throws std::invalid_argument.
const Format& find_format(const std::string& name);
