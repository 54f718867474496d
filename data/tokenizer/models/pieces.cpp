#include "pieces.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <unordered_set>

#include "data/strings/utf8.hpp"
#include "data/tokenizer/pipeline/decoder.hpp"
#include "piece_merges.hpp"
#include "unigram.hpp"

namespace {

constexpr size_t kPart = 1 << 18;      // a thread encodes this many bytes at a time
constexpr size_t kSums = 1 << 12;      // sums of a unigram model begin anew after about so many bytes
constexpr size_t kLongestPiece = 512;  // bytes

std::string with_spaces(std::string text) {
  for (size_t at = 0; (at = text.find(kSpaceText, at)) != text.npos; ++at) text.replace(at, 3, " ");
  return text;
}

std::string bytes_of_piece(const Piece& piece, const std::string& unknown_text) {
  if (is_text(piece.type)) return with_spaces(piece.text);
  if (piece.type == PieceType::unknown) return unknown_text;
  if (piece.type == PieceType::control) return "";
  const int byte = byte_named(piece.text);
  if (byte < 0) throw std::runtime_error(in_quotes(piece.text) + " is not a byte");
  return std::string(1, static_cast<char>(byte));
}

void check_utf8(const std::string& text) {
  for (size_t at = 0; at < text.size();)
    if (!next_code_point(text, at)) throw std::runtime_error(in_quotes(text) + " is not UTF-8");
}

void check_piece(const Piece& piece) {
  if (piece.text.empty()) throw std::runtime_error("one of its pieces is empty");
  if (piece.text.size() > kLongestPiece)
    throw std::runtime_error(in_quotes(piece.text) + "... is longer than " + std::to_string(kLongestPiece) + " bytes");
  if (!std::isfinite(piece.score)) throw std::runtime_error("the score of " + in_quotes(piece.text) + " is not finite");
  check_utf8(piece.text);
  if (is_text(piece.type) && piece.text.find(' ') != piece.text.npos)
    throw std::runtime_error(in_quotes(piece.text) + " has a space, which is U+2581 in a piece");
}

// As in SentencePiece 0.2.3, a user-defined piece has a positive score, and any other piece a logarithmic probability.
std::shared_ptr<const WordModel> unigram_of(const PieceTables& tables, const std::vector<std::string>& texts) {
  float lowest = FLT_MAX;
  std::vector<UnigramPiece> pieces;
  for (uint32_t token = 0; token < texts.size(); ++token) {
    const auto& [text, score, type] = tables.pieces[token];
    if (type == PieceType::normal) lowest = std::min(lowest, score);
    if (type == PieceType::normal) pieces.push_back({texts[token], score, token});
    if (type == PieceType::user_defined)
      pieces.push_back({texts[token], .1f * static_cast<float>(text.size() - 1), token});
  }
  return std::make_shared<const Unigram>(pieces, lowest, Unigram::Sums::in_float);
}

PieceNormalizer normalizer_of(const PieceTables& tables) {
  std::vector<PrefixTree::Entry> kept;
  for (const Piece& piece : tables.pieces)
    if (piece.type == PieceType::user_defined) kept.emplace_back(piece.text, 0);
  return {.dummy_prefix = tables.dummy_prefix,
          .removes_spaces = tables.removes_spaces,
          .replaces_bytes = !tables.byte_fallback,
          .rules = tables.rules,
          .kept = PrefixTree(std::move(kept))};
}

}  // namespace

Pieces::Pieces(PieceTables tables) : tables_(std::move(tables)) {
  add_pieces();
  check_fallback();
  find_word_starts();
  if (tables_.unigram) model_ = unigram_of(tables_, bytes_);
  else model_ = std::make_shared<const PieceMerges>(tables_, bytes_);
  normalizer_ = normalizer_of(tables_);
}

// Notes the bytes of each piece.
void Pieces::add_pieces() {
  std::fill(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent);
  std::fill(std::begin(token_of_ascii_), std::end(token_of_ascii_), kAbsent);
  std::unordered_set<std::string> texts;
  check_utf8(tables_.unknown_text);
  for (const Piece& piece : tables_.pieces) {
    const auto token = static_cast<uint32_t>(bytes_.size());
    check_piece(piece);
    bytes_.push_back(bytes_of_piece(piece, tables_.unknown_text));
    const std::string& bytes = bytes_.back();
    if (piece.type == PieceType::unknown) unknown_ = token;
    if (is_text(piece.type) && !texts.insert(bytes).second)
      throw std::runtime_error("two tokens are " + in_quotes(bytes));
    if (is_text(piece.type) && bytes.size() == 1) token_of_ascii_[static_cast<unsigned char>(bytes[0])] = token;
    if (piece.type != PieceType::byte) continue;
    uint32_t& byte = token_of_byte_[static_cast<unsigned char>(bytes[0])];
    if (byte != kAbsent) throw std::runtime_error("two tokens are " + in_quotes(piece.text));
    byte = token;
  }
  // Without this piece, SentencePiece would write a space as the three bytes of U+2581 and read them back as U+2581.
  if (!texts.contains(" ")) throw std::runtime_error("no piece is a space alone (U+2581)");
}

void Pieces::check_fallback() const {
  const size_t missing = std::find(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent) - token_of_byte_;
  if (tables_.byte_fallback && missing < 256)
    throw std::runtime_error("it has no token for byte " + std::to_string(missing) + ", and needs byte fallback");
  if (!tables_.byte_fallback && std::ranges::any_of(token_of_byte_, [](uint32_t token) { return token != kAbsent; }))
    throw std::runtime_error("it has pieces for bytes, but no byte fallback");
  if (!tables_.byte_fallback && unknown_ == kAbsent)
    throw std::runtime_error("it has neither byte fallback nor an unknown token");
  for (const int special : {tables_.begin, tables_.end})
    if (special < -1 || special >= vocabulary())
      throw std::runtime_error("its special token " + std::to_string(special) + " is not one of its tokens");
}

