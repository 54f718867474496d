#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/host/errors.hpp"
#include "data/host/json.hpp"
#include "data/options/settings.hpp"
#include "data/options/stored.hpp"
#include "data/run/generate_text.hpp"
#include "data/run/schedule.hpp"
#include "data/run/trained.hpp"
#include "data/show/model_text.hpp"
#include "data/text/corpus.hpp"
#include "kernels.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/simd.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"
#include "layers/training/diagnostics.hpp"

using nlohmann::ordered_json;

namespace {

// ---- settings --------------------------------------------------------------------------------------------

struct Settings {
  TrainOptions train;
  CorpusOptions corpus;

  void set(const std::string& name, const std::string& value) {
    if (name == "preset" || name == "size") {
      (name == "size" ? train.size : train.preset) = value;
      train.config = preset_config(train.preset, train.size);
    } else if (name == "grammar") {
      corpus.grammar = value;
    } else if (name == "bytes") {
      corpus.bytes = value;
    } else if (name == "corpus-seed") {
      corpus.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else {
      const std::vector<Setting> all = settings_of(train);
      const Setting* setting = find_setting(all, name);
      if (!setting) refuse("unknown option '--" + name + "'");
      setting->set(value);
    }
  }
};

ordered_json describe(const Setting& s) {
  std::vector<std::string> choices = s.choices;
  return {{"name", s.name}, {"group", s.group}, {"help", s.help}, {"takes", s.takes}, {"default", s.shown},
          {"choices", choices}};
}

// ---- text ------------------------------------------------------------------------------------------------

// The stories of `train_gpt corpus`, and -log P of each.
std::string tell(const CorpusOptions& o, std::vector<double>& nats) {
  std::string text;
  tell_stories(parse_bytes(o.bytes), o.seed, story_grammar(o.grammar), [&](const Story& story) {
    text += story.text;
    nats.push_back(story.nats);
  });
  return text;
}

Tokenizer tokenizer_of(const std::string& name, const std::string& text) {
  return name == "char" ? Tokenizer::characters(text) : Tokenizer::bytes();
}

// What load_dataset() makes of a file with this text, and of the file with the -log P of its stories.
Dataset dataset_of(std::string text, std::vector<double> nats, const TrainOptions& o) {
  const int T = o.config.context;
  Dataset data;
  data.name = "the text";
  data.tokenizer = tokenizer_of(o.tokenizer, text);
  data.bytes = text.size();
  const std::vector<uint32_t> tokens = data.tokenizer.encode(text);
  if (data.tokenizer.vocabulary() <= 256) data.tokens.append(std::vector<uint8_t>(tokens.begin(), tokens.end()));
  else data.tokens.append(tokens);
  const std::vector<Stretch> parts = split(data, nats, o, T);
  require_tokens(data.train, T + 1, "training with a context of " + std::to_string(T), data.name,
                 "give more text or lower --context");
  if (o.val_fraction > 0) {
    require_tokens(data.tokens.size() - data.train, 2, "validation", data.name, "give more text");
    set_validation(data, nats, parts, T);
  }
  if (o.sampling == Draws::shuffle) set_windows(data, !nats.empty(), T);
  return data;
}

double mean(const std::vector<double>& nats, size_t tokens) {
  double sum = 0;
  for (double x : nats) sum += x;
  return sum / static_cast<double>(tokens);
}

// ---- the run ---------------------------------------------------------------------------------------------

// Statistics of a step, as `train --diagnostics` writes them.
class StepStatistics : public PassStatistics {
 public:
  explicit StepStatistics(const Model& model) : PassStatistics(model), before_(allocate(model.floats)) {}

  void before_update() override {
    add_tensor_statistics(rows, model_);
    std::copy_n(model_.weights.get(), model_.floats, before_.get());
  }
  void after_update() override { add_update_ratios(rows, model_, before_.get()); }

 private:
  Buffer before_;  // the weights before the update
};

struct Run {
  TrainOptions o;
  Dataset data;
  TrainingState state;
  int64_t step = 0;
  std::unique_ptr<StepStatistics> statistics;
  std::optional<Activations> reading = {};  // of one text of a whole context, block by block

  Run(const TrainOptions& options, Dataset text)
      : o(options), data(std::move(text)), state(model_to_train(o), o.batch, o.config.context, functions(o)) {
    initialize(state.model, o.seed);
  }

  static StepFunctions functions(const TrainOptions& o) {
    StepFunctions by = kFastStep;
    by.optimizers = run_optimizer(o.optimizer).rows;
    return by;
  }

