#include "stored_tokenizer.hpp"

#include <charconv>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "bert_files.hpp"
#include "bpe_files.hpp"
#include "character_files.hpp"
#include "data/files/files.hpp"
#include "data/files/foreign_files.hpp"
#include "data/files/gguf_keys.hpp"
#include "data/files/json.hpp"
#include "data/strings/base64.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/gguf/gguf_vocabulary.hpp"
#include "layers/config/enum_names.hpp"
#include "llmc_tokenizer.hpp"
#include "piece_files.hpp"
#include "tiktoken.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr Named<Tokenizer::Kind> kKinds[] = {{Tokenizer::Kind::byte, "byte"},
                                             {Tokenizer::Kind::character, "char"},
                                             {Tokenizer::Kind::bpe, "bpe"},
                                             {Tokenizer::Kind::pieces, "pieces"},
                                             {Tokenizer::Kind::unread, "unread"}};
constexpr Named<PieceType> kPieceTypes[] = {{PieceType::normal, "normal"},
                                            {PieceType::unknown, "unknown"},
                                            {PieceType::control, "control"},
                                            {PieceType::byte, "byte"},
                                            {PieceType::user_defined, "user-defined"},
                                            {PieceType::unused, "unused"}};

Tokenizer characters_from_json(const json& points) {
  std::vector<uint32_t> alphabet;
  for (const json& point : points) {
    const auto number = integer_between(point, alphabet.empty() ? 0 : int64_t{alphabet.back()} + 1, 0x10ffff);
    if (!number || (*number >= 0xd800 && *number < 0xe000))
      throw std::runtime_error("its alphabet is not a list of Unicode characters in ascending order");
    alphabet.push_back(static_cast<uint32_t>(*number));
  }
  if (alphabet.empty()) throw std::runtime_error("its alphabet is empty");
  return Tokenizer::characters(std::move(alphabet));
}

Tokenizer unread_from_json(const json& j) {
  constexpr int kMost = 1 << 30;
  const auto vocabulary = integer_between(j.at("vocabulary"), 1, kMost);
  if (!vocabulary) throw std::runtime_error("its vocabulary is not a number of tokens");
  return Tokenizer::unread({static_cast<int>(*vocabulary), j.at("tokenizer.json").get<std::string>(),
                            one_line(j.at("why").get<std::string>())});
}

json to_json(const PieceTables& tables) {
  json rows = json::array();
  for (const Piece& piece : tables.pieces) rows.push_back({piece.text, piece.score, name_of(kPieceTypes, piece.type)});
  json j = {{"pieces", rows},
            {"dummy_prefix", tables.dummy_prefix},
            {"begin", tables.begin},
            {"end", tables.end},
            {"unigram", tables.unigram},
            {"byte_fallback", tables.byte_fallback},
            {"removes_spaces", tables.removes_spaces},
            {"unknown_text", tables.unknown_text}};
  if (tables.rules) j["rules"] = to_base64(tables.rules->bytes());
  return j;
}

std::shared_ptr<const CharsMap> rules_from_json(const json& j) {
  if (!j.contains("rules")) return nullptr;
  auto bytes = from_base64(j.at("rules").get<std::string>());
  if (!bytes) throw std::runtime_error("its rules of normalization are not base64");
  return std::make_shared<const CharsMap>(*std::move(bytes));
}

PieceTables tables_from_json(const json& j) {
  const auto token_at = [&](const char* key) {
    const auto token = integer_between(j.at(key), -1, INT32_MAX);
    if (!token) throw std::runtime_error(std::string("its ") + key + " is not a token");
    return static_cast<int>(*token);
  };
  const PieceTables usual;  // earlier versions stored no more than this
  PieceTables tables{.pieces = {},
                     .dummy_prefix = j.at("dummy_prefix"),
                     .begin = token_at("begin"),
                     .end = token_at("end"),
                     .unigram = j.value("unigram", usual.unigram),
                     .byte_fallback = j.value("byte_fallback", usual.byte_fallback),
                     .removes_spaces = j.value("removes_spaces", usual.removes_spaces),
                     .unknown_text = j.value("unknown_text", usual.unknown_text),
                     .rules = rules_from_json(j)};
  for (const json& row : j.at("pieces"))
    tables.pieces.push_back(
        {row.at(0), row.at(1), value_of(kPieceTypes, "type of a piece", row.at(2).get<std::string>())});
  return tables;
}

