#include "cost.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/model.hpp"
#include "layers/model/size.hpp"

// ---- which part a tensor belongs to ------------------------------------------------------------------------

namespace {

constexpr const char* kPartNames[] = {"embedding",  "norms", "gains",    "q, k, v",    "attention", "o",     "up",
                                      "activation", "down",  "residual", "classifier", "scratch",   "logits"};

CostPart part_of(Role role) {
  switch (role) {
    case Role::embedding: return CostPart::embedding;
    case Role::norm:
    case Role::norm_gain:
    case Role::norm_scalar: return CostPart::norms;
    case Role::gain: return CostPart::gains;
    case Role::qk:
    case Role::v: return CostPart::qkv;
    case Role::attention: return CostPart::attention;
    case Role::o: return CostPart::o;
    case Role::ffn_in: return CostPart::up;
    case Role::activation: return CostPart::activation;
    case Role::ffn_out: return CostPart::down;
    case Role::residual: return CostPart::residual;
    case Role::classifier: return CostPart::classifier;
    case Role::scratch: return CostPart::scratch;
    case Role::logits: return CostPart::logits;
  }
  return CostPart::scratch;
}

// ---- formulas ----------------------------------------------------------------------------------------------
// They are read off the declarations: the same model is declared once more in sizes that are all different, so that a
// number tells its letter.

Config stand_in(const Config& config) {
  const bool qkv_as_wide = config.n_head * config.head_dim == config.channels;
  const int up = (config.gated() ? 2 : 1) * config.hidden;
  Config c = config;
  c.n_head = 7, c.head_dim = 11, c.kv_heads = config.kv_heads == config.n_head ? 7 : 5;
  c.channels = qkv_as_wide ? 77 : 101, c.vocab_size = 307, c.context = 13;
  // Scratch is as wide as the wider of two things: here the same ones are.
  c.hidden = up >= config.qkv_width() ? 499 : config.hidden >= config.n_head * config.head_dim ? 89 : 53;
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

// The tensors, by their names within a layer, that every block has.
std::set<std::string> in_all_blocks(const std::vector<TensorSpec>& table, int n_layer) {
  std::map<std::string, int> count;
  for (const TensorSpec& spec : table)
    if (spec.layer != kOutside) ++count[spec.part];
  std::set<std::string> parts;
  for (const auto& [part, n] : count)
    if (n == n_layer) parts.insert(part);
  return parts;
}

// ---- the rows ----------------------------------------------------------------------------------------------

// Fills the rows by walking over both tables of tensors, the model's own and that of its stand-in, side by side.
class CostTable {
 public:
  std::vector<PartCost> rows;

  CostTable(const Config& config, int B) : config_(config), other_(stand_in(config)), B_(B) {
    for (const char* name : kPartNames) rows.push_back({.name = name});
    add_activations();
    add_parameters();
    add_products();
  }

 private:
  struct Size {
    double rows = 0, columns = 0;
  };

  PartCost& at(CostPart part) { return rows[static_cast<size_t>(part)]; }
  double N() const { return static_cast<double>(B_) * config_.context; }

  void add_activations() {
    Layout real, same;
    declare_activations(real, config_, B_, config_.context, true);
    const bool in_pieces = classifier_rows(B_ * config_.context, config_.vocab_size) < B_ * config_.context;
    const int sequences = in_pieces ? kManySequences : kFewSequences;
    declare_activations(same, other_, sequences, other_.context, true);
    const Letters letters(other_, sequences);
    const auto in_all = in_all_blocks(real.table(), config_.n_layer);
    std::map<CostPart, Formula> floats;
    for (size_t i = 0; i < real.table().size(); ++i) {
      const TensorSpec& spec = real.table()[i];
      const CostPart part = part_of(spec.role);
      at(part).floats.number += static_cast<double>(spec.size()) / N();
      floats[part].add(letters.a_token(same.table()[i]), spec.layer != kOutside && in_all.contains(spec.part));
    }
    for (const auto& [part, formula] : floats) at(part).floats.formula = formula.text(config_.n_layer);
  }

  void add_parameters() {
    Layout real, same;
    declare_model(real, config_);
    declare_model(same, other_);
    const Letters letters(other_, kFewSequences);
    const auto in_all = in_all_blocks(real.table(), config_.n_layer);
    std::map<CostPart, Formula> parameters, products;
    for (size_t i = 0; i < real.table().size(); ++i) {
      const TensorSpec& spec = real.table()[i];
      if (!spec.trained) continue;
      const bool in_each = spec.layer != kOutside && in_all.contains(spec.part);
      const CostPart part = part_of(spec.role);
      const Product product = letters.all(same.table()[i]);
      at(part).parameters.number += static_cast<double>(spec.size());
      parameters[part].add(product, in_each);
      if (spec.layer == kOutside || spec.shape.size() != 2) continue;
      at(part).multiply_adds.number += static_cast<double>(spec.size());
      products[part].add(product, in_each);
      if (spec.layer != 0) continue;
      matrices_[part].rows += spec.shape[0];
      matrices_[part].columns = spec.shape[1];
    }
    for (const auto& [part, formula] : parameters) at(part).parameters.formula = formula.text(config_.n_layer);
    for (const auto& [part, formula] : products) at(part).multiply_adds.formula = formula.text(config_.n_layer);
  }

  // The classifier, tied or not, and attention's q·k and P·v, which have no matrices of their own; and intensities.
  void add_products() {
    double keys = 0;  // in all layers together
    for (int l = 0; l < config_.n_layer; ++l) keys += keys_seen(config_, l);
    const double width = static_cast<double>(config_.n_head) * config_.head_dim, C = config_.channels;
    at(CostPart::attention).multiply_adds = {2 * width * keys, width == C ? "2·L·C·K" : "2·L·H·D·K"};
    at(CostPart::classifier).multiply_adds = {config_.vocab_size * C, "V·C"};
    matrices_[CostPart::classifier] = {static_cast<double>(config_.vocab_size), C};

    // x, W (O,I) and y move once: 2·N·O·I operations on 4·(N·I + O·I + N·O) bytes; of attention q, k, v and its output.
    for (const auto& [part, w] : matrices_) at(part).intensity = .5 / (1 / w.columns + 1 / w.rows + 1 / N());
    at(CostPart::attention).intensity = width * keys / config_.n_layer / (config_.qkv_width() + width);
  }

  const Config& config_;
  const Config other_;
  int B_;
  std::map<CostPart, Size> matrices_;  // of one block; those over the same input are one product
};

}  // namespace

std::vector<PartCost> cost_of_parts(const Config& config, int B) { return CostTable(config, B).rows; }
