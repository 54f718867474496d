#include "export.hpp"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "data/formats/architectures.hpp"
#include "data/formats/huggingface.hpp"
#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/run/checkpoint.hpp"
#include "data/run/directory.hpp"
#include "layers/model/size.hpp"

namespace fs = std::filesystem;

namespace {

void make_output_folder(const std::string& folder, bool force) {
  if (!force && fs::exists(folder) && !fs::is_empty(folder))
    throw std::invalid_argument(folder + " is not empty: choose another --out, or overwrite it with --force");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_file("make the directory", folder, error.value());
}

}  // namespace

void run_export(const ExportOptions& options) {
  const TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  expressed(trained.model.config);  // throws before anything is written
  make_output_folder(options.out, options.force);
  const std::string model_class = write_huggingface(options.out, trained.model, to_json(trained.header.tokenizer));
  std::printf("%s, step %lld\n", name_of_checkpoint(options.checkpoint, trained.path).c_str(),
              static_cast<long long>(trained.header.step));
  std::printf("%s: %s of transformers, %s, in float32; tokens are %s\n", options.out.c_str(), model_class.c_str(),
              counted(static_cast<double>(count_parameters(trained.model.table)), "parameter").c_str(),
              trained.header.tokenizer.kind() == Tokenizer::Kind::byte ? "bytes" : "characters");
}
