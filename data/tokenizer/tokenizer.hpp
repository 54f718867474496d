#pragma once
// Turns text into tokens and back.
//   byte   256 tokens, the bytes themselves; reads anything
//   char   one token for each Unicode code point that occurs in the text, in ascending order
//   bpe    byte-pair encoding of the bytes, by a trained table of merges, which reads anything; or what else a
//          tokenizer.json has (bpe.hpp)
//   pieces SentencePiece's tokenizers (pieces.hpp); reads anything
//   unread a file that we do not support: numbers of tokens only, no text

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpe.hpp"
#include "data/tokenizer/models/pieces.hpp"
#include "data/tokenizer/pipeline/unknown.hpp"

constexpr size_t kLargestTokenizer = 1 << 28;  // bytes; a tokenizer.json with 250,000 tokens has 30 MB

// The special tokens around a document. -1: none.
struct DocumentTokens {
  int first = -1, last = -1;  // equal if one token separates neighbors
  int begin = -1;             // one more token after `first`, and before a source

  // The tokens that are read before a document's first token is predicted.
  std::vector<int> start() const { return begin < 0 ? std::vector{first} : std::vector{first, begin}; }
};

constexpr const char* kEndOfText = "<|endoftext|>";  // GPT-2's token between documents

class Tokenizer {
 public:
  enum class Kind { byte, character, bpe, pieces, unread };

  static Tokenizer bytes();
  // Builds the alphabet from a text. Throws NoToken if it is not UTF-8, std::runtime_error above 65,535 code points.
  static Tokenizer characters(std::string_view text);
  static Tokenizer characters(std::vector<uint32_t> code_points);
  static Tokenizer bpe(Bpe bpe);
  static Tokenizer pieces(Pieces pieces);

  // A tokenizer.json that was refused: how many tokens there are, the file's text, and why.
  struct Unread {
    int vocabulary;
    std::string file, why;
  };
  static Tokenizer unread(Unread what);

  Kind kind() const { return kind_; }
  const Unread* unread() const { return unread_.get(); }  // null for other kinds
  void require_text() const;  // throws std::runtime_error if the kind is unread
  bool reads_token_files() const { return bpe_ || pieces_ || unread_; }  // a file without a header holds its tokens
  const std::vector<uint32_t>& alphabet() const { return alphabet_; }  // char only
  // The names of special tokens, which come last. A bpe has its own among all others.
  const std::vector<std::string>& added() const { return added_; }
  const Bpe* bpe() const { return bpe_.get(); }                        // null for other kinds
  const Pieces* pieces() const { return pieces_.get(); }               // likewise
  int vocabulary() const;

  // Throws NoToken for bytes that are not UTF-8. `unknown` says what to do with characters without a token; their
  // number is added to `count`.
  std::vector<uint32_t> encode(std::string_view text, Unknown unknown = Unknown::error, size_t* count = nullptr) const;
  // "skipped" or "replaced": what encode() does with characters without a token, and why not as `unknown` says.
  std::string done_with(Unknown unknown) const;
  // Cuts a text into pieces of about `bytes` bytes. Encoding the pieces one by one gives the tokens of the whole text.
  std::vector<std::string_view> cut(std::string_view text, size_t bytes) const;
  // Returns the bytes of one token; "" for numbers beyond the vocabulary.
  std::string decode(int token) const;
  // Returns the text that these tokens encode.
  std::string decode(const std::vector<uint32_t>& tokens) const;
  // Returns the bytes of each token, or its name if it is special; empty for an unread tokenizer.
  std::vector<std::string> texts() const;
  bool prefixes_space() const;  // a text begins with a space of its own, which decode() leaves out
  int newline() const { return token_of('\n'); }  // -1 if there is none
  // The special tokens that begin and end a text, from the tokenizer's file, or -1. encode() adds neither.
  int begin() const;
  int end() const;
  Tokenizer without_begin() const;  // the same, but begin() is -1
  Tokenizer with_begin(int token) const;  // the same, but begin() is this special token
  // Returns the same with more tokens, special tokens of these names, without the empty ones.
  Tokenizer with_special(const std::vector<std::string>& names) const;
  // For a tokenizer.json: with `find`, encode() finds special tokens in text, as other programs do. Open: no change.
  Tokenizer finding_special(std::optional<bool> find) const;
  bool finds_special() const { return finds_special_; }
  // Returns the name of the special token that separates documents: begin(), or else <|endoftext|>; "" without both.
  std::string separator() const;
  // Returns the tokens around a document whose separator has this name. For begin(), that is begin() and end().
  DocumentTokens around(const std::string& separator) const;
  // Returns the special token of this name, such as "<|endoftext|>"; -1 for "". Throws std::runtime_error if there is
  // none.
  int special(const std::string& name) const;
  std::string name_of_special(int token) const;  // "" if it is not special
  std::vector<std::string> special_names() const;
  // Returns a note for the user if names of special tokens occur in a text, else "". Unless it finds_special(),
  // encode() treats such names as plain text, but programs that read the exported tokenizer turn each into one token.
  // `what` names the text: "notes.txt", "the prompt".
  std::string note_on_special(const std::string& what, std::string_view text) const;

 private:
  Tokenizer with_json(const std::string& text) const;
  int without_special() const;  // the number of tokens before those that are added
  int token_of(uint32_t code_point) const;
  int replacement() const;  // of a character without a token; char only; -1: none
  int token_of_character(uint32_t point) const { return point < token_of_.size() ? token_of_[point] : -1; }

  Kind kind_ = Kind::byte;
  bool finds_special_ = false;
  bool begins_ = false;  // byte and char: the first special token also begins a text
  std::vector<std::string> added_;  // byte, char and pieces: the names of the last tokens, which are special
  std::vector<uint32_t> alphabet_;
  std::vector<int> token_of_;  // the token of each code point up to the alphabet's last, or -1
  std::shared_ptr<const Bpe> bpe_;
  std::shared_ptr<const Pieces> pieces_;
  std::shared_ptr<const Unread> unread_;
};

// Returns the first token that means something else in the other tokenizer, or -1. One of the two may have more special
// tokens at its end. An unread tokenizer differs from none.
int first_other_token(const Tokenizer& a, const Tokenizer& b);
