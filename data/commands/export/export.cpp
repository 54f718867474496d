#include "export.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "data/files/files.hpp"
#include "data/files/partial_files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/notes.hpp"
#include "data/text/readers/pairs.hpp"
#include "layers/norm/norm.hpp"
#include "layers/training/branch_factors.hpp"
#include "model_card.hpp"

namespace fs = std::filesystem;

namespace {

void check_dtype(const Format& format, const std::string& dtype) {
  if (std::find(format.dtypes.begin(), format.dtypes.end(), dtype) != format.dtypes.end()) return;
  std::string known;
  for (const std::string& type : format.dtypes) known += (known.empty() ? "" : ", ") + type;
  throw std::invalid_argument("--to " + std::string(format.name) + " has no --dtype " + dtype + ": choose " + known);
}

// Returns the files of an earlier export in any format, so that no reader finds them next to the new ones. Throws if
// the folder holds a model that export did not write.
std::vector<std::string> earlier_export(const std::string& folder) {
  std::map<std::string, bool> found;  // file name → true if export wrote it
  for (const Format& row : formats())
    for (const std::string& name : row.files)
      if (const std::string file = (fs::path(folder) / name).string(); is_there(file)) found[file] = false;
  for (const auto& [file, ours] : found) check_output(file, true);
  for (const Format& row : formats()) {
    if (!row.is_export || !row.is_export(folder)) continue;
    for (const std::string& name : row.files)
      if (const auto file = found.find((fs::path(folder) / name).string()); file != found.end()) file->second = true;
  }
  for (const auto& [file, ours] : found)
    if (!ours)
      throw std::runtime_error("cannot replace " + file + ": export did not write it; remove it or choose another " +
                               "--out");
  if (has_checkpoint(folder))
    throw std::runtime_error(folder + " holds a run, which would be read instead: choose another --out");
  std::vector<std::string> files;
  if (has_own_card(folder)) files.push_back((fs::path(folder) / kModelCard).string());
  for (const auto& [file, ours] : found) files.push_back(file);
  return files;
}

// Creates the folder, or the file's folder. Returns the files of an earlier output, which `force` replaces.
std::vector<std::string> make_output(const std::string& out, bool is_folder, bool force) {
  std::vector<std::string> replaced;
  if (!is_folder) {
    check_output(out, force);
  } else if (fs::exists(out) && !fs::is_empty(out)) {
    if (!force)
      throw std::invalid_argument(out + " is not empty: choose another --out, or overwrite it with --force");
    replaced = earlier_export(out);
  }
  const fs::path folder = is_folder ? fs::path(out) : fs::path(out).parent_path();
  if (!folder.empty()) make_folder(folder.string());
  return replaced;
}

void merge_adapters(TrainedModel& trained, const std::string& checkpoint) {
  if (trained.model.config.lora_rank == 0)
    throw std::invalid_argument(checkpoint + " has no adapters: leave --lora-merge out");
  trained.model = merged(std::move(trained.model));
}

// Other programs add adapters to the model that these were trained on, so nothing else of it may have changed.
void require_nothing_but_adapters(const TrainedModel& trained) {
  constexpr const char* kAdvice = ": add --lora-merge";
  const Config config = trained.model.config.without_lora();
  if (std::ranges::any_of(trained.model.table, is_running))
    throw std::invalid_argument(std::string("training has changed BatchNorm's running statistics, too") + kAdvice);
  TrainOptions before = trained.header.options;
  while (before.config.lora_rank > 0) {  // a run may go on with the adapters of another one
    const std::string from = before.init_from;
    if (from.empty())
      throw std::invalid_argument(std::string("these adapters were trained on random weights, which no folder holds") +
                                  kAdvice);
    try {
      before = read_checkpoint_header(find_checkpoint(from)).options;
    } catch (const std::runtime_error& error) {
      print_note("export cannot check that only adapters differ from " + from + ": " + error.what());
      return;
    }
    Config base = before.config.without_lora();
    base.context = config.context;
    base.branch_warmup = BranchWarmup::none;  // --init-from takes only a warm-up that has ended
    base.branch_warmup_steps = 0;
    if (const std::string changed = changed_setting(config, base); !changed.empty())
      throw std::invalid_argument("these adapters need a model with " + changed + ", as " + from + " has" + kAdvice);
  }
}

// A ramp that has ended is a factor of 1, which other programs do not need to know.
void drop_branch_warmup(TrainedModel& trained, const std::string& checkpoint) {
  const Config& c = trained.model.config;
  if (c.branch_warmup == BranchWarmup::none) return;
  if (!branch_warmup_ended(trained.model))
    throw std::invalid_argument(checkpoint + " is at step " + std::to_string(trained.header.step) +
                                ", where factors of --branch-warmup are below 1, which no other program knows: " +
                                "train it on with --resume, or, if that run went on, name its last weights, " +
                                kLastCheckpoint);
  trained.model = without_branch_warmup(trained.model);
}

// Returns the tokenizer with the token that `sample` puts before a prompt as its begin(), or without begin().
Tokenizer exported_tokenizer(const CheckpointHeader& header) {
  const Tokenizer& tokenizer = header.tokenizer;
  if (header.options.config.crosses()) {
    const bool begins = tokens_around_pairs(tokenizer, header.options.separator).begin >= 0;
    return begins ? tokenizer : tokenizer.without_begin();  // what comes before a source
  }
  const int first = tokenizer.special(header.options.separator);
  if (header.options.begin_contexts()) return tokenizer.with_begin(first);
  return first == tokenizer.begin() ? tokenizer : tokenizer.without_begin();
}

// Returns the tokens around what `sample` writes. Each is -1 if there is none.
DocumentTokens around_text(const CheckpointHeader& header) {
  const std::string& separator = header.options.separator;
  if (header.options.config.crosses()) return tokens_around_pairs(header.tokenizer, separator);
  const int answer = answer_end(header.chat(), header.tokenizer);
  const DocumentTokens around = header.tokenizer.around(separator);
  return {around.first, answer >= 0 ? answer : around.last};
}

// Returns the number type to write: the one that was asked for, or the one that the model came in.
std::string exported_dtype(const ExportOptions& options, const Format& format, const TrainedModel& trained) {
  if (!options.dtype.empty()) return options.dtype;
  if (trained.model.config.lora_rank > 0) return format.dtypes[0];  // the model's type is not its adapters'
  const CheckpointHeader& header = trained.header;
  const bool known = std::find(format.dtypes.begin(), format.dtypes.end(), header.came_dtype) != format.dtypes.end();
  return known ? header.came_dtype : format.dtypes[0];
}

}  // namespace

