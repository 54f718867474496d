#pragma once
// Where the norms of a model are, and what each site's norm is.
//
// The name of a norm ends in that of its site: "attention.norm_in", "encoder.final_norm". Norms elsewhere (of
// embeddings, queries, keys, values and streams, and in the head) have no site: they are as config.norm says. The norm
// of attention over depth is always RMSNorm.

#include <string>
#include <string_view>
#include <vector>

#include "config.hpp"
#include "placements.hpp"

struct NormSiteRow {
  NormSite site;
  const char* name;
  bool Placement::*present;
};
// In the order of NormSite.
inline constexpr NormSiteRow kNormSites[] = {{NormSite::in, "norm_in", &Placement::norm_in},
                                             {NormSite::inner, "norm_inner", &Placement::norm_inner},
                                             {NormSite::out, "norm_out", &Placement::norm_out},
                                             {NormSite::sum, "norm_sum", &Placement::norm_sum},
                                             {NormSite::final, "final_norm", &Placement::final_norm}};

// Names of norms: those of kNormKinds, and the plain ones.
std::vector<std::string> norm_names();
const char* name_of_norm(const NormChoice& norm);
// Throws std::invalid_argument, with the name of the option.
NormChoice norm_named(std::string_view option, std::string_view name);

// Returns what the user chose for the site of the norm with this name; empty if nothing, or if it has no site.
std::optional<NormChoice> own_norm(const Config& config, std::string_view norm);

// True if the norm with this name is that of the keys in attention over depth, which is RMSNorm without a bias.
bool is_key_norm(const Config& config, std::string_view norm);

// Returns the kind of the norm with this name.
NormKind kind_at(const Config& config, std::string_view norm);

// True if a gain of the norm with this name is not absorbed by a matrix: the norm's output goes into a stream or a sum
// or, of queries, keys and values, into attention. A matrix reads the output of every other norm, and nothing else
// does.
bool is_output_norm(std::string_view norm);

// The rest also accepts a Config with open values, and counts the encoder's norms.

bool has_site(const Config& config, NormSite site);
// True if the model has a norm that no site's choice replaces.
bool norm_acts(const Config& config);
// True if the model has a norm whose gain follows config.norm_gain: one of those, or the norm of attention over depth.
bool norm_gain_acts(const Config& config);
// True if the model normalizes anywhere. A norm without a gain and a bias has no tensors.
bool has_norms(const Config& config);
// The norms of a model, each at least once.
std::vector<NormChoice> norms_in(const Config& config);
