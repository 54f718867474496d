#include "json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/strings/utf8.hpp"
#include "files.hpp"

using nlohmann::json, nlohmann::ordered_json;

// nlohmann's parser has no limit on depth.
json parse_json(std::string_view text, int deepest, bool once) {
  std::vector<std::set<std::string>> keys(static_cast<size_t>(deepest) + 2);  // of the objects that are open, by depth
  try {
    return json::parse(text, [&](int depth, json::parse_event_t event, json& value) {
      if (depth > deepest) throw std::runtime_error("its values are nested too deep");
      if (!once) return true;
      const auto at = static_cast<size_t>(depth);
      if (event == json::parse_event_t::object_start) keys[at + 1].clear();
      if (event == json::parse_event_t::key && !keys[at].insert(value.get<std::string>()).second)
        throw std::runtime_error("it has " + in_quotes(value.get<std::string>()) + " twice");
      return true;
    });
  } catch (const json::parse_error& error) {
    throw std::runtime_error("it is not JSON: byte " + std::to_string(error.byte) + " is unexpected");
  } catch (const json::out_of_range&) {  // its only cause here
    throw std::runtime_error("it has a number too large for a double");
  }
}

json read_json(const std::string& path, size_t most) {
  const std::string text = read_file(path, most);
  return explained(path + " cannot be used: ", [&] { return parse_json(text); });
}

void for_each_json_line(std::string_view text, const std::string& name,
                        const std::function<void(const json& object, size_t number)>& use) {
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      const json value = parse_json(line, 32, true);
      if (!value.is_object()) throw std::runtime_error("it is not a JSON object");
      use(value, number);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(one_line(name) + ", line " + std::to_string(number) + ": " + one_line(error.what()));
    }
  }
}

std::optional<int64_t> integer_between(const json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;  // also true for unsigned numbers
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)) return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string to_text(const json& value, int indent) { return value.dump(indent); }
std::string to_text(const ordered_json& value, int indent) { return value.dump(indent); }

std::string to_ascii(const ordered_json& value) {
  return value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

double shortest(float x) {
  char digits[32] = "";
  std::to_chars(digits, digits + sizeof digits - 1, x);
  return std::strtod(digits, nullptr);  // libc++ 19 has no from_chars for floating-point numbers
}

json text_to_json(const std::string& text) {
  for (size_t i = 0; i < text.size();)
    if (!next_code_point(text, i)) return std::vector<unsigned char>(text.begin(), text.end());
  return text;
}

std::string text_from_json(const json& value) {
  if (value.is_string()) return value;
  if (!value.is_array()) return to_text(value);
  std::string bytes;
  for (const json& byte : value) {
    const auto number = integer_between(byte, 0, 255);
    if (!number) throw std::invalid_argument("a text has a byte outside 0 to 255");
    bytes += static_cast<char>(*number);
  }
  return bytes;
}
