#include "character_files.hpp"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "bpe_files.hpp"
#include "data/strings/utf8.hpp"
#include "written_json.hpp"

using nlohmann::json;

json word_level(const std::vector<uint32_t>& alphabet, const std::vector<std::string>& special, bool begins) {
  json vocabulary = json::object(), added = json::array();
  for (size_t i = 0; i < alphabet.size(); ++i) vocabulary[utf8(alphabet[i])] = i;
  for (const std::string& name : special) {
    const size_t token = alphabet.size() + added.size();
    vocabulary[name] = token;
    added.push_back(added_row<json>(static_cast<uint32_t>(token), name));
  }
  json begin;
  if (begins) {
    const SpecialToken token{static_cast<uint32_t>(alphabet.size()), special.at(0)};
    begin = template_with(&token);
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", split_by<json>("[\\s\\S]")},  // each character
          {"post_processor", begin},
          {"decoder", {{"type", "Fuse"}}},
          {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};  // not in the vocabulary
}

bool is_word_level(const json& file) {
  return file.is_object() && file.contains("model") && file["model"].is_object() &&
         file["model"].value("type", json()) == "WordLevel";
}

std::vector<std::string> specials_of(const json& file) {
  std::vector<std::string> names;
  const json added = file.value("added_tokens", json::array());
  if (!added.is_array()) return {};
  for (const json& token : added) {
    const json content = token.is_object() ? token.value("content", json()) : json();
    if (content.is_string()) names.push_back(content.get<std::string>());
  }
  return names;
}

std::vector<uint32_t> alphabet_of(const json& file) {
  std::vector<uint32_t> alphabet;
  const std::vector<std::string> special = specials_of(file);
  const json vocabulary = file["model"].value("vocab", json::object());
  for (const auto& [word, token] : vocabulary.items()) {
    size_t end = 0;
    if (std::find(special.begin(), special.end(), word) != special.end()) continue;
    if (const auto point = next_code_point(word, end)) alphabet.push_back(*point);
  }
  std::sort(alphabet.begin(), alphabet.end());
  const bool begins = !special.empty() && !file.value("post_processor", json()).is_null();
  if (alphabet.empty() || word_level(alphabet, special, begins) != file)
    throw std::runtime_error("train_gpt reads only the WordLevel character tokenizers that it writes");
  return alphabet;
}
