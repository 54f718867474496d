// How a comparison evaluates its runs: statistics, states, paired differences, the grid.

#include <cmath>
#include <stdexcept>

#include <sys/wait.h>

#include "check.hpp"
#include "data/compare/pool.hpp"
#include "data/compare/summary.hpp"
#include "data/compare/tuning.hpp"
#include "data/host/progress.hpp"
#include "data/run_directory/directory.hpp"
#include "small_run.hpp"

namespace {

constexpr double kNone = RunResult::kUnknown;

bool near(double got, double want, double relative = 1e-12) {
  return std::abs(got - want) <= relative * std::abs(want);
}

// The directory of a run with these training losses, and the validation loss `val` at its last step.
struct RunFolder : Folder {
  RunFolder(const std::vector<double>& losses, const RunOutcome& outcome, double val = kNone) {
    std::string text =
        "step,tokens,elapsed_s,train_loss,val_loss,val_bpb,lr,grad_norm,clipped,step_ms,tokens_per_second\n";
    for (size_t i = 0; i < losses.size(); ++i) {
      const std::string loss = std::to_string(losses[i]), step = std::to_string(i + 1);
      const bool last = i + 1 == losses.size();
      text += step + "," + step + "00," + step + "," + loss + "," +
              (last && !std::isnan(val) ? std::to_string(val) : "") + ",,1e-3,1.5," + (i % 2 ? "1" : "0") + ",1,100\n";
    }
    write("run/metrics.csv", text);
    write_outcome(path("run"), outcome);
  }
  RunResult result(bool timed = true) const { return read_result(path("run"), timed); }
};

RunOutcome finished(double unigram = 3) {
  RunOutcome o;
  o.finished = true, o.unigram = unigram, o.parameters = 7;
  return o;
}

// A comparison with these final losses: one row per cell, one column per seed.
Comparison comparison_of(const std::vector<std::vector<double>>& losses, double margin = 0) {
  Comparison c;
  c.command.compare.margin = margin;
  c.grid = parse_grid({"placement=post,pre,none"});
  c.grid.cells.resize(losses.size());
  for (size_t cell = 0; cell < losses.size(); ++cell)
    for (size_t seed = 0; seed < losses[cell].size(); ++seed) {
      CellRun run;
      run.cell = cell, run.seed = std::to_string(seed);
      run.result.state = std::isnan(losses[cell][seed]) ? RunState::diverged : RunState::finished;
      run.result.final_loss = run.result.best_loss = losses[cell][seed];
      run.result.tokens_per_second = 100;
      run.result.at_step = {10, 20}, run.result.at_second = {1, 2}, run.result.val_loss = {5, losses[cell][seed]};
      c.runs.push_back(run);
    }
  summarize(c);
  return c;
}

std::string complaint(const std::vector<std::string>& grid, const std::vector<std::string>& tuning = {}) {
  return message_of<std::invalid_argument>([&] { parse_grid(grid), parse_tuning(tuning); });
}

}  // namespace

TEST_CASE("a mean and its 95 % interval", "[compare]") {
  const Estimate e = estimate({1, 2, 3, 4});
  CHECK(e.mean == 2.5);
  CHECK(near(e.sd, std::sqrt(5. / 3)));
  CHECK(near(e.half_width, 3.182446 * std::sqrt(5. / 3) / 2, 1e-4));  // t's 97.5 % quantile for 3 degrees of freedom
  CHECK(!e.contains_zero());
  CHECK(estimate({-1, 1.5, 0}).contains_zero());
  CHECK(estimate({1}).contains_zero());  // one number has no interval
  CHECK(std::isnan(estimate({}).mean));
}

