// Tokenizers in the shape of published ones, compared with Hugging Face's tokenizers (python_ref/tokenizer.py).

#include "data/tokenizer/pipeline/pipeline.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/bpe_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "data/tokenizer/pipeline/added_tokens.hpp"
#include "data/tokenizer/pipeline/decoder.hpp"
#include "data/tokenizer/pipeline/normalize.hpp"
#include "data/tokenizer/pipeline/regex.hpp"
#include "message.hpp"

using nlohmann::json;

namespace {

using Strings = std::vector<std::string>;

const json& published() {
  static const json file = parse_json(read_file("test/reference/tokenizer/published.json"));
  return file;
}

std::string file_of(const std::string& family) { return published()["families"][family]["file"]; }

// The words of a text, after these parts of a tokenizer.json.
Strings words_of(const json& pre_tokenizer, const std::string& text, const json& normalizer = nullptr) {
  Strings words;
  const Pipeline pipeline(normalizer, pre_tokenizer);
  pipeline.split(pipeline.normalized(text), true, [&](std::string_view word, bool) { words.emplace_back(word); });
  return words;
}

json split(const std::string& regex, const std::string& behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}

std::string normalized(const json& part, const std::string& text) { return Pipeline(part, nullptr).normalized(text); }

// The parts of a text with added tokens: texts as they are, tokens as "<7>".
Strings parts_of(const AddedTokens& added, const std::string& text, bool special = true) {
  Strings parts;
  added.split(
      text, special, [&](std::string_view part) { parts.emplace_back(part); },
      [&](uint32_t token) { parts.push_back("<" + std::to_string(token) + ">"); });
  return parts;
}

}  // namespace

TEST_CASE("tokenizers of each published family give the tokens of Hugging Face's", "[published]") {
  const std::string text = published()["text"];
  for (const auto& [name, family] : published()["families"].items()) {
    INFO(name);
    const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(family["file"].get<std::string>())).finding_special(true);
    size_t missing = 0;
    const std::vector<uint32_t> tokens = tokenizer.encode(text, Unknown::skip, &missing);
    CHECK(tokens == parse_json(family["tokens"].get<std::string>()).get<std::vector<uint32_t>>());
    if (missing == 0) CHECK(tokenizer.decode(tokens) == family["decoded"].get<std::string>());
    CHECK(to_json(*tokenizer.bpe()) == family["file"].get<std::string>());
    const Tokenizer stored = tokenizer_from_json(to_json(tokenizer));
    CHECK(stored.encode(text, Unknown::skip) == tokens);
  }
}

TEST_CASE("a pre-tokenizer splits as its behavior says", "[published]") {
  const std::string text = "a12b3";
  CHECK(words_of(split("\\d", "Isolated"), text) == Strings{"a", "1", "2", "b", "3"});
  CHECK(words_of(split("\\d", "Removed"), text) == Strings{"a", "b"});
  CHECK(words_of(split("\\d", "Contiguous"), text) == Strings{"a", "12", "b", "3"});
  CHECK(words_of(split("\\d", "MergedWithPrevious"), text) == Strings{"a1", "2", "b3"});
  CHECK(words_of(split("\\d", "MergedWithNext"), text) == Strings{"a", "1", "2b", "3"});
  CHECK(words_of(split("\\d", "Removed", true), text) == Strings{"1", "2", "3"});
  CHECK(words_of({{"type", "Split"}, {"pattern", {{"String", "."}}}, {"behavior", "Removed"}}, "a.b") ==
        Strings{"a", "b"});
  CHECK(words_of({{"type", "Digits"}, {"individual_digits", true}}, "x12") == Strings{"x", "1", "2"});
  CHECK(words_of({{"type", "Digits"}, {"individual_digits", false}}, "x12") == Strings{"x", "12"});
  CHECK(words_of({{"type", "Punctuation"}}, "a,+b") == Strings{"a", ",", "+", "b"});
  CHECK(words_of({{"type", "WhitespaceSplit"}}, " a\u3000b!") == Strings{"a", "b!"});
  CHECK(words_of({{"type", "Whitespace"}}, " a\u3000b!") == Strings{"a", "b", "!"});
}

