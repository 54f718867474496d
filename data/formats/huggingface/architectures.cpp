#include "architectures.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <variant>

#include "data/options/command_settings.hpp"
#include "data/strings/errors.hpp"
#include "layers/config/fields.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/resolve.hpp"
#include "layers/norm/norm.hpp"
#include "modeling.hpp"

using nlohmann::json;

namespace {

// All fields of a class of ours, which is for models of this objective.
ConfigField own_field(Objective objective) {
  return {[=](Config& c, const json& file) {
            c = read_modeling_config(file);
            c.objective = objective;
          },
          write_modeling_config};
}

}  // namespace

// ---- the classes -----------------------------------------------------------------------------------------

const std::vector<Architecture>& architectures() {
  static const std::vector<TiedCopy> kRobertaCopies = {{"lm_head.decoder.weight", "embedding.token.weight"},
                                                       {"lm_head.decoder.bias", "head.bias"}};
  static const std::vector<TiedCopy> kT5Copies = {{"lm_head.weight", "embedding.token.weight"},
                                                  {"encoder.embed_tokens.weight", "embedding.token.weight", true},
                                                  {"decoder.embed_tokens.weight", "embedding.token.weight", true}};
  static const std::vector<TiedCopy> kBartCopies = {{"lm_head.weight", "embedding.token.weight"},
                                                    {"model.encoder.embed_tokens.weight", "embedding.token.weight"},
                                                    {"model.decoder.embed_tokens.weight", "embedding.token.weight"}};
  static const std::vector<Architecture> rows = {
      // model_type, class, preset, always biased, config.json, tensors
      {"gpt2", "GPT2LMHeadModel", "gpt2", true, kGpt2Fields, kGpt2Modules},
      {"llama", "LlamaForCausalLM", "llama", false, kLlamaFields, kLlamaModules},
      {"mistral", "MistralForCausalLM", "mistral", false, kMistralFields, kLlamaModules},
      {"qwen2", "Qwen2ForCausalLM", "qwen2", false, kQwen2Fields, kLlamaModules},
      {"qwen3", "Qwen3ForCausalLM", "qwen3", false, kQwen3Fields, kLlamaModules},
      {"mixtral", "MixtralForCausalLM", "mixtral", false, kMixtralFields, kMixtralModules},
      {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3-moe", false, kQwen3MoeFields, kQwen3MoeModules},
      {"olmoe", "OlmoeForCausalLM", "olmoe", false, kOlmoeFields, kQwen3MoeModules},
      {"gpt_oss", "GptOssForCausalLM", "gpt-oss", false, kGptOssFields, kGptOssModules},
      {"olmo2", "Olmo2ForCausalLM", "olmo2", false, kOlmo2Fields, kReorderedModules},
      {"olmo3", "Olmo3ForCausalLM", "olmo2", false, kOlmo3Fields, kReorderedModules},
      {"olmo", "OlmoForCausalLM", "llama", false, kOlmoFields, kLlamaModules},
      {"granite", "GraniteForCausalLM", "llama", false, kGraniteFields, kLlamaModules},
      {"hyperclovax", "HyperCLOVAXForCausalLM", "llama", false, kHyperclovaxFields, kHyperclovaxModules},
      {"smollm3", "SmolLM3ForCausalLM", "llama", false, kSmollm3Fields, kLlamaModules},
      {"gemma2", "Gemma2ForCausalLM", "gemma2", false, kGemma2Fields, kSandwichModules},
      {"gemma3_text", "Gemma3ForCausalLM", "gemma3", false, kGemma3Fields, kSandwichModules},
      {"openai-gpt", "OpenAIGPTLMHeadModel", "gpt1", true, kGpt1Fields, kGpt1Modules},
      {"bert", "BertForMaskedLM", "bert", true, kBertFields, kBertModules, json::object(), "bert",
       {{"cls.predictions.decoder.weight", "embedding.token.weight"}, {"cls.predictions.decoder.bias", "head.bias"}}},
      {"roberta", "RobertaForMaskedLM", "roberta", true, kRobertaFields, kRobertaModules, json::object(), "roberta",
       kRobertaCopies},
      {"xlm-roberta", "XLMRobertaForMaskedLM", "roberta", true, kRobertaFields, kRobertaModules, json::object(),
       "roberta", kRobertaCopies},
      {"camembert", "CamembertForMaskedLM", "roberta", true, kRobertaFields, kRobertaModules, json::object(),
       "roberta", kRobertaCopies},
      {"t5", "T5ForConditionalGeneration", "t5", false, kT5Fields, kT5Modules, json::object(), "", kT5Copies, {}, true},
      {"mt5", "MT5ForConditionalGeneration", "t5-v1.1", false, kMt5Fields, kT5Modules, json::object(), "", kT5Copies,
       {}, true},
      {"marian", "MarianMTModel", "transformer", true, kMarianFields, kMarianModules, json::object(), "", kBartCopies},
      {"bart", "BartForConditionalGeneration", "transformer", true, kBartFields, kBartModules, json::object(), "",
       kBartCopies},
      {"mbart", "MBartForConditionalGeneration", "transformer", true, kMbartFields, kBartModules, json::object(), "",
       kBartCopies},
      {"pegasus", "PegasusForConditionalGeneration", "transformer", true, kPegasusFields, kMarianModules,
       json::object(), "", kBartCopies,
       {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}},
      {"gpt_bigcode", "GPTBigCodeForCausalLM", "gpt2", true, kGptBigcodeFields, kGptBigcodeModules},
      {"opt", "OPTForCausalLM", "opt-350m", true, kOptFields, kOptModules},
      {"bloom", "BloomForCausalLM", "bloom", true, kBloomFields, kBloomModules},
      {"falcon", "FalconForCausalLM", "falcon-40b", false, kFalcon40bFields, kFalcon40bModules,
       {{"new_decoder_architecture", true}}},
      {"falcon", "FalconForCausalLM", "falcon-7b", false, kFalcon7bFields, kFalcon7bModules},
      {"gpt_neo", "GPTNeoForCausalLM", "gpt2", false, kGptNeoFields, kGptNeoModules},
      {"gpt_neox", "GPTNeoXForCausalLM", "gpt-neox", true, kGptNeoxFields, kGptNeoxModules},
      {"gptj", "GPTJForCausalLM", "phi-2", false, kGptjFields, kGptjModules},
      {"codegen", "CodeGenForCausalLM", "phi-2", false, kCodegenFields, kCodegenModules},
      {"phi", "PhiForCausalLM", "phi-2", true, kPhiFields, kPhiModules},
      {"phi3", "Phi3ForCausalLM", "mistral", false, kPhi3Fields, kPhi3Modules},
      {"glm", "GlmForCausalLM", "chatglm2-6b", false, kGlmFields, kGlmModules},
      {"glm4", "Glm4ForCausalLM", "chatglm2-6b", false, kGlm4Fields, kGlm4Modules},
      {"cohere", "CohereForCausalLM", "llama", false, kCohereFields, kCohereModules},
      {"cohere2", "Cohere2ForCausalLM", "llama", false, kCohere2Fields, kCohereModules},
      {"nanochat", "NanoChatForCausalLM", "llama", false, kNanochatFields, kNanochatModules},
      {"gemma", "GemmaForCausalLM", "gemma2", false, kGemmaFields, kLlamaModules},
      {"stablelm", "StableLmForCausalLM", "llama", false, kStablelmFields, kLlamaModules},
      {"starcoder2", "Starcoder2ForCausalLM", "gpt2", true, kStarcoder2Fields, kStarcoder2Modules},
      {kModelingType, kMaskedModelingClass, "bert", false, {own_field(Objective::mlm)}, {}, {{"objective", "mlm"}}},
      {kModelingType, kPairsModelingClass, "transformer", false, {own_field(Objective::pairs)}, {},
       {{"objective", "pairs"}}},
      {kModelingType, kPairsModelingClass, "transformer", false, {own_field(Objective::span)}, {},
       {{"objective", "span"}}},
      {kModelingType, kModelingClass, "gpt2", false, {own_field(Objective::lm)}, {}},
  };
  return rows;
}

const Architecture* find_architecture(const json& file) {
  const auto holds = [&](const json& variant) {
    for (const auto& [key, value] : variant.items())
      if (!file.contains(key) || file.at(key) != value) return false;
    return true;
  };
  for (const Architecture& row : architectures())
    if (file.value("model_type", json()) == row.model_type && holds(row.variant)) return &row;
  return nullptr;
}

Config config_of(const Architecture& architecture, const json& file) {
  Config c = preset_config(architecture.preset, "nano");
  c.kv_heads = c.head_dim = c.hidden = 0;
  for (const ConfigFields& fields : {kCausalFields, architecture.fields})
    for (const ConfigField& field : fields) field.read(c, file);
  return resolve(c);
}

json config_json(const Architecture& architecture, const Config& config) {
  json file = {{"model_type", architecture.model_type},
               {"architectures", {architecture.model_class}},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr},
               {"pad_token_id", nullptr}};
  file.update(architecture.variant);
  for (const ConfigField& field : architecture.fields) field.write(file, config);
  return file;
}

