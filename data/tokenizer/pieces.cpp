#include "pieces.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "data/tokenizer/pipeline/decoder.hpp"

namespace {

constexpr size_t kPart = 1 << 18;      // a thread encodes this many bytes at a time
constexpr size_t kLongestPiece = 512;  // bytes
constexpr uint32_t kSpace = 0x2581;    // kSpaceText
constexpr const char* kUnknownText = " \u2047 ";

std::string with_spaces(std::string text) {
  for (size_t at = 0; (at = text.find(kSpaceText, at)) != text.npos; ++at) text.replace(at, 3, " ");
  return text;
}

std::string bytes_of_piece(const Piece& piece) {
  switch (piece.type) {
    case PieceType::normal: return with_spaces(piece.text);
    case PieceType::unknown: return kUnknownText;
    case PieceType::control: return "";
    case PieceType::byte: break;
  }
  const int byte = byte_named(piece.text);
  if (byte < 0) throw std::runtime_error(in_quotes(piece.text) + " is not a byte");
  return std::string(1, static_cast<char>(byte));
}

void check_piece(const Piece& piece) {
  if (piece.text.empty()) throw std::runtime_error("one of its pieces is empty");
  if (piece.text.size() > kLongestPiece)
    throw std::runtime_error(in_quotes(piece.text) + "... is longer than " + std::to_string(kLongestPiece) + " bytes");
  if (!std::isfinite(piece.score)) throw std::runtime_error("the score of " + in_quotes(piece.text) + " is not finite");
  for (size_t at = 0; at < piece.text.size();)
    if (!next_code_point(piece.text, at)) throw std::runtime_error(in_quotes(piece.text) + " is not UTF-8");
  if (piece.type == PieceType::normal && piece.text.find(' ') != piece.text.npos)
    throw std::runtime_error(in_quotes(piece.text) + " has a space, which is U+2581 in a piece");
}

// Rank 0 is the highest score. Equal scores have the same rank.
std::vector<uint32_t> ranks_of(const std::vector<Piece>& pieces) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const Piece& piece : pieces)
    ranks.push_back(std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin());
  return ranks;
}

}  // namespace

Pieces::Pieces(PieceTables tables) : tables_(std::move(tables)) {
  std::fill(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent);
  for (const Piece& piece : tables_.pieces) {
    check_piece(piece);
    bytes_.push_back(bytes_of_piece(piece));
    if (piece.type != PieceType::byte) continue;
    uint32_t& token = token_of_byte_[static_cast<unsigned char>(bytes_.back()[0])];
    if (token != kAbsent) throw std::runtime_error("two tokens are " + in_quotes(piece.text));
    token = bytes_.size() - 1;
  }
  const size_t missing = std::find(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent) - token_of_byte_;
  if (missing < 256)
    throw std::runtime_error("it has no token for byte " + std::to_string(missing) + ", and needs byte fallback");
  for (const int special : {tables_.begin, tables_.end})
    if (special < -1 || special >= vocabulary())
      throw std::runtime_error("its special token " + std::to_string(special) + " is not one of its tokens");
  rank_ = ranks_of(tables_.pieces);
  add_characters();
  add_merges();
}

// Makes every character in a piece a symbol, so that merges can start from it.
void Pieces::add_characters() {
  for (uint32_t token = 0; token < bytes_.size(); ++token) {
    if (tables_.pieces[token].type != PieceType::normal) continue;
    const std::string& piece = bytes_[token];
    bool space_before = true;
    for (size_t at = 0; at < piece.size();) {
      const size_t start = at;
      const uint32_t point = *next_code_point(piece, at);
      spaces_begin_words_ = spaces_begin_words_ && (point != ' ' || space_before);
      space_before = point == ' ';
      const bool whole = start == 0 && at == piece.size();
      uint32_t& symbol = symbol_of_.try_emplace(point, kAbsent).first->second;
      if (whole) symbol = token;
    }
  }
  // Without this piece, SentencePiece would write a space as the three bytes of U+2581 and read them back as U+2581.
  if (const auto space = symbol_of_.find(' '); space == symbol_of_.end() || space->second == kAbsent)
    throw std::runtime_error("no piece is a space alone (U+2581)");
  for (auto& [point, symbol] : symbol_of_)
    if (symbol == kAbsent) {
      symbol = bytes_.size() + other_symbols_.size();
      other_symbols_.push_back(utf8(point));
    }
}

