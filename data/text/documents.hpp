#pragma once
// Finds the documents of a text, and encodes them.

#include <string>
#include <string_view>
#include <vector>

#include "data/text/readers/text_files.hpp"
#include "dataset.hpp"

// The names of --documents. Any other text is a separator between documents.
inline constexpr const char* kDocuments[] = {"file", "line", "paragraph"};

// Returns the parts of a text's documents, without empty ones. Those of JSON lines are known. Documents of other files:
//   file        the files
//   line        the lines, without their ends
//   paragraph   the parts between blank lines
//   otherwise   the parts between occurrences of `how`, without newlines at their ends
// Throws std::runtime_error if the text does not contain `how`.
std::vector<TextSpan> find_documents(const Text& text, const std::string& how);

// True if `how` is a text that separates documents and does not occur: each file is one document then. Where that is no
// use, require_separator() throws std::runtime_error.
bool lacks_separator(const Text& text, const std::string& how);
void require_separator(const Text& text, const std::string& how);

// Returns the documents, each followed by a newline: the text to train a byte-pair encoding on.
std::string text_of_documents(const Text& text, const std::vector<TextSpan>& documents);

// Appends documents to the tokens of a dataset. Each begins with data.around.first and ends with data.around.last; if
// these are one token, neighbors share it. The last token counts as a target if the last part does. If some part does
// not count, sets data.counted. Returns the documents' tokens. `unknown` and `count` as in Tokenizer::encode(). Throws
// NoToken with the place in the text.
std::vector<Stretch> append_documents(Dataset& data, std::string_view text, const std::vector<TextSpan>& parts,
                                      Unknown unknown, size_t& count);

// Returns the tokens of an unfinished conversation: those of its document, without the token that ends it. There must
// be at least one part. Throws NoToken.
std::vector<int> conversation_tokens(const Tokenizer& tokenizer, const DocumentTokens& around,
                                     const std::vector<ChatPart>& parts);
