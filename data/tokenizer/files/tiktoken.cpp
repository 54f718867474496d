#include "tiktoken.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpe_json.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/base64.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/notes.hpp"
#include "data/tokenizer/pipeline/split.hpp"
#include "written_json.hpp"

using nlohmann::json;

namespace {

using Special = std::pair<uint32_t, std::string>;

std::vector<Special> llama3_special() {
  constexpr uint32_t kFirst = 128000, kCount = 256;
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>"};
  const std::vector<Special> others = {{6, "<|start_header_id|>"}, {7, "<|end_header_id|>"}, {9, "<|eot_id|>"}};
  for (int reserved = 0; names.size() < kCount;) {
    const auto other = std::ranges::find(others, names.size(), &Special::first);
    names.push_back(other != others.end() ? other->second
                                          : "<|reserved_special_token_" + std::to_string(reserved++) + "|>");
  }
  std::vector<Special> special;
  for (uint32_t i = 0; i < kCount; ++i) special.emplace_back(kFirst + i, names[i]);
  return special;
}

std::vector<Special> qwen_special() {
  constexpr uint32_t kFirst = 151643, kExtra = 205;
  std::vector<Special> special = {{kFirst, "<|endoftext|>"}, {kFirst + 1, "<|im_start|>"}, {kFirst + 2, "<|im_end|>"}};
  for (uint32_t i = 0; i < kExtra; ++i) special.emplace_back(kFirst + 3 + i, "<|extra_" + std::to_string(i) + "|>");
  return special;
}

struct Encoding {
  const char* name;
  size_t ranks;       // in its file
  std::string regex;  // of words
  std::vector<Special> special;
  const char* begin = "";  // the special token before a text
  bool nfc = false;
};

// With the regular expressions of tiktoken and of the models' own programs.
const std::vector<Encoding>& encodings() {
  static const std::string gpt2 = regex_of(Split::gpt2), llama3 = regex_of(Split::llama3);
  static const std::string upper = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                           lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])", ending = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  static const std::vector<Encoding> all = {
      {"r50k_base (GPT-2, GPT-3)", 50256, gpt2, {{50256, "<|endoftext|>"}}},
      {"p50k_base", 50280, gpt2, {{50256, "<|endoftext|>"}}},
      {"cl100k_base (GPT-4)", 100256,
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|)"
       R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
       {{100257, "<|endoftext|>"}, {100258, "<|fim_prefix|>"}, {100259, "<|fim_middle|>"}, {100260, "<|fim_suffix|>"},
        {100276, "<|endofprompt|>"}}},
      {"o200k_base (GPT-4o)", 199998,
       upper + "*" + lower + "+" + ending + "|" + upper + "+" + lower + "*" + ending +
           R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}},
      {"Llama 3", 128000, llama3, llama3_special(), "<|begin_of_text|>"},
      {"Qwen", 151643, regex_of(Split::qwen2), qwen_special(), "", true}};
  return all;
}

const Encoding& encoding_of(size_t ranks) {
  const auto found = std::ranges::find(encodings(), ranks, &Encoding::ranks);
  if (found != encodings().end()) return *found;
  std::string known;
  for (const Encoding& row : encodings())
    known += (known.empty() ? "" : ", ") + std::string(row.name) + " " + std::to_string(row.ranks);
  throw std::runtime_error("it is a tiktoken file of " + std::to_string(ranks) + " ranks, which does not say how text" +
                           " is split into words; train_gpt knows this of " + known +
                           ": name the tokenizer.json of the model");
}

// The bytes of each token by rank; "" for a rank that the file does not have.
struct Ranks {
  std::vector<std::string> tokens;
  size_t count = 0;
};

Ranks parse_ranks(std::string_view bytes) {
  constexpr uint32_t kMost = 1 << 20;
  Ranks ranks;
  size_t number = 0;  // of the line
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("line " + std::to_string(number) + " " + why);
  };
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size() - 1);
    const std::optional<std::string> token = from_base64(line.substr(0, space));
    uint32_t rank = 0;
    const auto [stop, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
    if (!token || token->empty() || error != std::errc() || stop != line.data() + line.size() || rank >= kMost)
      refuse("is not a token in base64 and its rank");
    if (rank >= ranks.tokens.size()) ranks.tokens.resize(rank + 1);
    if (!ranks.tokens[rank].empty()) refuse("has a rank that another line has, too");
    ranks.tokens[rank] = *token;
    ++ranks.count;
  }
  return ranks;
}

