#include "bpe.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "data/tokenizer/pipeline/decoder.hpp"
#include "data/tokenizer/pipeline/normalize.hpp"

namespace {

constexpr size_t kPiece = 1 << 18;  // a thread encodes this many bytes at a time
constexpr size_t kShort = 48;       // up to this many symbols, scanning all pairs is faster than a queue

constexpr uint32_t kSpaceCharacter = 0x2581;           // a space in SentencePiece's vocabularies
constexpr std::string_view kSpaceBytes = "\u2581", kReplacement = "\ufffd";

// Returns the end of the piece that begins at `start`: the next U+2581 after another character.
size_t end_of_piece(std::string_view text, size_t start) {
  size_t at = text.find(kSpaceBytes, start + 1);
  while (at != text.npos && text.substr(0, at).ends_with(kSpaceBytes)) at = text.find(kSpaceBytes, at + 1);
  return std::min(at, text.size());
}

// Thrown for a character or a byte without a token.
struct NoSymbol {
  std::string character;
};

std::string message_of(const NoSymbol& missing) {
  size_t end = 0;
  if (const auto point = next_code_point(missing.character, end)) return unknown_character(*point);
  char text[64];
  std::snprintf(text, sizeof text, "byte 0x%02x has no token", static_cast<unsigned char>(missing.character[0]));
  return text;
}

}  // namespace

Bpe::Bpe(BpeTables tables) : tables_(std::move(tables)) {
  add_words();
  const auto missing = std::find(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent) - token_of_byte_;
  has_all_bytes_ = missing == 256;
  if (!has_all_bytes_ && !tables_.json)
    throw std::runtime_error("it has no token for byte " + std::to_string(missing));
  rank_of_ = PairTable(tables_.merges.size());
  std::unordered_map<uint32_t, uint32_t> first_rank;  // of each token
  for (uint32_t i = 0; i < tables_.merges.size(); ++i) {
    const auto& [left, right, token] = tables_.merges[i];
    rank_of_.set(left, right, tables_.equal_ranks ? first_rank.try_emplace(token, i).first->second : i);
  }
}

// Notes what the model reads for each token.
void Bpe::add_words() {
  std::fill(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent);
  std::fill(std::begin(fallback_), std::end(fallback_), kAbsent);
  const std::vector<std::string>& words = tables_.json ? tables_.json->words : tables_.tokens;
  bool space_inside = false;
  for (uint32_t t = words.size(); t-- > 0;) {
    const std::string& word = words[t];
    size_t end = 0;
    if (word.size() == 1) token_of_byte_[static_cast<unsigned char>(word[0])] = t;
    if (!tables_.json) continue;
    if (const int byte = byte_named(word); byte >= 0) fallback_[byte] = t;
    if (const auto point = next_code_point(word, end); point && end == word.size()) token_of_character_[*point] = t;
    space_inside = space_inside || end_of_piece(word, 0) < word.size();
  }
  const bool merges = tables_.json && !tables_.json->word_model;
  const bool whole_texts = merges && !tables_.json->pipeline.splits() && !tables_.words_first;
  spaces_begin_words_ = whole_texts && !space_inside && token_of_character_.contains(kSpaceCharacter);
  if (!tables_.words_first) return;
  for (uint32_t t = 0; t < words.size(); ++t) sorted_.emplace_back(words[t], t);
  if (!tables_.json)
    for (const SpecialToken& special : tables_.special) sorted_[special.token].first = "";
  std::sort(sorted_.begin(), sorted_.end());
}

void Bpe::merge_short(std::vector<uint32_t>& word) const {
  std::array<uint32_t, kShort> ranks;
  size_t n = word.size();
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_of_(word[i], word[i + 1]);
  while (n > 1) {
    const size_t best = std::min_element(ranks.begin(), ranks.begin() + n - 1) - ranks.begin();
    if (ranks[best] == kAbsent) break;
    word[best] = tables_.merges[ranks[best]].token;
    std::copy(word.begin() + best + 2, word.begin() + n, word.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + n - 1, ranks.begin() + best);
    --n;
    if (best > 0) ranks[best - 1] = rank_of_(word[best - 1], word[best]);
    if (best + 1 < n) ranks[best] = rank_of_(word[best], word[best + 1]);
  }
  word.resize(n);
}