  const Model& model() const { return state.model; }
  const Config& config() const { return state.model.config; }

  // The tokens of a text that the model knows: the last ones that fit into its context.
  std::vector<int> tokens_of(const std::string& text) const {
    const std::vector<uint32_t> all = data.tokenizer.encode(text, Unknown::skip);
    if (all.empty()) refuse("the text has no character that the model knows");
    const size_t count = std::min<size_t>(all.size(), config().context);
    return std::vector<int>(all.end() - static_cast<int64_t>(count), all.end());
  }

  // Reads a text of one sequence. The activations keep what each block computed.
  const Activations& read(const std::vector<int>& tokens) {
    if (!reading) {
      Config config = this->config();
      config.recompute = Recompute::none;
      reading = allocate_activations(config, 1, config.context, true);
    }
    model_features(model(), *reading, {tokens.data(), nullptr, 1, static_cast<int>(tokens.size())});
    return *reading;
  }

  ordered_json texts(const std::vector<int>& tokens) const {
    ordered_json list = ordered_json::array();
    for (int token : tokens) list.push_back(data.tokenizer.decode(token));
    return list;
  }
};

Settings settings;
std::unique_ptr<Run> run;
std::string answer;

const char* reply(const ordered_json& value) {
  answer = to_ascii(value);
  return answer.c_str();
}

Run& started() {
  if (!run) refuse("the model has not started");
  return *run;
}

// ---- drawing ---------------------------------------------------------------------------------------------

// The parts of a residual branch in order, under their names in statistics and in the table of tensors.
void add_parts(ordered_json& parts, const Config& c, int layer, const std::string& branch) {
  const Placement& row = placement_at(c, layer, branch);
  const std::string norm = norm_name(c), last = branch == "attention" ? "o" : "down";
  const auto add = [&](const std::string& name, const char* kind, const std::string& shown) {
    parts.push_back({{"part", branch + name}, {"branch", branch}, {"kind", kind}, {"text", shown}});
  };
  if (row.norm_in) add(".norm_in", "norm", norm);
  add("", "sublayer", branch == "ffn" ? name_of(kActivations, c.activation) : branch);
  if (row.norm_inner) add(".norm_inner", "norm", norm);
  add("." + last, "matrix", last);
  if (row.norm_out) add(".norm_out", "norm", norm);
  if (row.gain != LearnedGain::none) add(".scale", "gain", "λ");
  add(".sum", "sum", "+");
  parts.back()["skip"] = *c.skip_scale;
  if (row.norm_sum) add(".norm_sum", "norm", norm);
}

ordered_json draw_layers(const Config& c) {
  ordered_json layers = ordered_json::array();
  for (int l = 0; l < c.n_layer; ++l) {
    ordered_json parts = ordered_json::array();
    for (const char* branch : {"attention", "ffn"}) add_parts(parts, c, l, branch);
    layers.push_back({{"placement", placement_at(c, l, "attention").name}, {"parts", parts}});
  }
  return layers;
}

ordered_json describe(const std::vector<TensorSpec>& table) {
  ordered_json list = ordered_json::array();
  for (const TensorSpec& spec : table)
    list.push_back({{"name", spec.name}, {"layer", spec.layer == kOutside ? ordered_json() : ordered_json(spec.layer)},
                    {"part", spec.part}, {"shape", spec.shape}});
  return list;
}

// ---- what the model sees ---------------------------------------------------------------------------------

// P (T,T) of one head, from the joined rows q|k|v after RoPE: the formulas of layers/attention/attention.hpp.
ordered_json attention_weights(const float* qkv, const float* lse, const AttentionShape& shape, int h) {
  const int D = shape.head_dim, kv_head = h / (shape.n_head / shape.kv_heads);
  const size_t stride = shape.qkv_width();
  const float *q = qkv + size_t(h) * D, *k = qkv + size_t(shape.n_head + kv_head) * D;
  ordered_json rows = ordered_json::array();
  for (int i = 0; i < shape.T; ++i) {
    std::vector<float> row(shape.T);
    for (int j = shape.window > 0 ? std::max(0, i - shape.window + 1) : 0; j <= i; ++j) {
      double score = shape.scale * simd::dot(q + i * stride, k + j * stride, D);
      if (shape.cap > 0) score = shape.cap * std::tanh(score / shape.cap);
      if (shape.slopes) score -= shape.slopes[h] * (i - j);
      row[j] = static_cast<float>(std::exp(score - lse[size_t(h) * shape.T + i]));
    }
    rows.push_back(row);
  }
  return rows;
}

void logits_of(float* logits, const Model& m, const float* features, int N) {
  const Head head{{m.p.head ? m.p.head : m.p.token, m.p.head_bias, m.config.matmul}, m.config.logit_cap};
  head_forward(logits, features, head, N, m.config.channels, m.config.vocab_size);
}

void log_softmax(float* x, int n) {
  const float top = *std::max_element(x, x + n);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i] - top));
  const float log_sum = top + static_cast<float>(std::log(sum));
  for (int i = 0; i < n; ++i) x[i] -= log_sum;
}

