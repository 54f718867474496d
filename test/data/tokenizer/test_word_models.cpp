// Unigram models, WordPiece, SentencePiece's rules of normalization, and the files of tiktoken and BERT, compared with
// plain loops. test_published.cpp and test_pieces.cpp compare them with `tokenizers` and sentencepiece.

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/base64.hpp"
#include "data/tokenizer/files/bert_files.hpp"
#include "data/tokenizer/files/bpe_json.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "data/tokenizer/files/tiktoken.hpp"
#include "data/tokenizer/models/prefix_tree.hpp"
#include "data/tokenizer/models/unigram.hpp"
#include "data/tokenizer/models/word_piece.hpp"
#include "data/tokenizer/pipeline/bert.hpp"
#include "data/tokenizer/pipeline/chars_map.hpp"
#include "data/tokenizer/pipeline/pipeline.hpp"
#include "layers/kernels/random.hpp"
#include "message.hpp"
#include "small_run.hpp"

using nlohmann::json;

namespace {

using Strings = std::vector<std::string>;

// "a|bc" with the tokens of the parts, or "?" for none.
std::string shown(const WordModel& model, const std::string& word, bool special = true) {
  std::string text;
  for (const auto& [begin, end, token] : model.split(word, special))
    text += word.substr(begin, end - begin) + (token == kAbsent ? "?" : std::to_string(token)) + "|";
  return text;
}

// The largest sum of scores over all segmentations of a word.
double best_sum(const std::vector<UnigramPiece>& pieces, double unknown, const std::string& word) {
  if (word.empty()) return 0;
  const std::string first = word.substr(0, 1);
  const bool known = std::ranges::any_of(pieces, [&](const UnigramPiece& piece) { return piece.text == first; });
  double best = known ? -1e9 : unknown + best_sum(pieces, unknown, word.substr(1));
  for (const UnigramPiece& piece : pieces)
    if (word.starts_with(piece.text))
      best = std::max(best, piece.score + best_sum(pieces, unknown, word.substr(piece.text.size())));
  return best;
}

std::string random_word(const std::string& letters, size_t size, uint64_t seed) {
  std::string word;
  for (size_t i = 0; i < size; ++i) word += letters[(rng::key({seed, i}) >> 8) % letters.size()];
  return word;
}

const CharsMap& rules() {
  static const CharsMap map = *read_pieces("test/reference/pieces/unigram.model").tables().rules;
  return map;
}

// Rules that write them by hand: "a" → "x" and "ab" → "y".
std::string small_map() {
  std::vector<uint32_t> units(1024);
  const auto unit = [](uint32_t offset, uint32_t label, bool has_value) {
    return offset << 10 | (has_value ? 1u << 8 : 0) | label;
  };
  units[0] = unit(0x200, 0, false);
  units[0x200 ^ 'a'] = unit(0x100, 'a', true);
  units[0x200 ^ 'a' ^ 0x100] = 1u << 31 | 1;  // of "a"
  units[0x200 ^ 'a' ^ 0x100 ^ 'b'] = unit(0x300, 'b', true);
  units[0x200 ^ 'a' ^ 0x100 ^ 'b' ^ 0x300] = 1u << 31 | 3;  // of "ab"
  const uint32_t size = 4096;
  std::string bytes(reinterpret_cast<const char*>(&size), 4);
  bytes.append(reinterpret_cast<const char*>(units.data()), size);
  return bytes + std::string("\0x\0y\0", 5);
}

std::string refusal_of_map(const std::string& bytes) {
  return message_of<std::runtime_error>([&] { CharsMap map(bytes); });
}

std::string with_unit(std::string map, size_t unit, uint32_t value) {
  std::memcpy(map.data() + 4 + 4 * unit, &value, 4);
  return map;
}

// A tiktoken file of r50k_base's size: the bytes, and tokens of two and three of eight letters.
std::string r50k_file(Strings& tokens) {
  tokens.clear();
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const std::string letters = "abcd";
  for (const char a : letters)
    for (const char b : letters) tokens.push_back({a, b});
  for (const char a : letters)
    for (const char b : letters)
      for (const char c : letters) tokens.push_back({a, b, c});
  for (uint64_t i = 0; tokens.size() < 50256; ++i) tokens.push_back("~" + std::to_string(i));
  std::string file;
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    file += to_base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  return file;
}

std::string refusal_of_tiktoken(const std::string& file) {
  return message_of<std::runtime_error>([&] { tokenizer_from_tiktoken(file); });
}

}  // namespace

