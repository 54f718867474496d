#include "llmc.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>

#include "data/formats/huggingface/architectures.hpp"
#include "data/tokenizer/llmc_tokenizer.hpp"
#include "flat_weights.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int kModelMagic = 20240326, kLlamaMagic = 20240803, kStateMagic = 20240327, kStateVersion = 2;
constexpr int kPadTo = 128;  // llm.c pads the vocabulary to a multiple of this

struct Version {
  int number;
  const char* dtype;
  FlatType type;
};
constexpr Version kVersions[] = {{3, "f32", FlatType::f32}, {5, "bf16", FlatType::bf16}};

using LlmcHeader = std::array<int32_t, 256>;
enum Field { kMagic, kVersion, kContext, kVocabulary, kLayers, kHeads, kChannels, kPadded, kFields };
enum StateField { kBatch = 2, kTime, kStateFields };

// ---- the model in the header -----------------------------------------------------------------------------

// The keys are the members of llm.c's GPT2Config. Everything else is as in GPT-2.
const std::vector<Architecture>& gpt2() {
  static const std::vector<Architecture> rows = {
      {"gpt2", "GPT-2", "gpt2", true,
       {header_field("max_seq_len", &Config::context), header_field("vocab_size", &Config::vocab_size),
        header_field("num_layers", &Config::n_layer), header_field("num_heads", &Config::n_head),
        header_field("channels", &Config::channels)},
       {}}};
  return rows;
}

Config config_of(const LlmcHeader& header) {
  return config_of(gpt2()[0], {{"max_seq_len", header[kContext]},
                               {"vocab_size", header[kVocabulary]},
                               {"num_layers", header[kLayers]},
                               {"num_heads", header[kHeads]},
                               {"channels", header[kChannels]}});
}

// Returns the Config of the model in llm.c, which has all biases.
Config config_in_llmc(const Config& config) { return expressed(config, gpt2(), "model of llm.c").config; }

int padded(int vocabulary) { return (vocabulary + kPadTo - 1) / kPadTo * kPadTo; }

std::vector<FlatRow> rows_of(const Config& config, int padded_vocabulary) {
  const uint64_t pad = static_cast<uint64_t>(padded_vocabulary - config.vocab_size) * config.channels;
  const std::string attention = "block.#.attention.", ffn = "block.#.ffn.";
  return {{{"embedding.token.weight"}, nullptr, pad},
          {{"embedding.position.weight"}},
          {{attention + "norm_in.gain"}},
          {{attention + "norm_in.bias"}},
          {{attention + "q.weight", attention + "k.weight", attention + "v.weight"}},
          {{attention + "q.bias", attention + "k.bias", attention + "v.bias"}},
          {{attention + "o.weight"}},
          {{attention + "o.bias"}},
          {{ffn + "norm_in.gain"}},
          {{ffn + "norm_in.bias"}},
          {{ffn + "up.weight"}},
          {{ffn + "up.bias"}},
          {{ffn + "down.weight"}},
          {{ffn + "down.bias"}},
          {{"final_norm.gain"}},
          {{"final_norm.bias"}}};
}

// ---- reading ---------------------------------------------------------------------------------------------

LlmcHeader read_header(const InputFile& file) {
  LlmcHeader header;
  if (file.size() < sizeof header) file.fail(" is truncated: it is shorter than a header of 1024 bytes");
  file.read(header.data(), sizeof header, 0);
  return header;
}

// Requires that the ints after the fields are 0.
void require_zeros(const InputFile& file, const LlmcHeader& header, int fields) {
  for (int i = fields; i < int(header.size()); ++i)
    if (header[i] != 0) file.fail(" has " + std::to_string(header[i]) + " in int " + std::to_string(i) +
                                  " of its header, where llm.c has 0: is it of a newer version?");
}

void check_size(const InputFile& file, uint64_t wanted) {
  if (file.size() != wanted)
    file.fail(std::string(file.size() < wanted ? " is truncated" : " is too long") + ": its header asks for " +
              std::to_string(wanted) + " bytes, and it has " + std::to_string(file.size()));
}

// Returns the first int of a file, or 0 if it is too short.
int32_t magic_of(const std::string& path) {
  if (!fs::is_regular_file(path) || fs::file_size(path) < sizeof(int32_t)) return 0;
  int32_t magic = 0;
  InputFile(path).read(&magic, sizeof magic, 0);
  return magic;
}