// The RMS of each token's stream (S,N,C).
std::vector<double> rms_by_token(const float* stream, int S, int N, int C) {
  std::vector<double> rms(N);
  for (int n = 0; n < N; ++n) {
    for (int s = 0; s < S; ++s) {
      const float* row = stream + (size_t(s) * N + n) * C;
      rms[n] += simd::dot(row, row, C);
    }
    rms[n] = std::sqrt(rms[n] / (S * C));
  }
  return rms;
}

// The classifier's input as training sees it: BatchNorm uses the statistics of these tokens. Works on a copy, because
// the backward pass updates running statistics.
std::vector<float> logits_in_training(const Run& r, const std::vector<int>& tokens) {
  const int T = static_cast<int>(tokens.size()), V = r.config().vocab_size;
  Model copy(r.config());
  std::copy_n(r.model().weights.get(), copy.floats, copy.weights.get());
  const Activations a = allocate_activations(copy.config, 1, T, true);
  const std::vector<int> ignored(T, kIgnore);
  model_loss_and_gradients(copy, a, {tokens.data(), ignored.data(), 1, T}, 0, {});
  std::vector<float> logits(size_t(T) * V);
  logits_of(logits.data(), copy, a.end.h ? a.end.h : a.blocks.back().ffn.y, T);
  return logits;
}

}  // namespace

// ---- the functions ---------------------------------------------------------------------------------------

char* engine_allocate(uint32_t bytes) { return static_cast<char*>(std::malloc(bytes)); }
void engine_free(char* text) { std::free(text); }

const char* engine_options() {
  TrainOptions defaults;
  ordered_json list = ordered_json::array();
  for (const Setting& setting : settings_of(defaults)) list.push_back(describe(setting));
  return reply(list);
}

void engine_set(const char* name, const char* value) { settings.set(name, value); }

const char* engine_start(const char* text) {
  TrainOptions o = settings.train;
  complete(o);
  std::vector<double> nats;
  const std::string words = text ? text : tell(settings.corpus, nats);
  Dataset data = dataset_of(words, nats, o);
  set_vocabulary(o.config, data.tokenizer.vocabulary());
  o.config = resolved(o.config);
  run = std::make_unique<Run>(o, std::move(data));
  const Dataset& d = run->data;
  const size_t parameters = count_parameters(run->model().table);
  const bool exact = d.floor > 0;
  return reply({{"parameters", parameters},
                {"summary", describe_briefly(o, parameters)},
                {"floor", exact ? d.floor : nats.empty() ? NAN : mean(nats, d.tokens.size())},
                {"floorIsExact", exact},
                {"unigram", d.unigram_nats},
                {"uniform", d.uniform_nats()},
                {"vocabulary", d.tokenizer.vocabulary()},
                {"trainTokens", d.train},
                {"validationTokens", d.tokens.size() - d.train},
                {"excerpt", words.substr(0, 2000)},
                {"drawing", draw_model(run->config())},
                {"layers", draw_layers(run->config())},
                {"tensors", describe(run->model().table)},
                {"settings", to_json(o)}});
}

void engine_step(double* loss_norm_lr, bool observed) {
  Run& r = started();
  const double lr = rate_at(r.o, r.step);
  if (observed) r.statistics = std::make_unique<StepStatistics>(r.model());
  const StepResult result = training_step(r.state, micro_batches(r.data, r.o, r.step), step_options(r.o), r.step, lr,
                                          observed ? r.statistics.get() : nullptr);
  ++r.step;
  loss_norm_lr[0] = result.loss, loss_norm_lr[1] = result.grad_norm, loss_norm_lr[2] = lr;
}

int64_t engine_steps_done() { return run ? run->step : 0; }
int engine_tokens_per_step() { return started().o.batch * started().o.accumulate * started().config().context; }

const char* engine_statistics() {
  ordered_json rows = ordered_json::array();
  if (started().statistics)
    for (const Statistic& s : started().statistics->rows)
      rows.push_back({s.layer == kOutside ? ordered_json() : ordered_json(s.layer), s.part, s.what, s.value});
  return reply(rows);
}

