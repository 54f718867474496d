// Resumed runs: learning rate, number of steps, threads and paths. Also --for.

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <regex>

#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "check.hpp"
#include "data/files/json.hpp"
#include "data/host/peak.hpp"
#include "data/host/progress.hpp"
#include "data/options/command_line.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/schedule.hpp"
#include "data/run_directory/directory.hpp"
#include "small_run.hpp"
#include "table.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kRun = "train --data stories.txt --lr 0.002 --warmup 2 --save-every 1" + kSmall;

std::vector<std::string> rates_of(const Folder& f, const std::string& run) {
  return Table(f.read(run + "/metrics.csv")).all("lr");
}

// Trains the config of `run` in one go and expects the same bits.
void check_replay(const Folder& f, const std::string& run) {
  const Outcome replay = f.run("train --config " + run + "/config.toml --out replay --force --quiet");
  INFO(replay.err);
  REQUIRE(replay.status == 0);
  CHECK(rates_of(f, run) == rates_of(f, "replay"));
  CHECK(same_bits(last_weights(f, run), last_weights(f, "replay")));
}

// Kills `words` in the middle, resumes, and expects the losses of `whole`.
void check_killed(const Folder& f, const std::string& words, const std::string& run, const std::string& whole,
                  size_t rows) {
  const Outcome killed =
      f.run_until(words, SIGKILL, [&] { return count_lines(f.read(run + "/metrics.csv")) > rows; });
  REQUIRE(killed.status == 128 + SIGKILL);
  REQUIRE(f.run("train --out " + run + " --resume --quiet").status == 0);
  CHECK(losses_in(f.read(run + "/metrics.csv")) == losses_in(f.read(whole + "/metrics.csv")));
}

}  // namespace

TEST_CASE("a finished run that gets more steps continues at its final learning rate", "[program][resume][slow]") {
  const Corpus f;
  REQUIRE(f.run(kRun + "--steps 6 --out r").status == 0);
  REQUIRE(f.run(kRun + "--steps 6 --out s").status == 0);
  const Outcome more = f.run("train --out r --resume --steps 40 --quiet");
  CHECK(contains(more.out, "the rate stays at 0.0002: the schedule ended at step 6"));
  const auto rates = rates_of(f, "r");
  REQUIRE(rates.size() == 40);
  CHECK(rates[6] == "0.0002");
  CHECK(rates[39] == "0.0002");
  check_killed(f, "train --out s --resume --steps 40 --quiet", "s", "r", 15);
  check_replay(f, "r");
}

TEST_CASE("a schedule that has ended at 0 is not continued, and the next command begins one", "[program][resume]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --lr 0.002 --warmup 2 --min-lr 0 --steps 4 --out r" + kTiny;
  const Outcome first = f.run(std::regex_replace(words, std::regex(" --quiet"), ""));
  REQUIRE(first.status == 0);
  CHECK(contains(first.out, "train --out r --resume --steps 8 --lr 0.002\n"));
  check_refused(f, "train --out r --resume --steps 8", "the learning rate stays at 0 from step 4 on");
  CHECK(f.run("train --out r --resume --steps 8 --lr 0.002").status == 0);
  const auto rates = rates_of(f, "r");
  REQUIRE(rates.size() == 8);
  CHECK(rates[6] == "0.002");
}

TEST_CASE("a run that ended in its warm-up goes on as a longer run does", "[program][resume]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --lr 0.002 --warmup 10" + kTiny;
  REQUIRE(f.run(words + "--steps 20 --out whole").status == 0);
  for (const std::string steps : {"0", "4", "10"}) {
    const std::string run = "r" + steps;
    REQUIRE(f.run(words + "--steps " + steps + " --out " + run).status == 0);
    const Outcome longer = f.run("train --resume --steps 20 --out " + run);
    CHECK(contains(longer.out, "the schedule, which was in its warm-up, now ends at step 20"));
    CHECK(rates_of(f, run) == rates_of(f, "whole"));
    CHECK(same_bits(last_weights(f, run), last_weights(f, "whole")));
    check_replay(f, run);
  }
}

