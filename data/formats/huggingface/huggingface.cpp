#include "huggingface.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string_view>

#include "architectures.hpp"
#include "companions.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/foreign_tensors.hpp"
#include "data/formats/foreign_tokenizer.hpp"
#include "data/formats/pytorch/pytorch_file.hpp"
#include "data/formats/safetensors.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "data/text/masking.hpp"
#include "data/text/readers/pairs.hpp"
#include "data/text/spans.hpp"
#include "data/tokenizer/files/bpe_json.hpp"
#include "data/tokenizer/files/character_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/embedding/position.hpp"
#include "layers/model/size.hpp"
#include "modeling.hpp"
#include "peft.hpp"
#include "peft_model.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char *kConfig = "/config.json", *kWeights = "/model.safetensors", *kTokenizer = "train_gpt_tokenizer";
constexpr const char* kLogitsBias = "final_logits_bias";  // of BART; files may lack it
constexpr const char* kDecoderStart = "decoder_start_token_id";
constexpr const char* kNoTokenizer =
    "; no tokenizer.json: transformers needs the tokenizer.model that --tokenizer named, in the same folder";
constexpr size_t kLargestConfig = 64 << 20;  // bytes; the file may hold a character vocabulary

// ---- tensors in a folder ---------------------------------------------------------------------------------

HeldTensors held_in(const std::string& folder) {
  const bool safe = fs::exists(folder + kWeights) || fs::exists(folder + kWeights + ".index.json");
  if (!safe && has_pytorch_weights(folder)) return read_pytorch_folder(folder);
  const auto stored = std::make_shared<const StoredTensors>(folder);
  HeldTensors held;
  for (const StoredTensor& t : stored->all())
    held[t.name] = {stored->path_of(t), t.shape, [stored, &t](float* to) { stored->read(to, t); },
                    dtype_of_stored(t.type_name),
                    [stored, &t](float* to, uint64_t first, uint64_t n) { stored->read(to, t, first, n); }};
  return held;
}

void rename(HeldTensors& held, const std::string& from, const std::string& to) {
  if (auto found = held.extract(from); !found.empty()) {
    found.key() = to;
    held.insert(std::move(found));
  }
}

// The name of a tensor of a LayerNorm in BERT's first programs, or "".
std::string first_name(const std::string& name) {
  for (const auto& [now, then] : {std::pair("weight", "gamma"), {"bias", "beta"}})
    if (name.ends_with(std::string("LayerNorm.") + now)) return name.substr(0, name.rfind('.') + 1) + then;
  return "";
}

// Files of a model without its head have names without the first word: "h.0.ln_1.weight".
void complete_names(HeldTensors& held, const ForeignTensors& wanted) {
  for (const auto& [name, tensor] : wanted)
    for (const std::string& other : {name.substr(name.find('.') + 1), first_name(name)})
      if (!held.contains(name)) rename(held, other, name);
}

// Files may have the layers of BERT that predict no token.
Pooler pooler_in(const HeldTensors& held, const Architecture& architecture) {
  if (!held.contains(std::string(architecture.prefix) + ".pooler.dense.weight")) return Pooler::none;
  return held.contains("cls.seq_relationship.weight") ? Pooler::next_sentence : Pooler::dense;
}

// True for constants that older versions stored, such as sinusoidal positions, and a tensor of T5 that none reads.
bool is_constant(const std::string& name) {
  constexpr std::string_view kConstants[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                             ".attention.masked_bias", ".rotary_emb.inv_freq",
                                             ".embeddings.position_ids", ".embed_positions.weight",
                                             "encoder.version", "decoder.version",
                                             ".EncDecAttention.relative_attention_bias.weight"};
  return std::any_of(std::begin(kConstants), std::end(kConstants), [&](auto end) { return name.ends_with(end); });
}