TEST_CASE("Student's t distribution", "[compare]") {  // values: scipy.stats.t
  const struct {
    double t;
    int degrees_of_freedom;
    double above;
  } tails[] = {{0.1, 1, 0.468274482569446}, {40, 1, 0.00795608991202581},  {2.5, 2, 0.0648058601107554},
               {1, 3, 0.195501109477885},   {2.5, 7, 0.0204961092928764},  {40, 7, 7.95108999242518e-10},
               {1, 30, 0.162654307713015},  {0.1, 500, 0.460192203768438}, {2.5, 500, 0.00636928775044193}};
  for (const auto& [t, n, above] : tails) {
    CHECK(std::abs((1 - t_within(t, n)) / 2 - above) < 2e-14);
    CHECK(std::abs((1 - t_within(-t, n)) / 2 - (1 - above)) < 2e-14);
  }
  const struct {
    int degrees_of_freedom;
    double of_95, of_999;
  } quantiles[] = {{1, 12.706204736175, 636.61924876872},
                   {2, 4.3026527297495, 31.599054576444},
                   {10, 2.2281388519863, 4.5868938587026},
                   {119, 1.9800998764569, 3.3741665465295}};
  for (const auto& [n, of_95, of_999] : quantiles) {
    CHECK(near(t_quantile(.95, n), of_95, 1e-11));
    CHECK(near(t_quantile(.999, n), of_999, 1e-9));
  }
}

TEST_CASE("p values of a difference and of equality within a margin", "[compare]") {
  // scipy.stats.ttest_1samp(x, 0), and the larger of its one-sided p values for -margin and margin
  const Estimate e = estimate({-.02, .01, -.035, -.018, -.04});
  CHECK(near(p_of_zero(e), 0.07788308606958311, 1e-12));
  CHECK(near(p_of_inequality(e, .03), 0.1713070797303637, 1e-12));
  CHECK(near(p_of_inequality(e, .06), 0.005374860193038715, 1e-12));
  CHECK(p_of_inequality(e, .01) > .5);  // the mean itself is outside
  CHECK(p_of_zero(estimate({0, 0})) == 1);
  CHECK(p_of_zero(estimate({1, 1})) == 0);
  CHECK(std::isnan(p_of_zero(estimate({1}))));
  CHECK(std::isnan(p_of_inequality(estimate({1}), 1)));
}

TEST_CASE("Holm's correction multiplies the smallest p by their number, the next by one less", "[compare]") {
  const auto corrected = holm({.01, kNone, .04, .03, .005});
  CHECK(near(corrected[0], .03));
  CHECK(std::isnan(corrected[1]));
  CHECK(near(corrected[2], .06));  // as for .03, because a larger p is never more significant
  CHECK(near(corrected[3], .06));
  CHECK(near(corrected[4], .02));
  CHECK(holm({.6, .9}) == std::vector<double>{1, 1});
  const auto planned = holm({.01, kNone, .04}, 3);  // one of three comparisons has no result
  CHECK(near(planned[0], .03));
  CHECK(near(planned[2], .08));
}

TEST_CASE("a spike is a loss six deviations above those before it", "[compare]") {
  std::vector<double> calm(200);
  for (size_t i = 0; i < calm.size(); ++i) calm[i] = 1 + .01 * (i % 2 ? 1 : -1);  // deviation .01
  CHECK(share_of_spikes(calm) == 0);
  calm[150] = 1 + .059;
  CHECK(share_of_spikes(calm) == 0);
  calm[150] = 1 + .061;
  CHECK(share_of_spikes(calm) == 1. / 72);
  CHECK(std::isnan(share_of_spikes(std::vector<double>(128, 1.))));
}

TEST_CASE("the step that reaches a loss is interpolated between two validations", "[compare]") {
  CHECK(first_at_or_below(2, {10, 20, 30}, {4, 3, 1}) == 25);
  CHECK(first_at_or_below(4, {10, 20}, {4, 3}) == 10);
  CHECK(first_at_or_below(3, {10, 20, 30, 40}, {4, 2, 5, 1}) == 15);  // the first time
  CHECK(std::isnan(first_at_or_below(.5, {10, 20}, {4, 1})));
}

TEST_CASE("sensitivity to the learning rate", "[compare]") {
  // Losses 3, 1, 2 and one that diverged: capped at the initial 5.5, the mean excess over 1 is (2 + 0 + 1 + 4.5) / 4.
  CHECK(lr_sensitivity({3, 1, 2, kNone}, {5.5, 5.5, 5.5, 5.5}) == 1.875);
  CHECK(lr_sensitivity({3, 1, 2, 9}, {5.5, 5.5, 5.5, 5.5}) == 1.875);
}