// Adds a merge for every pair of symbols that together make a piece.
void Pieces::add_merges() {
  std::unordered_map<std::string_view, uint32_t> symbols;
  for (uint32_t token = 0; token < bytes_.size(); ++token)
    if (tables_.pieces[token].type == PieceType::normal && !symbols.emplace(bytes_[token], token).second)
      throw std::runtime_error("two tokens are " + in_quotes(bytes_[token]));
  for (uint32_t i = 0; i < other_symbols_.size(); ++i) symbols.emplace(other_symbols_[i], bytes_.size() + i);
  std::vector<std::array<uint32_t, 3>> found;
  for (uint32_t token = 0; token < bytes_.size(); ++token) {
    if (tables_.pieces[token].type != PieceType::normal) continue;
    const std::string_view piece = bytes_[token];
    for (size_t at = 0; next_code_point(piece, at) && at < piece.size();) {
      const auto left = symbols.find(piece.substr(0, at)), right = symbols.find(piece.substr(at));
      if (left != symbols.end() && right != symbols.end())
        found.push_back({left->second, right->second, token});
    }
  }
  merged_ = PairTable(found.size());
  for (const auto& [left, right, token] : found) merged_.set(left, right, token);
}

// ---- encoding --------------------------------------------------------------------------------------------

void Pieces::encode_word(std::string_view word, std::vector<uint32_t>& symbols) const {
  symbols.clear();
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) symbols.push_back(token_of_byte_[static_cast<unsigned char>(byte)]);
  };
  for (size_t at = 0; at < word.size();) {
    const size_t start = at;
    const std::optional<uint32_t> point = next_code_point(word, at);
    if (!point) ++at;
    const auto symbol = point ? symbol_of_.find(*point == kSpace ? ' ' : *point) : symbol_of_.end();
    if (symbol != symbol_of_.end()) symbols.push_back(symbol->second);
    else add_bytes(word.substr(start, at - start));  // byte tokens are in no pair
  }
  merge_pairs(symbols, [this](uint32_t left, uint32_t right) {
    const uint32_t token = merged_(left, right);
    return token == kAbsent ? PairMerge() : PairMerge{rank_[token], token};
  });
  if (other_symbols_.empty()) return;
  const std::vector<uint32_t> merged_symbols = symbols;
  symbols.clear();
  for (const uint32_t symbol : merged_symbols) {
    if (symbol < bytes_.size()) symbols.push_back(symbol);
    else add_bytes(other_symbols_[symbol - bytes_.size()]);
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

// Returns the end of the word that begins at `start`: the next space after another character, which no merge crosses.
size_t Pieces::end_of_word(std::string_view text, size_t start) const {
  if (!spaces_begin_words_) return text.size();
  size_t at = text.find(' ', start + 1);
  while (at != text.npos && (text[at - 1] == ' ' || text.substr(0, at).ends_with(kSpaceText)))
    at = text.find(' ', at + 1);
  return std::min(at, text.size());
}

uint32_t Pieces::token_of_byte(uint32_t byte) const {
  const auto symbol = byte < 128 ? symbol_of_.find(byte) : symbol_of_.end();
  return symbol != symbol_of_.end() && symbol->second < bytes_.size() ? symbol->second : token_of_byte_[byte];
}

std::vector<uint32_t> Pieces::encode(std::string_view text) const {
  if (text.empty()) return {};
  std::vector<std::string_view> parts;
  for (size_t start = 0, end; start < text.size(); start = end) {
    end = text.size() - start > kPart ? end_of_word(text, start + kPart) : text.size();
    parts.push_back(text.substr(start, end - start));
  }
  std::vector<std::vector<uint32_t>> tokens(parts.size());
#pragma omp parallel if (parts.size() > 1)
  {
    Words words(*this);
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t start = 0, end; start < parts[i].size(); start = end) {
        end = end_of_word(parts[i], start);
        const std::string_view word = parts[i].substr(start, end - start);
        const bool prefixed = tables_.dummy_prefix && i == 0 && start == 0;
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
  while (text.size() > bytes) {
    const size_t end = end_of_word(text, bytes);
    if (end + space >= text.size()) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + space);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

std::string Pieces::decode(const std::vector<uint32_t>& tokens) const {
  std::string text;
  for (const uint32_t token : tokens) text += bytes_of(token);
  if (tables_.dummy_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}
