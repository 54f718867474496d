#include "piece_files.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/tokenizer.hpp"

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

// ---- SentencePiece ---------------------------------------------------------------------------------------

// Iterates over the fields of a protobuf message.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    wire_ = key & 7;
    switch (wire_) {
      case kVarint: value_ = varint(); break;
      case kFixed64: bytes_ = take(8); break;
      case kBytes: bytes_ = take(varint()); break;
      case kFixed32: bytes_ = take(4); break;
      default: throw std::runtime_error("it is not a SentencePiece model, or damaged");
    }
    return true;
  }

  uint64_t number() const { return number_; }
  uint64_t value() const { require(kVarint); return value_; }
  std::string_view bytes() const { require(kBytes); return bytes_; }
  float real() const {
    require(kFixed32);
    float x;
    std::memcpy(&x, bytes_.data(), sizeof x);
    return x;
  }

 private:
  enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint64_t varint() {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      x |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return x;
    }
    throw std::runtime_error("it is not a SentencePiece model: one of its numbers has more than 64 bits");
  }

  std::string_view take(uint64_t count) {
    if (count > rest_.size()) throw std::runtime_error("it is cut short, or not a SentencePiece model");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  void require(Wire wire) const {
    if (wire_ != wire)
      throw std::runtime_error("its field " + std::to_string(number_) + " has another type than SentencePiece's");
  }

  std::string_view rest_, bytes_;
  uint64_t number_ = 0, wire_ = 0, value_ = 0;
};

Piece read_piece(std::string_view bytes) {
  Piece piece;
  uint64_t type = 1;
  for (Message m(bytes); m.next();) {
    if (m.number() == 1) piece.text = m.bytes();
    if (m.number() == 2) piece.score = m.real();
    if (m.number() == 3) type = m.value();
  }
  switch (type) {
    case 1: piece.type = PieceType::normal; break;
    case 2: piece.type = PieceType::unknown; break;
    case 3: piece.type = PieceType::control; break;
    case 4: piece.type = PieceType::user_defined; break;
    case 5: piece.type = PieceType::unused; break;
    case 6: piece.type = PieceType::byte; break;
    default: throw std::runtime_error(in_quotes(piece.text) + " has the unknown type " + std::to_string(type));
  }
  return piece;
}

// Reads the trainer's settings that change the tokens.
void read_trainer(std::string_view bytes, PieceTables& tables) {
  constexpr const char* kTypes[] = {"0", "unigram", "bpe", "word", "char"};
  constexpr uint64_t kUnigram = 1, kMerges = 2;
  uint64_t type = kUnigram;
  tables.byte_fallback = false;
  tables.begin = 1;
  tables.end = 2;
  for (Message m(bytes); m.next();) {
    if (m.number() == 3) type = m.value();
    if (m.number() == 24 && m.value()) throw std::runtime_error("treat_whitespace_as_suffix is not supported");
    if (m.number() == 35) tables.byte_fallback = m.value() != 0;
    if (m.number() == 41) tables.begin = static_cast<int32_t>(m.value());
    if (m.number() == 42) tables.end = static_cast<int32_t>(m.value());
    if (m.number() == 44) tables.unknown_text = m.bytes();
  }
  if (type != kUnigram && type != kMerges)
    throw std::runtime_error("its model_type is " + (type < 5 ? std::string(kTypes[type]) : std::to_string(type)) +
                             ", and train_gpt reads bpe and unigram only");
  tables.unigram = type == kUnigram;
}

void read_normalizer(std::string_view bytes, PieceTables& tables) {
  tables.dummy_prefix = tables.removes_spaces = true;
  for (Message m(bytes); m.next();) {
    if (m.number() == 2 && !m.bytes().empty()) tables.rules = std::make_shared<const CharsMap>(std::string(m.bytes()));
    if (m.number() == 3) tables.dummy_prefix = m.value() != 0;
    if (m.number() == 4) tables.removes_spaces = m.value() != 0;
    if (m.number() == 5 && !m.value()) throw std::runtime_error("escape_whitespaces = false is not supported");
  }
}

void require_no_denormalizer(std::string_view bytes) {
  std::string name;
  std::string_view rules;
  for (Message m(bytes); m.next();) {
    if (m.number() == 1) name = m.bytes();
    if (m.number() == 2) rules = m.bytes();
  }
  if (!rules.empty())
    throw std::runtime_error("the denormalizer " + in_quotes(name) + ", which changes decoded text, is not supported");
}

// ---- llama2.c --------------------------------------------------------------------------------------------

constexpr int kUnknown = 0, kBegin = 1, kEnd = 2, kFirstByte = 3;