// Refuses weights that are no floats.
void require_floats(const json& file) {
  const json quantized = file.value("quantization_config", json());
  if (!quantized.is_object()) return;
  const json method = quantized.value("quant_method", json("unknown"));
  throw std::runtime_error(
      "its weights are quantized (quantization_config: " + one_line(to_text(method)) +
      "), and train_gpt reads floats only: " +
      (method == "mxfp4" ? "load it in transformers with quantization_config=Mxfp4Config(dequantize=True) and save it"
                         : "use the model that it was made from"));
}

const Architecture& architecture_of(const json& file) {
  if (!file.is_object()) throw std::runtime_error("it is not an object");
  require_floats(file);
  const json model_type = file.value("model_type", json());
  if (const Architecture* row = find_architecture(file)) return *row;
  std::set<std::string> known;
  for (const Architecture& row : architectures()) known.insert(row.model_type);
  std::string list;
  for (const std::string& name : known) list += " " + name;
  throw std::runtime_error("model_type is " + (model_type.is_string() ? in_quotes(model_type.get<std::string>())
                                                                     : one_line(to_text(model_type))) +
                           ", and train_gpt reads" + list);
}

// Returns the Config of a config.json, and sets its model class.
Config read_config(const std::string& path, const json& file, const Architecture*& architecture) {
  return explained(path + " cannot be used: ", [&] {
    architecture = &architecture_of(file);
    return config_of(*architecture, file);
  });
}

// A folder may bring code for its model, which may compute something else.
void note_own_code(const std::string& path, const json& file, const Architecture& architecture) {
  if (file.contains("auto_map") && architecture.model_type != std::string_view(kModelingType))
    print_note_once(path + " names code of its own (auto_map), which train_gpt does not run: it computes what " +
                    architecture.model_class + " does");
}

// Their name of a tensor of ours.
const std::string& name_of(const std::string& ours, const ForeignTensors& wanted) {
  return std::ranges::find_if(wanted, [&](const auto& row) { return row.second.sources[0].spec.name == ours; })->first;
}

bool equal_numbers(const HeldTensor& a, const HeldTensor& b) {
  if (a.shape != b.shape) return false;
  std::vector<float> of_a(a.size()), of_b(b.size());
  a.read(of_a.data());
  b.read(of_b.data());
  return of_a == of_b;
}

// Returns the token with which a decoder begins; -1 if config.json does not say it.
int start_in(const json& file, int vocabulary) {
  const json start = file.value(kDecoderStart, json());
  if (start.is_null()) return -1;
  const auto token = integer_between(start, 0, vocabulary - 1);
  if (!token) throw std::runtime_error(std::string(kDecoderStart) + " is not one of its " +
                                       std::to_string(vocabulary) + " tokens");
  return static_cast<int>(*token);
}

class HuggingFaceModel : public ForeignModel {
 public:
  explicit HuggingFaceModel(const std::string& folder) : folder_(folder), held_(held_in(folder)) {
    const json file = read_json(folder + kConfig, kLargestConfig);
    config_ = read_config(folder + kConfig, file, architecture_);
    note_own_code(folder + kConfig, file, *architecture_);
    tokenizer_ = file.value(kTokenizer, json());
    if (config_.crosses()) decoder_start_ = start_in(file, config_.vocab_size);
    config_.pooler = pooler_in(held_, *architecture_);
    wanted_ = foreign_tensors(*architecture_, config_);
    complete_names(held_, wanted_);
    std::erase_if(held_, [&](const auto& row) { return !wanted_.contains(row.first) && is_constant(row.first); });
    find_head();
    take_copies();
    require_tensors(folder, kConfig + 1, held_, wanted_);
  }

  const Config& config() const override { return config_; }
  const char* preset() const override { return architecture_->preset; }
  const Architecture& architecture() const { return *architecture_; }
  Tokenizer tokenizer() const override;
  CompanionFiles companions() const override { return read_companions(folder_); }
  std::string chat_template() const override { return chat_template_in(folder_); }
  int decoder_start() const override { return decoder_start_; }
  std::string dtype() const override;
  NumberType numbers() const override;
  void load(const TensorPlaces& to) const override;

 private:
  struct Copy {
    TiedCopy of;
    HeldTensors::node_type tensor;
  };
  Tokenizer with_sentinels(const Tokenizer& tokenizer) const;
  void find_head();
  void take_copies();
  void check_copies() const;

