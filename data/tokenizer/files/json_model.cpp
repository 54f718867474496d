#include "json_model.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/tokenizer/models/unigram.hpp"
#include "data/tokenizer/models/word_piece.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"

using nlohmann::json;

namespace {

using Made = std::shared_ptr<const WordModel>;

// An entry of a Unigram's vocabulary is ["text", score].
const json& entry_of(const json& vocabulary, size_t token) {
  const json& entry = vocabulary[token];
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
    throw std::runtime_error("entry " + std::to_string(token) + " of its vocabulary is not a text and a score");
  return entry;
}

// As in `tokenizers`, the text of the unknown token is unknown text, which joins its neighbors.
Made make_unigram(const json& model, const std::vector<std::string>& words, const std::vector<bool>& special) {
  const json &vocabulary = member(model, "vocab"), &unknown = member(model, "unk_id");
  std::vector<UnigramPiece> pieces;
  double lowest = std::numeric_limits<double>::infinity();
  for (uint32_t token = 0; token < vocabulary.size(); ++token) {
    const double score = entry_of(vocabulary, token)[1].get<double>();
    lowest = std::min(lowest, score);
    pieces.push_back({words.at(token), score, unknown == token ? kAbsent : token, special.at(token)});
  }
  return std::make_shared<const Unigram>(pieces, lowest, Unigram::Sums::in_double);
}

Made make_word_piece(const json& model, const std::vector<std::string>& words, const std::vector<bool>& special) {
  WordPiece::Options options;
  if (const json& prefix = member(model, "continuing_subword_prefix"); !prefix.is_null())
    options.prefix = text_of(prefix, "the continuing_subword_prefix");
  if (const json& most = member(model, "max_input_chars_per_word"); !most.is_null()) {
    const auto number = integer_between(most, 0, INT32_MAX);
    if (!number) throw std::runtime_error("the max_input_chars_per_word is not a number of characters");
    options.most_characters = static_cast<size_t>(*number);
  }
  return std::make_shared<const WordPiece>(words, special, options);
}

struct ModelRow {
  const char* type;
  std::vector<const char*> off;  // options that must be absent or off
  bool is_list = false;          // its vocabulary is a list by token number, otherwise an object
  Made (*make)(const json& model, const std::vector<std::string>& words, const std::vector<bool>& special) = nullptr;
};

const ModelRow& row_of(const json& model) {
  static const std::vector<ModelRow> rows = {
      {"BPE", {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}},
      {"Unigram", {"alpha", "nbest_size"}, true, make_unigram},
      {"WordPiece", {}, false, make_word_piece}};
  const json& type = member(model, "type");
  if (type.is_null()) return rows[0];
  const auto row = std::ranges::find_if(rows, [&](const ModelRow& r) { return type == r.type; });
  if (row == rows.end()) lack("the model " + description_of(model));
  return *row;
}

}  // namespace

const json& known_model(const json& file) {
  const json& model = member(file, "model");
  if (!model.is_object()) throw std::runtime_error("it has no model");
  for (const char* option : row_of(model).off) {
    const json& j = member(model, option);
    if (!(j.is_null() || j == false || j == "" || j == 0.0)) lack("the model's " + std::string(option));
  }
  return model;
}

void for_each_token(const json& model,
                    const std::function<void(const std::string& name, const json& number)>& with_token) {
  const json& vocabulary = member(model, "vocab");
  const bool is_list = row_of(model).is_list;
  if (is_list ? !vocabulary.is_array() : !vocabulary.is_object())
    throw std::runtime_error(std::string("its vocabulary is not ") + (is_list ? "a list" : "an object"));
  if (is_list)
    for (size_t token = 0; token < vocabulary.size(); ++token)
      with_token(entry_of(vocabulary, token)[0].get_ref<const std::string&>(), token);
  else
    for (const auto& [name, number] : vocabulary.items()) with_token(name, number);
}

Made word_model_of(const json& model, const std::vector<std::string>& words, const std::vector<bool>& special) {
  const auto make = row_of(model).make;
  return make ? make(model, words, special) : nullptr;
}
