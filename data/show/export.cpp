#include "export.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "data/formats/formats.hpp"
#include "data/host/files.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"

namespace fs = std::filesystem;

namespace {

void check_dtype(const Format& format, const std::string& dtype) {
  if (std::find(format.dtypes.begin(), format.dtypes.end(), dtype) != format.dtypes.end()) return;
  std::string known;
  for (const std::string& type : format.dtypes) known += (known.empty() ? "" : ", ") + type;
  throw std::invalid_argument("--to " + std::string(format.name) + " has no --dtype " + dtype + ": choose " + known);
}

// Makes the folder, or the folder of the file.
void make_output(const std::string& out, bool is_folder, bool force) {
  const bool taken = is_folder ? fs::exists(out) && !fs::is_empty(out) : fs::exists(out);
  if (!force && taken)
    throw std::invalid_argument(out + (is_folder ? " is not empty" : " is there already") +
                                ": choose another --out, or overwrite it with --force");
  const fs::path folder = is_folder ? fs::path(out) : fs::path(out).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) fail_file("make the directory", folder.string(), error.value());
}

void merge_adapters(TrainedModel& trained, const std::string& checkpoint) {
  if (trained.model.config.lora_rank == 0)
    throw std::invalid_argument(checkpoint + " has no adapters: leave --lora-merge out");
  trained.model = merged(trained.model);
}

// A model that has not read the token before a text gets none from other programs, as from `sample`.
Tokenizer exported_tokenizer(const CheckpointHeader& header) {
  const Tokenizer& tokenizer = header.tokenizer;
  return tokenizer.special(header.options.separator) == tokenizer.begin() ? tokenizer : tokenizer.without_begin();
}

}  // namespace

void run_export(const ExportOptions& options) {
  const Format& format = find_format(options.to);
  TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  if (options.lora_merge) merge_adapters(trained, options.checkpoint);
  if (trained.model.config.lora_rank > 0 && options.to != "hf")
    throw std::invalid_argument("--to " + options.to + " has no adapters: add --lora-merge");
  const Tokenizer tokenizer = exported_tokenizer(trained.header);
  const ExportedModel exported{trained.model, tokenizer, name_of_checkpoint(options.checkpoint, trained.path),
                               options.dtype.empty() ? format.dtypes[0] : options.dtype};
  check_dtype(format, exported.dtype);
  format.check(exported);
  make_output(options.out, format.folder, options.force);
  const std::string written = format.write(options.out, exported);
  std::printf("%s, step %lld\n", exported.name.c_str(), static_cast<long long>(trained.header.step));
  std::printf("%s: %s\n", options.out.c_str(), written.c_str());
}
