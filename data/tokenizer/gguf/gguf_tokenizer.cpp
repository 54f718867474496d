#include "gguf_tokenizer.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"
#include "pre_tokenizers.hpp"

namespace {

GgufTokenizer byte_tokenizer() {
  GgufTokenizer t;
  t.model = "gpt2";
  t.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) t.tokens.push_back(printable(std::string(1, static_cast<char>(byte))));
  t.merges = {t.tokens[0] + " " + t.tokens[0]};
  t.first = t.end = 0;  // text contains no zero byte
  return t;
}

// llama.cpp's rwkv tokenizer reads the spelling "\x00" as a byte.
GgufTokenizer character_tokenizer(const std::vector<uint32_t>& alphabet) {
  GgufTokenizer t;
  t.model = "rwkv";
  for (const uint32_t point : alphabet) {
    t.tokens.push_back(utf8(point));
    if (point == 0) t.tokens.back() = "\\x00";
    if (point == '\\') t.tokens.back() = "\\\\";
  }
  return t;
}

// Returns the special token with the first of these names that exists, or `otherwise`.
uint32_t special_token(const BpeTables& tables, const std::vector<std::string>& names, uint32_t otherwise) {
  for (const std::string& name : names)
    for (const SpecialToken& special : tables.special)
      if (special.name == name) return special.token;
  return otherwise;
}

// llama.cpp finds tokens in text as they are.
bool is_found_alone(const AddedToken& added) {
  return added.special || !(added.left_strips || added.right_strips || added.single_word);
}

// The tokens that are found in text: before it is normalized, and after that.
std::vector<AddedToken> added_tokens(const JsonParts& parts) {
  std::vector<AddedToken> all = parts.first_added.all();
  const std::vector<AddedToken>& later = parts.added.all();
  all.insert(all.end(), later.begin(), later.end());
  return all;
}

// Returns llama.cpp's row for a tokenizer.json that does more than BpeTables::split. Null if it has none.
const PreTokenizer* pre_tokenizer_of(const JsonParts& parts, bool words_first) {
  const nlohmann::json file = parse_json(parts.text);
  const bool normalizes = !member(file, "normalizer").is_null();
  if (normalizes || parts.word_model || parts.byte_fallback) return nullptr;
  if (!std::ranges::all_of(added_tokens(parts), is_found_alone)) return nullptr;
  return find_pre_tokenizer(member(file, "pre_tokenizer"), words_first);
}

// llama.cpp's name for how a tokenizer splits text into words ("tokenizer.ggml.pre").
const char* pre_tokenizer_of(const BpeTables& tables) {
  if (tables.json && !tables.json->has_split) {
    if (const PreTokenizer* row = pre_tokenizer_of(*tables.json, tables.words_first)) return row->names[0];
    throw std::invalid_argument("this tokenizer.json has a normalizer, a pre_tokenizer or added tokens that train_gpt "
                                "cannot write as GGUF: export --to hf, and convert that with llama.cpp");
  }
  if (tables.words_first && tables.split != Split::llama3)
    throw std::invalid_argument("llama.cpp merges within words that are tokens, which this tokenizer does not "
                                "(ignore_merges): GGUF cannot hold it");
  switch (tables.split) {
    case Split::gpt2: return "gpt-2";
    case Split::llama3: return "llama-bpe";
    case Split::qwen2: break;
  }
  return "qwen2";
}

GgufTokenizer bpe_tokenizer(const Bpe& bpe) {
  const BpeTables& tables = bpe.tables();
  GgufTokenizer t;
  t.model = "gpt2";
  t.pre = pre_tokenizer_of(tables);
  for (const std::string& token : tables.tokens) t.tokens.push_back(printable(token));
  for (const Merge& merge : tables.merges) t.merges.push_back(t.tokens[merge.left] + " " + t.tokens[merge.right]);
  const std::string zero = printable(std::string(1, '\0'));
  if (t.merges.empty()) t.merges.push_back(zero + " " + zero);
  t.types.assign(t.tokens.size(), kNormal);
  for (const SpecialToken& special : tables.special) {
    t.tokens[special.token] = special.name;
    t.types[special.token] = kControl;
  }
  if (tables.json)
    for (const AddedToken& added : added_tokens(*tables.json)) {
      if (added.special) continue;
      t.tokens[added.token] = added.text;
      t.types[added.token] = kUserDefined;
    }
  const uint32_t zero_byte = bpe.token_of_byte(0) == kAbsent ? 0 : bpe.token_of_byte(0);
  const uint32_t any = tables.special.empty() ? zero_byte : tables.special.front().token;
  t.end = special_token(tables, {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "</s>"}, any);
  t.first = tables.begin >= 0 ? static_cast<uint32_t>(tables.begin)
                              : special_token(tables, {"<|begin_of_text|>", "<s>"}, *t.end);
  return t;
}

