// How much of a machine the program may use (processors, memory, threads), and how it appears to the system.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "catch.hpp"
#include "data/host/cgroup.hpp"
#include "data/run_directory/directory.hpp"
#include "small_run.hpp"

namespace {

constexpr uint64_t kMB = 1 << 20, kNone = ~uint64_t{0};
const std::string kPlan = "train --data stories.txt --dry-run --quiet ";

// Returns the limits of a system with these files.
CgroupLimits limits_in(const std::vector<std::pair<std::string, std::string>>& files) {
  const Folder f;
  for (const auto& [name, text] : files) f.write(name, text);
  return cgroup_limits(f.path(""));
}

// Returns the line of a text that begins with `word`, or "".
std::string line_of(const std::string& text, const std::string& word) {
  for (const std::string& line : lines_of(text))
    if (line.starts_with(word)) return line;
  return "";
}

Outcome run_with(const Folder& f, const std::string& words, const std::function<void()>& change) {
  f.write(".in", "");
  return f.finish(f.start(words, change));
}

// Starts the program and calls look(its number) once it has made `file`. Then sends `signal`.
Outcome run_and_look(const Folder& f, const std::string& words, const std::string& file, int signal,
                     const std::function<void(const std::string&)>& look, const std::function<void()>& change = [] {}) {
  f.write(".in", "");
  const Started started = f.start(words, change);
  siginfo_t ended{};
  while (!f.has(file) && waitid(P_PID, started.process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(f.has(file));
  look(std::to_string(started.process));
  kill(started.process, signal);
  return f.finish(started);
}

// Threads get stacks of this size, which is larger than any address space.
void forbid_threads() {
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  limit.rlim_cur = std::min<rlim_t>(rlim_t{1} << 48, limit.rlim_max);
  setrlimit(RLIMIT_STACK, &limit);
}

}  // namespace

TEST_CASE("limits of containers are the smallest of the groups on the way up", "[machine]") {
  const std::string unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
  const auto none = limits_in({});
  CHECK(none.memory == kNone);
  CHECK(none.memory_free == kNone);
  CHECK(std::isinf(none.processors));

  // docker and podman with version 2: the container sees its own group as the root
  const auto docker = limits_in({{"proc/self/mountinfo", "1 2 0:1 / / rw - ext4 /dev/sda rw\n" + unified},
                                 {"proc/self/cgroup", "0::/\n"},
                                 {"sys/fs/cgroup/memory.max", "268435456\n"},
                                 {"sys/fs/cgroup/memory.high", "max\n"},
                                 {"sys/fs/cgroup/memory.current", "104857600\n"},
                                 {"sys/fs/cgroup/memory.stat", "anon 9\nfile 31457280\ninactive_file 20971520\n"
                                                               "active_file 10485760\nunevictable 0\n"},
                                 {"sys/fs/cgroup/cpu.max", "150000 100000\n"}});
  CHECK(docker.memory == 256 * kMB);
  CHECK(docker.memory_free == (256 - 100 + 30) * kMB);
  CHECK(docker.processors == 1.5);

  // systemd: the limits are in groups above, and memory.high counts
  const std::string slice = "sys/fs/cgroup/user.slice", scope = slice + "/user-1000.slice/session 1.scope";
  const auto systemd = limits_in({{"proc/self/mountinfo", unified},
                                  {"proc/self/cgroup", "0::/user.slice/user-1000.slice/session 1.scope\n"},
                                  {slice + "/memory.max", "1073741824\n"},
                                  {slice + "/memory.current", "1072693248\n"},
                                  {slice + "/memory.high", "536870912\n"},
                                  {slice + "/user-1000.slice/cpu.max", "50000 100000\n"},
                                  {scope + "/memory.max", "max\n"},
                                  {scope + "/memory.current", "4096\n"},
                                  {scope + "/cpu.max", "max 100000\n"}});
  CHECK(systemd.memory == 512 * kMB);
  CHECK(systemd.memory_free == 0);
  CHECK(systemd.processors == 0.5);

  // version 1: the path is the host's, the mount point is the container's group, and its name has a space
  const std::string v1 = "30 25 0:28 /docker/4f /sys/fs/cgroup/memory\\040x rw shared:9 - cgroup cgroup rw,memory\n"
                         "31 25 0:29 /docker/4f /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                         "32 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string memory = "sys/fs/cgroup/memory x/", cpu = "sys/fs/cgroup/cpu,cpuacct/";
  const std::vector<std::pair<std::string, std::string>> first = {
      {"proc/self/mountinfo", v1},
      {"proc/self/cgroup", "9:memory:/docker/4f/worker\n8:cpu,cpuacct:/docker/4f\n0::/\n"},
      {memory + "memory.limit_in_bytes", "9223372036854771712\n"},
      {memory + "memory.usage_in_bytes", "52428800\n"},
      {memory + "memory.stat", "cache 5\nhierarchical_memory_limit 104857600\ntotal_inactive_file 1048576\n"},
      {memory + "worker/memory.limit_in_bytes", "94371840\n"},
      {memory + "worker/memory.usage_in_bytes", "10485760\n"},
      {cpu + "cpu.cfs_quota_us", "250000\n"},
      {cpu + "cpu.cfs_period_us", "100000\n"}};
  CHECK(limits_in(first).memory == 90 * kMB);
  CHECK(limits_in(first).memory_free == (100 - 50 + 1) * kMB);
  CHECK(limits_in(first).processors == 2.5);

  // a path that is not below the mount, or a group that is gone: what is mounted counts
  auto moved = first;
  moved[1].second = "9:memory:/elsewhere\n8:cpu,cpuacct:/../gone\n";
  CHECK(limits_in(moved).memory == 100 * kMB);
  CHECK(limits_in(moved).processors == 2.5);

  auto unlimited = first;
  unlimited[7].second = "-1\n";
  CHECK(std::isinf(limits_in(unlimited).processors));
}

TEST_CASE("threads within a quota of processor time", "[machine]") {
  CHECK(within_quota(8, INFINITY) == 8);
  CHECK(within_quota(8, 12) == 8);
  CHECK(within_quota(8, 4) == 4);
  CHECK(within_quota(8, 1.5) == 2);
  CHECK(within_quota(8, 1.4) == 1);
  CHECK(within_quota(8, .1) == 1);
}

TEST_CASE("threads follow OpenMP's variables and the processors that are allowed, unless --threads says", "[machine]") {
  if (!contains(Folder().run("--version").out, "OpenMP    yes")) return skip_test("built without OpenMP");
  const Corpus f;
  const auto threads = [&](const std::string& more, const std::function<void()>& change) {
    const std::string line = line_of(run_with(f, kPlan + more, change).out, "machine  ");
    return std::atoi(line.substr(std::min(line.size(), size_t{9})).c_str());
  };
  const auto set = [](const char* name, const char* value) { return [=] { setenv(name, value, 1); }; };
  CHECK(threads("", set("OMP_NUM_THREADS", "3")) == 3);
  CHECK(threads("", set("OMP_NUM_THREADS", "1")) == 1);
  CHECK(threads("--threads 2", set("OMP_NUM_THREADS", "1")) == 2);
  CHECK(threads("--threads 3", set("OMP_THREAD_LIMIT", "2")) == 2);
#if defined(__linux__)
  CHECK(threads("", [] {
          unsetenv("OMP_NUM_THREADS");
          cpu_set_t all, one;
          sched_getaffinity(0, sizeof all, &all);
          CPU_ZERO(&one);
          for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
            if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
          sched_setaffinity(0, sizeof one, &one);
        }) == 1);
#endif
}

#if defined(__linux__)

TEST_CASE("a model that needs more memory than `ulimit` allows is refused in one line", "[machine]") {
  if (std::getenv("SANITIZED")) return;  // the sanitizers' own memory is larger
  const Corpus f;
  const auto limit = [](decltype(RLIMIT_AS) resource) {
    return [=] {
      const rlimit limit{200 * kMB, 200 * kMB};
      setrlimit(resource, &limit);
    };
  };
  const std::string large = "train --data stories.txt --channels 512 --layers 8 --threads 1 ";
  for (const std::string& words : {large + "--out r", large + "--dry-run"}) {
    const Outcome o = run_with(f, words, limit(RLIMIT_AS));
    CHECK(o.status == 1);
    CHECK(contains(o.err, "of memory and `ulimit -v` allows 210 MB: lower --batch"));
    CHECK(count_lines(o.err) == 1);
    CHECK(contains(run_with(f, words, limit(RLIMIT_DATA)).err, "of memory and `ulimit -d` allows 210 MB: "));
  }
}

TEST_CASE("eval refuses a batch too large for the machine", "[machine]") {
  if (std::getenv("SANITIZED")) return;
  const Folder f;
  write_corpus(f.path("stories.txt"), 600000, 1);
  REQUIRE(f.run("train stories.txt --documents file --steps 1 --warmup 0 --position rope --context 8192 --batch 1 "
                "--layers 1 --heads 1 --channels 64 --eval-every 0 --quiet --out r").status == 0);
  const auto limited = [&](const std::string& batch) {
    return run_with(f, "eval r --data stories.txt --threads 1 --batch " + batch, [] {
      const rlimit limit{200 * kMB, 200 * kMB};
      setrlimit(RLIMIT_AS, &limit);
    });
  };
  const Outcome o = limited("1000");  // the text has 73 rows
  INFO(o.out << o.err);
  CHECK(o.status == 1);
  CHECK(contains(o.err, "train_gpt: this needs "));
  CHECK(contains(o.err, ": lower --batch or --context"));
  CHECK(o.out.empty());
  CHECK(limited("1").status == 0);
}

TEST_CASE("--init-from takes a context that fits into the memory, and a comparison asks for one", "[machine][tune]") {
  if (std::getenv("SANITIZED")) return;
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 1 --warmup 0 --position rope --context 8192 --batch 1 --layers 1 --heads 1 "
                "--channels 8 --eval-every 0 --quiet --out r").status == 0);
  const auto limited = [&](const std::string& words) {
    return run_with(f, words + " --init-from r --batch 64 --threads 1 --dry-run", [] {
      const rlimit limit{600 * kMB, 600 * kMB};
      setrlimit(RLIMIT_AS, &limit);
    });
  };
  const Outcome o = limited("train stories.txt");
  INFO(o.out << o.err);
  CHECK(o.status == 0);
  CHECK(contains(o.out, "NOTE     --context is 4096: the model's 8192 would need 533 MB of memory, and half of 629 MB "
                        "is the limit\n"));
  CHECK(contains(limited("train stories.txt --context 512").out, "x context 512)"));
  const Outcome compared = limited("compare stories.txt --grid norm=layernorm,rmsnorm");
  CHECK(compared.status == 1);
  CHECK(contains(compared.err, "the whole context of r, 8192 tokens, needs more than half of the memory: "));
}

