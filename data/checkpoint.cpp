#include "checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "files.hpp"

using nlohmann::json;

namespace {

constexpr char kMagic[8] = {'T', 'R', 'A', 'I', 'N', 'G', 'P', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPreamble = 16;

// A running 64-bit checksum over whole words: multiply and rotate, as fast as memory.
class Checksum {
 public:
  void add(const void* data, size_t bytes) {
    const char* p = static_cast<const char*>(data);
    for (size_t i = 0; i < bytes; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, p + i, std::min<size_t>(8, bytes - i));
      state_ = ((state_ << 29 | state_ >> 35) ^ word) * 0x9e3779b97f4a7c15ull;
    }
  }
  uint64_t value() const { return state_ ^ state_ >> 32; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3ull;
};

json to_json(const std::vector<TensorSpec>& table) {
  json rows = json::array();
  for (const TensorSpec& spec : table)
    rows.push_back({{"name", spec.name},
                    {"shape", spec.shape},
                    {"offset", spec.offset},
                    {"start", {{"mean", spec.start.mean}, {"deviation", spec.start.deviation}}},
                    {"decay", spec.decay},
                    {"trained", spec.trained}});
  return rows;
}

std::vector<TensorSpec> table_from_json(const json& rows) {
  std::vector<TensorSpec> table;
  for (const json& row : rows)
    table.push_back({row.at("name"), row.at("shape").get<std::vector<int>>(),
                     {row.at("start").at("mean"), row.at("start").at("deviation")},
                     row.at("decay"), row.at("trained"), row.at("offset")});
  return table;
}

json optional_number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }
double optional_number(const json& x, double otherwise) { return x.is_null() ? otherwise : x.get<double>(); }

json to_json(const CheckpointHeader& h) {
  json tokenizer = {{"kind", name_of(kTokenizers, h.tokenizer.kind())}};
  if (h.tokenizer.kind() == Tokenizer::Kind::character) tokenizer["codepoints"] = h.tokenizer.alphabet();
  return {{"options", to_toml(h.options)},
          {"table", to_json(h.table)},
          {"floats", h.floats},
          {"optimizer", h.optimizer},
          {"tokenizer", tokenizer},
          {"step", h.step},
          {"elapsed", h.elapsed},
          {"val_loss", optional_number(h.val_loss)},
          {"best_loss", optional_number(h.best_loss)},
          {"best_step", h.best_step},
          {"data", h.data_fingerprint}};
}

CheckpointHeader header_from_json(const json& j) {
  CheckpointHeader h;
  h.options = from_toml(j.at("options"));
  h.table = table_from_json(j.at("table"));
  h.floats = j.at("floats");
  h.optimizer = j.at("optimizer");
  const json& tokenizer = j.at("tokenizer");
  const auto kind = value_of(kTokenizers, "tokenizer", tokenizer.at("kind").get<std::string>());
  if (kind == Tokenizer::Kind::character)
    h.tokenizer = Tokenizer::characters(tokenizer.at("codepoints").get<std::vector<uint32_t>>());
  h.step = j.at("step");
  h.elapsed = j.at("elapsed");
  h.val_loss = optional_number(j.at("val_loss"), h.val_loss);
  h.best_loss = optional_number(j.at("best_loss"), h.best_loss);
  h.best_step = j.at("best_step");
  h.data_fingerprint = j.at("data");
  return h;
}

// A checkpoint being read: every byte passes the checksum.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    if (std::filesystem::is_directory(path)) throw std::runtime_error(path + " is a folder, not a checkpoint");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_) fail_file("read", path, errno);
    size_ = std::filesystem::file_size(path);
  }

  void read(void* to, size_t bytes) {
    if (std::fread(to, 1, bytes, file_.get()) != bytes) throw std::runtime_error(path_ + " is truncated");
    checksum_.add(to, bytes);
  }

  CheckpointHeader header() {
    char magic[8];
    uint32_t version_and_length[2];
    if (size_ < kPreamble) throw std::runtime_error(path_ + " is not a checkpoint of train_gpt");
    read(magic, sizeof magic);
    if (std::memcmp(magic, kMagic, sizeof magic) != 0)
      throw std::runtime_error(path_ + " is not a checkpoint of train_gpt");
    read(version_and_length, sizeof version_and_length);
    if (version_and_length[0] != kVersion)
      throw std::runtime_error(path_ + " is a checkpoint of version " + std::to_string(version_and_length[0]) +
                               "; this train_gpt reads version " + std::to_string(kVersion));
    const size_t length = version_and_length[1];
    if (size_ < kPreamble + length) throw std::runtime_error(path_ + " is truncated");
    std::string text(length, ' ');
    read(text.data(), length);
    CheckpointHeader h;
    try {
      h = header_from_json(json::parse(text));
    } catch (const std::exception& error) {
      throw std::runtime_error(path_ + " is corrupted: its header cannot be read (" + error.what() + ")");
    }
    const size_t expected = kPreamble + length + h.floats * sizeof(float) * (h.optimizer ? 3 : 1) + 8;
    if (size_ != expected)
      throw std::runtime_error(path_ + (size_ < expected ? " is truncated: " : " is corrupted: ") +
                               std::to_string(size_) + " bytes, expected " + std::to_string(expected));
    return h;
  }

  // Bytes that only the checksum wants. Pieces are of whole words, as it adds them.
  void skip(size_t bytes) {
    std::vector<char> piece(1 << 20);
    for (size_t n; bytes > 0; bytes -= n) {
      n = std::min(bytes, piece.size());
      read(piece.data(), n);
    }
  }

  void verify() {
    uint64_t expected = 0;
    if (std::fread(&expected, 1, 8, file_.get()) != 8 || expected != checksum_.value())
      throw std::runtime_error(path_ + " is corrupted: its checksum is wrong");
  }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  size_t size_ = 0;
  Checksum checksum_;
};

