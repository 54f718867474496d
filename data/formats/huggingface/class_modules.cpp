#include "class_modules.hpp"

#include <algorithm>
#include <string_view>

size_t behind_q(size_t r, const Config& c) { return r + static_cast<size_t>(c.n_head) * c.head_dim; }
size_t behind_k(size_t r, const Config& c) { return r + static_cast<size_t>(c.n_head + c.kv_heads) * c.head_dim; }

size_t of_neighbors(size_t r, const Config& c) {
  const size_t D = c.head_dim, R = c.rope_dims(), i = r % D;
  if (i >= R) return r;
  return r - i + (i < R / 2 ? 2 * i : 2 * i - R + 1);
}

namespace {

size_t of_other_half(size_t r, const Config& c) {
  const size_t D = c.head_dim, R = c.rope_dims(), i = r % D;
  if (i >= R) return r;
  return i < R / 2 ? r + R / 2 : r - R / 2;
}

// CodeGen's matrix holds four parts. Each has a quarter of q, then of v, then of k.
template <int part>
size_t of_quarter(size_t r, const Config& c) {
  const size_t quarter = static_cast<size_t>(c.channels) / kCodegenParts;
  return (r / quarter * 3 + part) * quarter + r % quarter;
}
template <int part>
size_t of_neighbors_in_quarter(size_t r, const Config& c) { return of_quarter<part>(of_neighbors(r, c), c); }

}  // namespace

size_t of_sines_first(size_t r, const Config& c) { return r / 2 + (r % 2 == 0 ? 0 : (c.channels + 1) / 2); }
size_t behind_gate(size_t r, const Config& c) { return r + c.hidden; }

