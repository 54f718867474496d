#include "sample.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "checkpoint.hpp"
#include "files.hpp"
#include "machine.hpp"
#include "run.hpp"

namespace {

int token_before_text(const Tokenizer& tokenizer) {
  if (tokenizer.kind() == Tokenizer::Kind::byte) return '\n';
  const std::vector<uint32_t>& alphabet = tokenizer.alphabet();
  const auto newline = std::find(alphabet.begin(), alphabet.end(), uint32_t{'\n'});
  return newline == alphabet.end() ? 0 : static_cast<int>(newline - alphabet.begin());
}

}  // namespace

void generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, int length,
                   const Sampling& sampling, const std::function<void(const std::string&)>& write,
                   const std::function<void()>& beyond) {
  const std::vector<uint16_t> encoded = tokenizer.encode(prompt);
  std::vector<int> next(encoded.begin(), encoded.end());
  if (next.empty()) next.push_back(token_before_text(tokenizer));
  // A vocabulary may be larger than what the tokenizer can say; only what it can say is drawn.
  const int V = std::min(model.config.vocab_size, tokenizer.vocabulary());
  Generator generator(model);
  bool told = false;
  for (int i = 0; i < length; ++i) {
    const float* logits = generator.feed(next);
    if (generator.beyond_context() && !told) {
      beyond();
      told = true;
    }
    next = {sample_token(logits, V, sampling, i)};
    write(tokenizer.decode(next[0]));
  }
}

std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed) {
  std::string text;
  generate_text(model, tokenizer, "", length, {.temperature = .8f, .seed = seed},
                [&](const std::string& piece) { text += piece; }, [] {});
  return text;
}

void run_sample(const SampleOptions& options) {
  use_threads(options.threads);
  const TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  const Model& model = trained.model;
  std::fprintf(stderr, "%s, step %lld\n", trained.path.c_str(), static_cast<long long>(trained.header.step));

  std::string prompt = options.prompt;
  if (!options.prompt_given && !isatty(STDIN_FILENO)) prompt = read_file("-");
  const auto print = [](const std::string& piece) {
    std::fputs(piece.c_str(), stdout);
    std::fflush(stdout);
  };
  const auto beyond = [&] {
    std::fprintf(stderr, "\n[the context of %d tokens is full: from here on the model sees the last %d to %d]\n",
                 model.config.context, std::max(1, model.config.context / 2), model.config.context);
  };
  print(prompt);
  generate_text(model, trained.header.tokenizer, prompt, options.length, options.sampling, print, beyond);
  print("\n");
}
