#pragma once
// Files of other programs, known by their first bytes: what they are, and what to do with them. Each function returns
// the words after the name of the file, such as "is compressed by gzip: zcat notes.gz | train_gpt train -", or "".

#include <string>
#include <string_view>

// Bytes that these functions look at; fewer are enough if the file is shorter.
inline constexpr size_t kForeignStart = 64;

// A file that should hold text. `path` appears in the command that helps.
std::string foreign_text(std::string_view start, const std::string& path);

// A file that should hold a model, or a tokenizer.
std::string foreign_model(std::string_view start);
std::string foreign_tokenizer(std::string_view start);

// The first bytes of a regular file; "" for others and for one that cannot be read.
std::string start_of_file(const std::string& path);

// What to add to an error about a missing file whose name may be that of a model on the Hugging Face hub; or "".
std::string hub_advice(const std::string& name);
