#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "data/host/format.hpp"
#include "directory.hpp"
#include "evaluate.hpp"
#include "generate_text.hpp"
#include "outcome.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/utf8.hpp"

namespace {

// A model whose rows were whole stories has learned nothing of what follows one.
bool learns_whole_stories(const Trainer& t) { return t.data.floor > 0 && !t.data.windows.empty(); }

// A command line that calls this program.
std::string program_words(const Trainer& t, std::vector<std::string> words) {
  words.insert(words.begin(), t.command.program);
  return shell_words(words);
}

}  // namespace

std::string text_sample(const Trainer& t, int64_t step, int length) {
  std::string text;
  if (learns_whole_stories(t))
    for (uint64_t n = 0; n < 3; ++n)
      text += sample_of(t.model, t.data.tokenizer, t.model.config.context, t.o.seed, "\n", n) + "\n";
  else
    text = sample_of(t.model, t.data.tokenizer, length, t.o.seed);
  if (text.rfind('\n') != text.npos && text.rfind('\n') > text.size() / 2) text.resize(text.rfind('\n'));
  keep_sample(t.o.out, step, text);
  return "---- sample ----\n" + for_terminal(text) + "\n----------------";
}

namespace {

void print_validation(const Trainer& t, const RunOutcome& outcome) {
  const bool whole = !std::isnan(outcome.val_loss_full);
  const double loss = whole ? outcome.val_loss_full : t.state.val_loss;
  if (std::isnan(loss)) return;
  std::printf("\nvalidation  %.4f nats/token, %s", loss, format("%.4f bits/byte", t.data.bits_per_byte(loss)).c_str());
  if (t.data.floor > 0) std::printf("; the floor is %.4f nats/token, %.4f above it", t.data.floor, loss - t.data.floor);
  std::printf("\n");
  if (!whole && outcome.measured)
    std::printf("            on %lld of %lld batches; --final-batches 0 measures all of them\n",
                static_cast<long long>(t.o.eval_batches), static_cast<long long>(validation_batches(t.data, t.o.batch)));
}

}  // namespace

void print_summary(const Trainer& t, const RunOutcome& outcome) {
  if (outcome.step < t.o.steps)
    std::printf("stopped early: no new best in %lld validations since step %lld (%.4f nats/token, in best.bin)\n",
                static_cast<long long>(t.o.patience), static_cast<long long>(t.state.best_step), t.state.best_loss);
  print_validation(t, outcome);
  std::printf("checkpoint  %s\n", t.path(kLastCheckpoint).c_str());
  if (!outcome.measured)
    std::printf("The run is finished; its last measurement was stopped. To repeat it:\n  %s\n",
                program_words(t, {"train", "--out", t.o.out, "--resume"}).c_str());
  if (t.o.quiet) return;
  std::printf("%s\n", text_sample(t, outcome.step, t.final_sample_length()).c_str());
  std::vector<std::string> sample = {"sample", t.o.out, "--prompt", "One "};
  if (learns_whole_stories(t)) sample.insert(sample.end(), {"--stop", "\\n"});
  const std::string twice = std::to_string(2 * t.o.steps);
  std::printf("next:\n");
  for (const auto& words : {sample,
                            {"train", "--out", t.o.out, "--resume", "--steps", twice},
                            {"compare", "--data", t.command.train.data[0], "--grid",
                             "placement=post,pre,sandwich,deepnorm", "--tune", "lr=3e-4,1e-3,3e-3", "--steps", "600"}})
    std::printf("  %s\n", program_words(t, words).c_str());
}

void print_stopped(const Trainer& t, int64_t step, bool saved) {
  std::FILE* to = stop_signal() == SIGPIPE ? stderr : stdout;
  std::fprintf(to, "stopped at step %lld and %s; to go on:\n  %s\n", static_cast<long long>(step),
               saved ? "saved" : "not saved, because its loss has exploded",
               program_words(t, {"train", "--out", t.o.out, "--resume"}).c_str());
}
