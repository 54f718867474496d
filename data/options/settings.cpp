#include "settings.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <variant>

#include "data/host/utf8.hpp"
#include "data/text/corpus.hpp"
#include "data/tokenizer/stored_tokenizer.hpp"
#include "layers/config/fields.hpp"
#include "layers/model/presets.hpp"

namespace {

// "1e6" and "1e-6", not "1e+06" and "1e-06".
std::string limit(double x) {
  std::string s = toml(x);
  std::erase(s, '+');
  const size_t zero = s.find("e0") != s.npos ? s.find("e0") + 1 : s.find("e-0") != s.npos ? s.find("e-0") + 2 : s.npos;
  return zero == s.npos ? s : s.erase(zero, 1);
}

// "10k" as "10e3" and "10%" as "10e-2", if the option counts something or is a fraction.
std::string without_suffix(std::string digits, double high, bool whole) {
  const auto replace_last = [&](const char* exponent) { digits.replace(digits.size() - 1, 1, exponent); };
  const bool number = digits.size() > 1 && std::isdigit(static_cast<unsigned char>(digits[digits.size() - 2]));
  const char last = number && digits.find_first_of("eE") == digits.npos ? digits.back() : '\0';
  if (whole && (last == 'k' || last == 'K')) replace_last("e3");
  if (whole && last == 'M') replace_last("e6");
  if (!whole && last == '%' && high <= 1) replace_last("e-2");
  return digits;
}

// A number within limits, which are included; "1e3", "1_000" and "1k" are whole numbers, "10%" is a fraction. NaN is
// outside all limits.
double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole) {
  std::string digits = text;
  std::erase(digits, '_');
  digits = without_suffix(digits, high, whole);
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  const bool decimal = digits.find_first_of("xX \t\n") == digits.npos;  // strtod also reads hexadecimal
  const std::string range = limit(low) + " to " + limit(high), given = "--" + name + " " + one_line(text) + " is ";
  if (digits.empty() || *end || !decimal) throw std::invalid_argument(given + "not a number: choose " + range);
  if (!(x >= low && x <= high)) throw std::invalid_argument(given + "outside the range: choose " + range);
  if (whole && x != std::floor(x)) throw std::invalid_argument(given + "not a whole number: choose one in " + range);
  return x;
}

// A member of a member.
constexpr auto in(auto outer, auto inner) {
  return [=](auto& o) -> auto& { return (o.*outer).*inner; };
}

// Collects rows. A place is a member of Options or in() two of them.
template <class Options>
class Table {
 public:
  using Row = SettingOf<Options>;
  using Needs = std::vector<Condition<Options>>;
  std::vector<Row> rows;

  // The group of the rows that follow, a heading of the help. "" keeps them out of the help.
  void group(const std::string& name) { group_ = name; }

  template <class Place>
  Row& text(const std::string& name, Place place, const std::string& takes, const std::string& help,
            const Traits& traits = {}, const Needs& needs = {}) {
    return add(name, takes, help, traits, needs, place,
               [](auto& variable, const std::string& text) { variable = text; });
  }

  // The choices of a name.
  template <class Place>
  Row& named(const std::string& name, Place place, const std::vector<std::string>& choices, const std::string& help,
            const Traits& traits = {}) {
    Row& row = text(name, place, "NAME", help, traits);
    row.choices = choices;
    return row;
  }

  template <class Place>
  Row& list(const std::string& name, Place place, const std::string& takes, const std::string& help,
            const Traits& traits = {}, const Needs& needs = {}) {
    Row& row = add(name, takes, help, traits, needs, place,
                   [](auto& variable, const std::string& text) { variable.push_back(text); });
    row.list = true;
    return row;
  }

  template <class Place>
  Row& flag(const std::string& name, Place place, const std::string& help, const Traits& traits = {},
            const Needs& needs = {}) {
    return add(name, "", help, traits, needs, place,
               [name](auto& variable, const std::string& text) { variable = parse_bool(name, text); });
  }

