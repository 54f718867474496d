#include "bpe_files.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/utf8.hpp"
#include "tokenizer.hpp"

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

[[noreturn]] void lack(const std::string& what) { throw std::runtime_error(what + " is not supported"); }

// A string from the file for an error message: on one line and at most 60 bytes.
std::string quoted(const std::string& text) {
  return to_ascii(text.substr(0, 60));
}

// ---- the alphabet ----------------------------------------------------------------------------------------

// Files write each byte as a printable character. The 68 bytes that are not printable become U+0100 to U+0143.
constexpr uint32_t kFirstStandIn = 0x100;

const std::array<uint32_t, 256>& characters_of_bytes() {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> points{};
    uint32_t rank = 0, next = kFirstStandIn;
    for (const std::string& token : byte_tokens()) {
      const auto byte = static_cast<unsigned char>(token[0]);
      points[byte] = rank++ < 188 ? byte : next++;
    }
    return points;
  }();
  return table;
}

// Returns the bytes that the characters stand for, or the text itself if one of them stands for no byte.
std::string from_characters(const std::string& text) {
  static const std::array<int, 0x144> bytes = [] {
    std::array<int, 0x144> table;
    table.fill(-1);
    for (int b = 0; b < 256; ++b) table[characters_of_bytes()[b]] = b;
    return table;
  }();
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const std::optional<uint32_t> point = next_code_point(text, at);
    if (!point || *point >= bytes.size() || bytes[*point] < 0) return text;
    result += static_cast<char>(bytes[*point]);
  }
  return result;
}

// ---- reading ---------------------------------------------------------------------------------------------

const json& member(const json& j, const char* name) {
  static const json none;
  const auto found = j.find(name);
  return found == j.end() ? none : *found;
}

std::string text_of(const json& j, const std::string& what) {
  if (!j.is_string()) throw std::runtime_error(what + " is not a text");
  return j.get<std::string>();
}

// Reads a token number below `most`.
uint32_t token_of(const json& j, size_t most, const std::string& what) {
  if (!j.is_number_unsigned() || j.get<uint64_t>() >= most)
    throw std::runtime_error("the number of token " + quoted(what) + " is not one of 0 to " + std::to_string(most - 1));
  return j.get<uint32_t>();
}

std::string type_of(const json& part) {
  const std::string type = text_of(member(part, "type"), "the type of a part");
  const bool is_word = std::all_of(type.begin(), type.end(), [](unsigned char c) { return std::isalnum(c); });
  return is_word ? type.substr(0, 60) : quoted(type);
}

// Describes a part for an error message: "Sequence [Digits, ByteLevel]".
std::string description_of(const json& part) {
  std::string name = type_of(part);
  for (const char* list : {"normalizers", "pretokenizers", "processors", "decoders"})
    if (const json& parts = member(part, list); parts.is_array()) {
      for (const json& inner : parts)
        name += (&inner == &parts[0] ? " [" : ", ") + type_of(inner);
      name += "]";
    }
  return name;
}

// Rejects a part of the file unless it is absent or of `type`, the only one that we support.
void require(const json& file, const char* part, const std::string& type) {
  const json& j = member(file, part);
  if (j.is_null()) return;
  if (!j.is_object()) throw std::runtime_error(std::string("its ") + part + " is not an object");
  if (const std::string name = description_of(j); name != type) lack("the " + std::string(part) + " " + name);
}

// True if the file asks for Unicode's normalization form C, the only normalizer that we support.
bool normalizes(const json& file) {
  const json& part = member(file, "normalizer");
  const bool nfc = part.is_object() && description_of(part) == "NFC";
  if (!nfc) require(file, "normalizer", "");
  return nfc;
}

// Rejects an option of the model unless it is absent or off.
void require_off(const json& model, const char* option) {
  const json& j = member(model, option);
  if (!(j.is_null() || j == false || j == "" || j == 0.0)) lack("the model's " + std::string(option));
}

// Returns the split of a pre_tokenizer. It is either ByteLevel, which splits as GPT-2 does, or one of our regular
// expressions (Split) followed by a ByteLevel that does not split.
Split split_of(const json& file) {
  const json& pre = member(file, "pre_tokenizer");
  if (!pre.is_object()) lack("a file without a pre_tokenizer");
  const std::string name = description_of(pre);
  const bool two = name == "Sequence [Split, ByteLevel]";
  if (name != "ByteLevel" && !two) lack("the pre_tokenizer " + name);
  const json& bytes = two ? pre["pretokenizers"][1] : pre;
  if (member(bytes, "add_prefix_space") != false) lack("the pre_tokenizer's add_prefix_space");
  if ((member(bytes, "use_regex") == false) != two) lack("a pre_tokenizer that splits twice or not at all");
  if (!two) return Split::gpt2;
  const json& words = pre["pretokenizers"][0];
  if (member(words, "behavior") != "Isolated" || member(words, "invert") != false)
    lack("a Split that is inverted or not Isolated");
  const json& pattern = member(words, "pattern");
  const json& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
  for (const Split split : {Split::gpt2, Split::llama3, Split::qwen2})
    if (regex == regex_of(split)) return split;
  lack("a Split by " + (regex.is_string() ? quoted(regex.get<std::string>()) : "something else"));
}

