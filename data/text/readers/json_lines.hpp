#pragma once
// Reads JSON lines: a document in each line.
//
//   {"text": "..."}                          a text
//   {"prompt": "...", "completion": "..."}   two parts, of which the completion alone is learned
//   {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}
//                                            a conversation, of which the assistant's part alone is learned, but no
//                                            message with "weight": 0
// JsonFields names other fields. All other fields are ignored, and so are those that are null. A line that could be two
// of these is refused, unless the user names the fields of one.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/chat_template.hpp"

// Which parts of prompts and completions, or of conversations, are learned.
enum class LearnedPart { completion, all };

// The name of a field: the usual one, unless the user names another, or the same.
struct FieldName {
  std::string usual, given = {};

  const std::string& name() const { return given.empty() ? usual : given; }
};

struct JsonFields {
  FieldName text_field{"text"}, prompt_field{"prompt"}, completion_field{"completion"}, messages_field{"messages"};
  std::string source_field = "source", target_field = "target";
  bool reads_pairs = false;  // each line of a file is a pair (pairs.hpp)
  LearnedPart learn = LearnedPart::completion;
  const ChatTemplate* chat = nullptr;        // if it is given, a prompt and its completion are a conversation, too
  const ChatTemplate* usual_chat = nullptr;  // for messages if it is not; null: chatml
};

// Bytes [begin, end) of a text: a document, or a part of one.
struct TextSpan {
  size_t begin, end;
  bool is_first = true;  // the first part of its document
  bool counts = true;    // its tokens are targets
  size_t line = 0;       // of a JSON lines file, counted from 1
  bool joins = false;    // it is encoded together with the part before
  bool follows = false;  // its document has a text right before it: no tokenizer puts a space of its own between them
  const char* token = nullptr;  // it is this special token, or kDocumentEnd, and no bytes
};

// True for the names NAME.jsonl and NAME.ndjson.
bool is_json_lines_name(std::string_view path);

// True if the first two lines that are not blank are JSON objects.
bool is_json_lines(std::string_view text);

// How the parts of a document are read.
struct PartsOf {
  bool is_chat = false;  // its texts are encoded together up to the next special token, as other programs do it
  bool all_count = false;
  size_t line = 0;
};

// Appends the parts of a document to `text`, and where they are to `spans`. Leaves out parts without text. Returns true
// if some part counts.
bool append_parts(std::string& text, std::vector<TextSpan>& spans, const std::vector<ChatPart>& parts,
                  const PartsOf& document);

// What a file holds.
struct JsonLines {
  std::vector<TextSpan> spans;
  bool prompts = false, messages = false;  // some lines have them
};

// Appends the texts of JSON lines to `text`, and returns where they are. Skips blank lines. Throws std::runtime_error
// that names the line ("q.jsonl, line 7: ...") if it is not a JSON object, lacks a field, could be read in two ways, or
// has no text to learn.
JsonLines append_json_lines(std::string& text, std::string_view json, const std::string& name,
                            const JsonFields& fields);
