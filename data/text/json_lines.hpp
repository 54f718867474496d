#pragma once
// Reads JSON lines: a document in each line.
//
//   {"text": "..."}                          a text
//   {"prompt": "...", "completion": "..."}   two parts, of which the completion alone is learned
// JsonFields names other fields. All other fields are ignored.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Which parts of prompts and completions are learned.
enum class LearnedPart { completion, all };

struct JsonFields {
  std::string text_field = "text", prompt_field = "prompt", completion_field = "completion";
  LearnedPart learn = LearnedPart::completion;
};

// Bytes [begin, end) of a text: a document, or a part of one.
struct TextSpan {
  size_t begin, end;
  bool is_first = true;  // the first part of its document
  bool counts = true;    // its tokens are targets
  size_t line = 0;       // of a JSON lines file, counted from 1
};

// True for the names NAME.jsonl and NAME.ndjson.
bool is_json_lines_name(std::string_view path);

// True if the first two lines are JSON objects.
bool is_json_lines(std::string_view text);

// Appends the texts of JSON lines to `text`, and returns where they are. Skips blank lines. Throws std::runtime_error
// that names the line ("q.jsonl, line 7: ...") if it is not a JSON object, lacks a field, or has no text to learn.
std::vector<TextSpan> append_json_lines(std::string& text, std::string_view json, const std::string& name,
                                        const JsonFields& fields);
