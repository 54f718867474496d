#include "reference.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "catch.hpp"

namespace fs = std::filesystem;

std::string Catch::StringMaker<nlohmann::json>::convert(const nlohmann::json& value) { return value.dump(); }

namespace {

// Found from this source file, so that tests can start in any folder.
fs::path folder(const std::string& layer) { return fs::path(__FILE__).parent_path() / "../reference" / layer; }

// A .npy file, format version 1: "\x93NUMPY", version, length of the header, the header, which is the text of
// a Python dictionary, and the elements.
template <class T>
std::vector<T> read_npy(const std::string& path, const char* type) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10 || bytes.compare(1, 5, "NUMPY") != 0)
    throw std::runtime_error(path + " is not a .npy file");
  const size_t data = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  const std::string header = bytes.substr(10, data - 10);
  if (header.find(std::string("'descr': '") + type + "'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error(path + " does not hold " + type + " in C order: " + header);
  size_t count = 1;
  for (const char* p = header.c_str() + header.find('(') + 1; *p != ')'; ++p)
    if (*p >= '0' && *p <= '9') {
      char* end;
      count *= std::strtoull(p, &end, 10);
      p = end - 1;
    }
  if (bytes.size() != data + count * sizeof(T))
    throw std::runtime_error(path + " has not the size its header says");
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data() + data, count * sizeof(T));
  return values;
}

double look_up(const std::map<std::string, double>& map, const std::string& key, const std::string& path) {
  const auto entry = map.find(key);
  if (entry == map.end()) throw std::runtime_error(path + ".json has no \"" + key + "\"");
  return entry->second;
}

}  // namespace

Reference::Reference(const std::string& layer, const std::string& name)
    : path_((folder(layer) / name).string()) {
  const nlohmann::json file = json();
  for (auto [group, map] : {std::pair{"numbers", &numbers_}, {"scales", &scales_}})
    if (file.contains(group)) file[group].get_to(*map);
}

nlohmann::json Reference::json() const {
  std::ifstream file(path_ + ".json");
  if (!file) throw std::runtime_error("cannot read " + path_ + ".json");
  return nlohmann::json::parse(file);
}

std::vector<std::string> Reference::cases(const std::string& layer) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder(layer)))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  if (names.empty()) throw std::runtime_error("no cases in " + folder(layer).string());
  std::sort(names.begin(), names.end());
  return names;
}

double Reference::number(const std::string& key) const { return look_up(numbers_, key, path_); }
double Reference::scale(const std::string& tensor) const { return look_up(scales_, tensor, path_); }
bool Reference::has(const std::string& tensor) const { return fs::exists(path_ + "." + tensor + ".npy"); }

std::vector<float> Reference::floats(const std::string& t) const {
  return read_npy<float>(path_ + "." + t + ".npy", "<f4");
}
std::vector<double> Reference::doubles(const std::string& t) const {
  return read_npy<double>(path_ + "." + t + ".npy", "<f8");
}
std::vector<int> Reference::ints(const std::string& t) const {
  return read_npy<int>(path_ + "." + t + ".npy", "<i4");
}
