#pragma once
// Short training runs for tests, and helpers to read what they write.

#include <string>
#include <vector>

#include "catch.hpp"
#include "data/corpus/corpus_files.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "message.hpp"
#include "program.hpp"

// Windows of these are shorter than a story, so the stories of a corpus are read as one stream.
inline const std::string kSmall =
    " --layers 2 --heads 2 --channels 32 --context 32 --batch 4 --eval-every 5 --eval-batches 2 --quiet "
    "--documents file ";
inline const std::string kTiny =
    " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --eval-every 0 --threads 1 --quiet --documents file ";

// A folder with a short corpus in it.
struct Corpus : Folder {
  Corpus() { write_corpus(path("stories.txt"), 60000, 1); }
};

// CHECKs that the program refuses these words in one line that contains `message`.
inline void check_refused(const Folder& f, const std::string& words, const std::string& message) {
  const Outcome o = f.run(words);
  INFO(words << "\n" << o.err);
  CHECK(o.status == 1);
  CHECK(contains(o.err, message));
  CHECK(count_lines(o.err) == 1);
}

inline std::vector<float> weights_in(const std::string& path) {
  const CheckpointHeader header = read_checkpoint_header(path);
  Model model(header.options.config);
  load_checkpoint(path, model, nullptr);
  return {model.weights.get(), model.weights.get() + model.floats};
}

// The weights of the newest state in a run's directory.
inline std::vector<float> last_weights(const Folder& f, const std::string& run) {
  return weights_in(f.path(run + "/checkpoint.safetensors"));
}
