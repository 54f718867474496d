#include "decoder.hpp"

#include <algorithm>
#include <stdexcept>

#include "byte_alphabet.hpp"
#include "data/files/json.hpp"
#include "json_parts.hpp"
#include "regex.hpp"

using nlohmann::json;

int byte_named(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
  return high == kDigits.npos || low == kDigits.npos ? -1 : static_cast<int>(16 * high + low);
}

namespace {

Decoder::Effect decode_byte_level(const json&, bool) {
  return {.changes = [](const std::string& name) { return from_printable(name); }, .fuses = true};
}

Decoder::Effect decode_byte_fallback(const json&, bool) {
  return {.changes = [](const std::string& name) {
    const int byte = byte_named(name);
    return byte < 0 ? name : std::string(1, static_cast<char>(byte));
  }};
}

Decoder::Effect decode_replace(const json& part, bool) {
  return {.changes = [pattern = pattern_of(part),
                      content = text_of(member(part, "content"), "the content of a Replace")](
                         const std::string& name) { return replaced(name, pattern, content); }};
}

// Leaves out the space before a text, unless the pre-tokenizer put none there.
Decoder::Effect decode_metaspace(const json& part, bool) {
  const std::string space = text_of(member(part, "replacement"), "the replacement of a Metaspace");
  const bool never = member(part, "prepend_scheme") == "never" || !flag_of(part, "add_prefix_space", true);
  return {.changes = [pattern = from_text(space)](const std::string& name) { return replaced(name, pattern, " "); },
          .strips = never ? 0 : 1};
}

// Writes a space before each token that does not continue a word, but not before punctuation and English endings.
Decoder::Effect decode_word_piece(const json& part, bool) {
  constexpr std::pair<const char*, const char*> kCleaned[] = {
      {" .", "."},     {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  const std::string prefix = text_of(member(part, "prefix"), "the prefix of a WordPiece");
  std::vector<std::pair<Regex, std::string>> cleaned;
  if (flag_of(part, "cleanup", true))
    for (const auto& [from, to] : kCleaned) cleaned.emplace_back(from_text(from), to);
  return {.changes = [prefix, cleaned](const std::string& name) {
            std::string text = name.starts_with(prefix) ? name.substr(prefix.size()) : " " + name;
            for (const auto& [from, to] : cleaned) text = replaced(text, from, to);
            return text;
          },
          .strips = 1,
          .spaces = true};
}

Decoder::Effect decode_fuse(const json&, bool) { return {.fuses = true}; }

Decoder::Effect decode_strip(const json& part, bool fused) {
  const auto start = integer_between(member(part, "start"), 0, 1000);
  if (!fused || member(part, "content") != " " || member(part, "stop") != 0 || !start)
    lack("a decoder with a Strip that is not of spaces at the beginning of a text");
  return {.strips = static_cast<int>(*start)};
}

struct DecoderRow {
  const char* type;
  Decoder::Effect (*make)(const json& part, bool fused);
  bool of_texts = false;  // it may come after a Fuse
};
constexpr DecoderRow kDecoders[] = {
    {"ByteLevel", decode_byte_level},   {"ByteFallback", decode_byte_fallback},
    {"Replace", decode_replace},        {"Metaspace", decode_metaspace},
    {"Fuse", decode_fuse, true},        {"Strip", decode_strip, true},
    {"WordPiece", decode_word_piece},
};

}  // namespace

Decoder::Decoder(const json& decoder) {
  bool fused = false;
  for (const json& part : parts_in(decoder, "decoder")) {
    const json& type = member(part, "type");
    const auto row = std::ranges::find_if(kDecoders, [&](const DecoderRow& r) { return type == r.type; });
    if (row == std::end(kDecoders) || (fused && !row->of_texts)) lack("the decoder " + description_of(decoder));
    effects_.push_back(row->make(part, fused));
    fused = fused || effects_.back().fuses;
    stripped_ += effects_.back().strips;
    spaces_words_ = spaces_words_ || effects_.back().spaces;
  }
}

std::string Decoder::bytes_of(const std::string& name) const {
  constexpr size_t kLongest = 1 << 20;  // bytes
  std::string text = name;
  for (const Effect& effect : effects_) {
    if (effect.changes) text = effect.changes(text);
    if (text.size() > kLongest) throw std::runtime_error("its decoder makes a token too long");
    if (text.size() == 1 && (text[0] & 0x80)) break;  // a byte of ByteFallback alone is not UTF-8
  }
  return text;
}
