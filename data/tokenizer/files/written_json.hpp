#pragma once
// Parts of a tokenizer.json as train_gpt writes them, for nlohmann's json and ordered_json.

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

// An entry of added_tokens.
template <class Json>
Json added_row(uint32_t token, const std::string& name, bool special = true) {
  return {{"id", token}, {"content", name}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
          {"normalized", false}, {"special", special}};
}

template <class Json>
Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

template <class Json>
Json split_by(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

template <class Json>
Json bpe_model(Json vocabulary, Json merges, bool words_first) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", words_first},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}
