#include "train_settings.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>

#include "layers/config/fields.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/model/presets.hpp"
#include "shared_settings.hpp"

namespace {

// ---- needs -----------------------------------------------------------------------------------------------

using TrainNeed = Condition<TrainOptions>;

// On optimizers that read it.
TrainNeed read_by(bool Optimizer::*option) {
  return {[option](const TrainOptions& o) { return o.optimizer->reads(option); }, nullptr, "with {optimizer=}"};
}

const TrainNeed kHasMoments = {[](const TrainOptions& o) { return !o.optimizer->rows_in_bf16.empty(); }, nullptr,
                               "with {optimizer=}"};
const TrainNeed kDecays = {[](const TrainOptions& o) { return has_end(o.rate.schedule); }, nullptr,
                           "with {schedule=}"};
const TrainNeed kWsd = {[](const TrainOptions& o) { return o.rate.schedule == Schedule::wsd; }, nullptr,
                        "without {schedule} wsd"};
const TrainNeed kValidates = {
    [](const TrainOptions& o) { return eval_every(o) > 0 && (!o.val_data.empty() || o.val_fraction > 0); }, nullptr,
    "without validations"};
const TrainNeed kSplits = {[](const TrainOptions& o) { return o.val_data.empty(); }, nullptr, "with {val-data}"};
const TrainNeed kHoldsOut = {[](const TrainOptions& o) { return o.val_fraction > 0; }, nullptr,
                             "with {val-fraction=}"};
const TrainNeed kStream = {[](const TrainOptions& o) { return !o.begin_contexts(); }, nullptr, "with {packing=}"};
const TrainNeed kPairs = {[](const TrainOptions& o) { return o.config.objective == Objective::pairs; }, nullptr,
                          "with {objective=}"};
const TrainNeed kInitializes = {[](const TrainOptions& o) { return o.init_from.empty(); }, nullptr,
                                "with {init-from}"};

// On tensors that train, or by these options.
TrainNeed trains(bool (*has)(const TensorSpec&), bool (*met)(const TrainOptions&) = nullptr) {
  return {met, [has](const TensorSpec& spec) { return spec.trained && has(spec); },
          "because none of its tensors train: the model has none, or {lora}, {train-only} or {freeze} leave none"};
}
bool decays(const TensorSpec& spec) { return spec.decay; }
bool decays_norms(const TrainOptions& o) {
  return o.optimizer_options.norm_decay > 0 || o.output_norm_decay.value_or(0) > 0;
}
bool decays_any(const TrainOptions& o) { return o.optimizer_options.weight_decay > 0 || decays_norms(o); }
bool is_gain_of_norm(const TensorSpec& spec) { return spec.role == Role::norm_gain; }
bool is_gain_of_output_norm(const TensorSpec& spec) { return is_gain_of_norm(spec) && is_output_norm(spec.group()); }

const TrainNeed kFreezes = {nullptr, [](const TensorSpec& spec) { return !spec.trained && !is_vector(spec); },
                            "on a model that trains as a whole"};
bool has_momentum(const TensorSpec& spec) { return spec.optimizer && spec.optimizer->momentum; }

// ---- the model -------------------------------------------------------------------------------------------

template <class T>
TrainSetting& add_field(TrainTable& t, const Field& f, T Config::*member) {
  const auto place = in(&TrainOptions::config, member);
  const std::string help = spelled(f.help, "--");
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) {
    return t.flag(f.name, place, help);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return t.text(f.name, place, "NAMES", help);
  } else {
    TrainSetting& s = t.number(f.name, place, f.low, f.high, help);
    if (!f.derived_if_0) return s;
    s.value = [place](const TrainOptions& o) { return place(o) == 0 ? "" : toml(place(o)); };
    s.shown = s.value({});
    s.open_by_default = s.shown.empty();
    return s;
  }
}

TrainSetting& add_field(TrainTable& t, const Field& f, const FieldChoice& choice) {
  const auto set = [&f, choice](TrainOptions& o, const std::string& text) {
    if (*f.alone && text == "true") choice.set(o.config, f.name, f.alone);
    else choice.set(o.config, f.name, *f.alone && text == "false" ? "none" : text);
  };
  const auto value = [choice](const TrainOptions& o) { return toml(std::string(choice.get(o.config))); };
  TrainSetting& s = t.computed(f.name, *f.alone ? "[NAME]" : "NAME", spelled(f.help, "--"), {}, {}, set, value);
  s.choices = choice.names();
  if (choice.aliases) s.synonyms = choice.aliases();
  if (*f.alone) s.synonyms = {"true", "false"};
  return s;
}

