#include "cost.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/model.hpp"
#include "data/host/peak.hpp"

MemoryNeed memory_of_training(const Config& config, int B) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, config.context, true);
  const size_t weights = checked_product({model.size(), sizeof(float)});
  return {weights, weights, checked_product({2, weights}), checked_product({activations.size(), sizeof(float)})};
}

MemoryNeed memory_of_inference(const Config& config, int B, int T) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, T, false);
  const size_t cache = checked_product({size_t(config.n_layer), size_t(T), cache_width(config)});
  MemoryNeed need;
  need.weights = checked_product({model.size(), sizeof(float)});
  need.activations = checked_product({activations.size() + cache, sizeof(float)});
  return need;
}

// ---- which part a tensor belongs to ------------------------------------------------------------------------

namespace {

constexpr const char* kPartNames[] = {"embedding",  "norms", "gains",    "q, k, v",    "attention", "o",     "up",
                                      "activation", "down",  "residual", "classifier", "scratch",   "logits"};

// A tensor belongs to the first row whose words are in its name.
struct Belongs {
  const char* words;
  Part part;
};
constexpr Belongs kParameters[] = {
    {"norm", Part::norms},       {"embedding.", Part::embedding}, {"attention.q.", Part::qkv},
    {"attention.k.", Part::qkv}, {"attention.v.", Part::qkv},     {"attention.o.", Part::o},
    {"ffn.gate.", Part::up},     {"ffn.up.", Part::up},           {"ffn.down.", Part::down},
    {".scale.", Part::gains},    {"head.", Part::classifier}};
constexpr Belongs kActivationTensors[] = {
    {"scratch.logits", Part::logits},   {"scratch.", Part::scratch},           {"norm", Part::norms},
    {".sum", Part::norms},              {"embedding", Part::embedding},        {"attention.qkv", Part::qkv},
    {"attention.q", Part::norms},       {"attention.k", Part::norms},          {"attention.lse", Part::attention},
    {"attention.mixed", Part::attention}, {"attention.o", Part::o},            {"attention.y", Part::residual},
    {"ffn.up", Part::up},               {"ffn.activation", Part::activation},  {"ffn.down", Part::down},
    {"ffn.y", Part::residual},          {"loss", Part::classifier}};

template <size_t n>
Part part_of(const Belongs (&table)[n], const std::string& name) {
  for (const Belongs& row : table)
    if (name.find(row.words) != name.npos) return row.part;
  throw std::logic_error("no part of the costs has the tensor " + name + ": data/show/cost.cpp");
}

// ---- formulas ----------------------------------------------------------------------------------------------
// They are read off the declarations: the same model is declared once more in sizes that are all different, so that a
// number tells its letter.

Config stand_in(const Config& config) {
  const bool qkv_as_wide = config.n_head * config.head_dim == config.channels;
  const int raised = (config.gated() ? 2 : 1) * config.hidden;
  Config c = config;
  c.n_head = 7, c.head_dim = 11, c.kv_heads = config.kv_heads == config.n_head ? 7 : 5;
  c.channels = qkv_as_wide ? 77 : 101, c.vocab_size = 307, c.context = 13;
  // Scratch is as wide as the wider of two things: here the same ones are.
  c.hidden = raised >= config.qkv_width() ? 499 : config.hidden >= config.n_head * config.head_dim ? 89 : 53;
  return c;
}

constexpr int kManySequences = 5003, kFewSequences = 3;  // more rows than logits have at a time, and fewer

struct Product {
  int64_t factor;
  std::string letters;
};
Product operator*(const Product& a, const Product& b) {
  if (a.letters.empty() || b.letters.empty()) return {a.factor * b.factor, a.letters + b.letters};
  return {a.factor * b.factor, a.letters == b.letters ? a.letters + "²" : a.letters + "·" + b.letters};
}

// What the sizes of a stand-in mean. Of equal ones the first counts.
class Letters {
 public:
  Letters(const Config& c, int B) : N_(static_cast<size_t>(B) * c.context) {
    const int width = c.n_head * c.head_dim, R = classifier_rows(static_cast<int>(N_), c.vocab_size);
    const auto is = [&](size_t size, Product product) { meaning_.emplace(size, std::move(product)); };
    is(1, {1, ""}), is(c.channels, {1, "C"}), is(width, {1, "H·D"}), is(c.hidden, {1, "F"}), is(c.vocab_size, {1, "V"});
    is(c.context, {1, "T"}), is(c.n_head, {1, "H"}), is(c.kv_heads, {1, "KV"}), is(c.head_dim, {1, "D"});
    is(c.kv_heads * c.head_dim, {1, "KV·D"}), is(c.qkv_width(), {1, "(H + 2·KV)·D"}), is(2 * c.hidden, {2, "F"});
    is(static_cast<size_t>(R) * c.vocab_size, {1, "R·V"});
    if (c.kv_heads == c.n_head) meaning_[c.qkv_width()] = Product{3, ""} * meaning_[width];
  }

