// How a comparison reads its runs: divergence, the final loss, damaged tables.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include <sys/resource.h>

#include "check.hpp"
#include "data/compare/result.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/options/command_line.hpp"
#include "data/options/train_settings.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"
#include "small_run.hpp"

namespace {

constexpr double kNone = RunResult::kUnknown;
const std::string kHeader =
    "step,tokens,elapsed_s,train_loss,val_loss,val_bpb,lr,grad_norm,clipped,step_ms,tokens_per_second";

std::string row(int step, double loss, const std::string& val = "") {
  const std::string n = std::to_string(step);
  return n + "," + n + "00," + n + "," + std::to_string(loss) + "," + val + ",,1e-3,1.5,0,1,100";
}

RunOutcome finished(int64_t step, double full = kNone) {
  RunOutcome o;
  o.finished = true, o.step = step, o.unigram = 3, o.parameters = 7, o.val_loss_full = full;
  return o;
}

RunResult result_of(const std::string& metrics, const RunOutcome& outcome) {
  const Folder f;
  f.write("run/metrics.csv", metrics);
  write_outcome(f.path("run"), outcome);
  return read_result(f.path("run"), true);
}

// A metrics.csv with these losses for steps 1, 2, ..., and the validation loss `val` at the last.
std::string losses(const std::vector<double>& train, const std::string& val) {
  std::string text = kHeader + "\n";
  for (size_t i = 0; i < train.size(); ++i) text += row(int(i) + 1, train[i], i + 1 == train.size() ? val : "") + "\n";
  return text;
}

}  // namespace

TEST_CASE("a run from a checkpoint may end above its first batch", "[compare]") {
  CHECK(result_of(losses({1.5, 1.6, 1.4}, "1.62"), finished(3)).state == RunState::finished);
  CHECK(result_of(losses({1.5, 2.9, 2.95}, "2.9"), finished(3)).state == RunState::finished);
  CHECK(result_of(losses({1.5, 2.9, 3.0}, "3.01"), finished(3)).state == RunState::stuck);
  const RunResult forgot = result_of(losses({1.5, 2.0, 3.5, 4}, "4.1"), finished(4));
  CHECK(forgot.state == RunState::diverged);
  CHECK(forgot.stopped_at == 3);
  CHECK(result_of(losses({8, 7, 6}, "5.9"), finished(3)).state == RunState::finished);  // starts high, but falls
  CHECK(result_of(losses({5, 6, 7}, "inf"), finished(3)).state == RunState::diverged);
  CHECK(result_of(losses({5.55, 5.56, 5.54}, "5.56"), finished(3)).state == RunState::finished);  // learns slowly
  const RunResult at_end = result_of(losses({5, 4.5, 4}, "6"), finished(3));
  CHECK(at_end.state == RunState::diverged);
  CHECK(at_end.stopped_at == 3);
}

TEST_CASE("a run that ends above the unigram entropy is named below the table", "[compare]") {
  const Corpus f;
  const std::string words = "compare stories.txt --grid placement=pre,post --out c --lr 1e-3" + kTiny +
                            "--eval-every 100 --eval-batches 1 ";
  CHECK(contains(f.run(words + "--steps 2").out, "seed=1: finished, 5.5"));
  CHECK(contains(f.run(words + "--steps 2 --force").out, "; the unigram entropy is "));
  CHECK(!contains(f.run(words + "--steps 300 --lr 1e-2 --force").out, "; the unigram entropy is "));
}

TEST_CASE("a search that ends where the next value is not possible says so", "[compare]") {
  const Corpus f;
  const std::string words = "compare stories.txt --grid placement=pre,post --out c --steps 30 --tune-runs 9" + kTiny +
                            "--eval-every 100 --eval-batches 1 --tune ";
  CHECK(contains(f.run(words + "beta2=.9,.99").out, "placement=pre may be better at beta2 >0.99, which was not tried"));
  CHECK(contains(f.read("c/summary.csv"), "\nplacement=pre,pre,0.99,beta2=>0.99,"));
  CHECK(!contains(f.run(words + "warmup=20%,50% --force").out, "may be better"));
  CHECK(!contains(f.run(words + "dropout=0,0.5 --force").out, "dropout <0"));
}

