#include "generate_text.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "data/strings/format.hpp"
#include "layers/model/beam_search.hpp"

std::vector<int> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt, const Generation& how) {
  const int first = how.around.first;
  const std::vector<uint32_t> encoded = tokenizer.encode(prompt);
  std::vector<int> tokens(encoded.begin(), encoded.end());
  const bool begins = tokens.empty() || how.at_first || first == tokenizer.begin();
  if (first >= 0 && begins) tokens.insert(tokens.begin(), first);
  if (tokens.empty()) tokens.push_back(std::max(0, tokenizer.newline()));
  return tokens;
}

namespace {

// Returns where the next name of a sentinel is in a text, and its token; the end of the text and -1 if there is none.
std::pair<size_t, int> next_sentinel(const Tokenizer& tokenizer, const std::string& text, size_t from,
                                     const Spans& spans) {
  std::pair<size_t, int> next = {text.size(), -1};
  for (const int token : spans.sentinels)
    if (const size_t at = text.find(tokenizer.name_of_special(token), from); at < next.first) next = {at, token};
  return next;
}

// Encodes a part of a text. Errors count bytes from the text's begin.
std::vector<uint32_t> encode_part(const Tokenizer& tokenizer, const std::string& text, size_t begin, size_t end,
                                  Unknown unknown) {
  try {
    return tokenizer.encode(text.substr(begin, end - begin), unknown);
  } catch (NoToken& error) {
    error.at += begin;
    throw;
  }
}

}  // namespace

std::vector<int> source_tokens(const Tokenizer& tokenizer, const std::string& text, const DocumentTokens& around,
                               int context, const Spans& spans, Unknown unknown) {
  if (text.empty()) throw std::runtime_error("there is no source text to read: add --prompt 'a text'");
  std::vector<int> tokens;
  if (around.begin >= 0) tokens.push_back(around.begin);
  for (size_t at = 0; at < text.size();) {
    const auto [end, sentinel] = next_sentinel(tokenizer, text, at, spans);
    const std::vector<uint32_t> encoded = encode_part(tokenizer, text, at, end, unknown);
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    if (sentinel >= 0) tokens.push_back(sentinel);
    at = end + (sentinel >= 0 ? tokenizer.name_of_special(sentinel).size() : 0);
  }
  tokens.push_back(around.last);
  if (tokens.size() > static_cast<size_t>(context))
    throw std::runtime_error("the source text has " + counted(static_cast<double>(tokens.size()), "token") +
                             ", and the model reads at most " + std::to_string(context) + ": shorten it");
  return tokens;
}

