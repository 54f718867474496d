// Byte-level BPE, compared with Hugging Face's tokenizers (python_ref/tokenizer.py) and with plain loops.

#include "data/tokenizer/bpe.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/progress.hpp"
#include "data/text/readers/text_files.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_files.hpp"
#include "data/tokenizer/pipeline/normalize.hpp"
#include "data/tokenizer/pipeline/split.hpp"
#include "data/tokenizer/tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "message.hpp"
#include "program.hpp"
#include "shared.hpp"

using nlohmann::json;

namespace {

const std::string kFolder = "test/reference/tokenizer/";

std::string reference(const std::string& name) { return read_file(kFolder + name); }

std::vector<std::pair<uint32_t, uint32_t>> pairs_of(const Bpe& bpe) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Merge& merge : bpe.tables().merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

void check_equal(const Bpe& a, const Bpe& b) {
  CHECK(a.tables().tokens == b.tables().tokens);
  CHECK(pairs_of(a) == pairs_of(b));
}

std::string decoded(const Bpe& bpe, const std::vector<uint32_t>& tokens) {
  std::string text;
  for (const uint32_t token : tokens) text += bpe.bytes_of(token);
  return text;
}

// `count` characters drawn from `alphabet`, which is all bytes if it is empty.
std::string random_text(size_t count, const std::string& alphabet, uint64_t seed) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t drawn = rng::key({seed, i}) >> 8;
    text += alphabet.empty() ? static_cast<char>(drawn) : alphabet[drawn % alphabet.size()];
  }
  return text;
}

// Does what encode() does in plain loops: one merge at a time, the lowest rank first, leftmost first.
std::vector<uint32_t> encode_plainly(const Bpe& bpe, std::string_view word) {
  std::vector<uint32_t> tokens;
  for (const char byte : word) {
    const auto& all = bpe.tables().tokens;
    tokens.push_back(std::find(all.begin(), all.end(), std::string(1, byte)) - all.begin());
  }
  for (const Merge& merge : bpe.tables().merges)
    for (size_t i = 0; i + 1 < tokens.size(); ++i)
      if (tokens[i] == merge.left && tokens[i + 1] == merge.right) {
        tokens[i] = merge.token;
        tokens.erase(tokens.begin() + i + 1);
      }
  return tokens;
}

// The message for a tokenizer.json after `change`.
template <class Change>
std::string refusal(const Change& change) {
  json file = parse_json(reference("tokenizer.json"));
  change(file);
  const std::string text = to_text(file);
  return message_of<std::runtime_error>([&] { bpe_from_json(text); });
}

}  // namespace

TEST_CASE("training makes the merges of Hugging Face's tokenizers", "[bpe]") {
  const Bpe theirs = read_bpe(kFolder + "tokenizer.json");
  REQUIRE(theirs.vocabulary() == 400);
  check_equal(train_bpe(reference("trained_on.txt"), 400), theirs);
}

TEST_CASE("encoding gives the tokens of Hugging Face's tokenizers", "[bpe]") {
  const Bpe bpe = read_bpe(kFolder + "tokenizer.json");
  const std::string text = reference("hard.txt");
  const auto tokens = bpe.encode(text);
  CHECK(tokens == parse_json(reference("hard.tokens.json")).get<std::vector<uint32_t>>());
  CHECK(decoded(bpe, tokens) == text);
}

TEST_CASE("training does not depend on the number of merges, and ends when no pair is left", "[bpe]") {
  const std::string text = reference("trained_on.txt");
  const Bpe few = train_bpe(text, 300), many = train_bpe(text, 380);
  const auto first = pairs_of(few), all = pairs_of(many);
  CHECK(std::equal(first.begin(), first.end(), all.begin()));
  CHECK(train_bpe("ab ab", 1000).vocabulary() == 258);  // "ab" and " ab"
  CHECK(train_bpe("", 300).vocabulary() == 256);
  CHECK_THROWS_AS(train_bpe(text, 255), std::invalid_argument);
}

