#pragma once
// Data options that a text does not read: --text-field with plain text. unused_options() of data/run/ has those that
// follow from other options.

#include <string>
#include <vector>

#include "text_options.hpp"

// What was read: files for training and for validation.
struct ReadText {
  const Tokenizer& tokenizer;
  bool has_known_tokenizer = false;  // it was not made for this text
  Packing packing = Packing::stream;
  bool has_token_files = false, has_val_token_files = false;
  bool has_plain = false, has_lines = false;  // files of plain text; files of JSON lines or pairs
  bool has_answers = false;                   // some tokens do not count
};

// Returns a line for each option that is set and has no effect: "--text-field has no effect without JSON lines".
std::vector<std::string> unread_options(const TextOptions& options, const ReadText& text);
