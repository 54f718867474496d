#include "pool.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "data/files/files.hpp"
#include "data/host/interrupt.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"

namespace fs = std::filesystem;

namespace {

// Opens a run's log.txt and locks it. Returns -1 if another process holds the lock. The run inherits the open file and
// with it the lock, so the lock lasts as long as the run.
int claim_log(const Job& job) {
  make_folder(job.directory);
  const std::string path = job.directory + "/log.txt";
  const int log = open_to_append(path);
  if (flock(log, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return log;
  close(log);
  return -1;
}

// Returns the file that this program's code was loaded from, or "" if the system does not tell.
std::string file_of_code() {
  std::ifstream maps("/proc/self/maps");  // "5580a000-5580e000 r-xp 00002000 08:01 1234   /usr/bin/train_gpt"
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    int path = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx %*s %*s %*s %*s %n", &begin, &end, &path) < 2 || path == 0) continue;
    const auto here = reinterpret_cast<uintptr_t>(&is_trained);
    if (begin <= here && here < end) return line.substr(static_cast<size_t>(path));
  }
  return "";
}

// Returns the running binary. Under an explicit loader the system names the loader instead; then returns `typed`.
std::string own_binary(const std::string& typed) {
  const std::string self = "/proc/self/exe";  // stays the same binary even if its file is replaced
  std::error_code none;
  const fs::path named = fs::read_symlink(self, none);
  return !none && named == file_of_code() ? self : typed;
}

// Starts the job in its own process group, so that only this process passes Ctrl-C to it. The system kills it if this
// process dies, so that no run is active when the comparison is resumed. Closes `log`.
pid_t start(const std::string& program, const Job& job, int log) {
  const std::string binary = own_binary(program);
  std::vector<std::string> words = job.words;
  words.insert(words.begin(), program);
  words.push_back(fs::exists(last_checkpoint(job.directory)) ? "--resume" : "--force");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  // Block signals until the child has reset their handlers; the inherited handlers would swallow them.
  sigset_t stops, before;
  sigemptyset(&stops);
  for (const int signal : kStopSignals) sigaddset(&stops, signal);
  sigprocmask(SIG_BLOCK, &stops, &before);
  const pid_t child = fork();
  if (child != 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(log);
    if (child < 0) fail_file("start", binary, errno);
    return child;
  }
  for (const int signal : kStopSignals)
    if (signal == SIGINT || !is_ignored(signal)) std::signal(signal, SIG_DFL);  // this process stops it by SIGINT
  sigprocmask(SIG_SETMASK, &before, nullptr);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvp(binary.c_str(), argv.data());
  _exit(127);
}

// Step and loss from the last complete line of a metrics.csv.
struct Place {
  int64_t step = 0;
  double loss = 0;
};

Place place_of(const std::string& directory) {
  const std::string path = directory + "/" + kMetrics;
  if (std::error_code none; !fs::is_regular_file(path, none)) return {};
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg(), from = std::max<std::streamoff>(0, size - 512);
  std::string tail(static_cast<size_t>(size - from), '\0');
  file.seekg(from);
  file.read(tail.data(), size - from);
  tail.resize(tail.rfind('\n') == tail.npos ? 0 : tail.rfind('\n'));
  const size_t line = tail.rfind('\n') == tail.npos ? 0 : tail.rfind('\n') + 1;
  const std::vector<std::string> fields = csv_fields(tail.substr(line));
  if (fields.size() < 4 || fields[0] == "step") return {};
  return {std::atoll(fields[0].c_str()), std::strtod(fields[3].c_str(), nullptr)};
}

// Estimate the remaining time from the last minutes. In half a minute a run may only train, or only validate.
constexpr double kMemory = 300, kNap = .02;  // seconds

// Jobs that wait, and processes that run.
class Pool {
 public:
  using Ended = std::function<void(size_t, int, Progress&)>;

  Pool(const std::string& program, const std::vector<Job>& jobs, size_t at_once, int64_t before, int64_t after,
       const Ended& ended)
      : program_(program), jobs_(jobs), at_once_(at_once), ended_(ended), waiting_(jobs.size()), done_(before),
        total_(std::accumulate(jobs.begin(), jobs.end(), before + after,
                               [](int64_t sum, const Job& job) { return sum + job.steps; })),
        progress_(Pace(before, kMemory), total_) {
    std::iota(waiting_.begin(), waiting_.end(), size_t{0});
    std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD were ignored, waitpid() would return no status
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {  // after an exception some may still run
    for (const Running& r : running_) kill(r.process, SIGKILL);
    for (const Running& r : running_) waitpid(r.process, nullptr, 0);
  }

  void run() {
    while (!running_.empty() || (!waiting_.empty() && !interrupted())) {
      start_some();
      if (interrupted()) pass_on_stop();
      nap();
      collect_ended();
      running_.empty() ? show_waiting() : show_running();
    }
  }

 private:
  struct Running {
    size_t job;
    pid_t process;
  };

  void start_some() {
    if (clock_.seconds() < again_) return;
    for (size_t i = 0; i < waiting_.size() && running_.size() < at_once_ && !interrupted();) {
      const size_t job = waiting_[i];
      const int log = claim_log(jobs_[job]);
      if (log < 0) {
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      if (is_trained(jobs_[job].directory)) {  // by another process after the jobs were planned
        close(log);
        done_ += jobs_[job].steps;
        ended_(job, 0, progress_);
      } else {
        progress_.pace().skip(place_of(jobs_[job].directory).step);
        running_.push_back({job, start(program_, jobs_[job], log)});
      }
    }
    if (running_.size() < at_once_) again_ = clock_.seconds() + 1;
  }

  void pass_on_stop() {
    if (!std::exchange(stopped_, true))
      for (const Running& r : running_) kill(r.process, SIGINT);
  }

  void nap() {
    const Stopwatch clock;
    std::this_thread::sleep_for(std::chrono::duration<double>(kNap));
    if (const double longer = clock.seconds() - kNap; longer > 1) progress_.pace().pause(longer);  // stopped, or asleep
  }

  void collect_ended() {
    for (size_t i = 0; i < running_.size();) {
      int status = 0;
      if (waitpid(running_[i].process, &status, WNOHANG) == 0) {
        ++i;
        continue;
      }
      const size_t job = running_[i].job;
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      done_ += jobs_[job].steps;
      if (!stopped_) ended_(job, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), progress_);
    }
  }

  void show_waiting() {
    if (waiting_.empty()) return;
    progress_.update(std::min(done_, total_ - 1), [&] {
      return "other processes train " + counted(double(waiting_.size()), "run");
    });
  }

  void show_running() {
    int64_t steps = 0;
    for (const Running& r : running_) steps += place_of(jobs_[r.job].directory).step;
    const Job& shown = jobs_[running_[0].job];
    const Place place = place_of(shown.directory);
    // Stay below the total, because a job is still running.
    progress_.update(std::min(done_ + steps, total_ - 1), [&] {
      if (place.step == 0) return shown.label;
      return format("loss %.4f at ", place.loss) + std::to_string(place.step) + "  " + shown.label;
    });
  }

  const std::string& program_;
  const std::vector<Job>& jobs_;
  const size_t at_once_;
  const Ended& ended_;
  std::vector<size_t> waiting_;
  std::vector<Running> running_;
  int64_t done_;  // steps
  const int64_t total_;
  Progress progress_;
  Stopwatch clock_;
  double again_ = 0;  // when to try runs of other processes again
  bool stopped_ = false;
};

}  // namespace

bool is_trained(const std::string& run_directory) {
  const auto outcome = read_outcome(run_directory);
  return outcome && outcome->measured;
}

bool run_jobs(const std::string& program, const std::vector<Job>& jobs, int at_once, int64_t before, int64_t after,
              const std::function<void(size_t, int, Progress&)>& ended) {
  Pool(program, jobs, static_cast<size_t>(at_once), before, after, ended).run();
  return !interrupted();
}