// ---- which class a model is ------------------------------------------------------------------------------

namespace {

// True if the field can change what a trained model computes, with the other settings as they are.
bool counts(const Field& field, const Config& c) {
  return !field.initial && !field.training && std::string_view(field.group) != kComputing &&
         std::ranges::all_of(field.needs, [&](const Need<Config>& need) { return !need.met || need.met(c); });
}

void set_to_default(Config& c, const Field& field) {
  const Config standard;
  const auto set = [&](const auto& member) {
    if constexpr (std::is_same_v<decltype(member), const FieldChoice&>)
      member.set(c, field.name, member.get(standard));
    else
      c.*member = standard.*member;
  };
  std::visit(set, field.member);
}

bool has_norm_of(const Config& a, const Config& b) {
  return a.norm == b.norm && a.norm_gain == b.norm_gain && a.norm_bias == b.norm_bias;
}

// Returns the settings that decide what a trained model computes. All others have their defaults.
TrainOptions essence(Config c) {
  c = resolve(c);
  for (const auto factor :
       {&Config::attention_scale, &Config::logit_scale, &Config::embedding_scale, &Config::branch_scale})
    c.*factor = static_cast<float>(*(c.*factor));  // as a model multiplies, and GGUF stores it
  c.rope_fraction = static_cast<float>(static_cast<double>(c.rope_dims()) / c.head_dim);
  if (c.crosses()) c.objective = Objective::pairs;  // spans are pairs, too
  for (const NormSiteRow& row : kNormSites)  // a site that names what it would have anyway
    if (const Config own = at_norm(c, row.name); has_norm_of(own, c)) c.norm_sites[size_t(row.site)].reset();
  for (const Field& field : model_fields())
    if (!counts(field, c)) set_to_default(c, field);
  TrainOptions options;
  options.config = c;
  return options;
}

// Calls f for each setting of the model by which the two differ.
template <class F>
void each_difference(const TrainOptions& a, const TrainOptions& b, const F& f) {
  for (const TrainSetting& s : train_settings())
    if (s.model && s.value(a) != s.value(b)) f(s);
}

// Returns "--window 64 instead of 0" for each option that config.json cannot hold.
std::vector<std::string> losses(const Architecture& architecture, const Config& config) {
  TrainOptions given = essence(config), kept;
  try {
    kept = essence(config_of(architecture, config_json(architecture, config)));
  } catch (const std::exception& error) {
    return std::vector<std::string>(train_settings().size(), plain_text(error));  // any other class is nearer
  }
  std::vector<std::string> list;
  each_difference(given, kept, [&](const TrainSetting& s) {
    list.push_back("--" + s.name + " " + s.value(given) + " (it has " + s.value(kept) + ")");
  });
  return list;
}

Config with_biases(Config c, const Modules& modules) {
  c.bias = true;
  c.qkv_bias = c.o_bias = true;
  c.norm_bias = norm_row(c.norm).bias;
  for (const ModuleRow& row : modules) c.head_bias = c.head_bias || row.ours == std::string_view(kHeadBias);
  return c;
}

// What no format holds, or "".
std::string part_of_ngpt(const Config& c) {
  if (c.placement_row->streams == StreamRule::sphere) return "--placement ngpt";
  if (c.qk_norm == QkNormKind::unit) return "--qk-norm unit";
  if (c.up_gain) return "--up-gain";
  return c.logit_gain ? "--logit-gain" : "";
}

}  // namespace

