#include "bpe_json.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "data/files/json.hpp"
#include "data/tokenizer/pipeline/byte_alphabet.hpp"
#include "data/tokenizer/pipeline/decoder.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"
#include "data/tokenizer/pipeline/pipeline.hpp"
#include "data/tokenizer/pipeline/split.hpp"
#include "json_model.hpp"
#include "written_json.hpp"

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// A string from the file for an error message: on one line and at most 60 bytes.
std::string quoted(const std::string& text) {
  return to_ascii(text.substr(0, 60));
}

// ---- reading ---------------------------------------------------------------------------------------------

// Reads a token number below `most`.
uint32_t token_of(const json& j, size_t most, const std::string& what) {
  if (!j.is_number_unsigned() || j.get<uint64_t>() >= most)
    throw std::runtime_error("the number of token " + quoted(what) + " is not one of 0 to " + std::to_string(most - 1));
  return j.get<uint32_t>();
}

// Returns the split of a pre_tokenizer that BpeTables can hold: ByteLevel, which splits as GPT-2 does, or one of our
// regular expressions (Split) followed by a ByteLevel that does not split.
std::optional<Split> split_of(const json& file) {
  const std::vector<json> parts = parts_in(member(file, "pre_tokenizer"), "pre_tokenizer");
  if (parts.empty() || parts.size() > 2 || member(parts.back(), "type") != "ByteLevel") return {};
  const bool two = parts.size() == 2;
  if (flag_of(parts.back(), "add_prefix_space", true) || flag_of(parts.back(), "use_regex", true) == two) return {};
  if (!two) return Split::gpt2;
  const json& words = parts[0];
  if (member(words, "type") != "Split" || member(words, "behavior") != "Isolated" || flag_of(words, "invert", false))
    return {};
  const json& pattern = member(words, "pattern");
  const json& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
  for (const Split split : {Split::gpt2, Split::llama3, Split::qwen2})
    if (regex == regex_of(split)) return split;
  return {};
}

// True if there is no normalizer but perhaps NFC, which BpeTables can hold.
bool has_plain_normalizer(const json& file) {
  const std::vector<json> parts = parts_in(member(file, "normalizer"), "normalizer");
  return std::ranges::all_of(parts, [](const json& part) { return member(part, "type") == "NFC"; });
}

// The names of the special tokens that a post_processor puts around a text; encode() never does. "": none. Only a text
// with a `begin` gets its `end`.
struct Around {
  std::string begin, end;
};

void require_none(const std::string& name, const std::string& where) {
  if (!name.empty()) lack("a TemplateProcessing with two tokens " + where + " the text");
}

void read_template(Around& around, const json& part) {
  bool before = true;
  const json& parts = member(part, "single");
  if (parts.is_null()) return;
  if (!parts.is_array()) throw std::runtime_error("the template of its post_processor is not a list");
  for (const json& piece : parts) {
    const json& special = piece.is_object() ? member(piece, "SpecialToken") : piece;
    std::string& name = before ? around.begin : around.end;
    if (!special.is_object()) {
      before = false;
      continue;
    }
    if (before || !around.begin.empty()) require_none(name, before ? "before" : "after");
    name = text_of(member(special, "id"), "a token of the post_processor");
  }
}

// Reads a pair such as ["</s>", 2].
void read_roberta(Around& around, const json& part) {
  for (const auto& [key, name] : {std::pair("cls", &around.begin), {"sep", &around.end}}) {
    const json& pair = member(part, key);
    if (!pair.is_array() || pair.size() != 2) throw std::runtime_error("its post_processor has no " + std::string(key));
    *name = text_of(pair[0], "a token of the post_processor");
  }
}

struct ProcessorRow {
  const char* type;
  void (*read)(Around& around, const json& part);
};
constexpr ProcessorRow kProcessors[] = {
    {"ByteLevel", [](Around&, const json&) {}},  // changes offsets only
    {"TemplateProcessing", read_template},
    {"RobertaProcessing", read_roberta},
    {"BertProcessing", read_roberta},
};

Around around_of(const json& file) {
  Around around;
  const json& whole = member(file, "post_processor");
  for (const json& part : parts_in(whole, "post_processor")) {
    const auto row = std::ranges::find_if(kProcessors, [&](const auto& r) { return member(part, "type") == r.type; });
    if (row == std::end(kProcessors)) lack("the post_processor " + description_of(whole));
    row->read(around, part);
  }
  return around;
}

