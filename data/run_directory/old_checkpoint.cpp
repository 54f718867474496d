#include "old_checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "data/host/errors.hpp"
#include "data/host/json.hpp"
#include "data/host/utf8.hpp"
#include "data/options/command_line.hpp"
#include "data/options/stored.hpp"
#include "layers/training/optimizer.hpp"

using nlohmann::json;

namespace {

constexpr char kMagic[8] = {'T', 'R', 'A', 'I', 'N', 'G', 'P', 'T'};
constexpr uint32_t kOldest = 1, kNewest = 2;
constexpr uint64_t kPreamble = 16, kSumBytes = 8;
constexpr uint64_t kLongestHeader = 1 << 26;

// The tensors that the header lists, with their offsets in floats and in the order of these. They are those of `table`.
std::vector<TensorSpec> listed_tensors(const json& rows, const std::vector<TensorSpec>& table, uint64_t floats) {
  if (rows.size() != table.size())
    reject("its table has " + std::to_string(rows.size()) + " tensors, and its model " + std::to_string(table.size()));
  std::unordered_map<std::string_view, const TensorSpec*> missing;
  for (const TensorSpec& spec : table) missing[spec.name] = &spec;
  std::vector<TensorSpec> listed;
  for (const json& row : rows) {
    const std::string name = row.at("name");
    const auto spec = missing.find(name);
    if (spec == missing.end() || row.at("shape") != spec->second->shape)
      reject(name + " of its table is not a tensor of its model");
    listed.push_back(*spec->second);
    listed.back().offset = whole_number(row, "offset", floats);
    missing.erase(spec);
  }
  std::sort(listed.begin(), listed.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  size_t end = 0;
  for (const TensorSpec& t : listed) {
    if (t.offset < end || t.size() > floats - t.offset)
      reject(t.name + " of its table overlaps another tensor or the end");
    end = t.offset + t.size();
  }
  return listed;
}

// Fills in the header, the table and the slices. Returns where the numbers end.
uint64_t read_header(CheckpointFile& c, const json& j, uint32_t version, uint64_t data) {
  constexpr uint64_t kMostFloats = uint64_t(1) << 56;
  c.header = header_of(j, version == 1 ? from_toml(j.at("options"), "options") : train_options_of(j.at("settings")));
  c.table = table_of(c.header.options.config, j.at("table").size());
  const uint64_t floats = whole_number(j, "floats", kMostFloats), bytes = floats * sizeof(float);
  const std::vector<TensorSpec> listed = listed_tensors(j.at("table"), c.table, floats);
  const size_t buffers = c.header.optimizer ? 1 + kAdamW.slots.size() : 1;
  for (size_t b = 0; b < buffers; ++b)
    for (const TensorSpec& t : listed) {
      const std::string name = b == 0 ? t.name : stored_name(std::string(kAdamW.slots[b - 1].name) + "." + t.name);
      c.slices.push_back({name, data + b * bytes + t.offset * sizeof(float), t.size() * sizeof(float)});
    }
  return data + buffers * bytes;
}

}  // namespace

bool is_old_checkpoint(const InputFile& file) {
  char magic[sizeof kMagic] = {};
  if (file.size() >= kPreamble) file.read(magic, sizeof magic, 0);
  return std::memcmp(magic, kMagic, sizeof magic) == 0;
}

CheckpointFile open_old_checkpoint(const std::shared_ptr<const InputFile>& file) {
  uint32_t version_and_length[2];
  file->read(version_and_length, sizeof version_and_length, sizeof kMagic);
  const auto [version, length] = version_and_length;
  if (version < kOldest || version > kNewest)
    file->fail(" is a checkpoint of version " + std::to_string(version) +
               "; in this format, train_gpt reads versions 1 to 2");
  if (file->size() < kPreamble + length) file->fail(" is truncated");
  if (length > kLongestHeader) file->fail(" is corrupted: its header is too long");
  std::string text(length, ' ');
  file->read(text.data(), length, kPreamble);
  CheckpointFile c;
  c.file = file;
  try {
    c.end = read_header(c, parse_json(text, 8), version, kPreamble + length);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    file->fail(" is corrupted: its header cannot be read (" + one_line(plain_text(error)) + ")");
  }
  const uint64_t expected = c.end + kSumBytes;
  if (file->size() != expected)
    file->fail((file->size() < expected ? " is truncated: " : " is corrupted: ") + std::to_string(file->size()) +
               " bytes, expected " + std::to_string(expected));
  file->read(&c.sum, kSumBytes, c.end);
  return c;
}
