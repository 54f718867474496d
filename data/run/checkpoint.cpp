#include "checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "data/formats/formats.hpp"
#include "data/host/files.hpp"
#include "data/host/json.hpp"
#include "data/host/utf8.hpp"
#include "data/options/command_line.hpp"
#include "data/options/stored.hpp"
#include "data/tokenizer/stored_tokenizer.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr char kMagic[8] = {'T', 'R', 'A', 'I', 'N', 'G', 'P', 'T'};
constexpr uint32_t kVersion = 2, kOldestVersion = 1;
constexpr size_t kPreamble = 16;
constexpr size_t kLongestHeader = 1 << 26;  // the largest model that options describe needs 30 MB

// A running 64-bit checksum over words of 8 bytes: multiply and rotate, as fast as memory.
class Checksum {
 public:
  void add(const void* data, size_t bytes) {
    const char* p = static_cast<const char*>(data);
    for (size_t n; bytes > 0; bytes -= n, p += n) {
      n = std::min(bytes, 8 - filled_);
      if (n == 8) std::memcpy(&word_, p, 8);
      else std::memcpy(reinterpret_cast<char*>(&word_) + filled_, p, n);
      if ((filled_ += n) == 8) state_ = with(word_), word_ = 0, filled_ = 0;
    }
  }
  uint64_t value() const {
    const uint64_t state = filled_ > 0 ? with(word_) : state_;  // zeros fill the last word
    return state ^ state >> 32;
  }

 private:
  uint64_t with(uint64_t word) const { return ((state_ << 29 | state_ >> 35) ^ word) * 0x9e3779b97f4a7c15ull; }

  uint64_t state_ = 0x243f6a8885a308d3ull, word_ = 0;
  size_t filled_ = 0;  // bytes of word_
};

// ---- the header ------------------------------------------------------------------------------------------

json to_json(const std::vector<TensorSpec>& table) {
  json rows = json::array();
  for (const TensorSpec& spec : table)
    rows.push_back({{"name", spec.name}, {"shape", spec.shape}, {"offset", spec.offset}});
  return rows;
}

json optional_number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

json to_json(const CheckpointHeader& h, const Model& model) {
  return {{"settings", to_json(h.options)},
          {"table", to_json(model.table)},
          {"floats", model.floats},
          {"optimizer", h.optimizer},
          {"tokenizer", to_json(h.tokenizer)},
          {"step", h.step},
          {"elapsed", h.elapsed},
          {"val_loss", optional_number(h.val_loss)},
          {"best_loss", optional_number(h.best_loss)},
          {"best_step", h.best_step},
          {"unwritten_row", h.unwritten_row},
          {"data", h.data_fingerprint}};
}

[[noreturn]] void reject(const std::string& why) { throw std::runtime_error(why); }

uint64_t whole_number(const json& j, const char* key, uint64_t most) {
  const json& x = j.at(key);
  if (!x.is_number_unsigned() || x.get<uint64_t>() > most) reject(std::string(key) + " is out of range");
  return x.get<uint64_t>();
}

// A finite number, or `otherwise` for null.
double number(const json& j, const char* key, double otherwise) {
  const json& x = j.at(key);
  if (x.is_null()) return otherwise;
  if (!x.is_number() || !std::isfinite(x.get<double>())) reject(std::string(key) + " is not a number");
  return x.get<double>();
}

// The tensors that the header lists, which may lie anywhere in the file. They must be those of the model that its
// settings describe.
std::vector<TensorSpec> checked_table(const json& rows, const CheckpointHeader& h) {
  if (rows.size() < static_cast<size_t>(h.options.config.n_layer))
    reject("its table has fewer tensors than the model layers");
  Layout layout;
  declare_model(layout, h.options.config);
  if (rows.size() != layout.table().size())
    reject("its table has " + std::to_string(rows.size()) + " tensors, and its model " +
           std::to_string(layout.table().size()));
  std::unordered_map<std::string_view, const TensorSpec*> missing;
  for (const TensorSpec& spec : layout.table()) missing[spec.name] = &spec;
  std::vector<TensorSpec> table;
  for (const json& row : rows) {
    const std::string name = row.at("name");
    const auto spec = missing.find(name);
    if (spec == missing.end() || row.at("shape") != spec->second->shape)
      reject(name + " of its table is not a tensor of its model");
    table.push_back(*spec->second);
    table.back().offset = whole_number(row, "offset", h.floats);
    missing.erase(spec);
  }
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  size_t end = 0;
  for (const TensorSpec& t : table) {
    if (t.offset < end || t.size() > h.floats - t.offset)
      reject(t.name + " of its table overlaps another tensor or the end");
    end = t.offset + t.size();
  }
  return table;
}

