#include "pipeline.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "bert.hpp"
#include "byte_alphabet.hpp"
#include "chars_map.hpp"
#include "data/files/json.hpp"
#include "data/strings/base64.hpp"
#include "data/strings/utf8.hpp"
#include "json_parts.hpp"
#include "normalize.hpp"
#include "regex.hpp"
#include "split.hpp"

using nlohmann::json;

namespace {

// ---- normalizers -----------------------------------------------------------------------------------------

template <NormalForm form>
Pipeline::Normalizer normal(const json&) {
  return [](const std::string& text) { return normal_form(text, form); };
}

Pipeline::Normalizer lowercase(const json&) { return lower_case; }

Pipeline::Normalizer strip_accents(const json&) { return without_marks; }

Pipeline::Normalizer nmt(const json&) { return nmt_cleaned; }

Pipeline::Normalizer bert(const json& part) {
  const bool lowers_case = flag_of(part, "lowercase", true);
  return BertNormalizer{.cleans = flag_of(part, "clean_text", true),
                        .splits_cjk = flag_of(part, "handle_chinese_chars", true),
                        .strips_accents = flag_of(part, "strip_accents", lowers_case),
                        .lowers_case = lowers_case};
}

Pipeline::Normalizer precompiled(const json& part) {
  auto bytes = from_base64(text_of(member(part, "precompiled_charsmap"), "the precompiled_charsmap of a Precompiled"));
  if (!bytes) throw std::runtime_error("the precompiled_charsmap of a Precompiled is not base64");
  const auto rules = std::make_shared<const CharsMap>(*std::move(bytes));
  return [rules](const std::string& text) { return replaced_by_cluster(*rules, text); };
}

Pipeline::Normalizer strip(const json& part) {
  const bool left = flag_of(part, "strip_left", false), right = flag_of(part, "strip_right", false);
  return [left, right](const std::string& text) {
    size_t begin = 0, end = text.size();
    for (size_t at = 0; left && begin < end; begin = at)
      if (const auto point = next_code_point(text, at); !point || !is_white_space(*point)) break;
    for (size_t at = end; right && end > begin; end = at)
      if (const auto point = previous_code_point(text, at); !point || !is_white_space(*point)) break;
    return text.substr(begin, end - begin);
  };
}

Pipeline::Normalizer prepend(const json& part) {
  const std::string first = text_of(member(part, "prepend"), "the text of a Prepend");
  return [first](const std::string& text) { return text.empty() ? text : first + text; };
}

Pipeline::Normalizer replace(const json& part) {
  return [pattern = pattern_of(part), content = text_of(member(part, "content"), "the content of a Replace")](
             const std::string& text) { return replaced(text, pattern, content); };
}

struct NormalizerRow {
  const char* type;
  Pipeline::Normalizer (*make)(const json& part);
};
constexpr NormalizerRow kNormalizers[] = {
    {"NFC", normal<NormalForm::c>},   {"NFD", normal<NormalForm::d>}, {"NFKC", normal<NormalForm::kc>},
    {"NFKD", normal<NormalForm::kd>}, {"Lowercase", lowercase},       {"Strip", strip},
    {"Prepend", prepend},             {"Replace", replace},           {"StripAccents", strip_accents},
    {"Nmt", nmt},                     {"BertNormalizer", bert},       {"Precompiled", precompiled},
};

// ---- pre-tokenizers --------------------------------------------------------------------------------------

// A stretch of a word: a match of the pattern, or what is between two.
struct MatchedStretch {
  size_t begin, end;
  bool matches;
};
using Stretches = std::vector<MatchedStretch>;

Stretches stretches_of(std::string_view word, const Regex& pattern, bool invert) {
  Stretches all;
  size_t at = 0;
  pattern.for_each(word, [&](Regex::Match match) {
    if (at < match.begin) all.push_back({at, match.begin, invert});
    all.push_back({match.begin, match.end, !invert});
    at = match.end;
  });
  if (at < word.size()) all.push_back({at, word.size(), invert});
  return all;
}

// What becomes of the matches.
struct Behavior {
  const char *name, *old_name;  // as a tokenizer.json has it, and as old versions wrote it
  bool removes;
  // True if two neighbors are one word; null: never.
  bool (*joins)(const MatchedStretch& left, const MatchedStretch& right);
};
constexpr Behavior kBehaviors[] = {
    {"Isolated", "isolated", false, nullptr},
    {"Removed", "removed", true, nullptr},
    {"Contiguous", "contiguous", false, [](const auto& a, const auto& b) { return a.matches == b.matches; }},
    {"MergedWithPrevious", "merged_with_previous", false,
     [](const auto& a, const auto& b) { return !a.matches && b.matches; }},
    {"MergedWithNext", "merged_with_next", false, [](const auto& a, const auto& b) { return a.matches && !b.matches; }},
};

const Behavior& behavior_of(const json& part, const Behavior& otherwise) {
  const json& name = member(part, "behavior");
  if (name.is_null()) return otherwise;
  for (const Behavior& row : kBehaviors)
    if (name == row.name || name == row.old_name) return row;
  lack("the behavior of a " + description_of(part));
}

Pipeline::Splitter splitter(Regex pattern, const Behavior& behavior, bool invert = false) {
  return [pattern = std::move(pattern), &behavior, invert](std::string_view word, bool begins,
                                                           const Pipeline::Receiver& with_word) {
    const Stretches all = stretches_of(word, pattern, invert);
    for (size_t i = 0, first; i < all.size();) {
      for (first = i++; i < all.size() && behavior.joins && behavior.joins(all[i - 1], all[i]);) ++i;
      if (behavior.removes && all[first].matches) continue;
      const std::string_view part = word.substr(all[first].begin, all[i - 1].end - all[first].begin);
      if (!part.empty()) with_word(part, begins && all[first].begin == 0);
    }
  };
}

const Behavior &kIsolated = kBehaviors[0], &kRemoved = kBehaviors[1], &kContiguous = kBehaviors[2],
               &kMergedWithNext = kBehaviors[4];

Pipeline::Splitter split_by_pattern(const json& part) {
  if (member(part, "behavior").is_null()) throw std::runtime_error("a Split has no behavior");
  return splitter(pattern_of(part), behavior_of(part, kIsolated), flag_of(part, "invert", false));
}

Pipeline::Splitter digits(const json& part) {
  return splitter(Regex(R"(\p{N})"), flag_of(part, "individual_digits", false) ? kIsolated : kContiguous);
}

Pipeline::Splitter punctuation(const json& part) {
  return splitter(Regex(R"([\p{P}$+<=>^`|~])"), behavior_of(part, kIsolated));
}

// Here `tokenizers` uses Rust's regular expressions, in which joiners are part of a word.
Pipeline::Splitter whitespace(const json&) {
#define RUST_WORD WORD_CHARACTER R"(\x{200c}\x{200d})"
  return splitter(Regex("[" RUST_WORD "]++|[^" RUST_WORD WHITE_SPACE "]++"), kRemoved, true);
}

Pipeline::Splitter whitespace_split(const json&) { return splitter(Regex("[" WHITE_SPACE "]"), kRemoved); }

// Splits at white space, and makes each punctuation mark a word.
Pipeline::Splitter bert_words(const json& part) {
  return [words = whitespace_split(part), marks = punctuation(part)](std::string_view text, bool begins,
                                                                     const Pipeline::Receiver& with_word) {
    words(text, begins, [&](std::string_view word, bool b) { marks(word, b, with_word); });
  };
}

// Writes spaces as U+2581, puts one before the word, and splits there.
Pipeline::Splitter metaspace(const json& part) {
  const std::string space = text_of(member(part, "replacement"), "the replacement of a Metaspace");
  const json& named = member(part, "prepend_scheme");
  std::string scheme = named.is_null() ? "always" : text_of(named, "the prepend_scheme of a Metaspace");
  if (!flag_of(part, "add_prefix_space", true)) scheme = "never";
  if (scheme != "always" && scheme != "first" && scheme != "never") lack("the prepend_scheme of a Metaspace");
  if (space.empty()) throw std::runtime_error("the replacement of a Metaspace is empty");
  const Regex blank(" ");
  const Pipeline::Splitter split = splitter(from_text(space), kMergedWithNext);
  const bool splits = flag_of(part, "split", true);
  return [=](std::string_view word, bool begins, const Pipeline::Receiver& with_word) {
    std::string text = replaced(std::string(word), blank, space);
    if (!text.starts_with(space) && (scheme == "always" || (scheme == "first" && begins))) text.insert(0, space);
    splits ? split(text, begins, with_word) : with_word(text, begins);
  };
}

// The splitting of a ByteLevel. Its other half, which writes bytes as characters, follows as a step of its own if
// there are more pre-tokenizers; otherwise the model reads the bytes.
Pipeline::Splitter byte_level(const json& part) {
  const bool prefix = flag_of(part, "add_prefix_space", true), splits = flag_of(part, "use_regex", true);
  return [prefix, splits](std::string_view word, bool begins, const Pipeline::Receiver& with_word) {
    const std::string prefixed = prefix && !word.starts_with(' ') ? " " + std::string(word) : "";
    const std::string_view text = prefixed.empty() ? word : prefixed;
    if (!splits) return with_word(text, begins);
    split_words(Split::gpt2, text, [&](std::string_view w) { with_word(w, begins && w.data() == text.data()); });
  };
}

struct PreTokenizerRow {
  const char* type;
  Pipeline::Splitter (*make)(const json& part);
};
constexpr PreTokenizerRow kPreTokenizers[] = {
    {"ByteLevel", byte_level},   {"Digits", digits},       {"Punctuation", punctuation}, {"Split", split_by_pattern},
    {"Metaspace", metaspace},    {"Whitespace", whitespace}, {"WhitespaceSplit", whitespace_split},
    {"BertPreTokenizer", bert_words},
};

// Returns the row for a part, or refuses the part. `whole` is what the file has there.
template <class Row, size_t n>
const Row& row_of(const Row (&rows)[n], const json& part, const char* what, const json& whole) {
  const std::string type = type_of(part);
  for (const Row& row : rows)
    if (type == row.type) return row;
  const bool alone = member(whole, "type") == member(part, "type");
  lack("the " + std::string(what) + " " + type + (alone ? "" : " in " + description_of(whole)));
}

}  // namespace