void Bpe::merge(std::vector<uint32_t>& word) const {
  if (word.size() <= kShort) return merge_short(word);
  merge_pairs(word, [this](uint32_t left, uint32_t right) {
    const uint32_t rank = rank_of_(left, right);
    return rank == kAbsent ? PairMerge() : PairMerge{rank, tables_.merges[rank].token};
  });
}

uint32_t Bpe::symbol_of(std::string_view character) const {
  if (reads_bytes()) return token_of_byte_[static_cast<unsigned char>(character[0])];
  size_t end = 0;
  const std::optional<uint32_t> point = next_code_point(character, end);
  const auto found = point ? token_of_character_.find(*point) : token_of_character_.end();
  return found == token_of_character_.end() ? kAbsent : found->second;
}

// Appends the tokens of a character's bytes, and returns true, if all of them have one. If the model reads bytes, these
// are the bytes of the printable character that stands for the byte, as in `tokenizers`.
bool Bpe::fall_back(std::string_view character, std::vector<uint32_t>& tokens) const {
  if (!tables_.json->byte_fallback) return false;
  const std::string bytes = reads_bytes() ? printable(character) : std::string(character);
  const size_t before = tokens.size();
  for (const char byte : bytes) {
    const uint32_t token = fallback_[static_cast<unsigned char>(byte)];
    if (token != kAbsent) tokens.push_back(token);
  }
  if (tokens.size() == before + bytes.size()) return true;
  tokens.resize(before);
  return false;
}

// Does with a character or a byte without a token what `unknown` says. Returns 1.
size_t Bpe::add_unknown(std::string_view character, Unknown unknown, std::vector<uint32_t>& tokens) const {
  if (unknown == Unknown::error) throw NoSymbol{std::string(character)};
  const uint32_t mark = replacement();
  if (unknown == Unknown::replace && character != "?" && mark != kAbsent) tokens.push_back(mark);
  return 1;
}

uint32_t Bpe::replacement() const {
  const bool known = symbol_of(kReplacement) != kAbsent && !reads_bytes();
  return symbol_of(known ? kReplacement : "?");
}

bool Bpe::has_replacement() const { return replacement() != kAbsent; }

// Appends the symbols that the word starts as. Returns how many characters have no token. As in `tokenizers`, the
// unknown token waits for the next character that has a token of its own, even if a fallback comes before that.
size_t Bpe::add_symbols(std::string_view word, Unknown unknown, std::vector<uint32_t>& tokens) const {
  const JsonParts& json = *tables_.json;
  size_t missing = 0, waiting = 0;  // waiting: unknown tokens
  const auto write_waiting = [&] {
    for (; waiting > 0; --waiting) tokens.push_back(static_cast<uint32_t>(json.unknown));
  };
  for (size_t at = 0; at < word.size();) {
    size_t end = at;
    const bool is_byte = reads_bytes() || !next_code_point(word, end);
    const std::string_view character = word.substr(at, is_byte ? 1 : end - at);
    at += character.size();
    const bool is_text = reads_bytes() || !is_byte;  // else not UTF-8
    if (const uint32_t token = symbol_of(character); is_text && token != kAbsent) {
      write_waiting();
      tokens.push_back(token);
    } else if (fall_back(character, tokens)) {
    } else if (json.unknown >= 0 && is_text) {
      if (!json.fuse_unknown) write_waiting();
      waiting = 1;
    } else {
      missing += add_unknown(character, unknown, tokens);
    }
  }
  write_waiting();
  return missing;
}

