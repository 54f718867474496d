// make bench: the speed of this build on this machine, against the measured peak and against PyTorch and NumPy.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "data/host/machine.hpp"
#include "data/host/process.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "layers/kernels/random.hpp"

#include "layers/kernels/elementwise.hpp"

#include "bench.hpp"
#include "summary.hpp"

// ---- shared by the parts -----------------------------------------------------------------------------------

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
  const double width = std::sqrt(12.) * static_cast<double>(start.deviation);  // width of a uniform distribution
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
  std::vector<float> floats;
  for (const TensorSpec& spec : model.table) {
    float* to = model.weights.get() + spec.offset;
    if (spec.numbers == NumberType::fp32) {
      fill(to, spec.size(), spec.start, spec.offset);
      continue;
    }
    floats.resize(spec.size());
    fill(floats.data(), spec.size(), spec.start, spec.offset);
    round_to(spec.numbers, to, 0, floats.data(), spec.size());
  }
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

// Threads that spin while they wait lose most if another program needs their processor.
void warn_if_busy(Report& report) {
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > .5)
    report.say("WARNING  another program is running (load " + format("%.1f", load) +
               "): all speeds are too low, most of all PyTorch's");
}

// A ceiling is the best measurement so far, because other programs can only make it lower. Each part measures again.
void measure_ceilings(Bench& bench) {
  for (int i = 0; i < (bench.quick ? 1 : 3); ++i) {
    bench.flops_fp32 = measure_flops_again(Matmul::fp32);
    bench.flops_bf16 = measure_flops_again(Matmul::bf16);
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
  const Machine machine = detect_machine();
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

struct Benchmark {
  const char* name;
  void (*run)(Bench&);
};
constexpr Benchmark kBenchmarks[] = {
    {"gemm", bench_gemm},         {"norm", bench_norms},           {"layers", bench_layers},
    {"sampling", bench_sampling}, {"tokenizer", bench_tokenizers}, {"steps", bench_steps},
    {"experts", bench_experts},   {"packed", bench_packed}};

struct Options {
  std::vector<std::string> parts;  // empty: all
  std::string peer, json;
  std::vector<std::string> summary;  // files of earlier runs to print side by side, instead of measuring
  int threads = 0;
  std::vector<int> widths;
  bool quick = false;
};

// [PART...] [--quick] [--threads N] [--widths N,N] [--json FILE] [--peer COMMAND], or --summary FILE...
Options options_of(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      return i + 1 < argc ? std::string(argv[++i]) : throw std::invalid_argument(word + " needs a value");
    };
    const auto is_part = [&](const Benchmark& part) { return word == part.name; };
    if (word == "--quick") o.quick = true;
    else if (word == "--peer") o.peer = value();
    else if (word == "--json") o.json = value();
    else if (word == "--threads") o.threads = std::stoi(value());
    else if (word == "--summary") o.summary.assign(argv + i + 1, argv + argc), i = argc;
    else if (word == "--widths") {
      std::istringstream list(value());
      for (std::string width; std::getline(list, width, ',');) o.widths.push_back(std::stoi(width));
    } else if (std::any_of(std::begin(kBenchmarks), std::end(kBenchmarks), is_part)) o.parts.push_back(word);
    else throw std::invalid_argument("unknown word '" + word + "': choose parts of gemm norm layers sampling tokenizer "
                                     "steps experts packed, or --quick --threads N --widths N,N --json FILE --peer "
                                     "COMMAND,\n"
                                     "or --summary FILE...");
  }
  return o;
}

int run(int argc, char** argv) {
  const Options o = options_of(argc, argv);
  if (!o.summary.empty()) return print_summary(o.summary), 0;
  const std::string& json = o.json;
  const bool quick = o.quick;
  const int threads = use_threads(o.threads);
  Peer peer(o.peer, threads);
  Report report;
  Bench bench{report, {quick ? 1 : 5, quick ? .002 : .03, peer}, quick, o.widths};
  const Stopwatch clock;
  describe(bench, threads);
  for (const Benchmark& part : kBenchmarks) {
    if (!o.parts.empty() && std::find(o.parts.begin(), o.parts.end(), part.name) == o.parts.end()) continue;
    try {
      report.say("");
      measure_ceilings(bench);
      say_ceilings(bench);
      part.run(bench);
    } catch (const std::exception& error) {
      report.say(std::string(part.name) + ": " + error.what() + "; continuing with the other parts");
    }
    if (!json.empty()) report.write(json);
  }
  report.say("\n" + format_seconds(clock.seconds()) + (json.empty() ? "" : ", written to " + json));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  begin_process(argv[0]);
  setenv("KMP_BLOCKTIME", "5", 0);  // milliseconds that threads of clang's OpenMP spin
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
