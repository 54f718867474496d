// make bench: how fast this build is on this machine, beside what the machine can do and beside PyTorch and NumPy.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>

#if __has_include(<CLI/CLI.hpp>)
#include <CLI/CLI.hpp>
#else
#include <CLI11.hpp>
#endif

#include "data/machine.hpp"
#include "data/progress.hpp"
#include "layers/random.hpp"

#include "bench.hpp"

// ---- what the parts share ----------------------------------------------------------------------------------

std::vector<Matmul> matmuls() {
  return gemm_has_bf16() ? std::vector{Matmul::fp32, Matmul::bf16} : std::vector{Matmul::fp32};
}

void add_speed(Json& row, const Times& times, double work, double ceiling) {
  row["seconds"] = times.seconds();
  row["rounds"] = times.rounds;
  row["speed"] = work / times.seconds() / 1e9;
  row["share"] = work / times.seconds() / ceiling;
}

void add_peer(Json& row, const Times& ours, const Times& theirs, double work, const char* key, const char* ratio) {
  if (!theirs.known()) return;
  row[key] = work / theirs.seconds() / 1e9;
  row[ratio] = speedup(ours, theirs);
}

namespace {

void fill(float* x, size_t n, Start start, uint64_t key) {
  const double width = std::sqrt(12.) * static_cast<double>(start.deviation);  // of a uniform distribution
  for (size_t i = 0; i < n; ++i)
    x[i] = start.mean + static_cast<float>(width * (rng::uniform(key, i) - .5));
}

}  // namespace

Buffer random_floats(size_t n, float deviation) {
  Buffer x = allocate(n);
  fill(x.get(), n, {0, deviation}, n);
  return x;
}

std::vector<int> random_tokens(size_t n, int V) {
  std::vector<int> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<int>(rng::below(static_cast<uint64_t>(V), n, i));
  return tokens;
}

void random_weights(Model& model) {
  for (const TensorSpec& spec : model.table)
    fill(model.weights.get() + spec.offset, spec.size(), spec.start, spec.offset);
}

// ---- the run -----------------------------------------------------------------------------------------------

namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(": "); line.rfind("model name", 0) == 0 && colon != line.npos)
      return line.substr(colon + 2);
  return "unknown processor";
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

// Threads that spin while they wait lose most where something else wants their processor.
void warn_if_busy(Report& report) {
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > .5)
    report.say("WARNING  something else is running here (load " + format("%.1f", load) +
               "): all speeds are too low, PyTorch's most");
}

// A ceiling is the best that was ever seen: where something else ran meanwhile, less was measured. So each part looks
// again.
void measure_ceilings(Bench& bench) {
  for (int i = 0; i < (bench.quick ? 1 : 3); ++i) {
    bench.flops_fp32 = measure_flops(Matmul::fp32);
    bench.flops_bf16 = measure_flops(Matmul::bf16);
    const Bandwidth now = bench.quick ? measure_bandwidth(1 << 24) : measure_bandwidth();
    bench.bandwidth.read = std::max(bench.bandwidth.read, now.read);
    bench.bandwidth.copy = std::max(bench.bandwidth.copy, now.copy);
  }
}

void say_ceilings(const Bench& bench) {
  bench.report.say(format("ceiling  %.0f GFLOP/s fp32", bench.flops_fp32 / 1e9) +
                   (gemm_has_bf16() ? format(", %.0f bf16", bench.flops_bf16 / 1e9) : "") +
                   format("; %.1f GB/s read", bench.bandwidth.read / 1e9) +
                   format(", %.1f copied", bench.bandwidth.copy / 1e9));
  bench.report.keep("ceiling", {{"flops fp32", bench.flops_fp32}, {"flops bf16", bench.flops_bf16},
                                {"bytes read", bench.bandwidth.read}, {"bytes copied", bench.bandwidth.copy}});
}

void describe(const Bench& bench, int threads) {
  const Machine machine = look_at_machine();
  Report& report = bench.report;
  const Peer& peer = bench.clock.peer;
  report.say("machine  " + processor() + ", " + std::to_string(threads) + " of " + std::to_string(machine.processors) +
             " threads, " + machine.simd + (gemm_has_bf16() ? " with bf16" : "") + ", " + compiler() +
             (machine.openmp ? "" : ", without OpenMP"));
  report.say("peer     " + (peer.present() ? peer.about() : "none"));
  report.keep("machine", {{"processor", processor()}, {"threads", threads}, {"simd", machine.simd},
                          {"compiler", compiler()}, {"peer", peer.present() ? peer.about() : ""}});
  warn_if_busy(report);
}

struct Part {
  const char* name;
  void (*run)(Bench&);
};
constexpr Part kParts[] = {{"gemm", bench_gemm}, {"norm", bench_norms}, {"layers", bench_layers},
                           {"sampling", bench_sampling}, {"steps", bench_steps}};

int run(int argc, char** argv) {
  CLI::App app("How fast this build is, beside what the machine can do and beside PyTorch and NumPy.");
  std::vector<std::string> wanted, names;
  std::string list;
  std::string peer_command, json;
  int threads = 0;
  std::vector<int> widths;
  bool quick = false;
  for (const Part& part : kParts) {
    names.emplace_back(part.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  app.add_option("part", wanted, "only these: " + list)->check(CLI::IsMember(names));
  app.add_flag("--quick", quick, "a few small cases, once: does it run?");
  app.add_option("--peer", peer_command, "what to compare with: 'python dev/bench/peer.py'");
  app.add_option("--threads", threads, "0: one a processor")->check(CLI::Range(0, 4096));
  app.add_option("--json", json, "also write the results to this file")->take_last();
  app.add_option("--widths", widths, "sizes of the norms: 1024 rows of each of these")->delimiter(',')->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);

  threads = use_threads(threads);
  Peer peer(peer_command, threads);
  Report report;
  Bench bench{report, {quick ? 1 : 5, quick ? .002 : .03, peer}, quick, widths};
  const Stopwatch clock;
  describe(bench, threads);
  for (const Part& part : kParts) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), part.name) == wanted.end()) continue;
    try {
      report.say("");
      measure_ceilings(bench);
      say_ceilings(bench);
      part.run(bench);
    } catch (const std::exception& error) {
      report.say(std::string(part.name) + ": " + error.what() + "; going on with the rest");
    }
    if (!json.empty()) report.write(json);
  }
  report.say("\n" + format_seconds(clock.seconds()) + (json.empty() ? "" : ", written to " + json));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("KMP_BLOCKTIME", "5", 0);  // as wait_patiently, for clang's OpenMP: milliseconds that its threads spin
  wait_patiently(argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
