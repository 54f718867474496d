#pragma once
// Small models with the positional encodings, attention and feed-forward layers of published models.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layers/model/resolve.hpp"

struct Wiring {
  std::string name;
  std::function<void(Config&)> change;
};
inline std::vector<Wiring> wirings() {
  return {
      {"OPT-350M", [](Config& c) { c.placement = "post", c.embedding_channels = 5; }},
      {"wide embedding",
       [](Config& c) {
         c.embedding_channels = 20, c.tied = false, c.position = Position::sinusoidal, c.embedding_scale = 3.5f;
         c.embedding_norm = true, c.placement = "resi-dual";
       }},
      {"sinusoidal",
       [](Config& c) { c.position = Position::sinusoidal, c.activation = Activation::silu, c.embedding_scale = 3.5f; }},
      {"GPT-NeoX", [](Config& c) { c.position = Position::rope, c.rope_fraction = .5f, c.tied = false; }},
      {"BLOOM",
       [](Config& c) { c.position = Position::alibi, c.n_head = 3, c.kv_heads = 3, c.embedding_norm = true; }},
      {"Mistral",
       [](Config& c) {
         c.position = Position::rope, c.norm = NormKind::rmsnorm, c.activation = Activation::geglu;
         c.bias = false, c.window = 3, c.kv_heads = 1;
       }},
      {"Qwen2",
       [](Config& c) {
         c.position = Position::rope, c.norm = NormKind::rmsnorm, c.activation = Activation::swiglu;
         c.bias = false, c.qkv_bias = true;
       }},
      {"Phi-2",
       [](Config& c) { c.position = Position::rope, c.rope_fraction = .5f, c.tied = false, c.head_bias = true; }},
      {"Gemma-2",
       [](Config& c) {
         c.placement = "sandwich", c.position = Position::rope, c.norm = NormKind::rmsnorm, c.bias = false;
         c.activation = Activation::geglu_tanh, c.kv_heads = 2, c.window = 4, c.window_layers = "1 of 2";
         c.attention_cap = 2, c.attention_scale = .75, c.logit_cap = 1.5f, c.embedding_scale = 3.5f;
       }},
      {"Gemma-3",
       [](Config& c) {
         c.n_layer = 3, c.placement = "sandwich", c.position = Position::rope, c.norm = NormKind::rmsnorm;
         c.qk_norm = QkNormKind::head, c.window = 4, c.window_layers = "2 of 3", c.window_rope_theta = 7;
         c.rope_scaling = RopeScaling::linear, c.rope_factor = 8, c.bias = false;
       }},
      {"SmolLM3",
       [](Config& c) {
         c.n_layer = 3, c.bias = false, c.position = Position::rope, c.rope_layers = "2 of 3";
         c.rope_scaling = RopeScaling::llama3, c.rope_factor = 4, c.rope_original = 12, c.rope_slow = .5f;
         c.rope_fast = 1.5f, c.rope_theta = 20, c.head_dim = 8;
       }},
      {"OLMo-3",
       [](Config& c) {
         c.position = Position::rope, c.placement = "reordered", c.qk_norm = QkNormKind::full, c.window = 3;
         c.window_layers = "last 1 of 2", c.rope_scaling = RopeScaling::yarn, c.rope_factor = 4, c.rope_original = 12;
         c.rope_slow = .2f, c.rope_fast = 1.5f, c.rope_theta = 20, c.head_dim = 8;
       }},
      {"Granite",
       [](Config& c) {
         c.position = Position::rope, c.norm = NormKind::rmsnorm, c.activation = Activation::swiglu, c.bias = false;
         c.branch_scale = .3f, c.logit_scale = .25f, c.embedding_scale = 3.5f, c.attention_scale = .75;
       }},
      {"Command R",
       [](Config& c) {
         c.position = Position::rope, c.block = BlockForm::parallel_shared, c.activation = Activation::swiglu;
         c.bias = c.norm_bias.emplace(false), c.logit_scale = 3, c.logit_cap = 2;
       }},
      {"GPT-J",
       [](Config& c) {
         c.position = Position::rope, c.rope_fraction = .5f, c.block = BlockForm::parallel_shared, c.tied = false;
         c.qkv_bias = c.o_bias = false, c.head_bias = true;
       }},
      {"attention bias",
       [](Config& c) { c.position = Position::rope, c.bias = false, c.qkv_bias = c.o_bias = true; }},
      {"Phi-4 mini",
       [](Config& c) {
         c.position = Position::rope, c.rope_scaling = RopeScaling::longrope, c.rope_factor = 2.75f;
         c.rope_original = 4, c.rope_short = "1,1.5", c.rope_long = "2,9", c.rope_theta = 20;
       }},
      {"OLMo", [](Config& c) { c.position = Position::rope, c.bias = c.norm_gain = false; }},
      {"norms without gain",
       [](Config& c) {
         c.placement = "sandwich", c.norm = NormKind::rmsnorm, c.norm_gain = false, c.qk_norm = QkNormKind::full;
         c.branch_scale = 2, c.embedding_norm = true;
       }},
      {"FixNorm",
       [](Config& c) {
         c.fix_norm = true, c.norm = NormKind::scalenorm, c.bias = false, c.norm_bias = false, c.head_bias = true;
       }},
      {"FixNorm of two matrices",
       [](Config& c) { c.fix_norm = true, c.tied = false, c.embedding_channels = 5, c.embedding_scale = 1.5; }},
      {"nGPT",
       [](Config& c) {
         c.placement = "ngpt", c.position = Position::rope, c.activation = Activation::swiglu, c.eigen_rate_init = .4f;
         c.bias = c.tied = false, c.kv_heads = 0, c.dropout = .1f, c.qk_norm = QkNormKind::unit;
         c.up_gain = c.logit_gain = c.normed_weights = true;
       }},
      {"parts of nGPT",
       [](Config& c) {
         c.qk_norm = QkNormKind::unit, c.kv_heads = 0, c.up_gain = c.logit_gain = c.head_bias = true, c.window = 3;
       }},
      {"nGPT's path alone",
       [](Config& c) {
         c.placement = "ngpt", c.final_norm = c.embedding_norm = true, c.experts = 3, c.router_loss = 0;
       }},
      {"scaled gain", [](Config& c) { c.placement = "layerscale", c.branch_scale = .5f, c.layer_scale_init = 2; }},
      {"branches that grow",
       [](Config& c) { c.branch_warmup = BranchWarmup::prores, c.branch_warmup_steps = 9, c.branch_scale = .5f; }},
      {"parallel branches that grow",
       [](Config& c) {
         c.placement = "layerscale", c.block = BlockForm::parallel, c.branch_warmup = BranchWarmup::prores;
         c.branch_warmup_steps = 9, c.layer_scale_init = 2;
       }},
      {"streams of branches that grow",
       [](Config& c) { c.placement = "hyper", c.branch_warmup = BranchWarmup::branchnorm, c.branch_warmup_steps = 9; }},
      {"scaled streams", [](Config& c) { c.placement = "hyper", c.branch_scale = .5f, c.norm_gain = false; }},
      {"scaled dual stream", [](Config& c) { c.placement = "resi-dual", c.branch_scale = .5f, c.dropout = .2f; }},
      {"scaled siamese streams",
       [](Config& c) {
         c.placement = "siamese", c.branch_scale = .5f, c.dropout = .2f, c.final_norm = false, c.embedding_norm = true;
       }},
      {"attention residuals",
       [](Config& c) {
         c.placement = "attnres", c.n_layer = 4, c.branch_scale = .5f, c.dropout = .2f, c.final_norm = false;
         c.norm_unit_offset = c.embedding_norm = true;
       }},
      {"attention residuals by 3",
       [](Config& c) {
         c.placement = "attnres", c.n_layer = 4, c.residual_block = 3, c.skip_scale = .7, c.dropout = .2f;
         c.norm_gain = false;
       }},
      {"attention residuals by 100", [](Config& c) { c.placement = "attnres", c.residual_block = 100; }},
      {"scaled parallel branches",
       [](Config& c) { c.placement = "sandwich", c.block = BlockForm::parallel, c.branch_scale = .5f; }},
      {"all of attention",
       [](Config& c) {
         c.position = Position::alibi, c.attention_cap = 1.5f, c.window = 5, c.attention_scale = .5;
         c.qkv_bias = false, c.head_bias = true, c.logit_cap = 2;
       }},
      {"gpt-oss",
       [](Config& c) {
         c.position = Position::rope, c.norm = NormKind::rmsnorm, c.kv_heads = 2, c.attention_sinks = true;
         c.window = 3, c.window_layers = "1 of 2", c.tied = false, c.experts = 3, c.router_logit_bias = true;
         c.activation = Activation::swiglu_clamped, c.rope_scaling = RopeScaling::yarn, c.rope_factor = 4;
         c.rope_original = 12, c.rope_slow = .2f, c.rope_fast = 1.5f, c.rope_theta = 20, c.head_dim = 8;
         c.rope_truncate = false, c.router_loss = 0;
       }},
      {"sinks and everything else",
       [](Config& c) {
         c.position = Position::alibi, c.attention_sinks = true, c.attention_cap = 1.5f, c.placement = "normformer";
         c.output_gate = OutputGate::elementwise, c.n_layer = 3, c.value_residual = ValueResidual::learned;
       }},
      {"gated headwise", [](Config& c) { c.output_gate = OutputGate::headwise, c.kv_heads = 2; }},
      {"gated elementwise",
       [](Config& c) {
         c.placement = "sub-ln", c.output_gate = OutputGate::elementwise, c.position = Position::rope, c.bias = false;
       }},
      {"scaled heads",
       [](Config& c) { c.placement = "sub-ln", c.head_scale = true, c.output_gate = OutputGate::headwise; }},
      {"bypass of a mixture",
       [](Config& c) { c.placement = "b2t", c.stream_mix = true, c.experts = 3, c.router_loss = 0; }},
      {"gated parallel",
       [](Config& c) {
         c.block = BlockForm::parallel_shared, c.output_gate = OutputGate::elementwise, c.position = Position::rope;
         c.stream_mix = true, c.value_residual = ValueResidual::fixed;
       }},
      {"value residual",
       [](Config& c) { c.n_layer = 3, c.value_residual = ValueResidual::learned, c.kv_heads = 2; }},
      {"fixed value residual",
       [](Config& c) { c.n_layer = 3, c.placement = "post", c.value_residual = ValueResidual::fixed; }},
      {"nanochat",
       [](Config& c) {
         c.n_layer = 3, c.position = Position::rope, c.norm = NormKind::rmsnorm, c.activation = Activation::relu2;
         c.bias = c.tied = false, c.embedding_norm = c.stream_mix = true, c.logit_cap = 15;
         c.qk_norm = QkNormKind::head, c.value_residual = ValueResidual::learned;
       }},
      {"QKV norm",
       [](Config& c) {
         c.placement = "post", c.qk_norm = QkNormKind::qkv, c.position = Position::rope, c.kv_heads = 2;
       }},
      {"BERT",
       [](Config& c) {
         c.objective = Objective::mlm, c.placement = "post", c.embedding_norm = true, c.token_types = 2;
         c.activation = Activation::gelu, c.head_transform = c.head_bias = true;
       }},
      {"bidirectional",
       [](Config& c) {
         c.objective = Objective::mlm, c.position = Position::alibi, c.window = 3, c.window_layers = "1 of 2";
         c.kv_heads = 2, c.attention_cap = 2, c.attention_sinks = c.head_transform = true, c.embedding_channels = 5;
         c.token_types = 1, c.norm = NormKind::rmsnorm, c.placement = "sandwich";
       }},
      {"T5",
       [](Config& c) {
         c.position = Position::relative, c.relative_buckets = 6, c.relative_distance = 7, c.attention_scale = 1;
         c.norm = NormKind::rmsnorm, c.activation = Activation::geglu_tanh, c.bias = false;
       }},
      {"bidirectional T5",
       [](Config& c) {
         c.objective = Objective::mlm, c.position = Position::relative, c.relative_buckets = 7, c.relative_distance = 4;
         c.kv_heads = 2, c.window = 4, c.window_layers = "1 of 2", c.attention_cap = 2, c.attention_sinks = true;
         c.placement = "sandwich";
       }},
      {"bidirectional RoPE",
       [](Config& c) {
         c.objective = Objective::mlm, c.position = Position::rope, c.window = 4, c.n_layer = 3;
         c.placement = "resi-dual", c.head_transform = true, c.bias = false;
       }},
  };
}

inline Config wired(const std::function<void(Config&)>& change) {
  Config c;
  c.n_layer = 2, c.n_head = 4, c.channels = 12, c.head_dim = 4, c.context = 11, c.vocab_size = 13;
  change(c);
  return resolve(c);
}
