#include "sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include <unistd.h>

#include "data/run/checkpoint.hpp"
#include "data/host/files.hpp"
#include "data/host/machine.hpp"
#include "data/run/directory.hpp"
#include "data/text/text_files.hpp"
#include "data/host/utf8.hpp"

namespace {

// What a shell cannot easily type: \n and \t.
std::string with_newlines(std::string text) {
  for (const auto& [typed, meant] : {std::pair{"\\n", "\n"}, std::pair{"\\t", "\t"}})
    for (size_t at; (at = text.find(typed)) != text.npos;) text.replace(at, 2, meant);
  return text;
}

// The prompt as the model reads it.
std::string known_prompt(std::string prompt, const Tokenizer& tokenizer, Unknown unknown) {
  std::string known;
  drop_returns(prompt);
  try {
    for (const uint16_t token : tokenizer.encode(prompt, unknown)) known += tokenizer.decode(token);
  } catch (const NoToken& error) {
    throw std::runtime_error("byte " + std::to_string(error.at + 1) + " of the prompt: " + error.what() + "; " +
                             (error.is_utf8 ? "--unknown skip or --unknown replace goes on without it" : "convert it"));
  }
  return known;
}

// Exact bytes for a file or a pipe; for a terminal, which would obey control characters, text.
class Output {
 public:
  void write(const std::string& text) { put(terminal_ ? shown_.feed(text) : text); }
  void end() { put(shown_.finish() + "\n"); }

 private:
  static void put(const std::string& bytes) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    std::fflush(stdout);
  }
  const bool terminal_ = isatty(STDOUT_FILENO);
  TerminalText shown_;
};

}  // namespace

void generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                   const std::function<void(const std::string&)>& write, const std::function<void()>& beyond) {
  const std::vector<uint16_t> encoded = tokenizer.encode(prompt);
  std::vector<int> next(encoded.begin(), encoded.end());
  if (next.empty()) next.push_back(std::max(0, tokenizer.newline()));
  // A vocabulary may be larger than what the tokenizer can say; only what it can say is drawn.
  const int V = std::min(model.config.vocab_size, tokenizer.vocabulary());
  Generator generator(model, static_cast<int64_t>(next.size()) + how.length);
  bool told = false;
  std::string held;  // the end of the text, as long as it may be the beginning of `stop`
  for (int i = 0; i < how.length; ++i) {
    const float* logits = generator.feed(next);
    if (!std::all_of(logits, logits + V, [](float x) { return std::isfinite(x); }))
      throw std::runtime_error("the model's output is not finite: its training diverged");
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

std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed, const std::string& stop,
                      uint64_t number) {
  std::string text;
  generate_text(model, tokenizer, "",
                {.length = length, .stop = stop, .sampling = {.temperature = .8f, .seed = seed}, .number = number},
                [&](const std::string& piece) { text += piece; }, [] {});
  return text;
}

void run_sample(const SampleOptions& options) {
  use_threads(options.threads);
  const TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  const Model& model = trained.model;
  std::fprintf(stderr, "%s, step %lld\n", name_of_checkpoint(options.checkpoint, trained.path).c_str(),
               static_cast<long long>(trained.header.step));

  std::string prompt = options.prompt;
  if (!options.prompt_given && !isatty(STDIN_FILENO)) prompt = read_file("-");
  prompt = known_prompt(prompt, trained.header.tokenizer, options.unknown);
  Output output;
  const auto print = [&](const std::string& piece) { output.write(piece); };
  bool full = false;
  const auto beyond = [&] { full = true; };
  const std::string stop = with_newlines(options.stop);
  for (int n = 0; n < options.count; ++n) {
    print(prompt);
    generate_text(model, trained.header.tokenizer, prompt, {options.length, stop, options.sampling, uint64_t(n)}, print,
                  beyond);
    output.end();
  }
  if (full)  // after the text: it would split a word
    std::fprintf(stderr, "[the context of %d tokens was full: beyond it the model saw the last %d to %d]\n",
                 model.config.context, std::max(1, model.config.context / 2), model.config.context);
}
