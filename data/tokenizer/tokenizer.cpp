#include "tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/bpe_json.hpp"

namespace {

std::string hexadecimal(const char* printf_format, uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, printf_format, number);
  return text;
}

// Calls with_point(code point, index of its first byte) for each code point of a text.
template <class Call>
void for_each_code_point(std::string_view text, const Call& with_point) {
  for (size_t at = 0; at < text.size();) {
    for (; at < text.size() && static_cast<unsigned char>(text[at]) < 0x80; ++at)  // most texts are mostly ASCII
      with_point(static_cast<unsigned char>(text[at]), at);
    if (at == text.size()) return;
    const size_t start = at;
    const std::optional<uint32_t> point = next_code_point(text, at);
    if (!point)
      throw NoToken(at, false, hexadecimal("0x%02x", static_cast<unsigned char>(text[at])) + " is not UTF-8");
    with_point(*point, start);
  }
}

// Cuts a text into pieces of at most `bytes` bytes that do not begin with a continuation byte of UTF-8.
std::vector<std::string_view> cut_between_characters(std::string_view text, size_t bytes) {
  std::vector<std::string_view> pieces;
  while (text.size() > bytes) {
    size_t end = bytes;
    for (int i = 0; i < 3 && end > 1 && (text[end] & 0xc0) == 0x80; ++i) --end;
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  pieces.push_back(text);
  return pieces;
}

}  // namespace

std::string unknown_character(uint32_t point) {
  return "character '" + utf8(point) + "' (" + hexadecimal("U+%04X", point) + ") is not in the model's vocabulary";
}

Tokenizer Tokenizer::bytes() { return {}; }

Tokenizer Tokenizer::characters(std::string_view text) {
  std::vector<char> seen(0x110000);
  const std::vector<std::string_view> pieces = cut_between_characters(text, 1 << 20);
  std::vector<std::optional<NoToken>> errors(pieces.size());
#pragma omp parallel if (pieces.size() > 1)
  {
    std::vector<char> own(seen.size());
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < pieces.size(); ++i) {
      try {
        for_each_code_point(pieces[i], [own = own.data()](uint32_t point, size_t) { own[point] = true; });
      } catch (const NoToken& error) {
        errors[i] = error.behind(static_cast<size_t>(pieces[i].data() - text.data()));
      }
    }
#pragma omp critical
    for (size_t point = 0; point < seen.size(); ++point) seen[point] |= own[point];
  }
  for (const auto& error : errors)
    if (error) throw *error;
  std::vector<uint32_t> points;
  for (uint32_t point = 0; point < seen.size(); ++point)
    if (seen[point]) points.push_back(point);
  return characters(std::move(points));
}

Tokenizer Tokenizer::characters(std::vector<uint32_t> code_points) {
  if (code_points.size() > 0xffff)
    throw std::runtime_error("the text has more than 65,535 different characters: use --tokenizer byte");
  Tokenizer tokenizer;
  tokenizer.kind_ = Kind::character;
  tokenizer.token_of_.assign(code_points.empty() ? 0 : code_points.back() + 1, -1);
  for (size_t token = 0; token < code_points.size(); ++token)
    tokenizer.token_of_[code_points[token]] = static_cast<int>(token);
  tokenizer.alphabet_ = std::move(code_points);
  return tokenizer;
}

Tokenizer Tokenizer::bpe(Bpe bpe) {
  Tokenizer tokenizer;
  tokenizer.kind_ = Kind::bpe;
  tokenizer.bpe_ = std::make_shared<const Bpe>(std::move(bpe));
  return tokenizer;
}

Tokenizer Tokenizer::pieces(Pieces pieces) {
  Tokenizer tokenizer;
  tokenizer.kind_ = Kind::pieces;
  tokenizer.pieces_ = std::make_shared<const Pieces>(std::move(pieces));
  return tokenizer;
}