TEST_CASE("a ByteLevel before other pre-tokenizers shows them characters", "[published]") {
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json digits = {{"type", "Digits"}, {"individual_digits", false}};
  const auto sequence = [](const json& parts) { return json{{"type", "Sequence"}, {"pretokenizers", parts}}; };
  // The last two bytes show as U+00BC and U+00B2, which are numbers.
  CHECK(words_of(sequence({bytes, digits}), "\u4f32") == Strings{"\xe4", "\xbc\xb2"});
  CHECK(words_of(sequence({digits, bytes}), "\u4f32") == Strings{"\u4f32"});
}

TEST_CASE("a Metaspace prepends one space: always, to the first word, or never", "[published]") {
  const auto meta = [](const char* scheme, bool splits) {
    return json{{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}, {"split", splits}};
  };
  CHECK(words_of(meta("always", true), "a b") == Strings{"_a", "_b"});
  CHECK(words_of(meta("never", true), "a b") == Strings{"a", "_b"});
  CHECK(words_of(meta("first", false), "a b") == Strings{"_a_b"});
  CHECK(words_of(meta("always", true), " a") == Strings{"_a"});
  Strings words;
  Pipeline(nullptr, meta("first", true)).split("a b", false, [&](std::string_view w, bool) { words.emplace_back(w); });
  CHECK(words == Strings{"a", "_b"});
}

TEST_CASE("normalizers change text", "[published]") {
  CHECK(normalized({{"type", "NFD"}}, "\u00e9") == "e\u0301");
  CHECK(normalized({{"type", "NFKC"}}, "\ufb01\u00bd") == "fi1\u20442");
  CHECK(normalized({{"type", "NFKD"}}, "\u00c5\ufb01") == "A\u030afi");
  CHECK(normalized({{"type", "Lowercase"}}, "\u00c9\u0130\u03a3") == "\u00e9i\u0307\u03c3");
  CHECK(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "\u2003 a ") == "a ");
  CHECK(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, " \u2003 ") == "");
  CHECK(normalized({{"type", "Prepend"}, {"prepend", "_"}}, "a") == "_a");
  CHECK(normalized({{"type", "Prepend"}, {"prepend", "_"}}, "") == "");
  CHECK(normalized({{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "!"}}, "a.b.") == "a!b!");
  CHECK(normalized({{"type", "Replace"}, {"pattern", {{"Regex", "x*"}}}, {"content", "-"}}, "axxb") == "-a-b-");
}

TEST_CASE("a regular expression of Oniguruma is read as it is there", "[published]") {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    std::string all;
    from_oniguruma(pattern).for_each(text, [&](Regex::Match m) { all += text.substr(m.begin, m.end - m.begin) + "|"; });
    return all;
  };
  CHECK(matches("\\s", "a\u180e\u0085 b") == "\u0085| |");
  CHECK(matches("[\\S]", "\u180e ") == "\u180e|");
  CHECK(matches("\\w+", "a_\u0301\u0663 \u00b2") == "a_\u0301\u0663|");
  CHECK(matches("[a[bc]d]+", "abcd]e") == "abcd|");
  CHECK(matches("[]a]+", "a]b") == "a]|");
  CHECK(matches("^b$", "a\nb\nc") == "b|");
  CHECK(matches("\\h+", "fg") == "f|");
  CHECK(matches("\\u0041", "A") == "A|");
  CHECK(matches("(?i:'s)", "'\u017f") == "'\u017f|");
  CHECK(message_of<UnsupportedPart>([] { from_oniguruma("(?m:.)"); }) ==
        "a regular expression with '(?m:' ('(?m:.)') is not supported");
}