  template <class Place>
  Row& number(const std::string& name, Place place, double low, double high, const std::string& help,
              const Traits& traits = {}, const Needs& needs = {}) {
    using T = std::remove_cvref_t<std::invoke_result_t<Place, Options&>>;
    constexpr bool whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<int>>;
    return add(name, whole ? "N" : "X", help, traits, needs, place, [=](T& variable, const std::string& text) {
      variable = static_cast<T>(parse_number(name, text, low, high, whole));
    });
  }

  template <class Place, class E, size_t N>
  Row& choice(const std::string& name, const Named<E> (&names)[N], Place place, const std::string& help,
              const Traits& traits = {}, const Needs& needs = {}) {
    const auto set = [place, &names, name](Options& o, const std::string& text) {
      std::invoke(place, o) = value_of(names, name, text);
    };
    const auto value = [place, &names](const Options& o) {
      return toml(std::string(name_of(names, std::invoke(place, o))));
    };
    Row& row = computed(name, "NAME", help, traits, needs, set, value);
    for (const auto& entry : names) row.choices.emplace_back(entry.name);
    return row;
  }

  // A row that does not follow from one variable.
  Row& computed(const std::string& name, const std::string& takes, const std::string& help, const Traits& traits,
           const Needs& needs, const std::function<void(Options&, const std::string&)>& set,
           const std::function<std::string(const Options&)>& value) {
    Row& row = rows.emplace_back();
    static_cast<Traits&>(row) = traits;
    row.name = name, row.group = group_, row.help = help, row.takes = takes, row.set = set, row.value = value;
    row.needs = needs;
    row.shown = value(Options());
    row.open_by_default = row.shown.empty();
    std::erase(row.shown, '"');
    if (takes.empty()) row.shown = row.shown == "true" ? "on" : "";
    if (row.shown == "[]") row.shown = "";
    return row;
  }

  // The rows of options that are a member of these.
  template <class Inner>
  void add(Inner Options::*member, const std::vector<SettingOf<Inner>>& inner) {
    for (const SettingOf<Inner>& s : inner) {
      Row& row = rows.emplace_back();
      static_cast<Setting&>(row) = s;
      row.set = [member, set = s.set](Options& o, const std::string& text) { set(o.*member, text); };
      row.value = [member, value = s.value](const Options& o) { return value(o.*member); };
      for (const Condition<Inner>& need : s.needs)
        row.needs.push_back({[member, met = need.met](const Options& o) { return !met || met(o.*member); },
                             need.acts_on, need.otherwise, need.of_words});
    }
  }

 private:
  template <class Place, class Parse>
  Row& add(const std::string& name, const std::string& takes, const std::string& help, const Traits& traits,
           const Needs& needs, Place place, Parse parse) {
    return computed(name, takes, help, traits, needs,
                    [=](Options& o, const std::string& text) { parse(std::invoke(place, o), text); },
                    [=](const Options& o) { return toml(std::invoke(place, o)); });
  }

  std::string group_ = "Options";
};

using TrainTable = Table<TrainOptions>;

// The rows of a function that adds them to a table.
template <class Options>
std::vector<SettingOf<Options>> rows_of(void (*describe)(Table<Options>&)) {
  Table<Options> t;
  describe(t);
  return t.rows;
}

// ---- needs -----------------------------------------------------------------------------------------------

using TrainNeed = Condition<TrainOptions>;

// On optimizers that read it.
TrainNeed read_by(bool Optimizer::*option) {
  return {[option](const TrainOptions& o) { return o.optimizer->reads(option); }, nullptr, "with {optimizer=}"};
}

const TrainNeed kDecays = {[](const TrainOptions& o) { return o.rate.schedule != Schedule::constant; }, nullptr,
                           "with {schedule} constant"};
const TrainNeed kWsd = {[](const TrainOptions& o) { return o.rate.schedule == Schedule::wsd; }, nullptr,
                        "without {schedule} wsd"};
const TrainNeed kValidates = {
    [](const TrainOptions& o) { return eval_every(o) > 0 && (!o.val_data.empty() || o.val_fraction > 0); }, nullptr,
    "without validations"};