// What a ByteLevel model reads for a token of this name, or "" if the name is not in its alphabet.
std::string bytes_read(const std::string& name) {
  const std::string bytes = from_printable(name);
  return printable(bytes) == name ? bytes : "";
}

// Builds the tables of a file. Looks tokens up by the names that the file gives them.
class VocabularyReader {
 public:
  VocabularyReader(const json& model, const json& added) {
    if (!added.is_null() && !added.is_array()) throw std::runtime_error("its added_tokens are not a list");
    names_.resize(member(model, "vocab").size() + added.size());
    std::vector<bool> seen(names_.size());
    for_each_token(model, [&](const std::string& name, const json& number) {
      const uint32_t token = token_of(number, seen.size(), name);
      if (seen[token]) throw std::runtime_error("two tokens have the number " + std::to_string(token));
      seen[token] = true;
      tokens_[name] = token;
      names_[token] = name;
    });
    in_model_ = seen;
    for (const json& row : added) add(row, seen);
    names_.resize(std::find(seen.begin(), seen.end(), false) - seen.begin());
    if (std::find(seen.begin() + names_.size(), seen.end(), true) != seen.end())
      throw std::runtime_error("no token has the number " + std::to_string(names_.size()));
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

  void add_special(const std::string& name) {
    if (const auto found = tokens_.find(name); found != tokens_.end()) tables_.special.push_back({found->second, name});
  }

  // Returns the number of a special token, or -1 for "".
  int special(const std::string& name) const {
    if (name.empty()) return -1;
    for (const SpecialToken& special : tables_.special)
      if (special.name == name) return static_cast<int>(special.token);
    throw std::runtime_error("its post_processor needs " + quoted(name) + ", which is not a special token");
  }

  // Returns the number of the token that the model has for unknown characters, or -1.
  int unknown(const json& model) const {
    const json &name = member(model, "unk_token"), &number = member(model, "unk_id");
    if (!number.is_null()) return static_cast<int>(token_of(number, names_.size(), "unk_id"));
    if (name.is_null()) return -1;
    const auto found = tokens_.find(text_of(name, "the unk_token"));
    if (found == tokens_.end()) throw std::runtime_error("its unk_token is not a token");
    return static_cast<int>(found->second);
  }

  // What the model reads for each token.
  std::vector<std::string> words(bool bytes) const {
    std::vector<std::string> words;
    for (size_t t = 0; t < names_.size(); ++t)
      words.push_back(!in_model_[t] ? "" : bytes ? bytes_read(names_[t]) : names_[t]);
    return words;
  }

  const std::vector<AddedToken>& added() const { return added_; }

  // True for each special token.
  std::vector<bool> special() const {
    std::vector<bool> special(names_.size());
    for (const SpecialToken& token : tables_.special) special[token.token] = true;
    return special;
  }

  BpeTables finish(const Decoder& decoder, const Pipeline& pipeline) {
    for (const std::string& name : names_) tables_.tokens.push_back(decoder.bytes_of(name));
    for (const auto& [token, name] : tables_.special)
      tables_.tokens[token] = decoder.spaces_words() ? decoder.bytes_of(name) : name;
    for (const AddedToken& token : added_) {
      if (token.special || in_model_[token.token]) continue;
      const std::string text = token.normalized ? pipeline.normalized(token.text) : token.text;
      tables_.tokens[token.token] = pipeline.reads_bytes() ? text : decoder.bytes_of(text);
    }
    return std::move(tables_);
  }

 private:
  void add(const json& row, std::vector<bool>& seen) {
    const std::string name = text_of(member(row, "content"), "the content of an added token");
    const uint32_t token = token_of(member(row, "id"), seen.size(), name);
    const auto found = tokens_.find(name);
    if (seen[token] && (found == tokens_.end() || found->second != token))
      throw std::runtime_error("two tokens have the number " + std::to_string(token));
    seen[token] = true;
    names_[token] = name;
    if (name.empty()) return;
    const auto flag = [&](const char* key) { return flag_of(row, key, false); };
    added_.push_back({.token = token, .text = name, .special = flag("special"), .normalized = flag("normalized"),
                      .left_strips = flag("lstrip"), .right_strips = flag("rstrip"),
                      .single_word = flag("single_word")});
    if (added_.back().special) tables_.special.push_back({token, name});
  }

  BpeTables tables_;
  std::vector<std::string> names_;
  std::vector<bool> in_model_;  // else the token has only been added
  std::vector<AddedToken> added_;
  std::unordered_map<std::string, uint32_t> tokens_;  // of the model
};

void read_merges(VocabularyReader& reader, const json& merges) {
  if (!merges.is_array()) throw std::runtime_error("its merges are not a list");
  for (const json& merge : merges) {
    if (merge.is_string()) reader.add_merge(merge.get<std::string>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      reader.add_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
    else throw std::runtime_error("one of its merges is not two tokens");
  }
}

// Added tokens are found before the text is normalized, or after that in their own normal form.
AddedTokens found_in_text(const std::vector<AddedToken>& all, bool normalized, const Pipeline& pipeline) {
  std::vector<AddedToken> chosen;
  for (AddedToken token : all) {
    if (token.normalized != normalized) continue;
    if (normalized) token.text = pipeline.normalized(token.text);
    if (!token.text.empty()) chosen.push_back(token);
  }
  return AddedTokens(std::move(chosen));
}

// transformers sets truncation and padding for each call, and a file may hold the last call's.
std::string ignored_parts(const json& file) {
  std::string names;
  for (const char* name : {"truncation", "padding"})
    if (!member(file, name).is_null()) names += (names.empty() ? "" : " and ") + std::string(name);
  return names;
}

}  // namespace

Bpe bpe_from_json(const json& file, std::string text) {
  const json &model = known_model(file), &decoder = member(file, "decoder");
  const Pipeline pipeline(member(file, "normalizer"), member(file, "pre_tokenizer"));
  if (decoder.is_null() && !pipeline.reads_bytes()) lack("a file without a decoder and without a ByteLevel");
  const Decoder decodes(decoder.is_null() ? json{{"type", "ByteLevel"}} : decoder);
  VocabularyReader reader(model, member(file, "added_tokens"));
  std::vector<std::string> words = reader.words(pipeline.reads_bytes());
  std::shared_ptr<const WordModel> word_model = word_model_of(model, words, reader.special());
  if (word_model && pipeline.reads_bytes()) lack("a ByteLevel before the model " + description_of(model));
  if (!word_model) read_merges(reader, member(model, "merges"));
  const Around around = around_of(file);
  const std::optional<Split> split = split_of(file);
  AddedTokens added = found_in_text(reader.added(), true, pipeline);
  const bool has_split = split && has_plain_normalizer(file) && added.empty();
  JsonParts parts{.text = std::move(text),
                  .pipeline = pipeline,
                  .has_split = has_split,
                  .first_added = found_in_text(reader.added(), false, pipeline),
                  .added = std::move(added),
                  .words = std::move(words),
                  .word_model = std::move(word_model),
                  .byte_fallback = flag_of(model, "byte_fallback", false),
                  .unknown = reader.unknown(model),
                  .fuse_unknown = flag_of(model, "fuse_unk", false),
                  .ignored = ignored_parts(file),
                  .stripped = decodes.stripped()};
  const int begin = reader.special(around.begin), end = reader.special(around.end);
  BpeTables tables = reader.finish(decodes, pipeline);
  tables.words_first = flag_of(model, "ignore_merges", false);
  tables.equal_ranks = flag_of(model, "equal_ranks", false);
  tables.split = split.value_or(Split::gpt2);
  tables.nfc = has_split && pipeline.normalizes();
  tables.begin = begin;
  tables.end = end;
  tables.json = std::make_shared<const JsonParts>(std::move(parts));
  return Bpe(std::move(tables));
}

Bpe bpe_from_json(const std::string& text) { return bpe_from_json(parse_json(text), text); }

// The first line of vocab.bpe is its version.
Bpe bpe_from_gpt2(const json& vocabulary, const std::string& merges) {
  VocabularyReader reader({{"vocab", vocabulary}}, nullptr);
  for (size_t at = 0, end; at < merges.size(); at = end + 1) {
    end = std::min(merges.find('\n', at), merges.size());
    std::string line = merges.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) reader.add_merge(line);
  }
  reader.add_special("<|endoftext|>");
  return Bpe(reader.finish(Decoder(json{{"type", "ByteLevel"}}), Pipeline(nullptr, nullptr)));
}

