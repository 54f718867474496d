#include "unused_options.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "data/options/settings.hpp"
#include "layers/config/placements.hpp"
#include "layers/model/presets.hpp"
#include "layers/training/muon.hpp"
#include "layers/training/optimizer.hpp"
#include "step_inputs.hpp"

namespace {

using Kind = OptimizerKind;

bool one_of(Kind kind, std::initializer_list<Kind> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool validates(const TrainOptions& o) { return eval_every(o) > 0 && (!o.val_data.empty() || o.val_fraction > 0); }

// Options, the runs that read them, and why other runs do not.
struct Readers {
  std::vector<std::string> options;
  bool (*read)(const TrainOptions&);
  std::string why;
  std::string value_of = "";  // the option whose value follows
};

const std::vector<Readers>& readers() {
  static const std::vector<Readers> rows = {
      {{"beta1", "beta2"},
       [](const TrainOptions& o) { return one_of(o.optimizer, {Kind::adamw, Kind::lion, Kind::muon, Kind::normuon}); },
       "with --optimizer", "optimizer"},
      {{"adam-eps"},
       [](const TrainOptions& o) { return one_of(o.optimizer, {Kind::adamw, Kind::muon, Kind::normuon}); },
       "with --optimizer", "optimizer"},
      {{"momentum", "nesterov"},
       [](const TrainOptions& o) { return one_of(o.optimizer, {Kind::sgd, Kind::muon, Kind::normuon}); },
       "with --optimizer", "optimizer"},
      {{"muon-scale", "muon-iteration"},
       [](const TrainOptions& o) { return one_of(o.optimizer, {Kind::muon, Kind::normuon}); },
       "with --optimizer", "optimizer"},
      {{"decay-steps"}, [](const TrainOptions& o) { return o.rate.schedule == Schedule::wsd; },
       "without --schedule wsd"},
      {{"min-lr", "schedule-end"}, [](const TrainOptions& o) { return o.rate.schedule != Schedule::constant; },
       "with --schedule constant"},
      {{"eval-batches", "final-batches", "patience"}, validates, "without validations"},
      {{"val-split"}, [](const TrainOptions& o) { return o.val_data.empty(); }, "with --val-data"},
      {{"streams"},
       [](const TrainOptions& o) {
         const StreamRule rule = placement_row(o.config.placement).streams;
         return rule != StreamRule::single && rule != StreamRule::dual;
       },
       "with --placement", "placement"},
      {{"mix-fraction"},
       [](const TrainOptions& o) {
         const Placement& row = placement_row(o.config.placement);
         return row.early && row.early_blocks == 0;
       },
       "with --placement", "placement"},
      {{"layer-scale-init"},
       [](const TrainOptions& o) { return placement_row(o.config.placement).gain == LearnedGain::channel; },
       "with --placement", "placement"},
      {{"dyt-alpha"},
       [](const TrainOptions& o) { return o.config.norm == NormKind::dyt || o.config.norm == NormKind::derf; },
       "with --norm", "norm"},
      {{"rope-theta", "rope-fraction"}, [](const TrainOptions& o) { return o.config.position == Position::rope; },
       "with --position", "position"},
      {{"window-every"}, [](const TrainOptions& o) { return o.config.window > 0; }, "without --window"},
      {{"experts-per-token", "router-renormalize", "router-loss", "router-z-loss", "router-bias"},
       [](const TrainOptions& o) { return o.config.experts > 0; }, "without --experts"},
      {{"lora-alpha", "lora-dropout", "lora-on"}, [](const TrainOptions& o) { return o.config.lora_rank > 0; },
       "without --lora"},
      {{"init", "zero-init", "residual-gain", "init-gain", "layer-scale-init"},
       [](const TrainOptions& o) { return o.init_from.empty(); }, "with --init-from"},
  };
  return rows;
}

// Options that act on some tensors, and why others do not read them: no such tensor exists, or none of them trains.
struct TensorReaders {
  std::vector<std::string> options;
  bool (*acts_on)(const TensorSpec&);
  std::string why;
  std::string value_of = "";
};

const std::vector<TensorReaders>& tensor_readers() {
  const auto trained = [](std::vector<std::string> options, bool (*acts_on)(const TensorSpec&)) {
    return TensorReaders{std::move(options), acts_on, "on the tensors that --lora, --train-only and --freeze leave"};
  };
  static const std::vector<TensorReaders> rows = {
      {{"norm", "norm-eps", "norm-bias", "norm-unit-offset", "dyt-alpha", "norm-lr"}, is_norm,
       "with --placement", "placement"},
      trained({"norm-lr"}, [](const TensorSpec& spec) { return spec.trained && is_norm(spec); }),
      trained({"lr-embedding"}, [](const TensorSpec& spec) { return spec.trained && is_embedding(spec); }),
      trained({"lr-head"}, [](const TensorSpec& spec) { return spec.trained && is_head(spec); }),
      trained({"lr-vector"}, [](const TensorSpec& spec) { return spec.trained && is_vector(spec); }),
      trained({"weight-decay", "cautious-decay"}, [](const TensorSpec& spec) { return spec.trained && spec.decay; }),
      trained({"muon-scale", "muon-iteration", "momentum", "nesterov"},
              [](const TensorSpec& spec) {
                return spec.trained && (spec.optimizer == &kMuon || spec.optimizer == &kNorMuon ||
                                        spec.optimizer == &kSgd);
              }),
  };
  return rows;
}

// Returns nothing if the options contradict each other; other checks report that.
std::optional<std::vector<TensorSpec>> tensors_of(TrainOptions o) {
  try {
    o.config = resolved(with_vocabulary(o).config);
    return table_of_run(o);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string value_of(const std::vector<Setting>& settings, const std::string& option) {
  std::string value = find_setting(settings, option)->value();
  std::erase(value, '"');
  return value;
}

// Returns the options that a run sets to another value than its preset's, each with the reason why the run does not
// read it, or "".
std::map<std::string, std::string> options_set(TrainOptions o) {
  TrainOptions plain;
  plain.preset = o.preset, plain.size = o.size;
  plain.config = preset_config(o.preset, o.size);
  const std::vector<Setting> here = settings_of(o), there = settings_of(plain);
  const auto is_set = [&](const std::string& option) {
    return value_of(here, option) != value_of(there, option);
  };
  std::map<std::string, std::string> reasons;
  const auto add = [&](const std::string& option, bool read, const auto& row) {
    std::string& reason = reasons[option];  // keep the first of several
    if (!read && reason.empty()) reason = row.why + (row.value_of.empty() ? "" : " " + value_of(here, row.value_of));
  };
  for (const Readers& row : readers())
    for (const std::string& option : row.options)
      if (is_set(option)) add(option, row.read(o), row);
  std::optional<std::vector<TensorSpec>> tensors;
  for (const TensorReaders& row : tensor_readers())
    for (const std::string& option : row.options) {
      if (!is_set(option)) continue;
      if (!tensors && !(tensors = tensors_of(o))) return reasons;
      add(option, std::any_of(tensors->begin(), tensors->end(), row.acts_on), row);
    }
  return reasons;
}

}  // namespace

std::vector<std::string> unused_options(const std::vector<TrainOptions>& runs) {
  std::map<std::string, std::vector<std::string>> reasons;  // for each option that a run sets; "" if a run reads it
  for (const TrainOptions& o : runs)
    for (const auto& [option, reason] : options_set(o)) {
      std::vector<std::string>& known = reasons[option];
      if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
    }
  std::vector<std::string> lines;
  for (const auto& [option, why] : reasons) {
    if (std::find(why.begin(), why.end(), "") != why.end()) continue;
    std::string line = "--" + option + " has no effect " + why[0];
    for (size_t i = 1; i < why.size(); ++i) line += " or " + why[i];
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> unused_option_names(const TrainOptions& run) {
  std::vector<std::string> names;
  for (const auto& [option, reason] : options_set(run))
    if (!reason.empty()) names.push_back(option);
  return names;
}
