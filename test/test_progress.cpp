// The estimate of the remaining time, before and during training.

#include "catch.hpp"

#include "data/host/progress.hpp"
#include "small_run.hpp"

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

TEST_CASE("the plan estimates the time of a run, unless the run is short or quiet", "[progress][program]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --layers 1 --heads 1 --channels 8 --context 16 --batch 1 --eval-every 0 ";
  const Outcome planned = f.run(words + "--steps 200 --out planned");
  CHECK(contains(planned.out, "\ntime     about 0:0"));
  CHECK_FALSE(contains(f.run(words + "--steps 99 --out short").out, "\ntime "));
  CHECK_FALSE(contains(f.run(words + "--steps 200 --out quiet --quiet").out, "\ntime "));
  CHECK(contains(f.run(words + "--steps 200 --dry-run").out, "\ntime     about 0:0"));
  CHECK(losses_in(f.read("planned/metrics.csv")) == losses_in(f.read("quiet/metrics.csv")));
}