TEST_CASE("of equally frequent pairs the one with the lowest token numbers is merged first", "[bpe]") {
  const Bpe bpe = train_bpe("dc\nba\ndc\nba\n", 258);
  CHECK(bpe.bytes_of(256) == "ba");
  CHECK(bpe.bytes_of(257) == "dc");
}

TEST_CASE("any bytes can be encoded and decoded", "[bpe]") {
  const Bpe bpe = train_bpe(reference("trained_on.txt"), 400);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string noise = random_text(3000, "", seed), cut = reference("hard.txt").substr(seed, 2000 + seed);
    CHECK(decoded(bpe, bpe.encode(noise)) == noise);
    CHECK(decoded(bpe, bpe.encode(cut)) == cut);
  }
  CHECK(bpe.encode("").empty());
}

TEST_CASE("words of every length are merged by rank, leftmost first", "[bpe]") {
  const Bpe bpe = train_bpe(random_text(20000, "aaab", 1), 330);
  for (size_t length = 1; length < 120; ++length)
    for (const char* alphabet : {"a", "ab", "aaab"}) {
      const std::string word = random_text(length, alphabet, length);
      CHECK(bpe.encode(word) == encode_plainly(bpe, word));
    }
}

TEST_CASE("the splits of Llama 3 and Qwen 2 give the tokens of Hugging Face's tokenizers", "[bpe]") {
  const std::string text = reference("hard.txt");
  for (const std::string name : {"llama3", "qwen2"}) {
    INFO(name);
    const Bpe bpe = read_bpe(kFolder + name + ".json");
    CHECK(bpe.tables().split == (name == "llama3" ? Split::llama3 : Split::qwen2));
    CHECK(bpe.tables().words_first == (name == "llama3"));
    const json expected = parse_json(reference(name + ".tokens.json"));
    CHECK(bpe.encode(text) == expected.get<std::vector<uint32_t>>());
    CHECK(decoded(bpe, bpe.encode(text)) == text);
    CHECK(bpe_from_json(to_json(bpe)).encode(text) == expected.get<std::vector<uint32_t>>());
  }
}

TEST_CASE("a tokenizer.json that asks for NFC gives the tokens of Hugging Face's tokenizers", "[bpe]") {
  const std::string text = reference("nfc.txt");
  const Bpe bpe = read_bpe(kFolder + "nfc.json");
  const auto tokens = bpe.encode(text);
  CHECK(tokens == parse_json(reference("nfc.tokens.json")).get<std::vector<uint32_t>>());
  CHECK(decoded(bpe, tokens) == nfc(text));
  CHECK(bpe_from_json(to_json(bpe)).encode(text) == tokens);
  CHECK(nfc(text) != text);
  CHECK(nfc(nfc(text)) == nfc(text));
}