  std::string folder_;
  const Architecture* architecture_ = nullptr;
  Config config_;
  json tokenizer_;  // what write_huggingface() stored, or null
  int decoder_start_ = -1;
  HeldTensors held_;
  std::vector<Copy> copies_;
  ForeignTensors wanted_;
};

// T5's spiece.model has no sentinels: its tokenizer in transformers adds them, 100 unless its own file says how many.
Tokenizer HuggingFaceModel::with_sentinels(const Tokenizer& tokenizer) const {
  constexpr const char *kFile = "/tokenizer_config.json", *kKey = "extra_ids";
  if (!architecture_->weights_tie || !tokenizer.pieces() || spans_with(tokenizer).on()) return tokenizer;
  json count = 100;
  if (fs::exists(folder_ + kFile)) count = read_json(folder_ + kFile, kLargestConfig).value(kKey, count);
  const auto most = integer_between(count, 0, config_.vocab_size - tokenizer.vocabulary());
  std::vector<std::string> names;
  for (int64_t i = most.value_or(0); i > 0; --i) names.push_back(sentinel_name(static_cast<int>(i - 1)));
  return tokenizer.with_special(names);
}

// Decides by the file's tensors whether the head has a bias, and whether it is tied.
void HuggingFaceModel::find_head() {
  if (wanted_.contains(kLogitsBias) && !held_.contains(kLogitsBias)) config_.head_bias = false;
  wanted_ = foreign_tensors(*architecture_, config_);
  if (!architecture_->weights_tie) return;
  const TiedCopy& copy = architecture_->copies[0];
  const auto head = held_.find(copy.theirs), embedding = held_.find(name_of(copy.ours, wanted_));
  if (head == held_.end()) config_.tied = true;
  else if (config_.tied && embedding != held_.end()) config_.tied = equal_numbers(head->second, embedding->second);
  wanted_ = foreign_tensors(*architecture_, config_);
}

// Takes the copies out of the file's tensors. If the tensor that it repeats is not there, a copy is it.
void HuggingFaceModel::take_copies() {
  for (const TiedCopy& copy : architecture_->copies) {
    if (!(config_.tied || copy.always) || !held_.contains(copy.theirs)) continue;
    const std::string& name = name_of(copy.ours, wanted_);
    if (held_.contains(name)) copies_.push_back({copy, held_.extract(copy.theirs)});
    else rename(held_, copy.theirs, name);
  }
}

Tokenizer HuggingFaceModel::tokenizer() const {
  if (!tokenizer_.is_null()) try {
      return tokenizer_from_json(tokenizer_);
    } catch (const std::exception& error) {
      throw std::runtime_error(folder_ + " has a tokenizer that cannot be read: " + one_line(plain_text(error)));
    }
  if (!first_file(folder_, kTokenizerFiles).empty())
    return with_sentinels(read_or_keep([&] { return read_tokenizer(folder_); }, config_.vocab_size,
                                       folder_ + "/tokenizer.json").finding_special(true));
  if (config_.vocab_size == 256) return Tokenizer::bytes();
  return no_tokenizer(folder_ + " has no tokenizer (copy a tokenizer.json into it)", config_.vocab_size);
}

// The largest tensor's.
std::string HuggingFaceModel::dtype() const {
  const auto smaller = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const auto largest = std::max_element(held_.begin(), held_.end(), smaller);
  return largest == held_.end() ? "" : largest->second.dtype;
}

NumberType HuggingFaceModel::numbers() const {
  const auto all = [&](const FloatType& type) {
    return std::ranges::all_of(held_, [&](const auto& t) { return t.second.dtype == type.name; });
  };
  return all(kBfloat16) ? NumberType::bf16 : all(kFloat16) ? NumberType::fp16 : NumberType::fp32;
}