ordered_json template_with(const SpecialToken* begin, const SpecialToken* end) {
  if (!begin && !end) return {};
  ordered_json tokens = ordered_json::object();
  for (const SpecialToken* token : {begin, end})
    if (token)
      tokens[token->name] = {{"id", token->name},
                             {"ids", ordered_json::array({token->token})},
                             {"tokens", ordered_json::array({token->name})}};
  const auto add = [&](ordered_json& parts, const char* id, int type) {
    const auto add_special = [&](const SpecialToken* token) {
      if (token) parts.push_back({{"SpecialToken", {{"id", token->name}, {"type_id", type}}}});
    };
    add_special(begin);
    parts.push_back({{"Sequence", {{"id", id}, {"type_id", type}}}});
    add_special(end);
  };
  ordered_json single = ordered_json::array();
  add(single, "A", 0);
  ordered_json pair = single;
  add(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

namespace {

// A stretch of a text.
struct Range {
  size_t begin, end;
};

// Returns the end of the string that begins at text[at], or of the text.
size_t end_of_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

// Returns where the value of a member of a JSON object stands in its text; an empty range at its beginning if the
// object has no such member.
Range value_of_member(std::string_view text, const std::string& name) {
  constexpr const char* kBlank = " \t\r\n";
  const std::string quoted_name = to_text(json(name));
  size_t depth = 0, begin = text.npos;
  std::string_view key;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool ends = depth == 1 && (c == ',' || c == '}');
    if (ends && begin != text.npos) return {begin, text.find_last_not_of(kBlank, at - 1) + 1};
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth == 1 && c == ':' && key == quoted_name) begin = text.find_first_not_of(kBlank, at + 1);
    if (c != '"') continue;
    const size_t end = end_of_string(text, at);
    if (depth == 1 && begin == text.npos) key = text.substr(at, end - at);
    at = end - 1;
  }
  const size_t inside = text.find('{') + 1;
  return {inside, inside};
}

// Replaces the value of a member, or adds the member. The rest of the text stays byte for byte.
std::string with_member(std::string text, const std::string& name, const std::string& value) {
  const auto [begin, end] = value_of_member(text, name);
  const bool is_new = begin == end;
  return text.replace(begin, end - begin, is_new ? to_text(json(name)) + ": " + value + ", " : value);
}

}  // namespace

