#include "names.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "layers/model/config.hpp"

namespace {

struct ForeignOption {
  const char* theirs;  // separated by spaces
  const char* ours;    // exactly the same, or null
  const char* answer;
};

constexpr const char *kCpu = "train_gpt runs on the CPU; --threads sets the number of cores",
                     *kLogs = "every step goes to metrics.csv; `make watch` and `make tensorboard` show it",
                     *kPresets = "--preset names a family of models and --size its size; --init-from starts from "
                                 "weights",
                     *kAdamW = "the optimizer is always AdamW; set it with --lr, --beta1, --beta2 and --weight-decay",
                     *kGlobalBatch = "a step takes --batch times --accumulate sequences of --context tokens",
                     *kPrecision = "--matmul bf16 rounds matmul inputs; everything else stays fp32",
                     *kOneProcess = "there is one process; --threads sets the number of cores";

// The first row whose option the command has wins.
constexpr ForeignOption kOptions[] = {
    {"batch-size micro-batch-size device-batch-size per-device-train-batch-size train-batch-size", "batch", ""},
    {"learning-rate max-lr peak-lr lr-max", "lr", ""},
    {"min-learning-rate lr-min final-lr end-lr", "min-lr", ""},
    {"n-layer n-layers num-layers num-hidden-layers num-blocks n-blocks depth", "layers", ""},
    {"n-head n-heads num-heads num-attention-heads", "heads", ""},
    {"n-kv-head n-kv-heads num-kv-heads num-key-value-heads n-query-groups", "kv-heads", ""},
    {"head-size", "head-dim", ""},
    {"n-embd n-embed d-model dim embed-dim embedding-dim emb-dim embedding-size", "channels", ""},
    {"intermediate-size d-ff ffn-dim n-inner dim-feedforward ffn-hidden-size", "hidden", ""},
    {"block-size seq-len seq-length sequence-length max-seq-len max-seq-length context-length context-size n-ctx "
     "n-positions max-position-embeddings", "context", ""},
    {"n-vocab vocabulary-size padded-vocab-size", "vocab-size", ""},
    {"max-iters max-steps num-iterations num-steps iters iterations n-steps train-steps num-train-steps", "steps", ""},
    {"num-epochs num-train-epochs max-epochs n-epochs", "epochs", ""},
    {"warmup-iters warmup-steps num-warmup-steps lr-warmup-steps lr-warmup-iters", "warmup", ""},
    {"lr-schedule lr-scheduler lr-scheduler-type scheduler", "schedule", ""},
    {"grad-clip max-grad-norm gradient-clip gradient-clip-val clip-grad clip-grad-norm clip-norm", "clip", ""},
    {"gradient-accumulation-steps grad-accum grad-accum-steps accumulate-grad-batches accumulation-steps "
     "gradient-accumulation", "accumulate", ""},
    {"wd", "weight-decay", ""},
    {"adam-beta1", "beta1", ""},
    {"adam-beta2", "beta2", ""},
    {"adam-epsilon", "adam-eps", ""},
    {"eval-interval eval-steps val-every val-interval val-loss-every", "eval-every", ""},
    {"eval-iters", "eval-batches", ""},
    {"save-interval save-steps checkpoint-every checkpoint-interval ckpt-every", "save-every", ""},
    {"sample-interval", "sample-every", ""},
    {"output-dir out-dir run-dir save-dir output", "out", ""},
    {"dataset text train-data train-file input input-file data-file data-path data-dir", "data", ""},
    {"validation-data val-file validation-file eval-data", "val-data", ""},
    {"val-frac val-ratio validation-fraction", "val-fraction", ""},
    {"early-stopping early-stopping-patience", "patience", ""},
    {"time-limit max-time", "for", ""},
    {"overwrite overwrite-output-dir", "force", ""},
    {"config-file cfg", "config", ""},
    {"random-seed manual-seed torch-seed", "seed", ""},
    {"num-threads n-threads cpus nproc omp-num-threads", "threads", ""},
    {"model-size", "size", ""},
    {"norm-type normalization norm-layer norm-class", "norm", ""},
    {"norm-placement norm-position", "placement", ""},
    {"layer-norm-eps layer-norm-epsilon rms-norm-eps ln-eps", "norm-eps", ""},
    {"activation-function hidden-act act-fn nonlinearity", "activation", ""},
    {"pos-emb pos-encoding pos-embedding position-embedding position-embedding-type position-encoding "
     "positional-encoding", "position", ""},
    {"rope-base rotary-base", "rope-theta", ""},
    {"rotary-pct rotary-percentage partial-rotary-factor", "rope-fraction", ""},
    {"sliding-window window-size", "window", ""},
    {"attn-logit-softcapping attention-logit-softcapping", "attention-cap", ""},
    {"final-logit-softcapping", "logit-cap", ""},
    {"dropout-rate", "dropout", ""},
    {"use-bias", "bias", ""},
    {"tie-weights tie-word-embeddings tie-embeddings weight-tying tied-embeddings", "tied", ""},
    {"gradient-checkpointing activation-checkpointing recompute-activations", "recompute", ""},
    {"max-new-tokens max-tokens num-tokens n-tokens", "length", ""},
    {"temp", "temperature", ""},
    {"start", "prompt", ""},
    {"num-samples n-samples", "count", ""},
    {"run model ckpt model-path checkpoint-path checkpoint-dir", "checkpoint", ""},

    {"model model-name model-type model-name-or-path arch architecture", nullptr, kPresets},
    {"hidden-size", nullptr, "--channels is the width of the model, --hidden that of the feed-forward layer"},
    {"init-std initializer-range weight-init", nullptr, "--init chooses the weight initialization"},
    {"optimizer optim adamw", nullptr, kAdamW},
    {"momentum nesterov", nullptr, kAdamW},
    {"eps epsilon", nullptr, "--adam-eps is AdamW's epsilon, --norm-eps that of the norms"},
    {"lr-decay decay-lr", nullptr, "--schedule cosine|linear|constant decays the learning rate to --min-lr"},
    {"lr-decay-iters lr-decay-steps", nullptr, "the schedule ends with the last of --steps"},
    {"warmup-ratio warmup-frac warmup-fraction", nullptr, "--warmup takes a number of steps"},
    {"total-batch-size global-batch-size effective-batch-size tokens-per-step", nullptr, kGlobalBatch},
    {"dtype precision bf16 bfloat16 amp mixed-precision autocast", nullptr, kPrecision},
    {"fp16 half int8 quantize load-in-8bit", nullptr, kPrecision},
    {"device gpu gpus cuda devices num-gpus accelerator mps", nullptr, kCpu},
    {"ddp fsdp backend world-size local-rank num-nodes deepspeed strategy", nullptr, kOneProcess},
    {"num-workers workers dataloader-num-workers", nullptr, "the text is read into memory once; no loader runs"},
    {"compile torch-compile", nullptr, "the program is compiled already; leave it out"},
    {"flash flash-attn flash-attention attn-implementation", nullptr, "attention always runs in tiles; leave it out"},
    {"wandb wandb-log wandb-project wandb-run-name report-to tensorboard logger", nullptr, kLogs},
    {"log-interval log-every logging-steps verbose", nullptr, kLogs},
    {"shuffle", nullptr, "--sampling shuffle reads each window once per epoch"},
    {"validation-split test-split test-size", nullptr, "--val-fraction is the share of the text for validation"},
    {"attn-dropout attention-dropout attn-pdrop resid-dropout resid-pdrop embd-pdrop hidden-dropout", nullptr,
     "one --dropout is for the whole model"},
    {"pre-norm prenorm pre-ln norm-first", nullptr, "write --placement pre"},
    {"post-norm postnorm post-ln", nullptr, "write --placement post"},
    {"rmsnorm rms-norm", nullptr, "write --norm rmsnorm"},
    {"layernorm layer-norm", nullptr, "write --norm layernorm"},
    {"rope rotary", nullptr, "write --position rope"},
    {"alibi", nullptr, "write --position alibi"},
    {"swiglu", nullptr, "write --activation swiglu"},
    {"gqa n-groups", nullptr, "--kv-heads below --heads makes grouped-query attention"},
    {"resume-from resume-from-checkpoint resume-training load-checkpoint ckpt", nullptr,
     "--out RUN --resume continues a run; --init-from FILE starts a new one from its weights"},
    {"pretrained from-pretrained finetune init-checkpoint load", nullptr, "--init-from RUN starts from its weights"},
    {"repetition-penalty presence-penalty num-beams", nullptr, "--temperature, --top-k and --top-p shape the sample"},
    {"do-sample", nullptr, "sampling is on unless you say --greedy"},
};

struct ForeignValue {
  const char *option, *theirs, *ours, *answer;
};
constexpr ForeignValue kValues[] = {
    {"norm", "rms", "rmsnorm", ""},
    {"norm", "ln layer", "layernorm", ""},
    {"norm", "bn batch batchnorm1d", "batchnorm", ""},
    {"norm", "dynamictanh", "dyt", ""},
    {"norm", "none no identity off", nullptr, "--placement none has no norms"},
    {"tokenizer", "character characters unicode codepoint codepoints", "char", ""},
    {"tokenizer", "bytes bytelevel utf8", "byte", ""},
    {"tokenizer", "bpe gpt2 tiktoken sentencepiece wordpiece unigram word words llama", nullptr,
     "tokens are bytes or characters: choose byte or char"},
    {"schedule", "cos cosineannealing cosinewithwarmup", "cosine", ""},
    {"schedule", "lin lineardecay", "linear", ""},
    {"schedule", "const none flat constantwithwarmup fixed", "constant", ""},
    {"activation", "swish", "silu", ""},
    {"activation", "gelunew gelupytorchtanh geluapprox gelufast", "gelu-tanh", ""},
    {"position", "rotary", "rope", ""},
    {"position", "absolute learnable", "learned", ""},
    {"position", "sin sine sinusoid fixed", "sinusoidal", ""},
    {"position", "nope no off", "none", ""},
    {"placement", "prenorm", "pre", ""},
    {"placement", "postnorm", "post", ""},
    {"init", "glorot xavieruniform xaviernormal glorotuniform glorotnormal", "xavier", ""},
    {"matmul", "bfloat16", "bf16", ""},
    {"matmul", "float32 float single", "fp32", ""},
    {"matmul", "fp16 float16 half", nullptr, "matmul inputs are fp32 or bf16"},
};

bool has_word(const char* list, const std::string& word) {
  std::istringstream in(list);
  for (std::string one; in >> one;)
    if (one == word) return true;
  return false;
}

}  // namespace