namespace {

// A decoder may write the token that it begins with.
bool ends_text(const Generation& how, int token) {
  return (token == how.around.first && how.source.empty()) || token == how.around.last || token == how.turn_end;
}

// Returns the number of tokens to draw from: a model's vocabulary may be larger than the tokenizer's.
int drawn_tokens(const Model& model, const Tokenizer& tokenizer) {
  return std::min(model.config.vocab_size, tokenizer.vocabulary());
}

// A sample that is being generated.
struct UnfinishedText {
  int sample;
  Generated result = {};
  std::string held = "";  // the end of the text that may be the beginning of `stop`
};

// Adds a token. Returns false if the text ends with it.
bool add(UnfinishedText& text, int token, const Tokenizer& tokenizer, const Generation& how, const Listener& listener) {
  if (ends_text(how, token)) {
    text.result.end = token == how.turn_end ? "turn" : "document";
    return false;
  }
  text.result.tokens.push_back(token);
  std::string& held = text.held;
  held += tokenizer.decode(token);
  if (text.result.tokens.size() == 1 && held.starts_with(how.begin)) held.erase(0, how.begin.size());
  if (const size_t end = how.stop.empty() ? held.npos : held.find(how.stop); end != held.npos) {
    held.erase(end);
    text.result.end = "stop";
    return false;
  }
  const size_t keep = std::min(held.size(), how.stop.empty() ? 0 : how.stop.size() - 1);
  listener.write(text.sample, held.substr(0, held.size() - keep));
  held.erase(0, held.size() - keep);
  if (how.stopped && how.stopped()) {
    text.result.end = "interrupted";
    return false;
  }
  return text.result.tokens.size() < static_cast<size_t>(how.length);
}

void finish(const UnfinishedText& text, const Listener& listener) {
  listener.write(text.sample, text.held);
  listener.end(text.sample, text.result);
}

// Generates samples that advance together.
void generate_together(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                       const Generation& how, std::vector<UnfinishedText> texts, const Listener& listener) {
  const int V = drawn_tokens(model, tokenizer);
  const auto count = static_cast<int>(texts.size());
  Generator generator(model, static_cast<int64_t>(prompt.size()) + how.length, count, how.activations,
                      how.source);
  generator.feed(prompt);
  for (const float* logits = generator.split(count);;) {
    std::vector<int> tokens, open;
    const bool full = generator.seen().size() == static_cast<size_t>(model.config.context);
    for (int b = 0; b < static_cast<int>(texts.size()); ++b) {
      UnfinishedText& text = texts[b];
      const float* row = logits + static_cast<size_t>(b) * model.config.vocab_size;
      if (!std::all_of(row, row + V, [](float x) { return std::isfinite(x); }))
        throw std::runtime_error("the model's output is not finite: its training diverged");
      const uint64_t number = how.number + static_cast<uint64_t>(text.sample);
      const int token =
          sample_token(row, V, how.sampling, number << 32 | text.result.tokens.size(), generator.seen(b));
      bool goes_on = add(text, token, tokenizer, how, listener);
      if (goes_on && full && how.within_context) {
        goes_on = false;
        text.result.end = "context";
      }
      if (goes_on) {
        tokens.push_back(token);
        open.push_back(b);
      }
      else finish(text, listener);
    }
    if (open.empty()) return;
    if (open.size() < texts.size()) {
      generator.keep(open);
      std::vector<UnfinishedText> left;
      for (const int b : open) left.push_back(std::move(texts[b]));
      texts = std::move(left);
    }
    logits = generator.step(tokens);
  }
}

// Writes the text that beam search finds.
void search(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt, const Generation& how,
            const Listener& listener) {
  const int context = model.config.context, room = context - static_cast<int>(prompt.size()) + 1;
  if (room <= 0)
    throw std::runtime_error("the prompt has " + counted(static_cast<double>(prompt.size()), "token") +
                             ", and beam search stays within the context of " + std::to_string(context) +
                             ": shorten it, or leave --beams out");
  const auto ends = [&](int token) { return ends_text(how, token); };
  const BeamSearch search{how.beams, std::min(how.length, room), drawn_tokens(model, tokenizer), ends, how.stopped};
  Generator generator(model, static_cast<int64_t>(prompt.size()) + search.length, how.beams, how.activations,
                      how.source);
  const Found found = beam_search(generator, prompt, model.config.vocab_size, search);
  UnfinishedText text{0};
  for (const int token : found.tokens)
    if (!add(text, token, tokenizer, how, listener)) break;
  const bool full = std::ssize(text.result.tokens) == room && room < how.length;
  if (full && text.result.end == Generated().end) text.result.end = "context";
  finish(text, listener);
}

}  // namespace

void generate_texts(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                    const Generation& how, int count, const Listener& listener) {
  if (how.beams > 0 && how.length > 0) return search(model, tokenizer, prompt, how, listener);
  const int64_t most = static_cast<int64_t>(prompt.size()) + how.length;
  const int together = sequences_together(model.config, most, count);
  for (int first = 0; first < count; first += together) {
    std::vector<UnfinishedText> texts;
    for (int n = first; n < first + std::min(together, count - first); ++n) texts.push_back({n});
    if (how.length > 0) generate_together(model, tokenizer, prompt, how, std::move(texts), listener);
    else std::for_each(texts.begin(), texts.end(), [&](const UnfinishedText& text) { finish(text, listener); });
  }
}

Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write) {
  Generated result;
  generate_texts(model, tokenizer, prompt, how, 1,
                 {[&](int, const std::string& piece) { write(piece); },
                  [&](int, const Generated& generated) { result = generated; }});
  return result;
}

void generate_texts(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                    int count, const Listener& listener) {
  generate_texts(model, tokenizer, prompt_tokens(tokenizer, prompt, how), how, count, listener);
}

Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write) {
  return generate_text(model, tokenizer, prompt_tokens(tokenizer, prompt, how), how, write);
}
