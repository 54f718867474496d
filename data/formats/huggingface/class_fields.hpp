#pragma once
// How to read and write the config.json of each model class of Hugging Face's transformers, field by field.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "layers/config/config.hpp"

// A field of config.json, or a few that belong together. `read` throws std::runtime_error.
struct ConfigField {
  std::function<void(Config&, const nlohmann::json& file)> read;
  std::function<void(nlohmann::json& file, const Config&)> write;
};
using ConfigFields = std::vector<ConfigField>;

// Set a member of Config from a key's value. Throw std::runtime_error if that is not a whole number from 0 to 2^30, or
// not a number that a float can hold.
void set_member(int& member, const std::string& key, const nlohmann::json& value);
void set_member(float& member, const std::string& key, const nlohmann::json& value);

// Makes a Gemma of a Gemma 2.
void like_gemma(Config& config);

extern const ConfigFields kCausalFields;  // of every class: no token sees later ones

extern const ConfigFields kBloomFields, kFalcon40bFields, kFalcon7bFields, kGemmaFields, kGemma2Fields, kGemma3Fields,
    kGlmFields, kGpt1Fields, kGpt2Fields, kGptBigcodeFields, kGptNeoFields, kGptNeoxFields, kLlamaFields,
    kMistralFields, kMixtralFields, kOlmo2Fields, kOlmo3Fields, kOlmoeFields, kOptFields, kPhiFields, kPhi3Fields,
    kQwen2Fields, kQwen3Fields, kQwen3MoeFields, kSmollm3Fields, kStablelmFields, kStarcoder2Fields;