namespace {

// q, k and v of a head together, (H, 3, D): BLOOM, GPT-NeoX.
template <int part>
size_t of_head(size_t r, const Config& c) {
  const size_t D = c.head_dim;
  return (r / D * 3 + part) * D + r % D;
}

// The query heads of a group, then its key head and its value head, (KV, H/KV + 2, D): Falcon.
template <int part>
size_t of_group(size_t r, const Config& c) {
  const size_t D = c.head_dim, queries = c.n_head / c.kv_heads, heads = part == 0 ? queries : 1, h = r / D;
  return (h / heads * (queries + 2) + (part == 0 ? h % heads : queries + part - 1)) * D + r % D;
}

// gpt-oss: gate and up alternate.
template <int part>
size_t of_pair(size_t r, const Config&) { return 2 * r + part; }

// OPT and RoBERTa never use their first two positions.
size_t behind_two(size_t r, const Config&) { return r + 2; }

// Rows of a model whose channels are in that order.
Modules with_sines_first(Modules rows) {
  for (ModuleRow& row : rows) {
    const std::string_view module = row.ours;
    const auto ends_with_any = [&](const std::initializer_list<const char*> ends) {
      return std::ranges::any_of(ends, [&](const char* end) { return module.ends_with(end); });
    };
    if (ends_with_any({".o", ".down", ".norm_in", ".norm_sum", "final_norm"})) row.foreign_row = of_sines_first;
    if (ends_with_any({".q", ".k", ".v", ".up", "embedding.token"})) row.foreign_column = of_sines_first;
  }
  return rows;
}

Modules concat(Modules a, const Modules& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Modules kLlamaCommon = {
    {"embedding.token", "model.embed_tokens"},
    {"block.#.attention.q", "model.layers.#.self_attn.q_proj"},
    {"block.#.attention.k", "model.layers.#.self_attn.k_proj"},
    {"block.#.attention.v", "model.layers.#.self_attn.v_proj"},
    {"block.#.attention.q_norm", "model.layers.#.self_attn.q_norm"},
    {"block.#.attention.k_norm", "model.layers.#.self_attn.k_norm"},
    {"block.#.attention.o", "model.layers.#.self_attn.o_proj"},
    {"block.#.ffn.gate", "model.layers.#.mlp.gate_proj"},
    {"block.#.ffn.up", "model.layers.#.mlp.up_proj"},
    {"block.#.ffn.down", "model.layers.#.mlp.down_proj"},
    {"final_norm", "model.norm"},
    {"head", "lm_head"},
};

Modules falcon_modules(const Modules& norms) {
  return concat({{"embedding.token", "transformer.word_embeddings"},
                 {"block.#.attention.q", "transformer.h.#.self_attention.query_key_value", of_group<0>},
                 {"block.#.attention.k", "transformer.h.#.self_attention.query_key_value", of_group<1>},
                 {"block.#.attention.v", "transformer.h.#.self_attention.query_key_value", of_group<2>},
                 {"block.#.attention.o", "transformer.h.#.self_attention.dense"},
                 {"block.#.ffn.up", "transformer.h.#.mlp.dense_h_to_4h"},
                 {"block.#.ffn.down", "transformer.h.#.mlp.dense_4h_to_h"},
                 {"final_norm", "transformer.ln_f"},
                 {"head", "lm_head"}},
                norms);
}

Modules bert_modules(const Modules& own) {
  return concat({{"embedding.token", "^.embeddings.word_embeddings"},
                 {"embedding.token_type", "^.embeddings.token_type_embeddings"},
                 {"embedding.norm", "^.embeddings.LayerNorm"},
                 {"block.#.attention.q", "^.encoder.layer.#.attention.self.query"},
                 {"block.#.attention.k", "^.encoder.layer.#.attention.self.key"},
                 {"block.#.attention.v", "^.encoder.layer.#.attention.self.value"},
                 {"block.#.attention.o", "^.encoder.layer.#.attention.output.dense"},
                 {"block.#.attention.norm_sum", "^.encoder.layer.#.attention.output.LayerNorm"},
                 {"block.#.ffn.up", "^.encoder.layer.#.intermediate.dense"},
                 {"block.#.ffn.down", "^.encoder.layer.#.output.dense"},
                 {"block.#.ffn.norm_sum", "^.encoder.layer.#.output.LayerNorm"},
                 {"pooler", "^.pooler.dense"},
                 {"next_sentence", "cls.seq_relationship"}},
                own);
}

// The names of fairseq's decoders: of OPT, and of BART and its relatives.
const Modules kFairseqDecoder = {
    {"block.#.attention.q", "model.decoder.layers.#.self_attn.q_proj"},
    {"block.#.attention.k", "model.decoder.layers.#.self_attn.k_proj"},
    {"block.#.attention.v", "model.decoder.layers.#.self_attn.v_proj"},
    {"block.#.attention.o", "model.decoder.layers.#.self_attn.out_proj"},
    {"block.#.attention.norm_in", "model.decoder.layers.#.self_attn_layer_norm"},
    {"block.#.attention.norm_sum", "model.decoder.layers.#.self_attn_layer_norm"},
    {"block.#.ffn.up", "model.decoder.layers.#.fc1"},
    {"block.#.ffn.down", "model.decoder.layers.#.fc2"},
    {"block.#.ffn.norm_in", "model.decoder.layers.#.final_layer_norm"},
    {"block.#.ffn.norm_sum", "model.decoder.layers.#.final_layer_norm"},
};

// Names of the two norms of a block.
const Modules kPreNorms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.ffn.norm_in", "model.layers.#.post_attention_layernorm"},
};
const Modules kSandwichNorms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.attention.norm_out", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_in", "model.layers.#.pre_feedforward_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_feedforward_layernorm"},
};
const Modules kGlm4Norms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.attention.norm_out", "model.layers.#.post_self_attn_layernorm"},
    {"block.#.ffn.norm_in", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_mlp_layernorm"},
};
const Modules kHyperclovaxNorms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.attention.norm_out", "model.layers.#.post_norm1"},
    {"block.#.ffn.norm_in", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_norm2"},
};
const Modules kReorderedNorms = {
    {"block.#.attention.norm_out", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_feedforward_layernorm"},
};

// Llama's rows, with those in `changed` replaced.
Modules like_llama(const Modules& norms, const Modules& changed = {}) {
  Modules rows = concat(changed, norms);
  for (const ModuleRow& row : kLlamaCommon)
    if (std::none_of(changed.begin(), changed.end(),
                     [&](const ModuleRow& other) { return std::string_view(other.ours) == row.ours; }))
      rows.push_back(row);
  return rows;
}

// Rows of q and k where pairs of neighbors rotate.
const Modules kNeighbors = {{"block.#.attention.q", "model.layers.#.self_attn.q_proj", of_neighbors},
                            {"block.#.attention.k", "model.layers.#.self_attn.k_proj", of_neighbors}};
// The rows of GPT-J and CodeGen around q, k and v.
Modules gptj_modules(const Modules& qkv) {
  return concat({{"embedding.token", "transformer.wte"},
                 {"block.#.attention.norm_in", "transformer.h.#.ln_1"},
                 {"block.#.attention.o", "transformer.h.#.attn.out_proj"},
                 {"block.#.ffn.up", "transformer.h.#.mlp.fc_in"},
                 {"block.#.ffn.down", "transformer.h.#.mlp.fc_out"},
                 {"final_norm", "transformer.ln_f"},
                 {"head", "lm_head"}},
                qkv);
}

const Modules kGateUp = {{"block.#.ffn.gate", "model.layers.#.mlp.gate_up_proj"},
                         {"block.#.ffn.up", "model.layers.#.mlp.gate_up_proj", behind_gate}};

}  // namespace