// Throws if two tied tensors differ: transformers does not tie such tensors, whatever config.json says.
void HuggingFaceModel::check_copies() const {
  for (const auto& [of, tensor] : copies_)
    if (!equal_numbers(tensor.mapped(), held_.at(name_of(of.ours, wanted_))))
      throw std::runtime_error(tensor.mapped().file + " holds another " + tensor.key() +
                               " than the tensor that it repeats, and " +
                               (of.always ? "train_gpt has one for both" : folder_ + kConfig + " ties the two: set "
                                                                           "tie_word_embeddings to false there"));
}

void HuggingFaceModel::load(const TensorPlaces& to) const {
  check_copies();
  load_tensors(to, folder_, held_, wanted_, config_);
}

}  // namespace

bool is_huggingface_folder(const std::string& path) {
  return fs::is_regular_file(path + kConfig) || has_adapters(path);
}

std::unique_ptr<ForeignModel> open_huggingface(const std::string& folder) {
  if (has_adapters(folder)) return open_adapted(folder, base_of_adapters(folder));
  return std::make_unique<HuggingFaceModel>(folder);
}

std::unique_ptr<ForeignModel> open_adapted(const std::string& adapters, const std::string& base) {
  if (!fs::is_regular_file(base + kConfig)) throw std::runtime_error(base + " is no folder of a model of transformers");
  if (base != adapters && has_adapters(base))
    throw std::runtime_error(base + " holds adapters itself: write the model with export --lora-merge first");
  auto model = std::make_unique<HuggingFaceModel>(base);
  const Architecture& architecture = model->architecture();
  return open_adapters(adapters, std::move(model), base, architecture);
}

std::string whole_model_of(const std::string& folder) {
  if (folder.empty() || !is_huggingface_folder(folder)) return "";
  try {
    return absolute_path(has_adapters(folder) ? base_of_adapters(folder) : folder);
  } catch (const std::runtime_error&) {
    return "";
  }
}

// ---- writing ---------------------------------------------------------------------------------------------

void check_huggingface(const ExportedModel& exported) {
  if (exported.model.config.lora_rank > 0) check_adapters(exported);
  else class_of(exported.model.config, exported.companions);
  const FloatType& type = find_float_type(exported.dtype);
  for (const TensorSpec& spec : exported.model.table)
    for (size_t i = 0; i < spec.size(); ++i)
      check_limit(exported.model.weights[spec.offset + i], type.limit, type.name, spec.name);
}

