#include "shard_index.hpp"

#include <set>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

constexpr size_t kLongestIndex = 100000000;  // bytes

}  // namespace

ShardIndex::ShardIndex(const std::string& folder, const std::string& name)
    : folder_(folder), path_(folder + "/" + name) {
  const json parsed = read_json(path_, kLongestIndex);
  const json map = parsed.is_object() ? parsed.value("weight_map", json()) : json();
  if (!map.is_object()) fail("it has no weight_map");
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      fail(in_quotes(tensor) + " is not in a file of this folder");
    file_of_[tensor] = file.get<std::string>();
  }
}

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of_) names.insert(file);
  return {names.begin(), names.end()};
}

void ShardIndex::require(const std::string& tensor, const std::string& file) const {
  const auto listed = file_of_.find(tensor);
  if (listed == file_of_.end() || listed->second != file)
    fail(in_quotes(tensor) + " is in " + folder_ + "/" + file + ", which it does not say");
}

void ShardIndex::require_all(size_t tensors) const {
  if (tensors != file_of_.size()) fail("it lists tensors that its files do not hold");
}

void ShardIndex::fail(const std::string& why) const { throw std::runtime_error(path_ + " cannot be used: " + why); }
