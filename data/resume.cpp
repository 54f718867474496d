#include "resume.hpp"

#include <stdexcept>

#include "files.hpp"
#include "run.hpp"

Command on_top_of_checkpoint(const Command& command, CheckpointHeader& header) {
  const TrainOptions& o = command.train;
  if (o.resume && o.out.empty()) throw std::invalid_argument("--resume needs --out: which run is to go on?");
  if (o.resume) {
    header = read_checkpoint_header(o.out + "/" + kLastCheckpoint);
    const Command merged = parse_on_top(command, read_file(o.out + "/config.toml"));
    TrainOptions now = merged.train;
    if (now.config.vocab_size == 0) now.config.vocab_size = header.options.config.vocab_size;
    const auto contradictions = differences(
        header.options, now,
        {"data", "steps", "threads", "recompute", "eval-every", "eval-batches", "sample-every", "save-every",
         "diagnostics"});
    if (!contradictions.empty())
      throw std::invalid_argument("cannot resume " + o.out + ": " + contradictions[0] +
                                  "; leave the option out, or start a new run");
    return merged;
  }
  if (!o.init_from.empty()) {
    header = read_checkpoint_header(find_checkpoint(o.init_from));
    return parse_on_top(command, model_to_toml(header.options));
  }
  return command;
}

Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program) {
  if (o.data.empty())
    throw std::invalid_argument("--data is missing: name a text file, or make one with " + program +
                                " corpus --bytes 4M --out stories.txt");
  const bool continues = o.resume || !o.init_from.empty();
  Dataset data = load_dataset(o.data, continues ? &from.tokenizer : nullptr, o.tokenizer == TextUnit::character,
                              o.val_fraction, o.config.context);
  const int needed = data.tokenizer.vocabulary();
  if (o.config.vocab_size == 0) o.config.vocab_size = needed;
  if (o.config.vocab_size < needed)
    throw std::invalid_argument("--vocab-size " + std::to_string(o.config.vocab_size) + " is smaller than the " +
                                std::to_string(needed) + " tokens of the data");
  o.config = resolve(o.config);
  if (o.resume && from.data_fingerprint != data.fingerprint)
    throw std::invalid_argument("cannot resume " + o.out + ": the text is not the one the run was trained on");
  return data;
}
