#include "debug_state.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/formats/llmc.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"

namespace {

using Header = std::array<int32_t, 256>;
constexpr int32_t kMagic = 20240327, kVersion = 2;

std::vector<FlatRow> flat_rows(const Config& config) { return llmc_rows(config, llmc_padded(config.vocab_size)); }

std::vector<float> logits_of(Model& model, const Batch& batch) {
  const Config& c = model.config;
  const int N = batch.B * batch.T;
  const Activations a = allocate_activations(c, batch.B, batch.T, false);
  const float* features = model_features(model, a, batch);
  const Head head{{c.tied ? model.p.token : model.p.head, model.p.head_bias}, c.logit_cap};
  std::vector<float> logits(static_cast<size_t>(N) * c.vocab_size);
  head_forward(logits.data(), features, head, N, c.channels, c.vocab_size);
  return logits;
}

}  // namespace

DebugState debug_state(Model& model, const std::vector<int>& tokens, const std::vector<int>& targets, int B, int T) {
  const Batch batch = {tokens.data(), targets.data(), B, T};
  const int N = B * T;
  DebugState state{B, T, tokens, targets, logits_of(model, batch), 0, {}};
  std::fill_n(model.gradients.get(), model.floats, 0.f);
  const Activations a = allocate_activations(model.config, B, T, true);
  state.loss = static_cast<float>(model_loss_and_gradients(model, a, batch, 1.f / static_cast<float>(N), {}) / N);
  state.gradients.assign(model.gradients.get(), model.gradients.get() + model.floats);
  return state;
}

void write_debug_state(const std::string& path, const Model& model, const DebugState& state) {
  const Header header{kMagic, kVersion, state.B, state.T};
  WholeFile file(path);
  file.write(header.data(), sizeof header);
  file.write(state.tokens.data(), state.tokens.size() * sizeof(int));
  file.write(state.targets.data(), state.targets.size() * sizeof(int));
  file.write(state.logits.data(), state.logits.size() * sizeof(float));
  file.write(&state.loss, sizeof state.loss);
  write_flat(file, FlatType::f32, flat_rows(model.config), model.config, model.table, state.gradients.data());
  file.publish();
}

DebugState read_debug_state(const std::string& path, const Model& model) {
  const InputFile file(path);
  Header header{};
  uint64_t at = 0;
  const auto take = [&](void* to, uint64_t numbers) {
    file.read(to, numbers * sizeof(float), at);
    at += numbers * sizeof(float);
  };
  take(header.data(), header.size());
  const int B = header[2], T = header[3];
  const uint64_t N = static_cast<uint64_t>(B) * T, logits = N * model.config.vocab_size;
  const std::vector<FlatRow> rows = flat_rows(model.config);
  if (header[0] != kMagic || header[1] != kVersion || B < 1 || T < 1 || T > model.config.context ||
      file.size() != sizeof header + sizeof(float) * (2 * N + logits + 1 + count_flat(rows, model.config)))
    throw std::runtime_error(path + " is not a debug state of this model");
  DebugState state{B, T, std::vector<int>(N), std::vector<int>(N), std::vector<float>(logits), 0,
                   std::vector<float>(model.floats)};
  take(state.tokens.data(), N);
  take(state.targets.data(), N);
  take(state.logits.data(), logits);
  take(&state.loss, 1);
  read_flat(places_in(model.table, state.gradients.data()), file, at, FlatType::f32, rows, model.config);
  return state;
}
