#include "info.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "cost.hpp"
#include "cost_text.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/huggingface/peft.hpp"
#include "data/host/machine.hpp"
#include "data/options/settings_file.hpp"
#include "data/options/train_settings.hpp"
#include "data/run/messages.hpp"
#include "data/run/step_inputs.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/model/presets.hpp"
#include "layers/textbook/step.hpp"
#include "model_text.hpp"
#include "ranks_text.hpp"

namespace {

// "batch 4 x 8 accumulated x context 256"
std::string batch_text(const TrainOptions& o) {
  const std::string accumulated = o.accumulate > 1 ? " x " + std::to_string(o.accumulate) + " accumulated" : "";
  return "batch " + std::to_string(o.batch) + accumulated + " x context " + std::to_string(o.config.context);
}

// "0.003 after 100 warm-up steps, cosine to 0.0003, Muon"
std::string rate_text(const TrainOptions& o) {
  std::string text = format("%g", o.rate.lr);
  if (o.rate.warmup_percent > 0) text += format(" after a warm-up of %g%% of the steps", o.rate.warmup_percent);
  else if (o.rate.warmup > 0) text += " after " + std::to_string(o.rate.warmup) + " warm-up steps";
  text += std::string(", ") + name_of(kSchedules, o.rate.schedule);
  if (has_end(o.rate.schedule)) text += format(" to %g", o.rate.min_lr);
  return o.optimizer->rows.front() == &kAdamW ? text : text + ", " + o.optimizer->title;
}

std::string plan_json(const TrainOptions& o, const Dataset& data, size_t parameters,
                      const std::vector<std::string>& mistakes) {
  nlohmann::ordered_json warnings = nlohmann::ordered_json::array();
  for (const auto& lines : {data.notes, mistakes})
    for (const std::string& line : lines) warnings.push_back(line);
  return to_ascii({{"event", "plan"},
                   {"run", o.out},
                   {"data", {{"name", data.name},
                             {"bytes", data.bytes},
                             {"words", data.words > 0 ? nlohmann::ordered_json(data.words) : nullptr},
                             {"train_tokens", data.train},
                             {"tokens", data.tokens.size()},
                             {"floor", data.floor > 0 ? nlohmann::ordered_json(data.floor) : nullptr}}},
                   {"parameters", parameters},
                   {"bytes_of_memory", memory_of_run(o).total() + data.tokens.memory()},
                   {"warnings", warnings},
                   {"settings", to_json(o)}});
}

// "98% full": how much of the rows' places the windows fill.
std::string how_full(const Dataset& data, int T, int TokenWindow::*length) {
  double tokens = 0;
  for (const TokenWindow& window : data.rows.windows()) tokens += window.*length;
  return format("%.0f%% full", 100 * tokens / (static_cast<double>(data.rows.size()) * T));
}

// "29,812 examples in 24,877 rows of 152 tokens, 98% full"
std::string describe_rows(const Dataset& data, int T) {
  const auto windows = static_cast<double>(data.rows.windows().size()), rows = static_cast<double>(data.rows.size());
  const bool pairs = data.has_sources && !data.spans.on();
  return counted(windows, pairs ? "pair" : "example") + " in " + counted(rows, "row") + " of " + std::to_string(T) +
         " tokens, " + how_full(data, T, &TokenWindow::length) +
         (data.has_sources ? " of targets, " + how_full(data, T, &TokenWindow::source_length) + " of sources" : "");
}

}  // namespace