TEST_CASE("added tokens are found in text, the longest first", "[published]") {
  const AddedTokens added({{1, "<a>"}, {2, "<a>b"}, {.token = 3, .text = "  ", .special = false}});
  CHECK(parts_of(added, "x<a>bc<a> ") == Strings{"x", "<2>", "c", "<1>", " "});
  CHECK(parts_of(added, "<a>   ", false) == Strings{"<a>", "<3>", " "});
  CHECK(parts_of(added, "<a") == Strings{"<a"});
  const AddedTokens strips(
      {{.token = 1, .text = "<l>", .left_strips = true}, {.token = 2, .text = "<r>", .right_strips = true}});
  CHECK(parts_of(strips, "a \u2003<l> b") == Strings{"a", "<1>", " b"});
  CHECK(parts_of(strips, "a <r>\n <l>b") == Strings{"a ", "<2>", "<1>", "b"});
  const AddedTokens word({{.token = 1, .text = "the", .single_word = true}});
  CHECK(parts_of(word, "the then (the) \u00e9the") == Strings{"<1>", " then (", "<1>", ") \u00e9the"});
}

TEST_CASE("names of special tokens are text unless they are looked for", "[published]") {
  const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(file_of("qwen2")));
  const auto end = static_cast<uint32_t>(tokenizer.special("<|endoftext|>"));
  CHECK(std::ranges::count(tokenizer.encode("a<|endoftext|>"), end) == 0);
  CHECK(std::ranges::count(tokenizer.finding_special(true).encode("a<|endoftext|>"), end) == 1);
  const std::vector<uint32_t> think = tokenizer.encode("<think>");  // an added token, but not special
  CHECK(think.size() == 1);
  CHECK(tokenizer.name_of_special(static_cast<int>(think[0])) == "");
  CHECK(tokenizer.note_on_special("x", "<|endoftext|>").ends_with("while other programs make one token of it"));
  CHECK(tokenizer.finding_special(true).note_on_special("x", "<|endoftext|>").ends_with(
      "it is read as that token; --special-tokens text reads it as ordinary text"));
}

TEST_CASE("bytes without a token are an error, or left out", "[published]") {
  const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(file_of("smollm")));
  size_t count = 0;
  CHECK(tokenizer.decode(tokenizer.encode("the \xff", Unknown::skip, &count)) == "the ");
  CHECK(count == 1);
  try {
    tokenizer.encode("the \xff");
    FAIL("no error");
  } catch (const NoToken& error) {
    CHECK(error.at == 4);
    CHECK(std::string(error.what()) == "byte 0xff has no token");
  }
}

TEST_CASE("bytes that are not UTF-8 come back through byte fallback", "[published]") {
  const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(file_of("gemma")));
  CHECK(tokenizer.decode(tokenizer.encode("the \xff\xe9 x")) == "the \xff\xe9 x");
}

TEST_CASE("a tokenizer.json keeps every byte but what is changed", "[published]") {
  const std::string file = file_of("llama2");
  const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(file));
  REQUIRE(tokenizer.begin() == 1);
  const std::string without = to_json(*tokenizer.without_begin().bpe());
  json expected = parse_json(file);
  expected["post_processor"] = nullptr;
  CHECK(parse_json(without) == expected);
  CHECK(without.size() < file.size());
  const Tokenizer more = tokenizer.with_special({"<pad>", "<x>"});
  CHECK(more.special("<x>") == tokenizer.vocabulary() + 1);
  const std::string with = to_json(*more.bpe());
  CHECK(with.starts_with(file.substr(0, file.find("added_tokens"))));
  CHECK(with.ends_with(file.substr(file.find("\"normalizer\""))));
  CHECK(tokenizer.without_begin().with_begin(1).begin() == 1);
}

TEST_CASE("RobertaProcessing names the tokens around a text", "[published]") {
  const Tokenizer tokenizer = Tokenizer::bpe(bpe_from_json(file_of("roberta")));
  CHECK(tokenizer.name_of_special(tokenizer.begin()) == "<s>");
  CHECK(tokenizer.name_of_special(tokenizer.end()) == "</s>");
}
