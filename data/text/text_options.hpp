#pragma once
// The options that decide which text is read, and how.

#include <string>
#include <vector>

#include "data/text/readers/text_files.hpp"
#include "split.hpp"

// Which text to read, and how to split and draw it.
struct TextOptions : TextFiles, SplitOptions, DocumentOptions {
  std::vector<std::string> val_data;  // the validation text; if empty, a part of `data`
  std::string tokenizer;              // byte, char, bpe:VOCABULARY or a tokenizer file; "": open
};
