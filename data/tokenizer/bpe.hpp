#pragma once
// Byte-level byte-pair encoding (Sennrich et al. 2016, over bytes as in GPT-2). Text is split into words (split.hpp).
// Each word starts as its bytes. Encoding merges the pair of neighbors with the lowest rank, leftmost first, until no
// pair has a rank. It can encode any bytes, and decoding restores them, unless the text is normalized first.
//
// A tokenizer.json may have more: other steps before the merges (pipeline.hpp), words that start as characters instead
// of bytes, characters without a token, added tokens that are found in text (added_tokens.hpp), and another model in
// place of the merges (word_model.hpp).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/models/pair_table.hpp"
#include "data/tokenizer/models/word_model.hpp"
#include "data/tokenizer/pipeline/added_tokens.hpp"
#include "data/tokenizer/pipeline/byte_alphabet.hpp"
#include "data/tokenizer/pipeline/pipeline.hpp"
#include "data/tokenizer/pipeline/split.hpp"
#include "data/tokenizer/pipeline/unknown.hpp"

struct Merge {
  uint32_t left, right, token;  // the token's bytes are left's, then right's
  bool operator==(const Merge&) const = default;
};

// A token with a meaning of its own, such as <|endoftext|>.
struct SpecialToken {
  uint32_t token;
  std::string name;
  bool operator==(const SpecialToken&) const = default;
};

// What a tokenizer.json says beyond BpeTables.
struct JsonParts {
  std::string text;                // the whole file
  Pipeline pipeline;
  bool has_split;                  // the pipeline does nothing else than BpeTables::split and nfc, which are faster
  AddedTokens first_added, added;  // found in text: before it is normalized, and after that
  std::vector<std::string> words;  // what the model reads for each token: bytes or text; "" if it has only been added
  std::shared_ptr<const WordModel> word_model;  // null: merges
  bool byte_fallback;              // a character without a token becomes the tokens <0x..> of its bytes
  int unknown;                     // the token for other characters, or -1
  bool fuse_unknown;               // neighboring unknown characters become one token together
  std::string ignored;             // names of parts that encode() ignores: "truncation"
  int stripped;                    // decoding leaves out so many spaces at the beginning of a text
};

struct BpeTables {
  std::vector<std::string> tokens;    // the bytes of each token
  std::vector<Merge> merges;          // by rank
  std::vector<SpecialToken> special;
  bool words_first = false;           // a word that is a token is taken without merging ("ignore_merges")
  bool equal_ranks = false;           // merges that make the same token have the rank of the first one, as in tiktoken
  Split split = Split::gpt2;
  bool nfc = false;                   // normalize the text first (normalize.hpp)
  int begin = -1, end = -1;           // the special tokens around a text, or -1; encode() adds neither
  std::shared_ptr<const JsonParts> json = {};  // null if the tables are not from a tokenizer.json
};

class Bpe {
 public:
  // Without tables.json, throws std::runtime_error if a byte has no token of its own.
  explicit Bpe(BpeTables tables);
  Bpe(Bpe&&) = default;  // no copy, because sorted_ points into tables_

  const BpeTables& tables() const { return tables_; }
  int vocabulary() const { return static_cast<int>(tables_.tokens.size()); }
  // As Tokenizer::encode(). If it finds `special` tokens, their names in the text become these tokens. All other added
  // tokens of a tokenizer.json always do.
  std::vector<uint32_t> encode(std::string_view text, Unknown unknown = Unknown::error, size_t* count = nullptr,
                               bool special = false) const;
  // As Tokenizer::cut().
  std::vector<std::string_view> cut(std::string_view text, size_t bytes) const;
  bool has_replacement() const;  // for characters without a token
  uint32_t token_of_byte(uint32_t byte) const { return token_of_byte_[byte]; }  // kAbsent if it has none
  const std::string& bytes_of(uint32_t token) const { return tables_.tokens[token]; }
  // True if the model reads characters, and puts a space before a text, which decoding leaves out.
  bool prefixes_space() const { return tables_.json && tables_.json->stripped > 0; }

 private:
  class Words;
  struct Part;

  bool reads_bytes() const { return !tables_.json || tables_.json->pipeline.reads_bytes(); }
  bool has_split() const { return !tables_.json || tables_.json->has_split; }
  void add_words();
  std::vector<Part> parts_of(std::string_view text, bool special) const;
  void encode_part(const Part& part, Words& words, std::vector<uint32_t>& tokens) const;
  uint32_t symbol_of(std::string_view character) const;
  bool fall_back(std::string_view character, std::vector<uint32_t>& tokens) const;
  uint32_t replacement() const;  // of a character without a token; kAbsent: none
  size_t add_unknown(std::string_view character, Unknown unknown, std::vector<uint32_t>& tokens) const;
  size_t add_symbols(std::string_view word, Unknown unknown, std::vector<uint32_t>& tokens) const;
  size_t add_parts(std::string_view word, bool special, Unknown unknown, std::vector<uint32_t>& tokens) const;
  size_t encode_word(std::string_view word, bool special, Unknown unknown, std::vector<uint32_t>& tokens) const;
  void merge_short(std::vector<uint32_t>& word) const;
  void merge(std::vector<uint32_t>& word) const;

  BpeTables tables_;
  uint32_t token_of_byte_[256];
  bool has_all_bytes_ = true;
  std::unordered_map<uint32_t, uint32_t> token_of_character_;  // if the model reads characters
  uint32_t fallback_[256];                                     // the tokens <0x00> to <0xFF>, or kAbsent
  bool spaces_begin_words_ = false;  // U+2581 after another character begins a word that no merge crosses
  PairTable rank_of_;
  std::vector<std::pair<std::string_view, uint32_t>> sorted_;  // tokens by their words, if words_first
};
