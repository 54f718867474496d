#include "llmc.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>

#include "data/formats/huggingface/architectures.hpp"
#include "data/tokenizer/files/llmc_tokenizer.hpp"
#include "flat_weights.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int kModelMagic = 20240326, kLlamaMagic = 20240803;
constexpr int kPadTo = 128;  // llm.c pads the vocabulary to a multiple of this

struct Version {
  int number;
  const char* dtype;
  FlatType type;
};
constexpr Version kVersions[] = {{3, "f32", FlatType::f32}, {5, "bf16", FlatType::bf16}};

using LlmcHeader = std::array<int32_t, 256>;
enum Field { kMagic, kVersion, kContext, kVocabulary, kLayers, kHeads, kChannels, kPadded, kFields };

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

// ---- reading ---------------------------------------------------------------------------------------------

LlmcHeader read_header(const InputFile& file) {
  LlmcHeader header;
  if (file.size() < sizeof header) file.fail(" is truncated: it is shorter than a header of 1024 bytes");
  file.read(header.data(), sizeof header, 0);
  return header;
}

// Requires that the ints after the fields are 0.
void require_zeros(const InputFile& file, const LlmcHeader& header) {
  for (int i = kFields; i < int(header.size()); ++i)
    if (header[i] != 0) file.fail(" has " + std::to_string(header[i]) + " in int " + std::to_string(i) +
                                  " of its header, where llm.c has 0: is it of a newer version?");
}

// Returns the first int of a file, or 0 if it is too short.
int32_t magic_of(const std::string& path) {
  if (!fs::is_regular_file(path) || fs::file_size(path) < sizeof(int32_t)) return 0;
  int32_t magic = 0;
  InputFile(path).read(&magic, sizeof magic, 0);
  return magic;
}

class LlmcModel : public FlatModel {
 public:
  explicit LlmcModel(const std::string& path) : FlatModel(path, kLlmcTokenizer, read_llmc_tokenizer) {
    const LlmcHeader header = read_header(file_);
    if (header[kMagic] == kLlamaMagic) file_.fail(" is a Llama 3 model of llm.c; train_gpt reads its GPT-2 only");
    if (header[kMagic] != kModelMagic) file_.fail(" is not a model of llm.c");
    const auto version = std::find_if(std::begin(kVersions), std::end(kVersions),
                                      [&](const Version& v) { return v.number == header[kVersion]; });
    if (version == std::end(kVersions))
      file_.fail(" has version " + std::to_string(header[kVersion]) +
                 "; train_gpt reads 3 (f32) and 5 (bf16): write it again with a newer train_gpt2.py");
    require_zeros(file_, header);
    const std::string unusable = file_.path() + " has a header that cannot be used: ";
    const Config config = explained(unusable, [&] { return config_of(header); });
    if (header[kPadded] < config.vocab_size)
      throw std::runtime_error(unusable + "the vocabulary of " + std::to_string(config.vocab_size) + " is padded to " +
                               std::to_string(header[kPadded]));
    set(config, sizeof header, version->type, llmc_rows(config, header[kPadded]));
  }

  const char* preset() const override { return gpt2()[0].preset; }
};

}  // namespace

int llmc_padded(int vocabulary) { return (vocabulary + kPadTo - 1) / kPadTo * kPadTo; }

std::vector<FlatRow> llmc_rows(const Config& config, int padded_vocabulary) {
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
  const int pad = llmc_padded(config.vocab_size);
  LlmcHeader header{kModelMagic, version->number, config.context, config.vocab_size,
                    config.n_layer, config.n_head, config.channels, pad};
  WholeFile file((fs::path(folder) / kFlatFile).string()), tokenizer((fs::path(folder) / kLlmcTokenizer).string());
  file.write(header.data(), sizeof header);
  write_flat(file, version->type, llmc_rows(config, pad), config, model.table, model.weights.get());
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