  // Of all numbers of a tensor.
  Product all(const TensorSpec& spec) const {
    Product product{1, ""};
    for (const int size : spec.shape) product = product * meaning_.at(size);
    return product;
  }
  // Of a token's share: most activations have a row for each token.
  Product a_token(const TensorSpec& spec) const {
    if (spec.size() % N_ == 0) return meaning_.at(spec.size() / N_);
    const Product whole = meaning_.at(spec.size());
    return {whole.factor, whole.letters + "/N"};
  }

 private:
  size_t N_;
  std::map<size_t, Product> meaning_;
};

// "3·L·C² + (2·L + 1)·C": products, and how often they are there, in each block or once.
class Formula {
 public:
  void add(const Product& product, bool in_each_block) {
    size_t i = 0;
    while (i < terms_.size() && terms_[i].letters != product.letters) ++i;
    if (i == terms_.size()) terms_.push_back({product.letters, 0, 0});
    (in_each_block ? terms_[i].in_blocks : terms_[i].once) += product.factor;
  }

  std::string text(int n_layer) const {
    std::string sum;
    for (const bool letters : {true, false})  // what has none comes last
      for (const Term& term : terms_)
        if (letters != term.letters.empty()) sum += (sum.empty() ? "" : " + ") + text(term, n_layer);
    return sum;
  }

 private:
  struct Term {
    std::string letters;
    int64_t in_blocks, once;
  };

  static std::string text(const Term& term, int n_layer) {
    const int64_t each = term.in_blocks / n_layer;
    std::string count = each == 0 ? "" : each == 1 ? "L" : std::to_string(each) + "·L";
    if (count.empty()) count = term.once == 1 && !term.letters.empty() ? "" : std::to_string(term.once);
    else if (term.once > 0) count += " + " + std::to_string(term.once);
    if (term.letters.empty() || count.empty()) return count + term.letters;
    return (each > 0 && term.once > 0 ? "(" + count + ")" : count) + "·" + term.letters;
  }

  std::vector<Term> terms_;
};

// "block.3.ffn.up" → "ffn.up"; "" for what is outside of the blocks.
std::string within_block(const std::string& name) {
  return name.starts_with("block.") ? name.substr(name.find('.', 6) + 1) : "";
}

// The names, within their block, of the tensors that every block has.
std::set<std::string> in_all_blocks(const std::vector<TensorSpec>& table, int n_layer) {
  std::map<std::string, int> count;
  for (const TensorSpec& spec : table) ++count[within_block(spec.name)];
  std::set<std::string> names;
  for (const auto& [name, n] : count)
    if (n == n_layer && !name.empty()) names.insert(name);
  return names;
}

// ---- the rows ----------------------------------------------------------------------------------------------

// 1, 2, ... up to the window, and then as many as it has.
double keys_seen_on_average(double T, double window) {
  const double W = window > 0 && window < T ? window : T;
  return W * (T - (W - 1) / 2) / T;
}

// Fills the rows by walking over both tables of tensors, the model's own and that of its stand-in, side by side.
class Books {
 public:
  std::vector<PartCost> rows;

  Books(const Config& config, int B) : config_(config), other_(stand_in(config)), B_(B) {
    for (const char* name : kPartNames) rows.push_back({.name = name});
    enter_activations();
    enter_parameters();
    enter_products();
  }

 private:
  struct Size {
    double rows = 0, columns = 0;
  };

  PartCost& at(Part part) { return rows[static_cast<size_t>(part)]; }
  double N() const { return static_cast<double>(B_) * config_.context; }