TEST_CASE("a run whose threads cannot be started has the fingerprint of its text, and resumes", "[machine]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 4 --save-every 2" + kTiny + "--out ";
  REQUIRE(f.run(words + "r").status == 0);
  const Outcome without = run_with(f, words + "alone", forbid_threads);
  INFO(without.err);
  REQUIRE(without.status == 0);
  CHECK(read_outcome(f.path("alone"))->data_fingerprint == read_outcome(f.path("r"))->data_fingerprint);
  CHECK(last_weights(f, "alone") == last_weights(f, "r"));
  CHECK(f.run("train --out alone --resume --steps 5 --quiet").status == 0);
  if (!contains(f.run("--version").out, "OpenMP    yes")) return;
  const Outcome two = run_with(f, words + "two --threads 2", forbid_threads);
  CHECK(two.status == 1);
  CHECK(two.err == "train_gpt: cannot start 2 threads: Resource temporarily unavailable; try --threads 1\n");
  CHECK_FALSE(f.has("two"));
}

TEST_CASE("the program has its name in ps", "[machine]") {
  if (!std::filesystem::exists("/proc/self/comm")) return skip_test("no /proc");
  const Corpus f;
  const auto name_of = [](const std::string& process) {
    std::ifstream file("/proc/" + process + "/comm");
    std::string name;
    std::getline(file, name);
    return name;
  };
  const std::string words = " --data stories.txt --steps 100000 --layers 1 --heads 1 --channels 8 --context 16 "
                            "--batch 2 --threads 1 ";
  run_and_look(f, "train" + words + "--quiet --out r", "r/metrics.csv", SIGKILL,
               [&](const std::string& process) { CHECK(name_of(process) == "train_gpt"); });
  run_and_look(f, "compare" + words + "--grid placement=pre,post --out c", "c/placement=pre/seed=1/metrics.csv", SIGINT,
               [&](const std::string& process) {
                 std::ifstream children("/proc/" + process + "/task/" + process + "/children");
                 std::string child;
                 if (children >> child) CHECK(name_of(child) == "train_gpt");
               });
}

