#include "tokenizer.hpp"

#include <cstdio>

#include "data/files/files.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_json.hpp"

void run_tokenizer(const TokenizerOptions& options) {
  check_output(options.out, options.force);
  use_threads(options.threads);
  WholeFile file(options.out);
  const Text text = read_text(options.data, options);
  check_output(options.out, options.force);  // after reading, because it may be one of the inputs
  for (const std::string& note : text.notes) print_note(note);
  const Stopwatch clock;
  const Tokenizer trained = train_tokenizer(text.bytes, options.vocabulary, {options.separator});
  const Bpe& bpe = *trained.bpe();
  const double seconds = clock.seconds();
  if (bpe.vocabulary() < options.vocabulary)
    print_note("the text has no more pairs to merge: " + std::to_string(bpe.vocabulary()) + " tokens instead of " +
               std::to_string(options.vocabulary));
  file.write(to_json(bpe));
  file.publish();
  const double bytes = static_cast<double>(text.bytes.size());
  std::printf("%s: %s from %s (%s, %.1f s), %.2f bytes per token\n", options.out.c_str(),
              counted(bpe.vocabulary(), "token").c_str(), text.name.c_str(), format_bytes(text.bytes.size()).c_str(),
              seconds, bytes / static_cast<double>(bpe.encode(text.bytes).size()));
}
