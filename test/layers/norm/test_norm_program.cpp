// The whole program with ScaleNorm, BatchNorm, DyT, Derf and GatedNorm.

#include "check.hpp"
#include "small_run.hpp"

TEST_CASE("BatchNorm's running statistics are part of a run", "[program][slow]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --schedule constant --norm batchnorm --diagnostics 4 "
                            "--accumulate 2" + kSmall + "--eval-every 0 ";
  REQUIRE(f.run(words + "--steps 8 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 4 --out parts").status == 0);
  const std::vector<float> halfway = last_weights(f, "parts");
  REQUIRE(f.run("train --out parts --resume --recompute --steps 8").status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")) == losses_in(f.read("parts/metrics.csv")));
  CHECK(f.read("whole/diagnostics.csv") == f.read("parts/diagnostics.csv"));
  const std::vector<float> weights = last_weights(f, "whole");
  CHECK(same_bits(weights, last_weights(f, "parts")));
  CHECK_FALSE(same_bits(weights, halfway));

  // The steps that --for measures before training do not change the result.
  REQUIRE(f.run(words + "--for 1s --out timed").status == 0);
  REQUIRE(f.run("train --config timed/config.toml --out again --quiet").status == 0);
  CHECK(same_bits(last_weights(f, "timed"), last_weights(f, "again")));

  const std::string table = f.run("info whole").out;
  CHECK(contains(table, "running_var"));
  CHECK(contains(table, "not trained"));
  CHECK(f.run("sample whole --length 20").status == 0);
  CHECK(f.run("eval whole --data stories.txt").status == 0);
}

TEST_CASE("compare and init-report take every norm", "[program][slow]") {
  const Corpus f;
  const Outcome o = f.run("compare --data stories.txt --steps 3 --out c "
                          "--grid norm=scalenorm,batchnorm,dyt,derf,gatednorm "
                          "+ norm=rmsnorm norm-unit-offset=true + norm=derf dyt-alpha=1" + kSmall);
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(count_lines(f.read("c/summary.csv")) == 8);
  const Outcome looked = f.run("init-report --data stories.txt --grid norm=scalenorm,batchnorm,dyt,derf,gatednorm "
                               "layers=2 channels=32 heads=2");
  INFO(looked.err);
  CHECK(looked.status == 0);
  const Outcome refused =
      f.run("train --data stories.txt --norm scalenorm --norm-unit-offset --steps 1 --out no" + kSmall);
  CHECK(refused.status == 1);
  CHECK(count_lines(refused.err) == 1);
  CHECK(!f.has("no"));
}