// All pairs of tokens that make another, in the order of `transformers`: by the rank of what they make, then by their
// own ranks.
json merges_of(const std::unordered_map<std::string_view, uint32_t>& rank_of, const std::vector<std::string>& tokens,
               const std::vector<std::string>& names) {
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> all;
  for (uint32_t rank = 0; rank < tokens.size(); ++rank)
    for (size_t at = 1; at < tokens[rank].size(); ++at) {
      const std::string_view bytes = tokens[rank];
      const auto left = rank_of.find(bytes.substr(0, at)), right = rank_of.find(bytes.substr(at));
      if (left != rank_of.end() && right != rank_of.end()) all.emplace_back(rank, left->second, right->second);
    }
  std::sort(all.begin(), all.end());
  json merges = json::array();
  for (const auto& [rank, left, right] : all) merges.push_back({names[left], names[right]});
  return merges;
}

// The numbers between the ranks and the special tokens also need names.
std::vector<Special> all_special(const Ranks& ranks, const Encoding& encoding) {
  std::vector<Special> special = encoding.special;
  const auto is_known = [&](uint32_t token) {
    return (token < ranks.tokens.size() && !ranks.tokens[token].empty()) ||
           std::ranges::find(encoding.special, token, &Special::first) != encoding.special.end();
  };
  for (uint32_t token = 0; token < encoding.special.back().first; ++token)
    if (!is_known(token)) special.emplace_back(token, "<|unused_" + std::to_string(token) + "|>");
  return special;
}

json file_of(const Ranks& ranks, const Encoding& encoding) {
  std::unordered_map<std::string_view, uint32_t> rank_of;
  std::vector<std::string> names;
  json vocabulary = json::object(), added = json::array(), first;
  for (uint32_t rank = 0; rank < ranks.tokens.size(); ++rank) {
    const std::string& token = ranks.tokens[rank];
    names.push_back(printable(token));
    if (token.empty()) continue;
    if (!rank_of.emplace(token, rank).second)
      throw std::runtime_error("ranks " + std::to_string(rank_of[token]) + " and " + std::to_string(rank) +
                               " have the same token");
    vocabulary[names.back()] = rank;
  }
  for (const auto& [token, name] : all_special(ranks, encoding)) {
    added.push_back(added_row<json>(token, name));
    if (const SpecialToken begin{token, name}; name == encoding.begin) first = template_with(&begin);
  }
  json model = bpe_model(std::move(vocabulary), merges_of(rank_of, ranks.tokens, names), true);
  model["equal_ranks"] = true;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", encoding.nfc ? json{{"type", "NFC"}} : json()},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", json::array({split_by<json>(encoding.regex), byte_level<json>(false)})}}},
          {"post_processor", first},
          {"decoder", byte_level<json>(true)},
          {"model", std::move(model)}};
}

}  // namespace

bool is_tiktoken(std::string_view bytes) {
  const size_t space = bytes.find(' '), line = bytes.find('\n');
  if (space == bytes.npos || space == 0 || line == bytes.npos || space > line) return false;
  std::string_view number = bytes.substr(space + 1, line - space - 1);
  if (number.ends_with('\r')) number.remove_suffix(1);
  return number == "0" && from_base64(bytes.substr(0, space)).has_value();
}

Tokenizer tokenizer_from_tiktoken(std::string_view bytes, std::string* name) {
  const Ranks ranks = parse_ranks(bytes);
  const Encoding& encoding = encoding_of(ranks.count);
  if (name) *name = encoding.name;
  const json file = file_of(ranks, encoding);
  return Tokenizer::bpe(bpe_from_json(file, to_text(file, 1) + "\n"));
}

Tokenizer read_tiktoken(const std::string& path) {
  std::string name;
  const std::string bytes = read_file(path, kLargestTokenizer);
  const Tokenizer tokenizer =
      explained(path + " cannot be used as a tokenizer: ", [&] { return tokenizer_from_tiktoken(bytes, &name); });
  print_note_once(path + " has the ranks of " + name + ": train_gpt adds its special tokens and its pattern of words");
  return tokenizer;
}