void run_export(const ExportOptions& options) {
  const Format& format = find_format(options.to);
  TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  if (options.lora_merge) merge_adapters(trained, options.checkpoint);
  drop_branch_warmup(trained, options.checkpoint);
  trained.model = without_fix_norm(std::move(trained.model));
  if (trained.model.config.lora_rank > 0 && !format.adapters)
    throw std::invalid_argument("--to " + options.to + " has no adapters: add --lora-merge");
  if (trained.model.config.lora_rank > 0) require_nothing_but_adapters(trained);
  const Tokenizer tokenizer = exported_tokenizer(trained.header);
  const ChatTemplate* chat = trained.header.chat();
  const DocumentTokens around = around_text(trained.header);
  const ExportedModel exported{trained.model,
                               tokenizer,
                               name_of_checkpoint(options.checkpoint, trained.path),
                               exported_dtype(options, format, trained),
                               around.last,
                               trained.model.config.crosses() ? around.first : -1,
                               chat ? jinja_of(*chat, tokenizer) : "",
                               whole_model_of(trained.header.options.init_from),
                               trained.header.companions,
                               trained.header.came_dtype};
  check_dtype(format, exported.dtype);
  format.check(exported);
  const std::string card = format.card ? model_card(trained, options.out) : "";
  PublishTogether files(make_output(options.out, format.folder, options.force));
  const std::string written = format.write(options.out, exported);
  const bool keeps_card = format.card && !write_model_card(options.out, card);
  files.publish();
  std::printf("%s, step %lld\n", exported.name.c_str(), static_cast<long long>(trained.header.step));
  std::printf("%s: %s\n", options.out.c_str(), written.c_str());
  if (keeps_card) std::printf("%s/%s: kept, because export did not write it\n", options.out.c_str(), kModelCard);
}