TEST_CASE("a plan counts the trained runs of every cell, also if another one is new", "[compare]") {
  const Corpus f;
  const std::string words = "compare stories.txt --out c --steps 2 --tune lr=1e-3,1e-2 --tune-runs 2" + kTiny +
                            "--eval-every 100 --eval-batches 1 --grid seed=1,2 placement=pre,post";
  f.must(words);
  const Outcome more = f.run(words + ",sandwich --resume --dry-run");
  INFO(more.out << more.err);
  CHECK(contains(more.out, "12 runs of 2 steps"));
  CHECK(contains(more.out, "8 runs trained already"));
  f.must(words + ",sandwich --resume");
  CHECK(contains(f.run("compare --out c --resume --dry-run").out, "12 runs trained already"));
}

TEST_CASE("a search that has no runs left for pairs of options names the pairs", "[compare]") {
  const Corpus f;
  // Gradients never reach the values of --clip, so its first one is the best. At lr 1e4 no model trains.
  const std::string words = "compare stories.txt --grid placement=pre,post --out c --steps 30" + kTiny +
                            "--eval-every 100 --eval-batches 1 --tune lr=1e-8,1e-2 clip=1e6,1e7 --tune-runs ";
  CHECK(contains(f.run(words + "4").out, "placement=pre may be better at lr 10000, clip 1e+05, which was not tried"));
  CHECK(contains(f.read("c/summary.csv"), "\nplacement=pre,pre,0.01,1e+06,peak_lr=10000 clip=1e+05,3,"));
  CHECK(contains(f.run(words + "6 --force").out, "placement=pre may be better at lr 1e-08 with clip 1e+05, "
                                         "lr 10000 with clip 1e+05, lr 10000 with clip 1e+07, which was not tried"));
  CHECK(contains(f.read("c/summary.csv"), "\"peak_lr=1e-08,clip=1e+05 peak_lr=10000,clip=1e+05 "));
  CHECK(!contains(f.run("compare --out c --resume --tune-runs 9").out, "may be better"));
  CHECK(contains(f.read("c/summary.csv"), "\nplacement=pre,pre,0.01,1e+06,,3,"));
}

TEST_CASE("the loss on the whole split is used as the final loss only", "[compare]") {
  const std::string text =
      kHeader + ",val_loss_full\n" + row(1, 5) + ",\n" + row(2, 4, "2.5") + ",\n" + row(3, 3, "2.6") + ",2.4\n";
  for (const double in_outcome : {2.4, kNone}) {
    const RunResult r = result_of(text, finished(3, in_outcome));
    CHECK(r.final_loss == 2.4);
    CHECK(r.best_loss == 2.5);
    CHECK(r.best_step == 2);
    CHECK(r.val_loss == std::vector<double>{2.5, 2.6});
  }
  CHECK(result_of(losses({5, 4, 3}, "2.6"), finished(3)).final_loss == 2.6);  // a version without that column
}

TEST_CASE("the legend says on what the final loss was measured", "[compare][program]") {
  const Corpus f;
  const std::string words = "compare stories.txt --steps 2 --grid placement=pre,post" + kTiny +
                            "--eval-every 1 --eval-batches 1 --out ";
  CHECK(contains(f.run(words + "whole").out, "\nfinal val   loss on the whole validation split, nats per token\n"));
  const std::string part = f.run(words + "part --final-batches 1").out;
  CHECK(contains(part, "\nfinal val   loss on --eval-batches batches, as --final-batches says, nats per token\n"));
  CHECK(!contains(part, "whole validation split"));
  const std::string sizes = f.run(words + "sizes --steps 4 --grid batch=2,4").out;
  CHECK(contains(sizes, "--eval-batches batches;\n            cells have batches of other sizes, and so other "));
  CHECK(!contains(f.run(words + "same --steps 4").out, "other sizes"));
}

