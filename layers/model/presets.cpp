// The table of presets. The authors published the numbers, except for `nano`, which is ours. A family states its wiring
// once. A size adds its numbers and its differences from the family. Everything else is as in GPT-2, the default
// Config. Sizes by depth scale `nano`.

#include "presets.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace {

constexpr auto kRms = NormKind::rmsnorm;
constexpr auto kRope = Position::rope;

using Change = void (*)(Config&);

constexpr Change kGpt2 = [](Config&) {};
constexpr Change kFewExperts = [](Config& c) { c.experts = 16; c.experts_per_token = 4; };
constexpr Change kTied = [](Config& c) { c.tied = true; };

// Llama's wiring, which many share: Pre-RMSNorm, RoPE, SwiGLU, no biases, an untied head.
void llama(Config& c, float eps, float theta = 10000) {
  c.norm = kRms;
  c.norm_eps = eps;
  c.position = kRope;
  c.rope_theta = theta;
  c.activation = Activation::swiglu;
  c.bias = c.tied = false;
}

// LayerNorms have biases, matrices have none.
void falcon(Config& c, BlockForm block) {
  c.block = block;
  c.position = kRope;
  c.activation = Activation::gelu;
  c.bias = false;
  c.norm_bias = true;
}

// Post-LN with a norm after the embedding, and a head of two layers that predicts masked tokens.
void bert(Config& c, float eps, int token_types) {
  c.objective = Objective::mlm;
  c.placement = "post";
  c.norm_eps = eps;
  c.embedding_norm = true;
  c.token_types = token_types;
  c.activation = Activation::gelu;
  c.head_transform = c.head_bias = true;
}

// An encoder and a decoder of the same depth.
void reads_sources(Config& c) {
  c.objective = Objective::pairs;
  c.encoder_layers = 1;  // config_of() sets their number
}

// Pre-RMSNorm without biases, relative positions, and scores that are not scaled.
void t5(Config& c) {
  reads_sources(c);
  c.objective = Objective::span;
  c.norm = kRms;
  c.norm_eps = 1e-6f;
  c.bias = false;
  c.position = Position::relative;
  c.attention_scale = 1;
}

void window_in_every_other_layer(Config& c, int window) {
  c.window = window;
  c.window_layers = "1 of 2";
}

struct Size {
  const char *name, *note;
  int L, H, KV, D, C, F, T, V;  // 0: derived by resolve()
  Change differs = nullptr;
};

struct Family {
  const char* name;
  Change wiring;
  const char *source, *missing;
  std::vector<Size> sizes;
};

constexpr const char* kLaptop = "to train on a laptop";
constexpr const char* kNothing = "";

