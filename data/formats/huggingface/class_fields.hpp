#pragma once
// How to read and write the config.json of each model class of Hugging Face's transformers, field by field.

#include "config_keys.hpp"

// Makes a Gemma of a Gemma 2.
void like_gemma(Config& config);

extern const ConfigFields kCausalFields;  // of every class: no token sees later ones

extern const ConfigFields kBertFields, kBloomFields, kCodegenFields, kCohereFields, kCohere2Fields,
    kFalcon40bFields, kFalcon7bFields, kGemmaFields, kGemma2Fields, kGemma3Fields, kGlmFields, kGlm4Fields,
    kGpt1Fields, kGpt2Fields, kGptBigcodeFields, kGptjFields, kGptNeoFields, kGptNeoxFields, kGptOssFields,
    kGraniteFields, kHyperclovaxFields, kLlamaFields, kMistralFields, kMixtralFields, kNanochatFields,
    kOlmoFields, kOlmo2Fields, kOlmo3Fields, kOlmoeFields, kOptFields, kPhiFields, kPhi3Fields, kQwen2Fields,
    kQwen3Fields, kQwen3MoeFields, kRobertaFields, kSmollm3Fields, kStablelmFields, kStarcoder2Fields;
