#include "character_files.hpp"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "data/strings/utf8.hpp"

using nlohmann::json;

json word_level(const std::vector<uint32_t>& alphabet) {
  json vocabulary = json::object();
  for (size_t i = 0; i < alphabet.size(); ++i) vocabulary[utf8(alphabet[i])] = i;
  const json each_character = {
      {"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", each_character},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Fuse"}}},
          {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};  // not in the vocabulary
}

bool is_word_level(const json& file) {
  return file.is_object() && file.contains("model") && file["model"].is_object() &&
         file["model"].value("type", json()) == "WordLevel";
}

std::vector<uint32_t> alphabet_of(const json& file) {
  std::vector<uint32_t> alphabet;
  const json vocabulary = file["model"].value("vocab", json::object());
  for (const auto& [word, token] : vocabulary.items()) {
    size_t end = 0;
    if (const auto point = next_code_point(word, end)) alphabet.push_back(*point);
  }
  std::sort(alphabet.begin(), alphabet.end());
  if (alphabet.empty() || word_level(alphabet) != file)
    throw std::runtime_error("train_gpt reads only the WordLevel character tokenizers that it writes");
  return alphabet;
}