// Returns the template of a post_processor, or null. A template adds special tokens around a text; encode() never does.
const json& template_of(const json& file) {
  const json& part = member(file, "post_processor");
  const std::string name = part.is_object() ? description_of(part) : "ByteLevel";
  if (name == "ByteLevel") return member(part, "single");
  if (name == "TemplateProcessing") return member(part, "single");
  if (name == "Sequence [ByteLevel, TemplateProcessing]") return member(part["processors"][1], "single");
  lack("the post_processor " + name);
}

// Returns the name of the special token before a text, or "". Ignores what follows a text, because prompts do not have
// it.
std::string name_of_begin(const json& file) {
  const json& parts = template_of(file);
  std::string begin;
  if (!parts.is_array()) return begin;
  for (const json& part : parts) {
    const json& special = part.is_object() ? member(part, "SpecialToken") : part;
    if (!special.is_object()) break;
    if (!begin.empty()) lack("a TemplateProcessing with two tokens before the text");
    begin = text_of(member(special, "id"), "a token of the post_processor");
  }
  return begin;
}

// Ignores truncation and padding: transformers sets them for each call, and a file may hold the last call's.
void require_known_parts(const json& file) {
  require(file, "decoder", "ByteLevel");
  const json& model = member(file, "model");
  if (!model.is_object()) throw std::runtime_error("it has no model");
  if (const json& type = member(model, "type"); !type.is_null() && type != "BPE")
    lack("the model " + type_of(model));
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    require_off(model, option);
}

// Builds the tables of a file. Looks tokens up by the names that the file gives them.
class VocabularyReader {
 public:
  VocabularyReader(const json& vocabulary, const json& added) {
    if (!vocabulary.is_object()) throw std::runtime_error("its vocabulary is not an object");
    if (!added.is_null() && !added.is_array()) throw std::runtime_error("its added_tokens are not a list");
    tables_.tokens.resize(vocabulary.size() + added.size());
    std::vector<bool> seen(tables_.tokens.size());
    for (const auto& [name, number] : vocabulary.items()) {
      const uint32_t token = token_of(number, seen.size(), name);
      if (seen[token]) throw std::runtime_error("two tokens have the number " + std::to_string(token));
      seen[token] = true;
      tokens_[name] = token;
      tables_.tokens[token] = from_characters(name);
    }
    for (const json& row : added) add(row, seen);
    tables_.tokens.resize(std::find(seen.begin(), seen.end(), false) - seen.begin());
    if (std::find(seen.begin() + tables_.tokens.size(), seen.end(), true) != seen.end())
      throw std::runtime_error("no token has the number " + std::to_string(tables_.tokens.size()));
  }

  void add_merge(const std::string& left, const std::string& right) {
    const auto known = [&](const std::string& name) {
      const auto found = tokens_.find(name);
      if (found == tokens_.end())
        throw std::runtime_error("merge " + std::to_string(tables_.merges.size()) + " needs " + quoted(name) +
                                 ", which is not a token");
      return found->second;
    };
    tables_.merges.push_back({known(left), known(right), known(left + right)});
  }

  void add_merge(const std::string& line) {
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      throw std::runtime_error("merge " + std::to_string(tables_.merges.size()) + " is not two tokens");
    add_merge(line.substr(0, space), line.substr(space + 1));
  }

  bool has(const std::string& name) const { return tokens_.contains(name); }
  void add_special(const std::string& name) { tables_.special.push_back({tokens_.at(name), name}); }

  void set_begin(const std::string& name) {
    for (const SpecialToken& special : tables_.special)
      if (special.name == name) tables_.begin = static_cast<int>(special.token);
    if (tables_.begin < 0)
      throw std::runtime_error("its post_processor needs " + quoted(name) + ", which is not a special token");
  }

  Bpe finish(bool words_first, Split split, bool nfc) {
    tables_.words_first = words_first;
    tables_.split = split;
    tables_.nfc = nfc;
    return Bpe(std::move(tables_));
  }

 private:
  void add(const json& row, std::vector<bool>& seen) {
    const std::string name = text_of(member(row, "content"), "the content of an added token");
    const uint32_t token = token_of(member(row, "id"), seen.size(), name);
    if (member(row, "special") != true) lack("the added token " + quoted(name) + ", which is not special,");
    const auto found = tokens_.find(name);
    if (seen[token] && (found == tokens_.end() || found->second != token))
      throw std::runtime_error("two tokens have the number " + std::to_string(token));
    seen[token] = true;
    tables_.tokens[token] = name;
    tables_.special.push_back({token, name});
  }

  BpeTables tables_;
  std::unordered_map<std::string, uint32_t> tokens_;
};

