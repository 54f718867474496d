// Scaling comparisons: sizes by budgets, lengths by tokens per parameter, the plan's bill, a part of the text.

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "check.hpp"
#include "data/compare/scaling.hpp"
#include "data/compare/summary.hpp"
#include "data/compare/tuning.hpp"
#include "data/files/json.hpp"
#include "data/options/command_line.hpp"
#include "data/text/load_dataset.hpp"
#include "layers/model/presets.hpp"
#include "small_run.hpp"

namespace {

// Sizes of 18,000 parameters and more.
const std::string kScaled = " --context 32 --batch 4 --eval-batches 2 --documents file --threads 1 ";

// The fields of a line, some of which are in quotes.
std::vector<std::string> quoted_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) fields.emplace_back();
    else fields.back() += c;
  }
  return fields;
}

// The rows of a table of a comparison, as {column: field}.
std::vector<std::map<std::string, std::string>> rows_in(const Folder& f, const std::string& name) {
  std::istringstream file(f.read(name));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = quoted_fields(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = quoted_fields(line);
    for (size_t i = 0; i < header.size(); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[header[i]] = fields.at(i);
    }
  }
  return rows;
}

// The plan of a comparison as JSON. Takes no steps unless `timed`.
nlohmann::json plan_of(const Folder& f, const std::string& words, bool timed = false) {
  const Outcome o = f.run(words + " --dry-run --json" + (timed ? "" : " --quiet"));
  INFO(o.err);
  REQUIRE(o.status == 0);
  return parse_json(o.out.substr(0, o.out.find('\n')));
}

std::vector<std::string> cells_of(const nlohmann::json& plan) { return plan["cells"]; }

TextOptions stories(const Folder& f, const std::string& documents) {
  TextOptions o;
  o.data = {f.path("stories.txt")};
  o.documents = documents;
  return o;
}

}  // namespace

TEST_CASE("--data-limit keeps the first tokens to train on, and all for validation", "[scaling][tokens]") {
  const Corpus f;
  for (const std::string documents : {"file", "line"})
    for (const ValSplit split : {ValSplit::tail, ValSplit::spread}) {
      INFO(documents << " " << int(split));
      TextOptions o = stories(f, documents);
      o.val_split = split;
      const Dataset whole = load_dataset(o, nullptr, 64);
      o.data_limit = 5000;
      const Dataset part = load_dataset(o, nullptr, 64);
      CHECK(part.train >= 5000);
      CHECK(part.train < (documents == "file" ? 5001 : 5500));  // the last story may end beyond
      CHECK(part.val.size() == whole.val.size());
      CHECK(part.val_targets() == whole.val_targets());
      CHECK(part.val_tokens() == whole.val_tokens());
      CHECK(part.words == 0);
      CHECK(whole.words > 0);
      CHECK(part.floor == whole.floor);
      CHECK(part.fingerprint == whole.fingerprint);
      for (size_t i = 0; i < part.rows.size(); ++i)
        for (const TokenWindow& window : part.rows[i]) CHECK(window.start + window.length <= 5500);
      o.data_limit = static_cast<int64_t>(whole.train);
      CHECK(load_dataset(o, nullptr, 64).train == whole.train);
      o.data_limit += 1;
      CHECK(contains(message_of<std::runtime_error>([&] { load_dataset(o, nullptr, 64); }),
                     "--data-limit " + std::to_string(o.data_limit) + " is more than the " +
                         std::to_string(whole.train) + " tokens to train on"));
    }
  const std::string dry = "train stories.txt --documents file --dry-run --context 16 --val-fraction ";
  const std::string plan = f.run(dry + "0.1").out, validation = plan.substr(plan.find(" on, "), 15);
  CHECK(contains(f.run(dry + "0.1 --data-limit 500").out, " 500 tokens to train" + validation));
  CHECK(contains(f.run(dry + "0 --data-limit 500").out, " 500 tokens to train on, 0 to validate, vocabulary 256\n"));
  TextOptions o = stories(f, "file");
  o.data_limit = 64;
  CHECK(contains(message_of<std::runtime_error>([&] { load_dataset(o, nullptr, 64); }), "raise --data-limit"));
  f.must("corpus val.txt --bytes 9000 --seed 2");
  o.val_data = {f.path("val.txt")};
  o.data_limit = 0;
  const Dataset whole = load_dataset(o, nullptr, 64);
  o.data_limit = 900;
  const Dataset part = load_dataset(o, nullptr, 64);
  CHECK(part.train == 900);
  CHECK(part.fingerprint == whole.fingerprint);
  CHECK(part.val_targets() == whole.val_targets());
}