TEST_CASE("text that is normalized in parts has the tokens of the whole", "[bpe][long]") {
  const Bpe bpe = read_bpe(kFolder + "nfc.json");
  BpeTables tables = bpe.tables();
  tables.nfc = false;
  const Bpe plain(std::move(tables));
  std::string text;
  for (int i = 0; text.size() < 1 << 20; ++i)  // more than one thread encodes at a time
    text += reference("nfc.txt").substr(0, 3000 + i) + random_text(200, "=! \n\xcc\xb8\xe1\x85\xa1", i);
  const std::vector<uint32_t> whole = plain.encode(nfc(text));
  CHECK(bpe.encode(text) == whole);
  const Tokenizer tokenizer = Tokenizer::bpe(read_bpe(kFolder + "nfc.json"));
  for (const size_t bytes : {30, 1000, 300000}) {
    std::vector<uint32_t> parts;
    for (const std::string_view piece : tokenizer.cut(text, bytes)) {
      const std::vector<uint32_t> part = tokenizer.encode(piece);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(parts == whole);
  }
}

TEST_CASE("normalization keeps bytes that are not UTF-8, and takes linear time", "[bpe]") {
  CHECK(nfc("") == "");
  CHECK(nfc("e\xcc\x81") == "\xc3\xa9");
  CHECK(nfc("e\xff\xcc\x81") == "e\xff\xcc\x81");         // nothing combines across it
  CHECK(nfc("\xffxe\xcc\x81\xcc") == "\xffx\xc3\xa9\xcc");  // the last mark is cut short
  CHECK(nfc("\xcc\x81 \xcc\x81") == "\xcc\x81 \xcc\x81");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string noise = random_text(2000, "", seed);
    CHECK(nfc(nfc(noise)) == nfc(noise));
  }
  std::string marks = "a";
  for (int i = 0; i < 250000; ++i) marks += "\xcc\x81\xcc\xa3";  // above, below
  const Stopwatch clock;
  const std::string normal = nfc(marks);
  CHECK(normal.substr(0, 5) == "\xe1\xba\xa1\xcc\xa3");  // one below, then all others below, then those above
  CHECK(normal.size() == marks.size());
  CHECK(clock.seconds() < 60);  // would take hours if each mark moved past all earlier ones
}

TEST_CASE("the splits differ in endings, digits and line ends", "[bpe]") {
  const auto words = [](Split split) {
    std::string found;
    split_words(split, "it'so IT'SO 12345!\n\nx", [&](std::string_view word) { found += std::string(word) + "|"; });
    return found;
  };
  CHECK(words(Split::gpt2) == "it|'s|o| IT|'|SO| 12345|!|\n|\n|x|");
  CHECK(words(Split::llama3) == "it|'s|o| IT|'S|O| |123|45|!\n\n|x|");
  CHECK(words(Split::qwen2) == "it|'s|o| IT|'S|O| |1|2|3|4|5|!\n\n|x|");
}

TEST_CASE("pieces of a text have the words of the whole text", "[bpe]") {
  const Split split = GENERATE(Split::gpt2, Split::llama3, Split::qwen2);
  std::string text;
  for (int i = 0; i < 8; ++i) text += reference("hard.txt") + random_text(500, " \n.a\xc3\xa9", i);
  std::vector<std::string_view> whole, parts;
  split_words(split, text, [&](std::string_view word) { whole.push_back(word); });
  for (const std::string_view piece : cut_between_words(split, text, 100))
    split_words(split, piece, [&](std::string_view word) { parts.push_back(word); });
  CHECK(whole == parts);
  CHECK(cut_between_words(split, text, 100).size() > (split == Split::gpt2 ? 50u : 20u));
}

TEST_CASE("a megabyte without a space is encoded in seconds", "[bpe][long]") {
  const Bpe bpe = train_bpe(reference("trained_on.txt"), 400);
  const Stopwatch clock;
  for (const std::string alphabet : {"a", "abcdefghijklmnopqrstuvwxyz", " ", "\xff"}) {
    const std::string text = random_text(1000000, alphabet, 1);
    CHECK(decoded(bpe, bpe.encode(text)) == text);
  }
  CHECK(clock.seconds() < 120);  // would take hours if each merge scanned the whole word
}

TEST_CASE("a tokenizer survives its tokenizer.json", "[bpe]") {
  BpeTables tables = train_bpe(reference("trained_on.txt"), 350).tables();
  tables.tokens.push_back("<|end of text|>");
  tables.special.push_back({350, "<|end of text|>"});
  const Bpe bpe(tables), back = bpe_from_json(to_json(bpe));
  check_equal(bpe, back);
  REQUIRE(back.tables().special.size() == 1);
  CHECK(back.tables().special[0].token == 350);
  const std::vector<uint32_t> tokens = back.encode("a<|end of text|>");
  CHECK(std::count(tokens.begin(), tokens.end(), 350u) == 0);
}