TEST_CASE("the state of a run", "[compare]") {
  const RunResult good = RunFolder({5, 4, 2.5}, finished(), 2.6).result();
  CHECK(good.state == RunState::finished);
  CHECK(good.final_loss == 2.6);
  CHECK(good.initial_loss == 5);
  CHECK(good.best_step == 3);
  CHECK(good.parameters == 7);
  CHECK(good.stopped_at == 0);
  CHECK(near(good.clipped, 1. / 3));
  CHECK(good.tokens_per_second == 100);
  CHECK(RunFolder({5, 4, 3.1}, finished(), 3.019).result().state == RunState::stuck);
  CHECK(RunFolder({5, 4, 3.1}, finished(), 2.981).result().state == RunState::stuck);
  CHECK(RunFolder({5, 4, 3.1}, finished(), 3.021).result().state == RunState::finished);
  const RunResult risen = RunFolder({5, 4, 6, 7}, finished(), 7.).result();
  CHECK(risen.state == RunState::diverged);
  CHECK(risen.stopped_at == 3);
  CHECK(std::isnan(RunFolder({5, 4, 2}, finished()).result().final_loss));  // no validation
  const RunFolder longer({5, 4, 2.5}, finished(), 2.6);
  longer.write("run/metrics.csv", longer.read("run/metrics.csv") + "4,400,4,2.2,,,1e-3,1.5,0,1,100\n");
  CHECK(std::isnan(longer.result().final_loss));  // the last step was not validated
  CHECK(longer.result().best_loss == 2.6);
}

TEST_CASE("a run with numbers that are not finite names the step and the tensor", "[compare]") {
  RunOutcome o = finished();
  o.finished = false, o.step = 12, o.tensor = "block.3.ffn.y";
  const RunResult r = RunFolder({5, 4, 2}, o, 2.).result();
  CHECK(r.state == RunState::diverged);
  CHECK(r.stopped_at == 12);
  CHECK(r.first_tensor == "block.3.ffn.y");
  CHECK(std::isnan(r.final_loss));
}

TEST_CASE("a run without an outcome has failed, and times can be left out", "[compare]") {
  const RunFolder f({5, 4}, finished(), 2.);
  CHECK(std::isnan(f.result(false).seconds));
  CHECK(std::isnan(f.result(false).tokens_per_second));
  CHECK(std::isnan(f.result(false).at_second[0]));
  remove_outcome(f.path("run"));
  CHECK(f.result().state == RunState::failed);
  CHECK(std::isnan(f.result().final_loss));
  CHECK_FALSE(read_outcome(f.path("run")));
}

TEST_CASE("an exception ends the runs that are still going", "[compare]") {
  const Folder f;
  const std::vector<Job> jobs = {{{"-c", "exit 3"}, f.path("a"), "fails", 1},
                                 {{"-c", "exec sleep 60"}, f.path("b"), "goes on", 1}};
  const auto ended = [](size_t, int status, Progress&) { throw std::runtime_error(std::to_string(status)); };
  CHECK_THROWS_AS(run_jobs("/bin/sh", jobs, 2, 0, 0, ended), std::runtime_error);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // there is no child left
}

TEST_CASE("differences are paired by seed, and a cell with a diverged run has no mean", "[compare]") {
  // Seeds differ by 1 and cells by .1: only pairs show a difference.
  const Comparison c = comparison_of({{1.0, 2.0, 3.1}, {.9, 1.91, 2.99}, {1.1, kNone, 3.0}});
  CHECK(c.cells[0].verdict == "baseline");
  CHECK(near(c.cells[1].difference.mean, -.1));
  CHECK(c.cells[1].verdict == "better");
  CHECK(c.cells[2].count[0] == 2);
  CHECK(c.cells[2].count[1] == 1);
  CHECK(std::isnan(c.cells[2].loss.mean));
  CHECK(std::isnan(c.cells[2].mean.tokens_per_second));
  CHECK(c.cells[2].verdict.empty());
  CHECK(c.target == 3.1);
  CHECK(near(c.cells[0].mean.steps_to_target,
             10 + 10 * ((5 - 3.1) / (5 - 1.) + (5 - 3.1) / (5 - 2.) + (5 - 3.1) / (5 - 3.1)) / 3));
  const Comparison close = comparison_of({{1.0, 2.0, 3.0}, {1.1, 1.9, 3.01}});
  CHECK(close.cells[1].verdict == "not distinguishable");
  CHECK(comparison_of({{1.0, 2.0, 3.0}, {1.1, 2.12, 3.09}}).cells[1].verdict == "worse");
  CHECK(comparison_of({{1.0}, {1.1}}).cells[1].verdict.empty());
}

