#include "gguf_vocabulary.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/files/gguf_keys.hpp"
#include "data/files/json.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/bpe_json.hpp"
#include "data/tokenizer/files/written_json.hpp"
#include "data/tokenizer/pipeline/byte_alphabet.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"
#include "gguf_tokenizer.hpp"
#include "pre_tokenizers.hpp"

using nlohmann::json;

namespace {

// ---- the keys --------------------------------------------------------------------------------------------

const std::string kPrefix = "tokenizer.ggml.";

json value_of(const json& keys, const char* name) { return keys.value(kPrefix + name, json()); }

// Returns a key's value, or nothing if the file lacks it.
template <class T>
std::optional<T> optional_value(const json& keys, const char* name, bool (json::*is)() const noexcept) {
  const json value = value_of(keys, name);
  if (value.is_null()) return {};
  if (!(value.*is)()) throw std::runtime_error("its key '" + kPrefix + name + "' has a value of another kind");
  return value.get<T>();
}

template <class T>
std::vector<T> list_of(const json& keys, const char* name, bool (json::*is)() const noexcept) {
  const json value = value_of(keys, name);
  const auto fits = [&](const json& one) { return (one.*is)(); };
  if (!value.is_null() && !(value.is_array() && std::all_of(value.begin(), value.end(), fits)))
    throw std::runtime_error("its key '" + kPrefix + name + "' is no list of such values");
  return value.is_null() ? std::vector<T>() : value.get<std::vector<T>>();
}

// What the keys say. Tokens that do not exist are none.
struct StoredTokenizer : GgufTokenizer {
  std::optional<bool> adds_first, adds_last;
};

StoredTokenizer stored_in(const json& keys) {
  StoredTokenizer t;
  t.model = optional_value<std::string>(keys, "model", &json::is_string).value_or("");
  t.pre = optional_value<std::string>(keys, "pre", &json::is_string).value_or("");
  t.tokens = list_of<std::string>(keys, "tokens", &json::is_string);
  t.types = list_of<int32_t>(keys, "token_type", &json::is_number_integer);
  t.merges = list_of<std::string>(keys, "merges", &json::is_string);
  t.scores = list_of<float>(keys, "scores", &json::is_number);
  t.adds_first = optional_value<bool>(keys, "add_bos_token", &json::is_boolean);
  t.adds_last = optional_value<bool>(keys, "add_eos_token", &json::is_boolean);
  t.dummy_prefix = optional_value<bool>(keys, "add_space_prefix", &json::is_boolean);
  if (t.types.empty()) t.types.assign(t.tokens.size(), kNormal);
  if (t.scores.empty()) t.scores.assign(t.tokens.size(), 0);
  if (t.types.size() != t.tokens.size() || t.scores.size() != t.tokens.size())
    throw std::runtime_error("its lists of tokens, their types and their scores differ in length");
  for (const auto& [name, token] : {std::pair("bos_token_id", &t.first), {"eos_token_id", &t.end},
                                    {"unknown_token_id", &t.unknown}}) {
    const auto number = optional_value<int64_t>(keys, name, &json::is_number_integer);
    if (number && *number >= 0 && *number < std::ssize(t.tokens)) *token = static_cast<uint32_t>(*number);
  }
  return t;
}

// Unused tokens at the end fill the vocabulary up.
void drop_unused(StoredTokenizer& t) {
  while (!t.types.empty() && t.types.back() == kUnused) {
    t.tokens.pop_back();
    t.types.pop_back();
    t.scores.pop_back();
  }
}

// Returns the names of the control tokens after the first `count` tokens, which must be the last ones.
std::vector<std::string> control_tokens_from(const StoredTokenizer& t, size_t count) {
  if (std::any_of(t.types.begin() + count, t.types.end(), [](int32_t type) { return type != kControl; }))
    lack("this order of tokens");
  return {t.tokens.begin() + count, t.tokens.end()};
}

Tokenizer with_control_tokens(const Tokenizer& tokenizer, const StoredTokenizer& t, size_t count) {
  const bool begins = t.adds_first.value_or(false) && t.first == count;
  return tokenizer.with_special(control_tokens_from(t, count)).with_begin(begins ? static_cast<int>(count) : -1);
}

// ---- byte-pair encoding, as a tokenizer.json -------------------------------------------------------------

json part(const char* type, json fields) {
  fields["type"] = type;
  return fields;
}

json replace(const char* from, const char* to) {
  return part("Replace", {{"pattern", {{"String", from}}}, {"content", to}});
}

// Returns the file without its pre_tokenizer, normalizer and decoder. Control tokens are found in text alone.
json file_of(const StoredTokenizer& t, json merges) {
  json vocabulary = json::object(), added = json::array(), first;
  for (uint32_t i = 0; i < t.tokens.size(); ++i) {
    const bool control = t.types[i] == kControl;
    if (control || t.types[i] == kUserDefined)
      added.push_back(added_row<json>(i, t.tokens[i], control));
    if (!control && !vocabulary.emplace(t.tokens[i], i).second)
      lack("a vocabulary with two tokens " + in_quotes(t.tokens[i]));
  }
  const auto is_special = [&](const std::optional<uint32_t>& token) { return token && t.types[*token] == kControl; };
  if (t.adds_last.value_or(false)) lack("a token after each text (add_eos_token)");
  if (t.adds_first.value_or(false) && !is_special(t.first)) lack("a first token that is no control token");
  if (t.adds_first.value_or(false)) {
    const SpecialToken token{*t.first, t.tokens[*t.first]};
    first = template_with(&token);
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"post_processor", first},
          {"model", bpe_model(std::move(vocabulary), std::move(merges), false)}};
}

