// Several processes in one directory: locks, names of directories and temporary files, standard streams.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "data/files/files.hpp"
#include "data/options/command_line.hpp"
#include "catch.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

TEST_CASE("a run that another process trains is refused, even while that process is paused", "[program][locks]") {
  const Corpus f;
  std::vector<Started> others;
  const Started first = f.start("train --data stories.txt --steps 1000000 --save-every 5 --out r" + kTiny);
  siginfo_t ended{};
  while (!f.has("r/checkpoint.safetensors") && waitid(P_PID, first.process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0)
    usleep(1000);
  REQUIRE(ended.si_pid == 0);
  kill(first.process, SIGSTOP);
  for (const std::string& words :
       {std::string("train --out r --resume --steps 9 --quiet"), "train --data stories.txt --out r --force" + kTiny,
        "compare --data stories.txt --grid seed=1 --steps 3 --out r" + kTiny + "--eval-every 3"})
    others.push_back(f.start(words));
  for (const Started& other : others) {
    const Outcome refused = f.finish(other);
    CHECK(refused.status == 1);
    CHECK(contains(refused.err, "r is in use by process " + std::to_string(first.process) + " on "));
    CHECK(count_lines(refused.err) == 1);
  }
  kill(first.process, SIGKILL);
  CHECK(f.finish(first).status == 128 + SIGKILL);
  const int64_t step = read_checkpoint_header(f.path("r/checkpoint.safetensors")).step;
  const Outcome resumed = f.run("train --out r --resume --quiet --steps " + std::to_string(step + 2));
  INFO(resumed.err);
  CHECK(resumed.status == 0);  // the lock died with its holder
  CHECK(!f.has("r/.lock"));
}

TEST_CASE("runs that start at the same time get their own directories", "[program][locks]") {
  const Corpus f;
  std::vector<Started> all;
  for (int seed = 1; seed <= 6; ++seed)
    all.push_back(f.start("train --data stories.txt --steps 3 --seed " + std::to_string(seed) + kTiny));
  for (const Started& one : all) {
    const Outcome o = f.finish(one);
    INFO(o.err);
    CHECK(o.status == 0);
  }
  std::vector<std::string> seeds;
  for (int run = 1; run <= 6; ++run) {
    const std::string folder = "runs/000" + std::to_string(run) + "-pre-layernorm";
    REQUIRE(f.has(folder + "/checkpoint.safetensors"));
    const TrainOptions saved = read_checkpoint_header(f.path(folder + "/checkpoint.safetensors")).options;
    CHECK(from_toml(f.read(folder + "/config.toml")).seed == saved.seed);
    CHECK(names_in(f.path(folder)) ==
          std::vector<std::string>{"checkpoint.safetensors", "config.toml", "history.jsonl", "metrics.csv",
                                   "outcome.json"});
    seeds.push_back(std::to_string(saved.seed));
  }
  std::sort(seeds.begin(), seeds.end());
  CHECK(seeds == std::vector<std::string>{"1", "2", "3", "4", "5", "6"});
}

TEST_CASE("a temporary file follows no link and outlives its process only until the next save", "[program][locks]") {
  const Folder f;
  f.write("victim", "precious");
  const std::string self = std::to_string(getpid());
  for (const std::string& planted : {std::string("x.partial"), "x." + self + ".partial"})
    fs::create_symlink(f.path("victim"), f.path(planted));
  f.write("x.4000000.partial", "of a process that was killed");
  f.write("x.note.partial", "somebody's");
  {
    WholeFile first(f.path("x")), second(f.path("x"));  // the second must leave the first alone
    first.write("one"), second.write("two");
    first.finish(), second.finish();
    first.publish();
    CHECK(f.read("x") == "one");
    second.publish();
    CHECK(f.read("x") == "two");
  }
  CHECK(f.read("victim") == "precious");
  CHECK(!f.has("x.4000000.partial"));
  CHECK(f.has("x.note.partial"));
}

TEST_CASE("output never ends up in another file, and output that cannot be written is an error",
          "[program][locks][slow]") {
  const Corpus f;
  const auto closed = [](int stream) { return [stream] { close(stream); }; };
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const std::string out = "r" + std::to_string(stream);
    CHECK(f.finish(f.start("train --data stories.txt --steps 3 --out " + out + kTiny, closed(stream))).status == 0);
    CHECK(f.read(out + "/metrics.csv").starts_with("step,"));
    CHECK(count_lines(f.read(out + "/metrics.csv")) == 4);
  }
  if (!fs::exists("/dev/full")) return;
  for (const char* words : {"sample r0 --prompt A --length 9", "eval r0 --data stories.txt", "info r0",
                            "info r0 --cost", "--help", "train --help", "corpus --bytes 9k --out new.txt",
                            "train --data stories.txt --dry-run", "init-report --data stories.txt --layers 1"}) {
    const Outcome o = f.finish(f.start(words, [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); }));
    INFO(words << "\n" << o.err);
    CHECK(o.status == 1);
    CHECK(contains(o.err, "train_gpt: cannot write standard output: No space left on device"));
  }
}

TEST_CASE("a step with more than 2^31 - 1 sequences is refused", "[program][locks]") {
  const Corpus f;
  for (const char* words : {"train --data stories.txt --batch 65536 --accumulate 65536 --out r",
                            "compare --data stories.txt --grid batch=65536 --accumulate 65536 --out r",
                            "train --data stories.txt --batch 1048576 --accumulate 1048576 --dry-run"}) {
    check_refused(f, words, "sequences per step: choose at most 2147483647");
    CHECK(!f.has("r"));
  }
}

TEST_CASE("running out of memory ends with one line, wherever it happens", "[program][locks]") {
  if (std::getenv("SANITIZED")) return;  // the sanitizers' own memory is larger than any of these limits
  const Corpus f;
  int refused = 0;
  for (rlim_t megabytes = 60; megabytes <= 300; megabytes += 60) {
    const Outcome o = f.finish(
        f.start("train --data stories.txt --layers 1 --channels 512 --context 64 --batch 8 --threads 2 --steps 1 "
                "--force --quiet --out r",
                [=] {
                  const rlimit limit{megabytes << 20, megabytes << 20};
                  setrlimit(RLIMIT_AS, &limit);
                }));
    INFO(megabytes << " MB\n" << o.err);
    CHECK((o.status == 0 || (o.status == 1 && contains(o.err, "emory"))));
    refused += o.status == 1;
  }
  CHECK(refused > 0);
}