std::vector<Family> families() {
  return {
      // name, wiring; sizes: name, note, L, H, KV, D, C, F, T, V

      {"transformer",
       [](Config& c) {
         reads_sources(c);
         c.placement = "post";
         c.position = Position::sinusoidal;
         c.root_embedding_scale = true;
         c.activation = Activation::relu;
         c.label_smoothing = .1f;
       },
       "Vaswani et al. 2017, arXiv 1706.03762, table 3", "its dropout of 0.1 (0.3 in the larger one): here --dropout",
       {{"nano", kLaptop, 2, 4, 0, 0, 128, 0, 256, 0},
        {"65M", "base", 6, 8, 0, 0, 512, 0, 512, 37000},
        {"213M", "big", 6, 16, 0, 0, 1024, 0, 512, 37000}}},

      {"t5", [](Config& c) { t5(c); c.activation = Activation::relu; c.root_logit_scale = true; },
       "Raffel et al. 2020, arXiv 1910.10683; T5Config's defaults",
       "its initial values, which scale with the width of each matrix",
       {{"nano", kLaptop, 2, 4, 0, 0, 128, 0, 256, 0},
        {"60M", "T5 small", 6, 8, 0, 64, 512, 2048, 512, 32128},
        {"220M", "T5 base", 12, 12, 0, 64, 768, 3072, 512, 32128}}},

      {"t5-v1.1", [](Config& c) { t5(c); c.activation = Activation::geglu_tanh; c.tied = false; },
       "Raffel et al. 2020, arXiv 1910.10683; Shazeer 2020, arXiv 2002.05202; google/t5-v1_1-base/config.json",
       "its initial values, which scale with the width of each matrix",
       {{"nano", kLaptop, 2, 4, 0, 0, 128, 0, 256, 0},
        {"77M", "T5 1.1 small", 8, 6, 0, 64, 512, 1024, 512, 32128},
        {"248M", "T5 1.1 base", 12, 12, 0, 64, 768, 2048, 512, 32128}}},

      {"gpt1", [](Config& c) { c.placement = "post"; }, "Radford et al. 2018; openai-gpt in transformers", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"117M", "the model of the paper", 12, 12, 0, 0, 768, 0, 512, 40478}}},

      {"bert", [](Config& c) { bert(c, 1e-12f, 2); }, "Devlin et al. 2019, arXiv 1810.04805; BertConfig's defaults",
       "its second objective, whether a text follows another: here all tokens have the first type",
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"110M", "BERT base, uncased", 12, 12, 0, 0, 768, 0, 512, 30522},
        {"335M", "BERT large, uncased", 24, 16, 0, 0, 1024, 0, 512, 30522}}},

      {"roberta", [](Config& c) { bert(c, 1e-5f, 1); }, "Liu et al. 2019, arXiv 1907.11692; roberta-base/config.json",
       kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"125M", "RoBERTa base", 12, 12, 0, 0, 768, 0, 512, 50265},
        {"355M", "RoBERTa large", 24, 16, 0, 0, 1024, 0, 512, 50265}}},

      {"gpt2", kGpt2, "Radford et al. 2019; gpt2 in transformers", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"124M", "GPT-2 small", 12, 12, 0, 0, 768, 0, 1024, 50257},
        {"355M", "GPT-2 medium", 24, 16, 0, 0, 1024, 0, 1024, 50257},
        {"774M", "GPT-2 large", 36, 20, 0, 0, 1280, 0, 1024, 50257},
        {"1558M", "GPT-2 XL", 48, 25, 0, 0, 1600, 0, 1024, 50257}}},

      {"gpt3", kGpt2, "Brown et al. 2020, arXiv 2005.14165, table 2.1",
       "the banded attention of every other layer, whose width was not published: here all layers are dense",
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"125M", "GPT-3 Small", 12, 12, 0, 0, 768, 0, 2048, 50257},
        {"175B", "GPT-3", 96, 96, 0, 0, 12288, 0, 2048, 50257}}},

      // The only OPT with its norms after the branches and a narrow embedding.
      {"opt-350m", [](Config& c) { c.placement = "post"; c.activation = Activation::relu; },
       "Zhang et al. 2022, arXiv 2205.01068; facebook/opt-350m/config.json",
       kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0, [](Config& c) { c.embedding_channels = 64; }},
        {"350M", "", 24, 16, 0, 0, 1024, 0, 2048, 50272, [](Config& c) { c.embedding_channels = 512; }}}},

      {"llama", [](Config& c) { llama(c, 1e-6f); },
       "Touvron et al. 2023, arXiv 2302.13971; LlamaConfig's defaults", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"7B", "", 32, 32, 0, 0, 4096, 11008, 2048, 32000}}},

      {"llama2", [](Config& c) { llama(c, 1e-5f); },
       "Touvron et al. 2023, arXiv 2307.09288; meta-llama/Llama-2-7b-hf/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"15M", "llama2.c stories15M", 6, 6, 0, 0, 288, 0, 256, 32000, kTied},
        {"42M", "llama2.c stories42M", 8, 8, 0, 0, 512, 0, 1024, 32000, kTied},
        {"110M", "llama2.c stories110M", 12, 12, 0, 0, 768, 0, 1024, 32000, kTied},
        {"7B", "", 32, 32, 0, 0, 4096, 11008, 4096, 32000},
        {"70B", "", 80, 64, 8, 0, 8192, 28672, 4096, 32000}}},

      {"llama3", [](Config& c) { llama(c, 1e-5f, 500000); },
       "Dubey et al. 2024, arXiv 2407.21783; Meta-Llama-3-8B by litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 448, 256, 0},
        {"8B", "", 32, 32, 8, 0, 4096, 14336, 8192, 128256},
        {"70B", "", 80, 64, 8, 0, 8192, 28672, 8192, 128256}}},

      {"mistral", [](Config& c) { llama(c, 1e-5f); c.window = 4096; },
       "Jiang et al. 2023, arXiv 2310.06825; Mistral-7B-v0.1", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 448, 256, 0, [](Config& c) { c.window = 64; }},
        {"7B", "v0.1", 32, 32, 8, 0, 4096, 14336, 32768, 32000}}},

      // A token of Mixtral uses 2 of 8 experts. Together they are as wide as two of Mistral's feed-forward layers.
      {"mixtral", [](Config& c) { llama(c, 1e-5f, 1000000); c.experts = 8; },
       "Jiang et al. 2024, arXiv 2401.04088; mistralai/Mixtral-8x7B-v0.1/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 64, 256, 0},
        {"8x7B", "v0.1", 32, 32, 8, 0, 4096, 14336, 32768, 32000}}},

      {"qwen", [](Config& c) { llama(c, 1e-6f); c.qkv_bias = true; },
       "Bai et al. 2023, arXiv 2309.16609; Qwen/Qwen-7B/config.json, whose intermediate_size counts gate and up",
       "what acts beyond 2048 tokens only: queries scaled by log n, dynamic NTK angles",
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"7B", "", 32, 32, 0, 0, 4096, 11008, 2048, 151936}}},

      {"qwen2", [](Config& c) { llama(c, 1e-6f, 1000000); c.qkv_bias = true; },
       "Yang et al. 2024, arXiv 2407.10671; Qwen/Qwen2-7B/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 672, 256, 0},
        {"0.5B", "tied", 24, 14, 2, 0, 896, 4864, 131072, 151936, kTied},
        {"7B", "", 28, 28, 4, 0, 3584, 18944, 131072, 152064}}},

      {"qwen3", [](Config& c) { llama(c, 1e-6f, 1000000); c.qk_norm = QkNormKind::head; },
       "Yang et al. 2025, arXiv 2505.09388; Qwen/Qwen3-8B by litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 384, 256, 0},
        {"0.6B", "tied", 28, 16, 8, 128, 1024, 3072, 40960, 151936, kTied},
        {"8B", "", 36, 32, 8, 128, 4096, 12288, 40960, 151936}}},

      {"qwen3-moe",
       [](Config& c) {
         llama(c, 1e-6f, 1000000);
         c.qk_norm = QkNormKind::head;
         c.experts = 128;
         c.experts_per_token = 8;
       },
       "Yang et al. 2025, arXiv 2505.09388; Qwen/Qwen3-30B-A3B/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 32, 256, 0, kFewExperts},
        {"30B", "of which 3B are active", 48, 32, 4, 128, 2048, 768, 40960, 151936},
        {"235B", "of which 22B are active", 94, 64, 4, 128, 4096, 1536, 40960, 151936}}},

      {"baichuan-7b", [](Config& c) { llama(c, 1e-6f); },
       "baichuan-inc/Baichuan-7B/config.json; Llama's wiring", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"7B", "", 32, 32, 0, 0, 4096, 11008, 4096, 64000}}},

      {"baichuan-13b", [](Config& c) { llama(c, 1e-6f); c.position = Position::alibi; },
       "baichuan-inc/Baichuan-13B-Base; its configuration in vllm", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"13B", "", 40, 40, 0, 0, 5120, 13696, 4096, 64000}}},

      // The norm before its first block is the norm after the embedding; the norm after its last block is the block's
      // own.
      {"chatglm-6b", [](Config& c) { c.placement = "glm-deepnorm"; c.embedding_norm = true; c.position = kRope; },
       "THUDM/chatglm-6b, config.json and modeling_chatglm.py; Zeng et al. 2022, arXiv 2210.02414",
       "2-D positions, of which each turns half of a head, and sight of the whole prompt: here one RoPE, and causal",
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"6B", "", 28, 32, 0, 0, 4096, 16384, 2048, 130528}}},

      {"chatglm2-6b", [](Config& c) { llama(c, 1e-5f); c.rope_fraction = .5f; c.qkv_bias = true; },
       "THUDM/chatglm2-6b/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 416, 256, 0}, {"6B", "", 28, 32, 2, 128, 4096, 13696, 32768, 65024}}},

      {"bloom", [](Config& c) { c.embedding_norm = true; c.position = Position::alibi; },
       "Le Scao et al. 2022, arXiv 2211.05100; model card of bigscience/bloom", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"560M", "", 24, 16, 0, 0, 1024, 0, 2048, 250880},
        {"176B", "", 70, 112, 0, 0, 14336, 0, 2048, 250880}}},

      {"falcon-7b", [](Config& c) { falcon(c, BlockForm::parallel_shared); },
       "Almazrouei et al. 2023, arXiv 2311.16867; FalconConfig's defaults", kNothing,
       {{"nano", kLaptop, 4, 4, 1, 0, 128, 0, 256, 0}, {"7B", "", 32, 71, 1, 0, 4544, 0, 2048, 65024}}},

      {"falcon-40b", [](Config& c) { falcon(c, BlockForm::parallel); },
       "Almazrouei et al. 2023, arXiv 2311.16867; tiiuae/falcon-40b by litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 0, 256, 0}, {"40B", "", 60, 128, 8, 0, 8192, 0, 2048, 65024}}},

      {"gpt-neox",
       [](Config& c) { c.block = BlockForm::parallel; c.position = kRope; c.rope_fraction = .25f; c.tied = false; },
       "Black et al. 2022, arXiv 2204.06745; GPTNeoXConfig's defaults, and gelu_fast as in its config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0}, {"20B", "", 44, 64, 0, 0, 6144, 0, 2048, 50432}}},

      {"phi-2",
       [](Config& c) {
         c.block = BlockForm::parallel_shared;
         c.position = kRope;
         c.rope_fraction = .4f;
         c.head_bias = true;
         c.tied = false;
       },
       "microsoft/phi-2, by litgpt's config.py and PhiConfig", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"2.7B", "", 32, 32, 0, 0, 2560, 0, 2048, 51200}}},

      {"gemma2",
       [](Config& c) {
         llama(c, 1e-6f);
         c.placement = "sandwich";
         c.norm_unit_offset = true;
         c.activation = Activation::geglu_tanh;
         window_in_every_other_layer(c, 4096);
         c.attention_cap = 50;
         c.logit_cap = 30;
         c.tied = c.root_embedding_scale = true;
       },
       "Gemma Team 2024, arXiv 2408.00118; Gemma2Config's defaults, litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 512, 256, 0, [](Config& c) { c.window = 128; }},
        {"2B", "", 26, 8, 4, 256, 2304, 9216, 8192, 256000},
        {"9B", "", 42, 16, 8, 256, 3584, 14336, 8192, 256000},
        {"27B", "", 46, 32, 16, 128, 4608, 36864, 8192, 256000,
         [](Config& c) { c.attention_scale = 1 / 12.; }}}},  // (C/H)^-½, not D^-½

      // Models of 4B and more stretch RoPE 8 times. The paper does not say by what base layers with a window rotate.
      {"gemma3",
       [](Config& c) {
         llama(c, 1e-6f, 1e6f);
         c.placement = "sandwich";
         c.norm_unit_offset = true;
         c.qk_norm = QkNormKind::head;
         c.activation = Activation::geglu_tanh;
         c.window = 512;
         c.window_layers = "5 of 6";
         c.window_rope_theta = 1e4;
         c.tied = c.root_embedding_scale = true;
       },
       "Gemma Team 2025, arXiv 2503.19786; Gemma3TextConfig's defaults, litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 1, 0, 128, 512, 256, 0,
         [](Config& c) { c.window = 64; c.window_layers = "3 of 4"; }},
        {"270M", "", 18, 4, 1, 256, 640, 2048, 32768, 262144},
        {"1B", "", 26, 4, 1, 256, 1152, 6912, 32768, 262144}}},

      // Its z-loss is the paper's. It has no norm_topk_prob, so a token's weights add up to less than 1.
      {"olmoe",
       [](Config& c) {
         llama(c, 1e-5f);
         c.qk_norm = QkNormKind::full;
         c.experts = 64;
         c.experts_per_token = 8;
         c.router_renormalize = false;
         c.router_z_loss = 1e-3f;
       },
       "Muennighoff et al. 2024, arXiv 2409.02060; allenai/OLMoE-1B-7B-0924/config.json", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 32, 256, 0, kFewExperts},
        {"7B", "of which 1B are active", 16, 16, 0, 0, 2048, 1024, 4096, 50304}}},

      {"gpt-oss",
       [](Config& c) {
         llama(c, 1e-5f, 150000);
         c.bias = c.attention_sinks = c.router_logit_bias = true;
         c.activation = Activation::swiglu_clamped;
         window_in_every_other_layer(c, 128);
         c.rope_scaling = RopeScaling::yarn;
         c.rope_factor = 32;
         c.rope_original = 4096;
         c.rope_truncate = false;
         c.experts = 32;
         c.experts_per_token = 4;
       },
       "OpenAI 2025, arXiv 2508.10925; openai/gpt-oss-20b/config.json, GptOssConfig's defaults", kNothing,
       {{"nano", kLaptop, 4, 4, 2, 0, 128, 32, 256, 0,
         [](Config& c) { c.experts = 16; c.window = 64; c.rope_factor = 4; c.rope_original = 64; }},
        {"20B", "of which 3.6B are active", 24, 64, 8, 64, 2880, 2880, 131072, 201088},
        {"120B", "of which 5.1B are active", 36, 64, 8, 64, 2880, 2880, 131072, 201088,
         [](Config& c) { c.experts = 128; }}}},

      {"olmo",
       [](Config& c) {
         llama(c, 1e-5f);
         c.norm = NormKind::layernorm;
         c.norm_gain = false;
         c.norm_bias = false;
       },
       "Groeneveld et al. 2024, arXiv 2402.00838; allenai/OLMo-1B-hf/config.json", "the 7B's limit of 8 on q, k and v",
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"1B", "tied", 16, 16, 0, 0, 2048, 8192, 2048, 50304, kTied},
        {"7B", "", 32, 32, 0, 0, 4096, 11008, 2048, 50304}}},

      {"olmo2",
       [](Config& c) { llama(c, 1e-6f, 500000); c.placement = "reordered"; c.qk_norm = QkNormKind::full; },
       "OLMo Team 2024, arXiv 2501.00656; OLMo-2-1124-7B by litgpt's config.py", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 0, 256, 0},
        {"7B", "", 32, 32, 0, 0, 4096, 11008, 4096, 100352},
        {"13B", "", 40, 40, 0, 0, 5120, 13824, 4096, 100352}}},

      {"ngpt",
       [](Config& c) {
         c.placement = "ngpt";
         c.position = kRope;
         c.activation = Activation::swiglu;
         c.bias = c.tied = false;
         c.qk_norm = QkNormKind::unit;
         c.up_gain = c.logit_gain = c.normed_weights = true;
       },
       "Loshchilov et al. 2024, arXiv 2410.01131; launcher.sh of NVIDIA/ngpt", kNothing,
       {{"nano", kLaptop, 4, 4, 0, 0, 128, 512, 256, 0},
        {"506M", "", 24, 16, 0, 0, 1024, 4096, 1024, 50304}}},
  };
}

