#include "peer.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/host/machine.hpp"

namespace {

// Compiling a model takes PyTorch a minute or two.
constexpr int kPatienceMs = 300'000;

// Settings that limit libraries to the instructions of a lesser processor: MKL, oneDNN, OpenBLAS, PyTorch's own loops,
// and the code of its compiler. On AMD's processors MKL_ENABLE_INSTRUCTIONS has no effect, but MKL_CBWR has. oneDNN and
// OpenBLAS cannot be limited to SSE2: they keep using SSE4, which is more.
struct Hold {
  const char *simd, *variable, *value;
};
constexpr Hold kHolds[] = {
    {"AVX2", "MKL_ENABLE_INSTRUCTIONS", "AVX2"},      {"SSE2", "MKL_ENABLE_INSTRUCTIONS", "SSE4_2"},
    {"AVX2", "MKL_CBWR", "AVX2"},                     {"SSE2", "MKL_CBWR", "COMPATIBLE"},
    {"AVX2", "ONEDNN_MAX_CPU_ISA", "AVX2"},           {"SSE2", "ONEDNN_MAX_CPU_ISA", "SSE41"},
    {"AVX2", "OPENBLAS_CORETYPE", "Haswell"},         {"SSE2", "OPENBLAS_CORETYPE", "Nehalem"},
    {"AVX2", "ATEN_CPU_CAPABILITY", "avx2"},          {"SSE2", "ATEN_CPU_CAPABILITY", "default"},
    {"AVX2", "TORCHINDUCTOR_CPP_MARCH", "x86-64-v3"}, {"SSE2", "TORCHINDUCTOR_CPP_MARCH", "x86-64"},
};

bool processor_has_more([[maybe_unused]] const std::string& simd) {
#if defined(__x86_64__)
  return simd == "AVX2" ? __builtin_cpu_supports("avx512f") : simd == "SSE2" && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

void hold_libraries(const std::string& simd) {
  if (!processor_has_more(simd)) return;
  for (const Hold& hold : kHolds)
    if (simd == hold.simd) setenv(hold.variable, hold.value, 1);
}

}  // namespace

Peer::Peer(const std::string& command, int threads) {
  if (command.empty()) return;
  std::signal(SIGPIPE, SIG_IGN);  // if the peer died, write() fails instead
  int in[2], out[2];
  if (pipe(in) != 0 || pipe(out) != 0) throw std::runtime_error("no pipe to the peer");
  pid_ = fork();
  if (pid_ == 0) {
    unsetenv("KMP_BLOCKTIME");  // it is for our own threads; PyTorch runs with its default
    hold_libraries(detect_machine().simd);
    std::signal(SIGPIPE, SIG_DFL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (int end : {in[0], in[1], out[0], out[1]}) close(end);
    const std::string line = "exec " + command + " --threads " + std::to_string(threads);
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1], from_ = out[0];
  about_ = pid_ > 0 ? ask("about") : "";
  if (pid_ < 0) leave("cannot be started");
}

Peer::~Peer() {
  if (!present()) return;
  close(to_);  // the peer ends at the end of its input
  close(from_);
  waitpid(pid_, nullptr, 0);
}

void Peer::leave(const std::string& why) {
  std::printf("peer: %s; continuing without it\n", why.c_str());
  close(to_);
  close(from_);
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = 0;
}

std::string Peer::ask(const std::string& request) {
  const std::string line = request + "\n";
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    leave("is gone");
    return "error";
  }
  size_t end;
  while ((end = unread_.find('\n')) == std::string::npos) {
    pollfd wait{from_, POLLIN, 0};
    char text[4096];
    const bool ready = poll(&wait, 1, kPatienceMs) > 0;
    const ssize_t n = ready ? read(from_, text, sizeof text) : 0;
    if (n <= 0) {
      leave(ready ? "has ended" : "does not answer");
      return "error";
    }
    unread_.append(text, static_cast<size_t>(n));
  }
  const std::string answer = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return answer;
}

std::vector<double> Peer::seconds(const std::string& request) {
  std::vector<double> seconds;
  if (!present()) return seconds;
  const std::string answer = ask(request);
  std::istringstream words(answer);
  for (double s; words >> s;) seconds.push_back(s);
  if (seconds.empty() && present()) std::printf("peer: %s: %s\n", request.c_str(), answer.c_str());
  return seconds;
}

void Peer::forget() {
  if (present()) ask("forget");
}
