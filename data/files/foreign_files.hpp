#pragma once
// Recognizes files of other programs by their first bytes, and says what to do with them. Each function returns the
// words to put after the file's name, such as "is compressed by gzip: zcat notes.gz | train_gpt train -", or "".

#include <string>
#include <string_view>

// The number of bytes that these functions look at. Pass fewer if the file is shorter.
inline constexpr size_t kForeignStart = 64;

// Expects text. `path` appears in the suggested command.
std::string foreign_text(std::string_view start, const std::string& path);

// Expect a model and a tokenizer.
std::string foreign_model(std::string_view start);
std::string foreign_tokenizer(std::string_view start);

// Returns the first kForeignStart bytes of a regular file; "" for anything else, and if it cannot be read.
std::string start_of_file(const std::string& path);

// Returns what to add to an error about a missing file if its name looks like a model on the Hugging Face hub, else "".
std::string hub_advice(const std::string& name);