TEST_CASE("a stopped run that gets another number of steps keeps its schedule", "[program][resume][slow]") {
  const Corpus f;
  REQUIRE(f.run(kRun + "--steps 40 --out whole").status == 0);
  const auto whole = rates_of(f, "whole");
  for (const char* steps : {"30", "45"}) {
    const std::string run = std::string("r") + steps;
    f.run_until(kRun + "--steps 40 --out " + run, SIGINT,
                [&] { return count_lines(f.read(run + "/metrics.csv")) > 5; });
    REQUIRE(read_checkpoint_header(f.path(run + "/checkpoint.safetensors")).step < 30);
    const Outcome o = f.run("train --out " + run + " --resume --quiet --steps " + steps);
    CHECK(contains(o.out, "the schedule still ends at step 40"));
    const auto rates = rates_of(f, run);
    const size_t common = std::min(whole.size(), rates.size());
    CHECK(std::equal(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(common), whole.begin()));
    CHECK(rates.back() == (rates.size() > 40 ? "0.0002" : whole[29]));
    check_replay(f, run);
  }
}

TEST_CASE("an option of the schedule without an effect begins no new one", "[program][resume]") {
  const Corpus f;
  f.must(kRun + "--steps 6 --out r");
  const Outcome idle = f.run("train --out r --resume --steps 9 --decay-steps 3 --dry-run");
  REQUIRE(idle.status == 0);
  CHECK(contains(idle.out, "--decay-steps has no effect"));
  CHECK(!contains(idle.out, "a new schedule"));
  const Outcome given = f.run("train --out r --resume --steps 9 --min-lr 0.0002 --dry-run");
  CHECK(contains(given.out, "a new schedule from step 6"));
  check_refused(f, "train --out r --resume --steps 9 --schedule-end 6 --dry-run",
                "--schedule-end 6: r has already reached step 6; name a later step");
  const std::string ended = kRun + "--steps 6 --schedule-end 3 --out s";  // the same command again
  f.must(ended);
  CHECK(!contains(f.run(ended + " --resume --steps 9 --quiet").err, "name a later step"));
}

TEST_CASE("--lr on resume begins a new schedule", "[program][resume][slow]") {
  const Corpus f;
  const std::string again = "--resume --steps 40 --lr 0.001 --warmup 3 --schedule linear --quiet";
  for (const char* run : {"r", "s"}) REQUIRE(f.run(kRun + "--steps 6 --out " + run).status == 0);
  const Outcome o = f.run("train --out r " + again);
  INFO(o.err);
  CHECK(contains(o.out, "a new schedule from step 6: up to 0.001 by step 9, then linear to 0.0001 at step 40"));
  const auto rates = rates_of(f, "r");
  REQUIRE(rates.size() == 40);
  CHECK(rates[6] == "0.00025");
  CHECK(rates[9] == "0.001");
  CHECK(rates[39].starts_with("0.00012"));
  check_killed(f, "train --out s " + again, "s", "r", 15);
  check_replay(f, "r");
  const Outcome share = f.run("train --out s --resume --steps 45 --warmup 40% --quiet");
  CHECK(contains(share.out, "a new schedule from step 40: up to 0.001 over the first 40% of the steps, then linear"));
  CHECK(rates_of(f, "s")[42] == "0.001");
  CHECK(contains(f.run("train --out s --resume --steps 47 --schedule-end 60 --quiet").out, "at step 60 (the rate was"));
  // And a second new schedule.
  REQUIRE(f.run("train --out r --resume --steps 44 --lr 0.002 --quiet").status == 0);
  check_replay(f, "r");
}

TEST_CASE("a run can be resumed with its own command line", "[program][resume]") {
  const Corpus f;
  REQUIRE(f.run(kRun + "--steps 40 --out whole").status == 0);
  f.run_until(kRun + "--steps 40 --out r", SIGKILL, [&] { return count_lines(f.read("r/metrics.csv")) > 9; });
  REQUIRE(f.run(kRun + "--steps 40 --out r --resume").status == 0);
  CHECK(losses_in(f.read("r/metrics.csv")) == losses_in(f.read("whole/metrics.csv")));
}

TEST_CASE("--resume of a run that is not there says so", "[program][resume]") {
  const Corpus f;
  check_refused(f, "train --out gone --resume", "there is no run gone to go on with");
  CHECK(!f.has("gone"));
}

