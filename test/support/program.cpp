#include "program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "data/host/process.hpp"

namespace fs = std::filesystem;

// Gives the programs that tests start the tests' original environment. Not in main.cpp, which is also linked without
// data/.
[[maybe_unused]] const bool kBegun = (begin_process("tests"), true);

std::string program_path() {
  std::error_code none;  // not every system has /proc
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  return fs::absolute(none ? fs::path(tests_as_typed) : self).parent_path() / "train_gpt";
}

size_t one_of(size_t n) { return std::getenv("SANITIZED") ? n : 1; }

// A folder in memory if there is room and the user names no other: on a disk, a file that is written again waits for
// the file before it, and so does a checkpoint that is saved.
static fs::path folder_of_tests() {
  std::error_code none;  // not every system has it
  const fs::space_info memory = fs::space("/dev/shm", none);
  if (!none && memory.available > size_t{2} << 30 && !std::getenv("TMPDIR")) return "/dev/shm";
  return fs::temp_directory_path();
}

Folder::Folder() {
  std::string pattern = folder_of_tests() / "train_gpt-XXXXXX";
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  root_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void Folder::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string Folder::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool Folder::has(const std::string& name) const { return fs::exists(path(name)); }

Started Folder::start(const std::string& words, const std::function<void()>& change) const {
  const std::string log = path(".log") + std::to_string(started_++);
  std::istringstream in(program_path() + " " + words);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : list) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child != 0) return {child, log};
  const auto redirect = [](const std::string& name, int flags, int to) {
    const int handle = open(name.c_str(), flags, 0600);
    dup2(handle, to);
    if (handle > STDERR_FILENO) close(handle);
  };
  redirect(path(".in"), O_RDONLY | O_CREAT, STDIN_FILENO);
  redirect(log + ".out", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  redirect(log + ".err", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  if (chdir(root_.c_str()) != 0) _exit(126);
  // Under nohup or in a shell's background, the tests ignore these signals, and a child would inherit that.
  for (const int stop : {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGUSR1}) signal(stop, SIG_DFL);
  change();
  execv(argv[0], argv.data());
  _exit(127);
}

Outcome Folder::finish(const Started& started) const {
  int status = 0;
  waitpid(started.process, &status, 0);
  const auto text = [&](const char* end) { return read(fs::path(started.log).filename().string() + end); };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text(".out"), text(".err")};
}

void Folder::must(const std::string& words) const {
  const Outcome o = run(words);
  INFO(words << "\n" << o.err);
  REQUIRE(o.status == 0);
}

Outcome Folder::run(const std::string& words, const std::string& in) const {
  write(".in", in);
  return finish(start(words));
}

Outcome Folder::run_with_little_space(const std::string& words, size_t bytes) const {
  return finish(start(words, [bytes] {
    const rlimit limit{bytes, bytes};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
  }));
}

Outcome Folder::run_until(const std::string& words, int signal, const std::function<bool()>& ready) const {
  const Started started = start(words);
  siginfo_t ended{};
  while (!ready() && waitid(P_PID, started.process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(started.process, signal);
  return finish(started);
}

Outcome Folder::run_paused(const std::string& words, double seconds, const std::function<bool()>& ready) const {
  const Started started = start(words);
  siginfo_t ended{};
  while (!ready() && waitid(P_PID, started.process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(started.process, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  kill(started.process, SIGCONT);
  return finish(started);
}

// Does not use ru_maxrss, because a child's includes the memory of the tests that forked it.
size_t Folder::peak_of(const std::string& words) const {
  write(".in", "");
  const Started started = start(words);
  const std::string status = "/proc/" + std::to_string(started.process) + "/status";
  size_t peak = 0;
  siginfo_t ended{};
  while (waitid(P_PID, started.process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
    std::ifstream file(status);
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("VmHWM:")) peak = 1024 * std::stoul(line.substr(6));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return finish(started).status == 0 ? peak : 0;
}

std::vector<std::string> losses_in(const std::string& metrics) {
  std::vector<std::string> lines;
  std::istringstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string kept;
    int column = 0;
    for (std::string field; std::getline(in, field, ','); ++column)
      if (column != 2 && column < 9) kept += field + ",";  // not elapsed_s, step_ms, tokens_per_second
    lines.push_back(kept);
  }
  return lines;
}