Config config_of(const Family& family, const Size& size) {
  Config c;
  family.wiring(c);
  c.n_layer = size.L;
  if (c.encoder_layers > 0) c.encoder_layers = size.L;
  c.n_head = size.H;
  c.kv_heads = size.KV;
  c.head_dim = size.D;
  c.channels = size.C;
  c.hidden = size.F;
  c.context = size.T;
  c.vocab_size = size.V;
  if (size.differs) size.differs(c);
  return c;
}

// ---- sizes by depth --------------------------------------------------------------------------------------

constexpr const char* kNano = "nano";
constexpr int kChannelsPerLayer = 32;  // a head has as many, as in nano
constexpr int kMostDepth = 64;

// Returns the depth in "d3.5", or 0 if the name is no size by depth.
double depth_of(std::string_view size) {
  const std::vector<std::string> sizes = sizes_by_depth();
  const auto found = std::ranges::find(sizes, size);
  return found == sizes.end() ? 0 : 1 + static_cast<double>(found - sizes.begin()) / 2;
}

// Returns the number nearest to `wanted` that divides the channels into heads of an even size.
int heads_near(int wanted, int channels) {
  for (int away = 0;; ++away)
    for (const int heads : {wanted - away, wanted + away})
      if (heads > 0 && channels % (2 * heads) == 0) return heads;
}