TEST_CASE("verdicts corrected for the number of cells, and equality within a margin", "[compare]") {
  const std::vector<std::vector<double>> losses = {{1.0, 2.0, 3.0}, {1.1, 2.12, 3.09}, {1.09, 2.12, 3.06}};
  const Comparison c = comparison_of(losses);
  CHECK(c.cells[1].verdict_holm == "worse");  // p .0073, twice that is .015
  CHECK(c.cells[2].verdict == "worse");       // p .037
  CHECK(near(c.cells[2].p_holm, c.cells[2].p));
  const Comparison more = comparison_of({losses[0], losses[2], losses[2], losses[2]});
  CHECK(more.cells[3].verdict == "worse");
  CHECK(more.cells[3].verdict_holm == "not distinguishable");
  CHECK(near(more.cells[3].p_holm, 3 * more.cells[3].p));
  CHECK(more.cells[0].verdict_holm == "baseline");

  const auto verdict = [](std::vector<double> cell, double margin) {
    return comparison_of({{1.0, 2.0, 3.0}, cell}, margin).cells[1].verdict;
  };
  CHECK(verdict({1.01, 1.99, 3.001}, .1) == "equal within 0.1");
  CHECK(verdict({1.01, 1.99, 3.001}, .01) == "not distinguishable");
  CHECK(verdict({1.1, 2.12, 3.09}, .2) == "worse, within 0.2");
  CHECK(verdict({1.1, 2.12, 3.09}, .05) == "worse");
}

TEST_CASE("a space in a list of --grid or --tune is answered by the list with commas", "[compare]") {
  const auto grid = [](std::vector<std::string> words) {
    return message_of<std::invalid_argument>([&] { parse_grid(words); });
  };
  CHECK(grid({"placement=post", "pre"}) ==
        "--grid: 'pre' has no option before it: write placement=post,pre, with commas and no spaces");
  CHECK(contains(grid({"norm=rmsnorm", "seed=1", "2", "3", "lr=1"}), "write seed=1,2,3,"));
  CHECK(contains(grid({"placement=post,", "pre"}), "write placement=post,pre,"));
  CHECK(contains(grid({"placement=", "post", "pre"}), "write placement=post,pre,"));
  CHECK(contains(grid({"placement=post", "norm"}), "--grid norm has no values: write norm=a,b"));
  CHECK(grid({"placement=post", "+", "placement=pre"}) == "");
  CHECK(contains(message_of<std::invalid_argument>([] { parse_tuning({"lr=1e-3", "3e-3"}); }), "write lr=1e-3,3e-3,"));
}

TEST_CASE("the grid: combinations, unions and seeds", "[compare]") {
  const Grid grid = parse_grid({"placement=post,pre", "norm=layernorm,rmsnorm", "seed=1,2", "+", "placement=none"});
  REQUIRE(grid.cells.size() == 5);
  CHECK(grid.cells[1].name == "placement=post,norm=rmsnorm");
  CHECK(grid.cells[1].value("norm") == "rmsnorm");
  CHECK(grid.cells[4].name == "placement=none");
  CHECK(grid.cells[4].value("norm").empty());
  CHECK(grid.keys == std::vector<std::string>{"placement", "norm"});
  CHECK(grid.seeds == std::vector<std::string>{"1", "2"});
  CHECK(parse_grid({}).cells.size() == 1);
  CHECK(contains(complaint({"placement=post", "+", "placement=post"}), "twice"));
  CHECK(contains(complaint({"placement=post", "placement=pre"}), "twice"));
  CHECK(contains(complaint({"placement=post,pre,post"}), "--grid placement has the value post twice"));
  CHECK(contains(complaint({"placement=post", "seed=1,1"}), "--grid seed has the value 1 twice"));
  CHECK(parse_grid({"placement=post", "seed=1,2", "+", "placement=none", "seed=2,1"}).seeds.size() == 2);
  for (const std::string other : {"seed=2", "seed=1,2"})
    CHECK(contains(complaint({"placement=post", "seed=1", "+", "placement=none", other}),
                   "--grid has the seeds 1 and " + other.substr(5) + ": all cells are compared on the same ones;"));
}