TEST_CASE("train takes the steps of --tokens-per-parameter", "[scaling][program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --size d1 --quiet --eval-every 0 --tokens-per-parameter ";
  for (const std::string documents : {"file", "line"}) {
    REQUIRE(f.run(words + "0.2 --out " + documents + kScaled + "--documents " + documents).status == 0);
    const auto outcome = parse_json(f.read(documents + "/outcome.json"));
    const auto rows = rows_in(f, documents + "/metrics.csv");
    const double tokens = std::stod(rows.back().at("tokens")), wanted = .2 * outcome["parameters"].get<double>();
    CHECK(std::abs(tokens / wanted - 1) < .02);  // rows of documents are not full
    CHECK(rows.size() * 4 * 32 * (documents == "file" ? 1 : .9) <= tokens + 1);
  }
  check_refused(f, words + "1 --steps 9", "--tokens-per-parameter both say how long to train: leave one out");
  check_refused(f, words + "0", "--tokens-per-parameter 0 is outside the range");
}

TEST_CASE("all cells of a size train on equally many tokens, and the bill is what they take", "[scaling][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --grid tied=true,false size=d1,d1.5,d2 seed=1,2 "
                            "--tokens-per-parameter 0.1 --jobs 2 --out x" + kScaled;
  const auto plan = plan_of(f, words);
  const std::vector<std::string> cells = cells_of(plan);
  CHECK(plan["runs"] == 12);
  f.must(words);
  const auto runs = rows_in(f, "x/runs.csv");
  REQUIRE(runs.size() == 12);
  std::map<std::string, double> steps;
  double flops = 0;
  for (const auto& run : runs) {
    INFO(run.at("cell"));
    const auto& model = plan["models"][static_cast<size_t>(std::ranges::find(cells, run.at("cell")) - cells.begin())];
    CHECK(std::stod(run.at("flops")) == Approx(model["flops"].get<double>()).epsilon(1e-9));
    CHECK(std::stod(run.at("parameters")) == model["parameters"].get<double>());
    CHECK(std::stod(run.at("steps")) == model["steps"].get<double>());
    CHECK(std::stod(run.at("tokens")) == model["tokens"].get<double>());
    const auto [same, is_new] = steps.emplace(run.at("size"), std::stod(run.at("steps")));
    CHECK(same->second == std::stod(run.at("steps")));
    if (run.at("tied") == "true")  // a matrix more changes the parameters, not the tokens of a size
      CHECK(std::abs(std::stod(run.at("tokens")) / std::stod(run.at("parameters")) - .1) < .002);
    flops += std::stod(run.at("flops"));
  }
  CHECK(steps.size() == 3);
  CHECK(plan["flops"].get<double>() == Approx(flops).epsilon(1e-9));
  for (const auto& row : rows_in(f, "x/summary.csv"))
    CHECK((row.at("verdict") == "baseline") == (row.at("tied") == "true"));
  CHECK(f.run("compare --out x --resume").status == 0);
  check_refused(f, "compare --out x --resume --tokens-per-parameter 0.2",
                "cannot go on with x: --tokens-per-parameter is 0.1 there and 0.2 here;");
  check_refused(f, "compare --out x --resume --steps 3000",
                "cannot go on with x: --tokens-per-parameter is 0.1 there and --steps is 3000 here;");
  const std::string shown = f.run("compare --out x --resume --dry-run").out;
  CHECK(contains(shown, "layers  channels  parameters"));
  CHECK(contains(shown, "\nbill: "));
}

TEST_CASE("cells with other rows train on equally many tokens, too", "[scaling][program]") {
  const Corpus f;
  const std::string words = "compare stories.txt --out x --eval-every 100 --warmup 10% --tokens-per-parameter 0.5";
  REQUIRE(f.run(words + kScaled + "--size d1 --documents line --packing padded --grid context=32,512").status == 0);
  const auto runs = rows_in(f, "x/runs.csv");
  REQUIRE(runs.size() == 2);
  const double tokens[] = {std::stod(runs[0].at("tokens")), std::stod(runs[1].at("tokens"))};
  CHECK(std::abs(tokens[1] / tokens[0] - 1) < .1);
}

