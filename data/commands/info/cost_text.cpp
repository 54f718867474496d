#include "cost_text.hpp"

#include <algorithm>
#include <cmath>

#include "cost.hpp"
#include "data/files/files.hpp"
#include "data/strings/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/size.hpp"
#include "layers/streams/streams.hpp"
#include "layers/training/optimizer.hpp"

namespace {

using TextRows = std::vector<std::vector<std::string>>;

std::string share(double part, double all) { return format("%.1f %%", 100 * part / all); }

std::string size(const char* letter, double number) { return std::string(letter) + " " + format_count(number); }

// What a row of the table of optimizers updates.
struct UpdateCost {
  const Optimizer* row;
  int bytes = 0;  // bytes of state for each weight
  double weights = 0, flops = 0;
  double more = 0;  // floats of state, of rows and columns
};

std::vector<UpdateCost> update_costs(const std::vector<TensorSpec>& table) {
  std::vector<UpdateCost> costs;
  for (const Optimizer* row : optimizers_of(table)) {
    UpdateCost& cost = costs.emplace_back(UpdateCost{row});
    for (const Slot& slot : row->slots)
      if (slot.per == Per::weight) cost.bytes += slot.numbers == NumberType::fp32 ? 4 : 2;
    for (const TensorSpec& spec : tensors_of(table, *row)) {
      cost.weights += static_cast<double>(spec.size());
      cost.flops += row->flops(spec);
      for (size_t i = 0; i < row->slots.size(); ++i)
        if (row->slots[i].per != Per::weight) cost.more += static_cast<double>(state_table(spec)[i].size());
    }
  }
  return costs;
}

// The costs of a step at one level of --recompute.
struct StepCost {
  Recompute level;
  MemoryNeed need;
  std::vector<PartCost> parts;
  std::vector<UpdateCost> updates;
  double parameters = 0, trained = 0, active = 0, multiply_adds = 0, flops = 0, again = 0;
  double kept = 0, shared = 0;  // floats per token: of single blocks, and shared by all

  StepCost(Config config, int B, const std::vector<TensorSpec>& table, Recompute recompute)
      : level(recompute) {
    config.recompute = level;
    need = memory_of_training(config, B, table, state_floats(table), scratch_floats(table));
    parts = cost_of_parts(config, B);
    active = static_cast<double>(count_active_parameters(config, table));
    trained = static_cast<double>(count_parameters(table));
    flops = flops_per_token(config, table);
    again = flops_run_again(config);
    updates = update_costs(table);
    for (const PartCost& part : parts) {
      parameters += part.parameters;
      multiply_adds += part.multiply_adds;
      (is_shared(part) ? shared : kept) += part.floats;
    }
  }