TEST_CASE("--grid and --tune may be quoted as one word", "[compare]") {
  const Grid apart = parse_grid({"placement=post", "window-layers=1 of 2", "seed=1,2", "+", "placement=none"});
  const Grid quoted = parse_grid({"placement=post window-layers=1 of 2 seed=1,2 + placement=none"});
  REQUIRE(quoted.cells.size() == apart.cells.size());
  for (size_t i = 0; i < apart.cells.size(); ++i) CHECK(quoted.cells[i].name == apart.cells[i].name);
  CHECK(quoted.cells[0].value("window-layers") == "1 of 2");
  CHECK(quoted.seeds == apart.seeds);
  CHECK(parse_tuning({"lr=1e-3,3e-3 warmup=5%,20%"}).options.size() == 2);
  CHECK(contains(complaint({""}), "unknown key '' (any option"));
  CHECK(contains(complaint({"placemnt=pre"}), "unknown key 'placemnt': "));
  CHECK(contains(complaint({"placement=pre,,post"}), "--grid placement has an empty value"));
}

TEST_CASE("the values of --tune go on beyond those given, by their ratio", "[compare]") {
  const Tuning tuning = parse_tuning({"lr=1e-2,3e-4,3e-3", "warmup=5%,20%"});
  const TunedOption &lr = tuning.options.at(0), &warmup = tuning.options.at(1);
  CHECK(lr.values == std::vector<double>{3e-4, 3e-3, 1e-2});
  const auto written = [](const TunedOption& option, int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i) text += option.value(i) + " ";
    return text;
  };
  CHECK(written(lr, -2, 4) == "3e-06 3e-05 3e-04 0.003 0.01 0.033 0.11 ");
  CHECK(written(warmup, -1, 2) == "1.2% 5% 20% 80% ");
  CHECK(written(parse_tuning({"batch=8,4"}).options[0], -2, 2) == "1 2 4 8 16 ");
  CHECK_THROWS_AS(parse_tuning({"batch=8,4"}).options[0].value(-3), std::invalid_argument);  // not 0.5
  CHECK_THROWS_AS(parse_tuning({"warmup=0,50"}).options[0].value(-1), std::invalid_argument);
  CHECK(tuning.combinations() == std::vector<Point>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}});
  CHECK(tuning.contains({2, 1}));
  CHECK(!tuning.contains({2, 2}));
  CHECK(!tuning.contains({-1, 1}));
  CHECK(contains(complaint({}, {"lr=1e-2"}), "--tune lr needs at least two values"));
  CHECK(contains(complaint({}, {"placement=post,pre"}), "--tune placement takes numbers, not 'post'"));
  CHECK(contains(complaint({}, {"lr=-1,1"}), "--tune lr takes numbers, not '-1'"));
  CHECK(contains(complaint({}, {"warmup=5,20%"}), "--tune warmup: write all values with %, or none"));
  CHECK(contains(complaint({}, {"lr=1,2", "lr=3,4"}), "--tune names lr twice"));
  CHECK(contains(complaint({}, {"lr-norm=1,2", "norm-lr=3,4"}), "--tune names lr-norm twice"));  // its earlier name
  CHECK(contains(complaint({"norm-lr=1,2", "lr-norm=3"}, {}), "--grid names lr-norm twice"));
}

