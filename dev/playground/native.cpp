// The engine as a native program, to compare WebAssembly with it:
//
//   native hashes                               the hashes of the kernels
//   native losses STEPS NAME=VALUE ...          the losses of a run, one per line
//   native speed SECONDS NAME=VALUE ...         tokens per second

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "engine.hpp"
#include "kernels.hpp"
#include "layers/training/step.hpp"

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void start(int count, char** settings) {
  for (int i = 0; i < count; ++i) {
    const std::string setting = settings[i];
    const size_t equals = setting.find('=');
    engine_set(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str());
  }
  engine_start(nullptr);
}

void print_losses(int steps) {
  double result[3];
  for (int step = 0; step < steps; ++step) {
    engine_step(result, false);
    std::printf("%.9f\n", result[0]);
  }
}

void print_speed(double duration) {
  double result[3];
  for (int i = 0; i < 3; ++i) engine_step(result, false);
  const double begin = seconds();
  int steps = 0;
  for (; seconds() < begin + duration; ++steps) engine_step(result, false);
  std::printf("%.0f\n", steps * static_cast<double>(engine_tokens_per_step()) / (seconds() - begin));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "hashes") {
      std::printf("%s", kernel_hashes().c_str());
    } else if (what == "losses" && argc > 2) {
      start(argc - 3, argv + 3);
      print_losses(std::atoi(argv[2]));
    } else if (what == "speed" && argc > 2) {
      start(argc - 3, argv + 3);
      print_speed(std::atof(argv[2]));
    } else {
      std::fprintf(stderr, "usage: native hashes | losses STEPS NAME=VALUE ... | speed SECONDS NAME=VALUE ...\n");
      return 2;
    }
  } catch (const Diverged& diverged) {
    std::printf("%s\n", diverged.message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
