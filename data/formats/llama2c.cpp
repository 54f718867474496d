#include "llama2c.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "data/formats/huggingface/architectures.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "flat_weights.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int32_t kVersionedMagic = 0x616b3432;  // "ak42": versions 1 and 2

// Version 0 begins with this header. Later versions begin with kVersionedMagic and their number.
struct Llama2cHeader {
  int32_t channels, hidden, layers, heads, kv_heads, vocabulary, context;
};

// ---- the model in the header -----------------------------------------------------------------------------

ConfigField fixed(float Config::*member, float value) {
  return {[=](Config& c, const json&) { c.*member = value; }, [](json&, const Config&) {}};
}

ConfigField tied() {
  return {[](Config& c, const json& file) { c.tied = file.at("shared_weights"); },
          [](json& file, const Config& c) { file["shared_weights"] = c.tied; }};
}

// The keys are the members of run.c's Config.
const std::vector<Architecture>& llama() {
  static const std::vector<Architecture> rows = {
      {"llama", "Llama", "llama2", false,
       {header_field("dim", &Config::channels), header_field("hidden_dim", &Config::hidden),
        header_field("n_layers", &Config::n_layer), header_field("n_heads", &Config::n_head),
        header_field("n_kv_heads", &Config::kv_heads), header_field("vocab_size", &Config::vocab_size),
        header_field("seq_len", &Config::context), tied(),
        fixed(&Config::norm_eps, 1e-5f), fixed(&Config::rope_theta, 10000)},
       {}}};
  return rows;
}

Config config_of(const Llama2cHeader& header) {
  const int64_t vocabulary = header.vocabulary;
  return config_of(llama()[0], {{"dim", header.channels},
                                {"hidden_dim", header.hidden},
                                {"n_layers", header.layers},
                                {"n_heads", header.heads},
                                {"n_kv_heads", header.kv_heads},
                                {"vocab_size", std::abs(vocabulary)},
                                {"seq_len", header.context},
                                {"shared_weights", vocabulary > 0}});
}

Config config_in_llama2c(const Config& config) { return expressed(config, llama(), "model of llama2.c").config; }

// ---- tensors ---------------------------------------------------------------------------------------------

// Returns the RoPE angle of pair i at position t, for element t·D/2 + i. run.c computes the angles itself; similar
// programs read them.
double angle(uint64_t element, const Config& c) {
  const uint64_t half = c.head_dim / 2, t = element / half, i = element % half;
  return static_cast<double>(t) * std::pow(double(c.rope_theta), -2. * static_cast<double>(i) / c.head_dim);
}
float cosine_or_sine(uint64_t element, const Config& c) {
  const uint64_t cosines = static_cast<uint64_t>(c.context) * (c.head_dim / 2);
  return static_cast<float>(element < cosines ? std::cos(angle(element, c)) : std::sin(angle(element - cosines, c)));
}

std::vector<FlatRow> flat_rows(const Config& config) {
  const std::string attention = "block.#.attention.", ffn = "block.#.ffn.";
  std::vector<FlatRow> rows = {
      {{"embedding.token.weight"}},
      {{attention + "norm_in.gain"}},
      {{attention + "q.weight"}, of_neighbors},
      {{attention + "k.weight"}, of_neighbors},
      {{attention + "v.weight"}},
      {{attention + "o.weight"}},
      {{ffn + "norm_in.gain"}},
      {{ffn + "gate.weight"}},
      {{ffn + "down.weight"}},
      {{ffn + "up.weight"}},
      {{"final_norm.gain"}, nullptr, static_cast<uint64_t>(config.context) * config.head_dim, cosine_or_sine}};
  if (!config.tied) rows.push_back({{"head.weight"}});
  return rows;
}

// ---- reading ---------------------------------------------------------------------------------------------

class Llama2cModel : public FlatModel {
 public:
  explicit Llama2cModel(const std::string& path) : FlatModel(path, kLlama2cTokenizer, read_pieces_tokenizer) {
    Llama2cHeader header;
    if (file_.size() < sizeof header) file_.fail(" is truncated: it is shorter than a header of 28 bytes");
    file_.read(&header, sizeof header, 0);
    if (header.channels == kVersionedMagic)
      file_.fail(" has version " + std::to_string(header.hidden) +
                 " of llama2.c; train_gpt reads version 0: write it again with export.py --version 0");
    const Config config = explained(file_.path() + " has a header that cannot be used: ",
                                    [&] { return config_of(header); });
    set(config, sizeof header, FlatType::f32, flat_rows(config));
  }

  const char* preset() const override { return llama()[0].preset; }

 private:
  static Tokenizer read_pieces_tokenizer(const std::string& path) { return Tokenizer::pieces(read_pieces(path)); }
};

const Pieces& pieces_of(const Tokenizer& tokenizer) {
  if (!tokenizer.pieces())
    throw std::invalid_argument(
        "llama2.c reads SentencePiece tokenizers only: train with --tokenizer and the path of a tokenizer.model");
  return *tokenizer.pieces();
}

}  // namespace

bool is_llama2c(const std::string& path) {
  const std::string name = flat_file(path);
  Llama2cHeader header;
  if (!fs::is_regular_file(name) || fs::file_size(name) < sizeof header) return false;
  InputFile(name).read(&header, sizeof header, 0);
  try {
    return header.channels == kVersionedMagic || config_of(header).vocab_size > 0;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

std::unique_ptr<ForeignModel> open_llama2c(const std::string& path) { return std::make_unique<Llama2cModel>(path); }

// ---- writing ---------------------------------------------------------------------------------------------

void check_llama2c(const ExportedModel& exported) {
  config_in_llama2c(exported.model.config);
  to_llama2c(pieces_of(exported.tokenizer));
}

std::string write_llama2c(const std::string& folder, const ExportedModel& exported) {
  const Model& model = exported.model;
  const Config c = config_in_llama2c(model.config);
  const Llama2cHeader header{c.channels, c.hidden, c.n_layer, c.n_head,
                             c.kv_heads, c.tied ? c.vocab_size : -c.vocab_size, c.context};
  WholeFile file((fs::path(folder) / kFlatFile).string()), tokenizer((fs::path(folder) / kLlama2cTokenizer).string());
  file.write(&header, sizeof header);
  write_flat(file, FlatType::f32, flat_rows(c), c, model.table, model.weights.get());
  tokenizer.write(to_llama2c(pieces_of(exported.tokenizer)));
  for (WholeFile* whole : {&file, &tokenizer}) whole->finish();
  for (WholeFile* whole : {&file, &tokenizer}) whole->publish();
  return std::string("Llama of llama2.c, version 0, in ") + kFlatFile + ", with " + kLlama2cTokenizer;
}

bool is_llama2c_export(const std::string& folder) {
  return is_llama2c(folder) && is_there((fs::path(folder) / kLlama2cTokenizer).string());
}
