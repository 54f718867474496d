#pragma once
// The model of a tokenizer.json: merges (BPE), a unigram language model or WordPiece. Each type is a row of a table in
// json_model.cpp.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizer/models/word_model.hpp"

// Returns the model of a file. Throws UnsupportedPart for a type or an option that we do not have.
const nlohmann::json& known_model(const nlohmann::json& file);

// Calls with_token(name, number) for each token of its vocabulary.
void for_each_token(const nlohmann::json& model,
                    const std::function<void(const std::string& name, const nlohmann::json& number)>& with_token);

// Returns what splits words into tokens, or null for merges. `words` has what the model reads for each token, and
// `special` says which of them are special tokens.
std::shared_ptr<const WordModel> word_model_of(const nlohmann::json& model, const std::vector<std::string>& words,
                                               const std::vector<bool>& special);
