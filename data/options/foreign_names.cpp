#include "foreign_names.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "layers/config/enum_names.hpp"
#include "layers/training/run_optimizer.hpp"

namespace {

struct ForeignName {
  const char* theirs;       // separated by spaces
  const char* meaning;      // our name, with exactly the same meaning, or an answer in several words
  const char* option = "";  // the option whose value it is; "" if it is the name of an option
};

constexpr ForeignName kForeign[] = {
    {"batch-size micro-batch-size device-batch-size per-device-train-batch-size train-batch-size", "batch"},
    {"learning-rate max-lr peak-lr lr-max", "lr"},
    {"min-learning-rate lr-min final-lr end-lr", "min-lr"},
    {"n-layer n-layers num-layers num-hidden-layers num-blocks n-blocks depth", "layers"},
    {"n-head n-heads num-heads num-attention-heads", "heads"},
    {"n-kv-head n-kv-heads num-kv-heads num-key-value-heads n-query-groups", "kv-heads"},
    {"head-size", "head-dim"},
    {"n-embd n-embed d-model dim embed-dim embedding-dim emb-dim embedding-size", "channels"},
    {"intermediate-size d-ff ffn-dim n-inner dim-feedforward ffn-hidden-size", "hidden"},
    {"moe-intermediate-size expert-hidden", "hidden"},
    {"n-experts num-experts num-local-experts n-routed-experts", "experts"},
    {"num-experts-per-tok num-experts-per-token n-experts-per-token moe-top-k router-top-k", "experts-per-token"},
    {"n-shared-experts num-shared-experts", "shared-experts"},
    {"norm-topk-prob", "router-renormalize"},
    {"router-aux-loss-coef aux-loss moe-aux-loss load-balancing-loss balance-loss", "router-loss"},
    {"router-z-loss-coef", "router-z-loss"},
    {"bias-update-rate bias-update-speed", "router-bias"},
    {"block-size seq-len seq-length sequence-length max-seq-len max-seq-length context-length context-size n-ctx "
     "n-positions max-position-embeddings", "context"},
    {"n-vocab vocabulary-size padded-vocab-size", "vocab-size"},
    {"vocab-size n-vocab vocabulary-size", "vocab"},
    {"max-iters max-steps num-iterations num-steps iters iterations n-steps train-steps num-train-steps", "steps"},
    {"num-epochs num-train-epochs max-epochs n-epochs", "epochs"},
    {"target-param-data-ratio data-param-ratio", "tokens-per-parameter"},
    {"target-flops", "flops"},
    {"warmup-iters warmup-steps num-warmup-steps lr-warmup-steps lr-warmup-iters", "warmup"},
    {"lr-schedule lr-scheduler lr-scheduler-type scheduler", "schedule"},
    {"grad-clip max-grad-norm gradient-clip gradient-clip-val clip-grad clip-grad-norm clip-norm", "clip"},
    {"gradient-accumulation-steps grad-accum grad-accum-steps accumulate-grad-batches accumulation-steps "
     "gradient-accumulation", "accumulate"},
    {"wd", "weight-decay"},
    {"optim", "optimizer"},
    {"z-loss-weight z-loss-multiplier z-loss-coefficient", "z-loss"},
    {"embedding-lr", "lr-embedding"},
    {"unembedding-lr head-lr", "lr-head"},
    {"lora-r lora-rank", "lora"},
    {"target-modules lora-target-modules", "lora-on"},
    {"adam-beta1", "beta1"},
    {"adam-beta2", "beta2"},
    {"adam-epsilon", "adam-eps"},
    {"eval-interval eval-steps val-every val-interval val-loss-every", "eval-every"},
    {"eval-iters", "eval-batches"},
    {"save-interval save-steps checkpoint-every checkpoint-interval ckpt-every", "save-every"},
    {"sample-interval", "sample-every"},
    {"output-dir out-dir run-dir save-dir output", "out"},
    {"dataset text train-data train-file input input-file data-file data-path data-dir", "data"},
    {"validation-data val-file validation-file eval-data", "val-data"},
    {"val-frac val-ratio validation-fraction", "val-fraction"},
    {"early-stopping early-stopping-patience", "patience"},
    {"time time-limit max-time minutes duration", "for"},
    {"overwrite overwrite-output-dir", "force"},
    {"config-file cfg", "config"},
    {"random-seed manual-seed torch-seed", "seed"},
    {"norm-learning-rate lr-norms", "lr-norm"},
    {"num-threads n-threads cpus nproc omp-num-threads", "threads"},
    {"model-size", "size"},
    {"norm-type normalization norm-layer norm-class", "norm"},
    {"norm-placement norm-position", "placement"},
    {"layer-norm-eps layer-norm-epsilon rms-norm-eps ln-eps", "norm-eps"},
    {"activation-function hidden-act act-fn nonlinearity", "activation"},
    {"pos-emb pos-encoding pos-embedding position-embedding position-embedding-type position-encoding "
     "positional-encoding", "position"},
    {"rope-base rotary-base", "rope-theta"},
    {"rotary-pct rotary-percentage partial-rotary-factor", "rope-fraction"},
    {"sliding-window window-size", "window"},
    {"attn-logit-softcapping attention-logit-softcapping", "attention-cap"},
    {"final-logit-softcapping", "logit-cap"},
    {"dropout-rate", "dropout"},
    {"use-bias", "bias"},
    {"tie-weights tie-word-embeddings tie-embeddings weight-tying tied-embeddings", "tied"},
    {"gradient-checkpointing activation-checkpointing recompute-activations recompute-granularity", "recompute"},
    {"max-new-tokens max-tokens num-tokens n-tokens", "length"},
    {"temp", "temperature"},
    {"start", "prompt"},
    {"num-samples n-samples", "count"},
    {"num-beams beam-size beam-width", "beams"},
    {"repetition-penalty", "repeat-penalty"},
    {"run model ckpt model-path checkpoint-path checkpoint-dir", "checkpoint"},

    {"model model-name model-type model-name-or-path arch architecture",
     "--preset names a family of models and --size its size; --init-from starts from weights"},
    {"hidden-size", "--channels is the width of the model, --hidden that of the feed-forward layer"},
    {"init-std initializer-range weight-init", "--init chooses the weight initialization"},
    {"eps epsilon", "--adam-eps is AdamW's epsilon, --norm-eps that of the norms"},
    {"lr-decay decay-lr", "--schedule cosine|linear|constant|wsd decays the learning rate to --min-lr"},
    {"lr-decay-iters lr-decay-steps", "the schedule ends with the last of --steps"},
    {"warmup-ratio warmup-frac warmup-fraction", "--warmup 10% is a tenth of the steps"},
    {"total-batch-size global-batch-size effective-batch-size tokens-per-step",
     "a step takes --batch times --accumulate sequences of --context tokens"},
    {"dtype precision bf16 bfloat16 amp mixed-precision autocast fp16 half int8 quantize load-in-8bit",
     "--matmul bf16 rounds matmul inputs; everything else stays fp32"},
    {"device gpu gpus cuda devices num-gpus accelerator mps",
     "train_gpt runs on the CPU; --threads sets the number of cores"},
    {"ddp fsdp backend world-size rank local-rank num-nodes nnodes nproc-per-node deepspeed strategy",
     "`mpirun -n 2 train_gpt train ...` trains in 2 processes, on one machine or more, if built with `make MPI=1`"},
    {"num-workers workers dataloader-num-workers", "the text is read into memory once; no loader runs"},
    {"compile torch-compile", "the program is compiled already; leave it out"},
    {"flash flash-attn flash-attention attn-implementation", "attention always runs in tiles; leave it out"},
    {"wandb wandb-log wandb-project wandb-run-name report-to tensorboard logger log-interval log-every logging-steps "
     "verbose", "every step goes to metrics.csv; `make watch` and `make tensorboard` show it"},
    {"shuffle", "--sampling shuffle reads each window once per epoch"},
    {"validation-split test-split test-size", "--val-fraction is the share of the text for validation"},
    {"attn-dropout attention-dropout attn-pdrop resid-dropout resid-pdrop embd-pdrop hidden-dropout",
     "one --dropout is for the whole model"},
    {"pre-norm prenorm pre-ln norm-first", "write --placement pre"},
    {"post-norm postnorm post-ln", "write --placement post"},
    {"rmsnorm rms-norm", "write --norm rmsnorm"},
    {"no-norm nonorm no-norms", "write --placement none"},
    {"seeds num-seeds n-seeds", "--seed is one number; compare --grid seed=1,2,3 trains each cell with three"},
    {"layernorm layer-norm", "write --norm layernorm"},
    {"rope rotary", "write --position rope"},
    {"alibi", "write --position alibi"},
    {"swiglu", "write --activation swiglu"},
    {"gqa n-groups", "--kv-heads below --heads makes grouped-query attention"},
    {"resume-from resume-from-checkpoint resume-training load-checkpoint ckpt",
     "--out RUN --resume continues a run; --init-from FILE starts a new one from its weights"},
    {"pretrained from-pretrained finetune init-checkpoint load", "--init-from RUN starts from its weights"},
    {"presence-penalty frequency-penalty", "--repeat-penalty makes tokens that the context has less likely"},
    {"do-sample", "sampling is on unless you say --greedy"},

    {"rms", "rmsnorm", "norm"},
    {"ln layer", "layernorm", "norm"},
    {"bn batch batchnorm1d", "batchnorm", "norm"},
    {"dynamictanh", "dyt", "norm"},
    {"gatedrmsnorm gated", "gatednorm", "norm"},
    {"none no identity off", "--placement none has no norms", "norm"},
    {"character characters unicode codepoint codepoints", "char", "tokenizer"},
    {"bytes bytelevel utf8", "byte", "tokenizer"},
    {"bpe gpt2 tiktoken sentencepiece wordpiece unigram word words llama",
     "write bpe:4096 to train a byte-pair encoding on the text, or name a tokenizer file", "tokenizer"},
    {"cos cosineannealing cosinewithwarmup", "cosine", "schedule"},
    {"lin lineardecay", "linear", "schedule"},
    {"const none flat constantwithwarmup fixed", "constant", "schedule"},
    {"swish", "silu", "activation"},
    {"gelunew gelupytorchtanh geluapprox gelufast", "gelu-tanh", "activation"},
    {"rotary", "rope", "position"},
    {"absolute learnable", "learned", "position"},
    {"sin sine sinusoid fixed", "sinusoidal", "position"},
    {"nope no off", "none", "position"},
    {"prenorm", "pre", "placement"},
    {"postnorm", "post", "placement"},
    {"glorot xavieruniform xaviernormal glorotuniform glorotnormal", "xavier", "init"},
    {"bfloat16", "bf16", "matmul"},
    {"float32 float single", "fp32", "matmul"},
    {"fp16 float16 half", "matmul inputs are fp32 or bf16", "matmul"},
    {"f32 float32 float", "fp32", "weights"},
    {"f16 float16 half", "fp16", "weights"},
    {"bfloat16", "bf16", "weights"},
    {"f32 float32 float", "fp32", "frozen-weights"},
    {"f16 float16 half", "fp16", "frozen-weights"},
    {"bfloat16", "bf16", "frozen-weights"},
    {"fp32 float32 float", "f32", "dtype"},
    {"fp16 float16 half", "f16", "dtype"},
    {"bfloat16", "bf16", "dtype"},
};

bool has_word(const std::string& list, const std::string& word) {
  return (" " + list + " ").find(" " + word + " ") != list.npos;
}

// Returns the words of a name, sorted: "head-lr" and "lr-head" give the same.
std::vector<std::string> sorted_words(std::string name) {
  std::replace(name.begin(), name.end(), '-', ' ');
  std::istringstream in(name);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  std::sort(words.begin(), words.end());
  return words;
}

// Returns the meaning of another program's nearest option name; "" if nothing is close.
std::string nearest_meaning(const std::string& given, const std::vector<std::string>& known) {
  std::vector<std::string> theirs;
  for (const ForeignName& row : kForeign) {
    if (*row.option) continue;
    std::istringstream words(row.theirs);
    for (std::string word; words >> word;)
      if (meaning_of(word, known).find(' ') == std::string::npos) theirs.push_back(word);
  }
  return meaning_of(nearest_name(given, theirs), known);
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

std::string meaning_of(const std::string& foreign, const std::vector<std::string>& known, const std::string& option) {
  if (option.empty() && std::ranges::count(run_optimizers(), foreign, &RunOptimizer::name))
    return "--optimizer NAME chooses the optimizer; train --help lists the names";
  for (const ForeignName& row : kForeign) {
    if (row.option != option || !has_word(row.theirs, foreign)) continue;
    const std::string meaning = row.meaning;
    if (meaning.find(' ') != meaning.npos || std::find(known.begin(), known.end(), meaning) != known.end())
      return meaning;
  }
  return "";
}

std::string did_you_mean(const std::string& given, const std::vector<std::string>& known, const std::string& dashes) {
  std::vector<std::string> names;
  for (const std::string& name : known)
    if (names.empty() && sorted_words(name) == sorted_words(given)) names = {name};
  const std::string nearest = nearest_name(given, known);
  if (names.empty() && !nearest.empty()) names = {nearest};
  if (names.empty() && given.size() >= 3)
    for (const std::string& name : known)
      if (("-" + name).find("-" + given) != name.npos) names.push_back(name);
  if (names.empty() && !dashes.empty())
    if (const std::string meaning = nearest_meaning(given, known); !meaning.empty()) names = {meaning};
  if (names.empty() || names.size() > 3) return "";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "'" : " or '") + dashes + name + "'";
  return "did you mean " + list + "?";
}
