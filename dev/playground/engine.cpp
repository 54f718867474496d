#include "engine.hpp"

#include <algorithm>
#include <numeric>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/commands/info/model_text.hpp"
#include "data/corpus/corpus.hpp"
#include "data/files/json.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/generate_text.hpp"
#include "data/run/schedule.hpp"
#include "data/run/step_inputs.hpp"
#include "drawing.hpp"
#include "kernels.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"
#include "layers/training/diagnostics.hpp"
#include "reading.hpp"

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
      const TrainSetting* setting = find_setting(train_settings(), name);
      if (!setting) throw std::invalid_argument("unknown option '--" + name + "'");
      setting->set(train, value);
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
  tell_stories(parse_bytes(o.bytes), teller_of(o.seed, story_grammar(o.grammar)), [&](const Story& story) {
    text += story.text;
    nats.push_back(story.nats);
  });
  return text;
}

Tokenizer tokenizer_of(const std::string& name, const std::string& text) {
  return name == "char" ? Tokenizer::characters(text) : Tokenizer::bytes();
}

// A row for each story in tokens [begin, end), from the line end before it to its own. Empty if one is longer than T.
Rows rows_of_stories(const Dataset& data, size_t begin, size_t end, int T) {
  const auto newline = static_cast<uint32_t>(data.tokenizer.newline());
  Rows rows;
  for (size_t start = begin; start < end;) {
    const size_t next = data.tokens.find(start, end, newline) + 1;
    const auto length = static_cast<int>(next - start);
    if (length > T || next > end) return {};
    rows.add({start - 1, length, length});
    start = next;
  }
  return rows;
}

// Validates on whole stories, whose -log P is known: its mean is the floor.
void validate_on_stories(Dataset& data, const std::vector<double>& nats, int T) {
  while (data.train > 1 && int(data.tokens[data.train - 1]) != data.tokenizer.newline()) --data.train;
  data.val = rows_of_stories(data, data.train, data.tokens.size(), T);
  if (data.val.empty()) return;
  const double sum = std::accumulate(nats.end() - static_cast<std::ptrdiff_t>(data.val.size()), nats.end(), 0.0);
  data.floor = sum / static_cast<double>(data.val_targets());
}

// The dataset of a text, and of its stories' -log P if it is a corpus.
Dataset dataset_of(std::string text, std::vector<double> nats, const TrainOptions& o) {
  if (o.config.objective != Objective::lm)
    throw std::invalid_argument(std::string("--objective ") + name_of(kObjectives, o.config.objective) +
                                " is for the program itself: this page predicts the next token");
  const int T = o.config.context;
  Dataset data;
  data.name = "the text";
  data.tokenizer = tokenizer_of(o.tokenizer, text);
  data.bytes = text.size();
  const std::vector<uint32_t> tokens = data.tokenizer.encode(text);
  if (data.tokenizer.vocabulary() <= 256) data.tokens.append(std::vector<uint8_t>(tokens.begin(), tokens.end()));
  else data.tokens.append(tokens);
  std::vector<Stretch> parts = split_stream(data, o, T);
  if (!nats.empty() && o.val_fraction > 0) validate_on_stories(data, nats, T);
  require_tokens(data.train, T + 1, "training with a context of " + std::to_string(T), data.name,
                 "give more text or lower --context");
  if (o.val_fraction > 0)
    require_tokens(data.tokens.size() - data.train, 2, "validation", data.name, "give more text");
  if (!data.val.empty() || o.val_fraction == 0) parts.clear();
  set_stream_rows(data, parts, o.sampling, T);
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
  std::unique_ptr<Reading> reading;

  Run(const TrainOptions& options, Dataset text)
      : o(options), data(std::move(text)), state(model_to_train(o), o.batch, o.config.context, functions(o)) {
    initialize(state.model, o.seed);
    reading = std::make_unique<Reading>(state.model, data.tokenizer);
  }

  static StepFunctions functions(const TrainOptions& o) {
    StepFunctions chosen = kFastStep;
    chosen.optimizers = o.optimizers();
    return chosen;
  }

  const Model& model() const { return state.model; }
  const Config& config() const { return state.model.config; }

  // Returns the known tokens of a text: the last ones that fit into the model's context.
  std::vector<int> tokens_of(const std::string& text) const {
    const std::vector<uint32_t> all = data.tokenizer.encode(text, Unknown::skip);
    if (all.empty()) throw std::invalid_argument("the text has no character that the model knows");
    const size_t count = std::min<size_t>(all.size(), config().context);
    return std::vector<int>(all.end() - static_cast<int64_t>(count), all.end());
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
  if (!run) throw std::invalid_argument("the model has not started");
  return *run;
}

}  // namespace

// ---- the functions ---------------------------------------------------------------------------------------

char* engine_allocate(uint32_t bytes) { return static_cast<char*>(std::malloc(bytes)); }
void engine_free(char* text) { std::free(text); }

const char* engine_options() {
  ordered_json list = ordered_json::array();
  for (const Setting& setting : train_settings()) list.push_back(describe(setting));
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
                {"tensors", describe_tensors(run->model().table)},
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
  const size_t all = r.data.val.size();
  const size_t wanted = r.o.eval_batches == 0 ? all : std::min(all, size_t(r.o.eval_batches) * B);
  Rows rows;
  for (size_t i = 0; i < wanted; ++i) rows.add(r.data.val[i * all / wanted]);
  double nats = 0, counted = 0;
  for (size_t first = 0; first < wanted; first += B) {
    const RowBatch batch = fill_rows(r.data, rows, first, B, T);
    nats += model_loss(r.model(), r.state.activations, batch.batch());
    counted += static_cast<double>(
        std::count_if(batch.targets.begin(), batch.targets.end(), [](int target) { return target != kIgnore; }));
  }
  return nats / counted;
}

const char* engine_attention(const char* text, int layer) {
  const Run& r = started();
  if (layer < 0 || layer >= r.config().n_layer)
    throw std::invalid_argument("there is no layer " + std::to_string(layer));
  return reply(r.reading->attention(r.tokens_of(text), layer));
}

const char* engine_trace(const char* text) {
  const Run& r = started();
  return reply(r.reading->trace(r.tokens_of(text)));
}

const char* engine_logits(const char* text, bool training) {
  const Run& r = started();
  return reply(r.reading->logits(r.tokens_of(text), training));
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
