#pragma once
// Reads files and folders of text into one string.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"
#include "json_lines.hpp"

// Which text to read.
struct TextFiles : JsonFields {
  std::vector<std::string> data, include, exclude;  // include and exclude are globs for files in folders
  Unknown unknown = Unknown::error;
  std::optional<bool> finds_special;  // names of special tokens are these tokens; open: as the tokenizer does
  std::string out;  // what the command writes; no input is read from it
};

struct Text {
  struct File {
    std::string name;
    size_t begin;
    std::vector<TextSpan> spans = {};  // of JSON lines and pairs; empty for any other file
  };
  std::string bytes;               // all files, one after the other
  std::string name;                // shown to the user, without control characters
  std::vector<File> files;
  bool has_answers = false;        // prompts or conversations, whose answers alone are learned
  const ChatTemplate* chat = nullptr;  // of its conversations, if it has any
  std::vector<std::string> notes;  // shown to the user, one line each: what was skipped or changed
  std::vector<std::string> held_out;  // files that were left out, because they are held out

  std::string_view bytes_of(size_t i) const;  // of file i
  std::string place(size_t at) const;  // "notes.txt, line 3, byte 7"
};

// Reads `paths`: files, folders and "-" for standard input. In folders, follows symbolic links, ignores hidden files,
// and skips files that are not text, files that train_gpt wrote, and `filter.out`. Reads a file with several names
// once. Leaves out byte order marks and files that are also in `held_out`, and turns CRLF into LF. Reads JSON lines as
// json_lines.hpp says: files NAME.jsonl, and named files and standard input that begin with two JSON objects. With
// filter.reads_pairs, reads every file as pairs.hpp says. Throws std::runtime_error, also for conversations next to
// prompts without a template for both, and if there is no text, unless all of it is held out.
Text read_text(const std::vector<std::string>& paths, const TextFiles& filter,
               const std::vector<std::string>& held_out = {});

// Removes the files that are also in `held_out`, under any name, and returns them.
std::vector<std::string> remove_held_out(std::vector<std::string>& files, const std::vector<std::string>& held_out);
std::string note_of_held_out(const std::vector<std::string>& files);

// Removes repetitions of an earlier file, under any name, and returns them.
std::vector<std::string> remove_repeated(std::vector<std::string>& files);
std::string note_of_repeated(const std::vector<std::string>& files);

// Returns a note that names texts in folders whose token files alone are read, or "". `paths` are as in read_text();
// tokenizer files and `tokens` do not count.
std::string note_of_texts_beside(const std::vector<std::string>& paths, const TextFiles& filter,
                                 const std::vector<std::string>& tokens);

// Files that repeat the bytes of an earlier file, of the same text or of another.
class Copies {
 public:
  void add(const Text& text);
  std::string note() const;  // "" if there are none

 private:
  std::set<uint64_t> seen_;  // hashes
  std::vector<std::string> names_;
};

// Adds a note if names of the tokenizer's special tokens occur in the text.
void note_special_tokens(Text& text, const Tokenizer& tokenizer);

// Turns CRLF line ends from text[begin] on into LF. Returns true if there were any.
bool drop_returns(std::string& text, size_t begin = 0);