std::string json_with_around(const std::string& text, const SpecialToken* begin, const SpecialToken* end) {
  return with_member(text, "post_processor", to_text(template_with(begin, end)));
}

std::string json_with_special(const JsonParts& parts, const std::vector<SpecialToken>& special) {
  const Range found = value_of_member(parts.text, "added_tokens");
  std::string rows = parts.text.substr(found.begin, found.end - found.begin);
  if (!rows.starts_with('[')) rows = "[]";
  rows.pop_back();
  for (const auto& [token, name] : special) {
    if (rows.find_first_not_of(" \t\r\n", 1) != rows.npos) rows += ", ";
    rows += to_text(added_row<ordered_json>(token, name));
  }
  return with_member(parts.text, "added_tokens", rows + "]");
}

std::string to_json(const Bpe& bpe) {
  const BpeTables& tables = bpe.tables();
  if (tables.json) return tables.json->text;
  const ordered_json words = split_by<ordered_json>(regex_of(tables.split)), bytes = byte_level<ordered_json>(false);
  const ordered_json sequence = {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({words, bytes})}};
  std::vector<std::string> names;
  for (const std::string& token : tables.tokens) names.push_back(printable(token));
  ordered_json processor;
  ordered_json added = ordered_json::array(), merges = ordered_json::array(), vocabulary = ordered_json::object();
  for (const auto& [token, name] : tables.special) {
    names[token] = name;
    if (const SpecialToken begin{token, name}; static_cast<int>(token) == tables.begin)
      processor = template_with(&begin);
    added.push_back(added_row<ordered_json>(token, name));
  }
  // push_back, because assigning by name would search all earlier names each time.
  auto& rows = vocabulary.get_ref<ordered_json::object_t&>();
  for (size_t i = 0; i < names.size(); ++i) rows.push_back({names[i], i});
  for (const Merge& merge : tables.merges) merges.push_back(names[merge.left] + " " + names[merge.right]);
  const bool gpt2 = tables.split == Split::gpt2;
  const ordered_json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", tables.nfc ? ordered_json{{"type", "NFC"}} : ordered_json()},
      {"pre_tokenizer", gpt2 ? byte_level<ordered_json>(true) : sequence},
      {"post_processor", std::move(processor)},
      {"decoder", byte_level<ordered_json>(true)},
      {"model", bpe_model(std::move(vocabulary), std::move(merges), tables.words_first)}};
  return to_text(file, 1) + "\n";
}
