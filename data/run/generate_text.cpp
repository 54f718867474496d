#include "generate_text.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write,
                        const std::function<void()>& beyond) {
  const std::vector<uint32_t> encoded = tokenizer.encode(prompt);
  std::vector<int> next(encoded.begin(), encoded.end());
  if (next.empty()) next.push_back(how.separator >= 0 ? how.separator : std::max(0, tokenizer.newline()));
  // A model's vocabulary may be larger than the tokenizer's. Only tokens of the tokenizer are drawn.
  const int V = std::min(model.config.vocab_size, tokenizer.vocabulary());
  Generator generator(model, static_cast<int64_t>(next.size()) + how.length);
  Generated result{"length", {}};
  bool told = false;
  std::string held;  // the end of the text, while it may be the beginning of `stop`
  for (int i = 0; i < how.length; ++i) {
    const float* logits = generator.feed(next);
    if (!std::all_of(logits, logits + V, [](float x) { return std::isfinite(x); }))
      throw std::runtime_error("the model's output is not finite: its training diverged");
    if (generator.beyond_context() && !told) {
      beyond();
      told = true;
    }
    next = {sample_token(logits, V, how.sampling, how.number << 32 | static_cast<uint64_t>(i), generator.seen())};
    if (next[0] == how.separator) {
      result.end = "separator";
      break;
    }
    result.tokens.push_back(next[0]);
    held += tokenizer.decode(next[0]);
    if (const size_t end = how.stop.empty() ? held.npos : held.find(how.stop); end != held.npos) {
      held.erase(end);
      result.end = "stop";
      break;
    }
    const size_t keep = std::min(held.size(), how.stop.empty() ? 0 : how.stop.size() - 1);
    write(held.substr(0, held.size() - keep));
    held.erase(0, held.size() - keep);
  }
  write(held);
  return result;
}

std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed,
                      const std::string& stop, uint64_t number, int separator) {
  std::string text;
  generate_text(model, tokenizer, "",
                {.length = length,
                 .stop = stop,
                 .sampling = {.temperature = .8f, .seed = seed},
                 .number = number,
                 .separator = separator},
                [&](const std::string& piece) { text += piece; }, [] {});
  return text;
}