TEST_CASE("--resume does not start a finished run over whose checkpoint was removed", "[program][resume]") {
  const Corpus f;
  f.must(kRun + " --steps 4 --quiet --out r");
  std::filesystem::remove(f.path("r/checkpoint.safetensors"));
  const std::string best = f.read("r/best.safetensors"), rows = f.read("r/metrics.csv");
  for (const std::string more : {"", " --steps 8"})
    check_refused(f, "train --out r --resume" + more, "cannot resume r: it has finished, and r/checkpoint.safetensors");
  CHECK(f.read("r/best.safetensors") == best);
  CHECK(f.read("r/metrics.csv") == rows);
}

TEST_CASE("--resume to a step that is already done is refused and writes nothing", "[program][resume]") {
  const Corpus f;
  REQUIRE(f.run(kRun + "--steps 6 --out r").status == 0);
  const std::string config = f.read("r/config.toml"), metrics = f.read("r/metrics.csv");
  for (const char* words : {"--steps 4", "--steps 6", ""}) {
    const Outcome o = f.run(std::string("train --out r --resume --quiet ") + words);
    CHECK(o.status == 1);
    CHECK(count_lines(o.err) == 1);
    CHECK(contains(o.err, *words == '\0' || words[8] == '6' ? "r is finished" : "r has already reached step 6"));
    CHECK(f.read("r/config.toml") == config);
    CHECK(f.read("r/metrics.csv") == metrics);
    CHECK(f.has("r/outcome.json"));
  }
}

TEST_CASE("a resumed run keeps the vocabulary of its checkpoint", "[program][resume]") {
  const Folder f;
  const auto write = [&](const std::string& line) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += line;
    f.write("text.txt", text);
  };
  write("ab\n");
  REQUIRE(f.run("train --data text.txt --tokenizer char --steps 2 --out r" + kSmall).status == 0);
  write("cd\n");  // the same token numbers in another alphabet
  const Outcome o = f.run("train --out r --resume --steps 4 --quiet");
  CHECK(o.status == 1);
  CHECK(contains(o.err, "character 'c' (U+0063) is not in the model's vocabulary"));
}

TEST_CASE("another --eval-batches on resume resets the best loss", "[program][resume]") {
  const Corpus f;
  REQUIRE(f.run(kRun + "--steps 6 --out r").status == 0);
  CHECK(std::isfinite(read_checkpoint_header(f.path("r/checkpoint.safetensors")).best_loss));
  const auto going = [&] { return count_lines(f.read("r/metrics.csv")) > 9; };
  const std::string words = "train --out r --resume --steps 100000 --eval-every 50000 --save-every 1 --quiet";
  REQUIRE(f.run_until(words, SIGKILL, going).status == 128 + SIGKILL);
  CHECK(std::isfinite(read_checkpoint_header(f.path("r/checkpoint.safetensors")).best_loss));
  const auto still_going = [&] { return count_lines(f.read("r/metrics.csv")) > 99; };
  REQUIRE(f.run_until(words + " --eval-batches 1", SIGKILL, still_going).status == 128 + SIGKILL);
  const CheckpointHeader header = read_checkpoint_header(f.path("r/checkpoint.safetensors"));
  CHECK(header.step > 6);
  CHECK(std::isinf(header.best_loss));
  CHECK(contains(f.run("train --out r --resume --dry-run --eval-batches 3").out, "best.safetensors is chosen anew"));
}