Pipeline::Pipeline(const json& normalizer, const json& pre_tokenizer) {
  for (const json& part : parts_in(normalizer, "normalizer"))
    normalizers_.push_back(row_of(kNormalizers, part, "normalizer", normalizer).make(part));
  const auto as_characters = [](std::string_view word, bool begins, const Receiver& with_word) {
    with_word(printable(word), begins);
  };
  for (const json& part : parts_in(pre_tokenizer, "pre_tokenizer")) {
    const PreTokenizerRow& row = row_of(kPreTokenizers, part, "pre_tokenizer", pre_tokenizer);
    if (reads_bytes_) {
      if (row.make == byte_level) lack("a pre_tokenizer with two ByteLevel");
      if (!shows_bytes_) splitters_.push_back(as_characters);
      shows_bytes_ = true;
    }
    splitters_.push_back(row.make(part));
    reads_bytes_ = reads_bytes_ || row.make == byte_level;
  }
  if (shows_bytes_)
    splitters_.push_back([](std::string_view word, bool begins, const Receiver& with_word) {
      with_word(from_printable(word), begins);
    });
}

std::string Pipeline::normalized(std::string_view text) const {
  constexpr size_t kMostTimes = 64, kMostBytes = 1 << 16;  // a chain of Replace could fill the memory
  std::string result(text);
  for (const Normalizer& normalizer : normalizers_) {
    result = normalizer(result);
    if (result.size() > kMostTimes * text.size() + kMostBytes)
      throw std::runtime_error("the normalizer of the tokenizer makes a text more than 64 times as long");
  }
  return result;
}

void Pipeline::split(std::string_view text, bool begins, const Receiver& with_word) const {
  if (!text.empty()) split_from(0, text, begins, with_word);
}

void Pipeline::split_from(size_t step, std::string_view word, bool begins, const Receiver& with_word) const {
  if (step == splitters_.size()) return with_word(word, begins);
  splitters_[step](word, begins, [&](std::string_view w, bool b) { split_from(step + 1, w, b, with_word); });
}
