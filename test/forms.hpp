#pragma once
// Every form that a block can take: each placement, parallel branches, norms of queries and keys.

#include "layers/model/model.hpp"

struct Form {
  std::string name, placement;
  BlockForm block = BlockForm::sequential;
  QkNormKind qk_norm = QkNormKind::none;

  // Queries and keys are normalized row by row.
  bool takes(NormKind kind) const {
    return qk_norm == QkNormKind::none || kind == NormKind::layernorm || kind == NormKind::rmsnorm;
  }

  void apply(Config& c) const {
    c.placement = placement, c.block = block, c.qk_norm = qk_norm;
    c.mix_fraction = .5;  // so that few layers are of both kinds
    if (block != BlockForm::sequential) c.skip_scale = 1.3;  // x is added once, and so it is multiplied once
  }
};

inline std::vector<Form> forms() {
  std::vector<Form> list;
  for (const Placement& row : placements()) list.push_back({row.name, row.name});
  for (const char* placement : {"pre", "sandwich", "lns", "sub-ln", "layerscale"}) {
    list.push_back({std::string(placement) + " parallel", placement, BlockForm::parallel});
    list.push_back({std::string(placement) + " parallel-shared", placement, BlockForm::parallel_shared});
  }
  list.push_back({"pre head", "pre", BlockForm::sequential, QkNormKind::head});
  list.push_back({"reordered full", "reordered", BlockForm::sequential, QkNormKind::full});
  list.push_back({"sub-ln parallel-shared head", "sub-ln", BlockForm::parallel_shared, QkNormKind::head});
  return list;
}

// ReZero's gains start at 0, where no branch learns or shows: here they are something else.
inline void wake(Model& model) {
  for (const TensorSpec& spec : model.table)
    if (spec.name.ends_with(".scale.gain"))
      for (size_t i = 0; i < spec.size(); ++i) model.weights[spec.offset + i] = .5f + .1f * static_cast<float>(i % 7);
}