// Checks every field, alone and against the others. A run that has forgotten its best loss keeps its best step.
CheckpointHeader header_from_json(const json& j, uint32_t version) {
  constexpr uint64_t kMostSteps = 1000000000000000, kMostFloats = uint64_t(1) << 56;
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  CheckpointHeader h;
  h.options = version == 1 ? from_toml(j.at("options"), "options") : train_options_of(j.at("settings"));
  h.options.config = resolved(h.options.config);
  h.floats = whole_number(j, "floats", kMostFloats);
  h.optimizer = j.at("optimizer");
  h.tokenizer = tokenizer_from_json(j.at("tokenizer"));
  if (h.tokenizer.vocabulary() > h.options.config.vocab_size) reject("its tokenizer has more tokens than its model");
  h.table = checked_table(j.at("table"), h);
  h.step = static_cast<int64_t>(whole_number(j, "step", kMostSteps));
  h.elapsed = number(j, "elapsed", -1);
  h.val_loss = number(j, "val_loss", h.val_loss);
  h.best_loss = number(j, "best_loss", h.best_loss);
  h.best_step = static_cast<int64_t>(whole_number(j, "best_step", static_cast<uint64_t>(h.step)));
  if (h.elapsed < 0) reject("elapsed is not a time");
  if (std::isfinite(h.best_loss) && h.best_step == 0) reject("best_loss and best_step do not agree");
  h.unwritten_row = j.value("unwritten_row", "");
  if (h.unwritten_row.find_first_not_of("0123456789+-.e,") != h.unwritten_row.npos)
    reject("unwritten_row is not a row");
  h.data_fingerprint = whole_number(j, "data", kAny);
  const double tokens = double(h.step) * h.options.batch * h.options.accumulate * h.options.config.context;
  if (tokens > 4e18) reject("it has seen more tokens than can be counted");
  return h;
}

// Reads a checkpoint and adds every byte to the checksum.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    if (std::filesystem::is_directory(path)) fail(" is a folder, not a checkpoint");
    if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) fail(kForeign);
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_) fail_file("read", path, errno);
    size_ = std::filesystem::file_size(path);
  }

  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(path_ + why); }

  void read(void* to, size_t bytes) {
    if (std::fread(to, 1, bytes, file_.get()) != bytes) fail(" is truncated");
    checksum_.add(to, bytes);
    rest_ -= std::min(rest_, bytes);
  }

  CheckpointHeader header() {
    char magic[8];
    uint32_t version_and_length[2];
    if (size_ < kPreamble) fail(kForeign);
    read(magic, sizeof magic);
    if (std::memcmp(magic, kMagic, sizeof magic) != 0) fail(kForeign);
    read(version_and_length, sizeof version_and_length);
    const auto [version, length] = version_and_length;
    if (version < kOldestVersion || version > kVersion)
      fail(" is a checkpoint of version " + std::to_string(version) + "; this train_gpt reads versions " +
           std::to_string(kOldestVersion) + " to " + std::to_string(kVersion));
    if (size_ < kPreamble + length) fail(" is truncated");
    if (length > kLongestHeader) fail(" is corrupted: its header is too long");
    std::string text(length, ' ');
    read(text.data(), length);
    CheckpointHeader h;
    try {
      h = header_from_json(parse_json(text, 8), version);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      fail(" is corrupted: its header cannot be read (" + for_terminal(error.what()) + ")");
    }
    rest_ = h.floats * sizeof(float) * (h.optimizer ? 1 + kAdamW.slots : 1);
    const size_t expected = kPreamble + length + rest_ + 8;
    if (size_ != expected)
      fail((size_ < expected ? " is truncated: " : " is corrupted: ") + std::to_string(size_) + " bytes, expected " +
           std::to_string(expected));
    return h;
  }

  // Reads the weights or one buffer of the optimizer into `buffer`, which is laid out as `expected`.
  void read_tensors(const CheckpointHeader& h, float* buffer, const std::vector<TensorSpec>& expected) {
    std::unordered_map<std::string_view, size_t> offsets;
    for (const TensorSpec& spec : expected) offsets[spec.name] = spec.offset;
    size_t at = 0;
    for (const TensorSpec& tensor : h.table) {
      skip((tensor.offset - at) * sizeof(float));
      read(buffer + offsets.at(tensor.name), tensor.size() * sizeof(float));
      at = tensor.offset + tensor.size();
    }
    skip((h.floats - at) * sizeof(float));
  }

  void verify() {
    skip(rest_);
    uint64_t expected = 0;
    if (std::fread(&expected, 1, 8, file_.get()) != 8 || expected != checksum_.value())
      fail(" is corrupted: its checksum is wrong");
  }

 private:
  // Bytes that nobody needs still count in the checksum.
  void skip(size_t bytes) {
    std::vector<char> piece(std::min<size_t>(bytes, 1 << 16));
    for (size_t n; bytes > 0; bytes -= n) read(piece.data(), n = std::min(bytes, piece.size()));
  }

  static constexpr const char* kForeign = " is not a checkpoint of train_gpt";
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  size_t size_ = 0, rest_ = 0;  // bytes of the file, and of weights and state that are still to be read
  Checksum checksum_;
};