TEST_CASE("a run of every optimizer resumes to the bit, and with no other optimizer", "[program][resume]") {
  const Corpus f;
  std::vector<std::string> names = {"adamw --moments bf16", "muon --moments bf16",
                                    "adamw --moments bf16 --norm scalenorm"};  // a gain of one number: no whole float
  for (const RunOptimizer& row : run_optimizers()) names.emplace_back(row.name);
  for (const std::string& name : names) {
    const std::string other = name.starts_with("adamw") ? "sgd" : "adamw";
    const std::string run =
        "train --data stories.txt --save-every 0 --lr 1e-3 --schedule wsd --steps 4 --optimizer " + name + kTiny;
    REQUIRE(f.run(run + "--out whole --force").status == 0);
    REQUIRE(f.run(run + "--out r --force --steps 2 --schedule-end 4").status == 0);
    const Outcome o = f.run("train --out r --resume --steps 4 --quiet");
    INFO(name << "\n" << o.err);
    REQUIRE(o.status == 0);
    CHECK(same_bits(last_weights(f, "r"), last_weights(f, "whole")));
    check_refused(f, "train --out r --resume --steps 6 --optimizer " + other, "cannot resume r: ");
  }
  check_refused(f, "train --out r --resume --steps 6 --moments bf16", "cannot resume r: ");
  check_refused(f, "train --out r --resume --steps 6 --parametrization mup --base-channels 16",
                "cannot resume r: --parametrization is \"sp\" there and \"mup\" here");
  // The bias of experts is a tensor that no optimizer updates.
  const std::string experts =
      "train --data stories.txt --save-every 0 --lr 1e-3 --steps 4 --experts 3 --router-bias 0.01" + kTiny;
  REQUIRE(f.run(experts + "--out whole --force").status == 0);
  REQUIRE(f.run(experts + "--out m --steps 2 --schedule-end 4").status == 0);
  REQUIRE(f.run("train --out m --resume --steps 4 --quiet").status == 0);
  CHECK(same_bits(last_weights(f, "m"), last_weights(f, "whole")));
  // for NorMuon, the last optimizer
  CHECK(contains(f.read("r/checkpoint.safetensors"), "optimizer.second_momentum_buffer.block.0.ffn.up.weight"));
  CHECK(contains(f.read("r/checkpoint.safetensors"), "optimizer.exp_avg_sq.embedding.token.weight"));
  check_refused(f, "train --data stories.txt --optimizer sgd --cautious-decay --out x", "another --optimizer than sgd");
  check_refused(f, "train --data stories.txt --moments bf16 --textbook --out x", "leave --moments out");
  for (const std::string optimizer : {"sgd", "lion", "adafactor"})
    check_refused(f, "train --data stories.txt --moments bf16 --out x --optimizer " + optimizer, optimizer);
  check_refused(f, "train --data stories.txt --lr-head 1e-3 --out x", "--lr-head needs a classifier of its own");
}

TEST_CASE("a run resumes from another folder, with its own number of threads", "[program][resume]") {
  const Corpus f;
  const Folder elsewhere;
  REQUIRE(f.run(kRun + "--steps 4 --threads 1 --out r").status == 0);
  const Outcome o = elsewhere.run("train --out " + f.path("r") + " --resume --steps 6 --quiet");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "machine  1 thread"));
  CHECK(contains(f.read("r/config.toml"), "threads = 1"));
  CHECK(elsewhere.run("train --config " + f.path("r/config.toml") + " --out again --quiet").status == 0);

  REQUIRE(f.run("compare --data stories.txt --steps 4 --grid placement=post --out c" + kSmall).status == 0);
  CHECK(elsewhere.run("compare --out " + f.path("c") + " --resume --grid placement=post,pre").status == 0);
}

TEST_CASE("the learning rate of a step follows the schedule of that step", "[resume]") {
  TrainOptions o;
  o.steps = 100, o.rate = {.lr = 1, .min_lr = .5, .warmup = 0, .schedule = Schedule::linear};
  CHECK(rate_at(o, 50) == .75);
  TrainOptions shorter = o;
  cool_down(shorter, 50, 60);
  CHECK(shorter.steps == 60);
  for (const int64_t step : {0, 10, 49, 50}) CHECK(rate_at(shorter, step) == rate_at(o, step));
  CHECK(rate_at(shorter, 55) == .625);
  cut_short(shorter, 57);
  CHECK(shorter.steps == 57);
  CHECK(rate_at(shorter, 55) == .625);
  CHECK(rate_at(from_toml(to_toml(with_vocabulary(shorter))), 33) == rate_at(o, 33));
  o.rate.warmup_percent = 20, o.steps = 50;
  const TrainOptions known = with_vocabulary(o);
  for (const TrainOptions& same : {o, from_toml(to_toml(known)), train_options_of(to_json(known))}) {
    CHECK(rate_at(same, 0) == 1 / 11.);
    CHECK(rate_at(same, 10) == 1);
  }
  o.rate.warmup_percent = 0, o.steps = 100;
  for (const Schedule endless : {Schedule::constant, Schedule::inverse_sqrt}) {
    o.rate.schedule = endless;
    TrainOptions shorter = o;
    cool_down(shorter, 50, 60);
    CHECK(rate_at(shorter, 59) == rate_at(o, 59));
  }
  o.schedule_start = 10, o.earlier_schedules = {"0 ten linear 1 1 1"};
  CHECK_THROWS_AS(rate_at(o, 3), std::invalid_argument);
}