TEST_CASE("a width or a depth is no key next to lengths that follow from the size", "[scaling][program]") {
  const Corpus f;
  const std::string words = "compare stories.txt --out x --dry-run" + kScaled;
  for (const std::string key : {"layers=1,3", "channels=16,48", "encoder-layers=1,2"})
    for (const std::string length : {" --tokens-per-parameter 2", " --flops 6e10"}) {
      check_refused(f, words + "--grid placement=pre " + key + length, "or make a comparison for each");
      check_refused(f, words + "--grid placement=pre --tune " + key + length, "or make a comparison for each");
    }
  const auto plan = plan_of(f, "compare stories.txt --out x --channels 48 --tokens-per-parameter 2 "
                               "--grid placement=pre,post" + kScaled);
  REQUIRE(plan["models"].size() == 2);
  for (const auto& model : plan["models"])
    CHECK(model["tokens"].get<double>() / model["parameters"].get<double>() == Approx(2).epsilon(.01));
}

TEST_CASE("what decides the steps or the sizes is given once", "[scaling][program]") {
  const Corpus f;
  const std::string words = "compare stories.txt --out x --dry-run" + kScaled + "--grid placement=pre,post";
  for (const std::string key : {" steps=2,4", " --tune steps=2,4"}) {
    check_refused(f, words + key + " --tokens-per-parameter 0.1", "both say how long to train: leave one out");
    check_refused(f, words + key + " --flops 1e9", "steps out");
  }
  check_refused(f, words + " --tune size=1,2 --flops 1e9",
                "--flops chooses sizes and steps of new models: leave --tune size out");
  check_refused(f, words + " size=d1,d2 --flops 1e9", "leave --grid size out");
  for (const std::string length : {"--epochs 1", "--for 3s", "--steps 5"}) {
    check_refused(f, words + " --tokens-per-parameter 0.1 " + length, "both say how long to train: leave one out");
    check_refused(f, words + " --flops 1e9 " + length, "leave --");
  }
  REQUIRE(f.run("compare stories.txt --out x --steps 2 --size d1 --grid placement=pre,post" + kScaled).status == 0);
  for (const auto& [length, shown] : {std::pair{"--tokens-per-parameter 2", "--tokens-per-parameter is 2"},
                                      std::pair{"--for 3s", "--for is \"3s\""}, {"--epochs 1", "--epochs is 1"}})
    check_refused(f, std::string("compare --out x --resume ") + length,
                  "cannot go on with x: --steps is 2 there and " + std::string(shown) + " here;");
}

TEST_CASE("--flops chooses the nearest size for each budget", "[scaling][program]") {
  const Corpus f;
  const std::string unions = "compare --data stories.txt --grid placement=pre + placement=post norm=rmsnorm --out x" +
                             kScaled, words = unions + "--tokens-per-parameter 2 --flops ";
  const auto all = plan_of(f, "compare --data stories.txt --grid size=d1,d1.5,d2,d2.5 --tokens-per-parameter 2" +
                                  kScaled);
  std::vector<double> cost;
  for (const auto& model : all["models"]) cost.push_back(model["flops"]);
  CHECK(std::ranges::is_sorted(cost));
  const auto text = [](double flops) { return std::to_string(flops); };
  const auto plan = plan_of(f, words + text(1.2 * cost[2]) + "," + text(.9 * cost[0]));
  CHECK(cells_of(plan) == std::vector<std::string>{"placement=pre,size=d1", "placement=pre,size=d2",
                                                   "placement=post,norm=rmsnorm,size=d1",
                                                   "placement=post,norm=rmsnorm,size=d2"});
  CHECK(plan["models"][1]["flops"].get<double>() == cost[2]);
  check_refused(f, words + text(cost[1]) + " " + text(1.1 * cost[1]), " have the same size, d1.5, which takes ");
  check_refused(f, words + text(cost[0] / 3), ": the smallest size, d1, takes ");
  check_refused(f, words + "1e29", ": the largest size, d64, takes ");
  check_refused(f, words + "some", "--flops some is not a number");
  check_refused(f, words + "1e9 --steps 9", "--tokens-per-parameter and --steps both say how long to train");
  check_refused(f, words + "1e9 --grid size=d1,d2", "leave --grid size out");
  check_refused(f, words + "1e9 --size d2", "leave --size out");
  check_refused(f, "compare --data stories.txt --flops 1e9 --steps 9", "leave --steps out");
  check_refused(f, "compare --flops 1e9", "--data is missing");
  // comparison.toml holds the sizes, so that nothing is chosen twice.
  f.must(unions + "--tokens-per-parameter 0.1 --flops " + text(cost[0] / 20));
  CHECK(contains(f.read("x/comparison.toml"), R"("size=d1", "+", "placement=post", "norm=rmsnorm", "size=d1"])"));
  CHECK_FALSE(contains(f.read("x/comparison.toml"), "flops"));
  CHECK(f.run("compare --out x --resume").status == 0);
  const auto chinchilla = plan_of(f, "compare --data stories.txt --flops " + text(10 * cost[0]) + kScaled);
  CHECK(chinchilla["models"][0]["tokens"].get<double>() / chinchilla["models"][0]["parameters"].get<double>() ==
        Approx(20).epsilon(.01));
}

