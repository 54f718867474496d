// train_gpt: options → data → model → loop.
//
// What a sub-command does lives with its subject; this file is the training run.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "data/compare/compare.hpp"
#include "data/corpus.hpp"
#include "data/evaluate.hpp"
#include "data/info.hpp"
#include "data/init_report.hpp"
#include "data/interrupt.hpp"
#include "data/machine.hpp"
#include "data/progress.hpp"
#include "data/resume.hpp"
#include "data/run.hpp"
#include "data/sample.hpp"
#include "data/trainer.hpp"
#include "data/utf8.hpp"
#include "layers/textbook/step.hpp"

namespace {

Trainer prepare(const Command& given) {
  CheckpointHeader from;
  const Command command = on_top_of_checkpoint(given, from);
  TrainOptions o = command.train;
  Dataset data = load_training_data(o, from, command.program);
  check_memory(data.memory() + memory_of_training(o.config, o.batch).total() +
               (o.textbook ? memory_of_textbook(o.config, o.batch) : 0));
  Trainer t(command, o, std::move(data));
  go_to_start(t);
  if (o.resume) {
    t.state = from;
    t.state.options = o;
  }
  return t;
}

// --for: how many steps fit into the time, with their validations but for the last, which is of the whole split. Times
// up to 20 steps, or a twentieth of the time, at a learning rate of 0, and one batch of a validation; and goes back, for
// steps move the moments, and what BatchNorm keeps running.
int64_t steps_for(Trainer& t) {
  const double budget = parse_seconds(t.o.time_limit);
  const Stopwatch whole;
  train_step(t, 0, 0);
  const Stopwatch clock;
  int steps = 0;
  do train_step(t, steps++, 0);
  while (steps < 20 && whole.seconds() < budget / 20 && !interrupted());
  double seconds = clock.seconds() / steps;
  if (t.o.eval_every > 0 && !t.data.val.empty() && !interrupted()) {
    const Stopwatch validation;
    evaluate(t.model, t.activations, t.data, t.o.batch, 1);
    const double all = std::ceil(double(t.data.val.size()) / t.o.batch), asked = double(t.o.eval_batches);
    seconds += validation.seconds() * (asked > 0 ? std::min(asked, all) : all) / double(t.o.eval_every);
  }
  go_to_start(t);
  return std::max<int64_t>(1, static_cast<int64_t>((budget - whole.seconds()) / seconds));
}

// ---- during and after ------------------------------------------------------------------------------------

double validate(Trainer& t, Progress& progress, int64_t step, int64_t batches) {
  const double loss = evaluate(t.model, t.activations, t.data, t.o.batch, batches);
  std::string text = "step " + std::to_string(step) + "  val " + format("%.4f nats/token, ", loss) +
                     format("%.4f bits/byte", t.data.bits_per_byte(loss));
  if (loss > t.state.best_loss)
    text += format("  (rising: the best was %.4f", t.state.best_loss) + " at step " + std::to_string(t.state.best_step) +
            ", kept in best.bin)";
  progress.line(text);
  t.state.val_loss = loss;
  if (loss < t.state.best_loss) {
    t.state.best_loss = loss;
    t.state.best_step = step;
    save(t, kBestCheckpoint, step);
  }
  return loss;
}

void print_sample(const Trainer& t, int length) {
  std::string text = sample_of(t.model, t.data.tokenizer, length, t.o.seed);
  if (text.rfind('\n') != text.npos && text.rfind('\n') > text.size() / 2) text.resize(text.rfind('\n'));
  std::printf("---- sample ----\n%s\n----------------\n", for_terminal(text).c_str());
}

void print_summary(const Trainer& t, double val_loss) {
  if (!std::isnan(val_loss)) {
    std::printf("\nvalidation  %.4f nats/token, %.4f bits/byte", val_loss, t.data.bits_per_byte(val_loss));
    if (t.data.floor > 0) std::printf("; the floor is %.4f nats/token, %.4f above it", t.data.floor, val_loss - t.data.floor);
    std::printf("\n");
  }
  std::printf("checkpoint  %s\n", t.path(kLastCheckpoint).c_str());
  if (t.o.quiet) return;
  print_sample(t, std::min(600, 2 * t.model.config.context));
  const char* program = t.command.program.c_str();
  std::printf("next:\n  %s sample %s --prompt 'One '\n", program, t.o.out.c_str());
  std::printf("  %s train --out %s --resume --steps %lld\n", program, t.o.out.c_str(),
              static_cast<long long>(2 * t.o.steps));
  std::printf("  %s compare --data %s --grid placement=post,pre,sandwich,deepnorm --tune lr=3e-4,1e-3,3e-3 --steps 600\n", program,
              t.o.data[0].c_str());
}

// Steps until the last one, or until a person asks to stop; saves and returns where it stands.
int64_t take_steps(Trainer& t) {
  const bool validates = t.o.eval_every > 0 && !t.data.val.empty();
  Metrics metrics(t.o.out, t.state.step);
  t.diagnostics = std::make_unique<Diagnostics>(t.o, t.data, t.model, t.activations, t.state.step);
  Progress progress(t.state.step, t.o.steps);
  Utilization utilization(t.model.config);
  int64_t step = t.state.step, tokens = targets_before(t.data, t.model.config.context, t.rows_of(step));
  const auto due = [&](int64_t every) { return every > 0 && step % every == 0; };
  while (step < t.o.steps && !interrupted() && !out_of_patience(t, step)) {
    const double lr = t.o.rate.at(step, t.o.steps);
    const Stopwatch clock;
    const StepResult result = train_step(t, step, lr);
    const double seconds = clock.seconds();
    ++step;
    tokens += result.tokens;
    t.state.elapsed += seconds;
    const double speed = static_cast<double>(result.tokens) / seconds;
    progress.update(step, format("loss %.4f  ", result.loss) + format_count(speed) +
                              format(" tokens/s  %.0f%% MFU", 100 * utilization.of(speed)));

    MetricsRow row{step, tokens, t.state.elapsed, result.loss};
    if (validates && due(t.o.eval_every) && step < t.o.steps)
      row.val_loss = validate(t, progress, step, t.o.eval_batches);
    if (validates && step == t.o.steps) row.val_loss = validate(t, progress, step, 0);
    row.val_bpb = t.data.bits_per_byte(row.val_loss);
    row.lr = lr, row.grad_norm = result.grad_norm, row.clipped = result.clipped;
    row.step_ms = 1000 * seconds, row.tokens_per_second = speed;
    metrics.write(row);
    if (due(t.o.sample_every) && step < t.o.steps) print_sample(t, t.model.config.context);
    if (due(t.o.save_every) && step < t.o.steps) save(t, kLastCheckpoint, step);
  }
  save(t, kLastCheckpoint, step);
  return step;
}

void train(const Command& command) {
  catch_interrupts();
  use_threads(command.train.threads);
  DirectoryLock lock;
  const TrainOptions& asked = command.train;
  const bool goes_on = asked.resume && !asked.out.empty() && !asked.dry_run;
  if (goes_on) lock = DirectoryLock(asked.out);  // before the files are read that another process may be writing
  Trainer t = prepare(command);
  if (!t.o.time_limit.empty()) t.o.steps = t.state.options.steps = t.state.step + steps_for(t);
  const std::string name = t.o.config.placement + "-" + name_of(kNormKinds, t.o.config.norm);
  if (t.o.dry_run && t.o.out.empty()) t.o.out = next_run_directory(name);
  if (!t.o.resume && !t.o.dry_run) {
    lock = claim_directory(t.o.out, name);
    prepare_run_directory(t.o.out, t.o.force);
  }
  print_plan(t.o, t.data);
  if (t.o.dry_run) return;
  write_config(t.o.out, t.o, t.command.train);
  RunOutcome outcome;
  outcome.parameters = count_parameters(t.model.table);
  outcome.unigram = t.data.unigram_nats(), outcome.floor = t.data.floor;
  outcome.data_fingerprint = t.data.fingerprint;
  remove_outcome(t.o.out);
  try {
    outcome.step = take_steps(t);
  } catch (const Diverged& diverged) {
    outcome.step = diverged.step, outcome.what = diverged.what, outcome.tensor = diverged.tensor;
    write_outcome(t.o.out, outcome);
    throw;
  }
  outcome.finished = outcome.step >= t.o.steps || out_of_patience(t, outcome.step);
  if (!outcome.finished) {
    std::printf("stopped at step %lld and saved; to go on:\n  %s train --out %s --resume\n",
                static_cast<long long>(outcome.step), t.command.program.c_str(), t.o.out.c_str());
    return;
  }
  write_outcome(t.o.out, outcome);
  if (outcome.step < t.o.steps)
    std::printf("stopped early: no new best in %lld validations since step %lld (%.4f nats/token, in best.bin)\n",
                static_cast<long long>(t.o.patience), static_cast<long long>(t.state.best_step), t.state.best_loss);
  print_summary(t, t.state.val_loss);
}

void run(const Command& command) {
  switch (command.kind) {
    case Command::Kind::train: return train(command);
    case Command::Kind::sample: return run_sample(command.sample);
    case Command::Kind::eval: return run_eval(command.eval);
    case Command::Kind::info: return run_info(command);
    case Command::Kind::compare: return run_compare(command);
    case Command::Kind::init_report: return run_init_report(command);
    case Command::Kind::corpus: return run_corpus(command.corpus);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  wait_patiently(argv);
  try {
    try {
      run(parse_command_line(argc, argv));
    } catch (const CommandLineExit& exit) {
      std::printf("%s", exit.text.c_str());
    }
    finish_output();
    return interrupted() ? 130 : 0;
  } catch (const Diverged& diverged) {
    std::fprintf(stderr, "train_gpt: %s. Try a lower --lr, a longer --warmup or --clip 1.\n", diverged.message().c_str());
    return kExitDiverged;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "train_gpt: not enough memory: lower --batch, --context or the size of the model\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", for_terminal(error.what()).c_str());
  }
  return 1;
}