std::string dashed(std::string_view name) {
  std::string s(name);
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
  return s;
}

std::string squeezed(std::string_view name) {
  std::string s = dashed(name);
  std::erase_if(s, [](char c) { return c == '-' || c == '.' || c == ' '; });
  return s;
}

Meaning meaning_of_option(const std::string& foreign, const std::vector<std::string>& known) {
  for (const ForeignOption& row : kOptions) {
    if (!has_word(row.theirs, foreign)) continue;
    if (!row.ours) return {"", row.answer};
    if (std::find(known.begin(), known.end(), row.ours) != known.end()) return {row.ours, ""};
  }
  return {};
}

Meaning meaning_of_value(const std::string& option, const std::string& foreign) {
  for (const ForeignValue& row : kValues)
    if (option == row.option && has_word(row.theirs, squeezed(foreign)))
      return row.ours ? Meaning{row.ours, ""} : Meaning{"", row.answer};
  return {};
}

namespace {

// The nearest name, or those of which `given` begins the name or what follows a dash.
std::vector<std::string> similar_names(const std::string& given, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(given, known);
  if (!nearest.empty()) return {nearest};
  std::vector<std::string> names;
  for (const std::string& name : known)
    if (given.size() >= 3 && ("-" + name).find("-" + given) != name.npos) names.push_back(name);
  return names.size() <= 3 ? names : std::vector<std::string>{};
}

}  // namespace

std::string did_you_mean(const std::string& given, const std::vector<std::string>& known, const std::string& dashes) {
  std::string list;
  for (const std::string& name : similar_names(given, known))
    list += (list.empty() ? "'" : " or '") + dashes + name + "'";
  return list.empty() ? "" : "did you mean " + list + "?";
}
