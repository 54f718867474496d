#include "run_optimizer.hpp"

#include <algorithm>

#include "adafactor.hpp"
#include "muon.hpp"

namespace {

constexpr const Optimizer *kSgdAlone[] = {&kSgd}, *kLionAlone[] = {&kLion};
constexpr const Optimizer* kAdafactorRows[] = {&kAdafactor, &kAdafactorVectors};
constexpr const Optimizer *kMuonAndAdamW[] = {&kMuon, &kAdamW}, *kNorMuonAndAdamW[] = {&kNorMuon, &kAdamW};
constexpr RunOptimizer kRunOptimizers[] = {{OptimizerKind::adamw, "AdamW", kAdamWAlone, .95, 0, false},
                                           {OptimizerKind::sgd, "SGD", kSgdAlone, 0, .9, false},
                                           {OptimizerKind::lion, "Lion", kLionAlone, .99, 0, false},
                                           {OptimizerKind::adafactor, "Adafactor", kAdafactorRows, 0, 0, false},
                                           {OptimizerKind::muon, "Muon", kMuonAndAdamW, .95, .95, true},
                                           {OptimizerKind::normuon, "NorMuon", kNorMuonAndAdamW, .95, .95, true}};

}  // namespace

std::span<const RunOptimizer> run_optimizers() { return kRunOptimizers; }
const RunOptimizer& run_optimizer(OptimizerKind kind) {
  return *std::ranges::find(kRunOptimizers, kind, &RunOptimizer::kind);
}