std::string changed_setting(const Config& of, const Config& from) {
  const TrainOptions a = essence(of), b = essence(from);
  std::string first;
  each_difference(a, b, [&](const TrainSetting& s) {
    if (first.empty()) first = "--" + s.name + " " + s.value(a) + " instead of " + s.value(b);
  });
  std::erase(first, '"');
  return first;
}

Expressed expressed(const Config& config, const std::vector<Architecture>& rows, const std::string& kind) {
  if (config.fix_norm) throw std::logic_error("a model is exported without_fix_norm()");
  if (const std::string part = part_of_ngpt(config); !part.empty())
    throw std::invalid_argument("no " + kind + " has this part of nGPT (" + part +
                                "): a run directory is the only format for this model");
  if (const StreamRule rule = config.placement_row->streams; rule != StreamRule::single)
    throw std::invalid_argument("no " + kind + " has " +
                                (is_attnres(rule) ? "attention residuals" : "several residual streams") +
                                " (--placement " + config.placement +
                                "): a run directory is the only format for this model");
  const Architecture* nearest = nullptr;
  std::vector<std::string> fewest;
  for (const Architecture& row : rows) {
    const Config c = row.always_biased ? with_biases(config, row.modules) : config;
    const std::vector<std::string> lost = losses(row, c);
    if (lost.empty())
      return {row, resolve(c), nearest ? nearest->model_class + (" has no " + fewest.front()) : ""};
    const bool own = row.model_type == std::string_view(kModelingType);  // of the other objective
    if (own || (nearest && lost.size() >= fewest.size())) continue;
    nearest = &row;
    fewest = lost;
  }
  throw std::invalid_argument("no " + kind + " is this model: the nearest, " + std::string(nearest->model_class) +
                              ", has no " + fewest.front());
}
