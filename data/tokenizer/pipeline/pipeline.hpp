#pragma once
// What a tokenizer.json does to a text before its model reads it: normalizers change the text, and pre-tokenizers split
// it into words. Each part of the file is a row of a table in pipeline.cpp.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

class Pipeline {
 public:
  // Changes a text.
  using Normalizer = std::function<std::string(const std::string& text)>;
  // Gets a word. `begins`: it is the first of the whole text.
  using Receiver = std::function<void(std::string_view word, bool begins)>;
  // Splits a word into smaller ones.
  using Splitter = std::function<void(std::string_view word, bool begins, const Receiver& with_word)>;

  // Throws std::runtime_error that names the part for a part that we do not have.
  Pipeline(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer);

  bool normalizes() const { return !normalizers_.empty(); }
  bool splits() const { return !splitters_.empty(); }
  bool reads_bytes() const { return reads_bytes_; }  // has a ByteLevel, so that the characters of words are bytes

  // Both take valid UTF-8. split() takes a normalized text and never calls with an empty word.
  std::string normalized(std::string_view text) const;
  void split(std::string_view text, bool begins, const Receiver& with_word) const;

 private:
  void split_from(size_t step, std::string_view word, bool begins, const Receiver& with_word) const;

  std::vector<Normalizer> normalizers_;
  std::vector<Splitter> splitters_;
  bool reads_bytes_ = false, shows_bytes_ = false;  // shows: bytes are written as characters between two steps
};