const TrainNeed kSplits = {[](const TrainOptions& o) { return o.val_data.empty(); }, nullptr, "with {val-data}"};
const TrainNeed kInitializes = {[](const TrainOptions& o) { return o.init_from.empty(); }, nullptr,
                                "with {init-from}"};

// On tensors that train.
TrainNeed trains(bool (*has)(const TensorSpec&)) {
  return {nullptr, [has](const TensorSpec& spec) { return spec.trained && has(spec); },
          "on the tensors that {lora}, {train-only} and {freeze} leave"};
}
bool decays(const TensorSpec& spec) { return spec.decay; }
bool has_momentum(const TensorSpec& spec) { return spec.optimizer && spec.optimizer->momentum; }

// --include and --exclude are for folders.
template <class Options>
bool reads_folders(const Options& o) {
  std::vector<std::string> paths = o.data;
  if constexpr (requires { o.val_data; }) paths.insert(paths.end(), o.val_data.begin(), o.val_data.end());
  return paths.empty() || std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
#if defined(__wasm__)  // no files, and no functions for them
    return path.empty();
#else
    std::error_code unknown;
    return std::filesystem::is_directory(path, unknown);
#endif
  });
}
template <class Options>
const Condition<Options> kFolders = {reads_folders<Options>, nullptr,
                                     "on files that are named: it chooses in folders", true};

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
    const bool alone = *f.alone && text == "true", no = *f.alone && text == "false";
    choice.set(o.config, f.name, alone ? f.alone : no ? "none" : text);
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
    s.model = model, s.common = f.common, s.may_change = f.may_change, s.follows = f.follows;
    for (const Need<Config>& need : f.needs)
      s.needs.push_back({[met = need.met](const TrainOptions& o) { return !met || met(o.config); }, need.acts_on,
                         need.otherwise});
    if (f.initial) s.needs.push_back(kInitializes);
  }
}

void describe_model(TrainTable& t) {
  t.group("Model");
  const Traits traits = {.common = true, .model = true};
  t.named("preset", &TrainOptions::preset, preset_names(), "model family", traits);
  t.text("size", &TrainOptions::size, "NAME", "model size of the preset: nano, 124M, 7B, ...", traits);
  add_fields(t, true);
}

// ---- training --------------------------------------------------------------------------------------------

template <class Options>
void describe_text(Table<Options>& t, bool required) {
  t.list("data", &Options::data, "FILE...", "text files, folders, or - for standard input",
         {.common = true, .required = required, .text = true, .input = true, .may_change = true});
  t.list("include", &Options::include, "PATTERN...", "files to read in folders: '*.md' '*.txt'", {.text = true},
         {kFolders<Options>});
  t.list("exclude", &Options::exclude, "PATTERN...", "files and subfolders to skip in folders: '*.json' drafts",
         {.text = true}, {kFolders<Options>});
}

template <class Options>
void describe_files(Table<Options>& t, bool required) {
  describe_text(t, required);
  t.choice("unknown", kUnknowns, &Options::unknown, "handling of characters outside the vocabulary",
           {.text = true});
}

template <class Options>
void describe_separator(Table<Options>& t) {
  t.text("document-separator", &Options::separator, "TOKEN", "special token before each file: '<|endoftext|>'",
         {.text = true});
}

template <class Options>
void describe_tokenizer(Table<Options>& t) {
  auto& s = t.named("tokenizer", &Options::tokenizer, {"byte", "char", "bpe:VOCABULARY"},
                    "tokenizer, or a tokenizer file", {.common = true, .files = true, .text = true});
  s.set = [](Options& o, const std::string& text) {
    vocabulary_of_bpe(text);  // refuses numbers that it cannot be
    o.tokenizer = text;
  };
}

template <class Options>
void describe_threads(Table<Options>& t) {
  t.number("threads", &Options::threads, 0, 4096, "threads (0: OMP_NUM_THREADS or all allowed processors)",
           {.common = true, .machine = true, .may_change = true});
}