// Returns the number of key heads with nano's share of the query heads. A single one stays alone.
int key_heads_of(const Config& nano, int heads) {
  if (nano.kv_heads <= 1) return nano.kv_heads;
  int key_heads = std::max(1, heads * nano.kv_heads / nano.n_head);
  while (heads % key_heads != 0) --key_heads;
  return key_heads;
}

Config scaled_to(double depth, const Config& nano) {
  Config c = nano;
  c.n_layer = static_cast<int>(depth + .5);
  if (c.encoder_layers > 0) c.encoder_layers = c.n_layer;
  c.channels = static_cast<int>(kChannelsPerLayer * depth);
  c.n_head = heads_by_depth(c.channels);
  c.kv_heads = key_heads_of(nano, c.n_head);
  for (const Width& width : kWidths) c.*width.size = scaled(nano, width, c.channels);
  return c;
}

}  // namespace

bool is_size_by_depth(std::string_view size) { return depth_of(size) > 0; }

int heads_by_depth(int channels) {
  if (channels % 2 != 0) return 0;  // RoPE needs heads of an even size
  return heads_near(std::max(1, (channels + kChannelsPerLayer / 2) / kChannelsPerLayer), channels);
}

int scaled(const Config& from, const Width& width, int channels) {
  return static_cast<int>(int64_t(from.*width.size) * channels / from.channels);
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> rows = [] {
    std::vector<Preset> all;
    for (const Family& f : families())
      for (const Size& size : f.sizes)
        all.push_back({f.name, size.name, size.note, config_of(f, size), f.source, f.missing});
    return all;
  }();
  return rows;
}

std::vector<std::string> sizes_by_depth() {
  std::vector<std::string> names;
  for (int halves = 2; halves <= 2 * kMostDepth; ++halves)
    names.emplace_back("d").append(std::to_string(halves / 2)).append(halves % 2 == 0 ? "" : ".5");
  return names;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& row : presets())
    if (names.empty() || names.back() != row.name) names.emplace_back(row.name);
  return names;
}

Preset preset_row(std::string_view preset, std::string_view size) {
  const double depth = depth_of(size);
  std::vector<std::string> sizes;
  for (const Preset& row : presets()) {
    if (preset != row.name) continue;
    if (size == row.size) return row;
    if (depth > 0 && row.size == std::string_view(kNano))
      return {row.name, "", "scaled by depth", scaled_to(depth, row.config), row.source, row.missing};
    sizes.emplace_back(row.size);
  }
  if (sizes.empty()) throw std::invalid_argument(unknown_name("preset", preset, preset_names()));
  sizes.push_back("d1...d" + std::to_string(kMostDepth));
  throw std::invalid_argument(unknown_name("size of preset " + std::string(preset), size, sizes));
}

Config preset_config(std::string_view preset, std::string_view size) { return preset_row(preset, size).config; }
