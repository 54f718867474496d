#include "eval.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/files/paths.hpp"
#include "data/formats/npy.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/run/evaluate.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "eval_questions.hpp"
#include "eval_translations.hpp"
#include "data/strings/notes.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/model/size.hpp"

namespace {

// True if both names are given and spell the same path, such as "a" and "./a".
bool are_same_name(const std::string& a, const std::string& b) {
  using std::filesystem::absolute;
  return !a.empty() && !b.empty() && absolute(a).lexically_normal() == absolute(b).lexically_normal();
}

size_t size_of_logits(const Config& config, int B, int T) {
  return checked_product({static_cast<size_t>(B), static_cast<size_t>(T), static_cast<size_t>(config.vocab_size)});
}

// The first rows of the validation text, which has at least that many.
RowBatch first_batch(const Dataset& data, int batch, int T) { return fill_rows(data, data.val, 0, batch, T); }

// Writes the logits (B,T,V) of the first batch.
void write_logits(const std::string& path, const Model& model, const Activations& activations, const Dataset& data,
                  int batch) {
  const RowBatch first = first_batch(data, batch, validation_length(model, data));
  const Buffer logits = allocate(size_of_logits(model.config, first.B, first.T));
  batch_logits(logits.get(), model, activations, first.batch());
  write_npy(path, {uint64_t(first.B), uint64_t(first.T), uint64_t(model.config.vocab_size)}, logits.get());
}

// Writes the gradients of the first batch's mean loss, without dropout, for every tensor that is trained.
void write_gradients(const std::string& path, const Model& model, const Dataset& data, int batch) {
  const RowBatch first = first_batch(data, batch, validation_length(model, data));
  Model copy(model.config);
  std::copy_n(model.weights.get(), model.floats, copy.weights.get());
  const auto targets = std::count_if(first.targets.begin(), first.targets.end(), [](int t) { return t != kIgnore; });
  model_loss_and_gradients(copy, allocate_activations(copy.config, first.B, first.T, true), first.batch(),
                           {targets, int64_t(first.targets.size())}, {});
  std::vector<NpyArray> arrays;
  for (const TensorSpec& spec : copy.table)
    if (spec.trained)
      arrays.push_back({spec.name, {spec.shape.begin(), spec.shape.end()}, copy.gradients.get() + spec.gradient});
  write_npz(path, arrays);
}

// Throws if evaluating batches of T tokens needs more memory than there is.
void check_size(const EvalOptions& options, const Config& config, int T) {
  size_t needed = memory_of_inference(config, options.batch, T).total();
  if (!options.logits.empty()) needed += size_of_logits(config, options.batch, T) * sizeof(float);
  if (!options.gradients.empty()) needed += memory_of_training(config, options.batch).total();
  check_memory(needed, "lower --batch or --context");
}

struct Measured {
  std::string checkpoint;
  int64_t step;
  double loss, seconds;  // loss in nats per token
  Answers answers;       // none if all of the text counts
  Translations translations = {};  // none without --pairs-of
};

double percent(int64_t part, int64_t all) { return 100. * static_cast<double>(part) / static_cast<double>(all); }

void print_text(const Measured& m, const Dataset& data) {
  const double tokens = static_cast<double>(data.val_targets());
  std::printf("%s, step %lld, on %s (%s)\n", m.checkpoint.c_str(), static_cast<long long>(m.step), data.name.c_str(),
              counted(tokens, "token").c_str());
  std::printf("loss %s%s  (%s tokens/s)\n", data.in_units(m.loss).c_str(),
              data.floor > 0 ? format(", floor %.4f nats/token", data.floor).c_str() : "",
              format_count(tokens / m.seconds).c_str());
  if (m.answers.all > 0)
    std::printf("%lld of %s exact (%.1f %%): greedy decoding writes them\n", static_cast<long long>(m.answers.exact),
                counted(static_cast<double>(m.answers.all), data.has_sources ? "target" : "answer").c_str(),
                percent(m.answers.exact, m.answers.all));
  if (m.answers.cut > 0)
    std::printf("%s not counted, of documents longer than the context\n",
                counted(static_cast<double>(m.answers.cut), "answer").c_str());
  const Translations& t = m.translations;
  if (t.all > 0)
    std::printf("%lld of %s translated (%.1f %%); the model writes %lld sentences of the target language (%.1f %%)\n",
                static_cast<long long>(t.right), counted(static_cast<double>(t.all), "source").c_str(),
                percent(t.right, t.all), static_cast<long long>(t.sentences), percent(t.sentences, t.all));
}

void print_json(const Measured& m, const Dataset& data) {
  const auto tokens = data.val_targets();
  nlohmann::ordered_json json = {{"checkpoint", m.checkpoint},
                                 {"step", m.step},
                                 {"data", data.name},
                                 {"loss", m.loss},
                                 {"nats", m.loss * static_cast<double>(tokens)},
                                 {"tokens", tokens},
                                 {"bytes", data.val_bytes},
                                 {"bits_per_byte", data.bits_per_byte(m.loss)},
                                 {"seconds", m.seconds}};
  if (data.floor > 0) json["floor"] = data.floor;
  if (m.answers.all + m.answers.cut > 0)
    json.update({{"answers", m.answers.all}, {"exact", m.answers.exact}, {"cut", m.answers.cut}});
  if (m.translations.all > 0)
    json.update({{"sources", m.translations.all}, {"translated", m.translations.right},
                 {"sentences", m.translations.sentences}});
  json_line(to_ascii(json));
}

}  // namespace