TEST_CASE("the program starts through an explicit loader", "[machine]") {
  const Corpus f;
  for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}) {
    if (!std::filesystem::exists(loader) || std::getenv("SANITIZED")) continue;
    const std::string with_loader = "cd " + f.path("") + " && " + loader + " " + program_path() + " ";
    CHECK(std::system((with_loader + "--version > version").c_str()) == 0);
    CHECK(f.read("version") == f.run("--version").out);
    const std::string compared = "compare --data stories.txt --steps 2 --layers 1 --heads 1 --channels 8 --context 16 "
                                 "--batch 2 --threads 1 --grid placement=pre,post --out d > log 2>&1";
    CHECK(std::system((with_loader + compared).c_str()) == 0);
  }
}

#endif

TEST_CASE("how long threads spin is set before OpenMP reads it, and leaves the environment as it was", "[machine]") {
  const Folder f;
  const std::string version = f.run("--version").out;
  const Outcome shown = run_with(f, "--version", [] {
    unsetenv("OMP_WAIT_POLICY");  // as dev/mutants.sh sets it
    setenv("OMP_DISPLAY_ENV", "VERBOSE", 1);
  });
  CHECK(shown.out == version);
  const std::string count = line_of(shown.err, "  GOMP_SPINCOUNT = ");
  if (count.empty()) return skip_test("not GNU's OpenMP");
  CHECK((contains(count, "'1000'") || contains(count, "'20000'")));
  const Outcome own = run_with(f, "--version", [] {
    setenv("OMP_DISPLAY_ENV", "VERBOSE", 1);
    setenv("GOMP_SPINCOUNT", "77", 1);
  });
  CHECK(contains(line_of(own.err, "  GOMP_SPINCOUNT = "), "'77'"));
  std::ifstream file("/proc/self/environ");  // as the tests were started
  for (std::string variable; std::getline(file, variable, '\0');) {
    const std::string name = variable.substr(0, variable.find('='));
    const char* value = std::getenv(name.c_str());
    INFO(name);
    CHECK((value && name + "=" + value == variable));
  }
}

TEST_CASE("a signal that is ignored at the start does not end a run", "[machine]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 300" + kTiny + "--out ";
  for (const int signal : {SIGINT, SIGHUP, SIGTERM, SIGUSR1}) {
    const std::string run = "r" + std::to_string(signal);
    const Outcome o = run_and_look(f, words + run, run + "/metrics.csv", signal, [](const std::string&) {},
                                   [signal] { ::signal(signal, SIG_IGN); });
    CHECK(o.status == 0);
    CHECK(read_outcome(f.path(run))->step == 300);
  }
}