namespace {

// Returns the points that a cell's search for the lowest loss tries, in order.
std::vector<Point> points_tried(const std::vector<std::string>& tune, int runs,
                                const std::function<double(const Point&)>& loss) {
  Comparison c;
  c.tuning = parse_tuning(tune);
  c.grid = parse_grid({});
  c.cells.resize(1);
  c.words = {"train", "--steps", "100", "--batch", "4"};
  c.command.compare.tune_runs = runs;
  std::vector<Point> tried;
  for (std::vector<CellRun> next; next = next_tuning_runs(c, 0), !next.empty();)
    for (CellRun& run : next) {
      const double x = run.result.final_loss = loss(run.point);
      run.result.state = std::isnan(x) ? RunState::failed : x < 100 ? RunState::finished : RunState::diverged;
      tried.push_back(run.point);
      c.runs.push_back(run);
    }
  return tried;
}

}  // namespace

TEST_CASE("tuning finds a pair of values that help only together", "[compare]") {
  // A higher rate is stuck unless the warm-up is the longest, which alone changes nothing.
  const auto loss = [](const Point& p) {
    if (p == Point{1, 2}) return 1.5;
    return p[0] > 0 ? 3. : p == Point{0, 1} ? 2. : 2.1;
  };
  const std::vector<std::string> tune = {"lr=1e-3,3e-3", "warmup=5%,20%"};
  const std::vector<Point> first = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, axis = {{-1, 1}, {0, 2}};
  const std::vector<Point> diagonal = {{-1, 0}, {-1, 2}, {1, 2}}, around = {{2, 2}}, last = {{2, 1}};
  const auto all = [](const std::vector<std::vector<Point>>& rounds) {
    std::vector<Point> points;
    for (const auto& round : rounds) points.insert(points.end(), round.begin(), round.end());
    return points;
  };
  CHECK(points_tried(tune, 99, loss) == all({first, axis, diagonal, around, last}));
  CHECK(points_tried(tune, 9, loss) == all({first, axis, diagonal}));
  CHECK(points_tried(tune, 8, loss) == all({first, axis}));  // a part of the diagonal would favor a side
  // Of three options, two move at once.
  const auto flat = [](const Point& p) { return p == Point{0, 0, 0} ? 1. : 2.; };
  const auto three = points_tried({"lr=1,2", "warmup=5%,20%", "beta2=.5,.6"}, 99, flat);
  CHECK(three.size() == 8 + 3 + 9);  // the combinations hold 3 of the 6 neighbors and 3 of the 12 diagonal ones
  CHECK(std::ranges::count(three, Point{-1, 0, -1}) == 1);
  CHECK(std::ranges::count(three, Point{-1, -1, -1}) == 0);
  CHECK(points_tried({"lr=1e-3,3e-3"}, 99, [](const Point& p) { return std::pow(p[0], 2); }).size() == 3);
}

TEST_CASE("tuning tries all combinations, then the neighbors of the best", "[compare]") {
  const std::vector<std::string> tune = {"lr=1e-3,3e-3", "warmup=5%,20%"};
  const std::vector<Point> first = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const auto after_first = [&](int runs, const std::function<double(const Point&)>& loss) {
    const std::vector<Point> tried = points_tried(tune, runs, loss);
    REQUIRE(tried.size() >= 4);
    CHECK(std::vector<Point>(tried.begin(), tried.begin() + 4) == first);
    return std::vector<Point>(tried.begin() + 4, tried.end());
  };
  const auto bowl = [](double lr, double warmup) {
    return [=](const Point& p) { return std::pow(p[0] - lr, 2) + std::pow(p[1] - warmup, 2); };
  };
  // The lowest loss is beyond both edges. 80% of the steps is tried; 320% does not exist.
  CHECK(after_first(99, bowl(2, 2)) == std::vector<Point>{{2, 1}, {1, 2}, {3, 1}, {2, 0}, {2, 2}, {3, 2}});
  // Two neighbors of the best of the first four are untried, and three diagonal ones.
  CHECK(after_first(99, bowl(.2, .2)) == std::vector<Point>{{-1, 0}, {0, -1}, {-1, -1}, {-1, 1}, {1, -1}});
  CHECK(after_first(6, bowl(2, 2)) == std::vector<Point>{{2, 1}, {1, 2}});
  // Trying only some neighbors would favor the side that comes first.
  CHECK(after_first(5, bowl(2, 2)).empty());
  CHECK(after_first(8, bowl(2, 2)) == std::vector<Point>{{2, 1}, {1, 2}});
  CHECK(after_first(9, bowl(2, 2)) == std::vector<Point>{{2, 1}, {1, 2}, {3, 1}, {2, 0}, {2, 2}});
  CHECK(after_first(4, bowl(2, 2)).empty());
  // If all diverge, the search goes to lower values, also if the losses at the end are finite.
  CHECK(after_first(6, [](const Point&) { return INFINITY; }) == std::vector<Point>{{-1, 0}, {0, -1}});
  CHECK(after_first(6, [](const Point& p) { return 1000. - p[0]; }) == std::vector<Point>{{-1, 0}, {0, -1}});
  // A failed run is never the best.
  const auto fails = [](const Point& p) { return p == Point{0, 0} ? NAN : 9. - p[0] + p[1]; };
  CHECK(after_first(6, fails) == std::vector<Point>{{2, 0}, {1, -1}});
  Comparison unlimited;
  unlimited.tuning = parse_tuning(tune);
  CHECK(most_tuning_runs(unlimited) == 6);  // half as many again as there are combinations
  // A warm-up of 100% would not end.
  CHECK(points_tried({"warmup=25%,50%"}, 99, [](const Point& p) { return 9. - p[0]; }).size() == 2);
}