// The fields that are part of the model, or those that say how it is computed.
void add_fields(TrainTable& t, bool model) {
  for (const Field& f : model_fields()) {
    if ((std::string_view(f.group) != kComputing) != model) continue;
    if (model) t.group(f.group);
    TrainSetting& s =
        std::visit([&](const auto& member) -> TrainSetting& { return add_field(t, f, member); }, f.member);
    s.model = model;
    s.dimension = f.dimension;
    s.common = f.common;
    s.may_change = f.may_change;
    s.follows = f.follows;
    for (const Need<Config>& need : f.needs)
      s.needs.push_back({[met = need.met](const TrainOptions& o) { return met && met(o.config); }, need.acts_on,
                         need.otherwise});
    if (f.initial) s.needs.push_back(kInitializes);
  }
}

}  // namespace

void describe_model(TrainTable& t) {
  t.group("Model");
  const Traits traits = {.common = true, .model = true};
  t.named("preset", &TrainOptions::preset, preset_names(), "model family", traits);
  t.text("size", &TrainOptions::size, "NAME", "size of the preset: nano, 124M, ..., d6 (by depth)", traits);
  add_fields(t, true);
}

// ---- training --------------------------------------------------------------------------------------------

namespace {

void describe_rows(TrainTable& t) {
  auto& documents = describe_documents(t, &TrainOptions::documents);
  documents.value = [](const TrainOptions& o) { return o.documents.empty() ? "" : toml(o.documents); };
  documents.open_by_default = true;
  t.choice("packing", kPackings, &TrainOptions::packing, "what fills a row: a window, whole documents, or one",
           {.text = true});
}

}  // namespace

void describe_data(TrainTable& t) {
  t.group("Data");
  describe_files(t, false);
  describe_tokenizer(t);
  describe_rows(t);
  describe_separator(t);
  describe_json_lines(t);
  describe_pairs(t, {kPairs});
  t.number("val-fraction", &TrainOptions::val_fraction, 0, .9, "fraction of the text held out for validation",
           {.text = true}, {kSplits});
  t.choice("val-split", kValSplits, &TrainOptions::val_split, "validation text, at the end or in spread blocks",
           {.text = true}, {kSplits, kHoldsOut});
  t.list("val-data", &TrainOptions::val_data, "FILE...", "validation files, instead of a fraction of --data",
         {.text = true, .input = true, .may_change = true});
  t.number("data-limit", &TrainOptions::data_limit, 0, kLargest, "train on the first N tokens only (0: all)",
           {.untuned = true});
  t.choice("sampling", kDraws, &TrainOptions::sampling, "windows of a stream, anywhere or each once per epoch", {},
           {kStream});
}

void describe_batch(TrainTable& t) {
  t.number("batch", &TrainOptions::batch, 1, 1 << 20, "sequences per micro-batch (B)",
           {.common = true, .at_start = true});
  t.number("accumulate", &TrainOptions::accumulate, 1, 1 << 20, "micro-batches per step", {.at_start = true});
}

void describe_lanes(TrainTable& t) {
  t.number("lanes", &TrainOptions::lanes, 1, 1 << 20,
           "partial gradient sums per step (mpirun: the number of ranks)", {.untuned = true});
}

void describe_seeds(TrainTable& t) {
  t.number("seed", &TrainOptions::seed, 0, kLargest, "seed of weights and dropout", {.untuned = true});
  t.number("data-seed", &TrainOptions::data_seed, 0, kLargest, "seed of the batches",
           {.at_start = true, .untuned = true});
}

void describe_trained(TrainTable& t) {
  t.text("train-only", &TrainOptions::train_only, "REGEX", "train only tensors whose names match, e.g. norm");
  t.text("freeze", &TrainOptions::freeze, "REGEX", "do not train tensors whose names match, e.g. embedding");
  t.choice("frozen-weights", kNumberTypes, &TrainOptions::frozen_weights,
           "number type of matrices that do not train (with --init-from: the model's)", {}, {kFreezes});
  t.choice("moments", kMomentTypes, &TrainOptions::moments, "number type of AdamW's moments", {}, {kHasMoments});
}

void describe_machine(TrainTable& t) {
  describe_threads(t);
  t.number("rank-timeout", &TrainOptions::rank_timeout, 0, 1e6, "seconds until a silent rank ends the job (0: never)",
           {.machine = true, .may_change = true});
  add_fields(t, false);
}