Tokenizer tokenizer_of(const json& file) { return Tokenizer::bpe(bpe_from_json(file, to_text(file, 1) + "\n")); }

// The tokens of a byte tokenizer begin with the bytes.
bool is_byte_tokenizer(const StoredTokenizer& t) {
  if (t.tokens.size() < 256 || t.merges.size() > 1) return false;
  for (int byte = 0; byte < 256; ++byte)
    if (t.tokens[byte] != printable(std::string(1, static_cast<char>(byte)))) return false;
  return true;
}

Tokenizer read_byte_level(StoredTokenizer t) {
  if (is_byte_tokenizer(t)) return with_control_tokens(Tokenizer::bytes(), t, 256);
  const PreTokenizer* row = find_pre_tokenizer(t.pre);
  if (!row) lack(t.pre.empty() ? "a file without " + kPrefix + "pre" : kPrefix + "pre = " + in_quotes(t.pre));
  if (!t.adds_first) t.adds_first = row->begins;
  const std::string zero = printable(std::string(1, '\0'));
  if (t.merges.size() == 1 && t.merges[0] == zero + " " + zero) t.merges.clear();  // llama.cpp requires a merge
  json file = file_of(t, t.merges);
  file["model"]["ignore_merges"] = row->words_first;
  file["normalizer"] = nullptr;
  file["decoder"] = byte_level<json>(true);
  json splits = json::array();
  for (const std::string& regex : row->splits) splits.push_back(split_by<json>(regex));
  splits.push_back(byte_level<json>(false));
  const bool gpt2 = row->splits == std::vector{regex_of(Split::gpt2)};
  file["pre_tokenizer"] = gpt2 ? byte_level<json>(true) : part("Sequence", {{"pretokenizers", splits}});
  return tokenizer_of(file);
}

// ---- SentencePiece ---------------------------------------------------------------------------------------