Tokenizer Tokenizer::unread(Unread what) {
  Tokenizer tokenizer;
  tokenizer.kind_ = Kind::unread;
  tokenizer.unread_ = std::make_shared<const Unread>(std::move(what));
  return tokenizer;
}

void Tokenizer::require_text() const {
  if (unread_) throw std::runtime_error(unread_->why + ": this model reads token files only, no text");
}

int Tokenizer::vocabulary() const {
  if (unread_) return unread_->vocabulary;
  if (kind_ == Kind::bpe) return bpe_->vocabulary();
  return without_special() + static_cast<int>(added_.size());
}

int Tokenizer::without_special() const {
  if (pieces_) return pieces_->vocabulary();
  return kind_ == Kind::byte ? 256 : static_cast<int>(alphabet_.size());
}

int Tokenizer::token_of(uint32_t point) const {
  if (unread_) return -1;
  if (kind_ == Kind::pieces) return point < 128 ? static_cast<int>(pieces_->token_of_byte(point)) : -1;
  if (kind_ == Kind::bpe) return point < 128 ? static_cast<int>(bpe_->token_of_byte(point)) : -1;
  if (kind_ == Kind::byte) return point < 256 ? static_cast<int>(point) : -1;
  return token_of_character(point);
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text, Unknown unknown, size_t* count) const {
  if (kind_ == Kind::bpe) return bpe_->encode(text, unknown, count, finds_special_);
  if (kind_ == Kind::pieces) return pieces_->encode(text);
  if (!text.empty()) require_text();
  if (kind_ == Kind::byte) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }
  std::vector<uint32_t> tokens(text.size());
  uint32_t* next = tokens.data();
  const int instead = unknown == Unknown::replace ? replacement() : -1;
  for_each_code_point(text, [&](uint32_t point, size_t at) {
    int token = token_of_character(point);
    if (token < 0) {
      if (unknown == Unknown::error) throw NoToken(at, true, unknown_character(point));
      if (count) ++*count;
      token = instead;
    }
    if (token >= 0) *next++ = static_cast<uint32_t>(token);
  });
  tokens.resize(static_cast<size_t>(next - tokens.data()));
  return tokens;
}

int Tokenizer::replacement() const { return token_of(0xfffd) >= 0 ? token_of(0xfffd) : token_of('?'); }

std::string Tokenizer::done_with(Unknown unknown) const {
  if (unknown == Unknown::skip) return "skipped";
  const bool replaces = bpe_ ? bpe_->has_replacement() : replacement() >= 0;
  return replaces ? "replaced" : "skipped, because the replacements U+FFFD and '?' are not in it either";
}

std::vector<std::string_view> Tokenizer::cut(std::string_view text, size_t bytes) const {
  if (kind_ == Kind::bpe) return bpe_->cut(text, bytes);
  if (kind_ == Kind::pieces) return pieces_->cut(text, bytes);
  return cut_between_characters(text, bytes);
}

std::string Tokenizer::decode(int token) const {
  if (token < 0 || token >= vocabulary() || unread_) return "";
  if (kind_ == Kind::bpe) return bpe_->bytes_of(static_cast<uint32_t>(token));
  if (token >= without_special()) return added_[token - without_special()];
  if (kind_ == Kind::pieces) return pieces_->bytes_of(static_cast<uint32_t>(token));
  return kind_ == Kind::byte ? std::string(1, static_cast<char>(token)) : utf8(alphabet_[token]);
}

int Tokenizer::begin() const {
  if (pieces_) return pieces_->tables().begin;
  if (bpe_) return bpe_->tables().begin;
  return begins_ ? without_special() : -1;
}

// Most files do not say which special token ends a text, so look for Llama 3's by its name.
int Tokenizer::end() const {
  if (pieces_) return pieces_->tables().end;
  if (bpe_ && bpe_->tables().end >= 0) return bpe_->tables().end;
  if (bpe_ && bpe_->tables().begin >= 0)
    for (const char* name : {"<|end_of_text|>", "<|endoftext|>", "</s>"})
      for (const SpecialToken& token : bpe_->tables().special)
        if (token.name == name) return static_cast<int>(token.token);
  return -1;
}