TEST_CASE("base64 has the vectors of RFC 4648", "[word-models]") {
  const std::map<std::string, std::string> vectors = {{"", ""},         {"f", "Zg=="},         {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},  {"foob", "Zm9vYg=="},  {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(from_base64(to_base64(all)) == all);
  for (const char* wrong : {"Zg=", "Z", "Zg", "Z!==", "Zm9v\n", "====", "Zg==Zg=="}) CHECK_FALSE(from_base64(wrong));
}

TEST_CASE("a prefix tree finds all texts that begin another", "[word-models]") {
  const Strings texts = {"a", "abc", "ab", "", "b\xff", "abc"};
  std::vector<PrefixTree::Entry> entries;
  for (uint32_t i = 0; i < texts.size(); ++i) entries.emplace_back(texts[i], i);
  const PrefixTree tree(entries);
  const auto found = [&](std::string_view text) {
    std::string all;
    tree.for_each_prefix(text, [&](size_t size, uint32_t i) { all += std::to_string(size) + std::to_string(i) + " "; });
    return all;
  };
  CHECK(found("abcd") == "10 22 35 ");
  CHECK(found("b\xff") == "24 ");
  CHECK(found("b") == "");
  CHECK(found("") == "");
  CHECK(PrefixTree().empty());
  CHECK_FALSE(tree.empty());
}

TEST_CASE("a unigram model finds the segmentation with the largest sum", "[word-models]") {
  std::vector<UnigramPiece> pieces;
  for (const char* text : {"a", "b", "ab", "aab", "ba", "bb", "aaa", "xa", "abab"})
    pieces.push_back({text, -1 - 5 * rng::uniform(1, pieces.size()), uint32_t(pieces.size())});
  double lowest = 0;
  for (const UnigramPiece& piece : pieces) lowest = std::min(lowest, piece.score);
  const Unigram model(pieces, lowest, Unigram::Sums::in_double);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string word = random_word("aabbx", seed % 12, seed);
    double sum = 0;
    std::string joined;
    for (const auto& [begin, end, token] : model.split(word, true)) {
      joined += word.substr(begin, end - begin);
      sum += token == kAbsent ? static_cast<double>(end - begin) * (lowest - kUnknownPenalty) : pieces[token].score;
    }
    INFO(word);
    CHECK(joined == word);
    CHECK(std::abs(sum - best_sum(pieces, lowest - kUnknownPenalty, word)) < 1e-9);
  }
}

TEST_CASE("unknown characters of a unigram model are one part, and special tokens may be text", "[word-models]") {
  const Unigram model({{"a", -1, 5}, {"<s>", 0, 6, true}, {"<", -1, 7}, {"s", -1, 8}, {">", -1, 9}}, -1,
                      Unigram::Sums::in_double);
  CHECK(shown(model, "axya") == "a5|xy?|a5|");
  CHECK(shown(model, "\u00e9\u65e5") == "\u00e9\u65e5?|");
  CHECK(shown(model, "<s>") == "<s>6|");
  CHECK(shown(model, "<s>", false) == "<7|s8|>9|");
  CHECK(shown(model, "") == "");
}

TEST_CASE("WordPiece takes the longest token each time, or none for the word", "[word-models]") {
  const Strings words = {"[UNK]", "un", "u", "##aff", "##able", "##a", "##", "[x]", ""};
  const WordPiece model(words, std::vector<bool>{0, 0, 0, 0, 0, 0, 0, 1, 0}, {"##", 9});
  CHECK(shown(model, "unaffable") == "un1|aff3|able4|");
  CHECK(shown(model, "unab") == "unab?|");
  CHECK(shown(model, "ua") == "u2|a5|");
  CHECK(shown(model, "unaaaaaaa") == "un1|a5|a5|a5|a5|a5|a5|a5|");
  CHECK(shown(model, "unaaaaaaaa") == "unaaaaaaaa?|");
  CHECK(shown(model, "[x]") == "[x]7|");
  CHECK(shown(model, "[x]", false) == "[x]?|");
}

TEST_CASE("rules of normalization are found, the longest or the shortest", "[word-models]") {
  const CharsMap map(small_map());
  const auto found = [](const std::optional<CharsMap::Rule>& rule) {
    return rule ? std::to_string(rule->length) + std::string(rule->replacement) : "none";
  };
  CHECK(found(map.longest_at("abc")) == "2y");
  CHECK(found(map.shortest_at("abc")) == "1x");
  CHECK(found(map.longest_at("ac")) == "1x");
  CHECK(found(map.longest_at("b")) == "none");
  CHECK(found(map.longest_at("")) == "none");
  CHECK_FALSE(map.joins_spaces());
  CHECK(found(rules().longest_at("e\u0301")) == "3\u00e9");
  CHECK(found(rules().longest_at("\u0301")) == "2");
  CHECK(found(rules().longest_at("\r\n")) == "2 ");
}

// A cluster of less than 6 bytes becomes what its shortest rule says, even if that covers its first character only.
TEST_CASE("tokenizers applies the rules to grapheme clusters", "[word-models]") {
  CHECK(replaced_by_cluster(rules(), "e\u0301!") == "\u00e9!");
  CHECK(replaced_by_cluster(rules(), "\ufb01\u0301") == "fi");
  CHECK(replaced_by_cluster(rules(), "\ufb01\u0301\u0302") == "fi\u0302");
  CHECK(replaced_by_cluster(rules(), "a\r\nb") == "a b");
  CHECK(replaced_by_cluster(rules(), "x\u0301") == "x");
  CHECK(replaced_by_cluster(rules(), "") == "");
  const json part = {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(rules().bytes())}};
  CHECK(Pipeline(part, nullptr).normalized("\ufb01\t") == "fi ");
  const auto refusal = [](const json& map) {
    return message_of<std::runtime_error>([&] {
      Pipeline({{"type", "Precompiled"}, {"precompiled_charsmap", map}}, nullptr);
    });
  };
  CHECK(refusal("x") == "the precompiled_charsmap of a Precompiled is not base64");
  CHECK(refusal(nullptr) == "the precompiled_charsmap of a Precompiled is not a text");
  CHECK(refusal("AAAA") == "its precompiled_charsmap is damaged: it has no tree");
}