TEST_CASE("a value that is best in one cell and beyond all that another tried is named", "[compare]") {
  Comparison c;
  c.tuning = parse_tuning({"lr=1e-3,3e-3", "beta2=0.9,0.99"});
  c.cells.resize(3);
  const auto tried = [&](size_t cell, const std::vector<Point>& points) {
    c.cells[cell].best = points.back();
    for (const Point& point : points) {
      CellRun run;
      run.stage = Stage::tune, run.cell = cell, run.point = point;
      c.runs.push_back(run);
    }
  };
  tried(0, {{0, 0}, {1, 0}, {-1, 1}, {0, 1}});
  tried(1, {{0, 0}, {1, 1}, {2, 0}, {3, 0}});
  tried(2, {{3, 0}, {-1, 1}, {0, -1}});
  CHECK(best_elsewhere(c, 0) == std::vector<GridKey>{{"lr", "0.027"}, {"beta2", c.tuning.options[1].value(-1)}});
  CHECK(best_elsewhere(c, 1) == std::vector<GridKey>{{"beta2", c.tuning.options[1].value(-1)}});
  CHECK(best_elsewhere(c, 2).empty());
  c.cells[2].best = {-2, 0};
  CHECK(best_elsewhere(c, 1) == std::vector<GridKey>{{"lr", c.tuning.options[0].value(-2)}});
  c.runs.back().stage = Stage::final;  // does not count as tried
  c.runs.back().cell = 0, c.runs.back().point = {-2, 0};
  CHECK(best_elsewhere(c, 0).front() == GridKey{"lr", c.tuning.options[0].value(-2)});
}

TEST_CASE("the median and the range of times", "[compare]") {
  const Spread odd = spread({3, 1, 2}), even = spread({4, 1, 2, 8}), none = spread({1, kNone});
  CHECK((odd.median == 2 && odd.low == 1 && odd.high == 3));
  CHECK((even.median == 3 && even.low == 1 && even.high == 8));
  CHECK(std::isnan(none.median));
  CHECK(std::isnan(spread({}).median));
}

TEST_CASE("a run that has validated once has no best loss and no way to a target", "[compare]") {
  Comparison c = comparison_of({{1., 2.}, {1.5, 2.5}});
  CHECK(c.target == 2.5);
  for (CellRun& run : c.runs)
    if (run.cell == 1) run.result.at_step = {20}, run.result.at_second = {2}, run.result.val_loss.erase(
        run.result.val_loss.begin());
  for (CellRun& run : c.runs) run.result.steps_to_target = run.result.seconds_to_target = kNone;
  c.cells.clear();
  summarize(c);
  CHECK(c.target == 2);
  CHECK(c.cells[0].mean.best_loss == 1.5);
  CHECK(!std::isnan(c.cells[0].mean.steps_to_target));
  CHECK(std::isnan(c.cells[1].mean.best_loss));
  CHECK(std::isnan(c.cells[1].mean.steps_to_target));
  CHECK(near(c.cells[1].loss.mean, 2));  // the final loss needs no curve
}