// What an unused piece falls apart into depends on the whole text.
void Pieces::find_word_starts() {
  for (uint32_t token = 0; token < bytes_.size(); ++token) {
    const PieceType type = tables_.pieces[token].type;
    const std::string& text = bytes_[token];
    if (!is_text(type)) continue;
    if (type == PieceType::unused && !tables_.unigram) spaces_begin_words_ = false;
    const size_t first = text.find_first_not_of(' ');
    if (first != text.npos && text.find(' ', first) != text.npos) spaces_begin_words_ = false;
  }
}

uint32_t Pieces::token_of_byte(uint32_t byte) const {
  return byte < 128 && token_of_ascii_[byte] != kAbsent ? token_of_ascii_[byte] : token_of_byte_[byte];
}

// ---- encoding --------------------------------------------------------------------------------------------

void Pieces::append_unknown(std::string_view characters, std::vector<uint32_t>& tokens) const {
  if (tables_.byte_fallback)
    for (const char byte : characters) tokens.push_back(token_of_byte_[static_cast<unsigned char>(byte)]);
  else if (tokens.empty() || tokens.back() != unknown_) tokens.push_back(unknown_);
}

void Pieces::encode_word(std::string_view word, std::vector<uint32_t>& tokens) const {
  tokens.clear();
  for (const auto& [begin, end, token] : model_->split(word, true)) {
    if (token != kAbsent) tokens.push_back(token);
    else append_unknown(word.substr(begin, end - begin), tokens);
  }
}

// A cache of recent short words and their tokens.
class Pieces::Words {
 public:
  explicit Words(const Pieces& pieces) : pieces_(pieces) {}

  void append(std::string_view word, std::vector<uint32_t>& tokens) {
    Entry& entry = word.size() > kLongestKept ? other_ : entries_[std::hash<std::string_view>()(word) % kEntries];
    if (&entry == &other_ || entry.word != word) {
      pieces_.encode_word(word, entry.tokens);
      if (&entry != &other_) entry.word = word;
    }
    tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.end());
  }

 private:
  static constexpr size_t kLongestKept = 32, kEntries = 1 << 14;
  struct Entry {
    std::string word;
    std::vector<uint32_t> tokens;
  };

  const Pieces& pieces_;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
  Entry other_;
};

// Returns the end of the word that begins at `start`: the next space after another character, which no piece crosses.
size_t Pieces::end_of_word(std::string_view text, size_t start) const {
  if (!spaces_begin_words_) return text.size();
  size_t at = text.find(' ', start + 1);
  while (at != text.npos && (text[at - 1] == ' ' || text.substr(0, at).ends_with(kSpaceText)))
    at = text.find(' ', at + 1);
  return std::min(at, text.size());
}

// A normalizer costs a copy of the text, so the dummy prefix alone is put before the first word.
std::vector<uint32_t> Pieces::encode(std::string_view text) const {
  const bool only_prefix = !tables_.removes_spaces && !tables_.rules && tables_.byte_fallback;
  if (only_prefix && text.find(kSpaceText) == text.npos) return encode_normalized(text, tables_.dummy_prefix);
  return encode_normalized(normalizer_(text), false);
}

// In a unigram model, rounding of the sum so far decides between segmentations of the same score. So it splits several
// words together, as SentencePiece splits a sentence.
std::vector<uint32_t> Pieces::encode_normalized(std::string_view text, bool prefix) const {
  if (text.empty()) return {};
  std::vector<std::string_view> parts;
  for (size_t start = 0, end; start < text.size(); start = end) {
    end = text.size() - start > kPart ? end_of_word(text, start + kPart) : text.size();
    parts.push_back(text.substr(start, end - start));
  }
  const size_t least = tables_.unigram ? kSums : 0;
  std::vector<std::vector<uint32_t>> tokens(parts.size());
#pragma omp parallel if (parts.size() > 1)
  {
    Words words(*this);
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t start = 0, end; start < parts[i].size(); start = end) {
        end = start + least < parts[i].size() ? end_of_word(parts[i], start + least) : parts[i].size();
        const std::string_view word = parts[i].substr(start, end - start);
        const bool prefixed = prefix && i == 0 && start == 0;
        words.append(prefixed ? " " + std::string(word) : word, tokens[i]);
      }
  }
  for (size_t i = 1; i < tokens.size(); ++i) {
    tokens[0].insert(tokens[0].end(), tokens[i].begin(), tokens[i].end());
    tokens[i] = {};
  }
  return std::move(tokens[0]);
}

// The dummy prefix of the next part replaces the space that begins its word. So a part must hold more than that space.
std::vector<std::string_view> Pieces::cut(std::string_view text, size_t bytes) const {
  const size_t space = tables_.dummy_prefix ? 1 : 0;
  std::vector<std::string_view> parts;
  for (size_t end = bytes; end < text.size();) {
    end = end_of_word(text, end);
    if (end + space >= text.size()) break;
    if (!normalizer_.may_cut(text, end)) continue;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + space);
    end = bytes;
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

std::string Pieces::decode(const std::vector<uint32_t>& tokens) const {
  std::string text;
  bool at_start = tables_.dummy_prefix || tables_.removes_spaces;  // a space is left out
  for (const uint32_t token : tokens) {
    const std::string& bytes = bytes_of(token);
    const bool leaves_out = at_start && is_text(tables_.pieces[token].type) && bytes.starts_with(' ');
    text += std::string_view(bytes).substr(leaves_out ? 1 : 0);
    if (!text.empty() || (leaves_out && !tables_.removes_spaces)) at_start = false;
  }
  return text;
}
