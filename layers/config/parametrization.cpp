#include "parametrization.hpp"

#include <cmath>
#include <span>
#include <stdexcept>

#include "norm_sites.hpp"

namespace {

// ---- which row a tensor has ------------------------------------------------------------------------------

bool is_part(const TensorSpec& spec, std::string_view name) { return spec.part.find(name) != std::string::npos; }
bool is_gate_of_heads(const TensorSpec& spec, const Config& config) {
  return config.output_gate == OutputGate::headwise && is_part(spec, "output_gate.");
}
bool is_number_per_head(const TensorSpec& spec, const Config& config) {
  return is_part(spec, "relative.") || is_part(spec, "head_scale.") || is_part(spec, ".sinks") ||
         (is_vector(spec) && is_gate_of_heads(spec, config));
}
bool is_norm_of_heads(const TensorSpec& spec, const Config& config) {
  return config.qk_norm != QkNormKind::full &&
         (is_part(spec, "q_norm.") || is_part(spec, "k_norm.") || is_part(spec, "v_norm."));
}
bool is_gate_of_norm(const TensorSpec& spec, const char* part) {
  return spec.role == Role::norm_gate && spec.leaf() == part;
}
bool is_up_of_streams(const TensorSpec& spec) { return spec.role == Role::streams && spec.leaf() == "up"; }
bool is_router(const TensorSpec& spec) {
  return spec.role == Role::router || spec.role == Role::streams || is_gate_of_norm(spec, "down");
}
bool is_single(const TensorSpec& spec) {
  return spec.size() == 1 || spec.role == Role::norm_scalar || spec.role == Role::mix || is_router(spec) ||
         spec.role == Role::classifier;
}

bool is_input(const TensorSpec& spec) {
  return (is_embedding(spec) && !is_part(spec, "relative.")) || is_gate_of_norm(spec, "up") ||
         is_up_of_streams(spec);
}
bool acts_on_stream(const TensorSpec& spec) {
  for (const char* part : {"norm_sum.", "stream_mix.", "gpas.", ".skip."})
    if (is_part(spec, part)) return true;
  return false;
}

// The first row that holds counts. A matrix with a side that does not grow also names its Growth (placements.hpp).
constexpr ShapeRule kShapes[] = {
    // (V,C): one row acts; (C,rank)
    {.name = "embedding", .gradient = {.width = -1},
     .holds = [](const TensorSpec& spec, const Config&) { return is_input(spec); }},
    // (V,C), and the logits have a factor 1/m
    {.name = "head", .gradient = {.width = -1},
     .holds = [](const TensorSpec& spec, const Config&) { return is_head(spec); }},
    {.name = "number per head", .gradient = {.heads = -1}, .holds = is_number_per_head},
    // (H,C)
    {.name = "gate of heads", .start = {.width = -1, .heads = .5}, .rate = {.width = -1}, .gradient = {.heads = -1},
     .ones = {.width = .5, .heads = .5}, .holds = is_gate_of_heads},
    // (1,C), and its products have the factor C^-½
    {.name = "scaled query", .start = {.width = -.5}, .rate = {.width = -.5}, .gradient = {.width = -.5},
     .holds = [](const TensorSpec& spec, const Config& config) {
       return is_part(spec, "streams.query") && config.placement_row->streams == StreamRule::attnres_normed;
     }},
    // (E,C), (K,C) of streams or (rank,C), without a factor on what it computes
    {.name = "router", .start = {.width = -1}, .rate = {.width = -1}, .gradient = {},
     .holds = [](const TensorSpec& spec, const Config&) { return is_router(spec) && !is_vector(spec); }},
    // (C,C), (F,C), (C,F)
    {.name = "hidden matrix", .start = {.width = -.5}, .rate = {.width = -1}, .gradient = {.width = -1},
     .ones = {.width = 1}, .holds = [](const TensorSpec& spec, const Config&) { return !is_vector(spec); }},
    // one number, which starts at √C
    {.name = "gain of ScaleNorm", .start = {.width = .5}, .rate = {.width = .5}, .gradient = {.width = -.5},
     .holds = [](const TensorSpec& spec, const Config& config) {
       return spec.role == Role::norm_gain && kind_at(config, spec.group()) == NormKind::scalenorm;
     }},
    {.name = "number", .gradient = {},
     .holds = [](const TensorSpec& spec, const Config&) { return is_single(spec); }},
    // (D), for all heads
    {.name = "norm of heads", .gradient = {.width = -1, .heads = 1}, .holds = is_norm_of_heads},
    {.name = "vector", .gradient = {.width = -1}, .holds = [](const TensorSpec&, const Config&) { return true; }},
};

// Under nugpt. Vectors of weights and the stream have the length 1, so their numbers are C^-½.
bool is_matrix_of_unit_vectors(const TensorSpec& spec) {
  const bool sublayer = spec.role == Role::qk || spec.role == Role::v || spec.role == Role::o ||
                        spec.role == Role::ffn_in || spec.role == Role::ffn_out;
  return sublayer && !is_vector(spec) && !is_part(spec, "output_gate.");
}

constexpr ShapeRule kUnitShapes[] = {
    {.name = "unit embedding", .start = {.width = -.5}, .rate = {.width = -.5}, .gradient = {},
     .holds = [](const TensorSpec& spec, const Config&) { return is_embedding(spec) && is_input(spec); }},
    {.name = "unit head", .start = {.width = -.5}, .rate = {.width = -.75}, .gradient = {},
     .holds = [](const TensorSpec& spec, const Config&) { return is_head(spec); }},
    {.name = "unit matrix", .start = {.width = -.5}, .rate = {.width = -.75}, .gradient = {.width = -.5},
     .ones = {.width = .75},
     .holds = [](const TensorSpec& spec, const Config&) { return is_matrix_of_unit_vectors(spec); }},
    // gate and up: starts at 1
    {.name = "gain of up", .gradient = {.width = -.5},
     .holds = [](const TensorSpec& spec, const Config&) { return is_part(spec, "hidden.gain"); }},
    // stored as C^-½
    {.name = "gain of logits", .start = {.width = -.5}, .rate = {.width = -.5}, .gradient = {.width = .5},
     .holds = [](const TensorSpec& spec, const Config&) { return is_part(spec, "logits.gain"); }},
    {.name = "gain of unit vectors", .start = {.width = -.5}, .rate = {.width = -.5}, .gradient = {},
     .holds = [](const TensorSpec& spec, const Config&) {
       return is_part(spec, "qk.gain") || (spec.role == Role::streams && spec.leaf() == "rate");
     }},
};

constexpr PlaceRule kPlaces[] = {
    {.name = "outside", .holds = [](const TensorSpec& spec) { return spec.layer == kOutside; }},
    // multiplies the whole stream or adds to it, in every block
    {.name = "on the stream", .rate = {.depth = -1}, .holds = acts_on_stream},
    // multiplied by the branch's factor 1/l
    {.name = "in a branch", .gradient = {.depth = -1}, .holds = [](const TensorSpec&) { return true; }},
};

constexpr Exponents kLogits = {.width = -1}, kLogitsOfUnitRows = {.width = -.5}, kLogitsOfNugpt = {.width = .5};
constexpr Exponents kBranch = {.depth = -1}, kScores = {.width = -.5, .heads = .5};

Exponents rate_of(const ShapeRule& shape, const PlaceRule& place, StepRule rule) {
  const Exponents rate = shape.rate + place.rate;
  switch (rule) {
    case StepRule::sign: break;
    case StepRule::gradient: return rate - (shape.gradient + place.gradient);
    case StepRule::relative: return rate - shape.start;
    case StepRule::orthogonal: return rate + shape.ones;
    case StepRule::orthogonal_by_rms: return rate + shape.ones - Exponents{.width = .5};
  }
  return rate;
}

}  // namespace

