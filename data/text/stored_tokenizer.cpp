#include "stored_tokenizer.hpp"

#include <charconv>
#include <filesystem>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "bpe_files.hpp"
#include "layers/config/named.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr Named<Tokenizer::Kind> kKinds[] = {
    {Tokenizer::Kind::byte, "byte"}, {Tokenizer::Kind::character, "char"}, {Tokenizer::Kind::bpe, "bpe"}};

Tokenizer characters_from_json(const json& points) {
  std::vector<uint32_t> alphabet;
  for (const json& point : points) {
    if (!point.is_number_unsigned() || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ||
        (!alphabet.empty() && point <= alphabet.back()))
      throw std::runtime_error("its alphabet is not a list of Unicode characters in ascending order");
    alphabet.push_back(point);
  }
  if (alphabet.empty()) throw std::runtime_error("its alphabet is empty");
  return Tokenizer::characters(std::move(alphabet));
}

}  // namespace

json to_json(const Tokenizer& tokenizer) {
  json j = {{"kind", name_of_kind(tokenizer.kind())}};
  if (tokenizer.kind() == Tokenizer::Kind::character) j["codepoints"] = tokenizer.alphabet();
  if (tokenizer.bpe()) j["tokenizer.json"] = to_json(*tokenizer.bpe());
  return j;
}

Tokenizer tokenizer_from_json(const json& j) {
  switch (value_of(kKinds, "tokenizer", j.at("kind").get<std::string>())) {
    case Tokenizer::Kind::byte: return Tokenizer::bytes();
    case Tokenizer::Kind::character: return characters_from_json(j.at("codepoints"));
    case Tokenizer::Kind::bpe: return Tokenizer::bpe(bpe_from_json(j.at("tokenizer.json").get<std::string>()));
  }
  return {};
}

Tokenizer read_tokenizer(const std::string& path) {
  if (!fs::is_directory(path)) return Tokenizer::bpe(read_bpe(path));
  for (const char* name : {"tokenizer.json", "encoder.json", "vocab.json"})
    if (fs::exists(fs::path(path) / name)) return Tokenizer::bpe(read_bpe((fs::path(path) / name).string()));
  throw std::runtime_error(path + " has no tokenizer.json, encoder.json or vocab.json");
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
