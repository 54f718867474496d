// diagnostics.csv and init-report.

#include "catch.hpp"
#include "check.hpp"
#include "small_run.hpp"
#include "table.hpp"

#include <algorithm>
#include <map>
#include <sstream>

namespace {

const std::string kModel = " --layers 2 --heads 2 --channels 32 --context 32 --batch 4 ";
const std::string kRun = kModel + "--eval-every 5 --eval-batches 2 --quiet ";

// The distinct values of the first column, in order, without the header.
std::vector<std::string> steps_in(const std::string& csv) {
  std::vector<std::string> steps;
  for (const std::string& line : lines_of(csv)) {
    const std::string step = line.substr(0, line.find(','));
    if (step != "step" && (steps.empty() || steps.back() != step)) steps.push_back(step);
  }
  return steps;
}

// The value after a prefix such as "1,0,stream,rms,".
double value_of_row(const std::string& csv, const std::string& row) {
  const size_t at = csv.find("\n" + row);
  INFO(row);
  REQUIRE(at != std::string::npos);
  return std::strtod(csv.c_str() + at + 1 + row.size(), nullptr);
}

using Steps = std::vector<std::string>;

}  // namespace

TEST_CASE("diagnostics are written at their steps and do not change training", "[program][diagnostics]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 12 --dropout 0.1 --accumulate 2" + kRun;
  REQUIRE(f.run(words + "--out plain").status == 0);
  REQUIRE(f.run(words + "--diagnostics 5 --out seen --threads 1").status == 0);
  REQUIRE(f.run(words + "--diagnostics 5 --out again --threads 2").status == 0);
  CHECK_FALSE(f.has("plain/diagnostics.csv"));
  CHECK(losses_in(f.read("plain/metrics.csv")) == losses_in(f.read("seen/metrics.csv")));
  CHECK(contains(f.read("seen/config.toml"), "diagnostics = 5"));
  const std::string csv = f.read("seen/diagnostics.csv");
  CHECK(csv.starts_with("step,layer,part,what,value\n1,,"));
  CHECK(steps_in(csv) == Steps{"1", "5", "10", "12"});
  CHECK(csv == f.read("again/diagnostics.csv"));
  // The statistics of step 1 precede its update: gains are 1 and the model update is 0.
  CHECK(value_of_row(csv, "1,1,ffn.norm_in,gain_max,") == 1);
  CHECK(value_of_row(csv, "5,1,ffn.norm_in,gain_max,") > 1);
  CHECK(value_of_row(csv, "1,,model,update,") == 0);
  CHECK(value_of_row(csv, "12,,model,update,") > value_of_row(csv, "5,,model,update,"));
  CHECK(value_of_row(csv, "1,0,attention.q.weight,update_ratio,") > 0);
  // Together, the tensors' gradient norms give the whole model's in metrics.csv.
  double squares = 0;
  for (const std::string& line : lines_of(csv))
    if (line.starts_with("10,") && contains(line, ",grad_norm,") && !contains(line, ",stream,"))
      squares += std::pow(std::strtod(line.c_str() + line.rfind(',') + 1, nullptr), 2);
  const double whole = std::stod(Table(f.read("seen/metrics.csv")).at("grad_norm", 10));
  CHECK(std::sqrt(squares) == Approx(whole).epsilon(1e-7));
}

