#include "multiple_choice.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "layers/cross_entropy/cross_entropy.hpp"

namespace {

// A text with one of its completions.
struct Choice {
  const std::vector<int>*text, *completion;
  size_t inputs() const { return text->size() + completion->size() - 1; }  // the last token is only a target
};

std::vector<Choice> choices_of(const std::vector<Question>& questions) {
  std::vector<Choice> rows;
  for (const Question& q : questions)
    for (const std::vector<int>& completion : q.completions) rows.push_back({&q.text, &completion});
  return rows;
}

// Returns, for each completion, the sum of its tokens' losses given the text.
std::vector<double> losses_of(const Model& model, const Activations& a, const Choice* rows, size_t count) {
  size_t T = 0;
  for (size_t b = 0; b < count; ++b) T = std::max(T, rows[b].inputs());
  std::vector<int> tokens(count * T), targets(count * T, kIgnore);
  for (size_t b = 0; b < count; ++b) {
    std::vector<int> all = *rows[b].text;
    all.insert(all.end(), rows[b].completion->begin(), rows[b].completion->end());
    std::copy(all.begin(), all.end() - 1, tokens.begin() + static_cast<std::ptrdiff_t>(b * T));
    for (size_t t = rows[b].text->size(); t < all.size(); ++t) targets[b * T + t - 1] = all[t];
  }
  model_loss(model, a, {tokens.data(), targets.data(), static_cast<int>(count), static_cast<int>(T)});
  std::vector<double> sums(count);
  for (size_t n = 0; n < tokens.size(); ++n)
    if (targets[n] != kIgnore) sums[n / T] += static_cast<double>(a.losses[n]);
  return sums;
}

}  // namespace

void check_questions(const std::vector<Question>& questions, const std::string& path, const Config& config) {
  const auto fail = [&](size_t question, const std::string& why) {
    throw std::runtime_error(path + ": question " + std::to_string(question) + " " + why);
  };
  for (size_t i = 0; i < questions.size(); ++i)
    for (const std::vector<int>& completion : questions[i].completions) {
      const Choice row{&questions[i].text, &completion};
      if (row.inputs() > static_cast<size_t>(config.context))
        fail(i, "has " + std::to_string(row.inputs() + 1) + " tokens, and the model's context is " +
                    std::to_string(config.context) + ": it needs a model with a longer one");
      for (const auto* part : {row.text, row.completion})
        if (const int largest = *std::max_element(part->begin(), part->end()); largest >= config.vocab_size)
          fail(i, "has the token " + std::to_string(largest) + ", and the model's vocabulary is " +
                      std::to_string(config.vocab_size) + ": it needs a model with the tokenizer of the file");
    }
}

Accuracy measure_accuracy(const Model& model, const Activations& activations, const std::vector<Question>& questions,
                          int B, const std::function<bool(int64_t done, int64_t total)>& go_on) {
  const std::vector<Choice> rows = choices_of(questions);
  std::vector<double> sums, means;
  for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(B)) {
    if (!go_on(static_cast<int64_t>(first), static_cast<int64_t>(rows.size()))) return {};
    const size_t count = std::min(rows.size() - first, static_cast<size_t>(B));
    const std::vector<double> losses = losses_of(model, activations, &rows[first], count);
    for (size_t b = 0; b < count; ++b) {
      sums.push_back(losses[b]);
      means.push_back(losses[b] / static_cast<double>(rows[first + b].completion->size()));
      if (!std::isfinite(losses[b]))
        throw std::runtime_error("the loss of a completion is not finite: the model's training diverged");
    }
  }
  Accuracy accuracy;
  std::ptrdiff_t at = 0;
  for (const Question& q : questions) {
    const auto end = at + static_cast<std::ptrdiff_t>(q.completions.size());
    const auto chosen = [&](const std::vector<double>& losses) {
      return std::min_element(losses.begin() + at, losses.begin() + end) - losses.begin() - at;
    };
    accuracy.by_sum += chosen(sums) == q.right;
    accuracy.by_mean += chosen(means) == q.right;
    ++accuracy.questions;
    at = end;
  }
  return accuracy;
}
