#include "cost_text.hpp"

#include <algorithm>
#include <cmath>

#include "cost.hpp"
#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/size.hpp"
#include "layers/streams/streams.hpp"
#include "layers/training/optimizer.hpp"

namespace {

using Rows = std::vector<std::vector<std::string>>;

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
  for (const Optimizer* row : rows_of(table)) {
    UpdateCost& cost = costs.emplace_back(UpdateCost{row});
    for (const Slot& slot : row->slots) cost.bytes += slot.per == Per::weight ? static_cast<int>(sizeof(float)) : 0;
    for (const TensorSpec& spec : tensors_of(table, *row)) {
      cost.weights += static_cast<double>(spec.size()), cost.flops += row->flops(spec);
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
    trained = static_cast<double>(count_parameters(table)), flops = flops_per_token(config, table);
    again = flops_run_again(config);
    updates = update_costs(table);
    for (const PartCost& part : parts) {
      parameters += part.parameters.number, multiply_adds += part.multiply_adds.number;
      (is_shared(part) ? shared : kept) += part.floats.number;
    }
  }

  const char* letter() const { return trained < parameters ? "P'" : "P"; }  // the parameters that train
  const PartCost& of(Role role) const { return parts[static_cast<size_t>(role)]; }
  bool is_shared(const PartCost& part) const { return &part == &of(Role::scratch) || &part == &of(Role::logits); }
};

std::string sizes(const Config& c, int B, const StepCost& s) {
  const int N = B * c.context, width = c.n_head * c.head_dim;
  std::string text = size("B", B) + " · " + size("T", c.context) + " = " + size("N", N) + " rows;  ";
  for (const auto& [letter, number] : {std::pair{"C", c.channels}, {"H", c.n_head}, {"KV", c.kv_heads},
                                       {"D", c.head_dim}, {"F", c.hidden}, {"V", c.vocab_size}, {"L", c.n_layer}})
    text += (*letter == 'C' ? "" : "  ") + size(letter, number);
  if (width == c.channels) text += "; H·D is C";
  if (c.kv_heads == c.n_head) text += width == c.channels ? ", KV is H" : "; KV is H";
  const double keys = s.of(Role::attention).multiply_adds.number / (2. * width * c.n_layer);
  text += ".\nA query sees " + format("K %.5g keys", keys) + " on average.";
  if (const int S = stream_count(c); s.of(Role::streams).multiply_adds.number > 0)
    text += " A branch mixes " + size("S", S) + " streams with " + size("M", S * (S + 2)) + " coefficients.";
  return text + " At most " + size("R", classifier_rows(N, c.vocab_size)) + " rows of logits are held at a time.\n\n";
}

std::string parameters(const StepCost& s) {
  Rows rows = {{"parameters", "", "number", "share"}};
  for (const PartCost& part : s.parts)
    if (const auto& [number, formula] = part.parameters; number > 0)
      rows.push_back({part.name, formula, format_count(number), share(number, s.parameters)});
  rows.push_back({"P", "", format_count(s.parameters), ""});
  if (s.trained < s.parameters)
    rows.push_back({"P'", "trained", format_count(s.trained), share(s.trained, s.parameters)});
  if (s.active < s.trained)
    rows.push_back({"active", "for each token", format_count(s.active), share(s.active, s.parameters)});
  return aligned(rows, 2);
}

std::string operations(const StepCost& s) {
  Rows rows = {{"flops a token", "multiply-adds", "forward", "backward", "share", "flops a byte"}};
  for (const PartCost& part : s.parts)
    if (const auto& [n, formula] = part.multiply_adds; n > 0)
      rows.push_back({part.name, formula, format_count(2 * n), format_count(4 * n), share(n, s.multiply_adds),
                      format("%.1f", part.intensity)});
  rows.push_back({"all", "", format_count(2 * s.multiply_adds), format_count(4 * s.multiply_adds), "", ""});
  return aligned(rows, 2);
}

// Without --recompute, and at each level of it.
using StepCosts = std::vector<StepCost>;

// A row of a table that ends with cell(s) of each of the costs.
template <class Cell>
std::vector<std::string> row_of(std::vector<std::string> start, const StepCosts& costs, const Cell& cell) {
  for (const StepCost& s : costs) start.push_back(cell(s));
  return start;
}

// A heading, which names the levels after `start`.
std::vector<std::string> heading(const std::vector<std::string>& start, const char* without, const StepCosts& costs) {
  return row_of(start, costs, [&](const StepCost& s) {
    return s.level == Recompute::none ? std::string(without) : name_of(kRecomputes, s.level);
  });
}

std::string kept(const StepCosts& costs) {
  Rows rows = {heading(heading({"kept for backward"}, "floats a token", costs), "bytes a token", costs)};
  for (size_t i = 0; i < costs[0].parts.size(); ++i) {
    const PartCost& part = costs[0].parts[i];
    if (part.floats.number == 0 || costs[0].is_shared(part)) continue;
    const auto formulas = row_of({part.name}, costs, [i](const StepCost& s) { return s.parts[i].floats.formula; });
    rows.push_back(row_of(formulas, costs, [i](const StepCost& s) {
      return format_count(4 * s.parts[i].floats.number);
    }));
  }
  rows.push_back(row_of({"all", "", "", ""}, costs, [](const StepCost& s) { return format_count(4 * s.kept); }));
  return aligned(rows, 1 + costs.size());
}

// The bytes of all tokens from the formula of the floats per token: "4·N·(3·C + 2·F)", and "4·R·V" from "R·V/N".
std::string bytes_of_all(const std::string& formula) {
  if (formula.ends_with("/N")) return "4·" + formula.substr(0, formula.size() - 2);
  return "4·N·" + (formula.find(' ') == formula.npos ? formula : "(" + formula + ")");
}

// "4·3M + 4·9k + 8·100k": bytes of the state of each optimizer's weights, and of rows and columns of matrices.
std::string sum_of_updates(const StepCost& s) {
  std::string text;
  const auto add = [&](int bytes, double number) {
    if (bytes * number > 0)
      text += (text.empty() ? "" : " + ") + std::to_string(bytes) + "·" + format_count(number);
  };
  for (const UpdateCost& u : s.updates) add(u.bytes, u.weights), add(sizeof(float), u.more);
  return text;
}

std::string memory(const Config& config, const StepCosts& costs, double N) {
  const StepCost& s = costs[0];
  Rows rows = {heading({"memory of a step", ""}, "bytes", costs)};
  const auto row = [&](const std::string& name, const std::string& formula, const auto& bytes_of) {
    if (bytes_of(s) > 0)
      rows.push_back(row_of({name, formula}, costs, [&](const StepCost& c) { return format_count(bytes_of(c)); }));
  };
  const auto same = [&](const char* name, int factor, const std::string& letter, double numbers, size_t need) {
    const double more = static_cast<double>(need) / factor - numbers;
    const std::string all = more > 0 ? "(" + letter + " + " + format_count(more) + ")" : letter;
    row(name, std::to_string(factor) + "·" + all, [need](const StepCost&) { return static_cast<double>(need); });
  };
  same("weights", 4, "P", s.parameters, s.need.weights);
  same("gradients", 4, s.letter(), s.trained, s.need.gradients);
  const int bytes_each = s.updates.size() == 1 ? s.updates[0].bytes : 0;
  if (bytes_each > 0) same("moments", bytes_each, s.letter(), s.trained, s.need.moments);
  else row("moments", sum_of_updates(s), [](const StepCost& c) { return static_cast<double>(c.need.moments); });
  row("optimizer", "scratch memory", [](const StepCost& c) { return static_cast<double>(c.need.scratch); });
  const auto bytes = [N](double floats) { return std::round(4 * N * floats); };
  row("kept for backward", format("N·%.10g", bytes(s.kept) / N), [&](const StepCost& c) { return bytes(c.kept); });
  for (const Role role : {Role::scratch, Role::logits}) {
    const auto& floats = s.of(role).floats;
    row(s.of(role).name, bytes_of_all(floats.formula), [&](const StepCost&) { return bytes(floats.number); });
  }
  row("sampling", "8·L·KV·D·" + format_count(std::min(config.context, kSampleTokens)),
      [](const StepCost& c) { return static_cast<double>(c.need.cache); });
  row("padding", "to 64 bytes a tensor, 2 MB a buffer", [&](const StepCost& c) {
    return static_cast<double>(c.need.activations + c.need.padding) - bytes(c.kept) - bytes(c.shared);
  });
  row("program", "code, stacks, packed panels", [](const StepCost&) { return double{kProgramBytes}; });
  const auto best = [](const StepCost& c) { return static_cast<double>(c.need.weights + kWholeFileBuffer); };
  row("best weights", "4·P to copy, 1 MB to write", best);
  row("all", "", [&](const StepCost& c) { return static_cast<double>(c.need.total()) + best(c); });
  return aligned(rows, 2);
}

std::string whole_step(const StepCosts& costs, double N) {
  const StepCost& s = costs[0];
  std::string text = "A step takes N·" + format_count(s.flops) + " = " + format_count(N * s.flops) + " flops.\n";
  for (const StepCost& c : costs)
    if (c.again > 0)
      text += std::string("With --recompute ") + name_of(kRecomputes, c.level) +
              format(" it takes %.2f times as many.\n", 1 + c.again / c.flops);
  if (s.trained < s.parameters) text += "Matrices that do not train have no dW.\n";
  for (const UpdateCost& u : s.updates) {
    const std::string weights = s.updates.size() == 1 ? s.letter() : format_count(u.weights);
    const double bytes = u.row->bytes * u.weights;
    text += std::string(u.row->name) + " takes " + format("%.3g·", u.flops / u.weights) + weights + " = " +
            format_count(u.flops) + " flops and moves " + format("%g·", u.row->bytes) + weights + " = " +
            format_count(bytes) + format(" bytes: %.2g flops a byte.\n", u.flops / bytes);
  }
  return text;
}

std::string saving(const StepCost& s) {
  const size_t bytes = s.need.weights + s.need.moments;
  return "--save-every copies weights and moments while training goes on: " +
         format_count(static_cast<double>(bytes)) + " bytes more, if they are free.\n";
}

constexpr const char* kExplanation =
    "A multiply-add is two flops. Each forward product has two in backward: dx = dy W and dW = dyᵀ x. Norms, softmax,\n"
    "activation and residual are not counted: they do few operations per number and cost only the bytes they move.\n"
    "Flops a byte, forward: ½ / (1/I + 1/O + 1/N) for a matrix (O,I), if x, W and y move once in 4 bytes per number;\n"
    "for attention K·H·D / (q|k|v + H·D), because no (T,T) matrix moves.\n";

}  // namespace

std::string cost_text(const Config& config, int B, const std::vector<TensorSpec>& table) {
  const double N = static_cast<double>(B) * config.context;
  StepCosts costs;
  for (const auto& [level, name] : kRecomputes) costs.emplace_back(config, B, table, level);
  const StepCost& step = costs[0];
  return sizes(config, B, step) + parameters(step) + "\n" + operations(step) + "\n" + kept(costs) + "\n" +
         memory(config, costs, N) + "\n" + whole_step(costs, N) + saving(step) + "\n" + kExplanation;
}
