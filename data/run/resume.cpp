#include "resume.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/formats/huggingface/peft.hpp"
#include "data/host/machine.hpp"
#include "data/options/command_line.hpp"
#include "data/options/settings_file.hpp"
#include "data/options/toml.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "fine_tune.hpp"
#include "inputs.hpp"
#include "layers/config/fields.hpp"
#include "layers/training/branch_factors.hpp"
#include "schedule.hpp"
#include "step_inputs.hpp"
#include "unused_options.hpp"

namespace fs = std::filesystem;

namespace {

// Returns the command that starts a run over.
Command from_the_start(Command command, const std::string& config) {
  std::erase_if(command.given, [](const Given& g) { return g.name == "resume"; });
  command.given.push_back({"force", {"true"}});
  return parse_on_top(command, config);
}

// Sets options that the text decided when the run began.
void fill_open(TextOptions& now, const TextOptions& then) {
  if (now.documents.empty()) now.documents = then.documents;
  if (!now.packing) now.packing = then.packing;
  if (now.separator.empty()) now.separator = then.separator;
  if (!now.chat) now.chat = then.chat;
}

// A finished run is not started over, which would replace its best weights.
void refuse_finished(const std::string& run, const std::string& checkpoint) {
  const std::optional<RunOutcome> outcome = read_outcome(run);
  if (!outcome || !outcome->finished) return;
  const bool has_best = fs::exists(run + "/" + kBestCheckpoint);
  throw std::invalid_argument("cannot resume " + run + ": it has finished, and " + checkpoint + " is not there; " +
                              (has_best ? "--init-from " + run + " begins a new run with its best weights"
                                        : "--force instead of --resume starts it over"));
}

Command on_top_of_run(const Command& command, CheckpointHeader& header) {
  const std::string& run = command.train.out;
  if (run.empty()) throw std::invalid_argument("--resume needs --out: write --out RUN --resume");
  const std::string checkpoint = last_checkpoint(run), config = run + "/" + kRunConfig;
  if (!fs::exists(checkpoint)) refuse_finished(run, checkpoint);
  if (!fs::exists(checkpoint) && fs::exists(config))
    return on_top_of_checkpoint(from_the_start(command, read_file(config)), header);
  header = read_checkpoint_header(checkpoint);
  Command merged = parse_on_top(command, read_file(config), config);
  fill_open(merged.train, header.options);
  TrainOptions now = merged.train;
  make_paths_absolute(now);
  make_paths_absolute(header.options);
  if (now.config.vocab_size == 0) now.config.vocab_size = header.options.config.vocab_size;
  // An option that was typed says more than one that follows from it.
  const auto changed = [&](bool typed) {
    return differences(header.options, now, [&](const Setting& s) {
      return s.may_change || (typed && !command.said(s.name));
    });
  };
  auto contradictions = changed(true);
  if (contradictions.empty()) contradictions = changed(false);
  if (!contradictions.empty())
    throw std::invalid_argument("cannot resume " + run + ": " + contradictions[0] +
                                "; leave the option out, or start a new run");
  return merged;
}

// Returns the lines "name = value" without some names.
std::string without(const std::vector<std::string>& names, const std::string& settings) {
  std::istringstream lines(settings);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (std::find(names.begin(), names.end(), line.substr(0, line.find(' '))) == names.end()) kept += line + "\n";
  return kept;
}

// Returns a model's settings, without those that follow from an option that the user changes.
std::string without_derived(const std::string& settings, const Command& command) {
  std::vector<std::string> derived;
  for (const Setting& s : train_settings())
    if (!s.follows.empty() && command.said(s.follows)) derived.push_back(s.name);
  return without(derived, settings);
}

// The number type that frozen matrices have in the model that a run starts from. Merging adapters makes floats of them.
NumberType numbers_of_frozen(const CheckpointHeader& from, const TrainOptions& o) {
  const bool merges = from.options.config.lora_rank > 0 && o.config.lora_rank == 0;
  return merges || o.textbook ? NumberType::fp32 : from.numbers;
}

// Returns a model's settings with a context that fits into memory and a rate for fine-tuning, unless the user says
// them. Frozen weights stay as they come.
std::string with_choices(const std::string& settings, const Command& command, TrainOptions o,
                         const CheckpointHeader& from) {
  o.config = resolved(with_vocabulary(o).config);
  std::string text = settings;
  if (!command.said("frozen-weights")) {
    o.frozen_weights = numbers_of_frozen(from, o);
    text += "frozen-weights = " + toml(std::string(name_of(kNumberTypes, o.frozen_weights))) + "\n";
  }
  if (!command.said("context"))
    text = without({"context"}, text) + "context = " + toml(fitting_context(o, detect_machine().memory)) + "\n";
  return command.said("lr") ? text : text + "lr = " + toml(fine_tuning_rate(o.config)) + "\n";
}

Command on_top_of_weights(const Command& command, CheckpointHeader& header) {
  const std::string& from = command.train.init_from;
  header = read_checkpoint_header(find_checkpoint(from));
  Config& trained = header.options.config;
  if (!branch_warmup_ended(trained, header.step))
    throw std::invalid_argument(from + " is at step " + std::to_string(header.step) +
                                ", where factors of --branch-warmup are below 1, and they would start at 0 again: "
                                "train it on with --resume, or, if that run went on, name its last weights, " +
                                kLastCheckpoint);
  trained.branch_warmup = BranchWarmup::none;
  trained.branch_warmup_steps = 0;
  const std::string& tokenizer = header.options.tokenizer;
  std::string model = without_derived(model_to_toml(header.options), command) + "tokenizer = " + toml(tokenizer) +
                      "\ndocument-separator = " + toml(header.options.separator) + "\n";
  if (const ChatTemplate* chat = header.options.chat)
    model += "chat-template = " + toml(std::string(chat->name)) + "\n";
  const Command all = parse_on_top(command, model);
  model = with_choices(model, command, all.train, header);
  // Leave out what the new run does not read. Otherwise it would be reported to the user, who did not give it.
  const Command merged =
      parse_on_top(command, without(unused_option_names(parse_on_top(command, model).train), model));
  if (merged.train.tokenizer != tokenizer)
    throw std::invalid_argument(from + " was trained with --tokenizer " + tokenizer +
                                "; leave --tokenizer out, or start without --init-from");
  return merged;
}

// Returns a message about a limit that stays in force, or "".
std::string decide_time_limit(TrainOptions& o, const CheckpointHeader& from, const Command& given) {
  const bool timed = given.said("for"), over = o.resume && from.step >= from.options.steps;
  if (timed) o.time_in_all = from.elapsed + parse_seconds(o.time_limit);
  else if (over || said_any(given, &Setting::length)) o.time_in_all = 0;
  if (timed || o.time_in_all == 0) return "";
  return "--for still ends the run after " + format_seconds(o.time_in_all) + " of training in all, of which " +
         format_seconds(from.elapsed) + " are over; a new --for or --steps changes that";
}

}  // namespace