namespace {

void write_json(const std::string& path, const json& file) { write_file(path, to_text(file, 2) + "\n"); }

// Returns the text of tokenizer.json, or "" for SentencePiece, which we do not write. A byte tokenizer becomes a
// byte-pair encoding without merges.
std::string tokenizer_text(const Tokenizer& tokenizer) {
  switch (tokenizer.kind()) {
    case Tokenizer::Kind::bpe: return to_json(*tokenizer.bpe());
    case Tokenizer::Kind::character:
      return to_text(word_level(tokenizer.alphabet(), tokenizer.added(), tokenizer.begin() >= 0), 2) + "\n";
    case Tokenizer::Kind::pieces: return "";
    case Tokenizer::Kind::unread: return tokenizer.unread()->file;
    case Tokenizer::Kind::byte: break;
  }
  BpeTables tables;
  for (int byte = 0; byte < 256; ++byte) tables.tokens.push_back(tokenizer.decode(byte));
  const Tokenizer bytes = Tokenizer::bpe(Bpe(std::move(tables))).with_special(tokenizer.added());
  return to_json(*bytes.with_begin(tokenizer.begin()).bpe());
}

// A model with an encoder reads sources between these tokens, so the file puts them around a text, unless it does so
// already.
std::string with_source_tokens(const std::string& file, const ExportedModel& exported) {
  const Tokenizer& tokenizer = exported.tokenizer;
  const auto special = [&](int token) {
    return SpecialToken{static_cast<uint32_t>(token), tokenizer.name_of_special(token)};
  };
  const SpecialToken begin = special(tokenizer.begin()), end = special(exported.end);
  const bool ends = tokenizer.bpe() && tokenizer.bpe()->tables().end == exported.end;
  if (exported.decoder_start < 0 || end.name.empty() || ends || tokenizer.unread()) return file;
  return json_with_around(file, begin.name.empty() ? nullptr : &begin, &end);
}

// Returns the number of the token that ends a document, or null.
json end_of_text(const Tokenizer& tokenizer) {
  if (tokenizer.pieces()) return nullptr;
  for (const std::string& name : tokenizer.added())
    if (name != kMaskName) return tokenizer.special(name);
  if (tokenizer.bpe())
    for (const SpecialToken& special : tokenizer.bpe()->tables().special)
      if (special.name == kEndOfText) return special.token;
  return nullptr;
}

// Return the tokens that begin and end a text, or null.
json begin_of(const Tokenizer& tokenizer) {
  return tokenizer.begin() >= 0 ? json(tokenizer.begin()) : end_of_text(tokenizer);
}
json end_of(const ExportedModel& exported) {
  const int end = end_of_answers(exported);
  return end >= 0 ? json(end) : end_of_text(exported.tokenizer);
}

// Returns the numbers of special tokens, by their keys. A decoder's first token is also the padding, unless the
// tokenizer has a token for it.
json numbered_tokens(const ExportedModel& exported) {
  json tokens = {{"bos_token_id", begin_of(exported.tokenizer)}, {"eos_token_id", end_of(exported)}};
  if (exported.decoder_start < 0) return tokens;
  const std::vector<std::string> names = exported.tokenizer.special_names();
  const bool pads = std::ranges::find(names, kPadding) != names.end();
  tokens["pad_token_id"] = pads ? exported.tokenizer.special(kPadding) : exported.decoder_start;
  tokens[kDecoderStart] = exported.decoder_start;
  return tokens;
}

// The values that training has decided: what ends an answer, and how a conversation is written.
json decided_tokens(const ExportedModel& exported) {
  if (exported.chat_template.empty()) return json::object();
  return {{"eos_token_id", end_of(exported)}};
}

json tokenizer_config(const ExportedModel& exported, int context) {
  const Tokenizer& tokenizer = exported.tokenizer;
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", context}};
  for (const auto& [name, token] : {std::pair("bos_token", begin_of(tokenizer)), {"eos_token", end_of(exported)}})
    if (!token.is_null()) config[name] = tokenizer.name_of_special(token);
  if (const std::string mask = mask_name(tokenizer); !mask.empty()) config["mask_token"] = mask;
  const json numbers = numbered_tokens(exported);
  if (numbers.contains("pad_token_id")) config["pad_token"] = tokenizer.name_of_special(numbers.at("pad_token_id"));
  if (!exported.chat_template.empty()) config["chat_template"] = exported.chat_template;
  return config;
}

// Writes the files that came with the model. If it has learned conversations, they say how it writes them.
void write_companions(const std::string& folder, const ExportedModel& exported, int context) {
  const bool talks = !exported.chat_template.empty();
  for (const auto& [name, text] : exported.companions) {
    const std::string path = folder + "/" + name;
    if (path == folder + kConfig || (talks && name.starts_with("chat_template"))) continue;
    json values = json::object();
    if (talks && name == "generation_config.json") values = decided_tokens(exported);
    if (talks && name == "tokenizer_config.json") {
      const json own = tokenizer_config(exported, context);
      for (const char* key : {"chat_template", "eos_token"})
        if (own.contains(key)) values[key] = own.at(key);
    }
    write_file(path, values.empty() ? text : with_values(text, values));
  }
}

// Writes the files of a tokenizer that did not come with the model.
void write_tokenizer(const std::string& folder, const ExportedModel& exported, int context) {
  const std::string text = tokenizer_text(exported.tokenizer);
  if (text.empty()) return;
  write_file(folder + "/tokenizer.json", with_source_tokens(text, exported));
  const bool talks = !exported.chat_template.empty();
  if (exported.companions.empty() || (talks && !exported.companions.contains("tokenizer_config.json")))
    write_json(folder + "/tokenizer_config.json", tokenizer_config(exported, context));
}

bool is_ours(const Architecture& architecture) { return std::string_view(architecture.model_type) == kModelingType; }

bool has_pieces(const CompanionFiles& companions) {
  return companions.contains("tokenizer.model") || companions.contains("spiece.model");
}

std::string described(const Expressed& as) {
  if (!is_ours(as.architecture)) return std::string(as.architecture.model_class) + " of transformers";
  return std::string(as.architecture.model_class) + " of " + kModelingFile +
         " (load it with trust_remote_code=True; " + as.why + ")";
}

// All classes, beginning with this one. A model may fit several, and goes back as the one that it came as.
std::vector<Architecture> first_of(const Architecture* first) {
  std::vector<Architecture> rows = architectures();
  if (!first) return rows;
  const auto at = rows.begin() + (first - architectures().data());
  std::rotate(rows.begin(), at, at + 1);
  return rows;
}

// Returns the sinusoidal positions (T,C), all sines before the cosines.
std::vector<float> sines_first(const Config& config) {
  const size_t T = config.context, C = config.channels;
  const Buffer alternating = sinusoids(config.context, config.channels);
  std::vector<float> values(T * C);
  for (size_t t = 0; t < T; ++t)
    for (size_t c = 0; c < C; ++c) values[t * C + of_sines_first(c, config)] = alternating[t * C + c];
  return values;
}

}  // namespace