  const PartCost& of(Role role) const { return parts[static_cast<size_t>(role)]; }
  bool is_shared(const PartCost& part) const { return &part == &of(Role::scratch) || &part == &of(Role::logits); }
};

std::string sizes(const Config& c, int B, const StepCost& s) {
  const int N = B * c.context, width = c.n_head * c.head_dim;
  std::string text = size("B", B) + " · " + size("T", c.context) + " = " + size("N", N) + " rows;  ";
  for (const auto& [letter, number] : {std::pair{"C", c.channels}, {"H", c.n_head}, {"KV", c.kv_heads},
                                       {"D", c.head_dim}, {"F", c.hidden}, {"V", c.vocab_size}, {"L", c.n_layer}})
    text += (*letter == 'C' ? "" : "  ") + size(letter, number);
  if (c.projects()) text += "  " + size("E", c.embedding_channels);
  const double keys = s.of(Role::attention).multiply_adds / (2. * width * c.n_layer);
  text += ".\nA query sees " + format("%.5g keys", keys) + " on average.";
  if (is_attnres(stream_rule(c)))
    text += " A branch reads a mean of " + format("%.3g sums", sums_read(c)) + " on average.";
  else if (const int S = stream_count(c); s.of(Role::streams).multiply_adds > 0)
    text += " A branch mixes " + size("S", S) + " streams with " + format_count(streams_of(c).coefficients()) +
            (stream_rule(c) == StreamRule::gated ? " coefficients and a gate for each channel." : " coefficients.");
  const int rows = classifier_rows(N, c.vocab_size);
  return text + " At most " + format_count(rows) + " rows of logits are held at a time.\n\n";
}

std::string parameters(const StepCost& s) {
  TextRows rows = {{"parameters", "number", "share"}};
  const auto row = [&](const char* name, double n) { rows.push_back({name, format_count(n), share(n, s.parameters)}); };
  for (const PartCost& part : s.parts)
    if (part.parameters > 0) row(part.name, part.parameters);
  rows.push_back({"all", format_count(s.parameters), ""});
  if (s.trained < s.parameters) row("trained", s.trained);
  if (s.active < s.trained) row("active for a token", s.active);
  return aligned(rows, 1);
}

std::string operations(const StepCost& s) {
  TextRows rows = {{"flops a token", "forward", "backward", "share", "flops a byte"}};
  for (const PartCost& part : s.parts)
    if (const double n = part.multiply_adds; n > 0)
      rows.push_back({part.name, format_count(2 * n), format_count(4 * n), share(n, s.multiply_adds),
                      format("%.1f", part.intensity)});
  rows.push_back({"all", format_count(2 * s.multiply_adds), format_count(4 * s.multiply_adds), "", ""});
  return aligned(rows, 1);
}

// Without --recompute, and at each level of it.
using StepCosts = std::vector<StepCost>;

// A row of a table that ends with cell(s) of each of the costs.
template <class Cell>
std::vector<std::string> table_row(std::vector<std::string> start, const StepCosts& costs, const Cell& cell) {
  for (const StepCost& s : costs) start.push_back(cell(s));
  return start;
}

// A heading that names the levels after `start`.
std::vector<std::string> heading(const std::vector<std::string>& start, const char* without, const StepCosts& costs) {
  return table_row(start, costs, [&](const StepCost& s) {
    return s.level == Recompute::none ? std::string(without) : name_of(kRecomputes, s.level);
  });
}

std::string kept(const StepCosts& costs) {
  TextRows rows = {heading({"kept for backward"}, "bytes a token", costs)};
  for (size_t i = 0; i < costs[0].parts.size(); ++i)
    if (const PartCost& part = costs[0].parts[i]; part.floats > 0 && !costs[0].is_shared(part))
      rows.push_back(
          table_row({part.name}, costs, [i](const StepCost& s) { return format_count(4 * s.parts[i].floats); }));
  rows.push_back(table_row({"all"}, costs, [](const StepCost& s) { return format_count(4 * s.kept); }));
  return aligned(rows, 1);
}

// "AdamW", or "Muon, AdamW".
std::string optimizers(const StepCost& s) {
  std::string names;
  for (const UpdateCost& u : s.updates) names += (names.empty() ? "" : ", ") + std::string(u.row->name);
  return names;
}

std::string memory(const Config& config, const StepCosts& costs, double N) {
  TextRows rows = {heading({"memory of a step", ""}, "bytes", costs)};
  const auto row = [&](const std::string& name, const std::string& note, const auto& bytes_of) {
    if (bytes_of(costs[0]) > 0)
      rows.push_back(table_row({name, note}, costs, [&](const StepCost& c) { return format_count(bytes_of(c)); }));
  };
  const auto need = [&](const char* name, const std::string& note, size_t MemoryNeed::*member) {
    row(name, note, [member](const StepCost& c) { return static_cast<double>(c.need.*member); });
  };
  const auto bytes = [N](double floats) { return std::round(4 * N * floats); };
  const auto best = [](const StepCost& c) { return static_cast<double>(c.need.best + kWholeFileBuffer); };
  need("weights", "", &MemoryNeed::weights);
  need("gradients", "", &MemoryNeed::gradients);
  need("moments", "of " + optimizers(costs[0]), &MemoryNeed::moments);
  need("optimizer", "scratch memory", &MemoryNeed::scratch);
  row("kept for backward", "", [&](const StepCost& c) { return bytes(c.kept); });
  for (const Role role : {Role::scratch, Role::logits})
    row(costs[0].of(role).name, "", [&](const StepCost& c) { return bytes(c.of(role).floats); });
  need("sampling", "keys and values of " + counted(std::min(config.context, kSampleTokens), "token"),
       &MemoryNeed::cache);
  need("profiling", "Admin's first pass, beyond sampling and best weights", &MemoryNeed::profile);
  row("padding", "to 64 bytes a tensor, 2 MB a buffer", [&](const StepCost& c) {
    return static_cast<double>(c.need.activations + c.need.padding) - bytes(c.kept) - bytes(c.shared);
  });
  row("program", "code, stacks, packed panels", [](const StepCost&) { return double{kProgramBytes}; });
  row("best weights", "a copy up to 64 MB, 1 MB to write", best);
  row("all", "", [&](const StepCost& c) { return static_cast<double>(c.need.total() + kWholeFileBuffer); });
  return aligned(rows, 2);
}

std::string whole_step(const StepCosts& costs, double N) {
  const StepCost& s = costs[0];
  std::string text = "A step takes " + format_count(N * s.flops) + " flops, " + format_count(s.flops) + " a token.\n";
  for (const StepCost& c : costs)
    if (c.again > 0)
      text += std::string("With --recompute ") + name_of(kRecomputes, c.level) +
              format(" it takes %.2f times as many.\n", 1 + c.again / c.flops);
  if (s.trained < s.parameters) text += "Matrices that do not train have no dW.\n";
  for (const UpdateCost& u : s.updates) {
    const double bytes = u.row->bytes * u.weights;
    text += std::string(u.row->name) + " takes " + format_count(u.flops) + format(" flops (%.3g", u.flops / u.weights) +
            " a weight) and moves " + format_count(bytes) + format(" bytes (%g", u.row->bytes) +
            format(" a weight): %.2g flops a byte.\n", u.flops / bytes);
  }
  return text;
}

std::string saving(const StepCost& s) {
  const size_t bytes = s.need.gradients + s.need.moments;
  return "--save-every copies weights and moments while training goes on: " +
         format_count(static_cast<double>(bytes)) + " bytes more, if they are free.\n";
}

constexpr const char* kExplanation =
    "A multiply-add is two flops. Each forward product has two in backward: dx = dy W and dW = dyᵀ x. Norms, softmax,\n"
    "activation and residual are not counted: they do few operations per number and cost only the bytes they move.\n"
    "Flops a byte, forward: ½ / (1/I + 1/O + 1/N) for a matrix (O,I), if x, W and y move once in 4 bytes per number;\n"
    "for attention K·H·D / (q|k|v + H·D) with K keys a query, because no (T,T) matrix moves.\n";

}  // namespace

std::string cost_text(const Config& config, int B, const std::vector<TensorSpec>& table) {
  const double N = static_cast<double>(B) * config.context;
  StepCosts costs;
  for (const auto& [level, name] : kRecomputes) costs.emplace_back(config, B, table, level);
  const StepCost& step = costs[0];
  return sizes(config, B, step) + parameters(step) + "\n" + operations(step) + "\n" + kept(costs) + "\n" +
         memory(config, costs, N) + "\n" + whole_step(costs, N) + saving(step) + "\n" + kExplanation;
}
