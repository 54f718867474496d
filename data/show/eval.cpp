#include "eval.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "data/formats/npy.hpp"
#include "data/host/format.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/json.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/run/checkpoint.hpp"
#include "data/run/directory.hpp"
#include "data/run/evaluate.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/model/size.hpp"

namespace {

size_t size_of_logits(const Config& config, int B) {
  return checked_product({static_cast<size_t>(B), static_cast<size_t>(config.context),
                          static_cast<size_t>(config.vocab_size)});
}

// Writes the logits (B,T,V) of the first `batch` windows.
void write_logits(const std::string& path, const Model& model, const Activations& activations, const Dataset& data,
                  int batch) {
  const int B = std::min(batch, static_cast<int>(data.val.size())), T = model.config.context;
  std::vector<int> tokens(static_cast<size_t>(B) * T), targets(tokens.size());
  fill_windows(tokens.data(), targets.data(), data, data.val, 0, B, T);
  const Buffer logits = allocate(size_of_logits(model.config, B));
  batch_logits(logits.get(), model, activations, {tokens.data(), targets.data(), B, T});
  write_npy(path, {uint64_t(B), uint64_t(T), uint64_t(model.config.vocab_size)}, logits.get());
}

struct Measured {
  std::string checkpoint;
  int64_t step;
  double loss, seconds;  // nats per token
};

void print_text(const Measured& m, const Dataset& data) {
  const double tokens = static_cast<double>(data.val_targets());
  std::printf("%s, step %lld, on %s (%s)\n", m.checkpoint.c_str(), static_cast<long long>(m.step), data.name.c_str(),
              counted(tokens, "token").c_str());
  std::printf("loss %.4f nats/token, %.4f bits/byte%s  (%s tokens/s)\n", m.loss, data.bits_per_byte(m.loss),
              data.floor > 0 ? format(", floor %.4f nats/token", data.floor).c_str() : "",
              format_count(tokens / m.seconds).c_str());
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
  std::printf("%s\n", to_ascii(json).c_str());
}

}  // namespace

void run_eval(const EvalOptions& options) {
  use_threads(options.threads);
  const auto [path, header, model] = load_trained_model(find_checkpoint(options.checkpoint));
  const size_t logits = options.logits.empty() ? 0 : size_of_logits(model.config, options.batch) * sizeof(float);
  check_memory(memory_of_inference(model.config, options.batch, model.config.context).total() + logits,
               "lower --batch");
  const Dataset data = load_for_evaluation(options, header.tokenizer, model.config.context);
  for (const std::string& note : data.notes) std::fprintf(stderr, "NOTE: %s\n", note.c_str());
  const Activations activations = allocate_activations(model.config, options.batch, model.config.context, false);
  if (!options.logits.empty()) write_logits(options.logits, model, activations, data, options.batch);
  const Stopwatch clock;
  catch_interrupts();
  const double loss = evaluate_with_progress(model, activations, data, options.batch, 0);
  if (interrupted()) throw std::runtime_error("stopped before the whole text was read: nothing was measured");
  if (!std::isfinite(loss)) throw std::runtime_error("the loss of " + path + " is not finite: its training diverged");
  const Measured m{name_of_checkpoint(options.checkpoint, path), header.step, loss, clock.seconds()};
  options.json ? print_json(m, data) : print_text(m, data);
}