std::string write_huggingface(const std::string& folder, const ExportedModel& exported) {
  if (exported.model.config.lora_rank > 0) return write_adapters(folder, exported);
  const Model& model = exported.model;
  const std::vector<Architecture> classes = first_of(architecture_of(exported.companions));
  const Expressed as = expressed(model.config, classes);
  const Architecture& architecture = as.architecture;
  const Config& config = as.config;
  const auto tensors = foreign_tensors(architecture, config);
  std::vector<NewTensor> rows;
  for (const auto& [name, tensor] : tensors)
    rows.push_back({name, tensor.shape(), [&tensor = tensor, &config = config, &model] {
                      return values_of(tensor, config, model);
                    }});
  for (const char* name : architecture.sinusoids)
    rows.push_back({name, {uint64_t(config.context), uint64_t(config.channels)}, [&] { return sines_first(config); }});
  const FloatType& type = find_float_type(exported.dtype);
  write_safetensors(folder + kWeights, rows, kExportMetadata, type);
  const json tokens = numbered_tokens(exported);
  const CompanionFiles& companions = exported.companions;
  json file = config_json(architecture, config), decided = decided_tokens(exported);
  file["torch_dtype"] = type.torch;
  file.update(tokens);
  if (companions.empty() && !exported.tokenizer.bpe()) decided[kTokenizer] = to_json(exported.tokenizer);
  file.update(decided);
  write_file(folder + kConfig, config_text(companions, architecture, config, file, decided,
                                           exported.dtype != exported.came_dtype));
  if (companions.empty()) write_json(folder + "/generation_config.json", tokens);
  write_companions(folder, exported, config.context);
  write_tokenizer(folder, exported, config.context);
  if (is_ours(architecture)) write_file(folder + "/" + kModelingFile, modeling_text());
  return described(as) + ", " + counted(static_cast<double>(count_parameters(model.table)), "parameter") +
         ", in " + type.torch +
         (exported.tokenizer.pieces() && !has_pieces(companions) ? kNoTokenizer : "");
}

std::vector<std::string> files_of_huggingface() {
  std::vector<std::string> names = companion_names();
  for (const char* more : {"tokenizer.json", kModelingFile, "adapter_config.json", "adapter_model.safetensors",
                           kWeights + 1})
    names.push_back(more);
  return names;
}

bool is_huggingface_export(const std::string& folder) {
  if (is_there(folder + "/model.safetensors.index.json")) return false;  // it names other weights
  for (const std::string name : {kWeights, "/adapter_model.safetensors"}) try {
      if (is_there(folder + name) && StoredTensors(folder + name).metadata() == kExportMetadata) return true;
    } catch (const std::runtime_error&) {  // the file is damaged, or of another kind
    }
  return false;
}