void print_plan(const TrainOptions& o, const TrainOptions& given, const Dataset& data) {
  const Machine machine = detect_machine();
  Layout layout;
  declare_model(layout, o.config);
  const bool stream = data.packing == Packing::stream;
  const auto train = static_cast<double>(stream ? data.train : data.rows.targets());
  const auto val = static_cast<double>(stream ? data.val_tokens() : data.val_targets());
  const std::string words = data.words > 0 ? ", " + format_short(static_cast<double>(data.words)) + " words" : "";
  std::printf("data     %s: %s, %s tokens to train on, %s to validate, vocabulary %d%s\n", data.name.c_str(),
              format_bytes(data.bytes).c_str(), format_short(train).c_str(), format_short(val).c_str(),
              o.config.vocab_size, words.c_str());
  if (!stream) std::printf("rows     %s\n", describe_rows(data, o.config.context).c_str());
  for (const std::string& note : data.notes) std::printf("NOTE     %s\n", note.c_str());
  if (!data.val.empty())
    std::printf("scale    uniform %.4f, unigram %.4f%s nats/token\n", data.uniform_nats(), data.unigram_nats,
                data.floor > 0 ? format(", floor %.4f", data.floor).c_str() : "");
  std::printf("model    %s\n", describe_briefly(o, count_parameters(layout.table())).c_str());
  std::printf("machine  %s, %s, needs %s of memory\n", counted(max_threads(), "thread").c_str(), machine.simd.c_str(),
              format_bytes(memory_of_run(o).total() + data.tokens.memory()).c_str());
  if (o.config.matmul == Matmul::bf16 && !gemm_has_bf16())
    std::printf("NOTE     no bf16: this processor or this build has no instruction for it; --matmul stays fp32\n");
  if (o.textbook)
    std::printf("NOTE     the textbook takes the steps, in double and on one thread: slow, and needs %s more memory\n",
                format_bytes(memory_of_textbook(o.config, o.batch)).c_str());
  if (!machine.openmp)
    std::printf("WARNING  built without OpenMP: uses only one processor; `make` says how to install it\n");
  std::printf("steps    %s of %s (%s), %.3g epochs\n", format_count(static_cast<double>(o.steps)).c_str(),
              counted(static_cast<double>(o.batch) * o.accumulate * o.config.context, "token").c_str(),
              batch_text(o).c_str(), epochs_of(data, o));
  std::printf("rate     %s\n", rate_text(o).c_str());
  const size_t parameters = count_parameters(layout.table());
  std::vector<std::string> warnings = warnings_about({o}, {given});
  for (const std::string& line : warnings_about(data, o, parameters)) warnings.push_back(line);
  for (const std::string& line : warnings) std::printf("WARNING  %s\n", line.c_str());
  std::printf("run      %s\n", o.out.c_str());
  if (has_json_lines()) json_line(plan_json(o, data, parameters, warnings));
}

// ---- the sub-command -------------------------------------------------------------------------------------