class LlmcModel : public ForeignModel {
 public:
  explicit LlmcModel(const std::string& path) : file_(flat_file(path)) {
    const LlmcHeader header = read_header(file_);
    if (header[kMagic] == kLlamaMagic) file_.fail(" is a Llama 3 model of llm.c; train_gpt reads its GPT-2 only");
    if (header[kMagic] != kModelMagic) file_.fail(" is not a model of llm.c");
    const auto version = std::find_if(std::begin(kVersions), std::end(kVersions),
                                      [&](const Version& v) { return v.number == header[kVersion]; });
    if (version == std::end(kVersions))
      file_.fail(" has version " + std::to_string(header[kVersion]) +
                 "; train_gpt reads 3 (f32) and 5 (bf16): write it again with a newer train_gpt2.py");
    type_ = version->type;
    require_zeros(file_, header, kFields);
    try {
      config_ = config_of(header);
    } catch (const std::invalid_argument& error) {
      file_.fail(std::string(" has a header that cannot be used: ") + error.what());
    }
    if (header[kPadded] < config_.vocab_size)
      file_.fail(" has a header that cannot be used: the vocabulary of " + std::to_string(config_.vocab_size) +
                 " is padded to " + std::to_string(header[kPadded]));
    rows_ = rows_of(config_, header[kPadded]);
    const uint64_t bytes = type_ == FlatType::f32 ? sizeof(float) : sizeof(uint16_t);
    check_size(file_, sizeof(LlmcHeader) + bytes * count_flat(rows_, config_));
  }

  const Config& config() const override { return config_; }
  const char* preset() const override { return gpt2()[0].preset; }

  Tokenizer tokenizer() const override {
    const std::string path = fs::path(file_.path()).replace_filename(kLlmcTokenizer).string();
    if (!fs::exists(path)) throw std::runtime_error(file_.path() + " has no " + kLlmcTokenizer + " beside it");
    Tokenizer found = read_llmc_tokenizer(path);
    if (found.vocabulary() == config_.vocab_size) return found;
    throw std::runtime_error(path + " has " + std::to_string(found.vocabulary()) + " tokens, and the model " +
                             std::to_string(config_.vocab_size));
  }

  void load(Model& model) const override {
    read_flat(model.weights.get(), file_, sizeof(LlmcHeader), type_, rows_, config_);
    if (const TensorSpec* bad = first_non_finite(model.table, model.weights.get()))
      file_.fail(" cannot be used: " + bad->name + " is not finite");
  }

 private:
  InputFile file_;
  FlatType type_;
  Config config_;
  std::vector<FlatRow> rows_;
};

template <class T>
void write_values(WholeFile& file, const std::vector<T>& values) {
  file.write(values.data(), values.size() * sizeof(T));
}

}  // namespace

bool is_llmc(const std::string& path) {
  const int32_t magic = magic_of(flat_file(path));
  return magic == kModelMagic || magic == kLlamaMagic;
}

std::unique_ptr<ForeignModel> open_llmc(const std::string& path) { return std::make_unique<LlmcModel>(path); }

// ---- writing ---------------------------------------------------------------------------------------------

void check_llmc(const ExportedModel& exported) {
  config_in_llmc(exported.model.config);
  to_llmc(exported.tokenizer);
}

std::string write_llmc(const std::string& folder, const ExportedModel& exported) {
  const Model& model = exported.model;
  const Config config = config_in_llmc(model.config);
  const auto version = std::find_if(std::begin(kVersions), std::end(kVersions),
                                    [&](const Version& v) { return exported.dtype == v.dtype; });
  if (version == std::end(kVersions)) throw std::invalid_argument("llm.c has no --dtype " + exported.dtype);
  const int pad = padded(config.vocab_size);
  LlmcHeader header{kModelMagic, version->number, config.context, config.vocab_size,
                    config.n_layer, config.n_head, config.channels, pad};
  WholeFile file((fs::path(folder) / kFlatFile).string()), tokenizer((fs::path(folder) / kLlmcTokenizer).string());
  file.write(header.data(), sizeof header);
  write_flat(file, version->type, rows_of(config, pad), config, model.table, model.weights.get());
  tokenizer.write(to_llmc(exported.tokenizer));
  for (WholeFile* whole : {&file, &tokenizer}) whole->finish();
  for (WholeFile* whole : {&file, &tokenizer}) whole->publish();
  return "GPT-2 of llm.c, version " + std::to_string(version->number) + ", in " + kFlatFile + ", with " +
         kLlmcTokenizer;
}