Tokenizer read_tokenizer_file(const std::string& path) {
  if (is_gguf(path)) return read_gguf_tokenizer(path);
  const std::string bytes = read_file(path, kLargestTokenizer);
  const std::string foreign = foreign_tokenizer(std::string_view(bytes).substr(0, kForeignStart));
  if (!foreign.empty()) throw std::runtime_error(path + " " + foreign);
  if (is_llmc_tokenizer(bytes)) return read_llmc_tokenizer(path);
  if (is_tiktoken(bytes)) return read_tiktoken(path);
  if (path.ends_with(".txt")) return read_bert(path);
  if (is_sentencepiece_model(bytes) || path.ends_with(".bin")) return Tokenizer::pieces(read_pieces(path));
  if (bytes.find("\"WordLevel\"") != std::string::npos)
    if (const json file = read_json(path, kLargestTokenizer); is_word_level(file))
      return explained(path + ": ", [&] {
        const Tokenizer characters = Tokenizer::characters(alphabet_of(file));
        const bool begins = !file["post_processor"].is_null();
        return characters.with_special(specials_of(file)).with_begin(begins ? characters.vocabulary() : -1);
      });
  const Tokenizer bpe = Tokenizer::bpe(read_bpe(path));
  if (const auto& parts = bpe.bpe()->tables().json; parts && !parts->ignored.empty())
    print_note_once("train_gpt does not use the " + parts->ignored + " of " + path);
  return bpe;
}

std::string tokenizer_file(const std::string& path) {
  if (!fs::is_directory(path)) return path;
  if (std::string file = first_file(path, kTokenizerFiles); !file.empty()) return file;
  std::string all;
  for (const char* name : kTokenizerFiles)
    all += (all.empty() ? "" : name == std::end(kTokenizerFiles)[-1] ? " or " : ", ") + std::string(name);
  throw std::runtime_error(path + " has no " + all);
}

}  // namespace

std::string first_file(const std::string& folder, std::span<const char* const> names) {
  for (const char* name : names)
    if (const fs::path file = fs::path(folder) / name; fs::exists(file)) return file.string();
  return "";
}

json to_json(const Tokenizer& tokenizer) {
  json j = {{"kind", name_of_kind(tokenizer.kind())}};
  if (tokenizer.kind() == Tokenizer::Kind::character) j["codepoints"] = tokenizer.alphabet();
  if (tokenizer.bpe()) j["tokenizer.json"] = to_json(*tokenizer.bpe());
  if (tokenizer.finds_special()) j["finds_special"] = true;
  if (tokenizer.pieces()) j["tables"] = to_json(tokenizer.pieces()->tables());
  if (const Tokenizer::Unread* what = tokenizer.unread())
    j.update({{"vocabulary", what->vocabulary}, {"tokenizer.json", what->file}, {"why", what->why}});
  if (!tokenizer.added().empty()) j["special"] = tokenizer.added();
  if (!tokenizer.added().empty() && !tokenizer.pieces() && tokenizer.begin() >= 0) j["begins"] = true;
  return j;
}

Tokenizer tokenizer_from_json(const json& j) {
  const auto whole = [&](const Tokenizer& t) {
    const auto special = j.value("special", std::vector<std::string>());
    return t.with_special(special).with_begin(!special.empty() && j.value("begins", false) ? t.vocabulary() : -1);
  };
  switch (value_of(kKinds, "tokenizer", j.at("kind").get<std::string>())) {
    case Tokenizer::Kind::byte: return whole(Tokenizer::bytes());
    case Tokenizer::Kind::character: return whole(characters_from_json(j.at("codepoints")));
    case Tokenizer::Kind::bpe:
      return Tokenizer::bpe(bpe_from_json(j.at("tokenizer.json").get<std::string>()))
          .finding_special(j.value("finds_special", false));
    case Tokenizer::Kind::pieces:
      return Tokenizer::pieces(Pieces(tables_from_json(j.at("tables"))))
          .with_special(j.value("special", std::vector<std::string>()));
    case Tokenizer::Kind::unread: return unread_from_json(j);
  }
  return {};
}

Tokenizer read_tokenizer(const std::string& path, std::string* file) {
  if (!fs::exists(path))
    if (const std::string advice = hub_advice(path); !advice.empty())
      throw std::runtime_error("there is no tokenizer " + path + advice);
  const std::string first = tokenizer_file(path), pieces = path + "/tokenizer.model";
  if (file) *file = first;
  try {
    return read_tokenizer_file(first);
  } catch (const std::runtime_error& error) {
    if (!fs::is_directory(path) || first == pieces || !fs::exists(pieces)) throw;
    print_note(error.what() + std::string("; reading ") + pieces);
    if (file) *file = pieces;
    return read_tokenizer_file(pieces);
  }
}

std::string name_of_kind(Tokenizer::Kind kind) { return name_of(kKinds, kind); }

int vocabulary_of_bpe(const std::string& name) {
  constexpr int kMost = 1000000;
  if (!name.starts_with("bpe:")) return 0;
  int vocabulary = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 4, end, vocabulary);
  if (error != std::errc() || stop != end || vocabulary < 256 || vocabulary > kMost)
    throw std::invalid_argument("--tokenizer " + name + " needs a vocabulary from 256 to 1000000, such as bpe:4096");
  return vocabulary;
}

bool names_file(const std::string& tokenizer) {
  return !tokenizer.empty() && tokenizer != "byte" && tokenizer != "char" && vocabulary_of_bpe(tokenizer) == 0;
}