std::string shape_text(const std::vector<int>& shape) {
  std::string s;
  for (int d : shape) s += (s.empty() ? "(" : ", ") + std::to_string(d);
  return s + ")";
}

void require_same_table(const std::string& path, const std::vector<TensorSpec>& found,
                        const std::vector<TensorSpec>& expected) {
  for (size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
    const std::string in_file =
        i < found.size() ? found[i].name + " " + shape_text(found[i].shape) : "no further tensor";
    const std::string in_model =
        i < expected.size() ? expected[i].name + " " + shape_text(expected[i].shape) : "no further tensor";
    if (in_file != in_model)
      throw std::runtime_error(path + " does not fit this model: expected " + in_model + ", found " + in_file);
  }
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const Moments* moments) {
  CheckpointHeader h = header;
  h.table = model.table;
  h.floats = model.floats;
  h.optimizer = moments != nullptr;
  std::string text = to_json(h).dump();
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
  if (moments) {
    put(moments->m.get(), model.floats * sizeof(float));
    put(moments->v.get(), model.floats * sizeof(float));
  }
  const uint64_t sum = checksum.value();
  file.write(&sum, sizeof sum);
  file.finish();
  file.publish();
}

CheckpointHeader read_checkpoint_header(const std::string& path) { return Reader(path).header(); }

void load_checkpoint(const std::string& path, Model& model, Moments* moments) {
  Reader reader(path);
  const CheckpointHeader h = reader.header();
  require_same_table(path, h.table, model.table);
  if (moments && !h.optimizer) throw std::runtime_error(path + " holds no optimizer state to resume from");
  reader.read(model.weights.get(), model.floats * sizeof(float));
  if (moments) {
    reader.read(moments->m.get(), model.floats * sizeof(float));
    reader.read(moments->v.get(), model.floats * sizeof(float));
  } else if (h.optimizer) {
    for (int moment = 0; moment < 2; ++moment) reader.skip(model.floats * sizeof(float));
  }
  reader.verify();
  std::vector<const float*> loaded = {model.weights.get()};
  if (moments) loaded.insert(loaded.end(), {moments->m.get(), moments->v.get()});
  for (const float* buffer : loaded)
    if (const TensorSpec* bad = first_non_finite(model.table, buffer))
      throw std::runtime_error(path + " is of no use: " + bad->name + " is not finite, because its training diverged");
}

TrainedModel load_trained_model(const std::string& path) {
  const CheckpointHeader header = read_checkpoint_header(path);
  TrainedModel trained{path, header, Model(header.options.config, false)};
  load_checkpoint(path, trained.model, nullptr);
  return trained;
}