bool Tokenizer::prefixes_space() const {
  return (pieces_ && pieces_->tables().dummy_prefix) || (bpe_ && bpe_->prefixes_space());
}

Tokenizer Tokenizer::without_begin() const { return with_begin(-1); }

Tokenizer Tokenizer::with_begin(int token) const {
  if (begin() == token) return *this;
  if (kind_ == Kind::pieces) {
    PieceTables tables = pieces_->tables();
    tables.begin = token;
    return pieces(Pieces(std::move(tables))).with_special(added_);
  }
  if (kind_ == Kind::bpe) {
    const SpecialToken special{static_cast<uint32_t>(token), name_of_special(token)};
    if (bpe_->tables().json)
      return with_json(json_with_around(bpe_->tables().json->text, token < 0 ? nullptr : &special));
    BpeTables tables = bpe_->tables();
    tables.begin = token;
    return bpe(Bpe(std::move(tables)));
  }
  Tokenizer other = *this;
  other.begins_ = token >= 0;
  return other;
}

// Returns the tokenizer of a changed tokenizer.json.
Tokenizer Tokenizer::with_json(const std::string& text) const {
  return bpe(bpe_from_json(text)).finding_special(finds_special_);
}

Tokenizer Tokenizer::finding_special(std::optional<bool> find) const {
  Tokenizer other = *this;
  other.finds_special_ = find.value_or(finds_special_) && bpe_ && bpe_->tables().json;
  return other;
}

Tokenizer Tokenizer::with_special(const std::vector<std::string>& names) const {
  std::vector<std::string> added = names;
  std::erase(added, "");
  if (added.empty()) return *this;
  require_text();
  if (bpe_) {
    BpeTables tables = bpe_->tables();
    std::vector<SpecialToken> rows;
    for (const std::string& name : added) {
      rows.push_back({static_cast<uint32_t>(tables.tokens.size()), name});
      tables.tokens.push_back(name);
    }
    if (tables.json) return with_json(json_with_special(*tables.json, rows));
    tables.special.insert(tables.special.end(), rows.begin(), rows.end());
    return bpe(Bpe(std::move(tables)));
  }
  Tokenizer more = *this;
  more.added_.insert(more.added_.end(), added.begin(), added.end());
  return more;
}

std::string Tokenizer::separator() const {
  if (begin() >= 0) return name_of_special(begin());
  const std::vector<std::string> names = special_names();
  return std::find(names.begin(), names.end(), kEndOfText) == names.end() ? "" : kEndOfText;
}

DocumentTokens Tokenizer::around(const std::string& separator) const {
  const int token = special(separator);
  return {token, token >= 0 && token == begin() && end() >= 0 ? end() : token};
}

int Tokenizer::special(const std::string& name) const {
  if (name.empty()) return -1;
  if (const auto at = std::find(added_.begin(), added_.end(), name); at != added_.end())
    return without_special() + static_cast<int>(at - added_.begin());
  if (bpe_)
    for (const SpecialToken& token : bpe_->tables().special)
      if (token.name == name) return static_cast<int>(token.token);
  if (pieces_)
    for (int token = 0; token < without_special(); ++token)
      if (const Piece& piece = pieces_->tables().pieces[token]; piece.type == PieceType::control && piece.text == name)
        return token;
  throw std::runtime_error("the tokenizer has no special token " + name);
}

std::string Tokenizer::name_of_special(int token) const {
  const int first_added = without_special();
  if (!added_.empty() && token >= first_added) return token < vocabulary() ? added_[token - first_added] : "";
  if (bpe_)
    for (const SpecialToken& special : bpe_->tables().special)
      if (static_cast<int>(special.token) == token) return special.name;
  const bool listed = pieces_ && token >= 0 && token < first_added;
  if (listed && pieces_->tables().pieces[token].type == PieceType::control) return pieces_->tables().pieces[token].text;
  return "";
}

