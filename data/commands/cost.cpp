#include "cost.hpp"

#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/model.hpp"
#include "layers/model/size.hpp"
#include "layers/streams/streams.hpp"

namespace {

// One name per Role.
constexpr const char* kPartNames[] = {"embedding", "norms",     "",   "",   "gains", "", "q, k, v",
                                      "",          "attention", "o",  "router", "up", "activation", "down",
                                      "residual",  "classifier", "scratch", "logits", "adapters", "streams"};

size_t row_of(Role role) {
  size_t row = static_cast<size_t>(role);
  while (!*kPartNames[row]) --row;
  return row;
}

// ---- formulas ----------------------------------------------------------------------------------------------
// The declarations of the tensors give the formulas. A stand-in, the same model with sizes that all differ, declares
// its tensors, so that each size in the table of tensors identifies its letter.

// factor·letters, and its value in the model itself.
struct Product {
  int64_t factor;
  std::string letters;
  double number;
};
Product operator*(const Product& a, const Product& b) {
  const std::string dot = a.letters.empty() || b.letters.empty() ? "" : "·";
  const bool square = !dot.empty() && a.letters == b.letters;
  return {a.factor * b.factor, a.letters + (square ? "²" : dot + b.letters), a.number * b.number};
}

constexpr std::pair<int, const char*> kLetters[] = {
    {1, ""},   {1, "C"}, {1, "H·D"},  {1, "F"},            {1, "V"}, {1, "T"},  {1, "H"},
    {1, "KV"}, {1, "D"}, {1, "KV·D"}, {1, "(H + 2·KV)·D"}, {2, "F"}, {1, "R·V"}, {1, "r"},
    {2, "C"},  {1, "S"}, {1, "(S + 2)"}, {1, "S²"}, {1, "M"}, {1, "S·C"}, {2, ""}, {3, ""}};

// The values of kLetters.
std::vector<size_t> sizes_of(const Config& c, int B) {
  const auto size = [](int n) { return static_cast<size_t>(n); };
  const size_t C = size(c.channels), F = size(c.hidden), V = size(c.vocab_size), D = size(c.head_dim);
  const size_t S = size(c.streams);
  return {1, C, size(c.n_head) * D, F, V, size(c.context), size(c.n_head), size(c.kv_heads), D, size(c.kv_heads) * D,
          size(c.qkv_width()), 2 * F, size(classifier_rows(B * c.context, c.vocab_size)) * V,
          size(c.lora_rank), 2 * C, S, S + 2, S * S, S * (S + 2), S * C, 2, 3};
}

struct StandIn {
  Config config;
  int B;
  std::map<size_t, Product> letters;  // size → its letter; if two sizes are equal, the first of kLetters
  double N;                           // rows of the model itself

  StandIn(const Config& model, int model_B) : config(model), N(static_cast<double>(model_B) * model.context) {
    const bool qkv_as_wide = model.n_head * model.head_dim == model.channels, grouped = model.kv_heads != model.n_head;
    const int run = model.experts_run(), up = (model.gated() ? 2 : 1) * run * model.hidden;
    if (config.lora_rank > 0) config.lora_rank = 19;
    config.streams = 23;
    config.n_head = 7, config.head_dim = 11 * run, config.kv_heads = grouped ? 5 : 7;
    config.channels = qkv_as_wide ? 77 * run : 101, config.vocab_size = 307, config.context = 13;
    // Scratch is as wide as the wider of two tensors. The same one must be wider here.
    config.hidden = up >= model.qkv_width() ? 499 : run * model.hidden >= model.n_head * model.head_dim ? 89 : 53;
    B = classifier_rows(static_cast<int>(N), model.vocab_size) < N ? 5003 : 3;  // more rows than logits, or as many
    const std::vector<size_t> sizes = sizes_of(config, B), numbers = sizes_of(model, model_B);
    for (size_t i = 0; i < sizes.size(); ++i)
      letters.insert({sizes[i], {kLetters[i].first, kLetters[i].second, static_cast<double>(numbers[i])}});
    for (const int rows : {run, 2 * run})  // rows per token of experts, plain or gated
      letters.insert({size_t(rows) * config.hidden, {rows, "F", double(rows) * model.hidden}});
    if (!grouped) letters[config.qkv_width()] = Product{3, "", 3} * letters[config.n_head * config.head_dim];
  }

  // The rows of a parameter, and all of it. Numbers of experts have no letter.
  Product rows_of(const TensorSpec& spec) const {
    return spec.role == Role::router ? plain(spec.shape[0]) : letters.at(spec.shape[0]);
  }
  Product product_of(const TensorSpec& spec) const {
    Product product = rows_of(spec);
    for (size_t i = 1; i < spec.shape.size(); ++i) product = product * letters.at(spec.shape[i]);
    return product;
  }
  static Product plain(size_t number) { return {int64_t(number), "", double(number)}; }

  // The size of a tensor, per token: most activations have a row for each token.
  Product per_token(const TensorSpec& spec) const {
    const size_t tokens = static_cast<size_t>(B) * config.context;
    const bool of_rows = spec.shape == std::vector<int>{static_cast<int>(tokens) * config.experts_run()};
    if (spec.role == Role::router || of_rows) return plain(spec.size() / tokens);
    if (spec.size() % tokens == 0) return letters.at(spec.size() / tokens);
    const auto& [factor, text, number] = letters.at(spec.size());
    return {factor, text + "/N", number / N};
  }
};

// "3·L·C² + (2·L + 1)·C": a sum of products, each of which occurs in every block, or once.
class Formula {
 public:
  void add(const Product& product, bool in_each_block) {
    number_ += product.number;
    size_t i = 0;
    while (i < terms_.size() && terms_[i].letters != product.letters) ++i;
    if (i == terms_.size()) terms_.push_back({product.letters, 0, 0});
    (in_each_block ? terms_[i].in_blocks : terms_[i].once) += product.factor;
  }

