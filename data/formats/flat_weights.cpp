#include "flat_weights.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>

#include "float_types.hpp"
#include "foreign_tokenizer.hpp"

using nlohmann::json;

namespace {

using Table = std::map<std::string, TensorSpec>;

Table table_of(const std::vector<TensorSpec>& rows) {
  Table table;
  for (const TensorSpec& spec : rows) table[spec.name] = spec;
  return table;
}

Table table_of(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  return table_of(layout.table());
}

bool is_layered(const FlatRow& row) { return !row.ours.empty() && row.ours[0].find('#') != std::string::npos; }

std::string name_in_layer(std::string name, int layer) {
  if (const size_t at = name.find('#'); at != name.npos) name.replace(at, 1, std::to_string(layer));
  return name;
}

// Calls with_tensor(our name, foreign_row) for each tensor, and with_others(row) for numbers that our model does not
// have.
void for_each_part(const std::vector<FlatRow>& rows, const Config& config,
                   const std::function<void(const std::string&, ForeignRow)>& with_tensor,
                   const std::function<void(const FlatRow&)>& with_others) {
  for (const FlatRow& row : rows) {
    for (int layer = 0; layer < (is_layered(row) ? config.n_layer : 1); ++layer)
      for (const std::string& name : row.ours) with_tensor(name_in_layer(name, layer), row.foreign_row);
    if (row.others > 0) with_others(row);
  }
}

// Calls f(index of ours, index of theirs, numbers) for runs of numbers that are adjacent in both layouts.
template <class F>
void for_each_run(const TensorSpec& spec, ForeignRow foreign_row, const Config& config, F f) {
  const size_t columns = spec.size() / spec.shape[0];
  if (!foreign_row) return f(0, 0, spec.size());
  for (size_t r = 0; r < size_t(spec.shape[0]); ++r) f(r * columns, foreign_row(r, config) * columns, columns);
}

size_t bytes_of(FlatType type) { return type == FlatType::f32 ? sizeof(float) : sizeof(uint16_t); }

std::vector<float> read_numbers(const InputFile& file, uint64_t at, FlatType type, size_t n) {
  std::vector<float> numbers(n);
  if (type == FlatType::f32) {
    file.read(numbers.data(), n * sizeof(float), at);
  } else {
    std::vector<uint16_t> halves(n);
    file.read(halves.data(), n * sizeof(uint16_t), at);
    std::transform(halves.begin(), halves.end(), numbers.begin(), float_of_bfloat16);
  }
  return numbers;
}

void write_numbers(WholeFile& file, FlatType type, const std::vector<float>& numbers) {
  if (type == FlatType::f32) return file.write(numbers.data(), numbers.size() * sizeof(float));
  std::vector<uint16_t> halves(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    halves[i] = bfloat16_of_float(numbers[i]);
    if (std::isfinite(numbers[i]) && !std::isfinite(float_of_bfloat16(halves[i])))
      throw std::runtime_error("a weight is too large for bfloat16: choose --dtype f32");
  }
  file.write(halves.data(), halves.size() * sizeof(uint16_t));
}

}  // namespace

std::string flat_file(const std::string& path) {
  return std::filesystem::is_directory(path) ? (std::filesystem::path(path) / kFlatFile).string() : path;
}

ConfigField header_field(const char* key, int Config::*member) {
  return {[=](Config& c, const json& file) { c.*member = file.at(key); },
          [=](json& file, const Config& c) { file[key] = c.*member; }};
}

uint64_t count_flat(const std::vector<FlatRow>& rows, const Config& config) {
  Config one = config;
  one.n_layer = 1;
  Table table = table_of(one);
  uint64_t count = 0;
  for (const FlatRow& row : rows) {
    for (const std::string& name : row.ours) {
      const auto spec = table.find(name_in_layer(name, 0));
      if (spec == table.end()) throw std::logic_error("the model has no tensor " + name);
      count += spec->second.size() * static_cast<uint64_t>(is_layered(row) ? config.n_layer : 1);
      table.erase(spec);
    }
    count += row.others;
  }
  if (!table.empty()) throw std::logic_error("the file has no tensor " + table.begin()->first);
  return count;
}

void read_flat(const TensorPlaces& to, const InputFile& file, uint64_t at, FlatType type,
               const std::vector<FlatRow>& rows, const Config& config) {
  const auto with_tensor = [&](const std::string& name, ForeignRow foreign_row) {
    const auto& [spec, buffer] = to.at(name);
    const std::vector<float> numbers = read_numbers(file, at, type, spec.size());
    const FloatsToWrite floats(buffer, spec);
    for_each_run(spec, foreign_row, config, [&](size_t ours, size_t theirs, size_t n) {
      std::copy_n(numbers.begin() + theirs, n, floats.data() + ours);
    });
    at += spec.size() * bytes_of(type);
  };
  for_each_part(rows, config, with_tensor, [&](const FlatRow& row) { at += row.others * bytes_of(type); });
}

void write_flat(WholeFile& file, FlatType type, const std::vector<FlatRow>& rows, const Config& config,
                const std::vector<TensorSpec>& table, const float* buffer) {
  const Table wanted = table_of(config), given = table_of(table);
  const auto with_tensor = [&](const std::string& name, ForeignRow foreign_row) {
    std::vector<float> numbers(wanted.at(name).size());
    if (const auto spec = given.find(name); spec != given.end())
      for_each_run(spec->second, foreign_row, config, [&](size_t ours, size_t theirs, size_t n) {
        std::copy_n(buffer + spec->second.offset + ours, n, numbers.begin() + theirs);
      });
    write_numbers(file, type, numbers);
  };
  for_each_part(rows, config, with_tensor, [&](const FlatRow& row) {
    std::vector<float> numbers(row.others);
    for (uint64_t i = 0; row.other && i < row.others; ++i) numbers[i] = row.other(i, config);
    write_numbers(file, type, numbers);
  });
}

// ---- a model ---------------------------------------------------------------------------------------------

FlatModel::FlatModel(const std::string& path, const char* tokenizer_name, Tokenizer (*read)(const std::string& path))
    : file_(flat_file(path)), tokenizer_name_(tokenizer_name), read_tokenizer_(read) {}

void FlatModel::set(const Config& config, uint64_t header_bytes, FlatType type, std::vector<FlatRow> rows) {
  config_ = config;
  header_bytes_ = header_bytes;
  type_ = type;
  rows_ = std::move(rows);
  const uint64_t wanted = header_bytes + bytes_of(type) * count_flat(rows_, config);
  if (file_.size() != wanted)
    file_.fail(std::string(file_.size() < wanted ? " is truncated" : " is too long") + ": its header asks for " +
               std::to_string(wanted) + " bytes, and it has " + std::to_string(file_.size()));
}

Tokenizer FlatModel::tokenizer() const {
  const std::string path = std::filesystem::path(file_.path()).replace_filename(tokenizer_name_).string();
  if (!std::filesystem::exists(path))
    return no_tokenizer(file_.path() + " has no " + tokenizer_name_ + " next to it", config_.vocab_size);
  Tokenizer found = read_tokenizer_(path);
  if (found.vocabulary() == config_.vocab_size) return found;
  throw std::runtime_error(path + " has " + std::to_string(found.vocabulary()) + " tokens, and the model " +
                           std::to_string(config_.vocab_size));
}

void FlatModel::load(const TensorPlaces& to) const {
  read_flat(to, file_, header_bytes_, type_, rows_, config_);
  if (const TensorSpec* bad = first_non_finite(to))
    file_.fail(" cannot be used: " + bad->name + " is not finite");
}
