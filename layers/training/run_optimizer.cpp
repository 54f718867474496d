#include "run_optimizer.hpp"

#include <algorithm>

#include "adafactor.hpp"
#include "layers/config/enum_names.hpp"
#include "muon.hpp"

namespace {

constexpr const Optimizer *kSgdAlone[] = {&kSgd}, *kLionAlone[] = {&kLion};
constexpr const Optimizer* kAdafactorRows[] = {&kAdafactor, &kAdafactorVectors};
constexpr const Optimizer *kMuonAndAdamW[] = {&kMuon, &kAdamW}, *kNorMuonAndAdamW[] = {&kNorMuon, &kAdamW};
constexpr RunOptimizer kRunOptimizers[] = {
    {.name = "adamw", .title = "AdamW", .rows = kAdamWAlone, .beta2 = .95},
    {.name = "sgd", .title = "SGD", .rows = kSgdAlone, .momentum = .9},
    {.name = "lion", .title = "Lion", .rows = kLionAlone, .beta2 = .99},
    {.name = "adafactor", .title = "Adafactor", .rows = kAdafactorRows},
    {.name = "muon", .title = "Muon", .rows = kMuonAndAdamW, .beta2 = .95, .momentum = .95, .nesterov = true},
    {.name = "normuon", .title = "NorMuon", .rows = kNorMuonAndAdamW, .beta2 = .95, .momentum = .95,
     .nesterov = true}};

}  // namespace

bool RunOptimizer::reads(bool Optimizer::*option) const {
  return std::ranges::any_of(rows, [option](const Optimizer* row) { return row->*option; });
}

std::span<const RunOptimizer> run_optimizers() { return kRunOptimizers; }

const RunOptimizer& run_optimizer(std::string_view name) {
  return row_named(kRunOptimizers, "optimizer", name);
}
