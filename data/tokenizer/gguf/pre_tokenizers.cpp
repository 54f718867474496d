#include "pre_tokenizers.hpp"

#include <algorithm>
#include <optional>

#include "data/files/json.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"
#include "data/tokenizer/pipeline/split.hpp"

using nlohmann::json;

namespace {

std::vector<PreTokenizer> make_pre_tokenizers() {
  const std::string gpt2 = regex_of(Split::gpt2), llama3 = regex_of(Split::llama3), qwen2 = regex_of(Split::qwen2);
  const std::string digit = R"(\p{N})";
  const std::string cjk = "[一-龥ࠀ-一가-\ud7ff]+";
  const std::string bloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
  const std::string tail = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string upper = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  const std::string lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::string ending = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  return {
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "mellum", "trillion", "granite-docling", "exaone4"}, {gpt2}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}, {digit, gpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"}, {llama3}, true, true},
      {{"glm4"}, {llama3}, true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {llama3}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "hunyuan"}, {qwen2}},
      {{"qwen35"},
       {ending + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|)" +
        R"(\s+(?!\S)|\s+)"}},
      {{"falcon"}, {R"([\p{P}$+<=>^~|`]+)", gpt2, "[0-9][0-9][0-9]"}},
      {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", cjk, digit}},
      {{"deepseek-llm"},
       {"[\r\n]", R"(\s?[\p{Lu}\p{Ll}\p{Lt}]+)", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", R"(\s+$)", cjk, R"(\p{N}+)"}},
      {{"bloom", "gpt3-finnish", "poro-chat"}, {bloom}},
      {{"viking"}, {bloom, digit}},
      {{"tekken"},
       {upper + "*" + lower + "+|" + upper + "+" + lower + "*|" + digit + "|" + tail}, true, true},
      {{"gpt-4o", "llama4"},
       {upper + "*" + lower + "+" + ending + "?|" + upper + "+" + lower + "*" + ending + R"(?|\p{N}{1,3}|)" +
        tail}},
  };
}

const std::vector<PreTokenizer>& pre_tokenizers() {
  static const std::vector<PreTokenizer> all = make_pre_tokenizers();
  return all;
}

// Returns the regular expression of a part, whose matches and what is between them are words. "" for a part that splits
// nothing. Open: a part that does something else.
std::optional<std::string> split_of(const json& part) {
  const json& type = member(part, "type");
  if (type == "ByteLevel" && !flag_of(part, "add_prefix_space", true))
    return flag_of(part, "use_regex", true) ? regex_of(Split::gpt2) : "";
  if (type == "Digits" && flag_of(part, "individual_digits", false)) return R"(\p{N})";
  if (type != "Split" || member(part, "behavior") != "Isolated" || flag_of(part, "invert", false)) return {};
  const json& regex = member(member(part, "pattern"), "Regex");
  return regex.is_string() ? std::optional(regex.get<std::string>()) : std::nullopt;
}

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& row : pre_tokenizers())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  return nullptr;
}

const PreTokenizer* find_pre_tokenizer(const json& pre_tokenizer, bool words_first) {
  std::vector<std::string> splits;
  for (const json& part : parts_in(pre_tokenizer, "pre_tokenizer")) {
    const std::optional<std::string> regex = split_of(part);
    if (!regex) return nullptr;
    if (!regex->empty()) splits.push_back(*regex);
  }
  for (const PreTokenizer& row : pre_tokenizers())
    if (row.splits == splits && row.words_first == words_first) return &row;
  return nullptr;
}