TEST_CASE("damaged rules of normalization are refused", "[word-models]") {
  const std::string map = small_map();
  REQUIRE(refusal_of_map(map) == "");
  const auto refused = [](const std::string& why) { return "its precompiled_charsmap is damaged: " + why; };
  CHECK(refusal_of_map("") == refused("it has no tree"));
  CHECK(refusal_of_map(map.substr(0, 4000)) == refused("it has no tree"));
  CHECK(refusal_of_map(map.substr(0, map.size() - 1)) == refused("a replacement leaves the file"));
  constexpr uint32_t kA = 0x200 ^ 'a', kB = kA ^ 0x100 ^ 'b';
  CHECK(refusal_of_map(with_unit(map, kA ^ 0x100, 1u << 31 | 5000)) == refused("a replacement leaves the file"));
  CHECK(refusal_of_map(with_unit(map, kB, 0x3fffu << 10 | 1u << 8 | 'b')) == refused("a rule leaves the tree"));
  CHECK(refusal_of_map(with_unit(map, kB, (kB ^ kA ^ 'a') << 10 | 'b')) == refused("its tree has a circle"));
  std::string bad = map;
  bad[bad.size() - 2] = '\xff';
  CHECK(refusal_of_map(bad) == refused("a replacement is not UTF-8"));
  for (uint64_t seed = 0; seed < 3000; ++seed) {  // must throw or work
    std::string damaged = seed % 2 ? map : rules().bytes();
    for (uint64_t i = 0; i < 1 + seed % 4; ++i)
      damaged[rng::key({seed, i, 1}) % damaged.size()] = static_cast<char>(rng::key({seed, i, 2}) >> 8);
    message_of<std::runtime_error>([&] {
      const CharsMap read(damaged);
      CHECK(replaced_by_cluster(read, "ab e\u0301\ufb01\t\u3000").size() < 100000);
      read.longest_at("ab\xff");
    });
  }
}

