#include "import.hpp"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "data/files/foreign_files.hpp"
#include "data/files/partial_files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/huggingface/peft_model.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "layers/model/size.hpp"

void run_import(const ImportOptions& options) {
  if (!std::filesystem::exists(options.path))
    throw std::invalid_argument("there is no file or folder " + options.path + hub_advice(options.path));
  refuse_foreign_model(options.path);
  const Format* format = format_of(options.path);
  if (!format)
    throw std::invalid_argument(options.path + " is no model that train_gpt reads: a GGUF file, or a folder of "
                                               "transformers, llm.c or llama2.c");
  if (!options.base.empty() && !has_adapters(options.path))
    throw std::invalid_argument("--base is for a folder with adapters, and " + options.path + " is none: leave it out");
  const TrainedModel from =
      options.base.empty() ? load_trained_model(options.path) : load_adapted_model(options.path, options.base);
  if (const std::string note = note_on_chat(from.header); !note.empty())
    print_note(note);
  std::string out = options.out;
  const DirectoryLock lock = claim_directory(out, "");
  PublishTogether files(replaced_run(out, options.force));
  save_checkpoint(out + "/" + kLastCheckpoint, from.header, from.model, nullptr);
  files.publish();
  std::printf("%s: %s, %s, %s, vocabulary %d\n", out.c_str(), format->description, from.header.options.preset.c_str(),
              counted(static_cast<double>(count_parameters(from.model.table)), "parameter").c_str(),
              from.model.config.vocab_size);
}