void describe_data(TrainTable& t) {
  t.group("Data");
  describe_files(t, false);
  describe_tokenizer(t);
  describe_separator(t);
  t.number("val-fraction", &TrainOptions::val_fraction, 0, .9, "fraction of the text held out for validation",
           {.text = true});
  t.choice("val-split", kValSplits, &TrainOptions::val_split, "validation text, at the end or in spread blocks",
           {.text = true}, {kSplits});
  t.list("val-data", &TrainOptions::val_data, "FILE...", "validation files, instead of a fraction of --data",
         {.text = true, .input = true, .may_change = true});
  t.choice("sampling", kDraws, &TrainOptions::sampling, "training windows, anywhere or each once per epoch");
}

void describe_batch(TrainTable& t) {
  t.number("batch", &TrainOptions::batch, 1, 1 << 20, "sequences per micro-batch (B)",
           {.common = true, .at_start = true});
  t.number("accumulate", &TrainOptions::accumulate, 1, 1 << 20, "micro-batches per step", {.at_start = true});
}

void describe_lanes(TrainTable& t) {
  t.number("lanes", &TrainOptions::lanes, 1, 1 << 20,
           "partial gradient sums per step (mpirun: the number of ranks)");
}

void describe_seeds(TrainTable& t) {
  t.number("seed", &TrainOptions::seed, 0, kLargest, "seed of weights and dropout");
  t.number("data-seed", &TrainOptions::data_seed, 0, kLargest, "seed of the batches", {.at_start = true});
}

void describe_trained(TrainTable& t) {
  t.text("train-only", &TrainOptions::train_only, "REGEX", "train only tensors whose names match: norm");
  t.text("freeze", &TrainOptions::freeze, "REGEX", "do not train tensors whose names match: embedding");
}

void describe_machine(TrainTable& t) {
  describe_threads(t);
  t.number("rank-timeout", &TrainOptions::rank_timeout, 0, 1e6, "seconds until a silent rank ends the job (0: never)",
           {.machine = true, .may_change = true});
  add_fields(t, false);
}