// Two spinning processes keep the machine busy.
TEST_CASE("--for limits the wall-clock time of the whole run, even on a busy machine", "[program][resume]") {
  const Corpus f;
  std::vector<pid_t> spinning;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0)
      for (volatile bool on = true; on;) {
      }
    spinning.push_back(child);
  }
  const Stopwatch clock;
  const Outcome o = f.run(
      "train --data stories.txt --for 2s --val-fraction 0.8 --batch 1 --layers 1 --heads 2 --channels 32 "
      "--context 32 --eval-every 100 --out r");
  const double seconds = clock.seconds();
  for (const pid_t child : spinning) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(seconds > .5);
  CHECK(seconds < 4);
  CHECK(read_outcome(f.path("r"))->finished);
  check_replay(f, "r");
}

TEST_CASE("--for ends a run at once whose time is over, without cooling down", "[program][resume][slow]") {
  const Corpus f;
  const Outcome o = f.run_paused("train --data stories.txt --for 3s --out r" + kSmall, 3.5,
                                 [&] { return f.has("r/metrics.csv") && count_lines(f.read("r/metrics.csv")) > 2; });
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(read_outcome(f.path("r"))->finished);
  CHECK(!contains(f.read("r/config.toml"), "earlier-schedules = "));
}

TEST_CASE("a resumed run keeps its time limit, and a new length replaces it", "[program][resume]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --for 3s --save-every 5 --out r" + kSmall;
  const auto limit = [&] { return read_checkpoint_header(f.path("r/checkpoint.safetensors")).options.time_in_all; };
  const auto rows = [&] { return count_lines(f.read("r/metrics.csv")); };
  // Killed before the first save, then twice after one.
  REQUIRE(f.run_until(words, SIGKILL, [&] { return f.has("r/config.toml"); }).status == 128 + SIGKILL);
  CHECK(contains(f.read("r/config.toml"), "time-in-all = 3\n"));
  const std::string again = "train --out r --resume --quiet";
  for (const int signal : {SIGKILL, SIGINT}) {
    const size_t enough = rows() + 20;
    REQUIRE(f.run_until(again, signal, [&] { return rows() > enough; }).status == 128 + signal);
    CHECK(limit() == 3);
  }
  fs::copy(f.path("r"), f.path("steps"));
  const double over = read_checkpoint_header(f.path("r/checkpoint.safetensors")).elapsed;
  const Stopwatch clock;
  const Outcome o = f.run(again);
  CHECK(clock.seconds() < 3 - over + 1.5);
  CHECK(contains(o.out, "resume   --for still ends the run after 3 s of training in all, of which "));
  CHECK(contains(o.out, " are over; a new --for or --steps changes that"));
  CHECK(read_outcome(f.path("r"))->finished);
  check_refused(f, again, "is finished: say how far to go on");
  REQUIRE(f.run(again + " --for 0.2s").status == 0);
  CHECK(limit() > over + .2);

  const Outcome steps = f.run("train --out steps --resume --quiet --steps 60");
  CHECK_FALSE(contains(steps.out, "--for still"));
  const CheckpointHeader end = read_checkpoint_header(f.path("steps/checkpoint.safetensors"));
  CHECK(end.step == 60);
  CHECK(end.options.time_in_all == 0);
  CHECK_FALSE(contains(f.read("steps/config.toml"), "time-in-all"));
}

TEST_CASE("--for and --steps exclude each other", "[program][resume]") {
  const Corpus f;
  check_refused(f, "train --data stories.txt --for 10s --steps 4", "both say how long to train: leave one out");
  f.write("recipe.toml", "steps = 1000000\n");
  CHECK(f.run("train --config recipe.toml --data stories.txt --for 0.1s --out r" + kSmall).status == 0);
}

TEST_CASE("the machine's peak is measured once, and not for a quiet run", "[cost]") {
  const double flops = measure_flops(Matmul::fp32);
  for (int i = 0; i < 9; ++i) CHECK(measure_flops(Matmul::fp32) == flops);  // two measurements would differ
  const Corpus f;
  CHECK_FALSE(contains(f.run(kRun + "--steps 1 --out r").out, "GFLOP/s"));
}