  void enter_activations() {
    Layout real, same;
    declare_activations(real, config_, B_, config_.context, true);
    const bool in_pieces = classifier_rows(B_ * config_.context, config_.vocab_size) < B_ * config_.context;
    const int sequences = in_pieces ? kManySequences : kFewSequences;
    declare_activations(same, other_, sequences, other_.context, true);
    const Letters letters(other_, sequences);
    const auto in_all = in_all_blocks(real.table(), config_.n_layer);
    std::map<Part, Formula> floats;
    for (size_t i = 0; i < real.table().size(); ++i) {
      const TensorSpec& spec = real.table()[i];
      const Part part = part_of(kActivationTensors, spec.name);
      at(part).floats.number += static_cast<double>(spec.size()) / N();
      floats[part].add(letters.a_token(same.table()[i]), in_all.contains(within_block(spec.name)));
    }
    for (const auto& [part, formula] : floats) at(part).floats.formula = formula.text(config_.n_layer);
  }

  void enter_parameters() {
    Layout real, same;
    declare_model(real, config_);
    declare_model(same, other_);
    const Letters letters(other_, kFewSequences);
    const auto in_all = in_all_blocks(real.table(), config_.n_layer);
    std::map<Part, Formula> parameters, products;
    for (size_t i = 0; i < real.table().size(); ++i) {
      const TensorSpec& spec = real.table()[i];
      if (!spec.trained) continue;
      const std::string within = within_block(spec.name);
      const Part part = part_of(kParameters, spec.name);
      const Product product = letters.all(same.table()[i]);
      at(part).parameters.number += static_cast<double>(spec.size());
      parameters[part].add(product, in_all.contains(within));
      if (within.empty() || spec.shape.size() != 2) continue;
      at(part).multiply_adds.number += static_cast<double>(spec.size());
      products[part].add(product, in_all.contains(within));
      if (!spec.name.starts_with("block.0.")) continue;
      matrices_[part].rows += spec.shape[0];
      matrices_[part].columns = spec.shape[1];
    }
    for (const auto& [part, formula] : parameters) at(part).parameters.formula = formula.text(config_.n_layer);
    for (const auto& [part, formula] : products) at(part).multiply_adds.formula = formula.text(config_.n_layer);
  }

  // The classifier, tied or not, and attention's q·k and P·v, which have no matrices of their own; and intensities.
  void enter_products() {
    double keys = 0;  // in all layers together
    for (int l = 0; l < config_.n_layer; ++l) keys += keys_seen_on_average(config_.context, config_.window_of(l));
    const double width = static_cast<double>(config_.n_head) * config_.head_dim, C = config_.channels;
    at(Part::attention).multiply_adds = {2 * width * keys, width == C ? "2·L·C·K" : "2·L·H·D·K"};
    at(Part::classifier).multiply_adds = {config_.vocab_size * C, "V·C"};
    matrices_[Part::classifier] = {static_cast<double>(config_.vocab_size), C};

    // x, W (O,I) and y move once: 2·N·O·I operations on 4·(N·I + O·I + N·O) bytes; of attention q, k, v and its output.
    for (const auto& [part, w] : matrices_) at(part).intensity = .5 / (1 / w.columns + 1 / w.rows + 1 / N());
    at(Part::attention).intensity = width * keys / config_.n_layer / (config_.qkv_width() + width);
  }

  const Config& config_;
  const Config other_;
  int B_;
  std::map<Part, Size> matrices_;  // of one block; those over the same input are one product
};

}  // namespace

std::vector<PartCost> cost_of_parts(const Config& config, int B) { return Books(config, B).rows; }

double flops_per_token(const Config& config) {
  double multiply_adds = 0;
  for (const PartCost& part : cost_of_parts(config, 1)) multiply_adds += part.multiply_adds.number;
  return 3 * 2 * multiply_adds;
}

Utilization::Utilization(const Config& config)
    : matmul_(config.matmul), work_(flops_per_token(config)) {}

double Utilization::of(double tokens_per_second) {
  const double speed = tokens_per_second * work_;
  if (most_ == 0) most_ = measure_flops(matmul_);
  most_ = std::max(most_, speed);
  return speed / most_;
}