TEST_CASE("words that are tokens need no merges under ignore_merges", "[bpe]") {
  json file = parse_json(reference("tokenizer.json"));
  file["model"]["merges"] = json::array();
  const std::string word = "the";
  REQUIRE(file["model"]["vocab"].contains(word));
  CHECK(bpe_from_json(to_text(file)).encode(word).size() == 3);
  file["model"]["ignore_merges"] = true;
  CHECK(bpe_from_json(to_text(file)).encode(word) == std::vector<uint32_t>{file["model"]["vocab"][word]});
}

TEST_CASE("a tokenizer.json says which token begins a text", "[bpe]") {
  json file = parse_json(reference("llama3.json"));
  const std::string name = "<|begin_of_text|>";
  file["added_tokens"] = {{{"id", 400}, {"content", name}, {"special", true}},
                          {{"id", 401}, {"content", "<|end_of_text|>"}, {"special", true}}};
  const json begin = {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}, text = {{"Sequence", {{"id", "A"}}}};
  const auto with = [&](const json& parts) {  // as in Llama 3's file
    json changed = file;
    const json both = {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", parts}}};
    changed["post_processor"] = {{"type", "Sequence"}, {"processors", both}};
    return to_text(changed);
  };
  const Tokenizer llama3 = Tokenizer::bpe(bpe_from_json(with({begin, text})));
  CHECK(llama3.begin() == 400);
  CHECK(llama3.end() == 401);
  CHECK(llama3.name_of_special(400) == name);
  CHECK(llama3.encode("a").size() == 1);
  const Bpe again = bpe_from_json(to_json(*llama3.bpe()));
  CHECK(again.tables().begin == 400);
  CHECK(to_json(again) == to_json(*llama3.bpe()));
  const Tokenizer only_ends = Tokenizer::bpe(bpe_from_json(with({text, begin})));  // as T5's
  CHECK(only_ends.begin() == -1);
  CHECK(only_ends.end() == 400);
  const auto refused = [&](const json& parts) {
    return message_of<std::runtime_error>([&] { bpe_from_json(with(parts)); });
  };
  CHECK(Tokenizer::bpe(bpe_from_json(with({begin, text, begin}))).end() == 400);
  CHECK(refused({begin, begin, text}) == "a TemplateProcessing with two tokens before the text is not supported");
  CHECK(refused({{{"SpecialToken", {{"id", "a"}}}}, text}) ==
        "its post_processor needs \"a\", which is not a special token");
  CHECK(refused({{{"SpecialToken", {{"id", 3}}}}, text}) == "a token of the post_processor is not a text");
}

TEST_CASE("GPT-2's two files are read", "[bpe]") {
  const Folder f;
  const json file = parse_json(reference("tokenizer.json"));
  std::string merges = "#version: 0.2\n";
  for (const json& merge : file["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  f.write("encoder.json", to_text(file["model"]["vocab"]));
  CHECK(contains(message_of<std::runtime_error>([&] { read_bpe(f.path("encoder.json")); }), "no vocab.bpe"));
  f.write("vocab.bpe", merges);
  check_equal(read_bpe(f.path("encoder.json")), read_bpe(kFolder + "tokenizer.json"));
  f.write("vocab.bpe", merges + "a b c\n");
  CHECK(contains(message_of<std::runtime_error>([&] { read_bpe(f.path("encoder.json")); }),
                 "encoder.json cannot be used as a tokenizer: merge 144 is not two tokens"));
}

TEST_CASE("parts of a tokenizer.json that would tokenize differently are refused by name", "[bpe]") {
  CHECK(refusal([](json&) {}) == "");
  CHECK(refusal([](json& j) { j["normalizer"] = {{"type", "NFC"}}; }) == "");
  CHECK(refusal([](json& j) { j["truncation"] = {{"max_length", 9}}, j["padding"] = {{"pad_id", 0}}; }) == "");
  CHECK(refusal([](json& j) { j["normalizer"] = {{"type", "Append"}}; }) == "the normalizer Append is not supported");
  CHECK(refusal([](json& j) {
          const json parts = {{{"type", "NFC"}}, {{"type", "Append"}}};
          j["normalizer"] = {{"type", "Sequence"}, {"normalizers", parts}};
        }) == "the normalizer Append in Sequence [NFC, Append] is not supported");
  CHECK(refusal([](json& j) { j["normalizer"] = "NFC"; }) == "its normalizer is not an object");
  CHECK(refusal([](json& j) {
          const json parts = {{{"type", "UnicodeScripts"}}, {{"type", "ByteLevel"}}};
          j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", parts}};
        }) == "the pre_tokenizer UnicodeScripts in Sequence [UnicodeScripts, ByteLevel] is not supported");
  CHECK(refusal([](json& j) { j["pre_tokenizer"] = j["decoder"] = json(); }) ==
        "a file without a decoder and without a ByteLevel is not supported");
  const auto with_split = [](const json& words, bool use_regex) {
    return refusal([&](json& j) {
      json bytes = j["pre_tokenizer"];
      bytes["use_regex"] = use_regex;
      j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {words, bytes}}};
    });
  };
  json words = {{"type", "Split"}, {"pattern", {{"Regex", regex_of(Split::qwen2)}}}, {"behavior", "Isolated"},
                {"invert", false}};
  CHECK(with_split(words, false) == "");
  words["behavior"] = "Sometimes";
  CHECK(with_split(words, false) == "the behavior of a Split is not supported");
  words["behavior"] = "Removed", words["pattern"]["Regex"] = "[a-z&&[^b]]+";
  CHECK(with_split(words, false) == "a regular expression with '&&' ('[a-z&&[^b]]+') is not supported");
  words["pattern"]["Regex"] = "(a";
  CHECK(with_split(words, false) == "the regular expression '(a': missing closing parenthesis");
  CHECK(refusal([](json& j) { j["post_processor"] = {{"type", "TemplateProcessing"}}; }) == "");
  CHECK(refusal([](json& j) { j["post_processor"] = {{"type", "PairProcessing"}}; }) ==
        "the post_processor PairProcessing is not supported");
  CHECK(refusal([](json& j) { j["decoder"] = {{"type", "CTC"}}; }) == "the decoder CTC is not supported");
  CHECK(refusal([](json& j) { j["model"]["type"] = "Lattice"; }) == "the model Lattice is not supported");
  CHECK(refusal([](json& j) { j["model"]["dropout"] = .1; }) == "the model's dropout is not supported");
  CHECK(refusal([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }) ==
        "the model's end_of_word_suffix is not supported");
}

TEST_CASE("a damaged tokenizer.json is refused in one line that names it", "[bpe]") {
  CHECK(refusal([](json& j) { j["model"]["vocab"]["a"] = 999; }) == "the number of token \"a\" is not one of 0 to 399");
  CHECK(refusal([](json& j) { j["model"]["vocab"]["a"] = -1; }) == "the number of token \"a\" is not one of 0 to 399");
  CHECK(refusal([](json& j) { j["model"]["vocab"]["a"] = 1; }) == "two tokens have the number 1");
  CHECK(refusal([](json& j) { j["model"]["vocab"] = 1; }) == "its vocabulary is not an object");
  CHECK(refusal([](json& j) { j["model"]["merges"][0] = "a"; }) == "merge 0 is not two tokens");
  CHECK(refusal([](json& j) { j["model"]["merges"][0] = 7; }) == "one of its merges is not two tokens");
  CHECK(refusal([](json& j) { j["model"]["merges"][1] = {"a", "\n"}; }) ==
        "merge 1 needs \"\\n\", which is not a token");
  CHECK(refusal([](json& j) { j["added_tokens"] = 3; }) == "its added_tokens are not a list");
  CHECK(refusal([](json& j) { j["added_tokens"] = {3}; }) == "the content of an added token is not a text");
  CHECK(refusal([](json& j) {
          const json number = j["model"]["vocab"]["a"];
          j["model"]["vocab"].erase("a");
          j["model"]["vocab"]["aa a"] = number;
          j["model"]["merges"] = json::array();
        }) == "");

  const Folder f;
  const std::string text = reference("tokenizer.json");
  const auto check_refused = [&](const std::string& damaged) {
    f.write("tok.json", damaged);
    const std::string message = message_of<std::runtime_error>([&] { read_bpe(f.path("tok.json")); });
    CHECK(contains(message, "tok.json cannot be used as a tokenizer: "));
    CHECK(count_lines(message) == 0);
  };
  for (size_t size = 0; size + 1 < text.size(); size += 97) check_refused(text.substr(0, size));
  check_refused(std::string(100000, '['));
  check_refused("{\"model\": " + std::string(100000, '['));
  for (const char* other : {"3", "[]", "{}", "null", "{\"model\": {}}", "{\"a\": \"b\"}"}) check_refused(other);
  for (uint64_t seed = 0; seed < 300; ++seed) {  // must throw or succeed
    std::string damaged = text;
    damaged[rng::key({seed, 1}) % damaged.size()] = static_cast<char>(rng::key({seed, 2}) >> 8);
    f.write("tok.json", damaged);
    message_of<std::runtime_error>([&] { read_bpe(f.path("tok.json")); });
  }
}

TEST_CASE("the command tokenizer trains on files and writes a tokenizer.json", "[bpe]") {
  const Folder f;
  const std::string text = reference("trained_on.txt");
  std::string lines = text;
  drop_returns(lines);
  f.write("my.txt", text);
  const Outcome o = f.run("tokenizer my.txt --vocab 400 --out tok.json");
  INFO(o.err);
  REQUIRE(o.status == 0);
  const Bpe bpe = read_bpe(f.path("tok.json"));
  check_equal(bpe, *Tokenizer::bpe(train_bpe(lines, 399)).with_special({kEndOfText}).bpe());
  const double per_token = static_cast<double>(lines.size()) / static_cast<double>(bpe.encode(lines).size());
  char number[16];
  std::snprintf(number, sizeof number, "%.2f", per_token);
  CHECK(contains(o.out, "tok.json: 400 tokens from my.txt"));
  CHECK(contains(o.out, std::string(number) + " bytes per token"));
  CHECK(f.read("tok.json") == to_json(bpe));

  CHECK(contains(f.run("tokenizer my.txt --out tok.json").err, "tok.json is there already: --force replaces it"));
  f.write("short.txt", "ab ab");
  CHECK(contains(f.run("tokenizer short.txt --vocab 300 --out tok.json --force").err, "259 tokens instead of 300"));
  CHECK(contains(f.run("tokenizer my.txt --vocab 255 --out t.json").err, "--vocab 255 is outside the range"));
  CHECK(contains(f.run("tokenizer my.txt").err, "--out is missing"));
  CHECK(contains(f.run("tokenizer none.txt --out t.json").err, "cannot read none.txt"));
  CHECK(contains(f.run("tokenizer my.txt --out none/t.json").err, "cannot write none/t.json"));
}

TEST_CASE("GPT-2 tokenizes tiny Shakespeare as tiktoken does", "[bpe]") {
  const std::string encoder = shared_file("gpt2/encoder.json"), text = shared_file("tinyshakespeare.txt");
  if (encoder.empty() || text.empty()) return skip_test("no gpt2/encoder.json and tinyshakespeare.txt");
  const Bpe gpt2 = read_bpe(encoder);
  const std::vector<uint32_t> tokens = gpt2.encode(read_file(text));
  uint64_t hash = 0;
  for (const uint32_t token : tokens) {
    hash = (hash ^ token) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  CHECK(gpt2.vocabulary() == 50257);
  CHECK(tokens.size() == 338025);
  CHECK(hash == 0xbfe520071eb814b5ull);
  check_equal(gpt2, bpe_from_json(to_json(gpt2)));
}
