#include "cost_text.hpp"

#include <algorithm>
#include <cmath>

#include "cost.hpp"
#include "data/host/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/size.hpp"

namespace {

using Cells = std::vector<std::string>;

// Lines of a table: numbers to the right, the columns that `left` counts from the first to the left.
std::string aligned(const std::vector<Cells>& rows, size_t left) {
  std::vector<size_t> width(rows[0].size());
  for (const Cells& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], columns_of(row[i]));
  std::string text;
  for (const Cells& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(width[i] - columns_of(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i < left ? row[i] + space : space + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text + "\n";
}

std::string share(double part, double all) { return format("%.1f %%", 100 * part / all); }

std::string size(const char* letter, double number) { return std::string(letter) + " " + format_count(number); }

struct Step {
  Config config;
  int B;
  std::vector<PartCost> parts, recomputed;
  MemoryNeed need, need_recomputed;

  Step(const Config& c, int batch) : config(c), B(batch) {
    config.recompute = false;
    Config again = config;
    again.recompute = true;
    parts = cost_of_parts(config, B), recomputed = cost_of_parts(again, B);
    need = memory_of_training(config, B), need_recomputed = memory_of_training(again, B);
  }

  double N() const { return static_cast<double>(B) * config.context; }
  double total(double (*of)(const PartCost&)) const {
    double sum = 0;
    for (const PartCost& part : parts) sum += of(part);
    return sum;
  }
  double P() const {
    return total([](const PartCost& part) { return part.parameters.number; });
  }
  double multiply_adds() const {
    return total([](const PartCost& part) { return part.multiply_adds.number; });
  }
};

std::string sizes(const Step& s) {
  const Config& c = s.config;
  const int N = s.B * c.context, width = c.n_head * c.head_dim;
  std::string text = size("B", s.B) + " · " + size("T", c.context) + " = " + size("N", N) + " rows;  ";
  for (const auto& [letter, number] : {std::pair{"C", c.channels}, {"H", c.n_head}, {"KV", c.kv_heads}, {"D", c.head_dim},
                                       {"F", c.hidden}, {"V", c.vocab_size}, {"L", c.n_layer}})
    text += (*letter == 'C' ? "" : "  ") + size(letter, number);
  if (width == c.channels) text += "; H·D is C";
  if (c.kv_heads == c.n_head) text += width == c.channels ? ", KV is H" : "; KV is H";
  const double attention = s.parts[static_cast<size_t>(CostPart::attention)].multiply_adds.number;
  text += ".\nA query sees " + format("K %.5g keys", attention / (2. * width * c.n_layer)) + " on average.";
  return text + " Of logits " + size("R", classifier_rows(N, c.vocab_size)) + " rows are there at a time.\n\n";
}

std::string parameters(const Step& s) {
  std::vector<Cells> rows = {{"parameters", "", "number", "share"}};
  for (const PartCost& part : s.parts)
    if (part.parameters.number > 0)
      rows.push_back({part.name, part.parameters.formula, format_count(part.parameters.number),
                      share(part.parameters.number, s.P())});
  rows.push_back({"P", "", format_count(s.P()), ""});
  return aligned(rows, 2);
}

std::string operations(const Step& s) {
  const double all = s.multiply_adds();
  std::vector<Cells> rows = {{"flops a token", "multiply-adds", "forward", "backward", "share", "flops a byte"}};
  for (const PartCost& part : s.parts)
    if (const double n = part.multiply_adds.number; n > 0)
      rows.push_back({part.name, part.multiply_adds.formula, format_count(2 * n), format_count(4 * n), share(n, all),
                      format("%.1f", part.intensity)});
  rows.push_back({"all", "", format_count(2 * all), format_count(4 * all), "", ""});
  return aligned(rows, 2);
}

bool is_shared(const PartCost* part, const std::vector<PartCost>& parts) {
  return part - parts.data() >= static_cast<ptrdiff_t>(CostPart::scratch);
}

// Floats for each token of what each block keeps to itself, and of what all share.
double floats(const std::vector<PartCost>& parts, bool shared) {
  double sum = 0;
  for (const PartCost& part : parts) sum += is_shared(&part, parts) == shared ? part.floats.number : 0;
  return sum;
}

std::string kept(const Step& s) {
  const double all = floats(s.parts, false);
  std::vector<Cells> rows = {{"kept for backward", "floats a token", "with --recompute", "bytes a token", "share",
                              "with --recompute"}};
  for (size_t i = 0; i < s.parts.size(); ++i) {
    const Amount &amount = s.parts[i].floats, &again = s.recomputed[i].floats;
    if (amount.number > 0 && !is_shared(&s.parts[i], s.parts))
      rows.push_back({s.parts[i].name, amount.formula, again.formula, format_count(4 * amount.number),
                      share(amount.number, all), format_count(4 * again.number)});
  }
  rows.push_back({"all", "", "", format_count(4 * all), "", format_count(4 * floats(s.recomputed, false))});
  return aligned(rows, 3);
}

// The bytes of all tokens, where the formula is that of a token's floats: "4·N·(3·C + 2·F)", "4·R·V" from "R·V/N".
std::string bytes_of_all(const std::string& formula) {
  if (formula.ends_with("/N")) return "4·" + formula.substr(0, formula.size() - 2);
  return "4·N·" + (formula.find(' ') == formula.npos ? formula : "(" + formula + ")");
}

std::string memory(const Step& s) {
  std::vector<Cells> rows = {{"memory of a step", "", "bytes", "with --recompute"}};
  const auto row = [&](const std::string& name, const std::string& formula, double bytes, double again) {
    if (bytes > 0 || again > 0) rows.push_back({name, formula, format_count(bytes), format_count(again)});
  };
  const auto weights = static_cast<double>(s.need.weights), P = s.P();
  const std::string all = weights > 4 * P ? "(P + " + format_count(weights / 4 - P) + ")" : "P";
  row("weights", "4·" + all, weights, weights);
  row("gradients", "4·" + all, weights, weights);
  row("moments", "8·" + all, 2 * weights, 2 * weights);
  const double bytes = 4 * s.N(), own = std::round(bytes * floats(s.parts, false));
  const double own_again = std::round(bytes * floats(s.recomputed, false)), shared = std::round(bytes * floats(s.parts, true));
  row("kept for backward", format("N·%.10g", own / s.N()), own, own_again);
  for (const CostPart part : {CostPart::scratch, CostPart::logits}) {
    const auto& [number, formula] = s.parts[static_cast<size_t>(part)].floats;
    row(s.parts[static_cast<size_t>(part)].name, bytes_of_all(formula), bytes * number, bytes * number);
  }
  row("padding", "to 64 bytes a tensor", static_cast<double>(s.need.activations) - own - shared,
      static_cast<double>(s.need_recomputed.activations) - own_again - shared);
  row("all", "", static_cast<double>(s.need.total()), static_cast<double>(s.need_recomputed.total()));
  return aligned(rows, 2);
}

// adamw_step has 15 operations for each parameter; it reads w, g, m and v, and writes w, m and v.
std::string whole_step(const Step& s) {
  const double all = 6 * s.multiply_adds(), P = s.P();
  const double classifier = s.parts[static_cast<size_t>(CostPart::classifier)].multiply_adds.number;
  const double again = all + 2 * (s.multiply_adds() - classifier);
  std::string text = "A step takes N·" + format_count(all) + " = " + format_count(s.N() * all) + " flops; with --recompute ";
  text += format_count(s.N() * again) + ", " + format("%.2f", again / all) + " times as many: blocks go forward twice.\n";
  text += "AdamW takes 15·P = " + format_count(15 * P) + " flops and moves 28·P = " + format_count(28 * P);
  return text + " bytes: half a flop a byte.\n\n";
}

constexpr const char* kExplanation =
    "A multiply-add is two flops. Backward has two products for one of forward: dx = dy W and dW = dyᵀ x. Norms, softmax,\n"
    "activation and residual are not counted: they do a few operations on each number, and what they take is bytes moved.\n"
    "Flops a byte, forward: ½ / (1/I + 1/O + 1/N) of a matrix (O,I), as x, W and y move at least once, in 4 bytes each;\n"
    "of attention K·H·D / (q|k|v + H·D), for no (T,T) matrix moves.\n";

}  // namespace

std::string cost_text(const Config& config, int B) {
  const Step step(config, B);
  return sizes(step) + parameters(step) + operations(step) + kept(step) + memory(step) + whole_step(step) + kExplanation;
}
