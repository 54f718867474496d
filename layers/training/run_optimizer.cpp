#include "run_optimizer.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "adafactor.hpp"
#include "layers/config/enum_names.hpp"
#include "muon.hpp"

namespace {

constexpr const Optimizer *kSgdAlone[] = {&kSgd}, *kLionAlone[] = {&kLion};
constexpr const Optimizer* kAdafactorRows[] = {&kAdafactor, &kAdafactorVectors};
constexpr const Optimizer *kMuonAndAdamW[] = {&kMuon, &kAdamW}, *kNorMuonAndAdamW[] = {&kNorMuon, &kAdamW};
constexpr const Optimizer *kAdamWBf16Alone[] = {&kAdamWBf16}, *kMuonAndAdamWBf16[] = {&kMuon, &kAdamWBf16},
                          *kNorMuonAndAdamWBf16[] = {&kNorMuon, &kAdamWBf16};
constexpr RunOptimizer kRunOptimizers[] = {
    {.name = "adamw", .title = "AdamW", .rows = kAdamWAlone, .beta2 = .95, .rows_in_bf16 = kAdamWBf16Alone},
    {.name = "sgd", .title = "SGD", .rows = kSgdAlone, .momentum = .9},
    {.name = "lion", .title = "Lion", .rows = kLionAlone, .beta2 = .99},
    {.name = "adafactor", .title = "Adafactor", .rows = kAdafactorRows},
    {.name = "muon", .title = "Muon", .rows = kMuonAndAdamW, .beta2 = .95, .momentum = .95, .nesterov = true,
     .rows_in_bf16 = kMuonAndAdamWBf16},
    {.name = "normuon", .title = "NorMuon", .rows = kNorMuonAndAdamW, .beta2 = .95, .momentum = .95,
     .nesterov = true, .rows_in_bf16 = kNorMuonAndAdamWBf16}};

}  // namespace

bool RunOptimizer::reads(bool Optimizer::*option) const {
  return std::ranges::any_of(rows, [option](const Optimizer* row) { return row->*option; });
}

Optimizers RunOptimizer::rows_with(NumberType moments) const {
  if (moments == NumberType::fp32) return rows;
  if (rows_in_bf16.empty())
    throw std::invalid_argument("moments in bf16 are those of AdamW, which the optimizer " + std::string(name) +
                                " does not use: keep them in fp32");
  return rows_in_bf16;
}

std::span<const RunOptimizer> run_optimizers() { return kRunOptimizers; }

const RunOptimizer& run_optimizer(std::string_view name) {
  return row_named(kRunOptimizers, "optimizer", name);
}