TEST_CASE("BERT's normalizer cleans, splits Chinese, strips accents and lowers", "[word-models]") {
  CHECK(BertNormalizer()("\u00c9t\u00e9\u4e2dB\u200b\tC\u0000x") == "ete \u4e2d b c");
  CHECK(BertNormalizer{.strips_accents = false}("\u00c9") == "\u00e9");
  CHECK(BertNormalizer{.lowers_case = false}("\u00c9A") == "EA");
  CHECK(BertNormalizer{.cleans = false, .splits_cjk = false}("\t\u4e2d\u200b") == "\t\u4e2d\u200b");
  CHECK(BertNormalizer()("a\ufffd\u00a0\u2028b\ue000") == "a  b");
  CHECK(without_marks("e\u0301\u0903\u20dd") == "e");
  CHECK(nmt_cleaned("a\u0001\u200b\u2028\n\u009f") == "a   ");
}

TEST_CASE("a vocab.txt of BERT is read, with its options next to it", "[word-models]") {
  const Folder f;
  const std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##ing\nwalk\n!\nWalk\n";
  f.write("vocab.txt", lines);
  f.write("tokenizer_config.json", R"({"do_lower_case": false})");
  const Tokenizer cased = read_tokenizer(f.path("vocab.txt"));
  CHECK(cased.encode("Walking, hello!") == std::vector<uint32_t>{9, 6, 1, 5, 8});
  CHECK(cased.name_of_special(cased.begin()) == "[CLS]");
  CHECK(cased.name_of_special(cased.end()) == "[SEP]");
  CHECK(cased.decode({7, 6, 8, 5}) == "walking! hello");
  CHECK(cased.decode({2, 7, 3}) == "[CLS] walk [SEP]");
  f.write("tokenizer_config.json", "{}");
  CHECK(read_tokenizer(f.path("vocab.txt")).encode("WALKING h\u00e9llo") == std::vector<uint32_t>{7, 6, 5});
  CHECK(read_tokenizer(f.path(".")).vocabulary() == 10);
  const Tokenizer stored = tokenizer_from_json(to_json(cased));
  CHECK(stored.encode("Walking") == std::vector<uint32_t>{9, 6});
  const auto refusal = [](const std::string& text) {
    return message_of<std::runtime_error>([&] { tokenizer_from_bert(text, {}); });
  };
  CHECK(refusal("a\nb\n") == "it has no line [UNK], as BERT's has");
  CHECK(refusal(lines + "walk\n") == "line 11 has the token 'walk' of an earlier line");
  CHECK(refusal(lines + "\xff\n") == "line 11 is not UTF-8");
}

