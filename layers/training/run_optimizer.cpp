#include "run_optimizer.hpp"

#include "muon.hpp"

namespace {

constexpr const Optimizer *kSgdAlone[] = {&kSgd}, *kLionAlone[] = {&kLion};
constexpr const Optimizer *kMuonAndAdamW[] = {&kMuon, &kAdamW}, *kNorMuonAndAdamW[] = {&kNorMuon, &kAdamW};
constexpr RunOptimizer kRunOptimizers[] = {{OptimizerKind::adamw, "AdamW", kAdamWAlone, .95, 0, false},
                                           {OptimizerKind::sgd, "SGD", kSgdAlone, 0, .9, false},
                                           {OptimizerKind::lion, "Lion", kLionAlone, .99, 0, false},
                                           {OptimizerKind::muon, "Muon", kMuonAndAdamW, .95, .95, true},
                                           {OptimizerKind::normuon, "NorMuon", kNorMuonAndAdamW, .95, .95, true}};

}  // namespace

const RunOptimizer& run_optimizer(OptimizerKind kind) { return kRunOptimizers[static_cast<size_t>(kind)]; }