Bpe from_tokenizer_json(const json& file) {
  require_known_parts(file);
  const json& model = member(file, "model");
  VocabularyReader reader(member(model, "vocab"), member(file, "added_tokens"));
  const json& merges = member(model, "merges");
  if (!merges.is_array()) throw std::runtime_error("its merges are not a list");
  for (const json& merge : merges) {
    if (merge.is_string()) reader.add_merge(merge.get<std::string>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      reader.add_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
    else throw std::runtime_error("one of its merges is not two tokens");
  }
  if (const std::string begin = name_of_begin(file); !begin.empty()) reader.set_begin(begin);
  return reader.finish(member(model, "ignore_merges") == true, split_of(file), normalizes(file));
}

// The first line of vocab.bpe is its version.
Bpe from_gpt2(const json& vocabulary, const std::string& merges) {
  constexpr const char* kEndOfText = "<|endoftext|>";
  VocabularyReader reader(vocabulary, nullptr);
  for (size_t at = 0, end; at < merges.size(); at = end + 1) {
    end = std::min(merges.find('\n', at), merges.size());
    std::string line = merges.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) reader.add_merge(line);
  }
  if (reader.has(kEndOfText)) reader.add_special(kEndOfText);
  return reader.finish(false, Split::gpt2, false);
}

}  // namespace

std::string printable(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += utf8(characters_of_bytes()[static_cast<unsigned char>(byte)]);
  return text;
}

Bpe bpe_from_json(const std::string& text) { return from_tokenizer_json(parse_json(text)); }

Bpe read_bpe(const std::string& path) {
  const std::string text = read_file(path, kLargestTokenizer);
  return explained(path + " cannot be used as a tokenizer: ", [&] {
    const json file = parse_json(text);
    if (!file.is_object()) throw std::runtime_error("it is not a JSON object");
    if (file.contains("model") && file["model"].is_object()) return from_tokenizer_json(file);
    for (const char* name : {"vocab.bpe", "merges.txt"}) {
      const std::filesystem::path merges = std::filesystem::path(path).replace_filename(name);
      if (std::filesystem::exists(merges)) return from_gpt2(file, read_file(merges, kLargestTokenizer));
    }
    throw std::runtime_error("it has no model, and there is no vocab.bpe or merges.txt next to it");
  });
}

ordered_json template_with(const SpecialToken& begin) {
  const ordered_json special = {{"SpecialToken", {{"id", begin.name}, {"type_id", 0}}}};
  const auto text = [](const char* id, int type) {
    return ordered_json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  ordered_json second = special;
  second["SpecialToken"]["type_id"] = 1;
  const ordered_json ids = ordered_json::array({begin.token}), names = ordered_json::array({begin.name});
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({special, text("A", 0)})},
          {"pair", ordered_json::array({special, text("A", 0), second, text("B", 1)})},
          {"special_tokens", {{begin.name, {{"id", begin.name}, {"ids", ids}, {"tokens", names}}}}}};
}

std::string to_json(const Bpe& bpe) {
  const BpeTables& tables = bpe.tables();
  const auto byte_level = [](bool use_regex) {
    return ordered_json{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
  };
  const ordered_json words = {{"type", "Split"},
                              {"pattern", {{"Regex", regex_of(tables.split)}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json sequence = {{"type", "Sequence"},
                                 {"pretokenizers", ordered_json::array({words, byte_level(false)})}};
  std::vector<std::string> names;
  for (const std::string& token : tables.tokens) names.push_back(printable(token));
  ordered_json processor;
  ordered_json added = ordered_json::array(), merges = ordered_json::array(), vocabulary = ordered_json::object();
  for (const auto& [token, name] : tables.special) {
    names[token] = name;
    if (static_cast<int>(token) == tables.begin) processor = template_with({token, name});
    added.push_back({{"id", token}, {"content", name}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
                     {"normalized", false}, {"special", true}});
  }
  // push_back, because assigning by name would search all earlier names each time.
  auto& rows = vocabulary.get_ref<ordered_json::object_t&>();
  for (size_t i = 0; i < names.size(); ++i) rows.push_back({names[i], i});
  for (const Merge& merge : tables.merges) merges.push_back(names[merge.left] + " " + names[merge.right]);
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", std::move(added)},
                             {"normalizer", tables.nfc ? ordered_json{{"type", "NFC"}} : ordered_json()},
                             {"pre_tokenizer", tables.split == Split::gpt2 ? byte_level(true) : sequence},
                             {"post_processor", std::move(processor)},
                             {"decoder", byte_level(true)},
                             {"model",
                              {{"type", "BPE"},
                               {"dropout", nullptr},
                               {"unk_token", nullptr},
                               {"continuing_subword_prefix", nullptr},
                               {"end_of_word_suffix", nullptr},
                               {"fuse_unk", false},
                               {"byte_fallback", false},
                               {"ignore_merges", tables.words_first},
                               {"vocab", std::move(vocabulary)},
                               {"merges", std::move(merges)}}}};
  return to_text(file, 1) + "\n";
}
