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

#include <nlohmann/json.hpp>

#include "data/host/files.hpp"
#include "data/host/utf8.hpp"
#include "data/options/command_line.hpp"

using nlohmann::json;

namespace {

constexpr char kMagic[8] = {'T', 'R', 'A', 'I', 'N', 'G', 'P', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPreamble = 16;
constexpr size_t kLongestHeader = 1 << 26;  // of the largest model that options describe: 30 MB

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

// ---- the header ------------------------------------------------------------------------------------------

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

json optional_number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

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

[[noreturn]] void reject(const std::string& why) { throw std::runtime_error(why); }

// A header nests its values four deep. nlohmann's parser would follow any depth.
void require_shallow(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') ++i;
    else if (text[i] == '"') quoted = !quoted;
    else if (!quoted && (text[i] == '[' || text[i] == '{') && ++depth > 8) reject("its values are nested too deep");
    else if (!quoted && (text[i] == ']' || text[i] == '}')) --depth;
  }
}

uint64_t whole_number(const json& j, const char* key, uint64_t most) {
  const json& x = j.at(key);
  if (!x.is_number_unsigned() || x.get<uint64_t>() > most) reject(std::string(key) + " is out of range");
  return x.get<uint64_t>();
}

// Finite, and `otherwise` for null.
double number(const json& j, const char* key, double otherwise) {
  const json& x = j.at(key);
  if (x.is_null()) return otherwise;
  if (!x.is_number() || !std::isfinite(x.get<double>())) reject(std::string(key) + " is not a number");
  return x.get<double>();
}

Tokenizer tokenizer_from_json(const json& j) {
  const auto kind = value_of(kTokenizers, "tokenizer", j.at("kind").get<std::string>());
  if (kind == Tokenizer::Kind::byte) return Tokenizer::bytes();
  std::vector<uint32_t> alphabet;
  for (const json& point : j.at("codepoints")) {
    if (!point.is_number_unsigned() || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ||
        (!alphabet.empty() && point <= alphabet.back()))
      reject("its alphabet is not one of Unicode characters in ascending order");
    alphabet.push_back(point);
  }
  if (alphabet.empty()) reject("its alphabet is empty");
  return Tokenizer::characters(std::move(alphabet));
}

// The table of the model that the options describe. What the file says of it must be the same.
std::vector<TensorSpec> checked_table(const json& j, const CheckpointHeader& h) {
  const json& rows = j.at("table");
  if (rows.size() < static_cast<size_t>(h.options.config.n_layer)) reject("its table has fewer tensors than the model layers");
  Layout layout;
  declare_model(layout, h.options.config);
  const std::vector<TensorSpec>& table = layout.table();
  if (rows.size() != table.size()) reject("its table has " + std::to_string(rows.size()) + " tensors, and its model " + std::to_string(table.size()));
  for (size_t i = 0; i < table.size(); ++i) {
    const json& row = rows[i];
    const TensorSpec& spec = table[i];
    if (row.at("name") != spec.name || row.at("shape") != spec.shape || row.at("offset") != spec.offset ||
        row.at("decay") != spec.decay || row.at("trained") != spec.trained)
      reject("row " + std::to_string(i + 1) + " of its table is not " + spec.name + " of its model");
  }
  if (h.floats != layout.size()) reject("its model has " + std::to_string(layout.size()) + " numbers and not " + std::to_string(h.floats));
  return table;
}

// Everything is checked against everything else, so that nobody has to do it again.
CheckpointHeader header_from_json(const json& j) {
  constexpr uint64_t kMostSteps = 1000000000000000, kAny = std::numeric_limits<uint64_t>::max();
  CheckpointHeader h;
  h.options = from_toml(j.at("options"), "options");
  h.options.config = resolve(h.options.config);
  h.floats = whole_number(j, "floats", kAny);
  h.optimizer = j.at("optimizer");
  h.tokenizer = tokenizer_from_json(j.at("tokenizer"));
  if (h.tokenizer.vocabulary() > h.options.config.vocab_size) reject("its tokenizer has more tokens than its model");
  h.table = checked_table(j, h);
  h.step = static_cast<int64_t>(whole_number(j, "step", kMostSteps));
  h.elapsed = number(j, "elapsed", -1);
  h.val_loss = number(j, "val_loss", h.val_loss);
  h.best_loss = number(j, "best_loss", h.best_loss);
  h.best_step = static_cast<int64_t>(whole_number(j, "best_step", static_cast<uint64_t>(h.step)));
  if (h.elapsed < 0) reject("elapsed is not a time");
  if (std::isfinite(h.best_loss) != (h.best_step > 0)) reject("best_loss and best_step do not agree");
  h.data_fingerprint = whole_number(j, "data", kAny);
  const double tokens = double(h.step) * h.options.batch * h.options.accumulate * h.options.config.context;
  if (tokens > 4e18) reject("it has seen more tokens than can be counted");
  return h;
}

// A checkpoint being read: every byte passes the checksum.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))
      throw std::runtime_error(path + (std::filesystem::is_directory(path) ? " is a folder, not a checkpoint" : " is not a checkpoint of train_gpt"));
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_) fail_file("read", path, errno);
    size_ = std::filesystem::file_size(path);
  }

  void read(void* to, size_t bytes) {
    if (std::fread(to, 1, bytes, file_.get()) != bytes) throw std::runtime_error(path_ + " is truncated");
    checksum_.add(to, bytes);
    rest_ -= std::min(rest_, bytes);
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
    if (length > kLongestHeader) throw std::runtime_error(path_ + " is corrupted: its header is too long");
    std::string text(length, ' ');
    read(text.data(), length);
    CheckpointHeader h;
    const auto unreadable = [&](const std::string& why) {
      throw std::runtime_error(path_ + " is corrupted: its header cannot be read (" + why + ")");
    };
    try {
      require_shallow(text);
      h = header_from_json(json::parse(text));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      unreadable(for_terminal(error.what()));
    }
    rest_ = h.floats * sizeof(float) * (h.optimizer ? 3 : 1);  // floats is the size of a model, which fits
    const size_t expected = kPreamble + length + rest_ + 8;
    if (size_ != expected)
      throw std::runtime_error(path_ + (size_ < expected ? " is truncated: " : " is corrupted: ") +
                               std::to_string(size_) + " bytes, expected " + std::to_string(expected));
    return h;
  }

  // What has not been read yet still counts. Pieces are of whole words, as the checksum adds them.
  void verify() {
    std::vector<char> piece(1 << 16);
    while (rest_ > 0) read(piece.data(), std::min(rest_, piece.size()));
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
  size_t size_ = 0, rest_ = 0;  // bytes of weights and moments that are still to be read
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

CheckpointHeader verify_checkpoint(const std::string& path) {
  Reader reader(path);
  CheckpointHeader header = reader.header();
  reader.verify();
  return header;
}

void load_checkpoint(const std::string& path, Model& model, Moments* moments) {
  Reader reader(path);
  const CheckpointHeader h = reader.header();
  require_same_table(path, h.table, model.table);
  if (moments && !h.optimizer) throw std::runtime_error(path + " holds no optimizer state to resume from");
  reader.read(model.weights.get(), model.floats * sizeof(float));
  if (moments) {
    reader.read(moments->m.get(), model.floats * sizeof(float));
    reader.read(moments->v.get(), model.floats * sizeof(float));
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