TEST_CASE("--tune-size tunes at one size, and others take its values", "[scaling][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --grid placement=pre,post size=d1,d2 seed=1 "
                            "--tune lr=1e-4,1e-2 --tune-runs 2 --tune-size d1 --tokens-per-parameter 0.05" + kScaled;
  const auto plan = plan_of(f, words);
  CHECK(plan["runs"] == 2 * 2 + 4);
  CHECK(plan["most_runs"] == 2 * 2 + 4);
  f.must(words + "--jobs 2 --out x");
  std::map<std::string, std::string> rate;
  size_t tuning = 0;
  for (const auto& run : rows_in(f, "x/runs.csv")) {
    tuning += run.at("stage") == "tune";
    if (run.at("stage") == "tune") CHECK(run.at("size") == "d1");
    else CHECK(rate.emplace(run.at("placement"), run.at("peak_lr")).first->second == run.at("peak_lr"));
  }
  CHECK(tuning == 4);
  CHECK(f.run(words + "--out parts --shard 2/2").status == 0);
  CHECK(!f.has("parts/placement=pre,size=d1"));
  CHECK(f.has("parts/placement=post,size=d2"));
  CHECK(f.run(words + "--out parts --shard 1/2").status == 0);
  for (const std::string name : {"summary.csv", "runs.csv"}) CHECK(f.read("parts/" + name) == f.read("x/" + name));
  check_refused(f, words + "--shard 1/3 --out y", "the comparison has only 2 parts to share");
  check_refused(f, words + "--tune-size d3", "--tune-size d3 is no size of the grid");
}

TEST_CASE("a cell is compared with the baseline's cell of its size", "[scaling][compare]") {
  Comparison c;
  c.grid = parse_grid({"size=d1,d2", "placement=pre,post", "+", "size=d3", "placement=post"});
  c.baseline = 0;
  CHECK(c.baseline_of(0) == size_t{0});
  CHECK(c.baseline_of(1) == size_t{0});
  CHECK(c.baseline_of(2) == size_t{2});
  CHECK(c.baseline_of(3) == size_t{2});
  CHECK(!c.baseline_of(4));  // the baseline has no such size
  for (size_t cell = 0; cell < 5; ++cell)
    for (size_t seed = 0; seed < 3; ++seed) {
      CellRun run;
      run.cell = cell, run.seed = std::to_string(seed);
      run.result.state = RunState::finished;
      run.result.final_loss = 3 - .5 * double(cell) + .01 * double(seed * (cell + 1));
      c.runs.push_back(run);
    }
  summarize(c);
  CHECK(c.cells[1].difference.mean == Approx(-.49).epsilon(.001));
  CHECK(c.cells[3].difference.mean == Approx(-.49).epsilon(.001));
  CHECK(std::isnan(c.cells[2].difference.mean));
  CHECK(c.cells[2].verdict == "baseline");
  CHECK(c.cells[4].verdict.empty());
}

TEST_CASE("a key goes into every union of a grid", "[scaling][compare]") {
  using Words = std::vector<std::string>;
  CHECK(with_key({}, "size=d1") == Words{"size=d1"});
  CHECK(with_key({"a=1,2 b=3 + c=4"}, "size=d1") == Words{"a=1,2", "b=3", "size=d1", "+", "c=4", "size=d1"});
  const Grid grid = parse_grid({"placement=pre", "size=d1,d2"});
  CHECK(grid.cells[1].without("size").name == "placement=pre");
  CHECK(grid.cells[1].without("placement").without("size").name == "model");
}