// The batches that `train` chooses: windows spread over the validation.
double engine_validate() {
  Run& r = started();
  const int B = r.o.batch, T = r.config().context;
  const std::vector<TokenWindow>& all = r.data.val;
  const size_t wanted = r.o.eval_batches == 0 ? all.size() : std::min(all.size(), size_t(r.o.eval_batches) * B);
  std::vector<TokenWindow> windows;
  for (size_t i = 0; i < wanted; ++i) windows.push_back(all[i * all.size() / wanted]);
  std::vector<int> tokens(size_t(B) * T), targets(tokens.size());
  double nats = 0, counted = 0;
  for (size_t first = 0; first < wanted; first += B) {
    fill_windows(tokens.data(), targets.data(), r.data, windows, first, B, T);
    nats += model_loss(r.model(), r.state.activations, {tokens.data(), targets.data(), B, T});
    counted += static_cast<double>(targets.size() - std::count(targets.begin(), targets.end(), kIgnore));
  }
  return nats / counted;
}

const char* engine_attention(const char* text, int layer) {
  Run& r = started();
  const std::vector<int> tokens = r.tokens_of(text);
  if (layer < 0 || layer >= r.config().n_layer) refuse("there is no layer " + std::to_string(layer));
  const AttentionSaved& saved = r.read(tokens).blocks[layer].attention;
  const AttentionShape shape =
      attention_shape(r.config(), layer, r.model().slopes.get(), 1, static_cast<int>(tokens.size()));
  ordered_json heads = ordered_json::array();
  for (int h = 0; h < shape.n_head; ++h) heads.push_back(attention_weights(saved.qkv, saved.lse, shape, h));
  return reply({{"tokens", r.texts(tokens)}, {"layer", layer}, {"heads", heads}});
}

const char* engine_trace(const char* text) {
  Run& r = started();
  const std::vector<int> tokens = r.tokens_of(text);
  const Activations& a = r.read(tokens);
  const int N = static_cast<int>(tokens.size()), C = r.config().channels, V = r.config().vocab_size;
  const int S = stream_count(r.config());
  ordered_json layers = ordered_json::array();
  std::vector<float> logits(size_t(N) * V);
  for (int l = -1; l < r.config().n_layer; ++l) {
    const float* stream = l < 0 ? a.streams : a.blocks[l].ffn.y;
    logits_of(logits.data(), r.model(), streams_end(a.end, stream, r.model().p.final_norm, N, C, false), N);
    ordered_json next = ordered_json::array(), probability = ordered_json::array();
    for (int n = 0; n < N; ++n) {
      float* row = &logits[size_t(n) * V];
      log_softmax(row, V);
      const auto best = static_cast<int>(std::max_element(row, row + V) - row);
      next.push_back(r.data.tokenizer.decode(best));
      probability.push_back(std::exp(row[best]));
    }
    layers.push_back({{"rms", rms_by_token(stream, S, N, C)}, {"next", next}, {"probability", probability}});
  }
  return reply({{"tokens", r.texts(tokens)}, {"layers", layers}});
}

const char* engine_logits(const char* text, bool training) {
  Run& r = started();
  const std::vector<int> tokens = r.tokens_of(text);
  const int N = static_cast<int>(tokens.size()), V = r.config().vocab_size;
  std::vector<float> logits(size_t(N) * V);
  if (training) logits = logits_in_training(r, tokens);
  else batch_logits(logits.data(), r.model(), r.read(tokens), {tokens.data(), nullptr, 1, N});
  ordered_json rows = ordered_json::array(), alphabet = ordered_json::array();
  for (int n = 0; n < N; ++n) {
    log_softmax(&logits[size_t(n) * V], V);
    rows.push_back(std::vector<float>(&logits[size_t(n) * V], &logits[size_t(n) * V] + V));
  }
  for (int token = 0; token < V; ++token) alphabet.push_back(r.data.tokenizer.decode(token));
  return reply({{"tokens", r.texts(tokens)}, {"training", training}, {"alphabet", alphabet}, {"rows", rows}});
}

const char* engine_sample(const char* prompt, int length, double temperature, uint32_t seed) {
  Run& r = started();
  Generation how;
  how.length = length;
  how.sampling.temperature = static_cast<float>(temperature);
  how.sampling.seed = seed;
  std::string text;
  generate_text(r.model(), r.data.tokenizer, prompt, how, [&](const std::string& piece) { text += piece; });
  return reply(text);
}

const char* engine_hashes() {
  answer = kernel_hashes();
  return answer.c_str();
}