Exponents operator+(const Exponents& a, const Exponents& b) {
  return {a.width + b.width, a.depth + b.depth, a.heads + b.heads};
}
Exponents operator-(const Exponents& a, const Exponents& b) {
  return {a.width - b.width, a.depth - b.depth, a.heads - b.heads};
}

double factor_of(const Config& config, const Exponents& exponents) {
  const Ratios ratios = ratios_of(config);
  return std::pow(ratios.width, exponents.width) * std::pow(ratios.depth, exponents.depth) *
         std::pow(ratios.heads, exponents.heads);
}

const ShapeRule& shape_rule(const TensorSpec& spec, const Config& config) {
  const bool unit = config.parametrization == Parametrization::nugpt;
  for (const ShapeRule& row : unit ? std::span<const ShapeRule>(kUnitShapes) : std::span<const ShapeRule>(kShapes))
    if (row.holds(spec, config)) return row;
  throw std::invalid_argument("parametrization nugpt has no rule for " + spec.name +
                              ", which nGPT does not have: leave out the option that adds it");
}

const PlaceRule& place_rule(const TensorSpec& spec) {
  for (const PlaceRule& row : kPlaces)
    if (row.holds(spec)) return row;
  throw std::logic_error("the last row holds");
}

double start_factor(const TensorSpec& spec, const Config& config) {
  return factor_of(config, shape_rule(spec, config).start);
}

TensorFactors tensor_factors(const TensorSpec& spec, const Config& config, StepRule rule) {
  const ShapeRule& shape = shape_rule(spec, config);
  const PlaceRule& place = place_rule(spec);
  const double rate = factor_of(config, rate_of(shape, place, rule));
  // A step takes the share rate · decay of a weight away, which stays the same.
  return {.start = start_factor(spec, config),
          .rate = rate,
          .decay = 1 / rate,
          .epsilon = factor_of(config, shape.gradient + place.gradient)};
}

double logit_factor(const Config& config) {
  if (config.parametrization == Parametrization::nugpt) return factor_of(config, kLogitsOfNugpt);
  return factor_of(config, config.fix_norm ? kLogitsOfUnitRows : kLogits);
}
double branch_factor(const Config& config) { return factor_of(config, kBranch); }
double score_factor(const Config& config) { return factor_of(config, kScores); }