void require_same_tensors(const std::string& path, const std::vector<TensorSpec>& found,
                          const std::vector<TensorSpec>& expected) {
  std::unordered_map<std::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& tensor : found) by_name[tensor.name] = &tensor;
  const auto refuse = [&](const std::string& in_model, const std::string& in_file) {
    throw std::runtime_error(path + " does not fit this model: expected " + in_model + ", found " + in_file);
  };
  for (const TensorSpec& spec : expected) {
    const auto tensor = by_name.find(spec.name);
    if (tensor == by_name.end()) return refuse(described(spec), "no such tensor");
    if (tensor->second->shape != spec.shape) refuse(described(spec), described(*tensor->second));
    by_name.erase(tensor);
  }
  if (!by_name.empty()) refuse("no further tensor", described(*by_name.begin()->second));
}

// ---- models of other programs ----------------------------------------------------------------------------

CheckpointHeader imported_header(const std::string& path, const Format& format) {
  const std::unique_ptr<OtherModel> from = format.open(path);
  CheckpointHeader h;
  h.options.preset = from->preset(), h.options.config = from->config();
  h.tokenizer = from->tokenizer();
  h.options.tokenizer = name_of_kind(h.tokenizer.kind());
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  if (h.tokenizer.bpe() || h.tokenizer.pieces()) h.options.tokenizer = fs::absolute(folder).lexically_normal().string();
  if (const Bpe* bpe = h.tokenizer.bpe())
    for (const SpecialToken& special : bpe->tables().special)
      if (special.name == "<|endoftext|>") h.options.separator = special.name;
  if (const Pieces* pieces = h.tokenizer.pieces(); pieces && pieces->tables().begin >= 0)
    h.options.separator = pieces->tables().pieces[pieces->tables().begin].text;
  if (h.tokenizer.vocabulary() > from->config().vocab_size)
    throw std::runtime_error(path + " has a tokenizer with more tokens than its model");
  return h;
}

void import_weights(const std::string& path, const Format& format, Model& model, const OptimizerState* state) {
  if (state) throw std::runtime_error(path + " holds no optimizer state to resume from");
  const std::unique_ptr<OtherModel> from = format.open(path);
  Layout layout;
  declare_model(layout, from->config());
  require_same_tensors(path, layout.table(), model.table);
  from->load(model);
}

}  // namespace

std::string described(const TensorSpec& tensor) {
  std::string text = tensor.name;
  for (const int& d : tensor.shape) text += (&d == tensor.shape.data() ? " (" : ", ") + std::to_string(d);
  return text + ")";
}

void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const OptimizerState* state) {
  CheckpointHeader h = header;
  h.optimizer = state != nullptr;
  std::string text = to_text(to_json(h, model));
  text.append((64 - (kPreamble + text.size()) % 64) % 64, ' ');

  WholeFile file(path);
  Checksum checksum;
  const auto put = [&](const void* data, size_t bytes) {
    file.write(data, bytes);
    checksum.add(data, bytes);
  };
  const uint32_t version_and_length[2] = {kVersion, static_cast<uint32_t>(text.size())};
  put(kMagic, sizeof kMagic);
  put(version_and_length, sizeof version_and_length);
  put(text.data(), text.size());
  put(model.weights.get(), model.floats * sizeof(float));
  if (state)
    for (const Buffer& slot : *state) put(slot.get(), model.floats * sizeof(float));
  const uint64_t sum = checksum.value();
  file.write(&sum, sizeof sum);
  file.finish();
  file.publish();
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const Format* format = format_of(path);
  return format ? imported_header(path, *format) : Reader(path).header();
}

CheckpointHeader verify_checkpoint(const std::string& path) {
  if (const Format* format = format_of(path)) return imported_header(path, *format);
  Reader reader(path);
  CheckpointHeader header = reader.header();
  reader.verify();
  return header;
}

void load_checkpoint(const std::string& path, Model& model, OptimizerState* state) {
  if (const Format* format = format_of(path)) return import_weights(path, *format, model, state);
  Reader reader(path);
  const CheckpointHeader h = reader.header();
  require_same_tensors(path, h.table, model.table);
  if (state && !h.optimizer) throw std::runtime_error(path + " holds no optimizer state to resume from");
  std::vector<float*> buffers = {model.weights.get()};
  if (state)
    for (const Buffer& slot : *state) buffers.push_back(slot.get());
  for (float* buffer : buffers) reader.read_tensors(h, buffer, model.table);
  reader.verify();
  for (const float* buffer : buffers)
    if (const TensorSpec* bad = first_non_finite(model.table, buffer))
      throw std::runtime_error(path + " cannot be used: " + bad->name +
                               " is not finite, because its training diverged");
}

TrainedModel load_trained_model(const std::string& path) {
  const CheckpointHeader header = read_checkpoint_header(path);
  TrainedModel trained{path, header, Model(header.options.config, false)};
  load_checkpoint(path, trained.model, nullptr);
  return trained;
}