Command on_top_of_checkpoint(const Command& command, CheckpointHeader& header) {
  if (command.train.resume) return on_top_of_run(command, header);
  return command.train.init_from.empty() ? command : on_top_of_weights(command, header);
}

TrainOptions options_on_checkpoint(const std::vector<std::string>& words,
                                   const std::vector<std::pair<std::string, std::string>>& more,
                                   CheckpointHeader& header) {
  return on_top_of_checkpoint(parse_words(words, more), header).train;
}

std::string note_on_rate(const Command& given, const TrainOptions& o) {
  if (given.train.resume || given.train.init_from.empty() || given.said("lr")) return "";
  return "--lr is " + toml(o.rate.lr) + ", for fine-tuning " +
         (o.config.lora_rank > 0 ? "adapters: 0.3 / " : "a whole model: 0.03 / ") +
         (o.config.parametrization == Parametrization::sp ? "channels" : "base-channels");
}

std::string note_on_context(const Command& given, const TrainOptions& o, const CheckpointHeader& from) {
  if (given.train.resume || given.train.init_from.empty() || given.said("context")) return "";
  TrainOptions whole = o;
  whole.config.context = from.options.config.context;
  const std::string text = "--context is " + std::to_string(o.config.context);
  if (o.config.context == whole.config.context) return text + ", the model's";
  return text + ": the model's " + std::to_string(whole.config.context) + " would need " +
         format_bytes(memory_of_run(whole).total()) + " of memory, and half of " +
         format_bytes(detect_machine().memory) + " is the limit";
}