TEST_CASE("columns of metrics.csv are found by name", "[compare]") {
  const Folder f;
  f.write("run/metrics.csv", "train_loss,step,of another program,tokens\n5,1,7,100\n4,2,7,200\n");
  const auto rows = read_metrics(f.path("run"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[1][metrics::step] == "2");
  CHECK(rows[1][metrics::train_loss] == "4");
  CHECK(rows[1][metrics::val_loss].empty());
}

TEST_CASE("a finished run is finished, however short its metrics.csv", "[compare]") {
  const RunResult r = result_of(losses({5, 4}, "3.8"), finished(100, 2.5));
  CHECK(r.state == RunState::finished);
  CHECK(r.final_loss == 2.5);
  CHECK(r.steps == 100);
  CHECK(r.tokens == 10000);
  CHECK(r.initial_loss == 5);
  CHECK(r.best_loss == 3.8);
  CHECK(std::isnan(r.final_train));
  CHECK(std::isnan(r.seconds));
  CHECK(result_of("", finished(100, 2.5)).state == RunState::finished);
  CHECK(std::isnan(result_of(losses({5, 4}, "3.8"), finished(100)).final_loss));  // recorded nowhere
  CHECK(result_of(losses({5, 4}, "3.8"), finished(100)).state == RunState::finished);
}

TEST_CASE("only the unreadable rows of metrics.csv are left out", "[compare]") {
  const Folder f;
  const std::string torn = row(5, 2.123);
  f.write("run/metrics.csv",
          kHeader + "\n" + row(1, 5) + "\n\x01\x02garbage\n" + row(3, 4) + "\n4,x,4,3,,,1,1,0,1,1\n" + torn);
  const auto rows = read_metrics(f.path("run"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[1][metrics::step] == "3");
}

TEST_CASE("a grid says if its runs train on unequal numbers of tokens", "[compare][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --dry-run --out x --steps 10" + kSmall;
  const std::string unequal = f.run(words + "--grid batch=2,4 seed=1").out;
  CHECK(contains(unequal, "runs train on 640 to 1280 tokens"));
  CHECK(contains(f.run(words + "--grid context=16,32").out, "runs train on 640 to 1280 tokens"));
  CHECK(contains(f.run(words + "--grid norm=rmsnorm --tune accumulate=1,2").out, "runs train on 1280 to 2560 tokens"));
  CHECK_FALSE(contains(f.run(words + "--grid norm=layernorm,rmsnorm --tune lr=1e-3,1e-2").out, "runs train on"));
  CHECK_FALSE(contains(f.run(words + "--grid batch=2 steps=20 + batch=4 steps=10").out, "runs train on"));
}

TEST_CASE("compare takes the last value of a repeated option, and can be resumed", "[compare][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --out x" + kSmall + "--grid norm=layernorm,rmsnorm ";
  REQUIRE(f.run(words + "--steps 3 --steps 2 --min-lr 1e-5 --min-lr 1e-4 --no-bias --bias").status == 0);
  const Outcome again = f.run("compare --out x --resume");
  CHECK(again.err == "");
  CHECK(again.status == 0);
  CHECK(contains(f.read("x/runs.csv"), ",256,"));  // tokens of two steps
}

TEST_CASE("no column of a comparison's tables has the name of another", "[compare][program]") {
  const Corpus f;
  const std::string cells = "--grid batch=2 steps=2 + batch=1 steps=4";
  const Outcome o = f.run("compare --data stories.txt --diagnostics 1 --out x" + kSmall + cells);
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(f.read("x/runs.csv"), "cell,stage,batch,planned_steps,seed,state,"));
  for (const std::string name : {"curves.csv", "runs.csv", "summary.csv", "diagnostics.csv"}) {
    INFO(name);
    std::istringstream header(f.read("x/" + name));
    std::set<std::string> columns;
    std::string line, column;
    std::getline(header, line);
    for (std::istringstream in(line); std::getline(in, column, ',');) {
      INFO(column);
      CHECK(columns.insert(column).second);
    }
    for (const std::string key : {"batch", "seed"}) columns.erase(key);
    for (const std::string renamed : {"lr", "steps"}) columns.erase(renamed);
    for (const TrainSetting& s : train_settings()) {
      INFO(s.name);
      CHECK_FALSE(columns.contains(s.name));
    }
  }
}

TEST_CASE("a comparison resumes with its own command line, also with an absolute path", "[compare][program]") {
  const Corpus f;
  const std::string words = " --out x --steps 2 --grid norm=layernorm,rmsnorm" + kSmall;
  REQUIRE(f.run("compare --data stories.txt" + words).status == 0);
  for (const std::string& path : {std::string("stories.txt"), f.path("stories.txt")}) {
    const Outcome again = f.run("compare --data " + path + words + "--resume");
    CHECK(again.err == "");
    CHECK(again.status == 0);
  }
}

TEST_CASE("processes that share a comparison write the tables of one", "[compare][program][locks]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --threads 1 --steps 20 --grid placement=pre,post seed=1,2,3" +
                            kSmall + "--out ";
  REQUIRE(f.run(words + "one --jobs 2").status == 0);
  std::vector<Started> all;
  for (int i = 0; i < 3; ++i) all.push_back(f.start(words + "joined --join"));
  for (const Started& one : all) {
    const Outcome o = f.finish(one);
    INFO(o.err);
    CHECK(o.status == 0);
  }
  for (const char* shard : {"1/4", "2/4", "3/4", "4/4"}) {
    CHECK(!f.has("shards/summary.csv"));
    CHECK(f.run(words + "shards --shard " + shard).status == 0);
  }
  for (const std::string name : {"summary.csv", "runs.csv", "curves.csv"}) {
    CHECK(f.read("joined/" + name) == f.read("one/" + name));
    CHECK(f.read("shards/" + name) == f.read("one/" + name));
  }
  CHECK(!f.has("joined/.lock"));
}

TEST_CASE("a shard of a tuned comparison trains all runs of its cells", "[compare][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --threads 1 --steps 8 --grid placement=pre,post,peri --tune " +
                            ("lr=1e-3,1e-2 --tune-runs 2" + kSmall) + "--out ";
  REQUIRE(f.run(words + "one --jobs 2").status == 0);
  CHECK(contains(f.run(words + "x --shard 2/3").out, "part 2/3 is trained; the part that ends last writes the tables"));
  CHECK(!f.has("x/placement=pre"));
  CHECK(!f.has("x/placement=peri"));
  CHECK(f.has("x/placement=post/seed=1,lr=0.01/outcome.json"));
  CHECK(f.run(words + "x --shard 1/3").status == 0);
  CHECK(f.run(words + "x --shard 3/3").status == 0);
  for (const std::string name : {"summary.csv", "runs.csv", "curves.csv"})
    CHECK(f.read("x/" + name) == f.read("one/" + name));
}

TEST_CASE("who may share a comparison", "[compare][program][locks]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --steps 2 --grid placement=pre,post seed=1" + kSmall;
  REQUIRE(f.run(words + "--out x --shard 1/2").status == 0);
  check_refused(f, words + "--join", "--join needs --out: name the directory that the processes share");
  check_refused(f, words + "--out x --join --force", "--force would remove what other processes train");
  check_refused(f, words + "--out x --join --grid placement=pre", "cannot join x: its cells are others");
  check_refused(f, words + "--out x --join --steps 3", "cannot go on with x: --steps is 2 there and 3 here");
  check_refused(f, words + "--out x --shard 3", "--shard 3: write 1/4, 2/4, 3/4 and 4/4 for four parts");
  check_refused(f, words + "--out x --shard 3/2", "--shard 3/2: write 1/4");
  check_refused(f, words + "--out x --shard 1/3", "--shard 1/3: the comparison has only 2 parts to share");
  {
    const DirectoryLock joined(f.path("x"), DirectoryLock::Kind::shared);
    check_refused(f, "compare --out x --resume --no-join --jobs 2", "x is in use by process ");
    CHECK(f.run("compare --out x --join").status == 0);  // a shard began it, any process may end it
    CHECK(f.has("x/.lock"));                             // it is still shared
  }
  CHECK(!f.has("x/.lock"));
}

TEST_CASE("train takes the last value of a repeated option", "[program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --out x" + kSmall;
  REQUIRE(f.run(words + "--steps 3 --steps 2 --min-lr 1e-5 --min-lr 1e-4 --bias --no-bias --init-gain 1 --init-gain 2")
              .status == 0);
  const std::string config = f.read("x/config.toml");
  CHECK(contains(config, "\nsteps = 2\n"));
  CHECK(contains(config, "\nmin-lr = 1e-04\n"));
  CHECK(contains(config, "\nbias = false\n"));
  CHECK(contains(config, "\ninit-gain = 2\n"));
}

TEST_CASE("a short run validates ten times, a long one every 300 steps", "[compare][program]") {
  const auto every = [](const std::string& steps, const std::string& typed = "") {
    return eval_every(from_toml("steps = " + steps + "\n" + typed));
  };
  CHECK(every("200") == 20);
  CHECK(every("5") == 1);
  CHECK(every("3000") == 300);
  CHECK(every("100000") == 300);
  CHECK(every("200", "eval-every = 150") == 150);
  CHECK(every("200", "eval-every = 0") == 0);
  const Corpus f;
  const std::string tiny = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --eval-batches 1 --threads 1 ";
  REQUIRE(f.run("train stories.txt --steps 20 --quiet --out r" + tiny).status == 0);
  CHECK(contains(f.read("r/config.toml"), "\n# eval-every = 2\n"));
  const std::string words = "compare --data stories.txt --steps 20 --grid norm=layernorm,rmsnorm seed=1,2 --out ";
  const Outcome ten = f.run(words + "x" + tiny), one = f.run(words + "y --eval-every 20" + tiny);
  CHECK(read_result(f.path("x/norm=rmsnorm/seed=2"), true).val_loss.size() == 10);
  CHECK(contains(ten.out, "  best"));
  CHECK(contains(ten.out, "lowest validation loss"));
  CHECK(one.status == 0);
  for (const std::string absent : {"  best", "lowest validation loss", "steps until"})
    CHECK(!contains(one.out, absent));
}

TEST_CASE("the table of a comparison fits 100 columns", "[compare][program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --steps 130 --layers 1 --heads 1 --channels 8 --context 16 "
                            "--batch 2 --eval-batches 1 --final-batches 1 --threads 1 --out ";
  const auto widest = [](const std::string& table) {
    std::istringstream lines(table.substr(table.find("\n\n")));
    size_t width = 0;
    for (std::string line; std::getline(lines, line);) width = std::max(width, columns_of(line));
    return width;
  };
  const Outcome all = f.run(words + "x --grid placement=post,pre,deepnorm norm=layernorm seed=1,2 --tune lr=1e-3,1e-2");
  INFO(all.out << all.err);
  REQUIRE(all.status == 0);
  for (const char* column : {"final val", "best", "difference", "seconds", "tokens/s", "clipped", "sensitivity"})
    CHECK(contains(all.out, column));
  CHECK(contains(all.out, "sensitivity to lr: the mean loss of all its values, minus the lowest\n"));
  CHECK(widest(all.out) <= 100);
  const Outcome long_names = f.run(words + "y --grid placement=post norm=layernorm,rmsnorm activation=gelu "
                                           "position=learned qk-norm=none init=gpt2 optimizer=adamw schedule=cosine");
  INFO(long_names.out << long_names.err);
  REQUIRE(long_names.status == 0);
  CHECK(contains(long_names.out, "\n#2  placement=post,norm=rmsnorm,"));
  const size_t table = long_names.out.find("\n#   final");
  REQUIRE(table != std::string::npos);
  CHECK(widest(long_names.out.substr(table - 1)) <= 100);
}

TEST_CASE("a comparison says before it starts how many runs it has and how long they take", "[compare][program]") {
  const Corpus f;
  const std::string model = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --eval-batches 1 --threads 1 ";
  const std::string words = "compare --data stories.txt --steps 8 --grid norm=layernorm,rmsnorm --tune lr=1e-3,1e-2 "
                            "warmup=10%,50% --out x" + model;
  const auto plan = [&](const std::string& command) {
    const std::string out = f.run(command + " --dry-run --json").out;
    return parse_json(out.substr(0, out.find('\n')));
  };
  const auto first = plan(words);
  CHECK(first["runs"] == 2 * (4 + 3));
  CHECK(first["most_runs"] == 2 * (6 + 3));
  CHECK(first["trained"] == 0);
  CHECK(first["seconds"] > 0);
  CHECK(first["most_seconds"].get<double>() / first["seconds"].get<double>() == Approx(18 / 14.));
  const std::string planned = f.run(words + " --dry-run").out;
  CHECK(contains(planned, "\ntime: about "));
  CHECK(contains(planned, " s, at the speed of a few steps of norm=layernorm\n"));
  CHECK_FALSE(contains(f.run(words + " --dry-run --quiet").out, "\ntime: "));
  CHECK(first["most_steps"] == 8);
  CHECK(contains(f.run(words + " --dry-run --quiet").out, "14 to 18 runs of 8 steps into x"));
  const std::string unequal = "compare --data stories.txt --grid norm=layernorm steps=6,9 --out x" + model;
  CHECK(contains(f.run(unequal + " --dry-run --quiet").out, ": 2 runs of 6 to 9 steps into x"));
  CHECK(plan(unequal)["steps"] == 6);

  REQUIRE(f.run(words).status == 0);
  const std::string again = "compare --out x --resume";
  const auto last = plan(again);
  CHECK(last["runs"] == last["most_runs"]);
  CHECK(last["trained"] == last["runs"]);
  CHECK(last["most_seconds"] == 0);
  CHECK_FALSE(contains(f.run(again + " --dry-run").out, "\ntime: "));
  for (const char* cell : {"norm=layernorm", "norm=rmsnorm"}) std::filesystem::remove_all(f.path("x/") + cell);
  CHECK(plan(again)["trained"] == 0);

  const std::string large = "compare --data stories.txt --dry-run --grid norm=layernorm,rmsnorm --out y --batch 64 "
                            "--context 1024 --layers 12 --channels 1024 --heads 16";
  CHECK(contains(f.run(large).out, "\ntime: at least "));
}

TEST_CASE("the plan of many cells takes little time", "[compare][program]") {
  if (std::getenv("SANITIZED")) return;
  const Corpus f;
  std::string rates = "1";
  for (int i = 0; i < 700; ++i) rates += "," + std::to_string(1e-5 * (i + 1));
  const auto seconds = [] {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return double(used.ru_utime.tv_sec) + 1e-6 * double(used.ru_utime.tv_usec);
  };
  const double before = seconds();
  const std::string words = "compare --data stories.txt --dry-run --quiet --out x --grid placement=post,pre lr=";
  CHECK(f.run(words + rates).status == 0);
  CHECK(seconds() - before < 5);  // 2.3 to 3.0 on a busy Xeon: 2 ms per cell, mostly for the tables of options
}