void describe_schedule(TrainTable& t) {
  const auto rate = [](auto member) { return in(&TrainOptions::rate, member); };
  const Traits traits = {.common = true, .may_change = true, .schedule = true},
               more = {.may_change = true, .schedule = true};
  t.number("lr", rate(&LearningRate::lr), 0, 1e6, "peak learning rate", traits);
  t.number("min-lr", &TrainOptions::min_lr, 0, 1e6, "final learning rate (default: lr / 10)", more, {kDecays});
  const auto set_warmup = [](TrainOptions& o, const std::string& text) {  // "200", or "20%"
    const bool share = text.ends_with('%');
    o.rate.warmup_percent = share ? parse_number("warmup", text.substr(0, text.size() - 1), 0, 100, false) : 0;
    o.rate.warmup = share ? 0 : static_cast<int64_t>(parse_number("warmup", text, 0, kLargest, true));
  };
  const auto warmup = [](const TrainOptions& o) {
    return o.rate.warmup_percent > 0 ? toml(toml(o.rate.warmup_percent) + "%") : toml(o.rate.warmup);
  };
  t.computed("warmup", "N", "warm-up steps, or a share of all: 10%", traits, {}, set_warmup, warmup);
  t.choice("schedule", kSchedules, rate(&LearningRate::schedule), "learning-rate schedule after the warm-up", more);
  t.number("decay-steps", rate(&LearningRate::decay), 0, kLargest, "decay of the wsd schedule (steps; 0: a tenth)",
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

void describe_optimizer(TrainTable& t) {
  const auto by = [](auto member) { return in(&TrainOptions::optimizer_options, member); };
  const TrainNeed betas = read_by(&Optimizer::betas), momentum = read_by(&Optimizer::momentum);
  const std::vector<TrainNeed> polar = {read_by(&Optimizer::polar), trains(has_momentum)};
  const auto shares = [](const RunOptimizer& row) { return row.rows.size() > 1 && row.rows.back() == &kAdamW; };
  t.computed("optimizer", "NAME", "optimizer (" + optimizers_where(shares) + ": hidden matrices; adamw: the rest)",
             {.common = true}, {},
             [](TrainOptions& o, const std::string& name) { o.optimizer = &run_optimizer(name); },
             [](const TrainOptions& o) { return toml(std::string(o.optimizer->name)); });
  for (const RunOptimizer& row : run_optimizers()) t.rows.back().choices.emplace_back(row.name);
  t.number("weight-decay", by(&OptimizerOptions::weight_decay), 0, 100, "weight decay of matrices", {},
           {trains(decays)});
  t.flag("cautious-decay", by(&OptimizerOptions::cautious_decay),
         "decay only weights that the step moves toward zero", {}, {trains(decays)});
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
           "Muon step size: RMS as AdamW, or spectral norm", {}, polar);
  t.choice("muon-iteration", kPolarIterations, by(&OptimizerOptions::polar),
           "polynomials that orthogonalize Muon's step", {}, polar);
}

void describe_measurements(TrainTable& t) {
  const Traits traits = {.may_change = true};
  t.number("eval-every", &TrainOptions::eval_every, 0, kLargest,
           "validate every N steps (0: never; default: a tenth of the steps, at most 300)", traits);
  t.number("eval-batches", &TrainOptions::eval_batches, 0, kLargest, "batches per validation (0: the whole split)",
           traits, {kValidates});
  t.number("patience", &TrainOptions::patience, 0, kLargest,
           "early stopping after N validations without improvement (0: off)", traits, {kValidates});
  t.number("final-batches", &TrainOptions::final_batches, 0, kLargest,
           "largest split evaluated whole at the end (batches; 0: any; default: a tenth of the training)", traits,
           {kValidates});
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
  for (const RateGroup& group : kRateGroups) {
    TrainSetting& s = t.number(group.option, group.rate, 0, 1e6, group.help);
    if (group.has == is_norm) s.needs.push_back({nullptr, is_norm, "with {placement=}"});
    s.needs.push_back(trains(group.has));
  }
  t.number("clip", &TrainOptions::clip, 0, 1e9, "gradient norm clipping threshold (0: off)");
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

// Settings of one call, not written to config.toml.
template <bool comparison>
void describe_call(TrainTable& t) {
  t.group(comparison ? "" : "Run");
  t.number("epochs", &TrainOptions::epochs, 1e-6, 1e6, "passes over the training text, instead of --steps",
           {.common = true, .length = true})
      .shown = "";
  t.text("for", &TrainOptions::time_limit, "TIME", "approximate training time: 90s, 10m, 2h",
         {.common = true, .length = true})
      .set = [](TrainOptions& o, const std::string& text) {
    parse_seconds(text);  // refused before the text is read
    o.time_limit = text;
  };
  t.flag("quiet", &TrainOptions::quiet, "no sample and no suggestions at the end");
  t.flag("json", &TrainOptions::json, "JSON lines on standard output, text on standard error", {.call = true});
  t.group("Run");
  const Traits traits = {.common = true, .call = true};
  t.text("config", &TrainOptions::config_file, "FILE", "TOML file of options; the command line overrides it",
         {.common = true});
  t.text("out", &TrainOptions::out, "DIR",
         comparison ? "comparison directory (default: runs/NUMBER-compare)"
                    : "run directory (default: runs/NUMBER-PLACEMENT-NORM)",
         traits);
  t.flag("resume", &TrainOptions::resume,
         comparison ? "continue the comparison in --out" : "continue the run in --out", traits);
  t.flag("force", &TrainOptions::force, "overwrite what is in --out", {.call = true});
  t.flag("dry-run", &TrainOptions::dry_run, "print the plan and stop", traits);
  t.group("");  // written by compare; not in the help
  t.list("input-hashes", &TrainOptions::input_hashes, "HASH...", "hashes of text, tokenizer and initial weights");
}

// ---- the other commands ----------------------------------------------------------------------------------

template <class Options>
void describe_checkpoint(Table<Options>& t, std::string Options::*checkpoint) {
  t.text("checkpoint", checkpoint, "RUN", "run directory or checkpoint (default: the newest run)",
         {.common = true, .positional = true});
}

void describe_sample(Table<SampleOptions>& t) {
  using Options = SampleOptions;
  const auto by = [](auto member) { return in(&Options::sampling, member); };
  const Condition<Options> samples = {[](const Options& o) { return !o.greedy; }, nullptr, "with {greedy}", true};
  const Condition<Options> draws = {[](const Options& o) { return o.greedy || o.sampling.temperature != 0; }, nullptr,
                                    "with {temperature} 0", true};
  describe_checkpoint(t, &Options::checkpoint);
  t.text("prompt", &Options::prompt, "TEXT",
         "text to continue; -: standard input (default: standard input, or a newline)");
  t.choice("unknown", kUnknowns, &Options::unknown, "handling of prompt characters outside the vocabulary");
  t.number("length", &Options::length, 0, 1e9,
           "tokens to generate (default: up to 500, to the end of the context or line)");
  t.number("count", &Options::count, 1, 1e9, "samples to generate, each from the same prompt");
  t.text("stop", &Options::stop, "TEXT", "stop sequence (\\n: a newline)");
  t.number("temperature", by(&Sampling::temperature), 0, 100, "sampling temperature (0: greedy)", {}, {samples});
  t.number("top-k", by(&Sampling::top_k), 0, 1e9, "top-k sampling: only the K likeliest tokens (0: all)", {},
           {samples, draws});
  t.number("top-p", by(&Sampling::top_p), 0, 1,
           "nucleus sampling: only the likeliest tokens of this total probability", {}, {samples, draws});
  t.number("min-p", by(&Sampling::min_p), 0, 1, "only tokens with this share of the largest probability", {},
           {samples, draws});
  t.number("repeat-penalty", by(&Sampling::repeat_penalty), .01, 100,
           "makes tokens of the context less likely (1: off)");
  t.flag("greedy", &Options::greedy, "greedy decoding: always the likeliest token");
  t.number("seed", by(&Sampling::seed), 0, kLargest, "sampling seed", {}, {samples, draws});
  t.flag("json", &Options::json, "print each sample and its tokens as JSON");
  t.flag("interactive", &Options::interactive,
         "prompt loop: lines continue the text, an empty one restarts (Ctrl-D: end)");
  describe_threads(t);
}

void describe_eval(Table<EvalOptions>& t) {
  using Options = EvalOptions;
  describe_checkpoint(t, &Options::checkpoint);
  describe_files(t, true);
  t.number("batch", &Options::batch, 1, 1 << 20, "sequences per batch");
  t.flag("json", &Options::json, "print the result as JSON, in full precision");
  t.text("logits", &Options::logits, "FILE", "write the first batch's logits as .npy (float32; B, T, vocabulary)");
  t.text("gradients", &Options::gradients, "FILE", "write the gradients of the first batch as .npz");
  t.flag("force", &Options::force, "overwrite the files of --logits and --gradients");
  t.text("hellaswag", &Options::hellaswag, "FILE", "accuracy on questions in llm.c's format, instead of --data");
  describe_threads(t);
}

void describe_info(Table<Command>& t) {
  describe_checkpoint(t, &Command::info_checkpoint);
  t.flag("cost", &Command::info_cost, "memory and FLOPs of one step, part by part", {.common = true});
  t.flag("json", &Command::info_json, "print the model, its tensors and its cost as JSON");
  t.add(&Command::train, rows_of(describe_batch));
  t.number("ranks", &Command::info_ranks, 1, 4096, "with --cost: memory and bytes of each rank");
  t.text("bandwidth", &Command::info_bandwidth, "BITS", "network of a rank in bits per second: 10G");
  t.number("speed", &Command::info_speed, 0, 1e12, "tokens per second of one process (default: the run's)");
  for (const auto describe : {describe_lanes, describe_trained, describe_model})
    t.add(&Command::train, rows_of(describe));
}

void describe_tokenizer_command(Table<TokenizerOptions>& t) {
  describe_text(t, true);
  t.number("vocab", &TokenizerOptions::vocabulary, 256, 1e6, "vocabulary size, of which 256 tokens are the bytes");
  describe_separator(t);
  t.text("out", &TokenizerOptions::out, "FILE", "output file, a tokenizer.json", {.required = true});
  t.flag("force", &TokenizerOptions::force, "overwrite the file");
  describe_threads(t);
}

void describe_tokenize(Table<TokenizeOptions>& t) {
  describe_text(t, true);
  describe_tokenizer(t);
  describe_separator(t);
  t.number("val-fraction", &TokenizeOptions::val_fraction, 0, .9,
           "fraction of the tokens held out for validation");
  t.number("shard-tokens", &TokenizeOptions::shard_tokens, 1, 2147483647, "most tokens in a file");
  t.text("out", &TokenizeOptions::out, "DIR", "output folder", {.required = true});
  t.flag("force", &TokenizeOptions::force, "overwrite what is in --out");
  describe_threads(t);
}

void describe_corpus(Table<CorpusOptions>& t) {
  std::vector<std::string> grammars;
  for (const NamedGrammar& row : kStoryGrammars) grammars.emplace_back(row.name);
  t.text("out", &CorpusOptions::out, "FILE", "output file; its entropy goes to FILE.nats");
  t.named("grammar", &CorpusOptions::grammar, grammars, "grammar of the text");
  t.text("bytes", &CorpusOptions::bytes, "SIZE", "text size in bytes: 500k, 4M, ...");
  t.number("seed", &CorpusOptions::seed, 0, kLargest, "seed of the text");
  t.flag("force", &CorpusOptions::force, "overwrite the file");
  t.text("check", &CorpusOptions::check, "FILE", "count the lines of FILE that follow the grammar");
  t.text("known", &CorpusOptions::known, "FILE", "with --check: count lines that also occur in FILE");
}

void describe_import(Table<ImportOptions>& t) {
  t.text("from", &ImportOptions::path, "PATH", "model of another program: a file or folder",
         {.required = true, .positional = true});
  t.text("out", &ImportOptions::out, "DIR", "run directory", {.required = true});
  t.flag("force", &ImportOptions::force, "overwrite what is in --out");
}

void describe_export(Table<ExportOptions>& t) {
  describe_checkpoint(t, &ExportOptions::checkpoint);
  t.text("out", &ExportOptions::out, "PATH", "output file or folder", {.required = true});
  t.text("to", &ExportOptions::to, "FORMAT", "format").choices = {"hf", "gguf", "llmc", "llama2c"};
  t.text("dtype", &ExportOptions::dtype, "TYPE", "number type of the matrices (default: f32)").choices = {
      "f32", "f16", "bf16", "q8_0"};
  t.flag("lora-merge", &ExportOptions::lora_merge,
         "add the adapters of --lora to the weights (hf: default is the adapters alone)");
  t.flag("force", &ExportOptions::force, "overwrite what is in --out");
}

void describe_completion(Table<Command>& t) {
  t.text("shell", &Command::shell, "SHELL", "shell", {.required = true, .positional = true}).choices = {"bash", "zsh",
                                                                                                      "fish"};
}

void describe_comparison(Table<Command>& t) {
  using Options = CompareOptions;
  const auto by = [](auto member) { return in(&Command::compare, member); };
  const Condition<Command> tunes = {
      [](const Command& c) { return c.train.resume || !c.compare.tune.empty(); }, nullptr, "without {tune}", true};
  t.group("Comparison");
  t.list("grid", by(&Options::grid), "KEY=A,B...", "option values to combine: placement=post,pre seed=1,2",
         {.common = true});
  t.list("tune", by(&Options::tune), "KEY=A,B...", "options to tune for each cell: lr=1e-3,3e-3 warmup=20%,50%",
         {.common = true});
  t.number("tune-runs", by(&Options::tune_runs), 2, 1e6,
           "tuning runs per cell at most (default: 1.5 x --tune's combinations)", {}, {tunes});
  t.number("tune-seed", by(&Options::tune_seed), 0, kLargest, "seed of the tuning runs, different from all others", {},
           {tunes});
  t.number("jobs", by(&Options::jobs), 1, 1024, "parallel runs; above 1, no times are reported", {.common = true});
  t.flag("join", by(&Options::join), "share the runs with other processes; no times are reported");
  t.text("shard", by(&Options::shard), "I/N", "train part I of N of the runs; others --join", {.call = true});
  t.text("baseline", by(&Options::baseline), "CELL", "baseline cell: placement=pre (default: the first)",
         {.common = true});
  t.number("margin", by(&Options::margin), 0, 1e6, "losses this close count as equal: verdicts say so (0: off)");
  t.number("target", by(&Options::target), 0, 1e6, "target loss of steps_to_target (0: the highest final loss)");
}

void describe_pass(TrainTable& t) {
  describe_model(t);
  describe_data(t);
  t.group("Pass");
  describe_batch(t);
  describe_seeds(t);
  describe_machine(t);
}

void describe_init_report(Table<Command>& t) {
  const auto by = [](auto member) { return in(&Command::init_report, member); };
  t.group("Report");
  t.list("grid", by(&InitReportOptions::grid), "KEY=A,B...", "option values to combine: layers=6,12 seed=1,2",
         {.common = true});
  t.text("out", by(&InitReportOptions::out), "FILE", "output CSV file, one row per statistic", {.common = true});
  t.flag("force", by(&InitReportOptions::force), "overwrite the file");
  t.add(&Command::train, rows_of(describe_pass));
}

std::vector<CommandSetting> rows_for(Command::Kind kind) {
  using Kind = Command::Kind;
  Table<Command> t;
  switch (kind) {
    case Kind::compare:
      describe_comparison(t);
      t.add(&Command::train, train_settings());
      t.add(&Command::train, rows_of(describe_call<true>));
      break;
    case Kind::train:
      t.add(&Command::train, train_settings());
      t.add(&Command::train, rows_of(describe_call<false>));
      break;
    case Kind::info: describe_info(t); break;
    case Kind::sample: t.add(&Command::sample, rows_of(describe_sample)); break;
    case Kind::eval: t.add(&Command::eval, rows_of(describe_eval)); break;
    case Kind::init_report: describe_init_report(t); break;
    case Kind::corpus: t.add(&Command::corpus, rows_of(describe_corpus)); break;
    case Kind::tokenizer: t.add(&Command::tokenizer, rows_of(describe_tokenizer_command)); break;
    case Kind::tokenize: t.add(&Command::tokenize, rows_of(describe_tokenize)); break;
    case Kind::import_model: t.add(&Command::import_model, rows_of(describe_import)); break;
    case Kind::export_model: t.add(&Command::export_model, rows_of(describe_export)); break;
    case Kind::completion: describe_completion(t); break;
    case Kind::man: break;
  }
  return t.rows;
}

}  // namespace

const std::vector<CommandSetting>& settings_of(Command::Kind kind) {
  static const std::vector<std::vector<CommandSetting>> tables = [] {
    std::vector<std::vector<CommandSetting>> all;
    for (int k = 0; k <= static_cast<int>(Command::Kind::man); ++k)
      all.push_back(rows_for(static_cast<Command::Kind>(k)));
    return all;
  }();
  return tables[static_cast<size_t>(kind)];
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

bool said_any(const Command& command, bool Traits::*trait) {
  return std::any_of(command.given.begin(), command.given.end(), [&](const Given& g) {
    const Setting* s = find_setting(settings_of(command.kind), g.name);
    return s && s->*trait;
  });
}

bool parse_bool(const std::string& name, const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") return true;
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  throw std::invalid_argument("--" + name + " " + one_line(text) + " is not true or false: write --" + name +
                              " or --no-" + name);
}