// Appends the tokens that the word model finds. Returns how many characters have no token.
size_t Bpe::add_parts(std::string_view word, bool special, Unknown unknown, std::vector<uint32_t>& tokens) const {
  size_t missing = 0;
  for (const auto& [begin, end, token] : tables_.json->word_model->split(word, special)) {
    const std::string_view part = word.substr(begin, end - begin);
    size_t at = 0;
    const bool is_text = next_code_point(part, at).has_value();  // no word has text and other bytes
    if (token != kAbsent) tokens.push_back(token);
    else if (fall_back(part, tokens)) {
    } else if (tables_.json->unknown >= 0 && is_text) {
      tokens.push_back(static_cast<uint32_t>(tables_.json->unknown));
    } else {
      for (at = 0; at < part.size();) {
        const size_t start = at;
        if (!next_code_point(part, at)) ++at;
        missing += add_unknown(part.substr(start, at - start), unknown, tokens);
      }
    }
  }
  return missing;
}

// Returns how many characters have no token.
size_t Bpe::encode_word(std::string_view word, bool special, Unknown unknown, std::vector<uint32_t>& tokens) const {
  tokens.clear();
  if (tables_.json && tables_.json->word_model) return add_parts(word, special, unknown, tokens);
  if (tables_.words_first) {
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(word, uint32_t{0}));
    if (found != sorted_.end() && found->first == word) {
      tokens.push_back(found->second);
      return 0;
    }
  }
  size_t missing = 0;
  if (has_all_bytes_ && reads_bytes())
    for (const char byte : word) tokens.push_back(token_of_byte_[static_cast<unsigned char>(byte)]);
  else missing = add_symbols(word, unknown, tokens);
  merge(tokens);
  return missing;
}

// A cache of recent short words and their tokens. It grows with the text, because to clear a large one for each short
// text takes longer than to encode them.
class Bpe::Words {
 public:
  Words(const Bpe& bpe, bool special, Unknown unknown, size_t bytes)
      : bpe_(bpe), special_(special), unknown_(unknown),
        entries_(std::bit_ceil(std::clamp(bytes / kWordBytes, size_t{1}, kMostEntries))) {}

  size_t missing() const { return missing_; }  // characters without a token so far

  void append(std::string_view word, std::vector<uint32_t>& tokens) {
    if (word.size() > sizeof(Entry::word)) return append_new(word, tokens);
    Entry key{};
    std::memcpy(key.word, word.data(), word.size());
    Entry& entry = entries_[(hash_bits(key.word[0]) ^ hash_bits(key.word[1] + word.size())) & (entries_.size() - 1)];
    if (entry.bytes != word.size() || entry.word[0] != key.word[0] || entry.word[1] != key.word[1]) {
      const size_t before = missing_;
      append_new(word, tokens);
      if (tokens_.size() > kTokens || missing_ > before) return;
      key.bytes = static_cast<uint32_t>(word.size());
      key.count = static_cast<uint32_t>(tokens_.size());
      std::copy(tokens_.begin(), tokens_.end(), key.tokens);
      entry = key;
      return;
    }
    tokens.insert(tokens.end(), entry.tokens, entry.tokens + entry.count);
  }

 private:
  static constexpr size_t kTokens = 10, kWordBytes = 4, kMostEntries = 1 << 14;
  struct Entry {
    uint64_t word[2] = {};  // its bytes, padded with zeros
    uint32_t bytes = 0, count = 0;
    uint32_t tokens[kTokens] = {};
  };

  void append_new(std::string_view word, std::vector<uint32_t>& tokens) {
    missing_ += bpe_.encode_word(word, special_, unknown_, tokens_);
    tokens.insert(tokens.end(), tokens_.begin(), tokens_.end());
  }

  const Bpe& bpe_;
  const bool special_;
  const Unknown unknown_;
  size_t missing_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> tokens_;
};

// A part of a text that one thread encodes, or an added token.
struct Bpe::Part {
  std::string_view text;
  uint32_t token = kAbsent;
  bool begins = false;   // it is the beginning of the whole text
  bool special = false;  // special tokens are found in it
};