namespace {

std::string start_text(const Start& start) {
  if (start.deviation > 0) return format("normal, std %.4g", start.deviation);
  if (start.every > 0) return "0 and 1";
  if (start.zeros_from > 0) return format("%.4g and 0", start.mean);
  return format("%g", start.mean);
}

// The factors of a tensor, with the rows of the table of parametrizations that they are from. "" under sp.
std::string factors_text(const TensorSpec& spec, const Config& config, bool decays) {
  if (config.parametrization == Parametrization::sp) return "";
  if (!spec.trained) return std::string("  ") + shape_rule(spec, config).name;
  return format("  %-9.4g", start_factor(spec, config)) + format(" %-9.4g", static_cast<double>(spec.rate)) +
         (decays ? format(" %-9.4g", static_cast<double>(spec.decay_factor)) : padded("", 10)) +
         format(" %-9.4g ", static_cast<double>(spec.epsilon_factor)) + shape_rule(spec, config).name + ", " +
         place_rule(spec).name;
}

void print_row(const TensorSpec& spec, const TrainOptions& options) {
  const Config& config = options.config;
  std::string shape;
  for (int d : spec.shape) shape += (shape.empty() ? "(" : ", ") + std::to_string(d);
  const bool decays = spec.decay || decay_of(spec, options.optimizer_options) > 0;
  const char* decay = decays ? "yes" : "no";
  const std::string factors = factors_text(spec, config, decays);
  std::printf("%-40s %-16s %13s  %-20s %s%s\n", spec.name.c_str(), (shape + ")").c_str(),
              format_count(static_cast<double>(spec.size())).c_str(), start_text(spec.start).c_str(),
              padded(spec.trained ? decay : "not trained", factors.empty() ? 0 : 5).c_str(), factors.c_str());
}

struct Trained {
  std::string name, path;
  CheckpointHeader header;
};

Trained open_checkpoint(const std::string& which) {
  const std::string path = find_checkpoint(which);
  return {name_of_checkpoint(which, path), path, verify_checkpoint(path)};
}

void print_trained(const Trained& trained) {
  const CheckpointHeader& header = trained.header;
  std::printf("%s, step %lld, trained for %s", trained.name.c_str(), static_cast<long long>(header.step),
              format_seconds(header.elapsed).c_str());
  if (header.best_step > 0)
    std::printf(", best validation loss %.4f at step %lld", header.best_loss,
                static_cast<long long>(header.best_step));
  std::printf("\n");
}

// Prints the model's sources, drawing and tensors, and the memory that it needs.
void print_model(const TrainOptions& options, const std::string& name, const std::vector<TensorSpec>& table) {
  const Config& c = options.config;
  const Preset preset = preset_row(options.preset, options.size);
  const MemoryNeed need = memory_of_training(c, options.batch, table, state_floats(table), scratch_floats(table));
  std::printf("%s\npreset %s: %s\n", name.c_str(), preset.name, preset.source);
  if (*preset.missing) std::printf("not implemented of %s: %s\n", preset.name, preset.missing);
  std::printf("placement %s: %s\nnorm %s: %s\n\n%s\n", c.placement.c_str(), c.placement_row->source,
              norm_names_of(c).c_str(), norm_row(c.norm).source, draw_model(c).c_str());
  const bool factors = c.parametrization != Parametrization::sp;
  std::printf("%-40s %-16s %13s  %-20s %s%s\n", "tensor", "shape", "elements", "initial value", "decay",
              factors ? "  factors on: deviation, learning rate, decay, epsilon" : "");
  for (const TensorSpec& spec : table) print_row(spec, options);
  const size_t all = count_parameters(c), trained = count_parameters(table);
  const double active = static_cast<double>(count_active_parameters(c, table));
  std::printf("\n%s in %s%s%s\n", counted(static_cast<double>(all), "parameter").c_str(),
              counted(static_cast<double>(table.size()), "tensor").c_str(),
              trained < all ? (", " + format_short(static_cast<double>(trained)) + " trained").c_str() : "",
              c.experts > 0 ? (", " + format_short(active) + " active for each token").c_str() : "");
  std::printf("to train with --batch %d: %s (weights %s, gradients %s, moments %s, activations %s, other %s)\n",
              options.batch, format_bytes(need.total()).c_str(), format_bytes(need.weights).c_str(),
              format_bytes(need.gradients).c_str(), format_bytes(need.moments).c_str(),
              format_bytes(need.activations).c_str(), format_bytes(need.other()).c_str());
}

// ---- as JSON ---------------------------------------------------------------------------------------------

using Json = nlohmann::ordered_json;

Json json_of(const TensorSpec& spec) {
  Json json = {{"name", spec.name},      {"shape", spec.shape}, {"role", name_of(spec.role)},
               {"trained", spec.trained}, {"decay", spec.decay}, {"mean", spec.start.mean},
               {"deviation", spec.start.deviation}, {"rate", spec.rate}, {"decay_factor", spec.decay_factor},
               {"epsilon_factor", spec.epsilon_factor}};
  if (spec.start.every > 0) {
    json["ones_from"] = spec.start.first;
    json["ones_every"] = spec.start.every;
  }
  if (spec.start.zeros_from > 0) json["zeros_from"] = spec.start.zeros_from;
  return json;
}

Json json_of(const Trained& trained) {
  const CheckpointHeader& header = trained.header;
  Json json = {{"path", trained.path}, {"step", header.step}, {"seconds", header.elapsed}};
  if (header.best_step > 0) {
    json["best_step"] = header.best_step;
    json["best_loss"] = header.best_loss;
  }
  return json;
}

Json cost_json(const Config& config, int B, const std::vector<TensorSpec>& table) {
  const MemoryNeed need = memory_of_training(config, B, table, state_floats(table), scratch_floats(table));
  Json parts = Json::array();
  for (const PartCost& part : cost_of_parts(config, B))
    parts.push_back({{"role", name_of(part.role)},
                     {"parameters", part.parameters},
                     {"multiply_adds", part.multiply_adds},
                     {"floats", part.floats},
                     {"intensity", part.intensity}});
  return {{"batch", B},
          {"bytes", {{"weights", need.weights}, {"gradients", need.gradients}, {"moments", need.moments},
                     {"activations", need.activations}, {"other", need.other()}, {"total", need.total()}}},
          {"flops_per_token", flops_per_token(config, table)},
          {"parts", parts}};
}

void print_json(const TrainOptions& options, const Trained* trained, const std::string& name,
                const std::vector<TensorSpec>& table, bool cost) {
  Json json = {{"model", name}, {"parameters", count_parameters(table)}, {"settings", to_json(options)}};
  if (trained) json["checkpoint"] = json_of(*trained);
  json["tensors"] = Json::array();
  for (const TensorSpec& spec : table) json["tensors"].push_back(json_of(spec));
  if (cost) json["cost"] = cost_json(options.config, options.batch, table);
  std::printf("%s\n", to_ascii(json).c_str());
}

// Returns the tokens per second that the user gave, or else the run's; 0 if unknown.
double speed_of(const Command& command, const std::optional<Trained>& trained) {
  if (command.info_speed > 0 || !trained) return command.info_speed;
  const CheckpointHeader& header = trained->header;
  const TrainOptions& o = header.options;
  const double tokens = double(header.step) * o.accumulate * o.batch * o.config.context;
  return header.elapsed > 0 ? tokens / header.elapsed : 0;
}

// Adds the options that were typed beside a run: another batch, optimizer or choice of tensors.
void add_given(TrainOptions& options, const Command& command) {
  for (const Given& given : command.given)
    if (const TrainSetting* s = find_setting(train_settings(), given.name))
      for (const std::string& value : given.values) s->set(options, value);
  complete(options);
}

// Options of a model describe one. Without them, it is the run that is named, or else the newest, and before there is
// one the default model.
bool describes_model(const Command& command) {
  if (!command.info_checkpoint.empty()) return false;
  const auto asks = [](const Given& g) { return g.name != "json"; };
  return said_any(command, &Traits::model) ||
         (std::ranges::any_of(command.given, asks) && newest_checkpoint().empty());
}

}  // namespace

