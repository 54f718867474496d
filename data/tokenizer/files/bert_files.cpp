#include "bert_files.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bpe_json.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/pipeline/json_parts.hpp"
#include "written_json.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char *kClass = "[CLS]", *kSeparator = "[SEP]", *kUnknownWord = "[UNK]";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  return lines;
}

bool has_capitals(const std::string& lines) {
  const std::vector<std::string> all = lines_of(lines);
  return std::ranges::any_of(all, [](const std::string& token) {
    return !token.starts_with('[') && std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; });
  });
}

BertOptions options_in(const json& config) {
  BertOptions options;
  options.lowers_case = flag_of(config, "do_lower_case", true);
  options.strips_accents = flag_of(config, "strip_accents", options.lowers_case);
  options.splits_cjk = flag_of(config, "tokenize_chinese_chars", true);
  return options;
}

}  // namespace

Tokenizer tokenizer_from_bert(const std::string& lines, const BertOptions& options) {
  json vocabulary = json::object(), added = json::array();
  uint32_t count = 0;
  for (const std::string& token : lines_of(lines)) {
    for (size_t at = 0; at < token.size();)
      if (!next_code_point(token, at)) throw std::runtime_error("line " + std::to_string(count + 1) + " is not UTF-8");
    if (!vocabulary.emplace(token, count).second)
      throw std::runtime_error("line " + std::to_string(count + 1) + " has the token " + in_quotes(token) +
                               " of an earlier line");
    ++count;
  }
  for (const char* name : {"[PAD]", kUnknownWord, kClass, kSeparator, "[MASK]"})
    if (vocabulary.contains(name)) added.push_back(added_row<json>(vocabulary[name], name));
  for (const char* name : {kUnknownWord, kClass, kSeparator})
    if (!vocabulary.contains(name)) throw std::runtime_error("it has no line " + std::string(name) + ", as BERT's has");
  const json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", options.splits_cjk},
        {"strip_accents", options.strips_accents},
        {"lowercase", options.lowers_case}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "BertProcessing"},
        {"sep", json::array({kSeparator, vocabulary[kSeparator]})},
        {"cls", json::array({kClass, vocabulary[kClass]})}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", kUnknownWord},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", vocabulary}}}};
  return Tokenizer::bpe(bpe_from_json(file, to_text(file, 1) + "\n"));
}

Tokenizer read_bert(const std::string& path) {
  const std::string config = fs::path(path).replace_filename("tokenizer_config.json").string();
  const std::string lines = read_file(path, kLargestTokenizer);
  BertOptions options;
  if (fs::exists(config)) {
    const json settings = read_json(config, kLargestTokenizer);
    options = explained(config + ": ", [&] { return options_in(settings); });
  } else {
    options.lowers_case = options.strips_accents = !has_capitals(lines);
    print_note_once("there is no tokenizer_config.json next to " + path + ": text " +
                    (options.lowers_case ? "becomes lower case" : "stays in upper and lower case"));
  }
  return explained(path + " cannot be used as a tokenizer: ", [&] { return tokenizer_from_bert(lines, options); });
}