TEST_CASE("a resumed run continues its diagnostics", "[program][diagnostics]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --diagnostics 4 --schedule constant --warmup 0" + kRun;
  REQUIRE(f.run(words + "--steps 16 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 8 --out parts").status == 0);
  const std::string whole = f.read("whole/diagnostics.csv"), first = f.read("parts/diagnostics.csv");
  CHECK(whole.starts_with(first));
  // Rows of steps after the checkpoint are dropped, and so is an incomplete last row.
  f.write("parts/diagnostics.csv", first + "12,,model,update,9\n12,0,stream,rms,2\n");
  REQUIRE(f.run("train --out parts --resume --steps 16 --quiet").status == 0);
  CHECK(f.read("parts/diagnostics.csv") == whole);
  f.write("parts/diagnostics.csv", whole + "16,1,stream,r");
  // The interval can change, also to 0.
  REQUIRE(f.run("train --out parts --resume --steps 22 --diagnostics 3 --quiet").status == 0);
  CHECK(steps_in(f.read("parts/diagnostics.csv")) == Steps{"1", "4", "8", "12", "16", "18", "21", "22"});
  f.write("parts/diagnostics.csv", f.read("parts/diagnostics.csv") + "23,,model,update,9\n");
  REQUIRE(f.run("train --out parts --resume --steps 24 --diagnostics 0 --quiet").status == 0);
  CHECK(steps_in(f.read("parts/diagnostics.csv")) == Steps{"1", "4", "8", "12", "16", "18", "21", "22"});
  // A run with --init-from measures its update from those weights, resumed or not.
  const std::string from = "train --data stories.txt --init-from whole/checkpoint.safetensors --diagnostics 2 "
                           "--batch 4 --schedule constant --warmup 0 --eval-every 0 --quiet ";
  REQUIRE(f.run(from + "--steps 4 --out next").status == 0);
  REQUIRE(f.run(from + "--steps 2 --out halves").status == 0);
  REQUIRE(f.run("train --out halves --resume --steps 4 --quiet").status == 0);
  CHECK(f.read("halves/diagnostics.csv") == f.read("next/diagnostics.csv"));
  REQUIRE(f.run(words + "--diagnostics 0 --steps 2 --force --out parts").status == 0);
  CHECK_FALSE(f.has("parts/diagnostics.csv"));
}

TEST_CASE("init-report has the statistics of step 1 of training", "[program][diagnostics]") {
  const Corpus f;
  const std::string words = "--data stories.txt --placement post --accumulate 3 --seed 5" + kModel;
  REQUIRE(f.run("train --steps 1 --diagnostics 1 --eval-every 0 --quiet --out r " + words).status == 0);
  REQUIRE(f.run("init-report --out i.csv " + words).status == 0);
  std::string trained, report;
  for (const std::string& line : lines_of(f.read("r/diagnostics.csv")))
    if (!contains(line, "update") && !line.starts_with("step")) trained += "\"model\",5," + line + "\n";
  const std::string csv = f.read("i.csv");
  CHECK(csv == "cell,seed,step,layer,part,what,value\n" + trained);
}

TEST_CASE("init-report prints a table and writes a file", "[program][diagnostics]") {
  const Corpus f;
  const std::string words = "init-report --data stories.txt --init xavier" + kModel +
                            "--grid placement=post,pre layers=2,4,8 seed=1,2 + placement=none --out i.csv";
  const Outcome o = f.run(words);
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "\nplacement=pre,layers=8  "));
  const std::string csv = f.read("i.csv");
  const std::string header = "cell,placement,layers,seed,step,layer,part,what,value\n";
  CHECK(csv.starts_with(header + "\"placement=post,layers=2\",post,2,1,1,,"));
  CHECK(contains(csv, "\n\"placement=pre,layers=8\",pre,8,2,1,7,stream,rms,"));
  CHECK(contains(csv, "\n\"placement=none\",none,,1,1,0,stream,rms,"));
  // The table agrees with the file: means over seeds, and the least-squares slope over three depths.
  const auto mean = [&](const std::string& placement, int layers, int layer, const std::string& what) {
    double sum = 0;
    for (const char* seed : {"1", "2"}) {
      const std::string depth = std::to_string(layers), cell = "placement=" + placement + ",layers=" + depth;
      sum += value_of_row(csv, '"' + cell + "\"," + placement + "," + depth + "," + seed + ",1," +
                                   std::to_string(layer) + "," + what + ",") / 2;
    }
    return sum;
  };
  const std::string down = "ffn.down.weight,grad_norm";
  for (const std::string placement : {"post", "pre"}) {
    std::istringstream row(o.out.substr(o.out.find("\nplacement=" + placement + ",layers=8 ")));
    std::string name;
    row >> name;
    const std::string rms = "stream,rms";
    for (const double want : {mean(placement, 8, 0, rms), mean(placement, 8, 4, rms), mean(placement, 8, 7, rms),
                              mean(placement, 8, 0, down), mean(placement, 8, 7, down)}) {
      double shown = 0;
      row >> shown;
      CHECK(shown == Approx(want).epsilon(1e-3));
    }
    const double slope = std::log(mean(placement, 8, 7, down) / mean(placement, 2, 1, down)) / std::log(4);
    const std::string slopes = o.out.substr(o.out.find("slope")), key = "\nplacement=" + placement + " ";
    CHECK(std::strtod(slopes.c_str() + slopes.find(key) + key.size(), nullptr) == Approx(slope).margin(.0051));
  }
  check_refused(f, words, "i.csv is there already");
  CHECK(f.run(words + " --force --threads 1").status == 0);
  CHECK(f.read("i.csv") == csv);
}

