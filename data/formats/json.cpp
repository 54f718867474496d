#include "json.hpp"

#include <charconv>
#include <stdexcept>

#include "data/host/files.hpp"

using nlohmann::json;

json read_json(const std::string& path, size_t most) {
  const auto shallow = [](int depth, json::parse_event_t, json&) {
    if (depth > 32) throw std::runtime_error("its values are nested too deep");
    return true;
  };
  const std::string text = read_file(path, most);
  try {
    return json::parse(text, shallow);
  } catch (const json::parse_error& error) {
    throw std::runtime_error(path + " is not JSON: byte " + std::to_string(error.byte) + " is unexpected");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + " cannot be used: " + error.what());
  }
}

double shortest(float x) {
  char digits[32];
  double same = 0;
  std::from_chars(digits, std::to_chars(digits, digits + sizeof digits, x).ptr, same);
  return same;
}