// ---- the classes -----------------------------------------------------------------------------------------

const Modules kBloomModules = {
    {"embedding.token", "transformer.word_embeddings"},
    {"embedding.norm", "transformer.word_embeddings_layernorm"},
    {"block.#.attention.norm_in", "transformer.h.#.input_layernorm"},
    {"block.#.attention.q", "transformer.h.#.self_attention.query_key_value", of_head<0>},
    {"block.#.attention.k", "transformer.h.#.self_attention.query_key_value", of_head<1>},
    {"block.#.attention.v", "transformer.h.#.self_attention.query_key_value", of_head<2>},
    {"block.#.attention.o", "transformer.h.#.self_attention.dense"},
    {"block.#.ffn.norm_in", "transformer.h.#.post_attention_layernorm"},
    {"block.#.ffn.up", "transformer.h.#.mlp.dense_h_to_4h"},
    {"block.#.ffn.down", "transformer.h.#.mlp.dense_4h_to_h"},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};

const Modules kGpt1Modules = {
    {"embedding.token", "transformer.tokens_embed"},
    {"embedding.position", "transformer.positions_embed"},
    {"block.#.attention.q", "transformer.h.#.attn.c_attn", nullptr, true},
    {"block.#.attention.k", "transformer.h.#.attn.c_attn", behind_q, true},
    {"block.#.attention.v", "transformer.h.#.attn.c_attn", behind_k, true},
    {"block.#.attention.o", "transformer.h.#.attn.c_proj", nullptr, true},
    {"block.#.attention.norm_sum", "transformer.h.#.ln_1"},
    {"block.#.ffn.up", "transformer.h.#.mlp.c_fc", nullptr, true},
    {"block.#.ffn.down", "transformer.h.#.mlp.c_proj", nullptr, true},
    {"block.#.ffn.norm_sum", "transformer.h.#.ln_2"},
    {"head", "lm_head"},
};