// Cuts the text at its added tokens, and before ASCII characters, so that neither words nor normal forms depend on the
// previous part.
std::vector<Bpe::Part> Bpe::parts_of(std::string_view text, bool special) const {
  std::vector<Part> parts;
  const auto add_text = [&](std::string_view part) {
    if (!has_split()) return parts.push_back({part, kAbsent, part.data() == text.data(), special});
    for (const std::string_view piece : cut_between_words(tables_.split, part, kPiece)) parts.push_back({piece});
  };
  if (!tables_.json) add_text(text);
  else
    tables_.json->first_added.split(text, special, add_text,
                                    [&](uint32_t token) { parts.push_back({"", token}); });
  return parts;
}

void Bpe::encode_part(const Part& part, Words& words, std::vector<uint32_t>& tokens) const {
  const auto append = [&](std::string_view word) { words.append(word, tokens); };
  if (part.token != kAbsent) return tokens.push_back(part.token);
  if (has_split()) {
    const std::string normal = tables_.nfc ? nfc(part.text) : "";
    return split_words(tables_.split, tables_.nfc ? normal : part.text, append);
  }
  const JsonParts& json = *tables_.json;
  const auto append_piece = [&](std::string_view word, bool) {
    for (size_t start = 0, end; start < word.size(); start = end) {
      end = spaces_begin_words_ ? end_of_piece(word, start) : word.size();
      append(word.substr(start, end - start));
    }
  };
  const auto append_run = [&](std::string_view run) {
    const std::string changed = json.pipeline.normalizes() ? json.pipeline.normalized(run) : "";
    const std::string_view normal = json.pipeline.normalizes() ? changed : run;
    json.added.split(
        normal, part.special,
        [&](std::string_view text) {
          const bool begins = part.begins && run.data() == part.text.data() && text.data() == normal.data();
          json.pipeline.split(text, begins, append_piece);
        },
        [&](uint32_t token) { tokens.push_back(token); });
  };
  for_each_run(part.text, append_run, append);
}

std::vector<uint32_t> Bpe::encode(std::string_view text, Unknown unknown, size_t* count, bool special) const {
  const std::vector<Part> parts = parts_of(text, special);
  std::vector<std::vector<uint32_t>> found(parts.size());
  std::vector<std::exception_ptr> errors(parts.size());  // no exception may leave a parallel loop
  size_t missing = 0;
#pragma omp parallel if (parts.size() > 1 && text.size() > kPiece) reduction(+ : missing)
  {
    Words words(*this, special, unknown, text.size());
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < parts.size(); ++i) try {
        found[i].reserve(parts[i].text.size() / 3);
        encode_part(parts[i], words, found[i]);
      } catch (const NoSymbol& symbol) {
        const size_t in_text = static_cast<size_t>(parts[i].text.data() - text.data());
        const size_t in_part = parts[i].text.find(symbol.character);  // unless it came by normalization
        errors[i] = std::make_exception_ptr(
            NoToken(in_text + (in_part == text.npos ? 0 : in_part), true, message_of(symbol)));
      } catch (...) {
        errors[i] = std::current_exception();
      }
    missing += words.missing();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (count) *count += missing;
  if (found.size() == 1) return std::move(found[0]);
  size_t total = 0;
  for (const auto& part : found) total += part.size();
  std::vector<uint32_t> tokens;
  tokens.reserve(total);
  for (auto& part : found) {
    tokens.insert(tokens.end(), part.begin(), part.end());
    part = {};
  }
  return tokens;
}

// Added tokens may have spaces, or take those next to them, so that a cut would change them.
std::vector<std::string_view> Bpe::cut(std::string_view text, size_t bytes) const {
  const bool added = tables_.json && !tables_.json->first_added.empty();
  const auto crosses = [](const AddedToken& t) {
    return t.left_strips || t.right_strips || t.single_word ||
           std::any_of(t.text.begin(), t.text.end(), [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  };
  if (has_split() && !(added && std::ranges::any_of(tables_.json->first_added.all(), crosses)))
    return cut_between_words(tables_.split, text, bytes);
  return {text};
}
