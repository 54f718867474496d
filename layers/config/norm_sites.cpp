#include "norm_sites.hpp"

#include <algorithm>
#include <iterator>

namespace {

// Norms without a gain and a bias: "non-parametric layer norm" of OLMo (Groeneveld et al. 2024, arXiv 2402.00838, §2.1)
// and GPT-NeoX, and "SimpleRMSNorm" of TransNormerLLM (Qin et al. 2023, arXiv 2307.14995) and x-transformers.
constexpr Named<NormKind> kPlainNorms[] = {{NormKind::layernorm, "nonparametric-layernorm"},
                                           {NormKind::rmsnorm, "simple-rmsnorm"}};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kNormSites); ++i)
    if (kNormSites[i].site != static_cast<NormSite>(i)) return false;
  return std::size(kNormSites) == kNormSiteCount;
}
static_assert(in_order(), "a row for each NormSite, in their order");

std::optional<NormChoice> chosen(const Config& config, NormSite site) {
  return config.norm_sites[static_cast<size_t>(site)];
}

// The rows of a placement that a stack may have.
std::vector<const Placement*> rows_of(const Placement& row, bool crosses) {
  std::vector<const Placement*> rows = {&row};
  for (const Placement* other : {row.early, row.ffn, crosses ? row.cross : nullptr})
    if (other) rows.push_back(other);
  return rows;
}

bool encoder_differs(const Config& c) { return c.crosses() && c.encoder_placement != "same"; }

}  // namespace

std::vector<std::string> norm_names() {
  std::vector<std::string> names = names_of(kNormKinds);
  for (const auto& plain : kPlainNorms) names.emplace_back(plain.name);
  return names;
}

const char* name_of_norm(const NormChoice& norm) {
  return norm.plain ? name_of(kPlainNorms, norm.kind) : name_of(kNormKinds, norm.kind);
}

NormChoice norm_named(std::string_view option, std::string_view name) {
  for (const auto& plain : kPlainNorms)
    if (name == plain.name) return {plain.value, true};
  for (const auto& kind : kNormKinds)
    if (name == kind.name) return {kind.value};
  throw std::invalid_argument(unknown_name(option, name, norm_names()));
}

std::optional<NormChoice> own_norm(const Config& config, std::string_view norm) {
  for (const NormSiteRow& row : kNormSites)
    if (norm.ends_with(row.name)) return chosen(config, row.site);
  return std::nullopt;
}

bool is_key_norm(const Config& config, std::string_view norm) {
  return config.placement_row && is_attnres(config.placement_row->streams) && norm.ends_with("streams.norm");
}

NormKind kind_at(const Config& config, std::string_view norm) {
  if (is_key_norm(config, norm)) return NormKind::rmsnorm;
  return own_norm(config, norm).value_or(NormChoice{config.norm}).kind;
}

bool is_output_norm(std::string_view norm) {
  constexpr const char* kOutputNorms[] = {"norm_out", "norm_sum", "embedding.norm", "q_norm", "k_norm", "v_norm",
                                          "first_norm", "second_norm", "stream_norm"};
  return std::ranges::any_of(kOutputNorms, [&](const char* name) { return norm.ends_with(name); });
}

bool has_site(const Config& c, NormSite site) {
  const auto there = [&](const Placement* row) { return row->*kNormSites[static_cast<size_t>(site)].present; };
  const Placement& own = placement_row(c.placement);
  const Placement& encoder = placement_row(encoder_differs(c) ? c.encoder_placement : c.placement);
  if (site == NormSite::final) return c.final_norm.value_or(own.final_norm) || (c.crosses() && encoder.final_norm);
  return std::ranges::any_of(rows_of(own, c.crosses()), there) || std::ranges::any_of(rows_of(encoder, false), there);
}

bool norm_acts(const Config& c) {
  const bool free = std::ranges::any_of(kNormSites, [&](const NormSiteRow& row) {
    return has_site(c, row.site) && !chosen(c, row.site);
  });
  const StreamRule rule = placement_row(c.placement).streams;
  const bool of_streams = rule == StreamRule::hyper || rule == StreamRule::siamese || rule == StreamRule::gated;
  return free || of_streams || c.embedding_norm || c.head_transform || has_qk_norms(c.qk_norm) ||
         has_qk_norms(placement_row(c.placement).qk_norm);
}

bool norm_gain_acts(const Config& c) {
  return norm_acts(c) || placement_row(c.placement).streams == StreamRule::attnres;
}

bool has_norms(const Config& c) {
  return norm_gain_acts(c) ||
         std::ranges::any_of(kNormSites, [&](const NormSiteRow& row) { return has_site(c, row.site); });
}

std::vector<NormChoice> norms_in(const Config& c) {
  std::vector<NormChoice> norms;
  if (norm_acts(c)) norms.push_back({c.norm, !c.norm_gain});
  if (placement_row(c.placement).streams == StreamRule::attnres) norms.push_back({NormKind::rmsnorm, !c.norm_gain});
  for (const NormSiteRow& row : kNormSites)
    if (const auto own = chosen(c, row.site); own && has_site(c, row.site)) norms.push_back(*own);
  return norms;
}
