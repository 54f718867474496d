#include "multiple_choice.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>

#include "data/host/interrupt.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"

namespace {

// Returns, for each completion, the sum of its tokens' losses given the text.
std::vector<double> batch_losses(const Model& model, const Activations& a, std::span<const Choice* const> rows) {
  size_t T = 0;  // the last token is only a target
  for (const Choice* row : rows) T = std::max(T, row->tokens.size() - 1);
  std::vector<int> tokens(rows.size() * T), targets(rows.size() * T, kIgnore), begins;
  // Under longrope, the length of an example decides how RoPE is stretched, so what fills up a row is its own example.
  if (model.config.rope_scaling == RopeScaling::longrope) begins.resize(tokens.size());
  for (size_t b = 0; b < rows.size(); ++b) {
    const auto& [all, from, length] = *rows[b];
    std::copy(all.begin(), all.end() - 1, tokens.begin() + static_cast<std::ptrdiff_t>(b * T));
    for (size_t t = from; t < all.size(); ++t) targets[b * T + t - 1] = all[t];
    for (size_t t = all.size() - 1; t < T && !begins.empty(); ++t) begins[b * T + t] = static_cast<int>(all.size() - 1);
  }
  model_loss(model, a, {tokens.data(), targets.data(), static_cast<int>(rows.size()), static_cast<int>(T),
                        begins.empty() ? nullptr : begins.data()});
  std::vector<double> sums(rows.size());
  for (size_t n = 0; n < tokens.size(); ++n)
    if (targets[n] != kIgnore) sums[n / T] += static_cast<double>(a.losses[n]);
  return sums;
}

// Returns the part of a point that the right choice gets.
double point_of(std::span<const double> losses, int right) {
  const double lowest = *std::ranges::min_element(losses);
  return losses[right] > lowest ? 0 : 1 / static_cast<double>(std::ranges::count(losses, lowest));
}

void check_question(const Question& q, const Config& config) {
  for (const auto& [tokens, from, length] : q.choices) {
    if (tokens.size() - 1 > static_cast<size_t>(config.context))
      throw std::runtime_error(q.place + " has " + std::to_string(tokens.size()) +
                               " tokens, and the model's context is " + std::to_string(config.context) +
                               ": it needs a model with a longer one");
    if (const int largest = *std::ranges::max_element(tokens); largest >= config.vocab_size)
      throw std::runtime_error(q.place + " has the token " + std::to_string(largest) +
                               ", and the model's vocabulary is " + std::to_string(config.vocab_size) +
                               ": it needs a model with the tokenizer of the file");
  }
}

}  // namespace

Interval wilson(double share, int64_t n) {
  constexpr double z = 1.959964;  // of a normal distribution, 95 % is within ±z
  const double shrink = z * z / static_cast<double>(n);
  const double center = (share + shrink / 2) / (1 + shrink);
  const double half = std::sqrt(shrink * (share * (1 - share) + shrink / 4)) / (1 + shrink);
  return {std::max(0., center - half), std::min(1., center + half)};
}

Score total_of(const std::vector<Score>& scores) {
  Score total;
  for (const Score& s : scores) {
    total.questions += s.questions;
    for (const auto points : {&Score::by_sum, &Score::by_length, &Score::uniform}) total.*points += s.*points;
  }
  return total;
}

double mean_of(const std::vector<Score>& scores) {
  double sum = 0;
  for (const Score& s : scores) sum += s.share(&Score::by_sum);
  return sum / static_cast<double>(scores.size());
}

QuestionTokens question_tokens(const Tokenizer& tokenizer, const DocumentOptions& documents, Unknown unknown) {
  const int first = tokenizer.around(documents.separator).first;
  return {tokenizer, first, documents.begin_contexts() || first == tokenizer.begin(), unknown};
}

std::string note_on_first_tokens(const std::vector<Question>& questions) {
  const auto differs = [](const Question& q) {
    return std::ranges::any_of(q.choices, [&](const Choice& c) { return c.tokens[0] != q.choices[0].tokens[0]; });
  };
  const auto count = static_cast<double>(std::ranges::count_if(questions, differs));
  if (count == 0) return "";
  return "no token begins a document of this model, so the first token of a sentence does not count: it differs in " +
         counted(count, "pair");
}

int longest_of(const std::vector<Question>& questions) {
  size_t longest = 0;  // the last token is only a target
  for (const Question& q : questions)
    for (const Choice& choice : q.choices) longest = std::max(longest, choice.tokens.size() - 1);
  return static_cast<int>(longest);
}

std::vector<Question> read_all(const std::vector<std::string>& files, ReadQuestions* read, const QuestionTokens& how,
                               const Config& config) {
  if (!files.empty() && config.objective != Objective::lm)
    throw std::invalid_argument("minimal pairs and questions need a model of the next token, and this one has "
                                "--objective " + std::string(name_of(kObjectives, config.objective)));
  std::vector<Question> questions;
  for (const std::string& file : files) std::ranges::move(read(file, how), std::back_inserter(questions));
  for (const Question& q : questions) check_question(q, config);
  return questions;
}

std::vector<double> losses_of(const Model& model, const Activations& activations,
                              const std::vector<Question>& questions, int B,
                              const std::function<bool(int64_t done, int64_t total)>& go_on) {
  std::vector<const Choice*> rows;
  for (const Question& q : questions)
    for (const Choice& choice : q.choices) rows.push_back(&choice);
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Rows of about the same length share a batch, so that little of it is padding.
  std::ranges::stable_sort(order, std::greater{}, [&](size_t row) { return rows[row]->tokens.size(); });
  std::vector<double> losses(rows.size());
  for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(B)) {
    if (go_on && !go_on(static_cast<int64_t>(first), static_cast<int64_t>(rows.size()))) return {};
    const size_t count = std::min(rows.size() - first, static_cast<size_t>(B));
    std::vector<const Choice*> batch;
    for (size_t b = 0; b < count; ++b) batch.push_back(rows[order[first + b]]);
    const std::vector<double> found = batch_losses(model, activations, batch);
    for (size_t b = 0; b < count; ++b) {
      if (!std::isfinite(found[b]))
        throw std::runtime_error("the loss of a completion is not finite: the model's training diverged");
      losses[order[first + b]] = found[b];
    }
  }
  return losses;
}

std::vector<Score> scores_of(const std::vector<Question>& questions, const std::vector<double>& losses) {
  std::vector<Score> scores;
  std::map<std::string, size_t> places;
  size_t row = 0;
  for (const Question& q : questions) {
    const size_t place = places.try_emplace(q.category, scores.size()).first->second;
    if (place == scores.size()) scores.push_back({q.category});
    std::vector<double> sums, by_length, tokens;
    for (const Choice& choice : q.choices) {
      sums.push_back(losses[row++]);
      by_length.push_back(sums.back() / choice.length);
      tokens.push_back(static_cast<double>(choice.tokens.size() - choice.from));
    }
    Score& score = scores[place];
    ++score.questions;
    score.by_sum += point_of(sums, q.right);
    score.by_length += point_of(by_length, q.right);
    score.uniform += point_of(tokens, q.right);
  }
  return scores;
}

std::vector<Score> measure_with_progress(const Model& model, const Activations& activations,
                                         const std::vector<Question>& questions, int B) {
  catch_interrupts();
  Progress progress(0, 0, "completion", 10);
  const std::vector<double> losses =
      losses_of(model, activations, questions, B, [&](int64_t done, int64_t total) {
        progress.set_total(total);
        progress.update(done, [] { return std::string(); });
        return !interrupted();
      });
  return losses.empty() ? std::vector<Score>() : scores_of(questions, losses);
}