void run_eval(const EvalOptions& given) {
  EvalOptions options = given;
  use_threads(options.threads);
  if (options.json) begin_json_lines();  // progress goes to standard error
  const auto [path, header, model] = load_trained_model(find_checkpoint(options.checkpoint));
  const std::string name = name_of_checkpoint(options.checkpoint, path);
  if (asks_questions(options)) return eval_questions(options, name, header, model);
  // Documents end, and conversations are written, as they were in training.
  TextFiles files = options;
  if (!files.chat) files.chat = header.options.chat;
  files.reads_pairs = header.options.reads_pairs;
  if (!options.pairs_of.empty() && !files.reads_pairs)
    throw std::invalid_argument("--pairs-of parses what a model writes for sources, and this one was not trained with "
                                "--objective pairs: leave it out");
  if (options.context > model.config.context)
    throw std::invalid_argument("--context " + std::to_string(options.context) + " is above the model's, " +
                                std::to_string(model.config.context));
  const int longest = options.context > 0 ? options.context : model.config.context;
  const Dataset data = load_for_evaluation(files, header.tokenizer, longest, header.options);
  options.batch = std::min(options.batch, static_cast<int>(data.val.size()));
  const int T = validation_length(model, data);
  check_size(options, model.config, T);
  if (are_same_name(options.logits, options.gradients))
    throw std::runtime_error("--logits and --gradients are the same file: name two");
  for (const std::string& out : {options.logits, options.gradients})
    if (!out.empty()) check_output(out, options.force);
  std::vector<std::string> notes = data.notes;
  if (!options.chat && data.counted.size() > 0) notes.push_back(note_on_chat(header));
  for (const std::string& note : notes)
    if (!note.empty()) print_note(note);
  if (!options.gradients.empty()) write_gradients(options.gradients, model, data, options.batch);
  const Activations activations = allocate_activations(model.config, options.batch, T, false);
  if (!options.logits.empty()) write_logits(options.logits, model, activations, data, options.batch);
  const Stopwatch clock;
  catch_interrupts();
  const double loss = evaluate_with_progress(model, activations, data, options.batch, 0);
  const double seconds = clock.seconds();
  const bool has_answers = data.counted.size() > 0 || files.reads_pairs;
  const Answers answers = has_answers ? count_answers(model, activations, data) : Answers();
  const Translations translations =
      options.pairs_of.empty() ? Translations() : count_translations(model, data, options.pairs_of);
  if (interrupted()) throw std::runtime_error("stopped before the whole text was read: nothing was measured");
  if (!std::isfinite(loss)) throw std::runtime_error("the loss of " + path + " is not finite: its training diverged");
  const Measured m{name, header.step, loss, seconds, answers, translations};
  options.json ? print_json(m, data) : print_text(m, data);
}
