#include "scaling.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "data/options/command_line.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/toml.hpp"
#include "data/options/values.hpp"
#include "data/run/resume.hpp"
#include "data/run/time_limit.hpp"
#include "data/strings/format.hpp"
#include "data/text/load_dataset.hpp"
#include "layers/model/presets.hpp"

namespace {

constexpr double kTokensPerParameter = 20;  // Hoffmann et al. 2022, arXiv 2203.15556 ("Chinchilla")

std::string shown(double flops) { return format("%.3g", flops); }

void fill_vocabulary(TrainOptions& o, int vocabulary) {
  if (o.config.vocab_size == 0) o.config.vocab_size = vocabulary;
}

double parameters_of(const TrainOptions& o) { return static_cast<double>(count_parameters(resolved(o.config))); }

void set_steps(TrainOptions& o, double tokens, const TextFacts& text) {
  o.steps = steps_of_tokens(o, tokens, text.targets * o.config.context);
}

// A size and the operations of a run.
struct SizeCost {
  std::string size;
  double flops;
};

// Returns the sizes by depth that fit the options, in ascending order.
std::vector<SizeCost> costs_of_sizes(const Command& command, const TextFacts& text) {
  std::vector<SizeCost> costs;
  std::string refused;
  for (const std::string& size : sizes_by_depth()) {
    try {
      TrainOptions o = parse_words(words_for_train(command), {{"size", size}}).train;
      fill_vocabulary(o, text.vocabulary);
      set_steps(o, command.train.tokens_per_parameter * parameters_of(o), text);
      o.config = resolved(o.config);
      costs.push_back({size, operations_of_run(o)});
    } catch (const std::invalid_argument& error) {
      refused = error.what();
    }
  }
  if (costs.empty()) throw std::invalid_argument("no size fits: " + refused);
  return costs;
}

std::vector<double> budgets_in(const std::vector<std::string>& words) {
  std::vector<double> budgets;
  for (const std::string& word : words) {
    std::istringstream list(word);
    for (std::string text; std::getline(list, text, ',');)
      if (!text.empty()) budgets.push_back(parse_number("flops", text, 1, 1e30, false));
  }
  std::ranges::sort(budgets);
  if (budgets.empty()) throw std::invalid_argument("--flops has no budgets: write --flops 1e13,3e13,1e14");
  return budgets;
}

// Returns the nearest size on a logarithmic scale.
size_t nearest_to(double budget, const std::vector<SizeCost>& costs) {
  const SizeCost &least = costs.front(), &most = costs.back();
  const bool below = budget < least.flops / 2;
  if (below || budget > 2 * most.flops)
    throw std::invalid_argument("--flops " + shown(budget) + ": the " + (below ? "smallest" : "largest") + " size, " +
                                (below ? least : most).size + ", takes " + shown((below ? least : most).flops));
  const auto distance = [&](const SizeCost& cost) { return std::abs(std::log(cost.flops / budget)); };
  return static_cast<size_t>(std::ranges::min_element(costs, {}, distance) - costs.begin());
}

// Returns "d2,d3,d4".
std::string sizes_for(const std::vector<double>& budgets, const std::vector<SizeCost>& costs) {
  std::string sizes;
  for (size_t i = 0, before = 0; i < budgets.size(); ++i) {
    const size_t at = nearest_to(budgets[i], costs);
    if (i > 0 && at == before) {
      const SizeCost& next = costs[std::min(at + 1, costs.size() - 1)];
      throw std::invalid_argument("--flops " + shown(budgets[i - 1]) + " and " + shown(budgets[i]) +
                                  " have the same size, " + costs[at].size + ", which takes " +
                                  shown(costs[at].flops) + ": the next, " + next.size + ", takes " +
                                  shown(next.flops));
    }
    sizes += (i > 0 ? "," : "") + costs[at].size;
    before = at;
  }
  return sizes;
}

// Sizes are of new models, and nothing else may choose them or the steps.
void check_flops(const Command& command) {
  if (command.train.resume)
    throw std::invalid_argument("a comparison keeps its sizes: leave --flops out to go on, or begin another one");
  if (command.train.data.empty()) throw std::invalid_argument("--data is missing: name the text to train on");
  const Grid grid = parse_grid(command.compare.grid);
  const Tuning tuning = parse_tuning(command.compare.tune);
  for (const CommandSetting& s : settings_of(Command::Kind::compare)) {
    const bool chosen = s.name == "size" || s.name == "init-from" || (s.length && s.name != "tokens-per-parameter");
    const bool tuned = std::ranges::count(tuning.options, s.name, &TunedOption::key) > 0;
    const std::string where = command.said(s.name) ? "--" : grid.has(s.name) ? "--grid " : tuned ? "--tune " : "";
    if (chosen && !where.empty())
      throw std::invalid_argument("--flops chooses sizes and steps of new models: leave " + where + s.name + " out");
  }
}

void replace_given(Command& command, const Given& given) {
  std::erase_if(command.given, [&](const Given& g) { return g.name == given.name; });
  command.given.push_back(given);
}

}  // namespace

Command with_sizes(const Command& given) {
  if (given.compare.flops.empty()) return given;
  check_flops(given);
  const std::vector<double> budgets = budgets_in(given.compare.flops);
  Command command = given;
  TrainOptions& o = command.train;
  if (o.tokens_per_parameter == 0) o.tokens_per_parameter = kTokensPerParameter;
  const Dataset data = load_dataset(o, nullptr, o.config.context);
  const std::vector<SizeCost> costs = costs_of_sizes(command, facts_of(data, o.config.context));
  command.compare.grid = with_key(command.compare.grid, "size=" + sizes_for(budgets, costs));
  command.compare.flops.clear();
  std::erase_if(command.given, [](const Given& g) { return g.name == "flops"; });
  replace_given(command, {"grid", command.compare.grid});
  replace_given(command, {"tokens-per-parameter", {toml(o.tokens_per_parameter)}});
  return command;
}

void set_lengths(Comparison& c) {
  const double per_parameter = c.command.train.tokens_per_parameter;
  const size_t points = c.tuning.combinations().size();
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell) {
    std::vector<GridKey> keys;
    for (const GridKey& key : c.grid.cells[cell].keys)
      if (key.first == "preset" || key.first == "size" || key.first == "init-from") keys.push_back(key);
    if (per_parameter > 0) {
      CheckpointHeader from;
      TrainOptions base = options_on_checkpoint(c.words, keys, from);
      fill_vocabulary(base, c.texts.begin()->second.vocabulary);  // all runs have the same
      c.tokens.push_back(per_parameter * parameters_of(base));
    }
    for (size_t i = cell * points; i < (cell + 1) * points; ++i) c.planned[i] = with_length(c, cell, c.planned[i]);
  }
}

TrainOptions with_length(const Comparison& c, size_t cell, TrainOptions o) {
  const TextFacts text = text_of(c, o);
  if (text.vocabulary > 0) fill_vocabulary(o, text.vocabulary);
  if (!c.tokens.empty()) set_steps(o, c.tokens[cell], text);
  return o;
}

TextFacts text_of(const Comparison& c, const TrainOptions& o) {
  if (c.texts.empty()) return {};
  const auto known = c.texts.find(reading_of(o));
  if (known != c.texts.end()) return known->second;
  try {  // a value that tuning tries beyond those given
    return facts_of(load_text(o, c.out()), o.config.context);
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(error.what());
  }
}

TextFacts facts_of(const Dataset& data, int context) {
  return {static_cast<int>(data.tokenizer.vocabulary()), tokens_per_row(data, context) / context,
          static_cast<double>(data.train)};
}