namespace {

void describe_rate(TrainTable& t) {
  t.number("lr", in(&TrainOptions::rate, &LearningRate::lr), 0, 1e6,
           "peak learning rate (with --init-from 0.03 / channels, --lora 0.3)",
           {.common = true, .may_change = true, .schedule = true});
}

void describe_schedule(TrainTable& t) {
  const auto rate = [](auto member) { return in(&TrainOptions::rate, member); };
  const Traits traits = {.common = true, .may_change = true, .schedule = true},
               more = {.may_change = true, .schedule = true};
  describe_rate(t);
  t.number("min-lr", &TrainOptions::min_lr, 0, 1e6, "final learning rate (default: lr / 10)", more, {kDecays});
  const auto set_warmup = [](TrainOptions& o, const std::string& text) {  // "200", or "20%"
    const bool share = text.ends_with('%');
    o.rate.warmup_percent = share ? parse_number("warmup", text.substr(0, text.size() - 1), 0, 100, false, "%") : 0;
    o.rate.warmup = share ? 0 : static_cast<int64_t>(parse_number("warmup", text, 0, kLargest, true));
  };
  const auto warmup = [](const TrainOptions& o) {
    return o.rate.warmup_percent > 0 ? toml(toml(o.rate.warmup_percent) + "%") : toml(o.rate.warmup);
  };
  t.computed("warmup", "N", "warm-up steps, or a share of all, e.g. 10%", traits, {}, set_warmup, warmup);
  t.choice("schedule", kSchedules, rate(&LearningRate::schedule), "learning-rate schedule after the warm-up", more);
  t.number("decay-steps", rate(&LearningRate::decay), 0, kLargest, "decay steps of the wsd schedule (0: a tenth)",
           more, {kWsd});
  t.number("schedule-end", &TrainOptions::schedule_end, 0, kLargest, "last step of the schedule (0: the run's last)",
           {.may_change = true}, {kDecays});
}

// "adamw, lion": the optimizers of which a statement holds.
template <class Holds>
std::string optimizers_where(const Holds& holds) {
  std::string names;
  for (const RunOptimizer& row : run_optimizers())
    if (holds(row)) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

// "beta2 of adamw, lion (default: 0.95; lion: 0.99)"
template <class T>
std::string help_of(const std::string& what, bool Optimizer::*option, T RunOptimizer::*value) {
  const auto reads = [option](const RunOptimizer& row) { return row.reads(option); };
  std::map<T, int> count;
  for (const RunOptimizer& row : run_optimizers())
    if (reads(row)) ++count[row.*value];
  const auto usual = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
  const auto shown = [](T x) { return std::is_same_v<T, bool> ? (x ? "on" : "off") : toml(x); };
  std::string text = what + " of " + optimizers_where(reads) + " (default: " + shown(usual->first);
  for (const auto& entry : count) {
    const T x = entry.first;
    if (x != usual->first)
      text += "; " + optimizers_where([&](const auto& row) { return reads(row) && row.*value == x; }) + ": " + shown(x);
  }
  return text + ")";
}

}  // namespace

void describe_optimizer(TrainTable& t) {
  const auto by = [](auto member) { return in(&TrainOptions::optimizer_options, member); };
  const TrainNeed betas = read_by(&Optimizer::betas), momentum = read_by(&Optimizer::momentum);
  const std::vector<TrainNeed> polar = {read_by(&Optimizer::polar), trains(has_momentum)};
  const auto shares = [](const RunOptimizer& row) { return row.rows.size() > 1 && row.rows.back() == &kAdamW; };
  t.computed("optimizer", "NAME", "optimizer (" + optimizers_where(shares) + ": hidden matrices; adamw: the rest)",
             {.common = true}, {},
             [](TrainOptions& o, const std::string& name) { o.optimizer = &run_optimizer(name); },
             [](const TrainOptions& o) { return toml(std::string(o.optimizer->name)); });
  t.rows.back().choices = names_of(run_optimizers());
  t.number("weight-decay", by(&OptimizerOptions::weight_decay), 0, 100, "weight decay of matrices", {},
           {trains(decays)});
  t.number("norm-decay", by(&OptimizerOptions::norm_decay), 0, 100, "weight decay of the gains of norms", {},
           {trains(is_gain_of_norm)});
  t.number("norm-decay-out", &TrainOptions::output_norm_decay, 0, 100,
           "weight decay of gains that no matrix reads alone (default: norm-decay)", {},
           {{nullptr, is_gain_of_output_norm, "with {placement=}"}, trains(is_gain_of_output_norm)});
  t.flag("cautious-decay", by(&OptimizerOptions::cautious_decay),
         "decay only weights that the step moves toward zero", {},
         {{decays_any, nullptr, "with {weight-decay=}"}, trains(decays, decays_norms)});
  t.number("beta1", by(&OptimizerOptions::beta1), 0, .999999,
           "beta1 of " + optimizers_where([](const RunOptimizer& row) { return row.reads(&Optimizer::betas); }), {},
           {betas});
  t.number("beta2", &TrainOptions::beta2, 0, .9999999,
           help_of("beta2", &Optimizer::betas, &RunOptimizer::beta2), {}, {betas});
  t.number("adam-eps", by(&OptimizerOptions::eps), 0, 1, "AdamW epsilon", {}, {read_by(&Optimizer::epsilon)});
  t.number("momentum", &TrainOptions::momentum, 0, .999999,
           help_of("momentum", &Optimizer::momentum, &RunOptimizer::momentum), {}, {momentum, trains(has_momentum)});
  t.flag("nesterov", &TrainOptions::nesterov,
         help_of("Nesterov momentum", &Optimizer::momentum, &RunOptimizer::nesterov), {},
         {momentum, trains(has_momentum)});
  t.choice("muon-scale", kMuonScales, by(&OptimizerOptions::muon_scale),
           "step size of Muon, AdamW's RMS or a spectral norm", {}, polar);
  t.choice("muon-iteration", kPolarIterations, by(&OptimizerOptions::polar),
           "polynomials that orthogonalize Muon's step", {}, polar);
}

namespace {

void describe_rate_groups(TrainTable& t) {
  for (const RateGroup& group : kRateGroups) {
    TrainSetting& s = t.number(group.option, group.rate, 0, 1e6, group.help);
    if (group.has == is_norm) {
      s.earlier = "norm-lr";
      s.needs.push_back({nullptr, is_norm, "with {placement=}"});
    }
    s.needs.push_back(trains(group.has));
  }
}

void describe_clip(TrainTable& t) {
  t.number("clip", &TrainOptions::clip, 0, 1e9, "gradient norm clipping threshold (0: off)");
}

void describe_measurements(TrainTable& t) {
  const Traits traits = {.measures = true, .may_change = true};
  t.number("eval-every", &TrainOptions::eval_every, 0, kLargest,
           "validate every N steps (0: never; default: a tenth of the steps, at most 300)", traits);
  t.number("eval-batches", &TrainOptions::eval_batches, 0, kLargest, "batches per validation (0: the whole split)",
           traits, {kValidates});
  t.number("patience", &TrainOptions::patience, 0, kLargest,
           "early stopping after N validations without improvement (0: off)", traits, {kValidates});
  t.number("final-batches", &TrainOptions::final_batches, 0, kLargest,
           "largest split evaluated whole at the end (batches; 0: any; default: a tenth of the training, compare 0)",
           traits, {kValidates});
  t.list("eval-pairs", &TrainOptions::eval_pairs, "FILE...", "minimal pairs to measure at the end, as eval --pairs",
         {.input = true, .measures = true, .may_change = true});
  t.number("sample-every", &TrainOptions::sample_every, 0, kLargest, "print a sample every N steps (0: never)",
           traits);
  t.number("save-every", &TrainOptions::save_every, 0, kLargest,
           "save a checkpoint every N steps (0: only at the end)", traits);
  t.number("diagnostics", &TrainOptions::diagnostics, 0, kLargest, "write diagnostics.csv every N steps (0: off)",
           traits);
}

void describe_training(TrainTable& t) {
  describe_data(t);
  t.group("Training");
  describe_batch(t);
  describe_lanes(t);
  t.number("steps", &TrainOptions::steps, 0, kLargest, "optimizer steps",
           {.common = true, .may_change = true, .length = true});
  describe_schedule(t);
  describe_optimizer(t);
  describe_trained(t);
  describe_rate_groups(t);
  describe_clip(t);
  describe_seeds(t);
  t.group("Run");
  describe_machine(t);
  t.flag("textbook", &TrainOptions::textbook, "train with the naive loops of layers/textbook/ (slow)");
  describe_measurements(t);
  t.text("init-from", &TrainOptions::init_from, "RUN", "run, checkpoint or Hugging Face folder with initial weights",
         {.common = true, .input = true});
  t.group("");  // written by --resume and --for; not in the help
  t.number("schedule-start", &TrainOptions::schedule_start, 0, kLargest, "first step of the schedule",
           {.may_change = true});
  t.list("earlier-schedules", &TrainOptions::earlier_schedules, "TEXT...", "FROM TO SCHEDULE LR MIN-LR WARMUP",
         {.may_change = true});
  t.number("time-in-all", &TrainOptions::time_in_all, 0, kLargest,
           "seconds of training after which --for ends the run", {.may_change = true})
      .value = [](const TrainOptions& o) { return o.time_in_all > 0 ? toml(o.time_in_all) : ""; };
}

}  // namespace

void describe_step(TrainTable& t) {
  describe_rate(t);
  describe_optimizer(t);
  describe_rate_groups(t);
  describe_clip(t);
}

const std::vector<TrainSetting>& train_settings() {
  static const std::vector<TrainSetting> rows = [] {
    TrainTable t;
    describe_model(t);
    describe_training(t);
    return t.rows;
  }();
  return rows;
}
