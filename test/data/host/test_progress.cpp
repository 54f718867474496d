// The estimate of the remaining time, before and during training.

#include <algorithm>
#include <cmath>
#include <csignal>

#include "catch.hpp"

#include "data/host/progress.hpp"
#include "message.hpp"
#include "small_run.hpp"
#include "table.hpp"

TEST_CASE("the remaining time adapts when the machine gets busy", "[progress]") {
  Pace pace(10);
  int64_t done = 10;
  double now = 0;
  while (now < 600) pace.reach(++done, now += 1);  // one step per second
  CHECK(pace.seconds_for(100) == Approx(100));
  while (now < 660) pace.reach(++done, now += 5);  // a minute at a fifth of the speed
  CHECK(pace.seconds_for(100) > 300);              // the mean since the start would say 110
  while (now < 900) pace.reach(++done, now += 5);
  CHECK(pace.seconds_for(100) == Approx(500).epsilon(.01));
}

TEST_CASE("the remaining time leaves out what is not training", "[progress]") {
  Pace stopped(0, 300);
  stopped.reach(100, 100);  // one step per second
  stopped.pause(3000);
  stopped.reach(110, 3110);
  CHECK(stopped.seconds_for(100) == Approx(100));
  Pace resumed(0);
  resumed.skip(5000);
  resumed.reach(5010, 10);
  CHECK(resumed.seconds_for(100) == Approx(100));
  Pace again(0);  // runs that were not saved start over
  again.reach(50, 50), again.reach(0, 51), again.reach(49, 100);
  CHECK(again.seconds_for(100) == Approx(100).epsilon(.03));
  CHECK_FALSE(std::isfinite(Pace(7).seconds_for(1)));
}

TEST_CASE("the remaining time of a comparison is steady while runs train and validate by turns", "[progress]") {
  Pace pace(0, 300);
  int64_t done = 0;
  double now = 0, low = 1e9, high = 0;
  while (now < 3600) {
    for (int i = 0; i < 20; ++i) pace.reach(++done, now += 1);
    pace.reach(done, now += 20);
    if (now < 900) continue;
    low = std::min(low, pace.seconds_for(100)), high = std::max(high, pace.seconds_for(100));
  }
  CHECK(low > 180);
  CHECK(high < 220);
}

TEST_CASE("a second of training comes before measurements, which --dry-run makes at once",
          "[progress][program][long]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --layers 1 --heads 1 --channels 8 --context 16 --batch 1 --eval-every 0 ";
  const auto trained = [&](const std::string& run, const std::string& more) {
    return f.run_until(words + "--steps 100000000 --out " + run + more, SIGINT, [&] {
      const std::string rows = f.read(run + "/metrics.csv");
      return count_lines(rows) > 1 && Table(rows.substr(0, rows.rfind('\n') + 1)).numbers("elapsed_s").back() > 1.1;
    });
  };
  const std::string out = trained("measured", "").out;
  CHECK(out.find("\nspeed    at most ") > out.find("\nstep 1/"));
  CHECK(contains(out, " GFLOP/s in fp32\ntime     about "));
  const std::string quiet = trained("quiet", " --quiet").out;
  CHECK_FALSE(contains(quiet, "\nspeed "));
  CHECK_FALSE(contains(quiet, "\ntime "));
  std::vector<std::string> a = losses_in(f.read("measured/metrics.csv")), b = losses_in(f.read("quiet/metrics.csv"));
  a.resize(std::min(a.size(), b.size())), b.resize(a.size());
  CHECK(a == b);

  const std::string brief = f.run(words + "--steps 100 --out brief").out;
  CHECK_FALSE(contains(brief, "\nspeed "));
  CHECK_FALSE(contains(brief, "\ntime "));
  const std::string planned = f.run(words + "--steps 100 --dry-run").out;
  CHECK(contains(planned, "\nspeed    at most "));
  CHECK(contains(planned, "\ntime     about "));
  CHECK_FALSE(contains(f.run(words + "--steps 99 --dry-run").out, "\ntime "));
}
