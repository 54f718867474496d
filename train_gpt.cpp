// train_gpt: options → data → model → loop.
//
// This file is the training run. The other commands are in data/commands/ and data/compare/.

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/commands/corpus.hpp"
#include "data/commands/eval/eval.hpp"
#include "data/commands/export/export.hpp"
#include "data/commands/import.hpp"
#include "data/commands/info/info.hpp"
#include "data/commands/init_report/init_report.hpp"
#include "data/commands/sample.hpp"
#include "data/commands/tokenize.hpp"
#include "data/commands/tokenizer.hpp"
#include "data/compare/compare.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/machine.hpp"
#include "data/host/peak.hpp"
#include "data/host/process.hpp"
#include "data/host/progress.hpp"
#include "data/options/command_line.hpp"
#include "data/ranks/launcher.hpp"
#include "data/ranks/mpi_group.hpp"
#include "data/run/inputs.hpp"
#include "data/run/leader.hpp"
#include "data/run/messages.hpp"
#include "data/run/resume.hpp"
#include "data/run/schedule.hpp"
#include "data/run/step_inputs.hpp"
#include "data/run/time_limit.hpp"
#include "data/run/trainer.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/history.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "layers/model/size.hpp"
#include "layers/textbook/step.hpp"

namespace {

// ---- before ----------------------------------------------------------------------------------------------

// A run with its data, before it has a model.
struct Plan {
  Command command;
  CheckpointHeader start;  // what --resume continues, or step 0; with the options in force
  Dataset data;
  std::vector<std::string> lines;  // for the user, after the plan
};

Plan make_plan(const Command& given, const Group& group, const Place& place) {
  CheckpointHeader from;
  const Command command = on_top_of_checkpoint(given, from);
  TrainOptions o = command.train;
  use_threads(o.threads > 0 ? o.threads : default_threads(place.threads));
  share_steps(o, command.said("lanes"), group.size);
  Dataset data = load_training_data(o, from, command.program);
  const std::string notice = adapt_to_resume(o, from, given);
  check_memory(data.tokens.memory() + memory_of_run(o).total() +
               (o.textbook ? memory_of_textbook(o.config, o.batch) : 0));
  make_paths_absolute(o);
  std::vector<std::string> lines;
  if (group.size > 1) lines.push_back(describe(place, group.size));
  if (!notice.empty()) lines.push_back("resume   " + notice);
  const std::string chat = given.said("chat-template") || data.counted.size() == 0 ? "" : note_on_chat(from);
  for (const std::string& note :
       {note_on_function(o, from), note_on_context(given, o, from), note_on_rate(given, o), chat})
    if (!note.empty()) lines.push_back("NOTE     " + note);
  const std::string trained = describe_trained(o.config, table_of_run(o));
  if (!trained.empty()) lines.push_back("trains   " + trained);
  CheckpointHeader start = o.resume ? from : CheckpointHeader();
  start.options = o;
  start.companions = from.companions;
  start.came_dtype = from.came_dtype;
  return {command, start, std::move(data), lines};
}

// Returns the trainer before its first step. Moves the plan's data into it.
Trainer prepare(Plan& plan, const std::shared_ptr<Group>& group) {
  order_model(*group, plan.start.options);
  Trainer t(plan.command, plan.start, std::move(plan.data), group);
  const std::string norms = go_to_start(t);
  if (!norms.empty()) plan.lines.push_back("WARNING  " + plan.command.train.init_from + ": " + norms);
  if (const std::string note = note_on_first_tokens(t.pairs); !note.empty()) plan.lines.push_back("NOTE     " + note);
  return t;
}

void print(const TrainOptions& o, const TrainOptions& given, const Dataset& data,
           const std::vector<std::string>& lines) {
  print_plan(o, given, data);
  for (const std::string& line : lines) std::puts(line.c_str());
}

// Prints the predicted time. Tries no steps of a run that would take much memory or time.
void print_prediction(Plan& plan, int ranks) {
  const std::vector<std::string> time = predicted_time(plan.start.options, plan.start.step, ranks);
  print(plan.start.options, plan.command.train, plan.data, plan.lines);
  for (const std::string& line : time) std::puts(line.c_str());
}

// ---- during ----------------------------------------------------------------------------------------------

// The text of the progress line for a step.
std::string describe(const StepResult& result, double speed, std::optional<Utilization>& utilization) {
  const std::string text = format("loss %.4f  ", result.loss) + format_count(speed) + " tokens/s";
  return utilization ? text + format("  %.0f%% MFU", 100 * utilization->of(speed)) : text;
}

// The row of a step that took so many seconds and read so many tokens. `tokens` counts those of all steps.
MetricsRow row_of(const Trainer& t, const StepResult& result, int64_t tokens, double seconds, int64_t read) {
  MetricsRow row{t.state.step, tokens, t.state.elapsed, result.loss};
  row.grad_norm = result.grad_norm;
  row.clipped = result.clipped;
  row.step_ms = 1000 * seconds;
  row.tokens_per_second = static_cast<double>(read) / seconds;
  return row;
}

// Measuring takes longer than the first steps of a small model, so wait for this many seconds of training.
constexpr double kUnmeasured = 1;

// Takes steps until the last one, or until the user asks to stop. Returns the step reached.
int64_t take_steps(Trainer& t, TimeLimit& limit, Metrics& metrics, Progress& progress) {
  t.diagnostics = std::make_unique<Diagnostics>(t.options(), t.data, t.model, t.activations, t.state.step);
  std::optional<Utilization> utilization;
  const int64_t first = t.state.step;
  const double before = t.state.elapsed;
  int64_t step = first, tokens = tokens_before(t.data, t.model.config.context, step_rows(t.options(), step));
  const auto due = [&](int64_t every) { return every > 0 && step % every == 0 && step < t.options().steps; };
  MetricsRow& row = t.row = metrics.last();
  if (row.step == step && step > 0 && t.validates() && due(eval_every(t.options())) && std::isnan(row.val_loss)) {
    validate(t, progress, row);  // Ctrl-C had stopped this validation
    metrics.replace_last(row);
  }
  while (!interrupted() && !out_of_patience(t, step)) {
    if (limit.shorten(t, step)) progress.set_total(t.options().steps);
    if (step >= t.options().steps) break;
    const double lr = rate_at(t.options(), step);
    const Stopwatch clock;
    const StepResult result = take_step(t, step, lr);
    const double seconds = clock.seconds();
    t.state.step = ++step;
    const int64_t read = tokens_of_step(t.data, t.model.config.context, step_rows(t.options(), step), result.targets);
    tokens += read;
    t.state.elapsed += seconds;
    row = row_of(t, result, tokens, seconds, read);
    row.lr = lr;
    progress.update(step, [&] { return describe(result, row.tokens_per_second, utilization); });
    t.within_step = false;
    if (t.validates() && due(eval_every(t.options()))) validate(t, progress, row);
    metrics.write(row);
    if (const double trained = t.state.elapsed - before; !utilization && !t.options().quiet && trained > kUnmeasured) {
      const double step_seconds = trained / static_cast<double>(step - first);
      for (const std::string& line : speed_and_time(t, first, step_seconds)) progress.line(line);
      utilization.emplace(t.model.config.matmul, flops_per_token(t.model.config, t.model.table) / t.group->size);
    }
    if (due(t.options().sample_every)) progress.line(text_sample(t, step));
    check_saving(t);
    if (due(t.options().save_every)) save_sound(t, progress, step, true);
  }
  stopped_in_time();
  return step;
}

// ---- after -----------------------------------------------------------------------------------------------

// Trains, saves and measures. Throws Diverged.
void train_and_measure(Trainer& t, TimeLimit& limit, RunOutcome& outcome) {
  Metrics metrics(t.options().out, t.state.step, t.state.unwritten_row);
  t.state.unwritten_row.clear();
  Progress progress(t.state.step, t.options().steps);
  const int64_t planned = t.options().steps;
  try {
    outcome.step = take_steps(t, limit, metrics, progress);
    finish_saving(t);
  } catch (const std::runtime_error& error) {
    save_and_fail(t, metrics, error);
  }
  outcome.early = outcome.step < t.options().steps && out_of_patience(t, outcome.step);
  outcome.finished = outcome.step >= t.options().steps || outcome.early;
  const bool saved = save_sound(t, progress, outcome.step);
  if (t.options().steps != planned) write_config(t);
  if (!outcome.finished) return print_stopped(t, outcome.step, saved);
  if (!saved) throw Diverged{outcome.step, "loss", "", true};
  TrainOptions done = t.options();
  done.steps = outcome.step;
  outcome.flops = operations_of_run(done);
  outcome.measured = measure_end(t, metrics, progress, outcome) && measure_pairs(t, outcome);
}

// Trains and writes the outcome, also of a run that diverges. That is thrown on.
void train_and_record(Trainer& t, TimeLimit& limit) {
  RunOutcome outcome;
  outcome.parameters = count_parameters(t.options().config);
  outcome.unigram = t.data.unigram_nats;
  outcome.floor = t.data.floor;
  outcome.data_fingerprint = t.data.fingerprint;
  remove_outcome(t.options().out);
  const auto record = [&] {
    outcome.inputs = inputs_read(t.options(), t.data);
    write_outcome(t.options().out, outcome);
  };
  try {
    train_and_measure(t, limit, outcome);
  } catch (const Diverged& diverged) {
    outcome.finished = false;
    outcome.step = diverged.step;
    outcome.what = diverged.what;
    outcome.tensor = diverged.tensor;
    record();
    throw;
  }
  if (!outcome.finished) return;
  record();
  print_summary(t, outcome);
}

void train(const Command& command) {
  Place place;
  const Leading leading{join_group(place)};
  if (leading.group->rank > 0) return follow(leading.group, place.threads);
  catch_interrupts();
  if (command.train.json) begin_json_lines();
  DirectoryLock lock;
  const TrainOptions& asked = command.train;
  const bool goes_on = asked.resume && !asked.out.empty() && !asked.dry_run;
  if (goes_on && !is_there(asked.out)) throw std::runtime_error("there is no run " + asked.out + " to go on with");
  if (goes_on) lock = DirectoryLock(asked.out);  // before reading files that another process may be writing
  Plan plan = make_plan(command, *leading.group, place);
  TrainOptions& o = plan.start.options;
  const std::string name = o.config.placement + "-" + name_of(kNormKinds, o.config.norm);
  if (o.dry_run && o.out.empty()) o.out = next_run_directory(name);
  if (o.dry_run && !o.resume && is_there(o.out)) replaced_run(o.out, o.force);  // refuses what the run would refuse
  if (o.dry_run && !is_quickly_tried(o)) return print_prediction(plan, leading.group->size);
  Trainer t = prepare(plan, leading.group);
  require_work(t);
  TimeLimit limit(t);
  if (!t.options().resume && !t.options().dry_run) {
    if (!goes_on) lock = claim_directory(t.state.options.out, name);
    prepare_run_directory(t.options().out, t.options().force, goes_on);
  }
  if (t.options().resume && !t.options().dry_run) check_run_directory(t.options().out);
  print(t.options(), t.command.train, t.data, plan.lines);
  if (t.options().dry_run) {
    for (const std::string& line : speed_and_time(t, t.state.step, 0)) std::puts(line.c_str());
    return;
  }
  write_config(t);
  keep_history(t.options().out, t.state.step);
  train_and_record(t, limit);
}

void run(const Command& command) {
  if (command.kind != Command::Kind::train) require_one_process();
  switch (command.kind) {
    case Command::Kind::train: return train(command);
    case Command::Kind::sample: return run_sample(command.sample);
    case Command::Kind::eval: return run_eval(command.eval);
    case Command::Kind::info: return run_info(command);
    case Command::Kind::compare: return run_compare(command);
    case Command::Kind::init_report: return run_init_report(command);
    case Command::Kind::import_model: return run_import(command.import_model);
    case Command::Kind::export_model: return run_export(command.export_model);
    case Command::Kind::corpus: return run_corpus(command.corpus);
    case Command::Kind::tokenize: return run_tokenize(command.tokenize);
    case Command::Kind::tokenizer: return run_tokenizer(command.tokenizer);
    case Command::Kind::completion: case Command::Kind::man: return;  // parse_command_line() has answered
  }
}

void run_command_line(Command& command, int argc, char** argv) {
  try {
    command = parse_command_line(argc, argv);
    for (const std::string& notice : command.notices) print_note(notice);
    run(command);
  } catch (const CommandLineExit& exit) {
    std::printf("%s", exit.text.c_str());
  }
  finish_output();
}

}  // namespace

int main(int argc, char** argv) {
  begin_process(argv[0]);
  make_output_safe();
  end_clearly_without_memory();
  Command command;
  try {
    run_command_line(command, argc, argv);
    return exit_code(0);
  } catch (const Diverged& diverged) {
    const std::string message = diverged.message();
    std::fprintf(stderr, "train_gpt: %s. Try a lower --lr, a longer --warmup or --clip 1.\n", message.c_str());
    return kExitDiverged;
  } catch (const OtherInputs& error) {
    std::fprintf(stderr, "train_gpt: %s\n", for_terminal(error.what()).c_str());
    return kExitOtherInputs;
  } catch (const std::bad_alloc&) {
    say_out_of_memory();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", for_terminal(command.located(plain_text(error))).c_str());
  }
  return exit_code(1);
}