bool is_llmc_export(const std::string& folder) {
  return fs::is_regular_file(fs::path(folder) / kFlatFile) && is_llmc(folder) &&
         is_there((fs::path(folder) / kLlmcTokenizer).string());
}

// ---- debug states ----------------------------------------------------------------------------------------

DebugState debug_state(Model& model, const std::vector<int>& tokens, const std::vector<int>& targets, int B, int T) {
  const Config& c = model.config;
  const int N = B * T;
  const Batch batch = {tokens.data(), targets.data(), B, T};
  DebugState state{B, T, tokens, targets, std::vector<float>(static_cast<size_t>(N) * c.vocab_size), 0, {}};
  {
    const Activations a = allocate_activations(c, B, T, false);
    const float* features = model_features(model, a, batch);
    const Head head{{c.tied ? model.p.token : model.p.head, model.p.head_bias}, c.logit_cap};
    head_forward(state.logits.data(), features, head, N, c.channels, c.vocab_size);
  }
  std::fill_n(model.gradients.get(), model.floats, 0.f);
  const Activations a = allocate_activations(c, B, T, true);
  state.loss = static_cast<float>(model_loss_and_gradients(model, a, batch, 1.f / static_cast<float>(N), {}) / N);
  state.gradients.assign(model.gradients.get(), model.gradients.get() + model.floats);
  return state;
}

void write_debug_state(const std::string& path, const Model& model, const DebugState& state) {
  const Config config = config_in_llmc(model.config);
  const LlmcHeader header{kStateMagic, kStateVersion, state.B, state.T};
  WholeFile file(path);
  file.write(header.data(), sizeof header);
  write_values(file, state.tokens);
  write_values(file, state.targets);
  write_values(file, state.logits);
  file.write(&state.loss, sizeof state.loss);
  write_flat(file, FlatType::f32, rows_of(config, padded(config.vocab_size)), config, model.table,
             state.gradients.data());
  file.finish();
  file.publish();
}

DebugState read_debug_state(const std::string& path, const Model& model) {
  const InputFile file(path);
  const LlmcHeader header = read_header(file);
  if (header[kMagic] != kStateMagic) file.fail(" is not a debug state of llm.c");
  if (header[kVersion] != kStateVersion)
    file.fail(" has version " + std::to_string(header[kVersion]) + "; train_gpt reads version 2");
  require_zeros(file, header, kStateFields);
  const Config& c = model.config;
  const int64_t B = header[kBatch], T = header[kTime], most = static_cast<int64_t>(file.size() / sizeof(float));
  const std::string batch = std::to_string(B) + " x " + std::to_string(T);
  if (B < 1 || T < 1 || T > c.context) file.fail(" has a header that cannot be used: its batch is " + batch);
  if (B > most / T || B * T > most / c.vocab_size)  // otherwise the products below might overflow 64 bits
    file.fail(" is truncated: its header asks for a batch of " + batch);
  const std::vector<FlatRow> rows = rows_of(c, padded(c.vocab_size));
  const uint64_t N = B * T, logits = N * c.vocab_size, count = 2 * N + logits + 1;
  check_size(file, sizeof header + sizeof(float) * (count + count_flat(rows, c)));
  DebugState state{int(B), int(T), std::vector<int>(N), std::vector<int>(N), std::vector<float>(logits), 0,
                   std::vector<float>(model.floats)};
  uint64_t at = sizeof header;
  const auto take = [&](void* to, uint64_t numbers) {
    file.read(to, numbers * sizeof(float), at);
    at += numbers * sizeof(float);
  };
  take(state.tokens.data(), N);
  take(state.targets.data(), N);
  take(state.logits.data(), logits);
  take(&state.loss, 1);
  for (const std::vector<int>* list : {&state.tokens, &state.targets})
    for (const int token : *list)
      if (token < 0 || token >= c.vocab_size) file.fail(" has a token " + std::to_string(token) + ", which is none");
  read_flat(state.gradients.data(), file, at, FlatType::f32, rows, c);
  return state;
}