namespace {

bool keeps_adapters(const TrainOptions& o, const CheckpointHeader& from) {
  return o.config.lora_rank > 0 && from.options.config.lora_rank > 0;
}

}  // namespace

std::string note_on_function(const TrainOptions& o, const CheckpointHeader& from) {
  if (o.resume || o.init_from.empty()) return "";
  // New adapters add 0, and adapters that are merged change nothing.
  const auto changes_nothing = [&](const Setting& s) {
    const auto& fields = model_fields();
    const auto field = std::ranges::find(fields, s.name, [](const Field& f) { return std::string(f.name); });
    return !s.model || field == fields.end() || field->training || field->initial || s.name == "vocab-size" ||
           s.name == "context" || (s.name.starts_with("lora") && !keeps_adapters(o, from));
  };
  std::string list;
  for (const std::string& difference : differences(from.options, o, changes_nothing))
    list += (list.empty() ? "these options change what the weights compute: " : "; ") + difference;
  return list;
}

void make_paths_absolute(TrainOptions& o) {
  for (auto* paths : {&o.data, &o.val_data, &o.eval_pairs})
    for (std::string& path : *paths) path = absolute_path(path);
  o.init_from = absolute_path(o.init_from);
  if (names_file(o.tokenizer) && fs::exists(o.tokenizer)) o.tokenizer = absolute_path(o.tokenizer);
}

Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program) {
  if (o.data.empty())
    throw std::invalid_argument("--data is missing: name a text file, or make one with " + program +
                                " corpus --bytes 4M --out stories.txt");
  const bool continues = o.resume || !o.init_from.empty();
  if (!continues) o.tokenizer = tokenizer_of(o);
  Dataset data = load_dataset(o, continues ? &from.tokenizer : nullptr, o.config.context);
  require_same_text(o, data);
  o.documents = data.documents;
  o.packing = data.packing;
  o.separator = data.tokenizer.name_of_special(data.around.first);
  if (data.chat) o.chat = data.chat;
  const int vocabulary = data.tokenizer.vocabulary();
  if (!o.init_from.empty() && o.config.vocab_size < vocabulary)
    throw std::invalid_argument(o.init_from + " has " + std::to_string(o.config.vocab_size) + " tokens, and this run " +
                                std::to_string(vocabulary) + ": start without --init-from, or leave out the option "
                                "that needs a new special token");
  set_vocabulary(o.config, vocabulary);
  o.config = resolved(o.config);
  if (o.config.lora_rank > 0 && !o.resume)
    o.config.lora_shared =
        keeps_adapters(o, from) ? from.options.config.lora_shared : joined_matrices(o.config, from.companions);
  if (o.resume && from.data_fingerprint != data.fingerprint)
    throw std::invalid_argument("cannot resume " + o.out + ": the text is not the one the run was trained on");
  if (o.epochs > 0) o.steps = steps_of_epochs(data, o.config.context, uint64_t(o.batch) * o.accumulate, o.epochs);
  if (o.tokens_per_parameter > 0) {
    const double tokens = o.tokens_per_parameter * static_cast<double>(count_parameters(o.config));
    o.steps = steps_of_tokens(o, tokens, tokens_per_row(data, o.config.context));
  }
  return data;
}

std::string adapt_to_resume(TrainOptions& o, CheckpointHeader& header, const Command& given) {
  std::string text = decide_time_limit(o, header, given);
  const auto add = [&](const std::string& part) { text += (text.empty() || part.empty() ? "" : "; ") + part; };
  if (given.train.resume && !o.resume) add("there is no checkpoint yet: starting from the beginning");
  if (!o.resume) return text;
  add(resume_schedule(o, header.options, header.step, given));
  const bool validated = header.best_step > 0 || std::isfinite(header.best_loss);
  if (o.eval_batches != header.options.eval_batches && validated) {
    header.best_loss = std::numeric_limits<double>::infinity();
    header.best_step = header.step;
    add("--eval-batches has changed, so " + std::string(kBestCheckpoint) + " is chosen anew");
  }
  return text;
}
