#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "evaluate.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "sample.hpp"
#include "utf8.hpp"

namespace {

// A model whose rows were whole stories has learned nothing of what follows one.
bool learns_whole_stories(const Trainer& t) { return t.data.floor > 0 && !t.data.windows.empty(); }

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
    std::printf("The run is finished; its last measurement was stopped. To repeat it:\n  %s train --out %s --resume\n",
                t.command.program.c_str(), t.o.out.c_str());
  if (t.o.quiet) return;
  std::printf("%s\n", text_sample(t, outcome.step, t.final_sample_length()).c_str());
  const char* program = t.command.program.c_str();
  std::printf("next:\n  %s sample %s --prompt 'One '%s\n", program, t.o.out.c_str(),
              learns_whole_stories(t) ? " --stop '\\n'" : "");
  std::printf("  %s train --out %s --resume --steps %lld\n", program, t.o.out.c_str(),
              static_cast<long long>(2 * t.o.steps));
  std::printf("  %s compare --data %s --grid placement=post,pre,sandwich,deepnorm --tune lr=3e-4,1e-3,3e-3 --steps 600\n", program,
              t.command.train.data[0].c_str());
}

void print_stopped(const Trainer& t, int64_t step, bool saved) {
  std::FILE* to = stop_signal() == SIGPIPE ? stderr : stdout;
  std::fprintf(to, "stopped at step %lld and %s; to go on:\n  %s train --out %s --resume\n", static_cast<long long>(step),
               saved ? "saved" : "not saved, because its loss has exploded", t.command.program.c_str(), t.o.out.c_str());
}
