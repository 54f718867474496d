#pragma once
// Files and folders of text, read into one string.

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"

// Which text to read.
struct TextFiles {
  std::vector<std::string> data, include, exclude;  // include, exclude: globs for files inside folders
  Unknown unknown = Unknown::error;
  std::string out;  // what the command writes: nothing in it is read
};

struct Text {
  struct Part {
    std::string name;
    size_t begin;
  };
  std::string bytes;               // of all files, one after the other
  std::string name;                // shown to the user: without control characters, as the notes
  std::vector<Part> parts;         // the files
  std::vector<std::string> notes;  // what was skipped or changed, a line each

  std::string_view part(size_t i) const;  // the bytes of a file
  std::string place(size_t at) const;  // "notes.txt, line 3, byte 7"
};

// Reads `paths`: files, folders and "-" for standard input. In folders, skips files that are not text, what train_gpt
// wrote and `filter.out`, follows symbolic links, and ignores hidden files. Reads a file with several names once.
// Leaves out byte order marks and the files that `held_out` names too, and turns CRLF into LF. Throws
// std::runtime_error.
Text read_text(const std::vector<std::string>& paths, const TextFiles& filter,
               const std::vector<std::string>& held_out = {});

// Removes from `files` those that are also in `held_out`, under any name, and returns them.
std::vector<std::string> remove_held_out(std::vector<std::string>& files, const std::vector<std::string>& held_out);
std::string note_of_held_out(const std::vector<std::string>& files);

// Removes from `files` those that come earlier under any name, and returns them.
std::vector<std::string> remove_repeated(std::vector<std::string>& files);
std::string note_of_repeated(const std::vector<std::string>& files);

// Names the texts in folders that are read for their tokens alone; "" if there are none. `paths` are as in
// read_text(); tokenizers and `tokens` do not count.
std::string note_of_texts_beside(const std::vector<std::string>& paths, const TextFiles& filter,
                                 const std::vector<std::string>& tokens);

// Notes the files of both texts that hold the same bytes as an earlier one.
void note_copies(Text& text, const Text& validation);

// Notes that names of the tokenizer's special tokens occur in a text, if they do.
void note_special_tokens(Text& text, const Tokenizer& tokenizer);

// Turns CRLF line ends from text[begin] on into LF. Returns true if there were any.
bool drop_returns(std::string& text, size_t begin = 0);