std::vector<std::string> Tokenizer::special_names() const {
  std::vector<std::string> names = added_;
  if (bpe_)
    for (const SpecialToken& special : bpe_->tables().special) names.push_back(special.name);
  if (pieces_)
    for (const Piece& piece : pieces_->tables().pieces)
      if (piece.type == PieceType::control || piece.type == PieceType::unknown) names.push_back(piece.text);
  std::erase(names, "");
  return names;
}

std::string Tokenizer::note_on_special(const std::string& what, std::string_view text) const {
  const std::vector<std::string> names = special_names();
  const auto name_at = [&](size_t at) {
    return std::find_if(names.begin(), names.end(), [&](const auto& n) { return text.substr(at).starts_with(n); });
  };
  std::string starts, first;
  for (const std::string& name : names)
    if (starts.find(name[0]) == starts.npos) starts += name[0];
  size_t times = 0;
  for (const char start : starts)
    for (size_t at = text.find(start); at != text.npos; at = text.find(start, at + 1)) {
      const auto name = name_at(at);
      if (name == names.end()) continue;
      if (times++ == 0) first = *name;
    }
  if (times == 0) return "";
  const std::string note = what + " has the name of a special token " + std::to_string(times) +
                           (times == 1 ? " time" : " times") + " (" + one_line(first) + "): ";
  if (finds_special_) return note + "it is read as that token; --special-tokens text reads it as ordinary text";
  return note + "it is read as ordinary text, while other programs make one token of it";
}

std::string Tokenizer::decode(const std::vector<uint32_t>& tokens) const {
  if (kind_ == Kind::pieces) {
    const auto is_added = [&](uint32_t token) { return static_cast<int>(token) >= without_special(); };
    const auto first = std::find_if(tokens.begin(), tokens.end(), is_added);
    std::string text = pieces_->decode({tokens.begin(), first});
    std::for_each(first, tokens.end(), [&](uint32_t token) { text += decode(static_cast<int>(token)); });
    return text;
  }
  std::string text;
  for (const uint32_t token : tokens) text += decode(static_cast<int>(token));
  const int spaces = bpe_ && bpe_->tables().json ? bpe_->tables().json->stripped : 0;
  for (int i = 0; i < spaces && text.starts_with(' '); ++i) text.erase(0, 1);
  return text;
}

std::vector<std::string> Tokenizer::texts() const {
  std::vector<std::string> texts(unread_ ? 0 : static_cast<size_t>(vocabulary()));
  for (size_t token = 0; token < texts.size(); ++token) texts[token] = decode(static_cast<int>(token));
  if (bpe_)
    for (const SpecialToken& special : bpe_->tables().special) texts[special.token] = special.name;
  for (size_t token = 0; pieces_ && token < pieces_->tables().pieces.size(); ++token) {
    const Piece& piece = pieces_->tables().pieces[token];
    if (piece.type == PieceType::control || piece.type == PieceType::unknown) texts[token] = piece.text;
  }
  return texts;
}

int first_other_token(const Tokenizer& a, const Tokenizer& b) {
  if (a.unread() || b.unread()) return -1;
  const std::vector<std::string> in_a = a.texts(), in_b = b.texts();
  const auto [differs, there] = std::ranges::mismatch(in_a, in_b);
  const bool ends = differs == in_a.end() || there == in_b.end();
  const int at = static_cast<int>(differs - in_a.begin());
  if (!ends) return at;
  const std::vector<std::string>& more = in_a.size() > in_b.size() ? in_a : in_b;
  const std::vector<std::string> special = (in_a.size() > in_b.size() ? a : b).special_names();
  const auto is_special = [&](const std::string& text) { return std::ranges::find(special, text) != special.end(); };
  const auto other = std::find_if_not(more.begin() + at, more.end(), is_special);
  return other == more.end() ? -1 : static_cast<int>(other - more.begin());
}