void run_info(const Command& command) {
  if (command.info_ranks > 1 && !command.info_cost) throw std::invalid_argument("--ranks needs --cost: add --cost");
  std::optional<Trained> trained;
  if (!describes_model(command)) trained = open_checkpoint(command.info_checkpoint);
  TrainOptions options = trained ? trained->header.options : command.train;
  if (trained) add_given(options, command);
  if (trained && !command.info_json) print_trained(*trained);
  options = with_vocabulary(options);
  options.config = resolved(options.config);
  if (options.config.lora_rank > 0 && !trained)
    options.config.lora_shared = joined_matrices(options.config, {});
  Layout layout;
  declare_model(layout, options.config);
  std::vector<TensorSpec> table = layout.table();
  const std::string name = describe_briefly(options, count_parameters(table));
  choose_trained(table, options);
  if (command.info_json) return print_json(options, trained ? &*trained : nullptr, name, table, command.info_cost);
  if (!command.info_cost) return print_model(options, name, table);
  std::printf("%s\n\n%s", name.c_str(), cost_text(options.config, options.batch, table).c_str());
  if (command.info_ranks == 1) return;
  const double bandwidth = command.info_bandwidth.empty() ? 0 : parse_bandwidth(command.info_bandwidth);
  const RanksAsked asked = {command.info_ranks, bandwidth, speed_of(command, trained)};
  std::printf("\n%s", ranks_text(options, table, asked).c_str());
}