TEST_CASE("init-report continues after a cell that fails", "[program][diagnostics]") {
  const Corpus f;
  const Outcome o = f.run("init-report --data stories.txt --placement none --activation relu --init-gain 1000" +
                          kModel + "--grid layers=1,60 channels=32,1048576");
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "layers=60,channels=32       not finite\n"));
  CHECK(contains(o.out, "layers=1,channels=1048576   does not fit in memory\n"));
  CHECK(contains(o.out, "\nlayers=1,channels=32  "));
}

TEST_CASE("init-report compares what some steps change in models of several sizes", "[program][diagnostics]") {
  const Corpus f;
  const std::string words = "init-report --data stories.txt --grid parametrization=sp,completep --widths 16,32 "
                            "--depths 1,2 --steps 2 --heads 2 --channels 16 --layers 1 --context 16 --batch 2 ";
  const Outcome o = f.run(words + "--out i.csv");
  INFO(o.err);
  REQUIRE(o.status == 0);
  for (const char* part : {"\nparametrization=completep: 16 channels\nlayers             1         2   slope",
                           "\nparametrization=sp: 1 layer\nchannels          16        32   slope", "\nlogits  "})
    CHECK(contains(o.out, part));
  std::map<std::string, std::string> changes;  // by cell, axis, size, step, layer and part
  for (const std::string& line : lines_of(f.read("i.csv"))) changes[line.substr(0, line.rfind(','))] = line;
  CHECK(changes.size() == 1 + 2 * 2 * (4 + 4 + 4 + 7));  // a header; two cells and steps
  const auto change = [&](const std::string& cell, const std::string& row) {
    const std::string& line = changes["\"parametrization=" + cell + "\",1," + row];
    return line.substr(line.rfind(',') + 1);
  };
  for (const char* row : {"channels,16,2,0,stream", "channels,16,1,,logits", "layers,1,2,0,ffn"})
    CHECK(change("sp", row) == change("completep", row));  // the smallest sizes are those of the base model
  CHECK(change("sp", "channels,32,2,0,stream") != change("completep", "channels,32,2,0,stream"));
  const Outcome given = f.run(words + "--base-channels 8 --out i.csv --force");
  CHECK(given.status == 0);
  CHECK_FALSE(contains(f.read("i.csv"), changes["\"parametrization=completep\",1,channels,16,2,0,stream"]));
}

TEST_CASE("init-report refuses wrong input in one line", "[program][diagnostics]") {
  const Corpus f;
  const struct {
    const char *words, *message;
  } cases[] = {
      {"init-report", "--data is missing"},
      {"init-report --data nowhere.txt", "cannot read nowhere.txt"},
      {"init-report --data stories.txt --grid lr=1e-3,1e-2", "lr changes nothing before the first step"},
      {"init-report --data stories.txt --grid placment=post", "did you mean 'placement'?"},
      {"init-report --data stories.txt --grid placement=post,prr", "did you mean 'pre'?"},
      {"init-report --data stories.txt --grid seed=one", "--seed one is not a number"},
      {"init-report --data stories.txt --grid heads=4,3", "heads=3: --heads 3 does not divide --channels 128"},
      {"init-report --data stories.txt --warmup 9", "--warmup is an option of train, not of init-report"},
      {"init-report --data stories.txt --widths 64", "--widths names one size"},
      {"init-report --data stories.txt --depths 4,x", "--depths x is not a number"},
      {"init-report --data stories.txt --widths 64,30", "--heads 4 does not divide --channels 30"},
      {"init-report --data stories.txt --out nowhere/i.csv", "cannot write nowhere/i.csv"},
      {"train --data stories.txt --diagnostics -1", "outside"},
  };
  for (const auto& c : cases) {
    const Outcome o = f.run(c.words);
    INFO(c.words << "\n" << o.err);
    CHECK(o.status == 1);
    CHECK(contains(o.err, c.message));
    CHECK(count_lines(o.err) == 1);
    CHECK(o.out.empty());
    CHECK_FALSE(f.has("i.csv"));
  }
}
