#pragma once
// Files and folders of text, read into one string.

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"

// Which text to read.
struct TextFiles {
  std::vector<std::string> data, include, exclude;  // include, exclude: globs for files inside folders
  Unknown unknown = Unknown::error;
};

struct Text {
  struct Part {
    std::string name;
    size_t begin;
  };
  std::string bytes;               // of all files, one after the other
  std::string name;                // shown to the user
  std::vector<Part> parts;         // the files
  std::vector<std::string> notes;  // what was skipped or changed, a line each

  std::string_view part(size_t i) const;  // the bytes of a file
  std::string place(size_t at) const;  // "notes.txt, line 3, byte 7"
};

// Reads `paths`: files, folders and "-" for standard input. In folders, skips files that are not text and ignores
// hidden ones. Leaves out byte order marks, and turns CRLF into LF. Throws std::runtime_error.
Text read_text(const std::vector<std::string>& paths, const TextFiles& filter);

// Turns CRLF line ends from text[begin] on into LF. Returns true if there were any.
bool drop_returns(std::string& text, size_t begin = 0);
