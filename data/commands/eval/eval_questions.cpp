#include "eval_questions.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/run/multiple_choice.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "layers/model/size.hpp"

namespace {

// A share that is reported.
struct Measure {
  const char* name;
  double Score::*points;
};

// An option that names files of questions.
struct QuestionOption {
  const char *name, *noun;
  std::vector<std::string> EvalOptions::*files;
  ReadQuestions* read;
  std::vector<Measure> measures;
};

const std::vector<QuestionOption>& question_options() {
  const std::vector<Measure> pairs = {{"acc", &Score::by_sum}};
  const std::vector<Measure> choices = {{"acc_norm", &Score::by_length}, {"acc", &Score::by_sum}};
  static const std::vector<QuestionOption> rows = {
      {"pairs", "pair", &EvalOptions::pairs, read_pairs, pairs},
      {"choices", "question", &EvalOptions::choices, read_choices, choices},
      {"hellaswag", "question", &EvalOptions::hellaswag,
       [](const std::string& path, const QuestionTokens&) { return read_questions(path); }, choices}};
  return rows;
}

const QuestionOption& option_of(const EvalOptions& options) {
  const QuestionOption* found = nullptr;
  for (const QuestionOption& row : question_options()) {
    if ((options.*row.files).empty()) continue;
    if (found || !options.data.empty() || !options.logits.empty() || !options.gradients.empty() ||
        !options.pairs_of.empty())
      throw std::invalid_argument(std::string("--") + row.name + " reads questions only: leave out " +
                                  (found ? std::string("--") + found->name
                                         : "--data, --logits, --gradients and --pairs-of"));
    found = &row;
  }
  return *found;
}

std::vector<Score> measure(const EvalOptions& options, const Model& model, const std::vector<Question>& questions) {
  const int T = longest_of(questions);
  check_memory(memory_of_inference(model.config, options.batch, T).total(), "lower --batch");
  const Activations activations = allocate_activations(model.config, options.batch, T, false);
  const std::vector<Score> scores = measure_with_progress(model, activations, questions, options.batch);
  if (scores.empty()) throw std::runtime_error("stopped before all questions were read: nothing was measured");
  return scores;
}

std::vector<std::string> row_of(const std::string& name, const Score& s, const std::vector<Measure>& measures) {
  std::vector<std::string> row = {name, format_count(static_cast<double>(s.questions))};
  for (const auto& [unused, points] : measures) {
    const Interval interval = wilson(s.share(points), s.questions);
    row.push_back(format("%.4f", s.share(points)));
    row.push_back(format("%.4f", interval.low) + format(" to %.4f", interval.high));
  }
  return row;
}

void print_text(const std::vector<Score>& scores, const QuestionOption& option) {
  std::vector<std::vector<std::string>> rows = {{"category", std::string(option.noun) + "s"}};
  for (const Measure& measure : option.measures) rows[0].insert(rows[0].end(), {measure.name, "95 % interval"});
  if (scores.size() > 1)
    for (const Score& s : scores) rows.push_back(row_of(s.category, s, option.measures));
  const Score total = total_of(scores);
  rows.push_back(row_of("all", total, option.measures));
  std::printf("%s", aligned(rows, 1).c_str());
  if (scores.size() > 1)
    std::printf("mean of the %zu categories: acc %.4f\n", scores.size(), mean_of(scores));
  std::printf("a model to which all tokens are equally likely: acc %.4f\n", total.share(&Score::uniform));
}

nlohmann::ordered_json json_of(const Score& s, const std::vector<Measure>& measures) {
  nlohmann::ordered_json json = {{"questions", s.questions}};
  for (const auto& [name, points] : measures) {
    const Interval interval = wilson(s.share(points), s.questions);
    json[name] = s.share(points);
    json[std::string(name) + "_interval"] = {interval.low, interval.high};
  }
  json["acc_uniform"] = s.share(&Score::uniform);
  return json;
}

void print_json(const std::vector<Score>& scores, const QuestionOption& option, nlohmann::ordered_json json) {
  json.update(json_of(total_of(scores), option.measures));
  json["acc_mean"] = mean_of(scores);
  for (const Score& s : scores)
    if (!s.category.empty()) json["categories"][s.category] = json_of(s, option.measures);
  json_line(to_ascii(json));
}

}  // namespace

bool asks_questions(const EvalOptions& options) {
  return std::ranges::any_of(question_options(), [&](const auto& row) { return !(options.*row.files).empty(); });
}

void eval_questions(const EvalOptions& options, const std::string& checkpoint, const CheckpointHeader& header,
                    const Model& model) {
  const QuestionOption& option = option_of(options);
  const Tokenizer tokenizer = header.tokenizer.finding_special(options.finds_special);
  tokenizer.require_text();
  const QuestionTokens how = question_tokens(tokenizer, header.options, options.unknown);
  const std::vector<std::string>& files = options.*option.files;
  const std::vector<Question> questions = read_all(files, option.read, how, model.config);
  const std::string note = note_on_first_tokens(questions);
  if (!note.empty()) print_note(note);
  const Stopwatch clock;
  const std::vector<Score> scores = measure(options, model, questions);
  if (options.json)
    return print_json(scores, option, {{"checkpoint", checkpoint}, {"step", header.step}, {"data", files},
                                       {"seconds", clock.seconds()}});
  const std::string more = files.size() > 1 ? " and " + counted(double(files.size() - 1), "more file") : "";
  std::printf("%s, step %lld, on %s%s (%s)\n", checkpoint.c_str(), static_cast<long long>(header.step),
              one_line(files[0]).c_str(), more.c_str(), counted(double(questions.size()), option.noun).c_str());
  print_text(scores, option);
}