  Amount amount(int n_layer) const {
    std::string sum;
    for (const bool letters : {true, false})  // a term without letters comes last
      for (const Term& term : terms_)
        if (letters != term.letters.empty()) sum += (sum.empty() ? "" : " + ") + text(term, n_layer);
    return {number_, sum};
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

  double number_ = 0;
  std::vector<Term> terms_;
};

// ---- the rows ----------------------------------------------------------------------------------------------

// The tensors of one part. `out` and `in` add up its matrices in one block; matrices with the same input are one
// product.
struct Row {
  Formula parameters, multiply_adds, floats;
  double out = 0, in = 0;
  double share = 1;  // share of the rows that one product takes
};
// Experts take their rows through products of their own. The first stands for all.
bool is_another_expert(const TensorSpec& spec) { return expert_of(spec) > 0 || spec.part.starts_with("ffn.shared."); }

using PartRows = std::array<Row, std::size(kPartNames)>;

// Calls `add` with each tensor of a table, and whether every block has one of its name.
template <class Add>
void for_each_tensor(const Layout& layout, int n_layer, const Add& add) {
  std::map<std::string, int> blocks_with;
  for (const TensorSpec& spec : layout.table()) blocks_with[spec.part] += spec.layer != kOutside;
  for (const TensorSpec& spec : layout.table())
    add(spec, spec.layer != kOutside && blocks_with[spec.part] == n_layer);
}

void add_activations(PartRows& rows, const StandIn& s) {
  Layout layout;
  declare_activations(layout, s.config, s.B, s.config.context, true);
  for_each_tensor(layout, s.config.n_layer, [&](const TensorSpec& spec, bool in_each_block) {
    rows[row_of(spec.role)].floats.add(s.per_token(spec), in_each_block);
  });
}

// The products of a branch that mixes its streams.
std::vector<Product> products_of_streams(const Config& config) {
  const double mixing = multiply_adds_of_mixing(config);
  const double coefficients = multiply_adds_of_streams(config) - mixing;
  if (mixing == 0) return {};
  if (coefficients == 0) return {{1, "M·C", mixing}};
  if (placement_row(config.placement).streams == StreamRule::hyper) return {{2, "M·C", mixing + coefficients}};
  return {{1, "M·C", mixing}, {1, "M·S·C", coefficients}};
}

void add_parameters(PartRows& rows, const StandIn& s) {
  Layout layout;
  declare_model(layout, s.config);
  for_each_tensor(layout, s.config.n_layer, [&](const TensorSpec& spec, bool in_each_block) {
    if (!spec.trained) return;
    Row& row = rows[row_of(spec.role)];
    const Product product = s.product_of(spec);
    row.parameters.add(product, in_each_block);
    if (spec.layer == kOutside || spec.shape.size() != 2 || spec.role == Role::streams) return;
    if (is_idle(spec, s.config)) return;
    row.multiply_adds.add(product, in_each_block);
    if (spec.layer != 0 || spec.role == Role::adapter || is_another_expert(spec)) return;
    if (expert_of(spec) == 0) row.share = double(s.config.experts_per_token) / s.config.experts;
    row.out += s.rows_of(spec).number, row.in = s.letters.at(spec.shape[1]).number;
  });
}

}  // namespace

std::vector<PartCost> cost_of_parts(const Config& config, int B) {
  const StandIn stand_in(config, B);
  PartRows rows;
  add_activations(rows, stand_in);
  add_parameters(rows, stand_in);

  // The classifier, tied or not, and attention's q·k and P·v, which have no matrices of their own.
  const double C = config.channels, V = config.vocab_size, width = static_cast<double>(config.n_head) * config.head_dim;
  Row& classifier = rows[row_of(Role::classifier)];
  classifier.out = V, classifier.in = C;
  classifier.multiply_adds.add({1, "V·C", V * C}, false);
  // Streams are mixed with coefficients, and those are products, too.
  Row& streams = rows[row_of(Role::streams)];
  for (int branch = 0; branch < 2 * config.n_layer; ++branch)
    for (const auto& [factor, letters, number] : products_of_streams(config))
      streams.multiply_adds.add({factor, letters, number}, true);
  double keys = 0;  // in all layers together
  for (int l = 0; l < config.n_layer; ++l) keys += keys_seen(config, l);

  // x, W (O,I) and y move once: 2·N·O·I operations on 4·(N·I + O·I + N·O) bytes; for attention q, k, v and its output.
  std::vector<PartCost> parts;
  for (const auto& [parameters, multiply_adds, floats, out, in, share] : rows)
    parts.push_back({kPartNames[parts.size()], parameters.amount(config.n_layer), multiply_adds.amount(config.n_layer),
                     floats.amount(config.n_layer), out > 0 ? .5 / (1 / in + 1 / out + 1 / (share * stand_in.N)) : 0});
  const double S = stream_count(config);
  if (multiply_adds_of_mixing(config) > 0)  // S·(S + 2)·C products of a branch that moves (3·S + 2)·C numbers
    parts[row_of(Role::streams)].intensity = .5 * S * (S + 2) / (3 * S + 2);
  PartCost& attention = parts[row_of(Role::attention)];
  attention.multiply_adds = {2 * width * keys, width == C ? "2·L·C·K" : "2·L·H·D·K"};
  attention.intensity = width * keys / config.n_layer / (config.qkv_width() + width);
  return parts;
}
