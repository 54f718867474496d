#include "fill_masks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "layers/kernels/buffer.hpp"

std::vector<int> masked_prompt(const Tokenizer& tokenizer, const std::string& prompt, const DocumentTokens& around,
                               Unknown unknown, int context) {
  const std::string mask = mask_name(tokenizer);
  std::vector<int> tokens;
  const auto append = [&](const std::string& text) {
    if (text.empty()) return;
    const std::vector<uint32_t> part = tokenizer.encode(text, unknown);
    tokens.insert(tokens.end(), part.begin(), part.end());
  };
  if (around.first >= 0) tokens.push_back(around.first);
  size_t begin = 0;
  for (size_t at; !tokenizer.finds_special() && (at = prompt.find(mask, begin)) != prompt.npos;) {
    append(prompt.substr(begin, at - begin));
    tokens.push_back(tokenizer.special(mask));
    begin = at + mask.size();
  }
  append(prompt.substr(begin));
  if (around.last >= 0) tokens.push_back(around.last);  // as in training, also if neighbors share it there
  if (std::ranges::find(tokens, tokenizer.special(mask)) == tokens.end())
    throw std::runtime_error("this model fills masks: write " + mask + " in the place of a token, such as --prompt '" +
                                (prompt.empty() ? "The " : one_line(prompt) + " ") + mask + "'");
  if (tokens.size() > static_cast<size_t>(context))
    throw std::runtime_error("the prompt has " + std::to_string(tokens.size()) + " tokens, and the model's context " +
                                std::to_string(context) + ": shorten it");
  return tokens;
}

namespace {

std::vector<Guess> likeliest(const float* logits, int V, int count) {
  std::vector<int> order(V);
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(count, V);
  std::partial_sort(order.begin(), end, order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (int v = 0; v < V; ++v) sum += std::exp(static_cast<double>(logits[v] - logits[order[0]]));
  std::vector<Guess> guesses;
  for (auto v = order.begin(); v != end; ++v)
    guesses.push_back({*v, std::exp(static_cast<double>(logits[*v] - logits[order[0]])) / sum});
  return guesses;
}

}  // namespace

std::vector<FilledMask> fill_masks(const Model& model, const Activations& activations, const std::vector<int>& tokens,
                                   int mask, int guesses) {
  const int T = static_cast<int>(tokens.size()), V = model.config.vocab_size;
  const Buffer logits = allocate(checked_product({size_t(T), size_t(V)}));
  batch_logits(logits.get(), model, activations, {tokens.data(), nullptr, 1, T});
  std::vector<FilledMask> filled;
  for (int t = 0; t < T; ++t)
    if (tokens[t] == mask) filled.push_back({t, likeliest(logits.get() + static_cast<size_t>(t) * V, V, guesses)});
  return filled;
}

std::string filled_text(const Tokenizer& tokenizer, std::vector<int> tokens, const std::vector<FilledMask>& masks) {
  for (const FilledMask& mask : masks) tokens[mask.place] = mask.guesses.at(0).token;
  std::erase_if(tokens, [&](int token) { return !tokenizer.name_of_special(token).empty(); });
  return tokenizer.decode({tokens.begin(), tokens.end()});
}

std::string filled_sample(const Model& model, const Activations& activations, const Dataset& data) {
  constexpr int kMost = 64;
  const Rows& rows = data.val.empty() ? data.rows : data.val;
  const int T = std::min(model.config.context, kMost);
  std::vector<int> tokens =
      rows.empty() ? draw_batch(data, 1, model.config.context, {0, 0, 1}, 0).tokens
                   : fill_rows(data, rows, 0, 1, std::max(model.config.context, rows.longest())).tokens;
  tokens.resize(T);
  std::string text;
  for (const int token : tokens)
    text += token == data.masking.token ? mask_name(data.tokenizer) : data.tokenizer.decode(token);
  return text + "\n" +
         filled_text(data.tokenizer, tokens, fill_masks(model, activations, tokens, data.masking.token));
}