// llama2.c's program assumes these numbers.
PieceType llama2c_type(int token) {
  if (token == kUnknown) return PieceType::unknown;
  if (token == kBegin || token == kEnd) return PieceType::control;
  return token < kFirstByte + 256 ? PieceType::byte : PieceType::normal;
}

std::string byte_name(int byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

}  // namespace

bool is_sentencepiece_model(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x0a' && bytes[2] == '\x0a';  // a piece and its text, both field 1
}

Pieces pieces_from_model(std::string_view bytes) {
  PieceTables tables;
  std::string_view trainer, normalizer, denormalizer;
  for (Message m(bytes); m.next();) {
    if (m.number() == 1) tables.pieces.push_back(read_piece(m.bytes()));
    if (m.number() == 2) trainer = m.bytes();
    if (m.number() == 3) normalizer = m.bytes();
    if (m.number() == 5) denormalizer = m.bytes();
  }
  if (trainer.empty() || normalizer.empty())
    throw std::runtime_error("it has no trainer_spec or normalizer_spec: it is cut short");
  read_trainer(trainer, tables);
  read_normalizer(normalizer, tables);
  require_no_denormalizer(denormalizer);
  for (int* special : {&tables.begin, &tables.end}) {
    const bool listed = *special >= 0 && static_cast<size_t>(*special) < tables.pieces.size();
    if (!listed || tables.pieces[*special].type != PieceType::control) *special = -1;
  }
  return Pieces(std::move(tables));
}

Pieces pieces_from_llama2c(std::string_view bytes) {
  const auto take = [&](auto& value) {
    if (bytes.size() < sizeof value) throw std::runtime_error("it is cut short, or not a tokenizer.bin of llama2.c");
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
  };
  PieceTables tables;
  uint32_t longest = 0, length = 0;
  take(longest);
  while (!bytes.empty()) {
    const int token = static_cast<int>(tables.pieces.size());
    Piece& piece = tables.pieces.emplace_back();
    piece.type = llama2c_type(token);
    take(piece.score);
    take(length);
    if (length > longest || length > bytes.size())
      throw std::runtime_error("piece " + std::to_string(token) + " has " + std::to_string(length) +
                               " bytes: it is cut short, or not a tokenizer.bin of llama2.c");
    piece.text = replaced(std::string(bytes.substr(0, length)), " ", kSpaceText);
    bytes.remove_prefix(length);
    if (piece.type == PieceType::control) piece.text = replaced(piece.text, "\n", "");
    if (piece.type == PieceType::byte && piece.text != byte_name(token - kFirstByte))
      throw std::runtime_error("token " + std::to_string(token) + " is " + in_quotes(piece.text) + " instead of " +
                               byte_name(token - kFirstByte) + ": it is not a tokenizer.bin of llama2.c");
  }
  tables.begin = kBegin;
  tables.end = kEnd;
  return Pieces(std::move(tables));
}

std::string to_llama2c(const Pieces& pieces) {
  const PieceTables& tables = pieces.tables();
  if (!tables.dummy_prefix) throw std::invalid_argument("llama2.c puts a space before the text, this tokenizer none");
  if (tables.unigram) throw std::invalid_argument("llama2.c merges pieces, this tokenizer is a unigram model");
  if (tables.removes_spaces || tables.rules)
    throw std::invalid_argument("llama2.c does not normalize the text, this tokenizer does");
  const auto append = [](std::string& to, const auto& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string rows;
  uint32_t longest = 0;
  for (int token = 0; token < pieces.vocabulary(); ++token) {
    const Piece& piece = tables.pieces[token];
    const bool in_place = piece.type == llama2c_type(token) &&
                          (piece.type != PieceType::byte || piece.text == byte_name(token - kFirstByte));
    if (!in_place)
      throw std::invalid_argument("llama2.c has no place for the token " + in_quotes(piece.text) + " at number " +
                                  std::to_string(token));
    const bool control = piece.type == PieceType::control;
    const std::string text = control ? "\n" + piece.text + "\n" : replaced(piece.text, kSpaceText, " ");
    const auto length = static_cast<uint32_t>(text.size());
    longest = std::max(longest, length);
    append(rows, piece.score);
    append(rows, length);
    rows += text;
  }
  std::string file;
  append(file, longest);
  return file + rows;
}

Pieces read_pieces(const std::string& path) {
  const std::string bytes = read_file(path, kLargestTokenizer);
  return explained(path + " cannot be used as a tokenizer: ", [&] {
    return is_sentencepiece_model(bytes) ? pieces_from_model(bytes) : pieces_from_llama2c(bytes);
  });
}
