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
        {"data", "val-data", "steps", "threads", "recompute", "eval-every", "eval-batches", "sample-every", "save-every",
         "diagnostics", "patience"});
    if (!contradictions.empty())
      throw std::invalid_argument("cannot resume " + o.out + ": " + contradictions[0] +
                                  "; leave the option out, or start a new run");
    return merged;
  }
  if (!o.init_from.empty()) {
    header = read_checkpoint_header(find_checkpoint(o.init_from));
    const std::string kind = name_of(kTokenizers, header.tokenizer.kind());
    const Command merged = parse_on_top(command, model_to_toml(header.options) + "tokenizer = \"" + kind + "\"\n");
    if (merged.train.tokenizer != header.tokenizer.kind())
      throw std::invalid_argument("the tokens of " + o.init_from + " are those of --tokenizer " + kind +
                                  "; leave --tokenizer out, or start without --init-from");
    return merged;
  }
  return command;
}

TrainOptions options_on_checkpoint(const std::vector<std::string>& words,
                                   const std::vector<std::pair<std::string, std::string>>& more, CheckpointHeader& header) {
  Command command;
  command.words = words;
  for (const auto& [option, value] : more) command.words.push_back("--" + option + "=" + value);
  command.train = train_options(command.words, {});
  return on_top_of_checkpoint(command, header).train;
}

Dataset load_training_data(TrainOptions& o, const CheckpointHeader& from, const std::string& program) {
  if (o.data.empty())
    throw std::invalid_argument("--data is missing: name a text file, or make one with " + program +
                                " corpus --bytes 4M --out stories.txt");
  const bool continues = o.resume || !o.init_from.empty();
  const Tokenizer* tokenizer = continues ? &from.tokenizer : nullptr;
  Dataset data = load_dataset(o, tokenizer, o.config.context);
  set_vocabulary(o.config, data.tokenizer.vocabulary());
  o.config = resolve(o.config);
  if (o.resume && from.data_fingerprint != data.fingerprint)
    throw std::invalid_argument("cannot resume " + o.out + ": the text is not the one the run was trained on");
  if (o.epochs > 0)
    o.steps = steps_of_epochs(data, o.config.context, uint64_t(o.batch) * o.accumulate, o.epochs);
  return data;
}