TEST_CASE("a tiktoken file merges the lowest rank, leftmost first", "[word-models]") {
  Strings tokens;
  const std::string file = r50k_file(tokens);
  std::map<std::string, uint32_t> rank_of;
  for (uint32_t rank = 0; rank < tokens.size(); ++rank) rank_of[tokens[rank]] = rank;
  const auto plainly = [&](const std::string& word) {
    Strings parts;
    for (const char c : word) parts.emplace_back(1, c);
    while (!rank_of.contains(word)) {
      size_t best = 0;
      uint32_t lowest = kAbsent;
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (const auto found = rank_of.find(parts[i] + parts[i + 1]); found != rank_of.end() && found->second < lowest)
          best = i, lowest = found->second;
      if (lowest == kAbsent) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<uint32_t> result;
    if (rank_of.contains(word)) result.push_back(rank_of[word]);
    else for (const std::string& part : parts) result.push_back(rank_of[part]);
    return result;
  };
  std::string name;
  REQUIRE(is_tiktoken(file));
  const Tokenizer tokenizer = tokenizer_from_tiktoken(file, &name);
  CHECK(name == "r50k_base (GPT-2, GPT-3)");
  CHECK(tokenizer.vocabulary() == 50257);
  CHECK(tokenizer.special("<|endoftext|>") == 50256);
  const Tokenizer stored = tokenizer_from_json(to_json(tokenizer));
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string word = random_word("aabcd", 1 + seed % 60, seed);
    INFO(word);
    CHECK(tokenizer.encode(word) == plainly(word));
    CHECK(stored.encode(word) == plainly(word));
    CHECK(tokenizer.decode(tokenizer.encode(word + " \xff\n")) == word + " \xff\n");
  }
}

TEST_CASE("damaged and unknown tiktoken files are refused", "[word-models]") {
  CHECK(refusal_of_tiktoken("IQ== 0\nIg== x\n") == "line 2 is not a token in base64 and its rank");
  CHECK(refusal_of_tiktoken("IQ== 0\nIg= 1\n") == "line 2 is not a token in base64 and its rank");
  CHECK(refusal_of_tiktoken("IQ== 0\n 1\n") == "line 2 is not a token in base64 and its rank");
  CHECK(refusal_of_tiktoken("IQ== 0\nIg==\n") == "line 2 is not a token in base64 and its rank");
  CHECK(refusal_of_tiktoken("IQ== 0\nIg== 99999999\n") == "line 2 is not a token in base64 and its rank");
  CHECK(refusal_of_tiktoken("IQ== 0\nIg== 0\n") == "line 2 has a rank that another line has, too");
  CHECK(contains(refusal_of_tiktoken("IQ== 0\nIg== 1\n"),
                 "it is a tiktoken file of 2 ranks, which does not say how text is split into words"));
  Strings tokens;
  std::string file = r50k_file(tokens);
  file.replace(file.find("\nAQ== 1\n"), 8, "\nAA== 1\n");
  CHECK(refusal_of_tiktoken(file) == "ranks 0 and 1 have the same token");
  CHECK_FALSE(is_tiktoken("a b c\n"));
  CHECK_FALSE(is_tiktoken("IQ== 1\n"));
  CHECK_FALSE(is_tiktoken(""));
}

TEST_CASE("models of a tokenizer.json that are not as they should be are refused", "[word-models]") {
  const json unigram = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::array({{"<unk>", 0.0}, {"a", -1.5}})}};
  const auto refusal = [](const json& model) {
    const json file = {{"model", model}, {"decoder", {{"type", "Fuse"}}}};
    return message_of<std::runtime_error>([&] { bpe_from_json(to_text(file)); });
  };
  const auto with = [&](const char* key, const json& value) {
    json model = unigram;
    model[key] = value;
    return refusal(model);
  };
  CHECK(refusal(unigram) == "");
  CHECK(with("vocab", json::object()) == "its vocabulary is not a list");
  CHECK(with("vocab", json::array({{"a", "b"}})) == "entry 0 of its vocabulary is not a text and a score");
  CHECK(with("unk_id", 2) == "the number of token \"unk_id\" is not one of 0 to 1");
  CHECK(with("alpha", 0.1) == "the model's alpha is not supported");
  CHECK(with("type", "WordLevel") == "the model WordLevel is not supported");
  const json word_piece = {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", {{"[UNK]", 0}}},
                           {"max_input_chars_per_word", -1}};
  CHECK(refusal(word_piece) == "the max_input_chars_per_word is not a number of characters");
  const json bytes = {{"model", unigram}, {"decoder", {{"type", "Fuse"}}}, {"pre_tokenizer", {{"type", "ByteLevel"}}}};
  CHECK(message_of<std::runtime_error>([&] { bpe_from_json(to_text(bytes)); }) ==
        "a ByteLevel before the model Unigram is not supported");
}
