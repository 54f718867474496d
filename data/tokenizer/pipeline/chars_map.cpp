#include "chars_map.hpp"

#include <utf8proc.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "data/strings/utf8.hpp"

namespace {

// The fields of a unit. A unit with a replacement has kIsValue and the place of the replacement.
constexpr uint32_t kIsValue = 1u << 31, kHasValue = 1u << 8, kByte = 0xff;
constexpr uint32_t kNone = ~uint32_t{0};

uint32_t label_of(uint32_t unit) { return unit & (kIsValue | kByte); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("its precompiled_charsmap is damaged: " + why);
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();)
    if (!next_code_point(text, at)) return false;
  return true;
}

}  // namespace

CharsMap::CharsMap(std::string bytes) : bytes_(std::move(bytes)) {
  uint32_t size = 0;
  if (bytes_.size() >= sizeof size) std::memcpy(&size, bytes_.data(), sizeof size);
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > bytes_.size() - sizeof size) refuse("it has no tree");
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes_.data() + sizeof size, size);
  replacements_ = sizeof size + size;
  check();
}

// Returns the unit of a node's child, or kNone.
uint32_t CharsMap::child_of(uint32_t node, unsigned char byte) const {
  const uint32_t child = node ^ offset_of(units_[node]) ^ byte;
  return child < units_.size() && label_of(units_[child]) == byte ? child : kNone;
}

bool CharsMap::ends_rule(uint32_t node) const { return (units_[node] & kHasValue) != 0; }

// Expects a node that ends a rule.
std::string_view CharsMap::replacement_at(uint32_t node) const {
  const size_t start = replacements_ + (units_[node ^ offset_of(units_[node])] & ~kIsValue);
  return std::string_view(bytes_).substr(start, bytes_.find('\0', start) - start);
}

// Visits each node once. Nodes may share their children, but none may be below itself.
void CharsMap::check() {
  constexpr size_t kLongestRule = 64;  // bytes; also bounds the depth of the calls
  enum State : char { open, entered, done };
  std::vector<State> states(units_.size(), open);
  const auto check_rule = [&](uint32_t node) {
    const uint32_t value = node ^ offset_of(units_[node]);
    if (value >= units_.size()) refuse("a rule leaves the tree");
    const size_t start = replacements_ + (units_[value] & ~kIsValue);
    if (start >= bytes_.size() || bytes_.find('\0', start) == bytes_.npos) refuse("a replacement leaves the file");
    if (!is_utf8(replacement_at(node))) refuse("a replacement is not UTF-8");
  };
  const auto visit = [&](const auto& self, uint32_t node, size_t depth, bool after_space) -> void {
    if (states[node] == entered) refuse("its tree has a circle");
    if (depth > kLongestRule) refuse("a rule is too long");
    if (states[node] == done) return;
    states[node] = entered;
    if (ends_rule(node)) check_rule(node);
    for (uint32_t byte = 1; byte <= kByte; ++byte) {
      const uint32_t child = child_of(node, static_cast<unsigned char>(byte));
      if (child == kNone) continue;
      joins_spaces_ = joins_spaces_ || after_space || (byte == ' ' && depth > 0);
      self(self, child, depth + 1, byte == ' ');
    }
    states[node] = done;
  };
  visit(visit, 0, 0, false);
}

std::optional<CharsMap::Rule> CharsMap::longest_at(std::string_view text) const {
  std::optional<Rule> longest;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    node = child_of(node, static_cast<unsigned char>(text[i]));
    if (node == kNone) break;
    if (ends_rule(node)) longest = {i + 1, replacement_at(node)};
  }
  return longest;
}

std::optional<CharsMap::Rule> CharsMap::shortest_at(std::string_view text) const {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    node = child_of(node, static_cast<unsigned char>(text[i]));
    if (node == kNone) break;
    if (ends_rule(node)) return Rule{i + 1, replacement_at(node)};
  }
  return {};
}

namespace {

// Returns the end of the grapheme cluster that begins at `start`.
size_t end_of_cluster(std::string_view text, size_t start) {
  utf8proc_int32_t state = 0;
  size_t at = start;
  auto last = static_cast<utf8proc_int32_t>(next_code_point(text, at).value());
  while (at < text.size()) {
    size_t after = at;
    const auto next = static_cast<utf8proc_int32_t>(next_code_point(text, after).value());
    if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
    at = after;
    last = next;
  }
  return at;
}

}  // namespace

std::string replaced_by_cluster(const CharsMap& rules, std::string_view text) {
  constexpr size_t kLongestCluster = 5;  // bytes
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = end_of_cluster(text, at);
    const std::string_view cluster = text.substr(at, end - at);
    const auto whole = cluster.size() <= kLongestCluster ? rules.shortest_at(cluster) : std::nullopt;
    if (whole) {
      result += whole->replacement;
      continue;
    }
    for (size_t start = 0, next = 0; start < cluster.size(); start = next) {
      next_code_point(cluster, next);
      const std::string_view character = cluster.substr(start, next - start);
      const auto rule = rules.shortest_at(character);
      result += rule ? rule->replacement : character;
    }
  }
  return result;
}
