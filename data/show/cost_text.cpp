#include "cost_text.hpp"

#include <cmath>

#include "cost.hpp"
#include "data/host/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/size.hpp"

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string share(double part, double all) { return format("%.1f %%", 100 * part / all); }

std::string size(const char* letter, double number) { return std::string(letter) + " " + format_count(number); }

// The costs of a step, with or without --recompute.
struct StepCost {
  MemoryNeed need;
  std::vector<PartCost> parts;
  double parameters = 0, trained = 0, multiply_adds = 0, flops = 0;
  double kept = 0, shared = 0;  // floats per token: of single blocks, and shared by all

  StepCost(Config config, int B, const std::vector<TensorSpec>& table, bool recompute) {
    config.recompute = recompute;
    need = memory_of_training(config, B, table), parts = cost_of_parts(config, B);
    trained = static_cast<double>(count_parameters(table)), flops = flops_per_token(config, table);
    for (const PartCost& part : parts) {
      parameters += part.parameters.number, multiply_adds += part.multiply_adds.number;
      (is_shared(part) ? shared : kept) += part.floats.number;
    }
  }

  const char* letter() const { return trained < parameters ? "P'" : "P"; }  // of the parameters that train
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

std::string kept(const StepCost& s, const StepCost& recomputed) {
  const std::string again = "with --recompute";
  Rows rows = {{"kept for backward", "floats a token", again, "bytes a token", "share", again}};
  for (size_t i = 0; i < s.parts.size(); ++i) {
    const auto& [number, formula] = s.parts[i].floats;
    const Amount& less = recomputed.parts[i].floats;
    if (number > 0 && !s.is_shared(s.parts[i]))
      rows.push_back({s.parts[i].name, formula, less.formula, format_count(4 * number), share(number, s.kept),
                      format_count(4 * less.number)});
  }
  rows.push_back({"all", "", "", format_count(4 * s.kept), "", format_count(4 * recomputed.kept)});
  return aligned(rows, 3);
}

// The bytes of all tokens from the formula of the floats per token: "4·N·(3·C + 2·F)", and "4·R·V" from "R·V/N".
std::string bytes_of_all(const std::string& formula) {
  if (formula.ends_with("/N")) return "4·" + formula.substr(0, formula.size() - 2);
  return "4·N·" + (formula.find(' ') == formula.npos ? formula : "(" + formula + ")");
}

std::string memory(const StepCost& s, const StepCost& recomputed, double N) {
  Rows rows = {{"memory of a step", "", "bytes", "with --recompute"}};
  const auto row = [&](const std::string& name, const std::string& formula, double bytes, double again) {
    if (bytes > 0 || again > 0) rows.push_back({name, formula, format_count(bytes), format_count(again)});
  };
  const auto same = [&](const char* name, int factor, const std::string& letter, double numbers, size_t need) {
    const double more = static_cast<double>(need) / factor - numbers;
    const std::string all = more > 0 ? "(" + letter + " + " + format_count(more) + ")" : letter;
    row(name, std::to_string(factor) + "·" + all, static_cast<double>(need), static_cast<double>(need));
  };
  same("weights", 4, "P", s.parameters, s.need.weights);
  same("gradients", 4, s.letter(), s.trained, s.need.gradients);
  same("moments", 8, s.letter(), s.trained, s.need.moments);
  const auto bytes = [&](double floats) { return std::round(4 * N * floats); };
  row("kept for backward", format("N·%.10g", bytes(s.kept) / N), bytes(s.kept), bytes(recomputed.kept));
  for (const Role role : {Role::scratch, Role::logits}) {
    const auto& [floats, formula] = s.of(role).floats;
    row(s.of(role).name, bytes_of_all(formula), bytes(floats), bytes(floats));
  }
  const auto padding = [&](const StepCost& c) {
    return static_cast<double>(c.need.activations) - bytes(c.kept) - bytes(s.shared);
  };
  row("padding", "to 64 bytes a tensor", padding(s), padding(recomputed));
  row("all", "", static_cast<double>(s.need.total()), static_cast<double>(recomputed.need.total()));
  return aligned(rows, 2);
}

// adamw_step has 15 operations per parameter; it reads w, g, m and v, and writes w, m and v.
std::string whole_step(const StepCost& s, double N) {
  const double all = s.flops, P = s.trained;
  const std::string letter = s.letter();
  const double again = all + 2 * (s.multiply_adds - s.of(Role::classifier).multiply_adds.number);
  std::string text = "A step takes N·" + format_count(all) + " = " + format_count(N * all) + " flops; ";
  text += "with --recompute " + format_count(N * again) + ", " + format("%.2f", again / all);
  text += " times as many: blocks go forward twice.\n";
  if (s.trained < s.parameters) text += "Matrices that do not train have no dW.\n";
  text += "AdamW takes 15·" + letter + " = " + format_count(15 * P) + " flops and moves 28·" + letter + " = " +
          format_count(28 * P);
  return text + " bytes: half a flop a byte.\n\n";
}

constexpr const char* kExplanation =
    "A multiply-add is two flops. Each forward product has two in backward: dx = dy W and dW = dyᵀ x. Norms, softmax,\n"
    "activation and residual are not counted: they do few operations per number and cost only the bytes they move.\n"
    "Flops a byte, forward: ½ / (1/I + 1/O + 1/N) for a matrix (O,I), if x, W and y move once in 4 bytes per number;\n"
    "for attention K·H·D / (q|k|v + H·D), because no (T,T) matrix moves.\n";

}  // namespace

std::string cost_text(const Config& config, int B, const std::vector<TensorSpec>& table) {
  const double N = static_cast<double>(B) * config.context;
  const StepCost step(config, B, table, false), recomputed(config, B, table, true);
  return sizes(config, B, step) + parameters(step) + "\n" + operations(step) + "\n" + kept(step, recomputed) + "\n" +
         memory(step, recomputed, N) + "\n" + whole_step(step, N) + kExplanation;
}