TokenType type_of(PieceType type) {
  switch (type) {
    case PieceType::normal: return kNormal;
    case PieceType::unknown: return kUnknown;
    case PieceType::control: return kControl;
    case PieceType::user_defined: return kUserDefined;
    case PieceType::unused: return kUnused;
    case PieceType::byte: break;
  }
  return kByte;
}

// Of SentencePiece's tokenizers, llama.cpp's "llama" knows those of Llama 2 and Gemma.
void require_llama(const PieceTables& tables) {
  const auto lack = [](const char* what) {
    throw std::invalid_argument(std::string("this SentencePiece tokenizer ") + what + ", which train_gpt cannot " +
                                "write as GGUF: export --to hf, and convert that with llama.cpp");
  };
  if (tables.unigram) lack("is a unigram model");
  if (tables.removes_spaces || tables.rules) lack("normalizes text");
  if (!tables.byte_fallback) lack("has no byte fallback");
  for (const Piece& piece : tables.pieces)
    if (piece.type == PieceType::unused) lack("has unused pieces");
}

// Without named tokens, llama.cpp takes 1 and 2 as the tokens around a text. So name the zero byte, which no text
// contains.
GgufTokenizer piece_tokenizer(const PieceTables& tables) {
  require_llama(tables);
  GgufTokenizer t;
  t.model = "llama";
  t.pre = "default";
  uint32_t zero_byte = 0;
  for (const Piece& piece : tables.pieces) {
    const auto token = static_cast<uint32_t>(t.tokens.size());
    if (piece.type == PieceType::unknown) t.unknown = token;
    if (piece.text == "<0x00>") zero_byte = token;
    t.tokens.push_back(piece.text);
    t.types.push_back(type_of(piece.type));
    t.scores.push_back(piece.score);
  }
  t.first = tables.begin < 0 ? zero_byte : static_cast<uint32_t>(tables.begin);
  t.end = tables.end < 0 ? zero_byte : static_cast<uint32_t>(tables.end);
  t.dummy_prefix = tables.dummy_prefix;
  return t;
}

GgufTokenizer converted(const Tokenizer& tokenizer) {
  tokenizer.require_text();
  if (tokenizer.pieces()) return piece_tokenizer(tokenizer.pieces()->tables());
  if (tokenizer.bpe()) return bpe_tokenizer(*tokenizer.bpe());
  if (tokenizer.kind() == Tokenizer::Kind::character) return character_tokenizer(tokenizer.alphabet());
  return byte_tokenizer();
}

// Adds the special tokens of a byte or char tokenizer, the first of which ends documents.
void add_special(GgufTokenizer& t, const std::vector<std::string>& names) {
  if (names.empty()) return;
  t.types.resize(t.tokens.size(), kNormal);
  t.first = t.end = static_cast<uint32_t>(t.tokens.size());
  t.tokens.insert(t.tokens.end(), names.begin(), names.end());
  t.types.resize(t.tokens.size(), kControl);
}

}  // namespace

GgufTokenizer gguf_tokenizer(const Tokenizer& tokenizer, int vocabulary) {
  if (tokenizer.vocabulary() > vocabulary)
    throw std::invalid_argument("the tokenizer has " + std::to_string(tokenizer.vocabulary()) +
                                " tokens, and the model --vocab-size " + std::to_string(vocabulary));
  GgufTokenizer t = converted(tokenizer);
  add_special(t, tokenizer.added());
  t.add_first = tokenizer.begin() >= 0;
  t.types.resize(t.tokens.size(), kNormal);
  while (t.tokens.size() < static_cast<size_t>(vocabulary)) {
    t.tokens.push_back("[PAD" + std::to_string(t.tokens.size()) + "]");  // as llama.cpp's converter does
    t.types.push_back(kUnused);
    if (!t.scores.empty()) t.scores.push_back(-1e9f);
  }
  std::set<std::string_view> seen;
  for (const std::string& token : t.tokens)
    if (!seen.insert(token).second)
      throw std::invalid_argument("two tokens are written '" + for_terminal(token) + "', which llama.cpp refuses");
  return t;
}