const Modules kGpt2Modules = {
    {"embedding.token", "transformer.wte"},
    {"embedding.position", "transformer.wpe"},
    {"block.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"block.#.attention.q", "transformer.h.#.attn.c_attn", nullptr, true},
    {"block.#.attention.k", "transformer.h.#.attn.c_attn", behind_q, true},
    {"block.#.attention.v", "transformer.h.#.attn.c_attn", behind_k, true},
    {"block.#.attention.o", "transformer.h.#.attn.c_proj", nullptr, true},
    {"block.#.ffn.norm_in", "transformer.h.#.ln_2"},
    {"block.#.ffn.up", "transformer.h.#.mlp.c_fc", nullptr, true},
    {"block.#.ffn.down", "transformer.h.#.mlp.c_proj", nullptr, true},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};

const Modules kGptjModules =
    gptj_modules({{"block.#.attention.q", "transformer.h.#.attn.q_proj", of_neighbors},
                  {"block.#.attention.k", "transformer.h.#.attn.k_proj", of_neighbors},
                  {"block.#.attention.v", "transformer.h.#.attn.v_proj"}});
const Modules kCodegenModules =
    gptj_modules({{"block.#.attention.q", "transformer.h.#.attn.qkv_proj", of_neighbors_in_quarter<0>},
                  {"block.#.attention.k", "transformer.h.#.attn.qkv_proj", of_neighbors_in_quarter<2>},
                  {"block.#.attention.v", "transformer.h.#.attn.qkv_proj", of_quarter<1>}});

const Modules kGptNeoModules = {
    {"embedding.token", "transformer.wte"},
    {"embedding.position", "transformer.wpe"},
    {"block.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"block.#.attention.q", "transformer.h.#.attn.attention.q_proj"},
    {"block.#.attention.k", "transformer.h.#.attn.attention.k_proj"},
    {"block.#.attention.v", "transformer.h.#.attn.attention.v_proj"},
    {"block.#.attention.o", "transformer.h.#.attn.attention.out_proj"},
    {"block.#.ffn.norm_in", "transformer.h.#.ln_2"},
    {"block.#.ffn.up", "transformer.h.#.mlp.c_fc"},
    {"block.#.ffn.down", "transformer.h.#.mlp.c_proj"},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};

const Modules kGptNeoxModules = {
    {"embedding.token", "gpt_neox.embed_in"},
    {"block.#.attention.norm_in", "gpt_neox.layers.#.input_layernorm"},
    {"block.#.attention.q", "gpt_neox.layers.#.attention.query_key_value", of_head<0>},
    {"block.#.attention.k", "gpt_neox.layers.#.attention.query_key_value", of_head<1>},
    {"block.#.attention.v", "gpt_neox.layers.#.attention.query_key_value", of_head<2>},
    {"block.#.attention.o", "gpt_neox.layers.#.attention.dense"},
    {"block.#.ffn.norm_in", "gpt_neox.layers.#.post_attention_layernorm"},
    {"block.#.ffn.up", "gpt_neox.layers.#.mlp.dense_h_to_4h"},
    {"block.#.ffn.down", "gpt_neox.layers.#.mlp.dense_4h_to_h"},
    {"final_norm", "gpt_neox.final_layer_norm"},
    {"head", "embed_out"},
};

const Modules kOptModules = concat(kFairseqDecoder, {
    {"embedding.token", "model.decoder.embed_tokens"},
    {"embedding.project", "model.decoder.project_in"},
    {"embedding.position", "model.decoder.embed_positions", behind_two, false, 2},
    {"final_norm", "model.decoder.final_layer_norm"},
    {"head.project", "model.decoder.project_out"},
    {"head", "lm_head"},
});

const Modules kBertModules =
    bert_modules({{"embedding.position", "^.embeddings.position_embeddings"},
                  {"head.transform", "cls.predictions.transform.dense"},
                  {"head.norm", "cls.predictions.transform.LayerNorm"},
                  {"head", "cls.predictions"}});
const Modules kRobertaModules =
    bert_modules({{"embedding.position", "^.embeddings.position_embeddings", behind_two, false, 2},
                  {"head.transform", "lm_head.dense"},
                  {"head.norm", "lm_head.layer_norm"},
                  {"head", "lm_head"}});

const Modules kBartModules = concat(kFairseqDecoder, {
    {"embedding.token", "model.shared"},
    {"encoder.embedding.position", "model.encoder.embed_positions", behind_two, false, 2},
    {"encoder.embedding.norm", "model.encoder.layernorm_embedding"},
    {"encoder.block.#.attention.q", "model.encoder.layers.#.self_attn.q_proj"},
    {"encoder.block.#.attention.k", "model.encoder.layers.#.self_attn.k_proj"},
    {"encoder.block.#.attention.v", "model.encoder.layers.#.self_attn.v_proj"},
    {"encoder.block.#.attention.o", "model.encoder.layers.#.self_attn.out_proj"},
    {"encoder.block.#.attention.norm_in", "model.encoder.layers.#.self_attn_layer_norm"},
    {"encoder.block.#.attention.norm_sum", "model.encoder.layers.#.self_attn_layer_norm"},
    {"encoder.block.#.ffn.up", "model.encoder.layers.#.fc1"},
    {"encoder.block.#.ffn.down", "model.encoder.layers.#.fc2"},
    {"encoder.block.#.ffn.norm_in", "model.encoder.layers.#.final_layer_norm"},
    {"encoder.block.#.ffn.norm_sum", "model.encoder.layers.#.final_layer_norm"},
    {"encoder.final_norm", "model.encoder.layer_norm"},
    {"embedding.position", "model.decoder.embed_positions", behind_two, false, 2},
    {"embedding.norm", "model.decoder.layernorm_embedding"},
    {"block.#.cross.q", "model.decoder.layers.#.encoder_attn.q_proj"},
    {"block.#.cross.k", "model.decoder.layers.#.encoder_attn.k_proj"},
    {"block.#.cross.v", "model.decoder.layers.#.encoder_attn.v_proj"},
    {"block.#.cross.o", "model.decoder.layers.#.encoder_attn.out_proj"},
    {"block.#.cross.norm_in", "model.decoder.layers.#.encoder_attn_layer_norm"},
    {"block.#.cross.norm_sum", "model.decoder.layers.#.encoder_attn_layer_norm"},
    {"final_norm", "model.decoder.layer_norm"},
    {.ours = kHeadBias, .theirs = "final_logits_bias", .one_row = true},
});
const Modules kMarianModules = with_sines_first(kBartModules);

// T5's names. The rows of a gated layer come first.
const Modules kT5Modules = [] {
  const auto gated = [](const Config& c) { return c.gated(); };
  return Modules{
      {"embedding.token", "shared"},
      {"encoder.relative", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
      {"encoder.block.#.attention.norm_in", "encoder.block.#.layer.0.layer_norm"},
      {"encoder.block.#.attention.q", "encoder.block.#.layer.0.SelfAttention.q"},
      {"encoder.block.#.attention.k", "encoder.block.#.layer.0.SelfAttention.k"},
      {"encoder.block.#.attention.v", "encoder.block.#.layer.0.SelfAttention.v"},
      {"encoder.block.#.attention.o", "encoder.block.#.layer.0.SelfAttention.o"},
      {"encoder.block.#.ffn.norm_in", "encoder.block.#.layer.1.layer_norm"},
      {"encoder.block.#.ffn.gate", "encoder.block.#.layer.1.DenseReluDense.wi_0"},
      {.ours = "encoder.block.#.ffn.up", .theirs = "encoder.block.#.layer.1.DenseReluDense.wi_1", .when = gated},
      {"encoder.block.#.ffn.up", "encoder.block.#.layer.1.DenseReluDense.wi"},
      {"encoder.block.#.ffn.down", "encoder.block.#.layer.1.DenseReluDense.wo"},
      {"encoder.final_norm", "encoder.final_layer_norm"},
      {"relative", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
      {"block.#.attention.norm_in", "decoder.block.#.layer.0.layer_norm"},
      {"block.#.attention.q", "decoder.block.#.layer.0.SelfAttention.q"},
      {"block.#.attention.k", "decoder.block.#.layer.0.SelfAttention.k"},
      {"block.#.attention.v", "decoder.block.#.layer.0.SelfAttention.v"},
      {"block.#.attention.o", "decoder.block.#.layer.0.SelfAttention.o"},
      {"block.#.cross.norm_in", "decoder.block.#.layer.1.layer_norm"},
      {"block.#.cross.q", "decoder.block.#.layer.1.EncDecAttention.q"},
      {"block.#.cross.k", "decoder.block.#.layer.1.EncDecAttention.k"},
      {"block.#.cross.v", "decoder.block.#.layer.1.EncDecAttention.v"},
      {"block.#.cross.o", "decoder.block.#.layer.1.EncDecAttention.o"},
      {"block.#.ffn.norm_in", "decoder.block.#.layer.2.layer_norm"},
      {"block.#.ffn.gate", "decoder.block.#.layer.2.DenseReluDense.wi_0"},
      {.ours = "block.#.ffn.up", .theirs = "decoder.block.#.layer.2.DenseReluDense.wi_1", .when = gated},
      {"block.#.ffn.up", "decoder.block.#.layer.2.DenseReluDense.wi"},
      {"block.#.ffn.down", "decoder.block.#.layer.2.DenseReluDense.wo"},
      {"final_norm", "decoder.final_layer_norm"},
      {"head", "lm_head"},
  };
}();

// GPT-2's names, but the matrices are not transposed (nn.Linear).
const Modules kGptBigcodeModules = [] {
  Modules rows = kGpt2Modules;
  for (ModuleRow& row : rows) row.transposed = false;
  return rows;
}();

const Modules kFalcon7bModules = falcon_modules({{"block.#.attention.norm_in", "transformer.h.#.input_layernorm"}});
const Modules kFalcon40bModules = falcon_modules({{"block.#.attention.norm_in", "transformer.h.#.ln_attn"},
                                                  {"block.#.ffn.norm_in", "transformer.h.#.ln_mlp"}});

const Modules kLlamaModules = like_llama(kPreNorms);
const Modules kReorderedModules = like_llama(kReorderedNorms);
const Modules kSandwichModules = like_llama(kSandwichNorms);
const Modules kHyperclovaxModules = like_llama(kHyperclovaxNorms);
const Modules kGlmModules =
    like_llama(kPreNorms, concat(kGateUp, kNeighbors));
const Modules kGlm4Modules = like_llama(kGlm4Norms, concat(kGateUp, kNeighbors));
const Modules kCohereModules = like_llama(kPreNorms, kNeighbors);
// Its rotation goes the other way, which is the same for pairs in the other order.
const Modules kNanochatModules =
    like_llama({}, {{"block.#.attention.q", "model.layers.#.self_attn.q_proj", of_other_half},
                    {"block.#.attention.k", "model.layers.#.self_attn.k_proj", of_other_half},
                    {"block.#.ffn.up", "model.layers.#.mlp.fc1"},
                    {"block.#.ffn.down", "model.layers.#.mlp.fc2"}});
const Modules kPhi3Modules =
    like_llama(kPreNorms, concat(kGateUp, {{"block.#.attention.q", "model.layers.#.self_attn.qkv_proj"},
                                           {"block.#.attention.k", "model.layers.#.self_attn.qkv_proj", behind_q},
                                           {"block.#.attention.v", "model.layers.#.self_attn.qkv_proj", behind_k}}));
const Modules kPhiModules =
    like_llama(kPreNorms, {{"block.#.attention.o", "model.layers.#.self_attn.dense"},
                           {"block.#.ffn.up", "model.layers.#.mlp.fc1"},
                           {"block.#.ffn.down", "model.layers.#.mlp.fc2"},
                           {"final_norm", "model.final_layernorm"}});
const Modules kMixtralModules =
    like_llama(kPreNorms, {{"block.#.ffn.router", "model.layers.#.block_sparse_moe.gate"},
                           {"block.#.ffn.expert.@.gate", "model.layers.#.block_sparse_moe.experts.@.w1"},
                           {"block.#.ffn.expert.@.up", "model.layers.#.block_sparse_moe.experts.@.w3"},
                           {"block.#.ffn.expert.@.down", "model.layers.#.block_sparse_moe.experts.@.w2"}});
const Modules kQwen3MoeModules =
    like_llama(kPreNorms, {{"block.#.ffn.router", "model.layers.#.mlp.gate"},
                           {"block.#.ffn.expert.@.gate", "model.layers.#.mlp.experts.@.gate_proj"},
                           {"block.#.ffn.expert.@.up", "model.layers.#.mlp.experts.@.up_proj"},
                           {"block.#.ffn.expert.@.down", "model.layers.#.mlp.experts.@.down_proj"}});
// The sinks are a tensor of attention itself.
const Modules kGptOssModules = like_llama(
    kPreNorms, {{"block.#.attention", "model.layers.#.self_attn"},
                {"block.#.ffn.router", "model.layers.#.mlp.router"},
                {"block.#.ffn.expert.@.gate", "model.layers.#.mlp.experts.gate_up_proj", of_pair<0>, true, 0, true},
                {"block.#.ffn.expert.@.up", "model.layers.#.mlp.experts.gate_up_proj", of_pair<1>, true, 0, true},
                {"block.#.ffn.expert.@.down", "model.layers.#.mlp.experts.down_proj", nullptr, true, 0, true}});
const Modules kStarcoder2Modules =
    like_llama(kPreNorms, {{"block.#.ffn.up", "model.layers.#.mlp.c_fc"},
                           {"block.#.ffn.down", "model.layers.#.mlp.c_proj"}});