// Returns the merges that make the same pieces: the piece with the highest score is made first.
json merges_of(const StoredTokenizer& t) {
  struct Made {
    float score;
    uint32_t left, right;
  };
  std::unordered_map<std::string_view, uint32_t> known;
  for (uint32_t i = 0; i < t.tokens.size(); ++i)
    if (t.types[i] != kControl) known.emplace(t.tokens[i], i);
  std::vector<Made> all;
  for (const auto& [piece, token] : known)
    for (size_t at = 1; at < piece.size(); ++at) {
      const auto left = known.find(piece.substr(0, at)), right = known.find(piece.substr(at));
      if (left != known.end() && right != known.end()) all.push_back({t.scores[token], left->second, right->second});
    }
  std::sort(all.begin(), all.end(), [](const Made& a, const Made& b) {
    return a.score != b.score ? a.score > b.score : std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
  json merges = json::array();
  for (const Made& row : all) merges.push_back({t.tokens[row.left], t.tokens[row.right]});
  return merges;
}

// As a tokenizer.json, which also has pieces that are found in text.
Tokenizer read_pieces_as_merges(const StoredTokenizer& t, json merges, json pre_tokenizer) {
  const bool prefix = t.dummy_prefix.value_or(false);
  json file = file_of(t, std::move(merges));
  if (t.unknown && t.types[*t.unknown] != kControl) file["model"]["unk_token"] = t.tokens[*t.unknown];
  file["model"]["byte_fallback"] = file["model"]["fuse_unk"] = true;
  file["pre_tokenizer"] = std::move(pre_tokenizer);
  json normalizers = json::array(), decoders = json::array();
  if (prefix) normalizers.push_back(part("Prepend", {{"prepend", kSpaceText}}));
  normalizers.push_back(replace(" ", kSpaceText));
  for (const json& one : {replace(kSpaceText, " "), part("ByteFallback", {}), part("Fuse", {})})
    decoders.push_back(one);
  if (prefix) decoders.push_back(part("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}}));
  file["normalizer"] = part("Sequence", {{"normalizers", normalizers}});
  file["decoder"] = part("Sequence", {{"decoders", decoders}});
  return tokenizer_of(file);
}

PieceType type_of_piece(int32_t type) {
  switch (type) {
    case kNormal: return PieceType::normal;
    case kUnknown: return PieceType::unknown;
    case kControl: return PieceType::control;
    case kByte: return PieceType::byte;
    default: lack("a piece of the type " + std::to_string(type));
  }
}

// Without these keys, llama.cpp takes tokens 1 and 2 as the tokens around a text, and adds the first.
Tokenizer read_sentencepiece(StoredTokenizer t) {
  constexpr uint32_t kFirst = 1, kLast = 2;
  if (!t.adds_first) t.adds_first = true;
  if (!t.dummy_prefix) t.dummy_prefix = true;
  if (!t.first && t.tokens.size() > kFirst) t.first = kFirst;
  if (!t.end && t.tokens.size() > kLast) t.end = kLast;
  if (std::count(t.types.begin(), t.types.end(), kUserDefined) > 0)
    return read_pieces_as_merges(t, merges_of(t), nullptr);
  if (t.adds_last.value_or(false)) lack("a token after each text (add_eos_token)");
  PieceTables tables;
  tables.dummy_prefix = *t.dummy_prefix;
  for (size_t i = 0; i < t.tokens.size(); ++i)
    tables.pieces.push_back({t.tokens[i], t.scores[i], type_of_piece(t.types[i])});
  const auto if_control = [&](const std::optional<uint32_t>& token) {
    return token && t.types[*token] == kControl ? static_cast<int>(*token) : -1;
  };
  if (*t.adds_first) tables.begin = if_control(t.first);
  tables.end = if_control(t.end);
  return Tokenizer::pieces(Pieces(std::move(tables)));
}

Tokenizer read_gemma4(StoredTokenizer t) {
  t.dummy_prefix = false;
  return read_pieces_as_merges(t, t.merges, split_by<json>("[^\n]+|\n+"));
}

// ---- characters ------------------------------------------------------------------------------------------

// train_gpt writes the characters of a model as the words of RWKV's tokenizer.
Tokenizer read_characters(StoredTokenizer t) {
  std::vector<uint32_t> alphabet;
  size_t count = 0;
  for (; count < t.tokens.size() && t.types[count] == kNormal; ++count) {
    const std::string text = t.tokens[count] == "\\x00" ? std::string(1, '\0')
                             : t.tokens[count] == "\\\\" ? "\\" : t.tokens[count];
    size_t end = 0;
    const std::optional<uint32_t> point = next_code_point(text, end);
    if (!point || end < text.size() || (!alphabet.empty() && *point <= alphabet.back()))
      lack(kPrefix + "model = 'rwkv' with words");
    alphabet.push_back(*point);
  }
  if (alphabet.empty()) lack("a vocabulary without characters");
  return with_control_tokens(Tokenizer::characters(std::move(alphabet)), t, count);
}

struct ModelRow {
  const char* name;
  Tokenizer (*read)(StoredTokenizer t);
};
constexpr ModelRow kModels[] = {{"gpt2", read_byte_level},
                                {"llama", read_sentencepiece},
                                {"gemma4", read_gemma4},
                                {"rwkv", read_characters}};

}  // namespace

Tokenizer tokenizer_in_gguf(const std::string& path, const json& keys) {
  StoredTokenizer stored = explained(path + " cannot be used: ", [&] { return stored_in(keys); });
  drop_unused(stored);
  try {
    for (const ModelRow& row : kModels)
      if (stored.model == row.name) return row.read(std::move(stored));
    lack(kPrefix + "model = " + in_quotes(stored.model));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw UnsupportedPart(path + " has a tokenizer that cannot be used: " + plain_text(error));
  }
}

Tokenizer read_gguf_tokenizer(const std::string& path) {
  const InputFile file(path);
  GgufCursor from(file);
  return tokenizer_in_gguf(path, read_gguf_keys(from).values);
}
