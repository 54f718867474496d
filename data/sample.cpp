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

// What a shell cannot easily type: \n and \t.
std::string with_newlines(std::string text) {
  for (const auto& [typed, meant] : {std::pair{"\\n", "\n"}, std::pair{"\\t", "\t"}})
    for (size_t at; (at = text.find(typed)) != text.npos;) text.replace(at, 2, meant);
  return text;
}

}  // namespace

void generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                   const std::function<void(const std::string&)>& write, const std::function<void()>& beyond) {
  const std::vector<uint16_t> encoded = tokenizer.encode(prompt);
  std::vector<int> next(encoded.begin(), encoded.end());
  if (next.empty()) next.push_back(token_before_text(tokenizer));
  // A vocabulary may be larger than what the tokenizer can say; only what it can say is drawn.
  const int V = std::min(model.config.vocab_size, tokenizer.vocabulary());
  Generator generator(model);
  bool told = false;
  std::string held;  // the end of the text, as long as it may be the beginning of `stop`
  for (int i = 0; i < how.length; ++i) {
    const float* logits = generator.feed(next);
    if (generator.beyond_context() && !told) {
      beyond();
      told = true;
    }
    next = {sample_token(logits, V, how.sampling, how.number << 32 | static_cast<uint64_t>(i))};
    held += tokenizer.decode(next[0]);
    if (const size_t end = how.stop.empty() ? held.npos : held.find(how.stop); end != held.npos)
      return write(held.substr(0, end));
    const size_t keep = std::min(held.size(), how.stop.empty() ? 0 : how.stop.size() - 1);
    write(held.substr(0, held.size() - keep));
    held.erase(0, held.size() - keep);
  }
  write(held);
}

std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed) {
  std::string text;
  generate_text(model, tokenizer, "", {.length = length, .stop = "", .sampling = {.temperature = .8f, .seed = seed}},
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
  const std::string stop = with_newlines(options.stop);
  for (int n = 0; n < options.count ; ++n) {
    print(prompt);
    generate_text(model, trained.header.tokenizer, prompt, {options.length, stop, options.sampling, uint64_t(n)}, print,
                  beyond);
    print("\n");
  }
}
