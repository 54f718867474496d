#include "json_questions.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

using FieldNames = std::span<const char* const>;

// The names of fields in BLiMP, HellaSwag, ARC, OpenBookQA, PIQA, MMLU and others.
constexpr const char* kCategories[] = {"UID", "category", "linguistics_term", "subject"};
constexpr const char* kTexts[] = {"ctx", "context", "question", "question_stem", "prompt", "query", "goal"};
constexpr const char* kChoices[] = {"endings", "choices", "options"};
constexpr const char* kAnswers[] = {"label", "answer", "answerKey", "gold"};
constexpr const char* kSolutions[] = {"sol1", "sol2"};  // instead of a list

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

// "\"ctx\", \"context\" or \"question\""
std::string list_of(FieldNames names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "\"" : i + 1 == names.size() ? " or \"" : ", \"") + std::string(names[i]) + "\"";
  return list;
}

// Returns the only field with one of these names.
const json& require_field(const json& object, FieldNames names) {
  const json* found = nullptr;
  for (const char* name : names) {
    const auto field = object.find(name);
    if (field == object.end()) continue;
    if (found) refuse("it has more than one of " + list_of(names) + ": keep the one that is meant");
    found = &*field;
  }
  const bool translates = object.contains("source") && object.contains("target");
  if (!found)
    refuse("there is no " + list_of(names) +
           (translates ? ": it is a source and its target, which --data takes with --objective pairs" : ""));
  return *found;
}

// Returns a text without its quotes, or a number.
std::string word_of(const json& value) { return value.is_string() ? value.get<std::string>() : to_text(value); }

std::string text_of(const json& value, const char* what) {
  if (!value.is_string()) refuse(std::string(what) + " is not a text");
  return value.get<std::string>();
}

std::vector<std::string> texts_of(const json& values, const char* what) {
  if (!values.is_array()) refuse(std::string(what) + " are not a list");
  std::vector<std::string> texts;
  for (const json& value : values) texts.push_back(text_of(value, what));
  return texts;
}

// The completions of a question, and their labels if it names them.
struct AnswerOptions {
  std::vector<std::string> texts, labels;
};

AnswerOptions answer_options_of(const json& object) {
  AnswerOptions options;
  if (object.contains(kSolutions[0])) {
    for (const char* name : kSolutions) options.texts.push_back(text_of(object.value(name, json()), name));
    return options;
  }
  const json& choices = require_field(object, kChoices);
  if (choices.is_object()) {
    options.labels = texts_of(choices.value("label", json::array()), "the labels of the choices");
    options.texts = texts_of(choices.value("text", json()), "the texts of the choices");
  } else {
    options.texts = texts_of(choices, "the choices");
  }
  if (options.texts.size() < 2) refuse("there are fewer than two choices");
  if (!options.labels.empty() && options.labels.size() != options.texts.size())
    refuse("there are " + std::to_string(options.labels.size()) + " labels of " + std::to_string(options.texts.size()) +
         " choices");
  return options;
}

// Returns the index of the right choice. A question names it by its label, or else by its index or a letter.
int right_of(const json& object, const AnswerOptions& options) {
  const std::string said = word_of(require_field(object, kAnswers));
  size_t index = options.texts.size();
  if (!options.labels.empty()) {
    index = static_cast<size_t>(std::ranges::find(options.labels, said) - options.labels.begin());
  } else if (said.size() == 1 && said[0] >= 'A' && said[0] <= 'Z') {
    index = static_cast<size_t>(said[0] - 'A');
  } else if (const char* end = said.data() + said.size(); std::from_chars(said.data(), end, index).ptr != end) {
    index = options.texts.size();
  }
  if (index < options.texts.size()) return static_cast<int>(index);
  refuse("the right answer " + in_quotes(said) + " is none of " + std::to_string(options.texts.size()) + " choices");
}

std::vector<int> encoded_question(const QuestionTokens& how, const std::string& text) {
  try {
    const std::vector<uint32_t> tokens = how.tokenizer.encode(text, how.unknown);
    return {tokens.begin(), tokens.end()};
  } catch (const NoToken& error) {
    refuse(error.what() + std::string("; ") + (error.is_utf8 ? NoToken::kAdvice : "convert the file"));
  }
}

// Encodes the text and the completion together. The completion begins after as many tokens as the text has alone, as in
// lm-evaluation-harness.
Choice choice_of(const QuestionTokens& how, std::string text, const std::string& completion) {
  text.erase(text.find_last_not_of(' ') + 1);
  const bool begins = how.first >= 0 && (text.empty() || how.at_first);
  Choice choice{encoded_question(how, text.empty() ? completion : text + " " + completion), begins,
                static_cast<double>(std::max<size_t>(1, columns_of(completion)))};
  if (!text.empty()) choice.from += encoded_question(how, text).size();
  if (begins) choice.tokens.insert(choice.tokens.begin(), how.first);
  choice.from = std::max<size_t>(1, choice.from);
  if (choice.from >= choice.tokens.size())
    refuse(in_quotes(completion) + " has no token that can be predicted: give a longer text");
  return choice;
}

// Reads the questions of a file; `read` fills one from its line.
std::vector<Question> read_lines(const std::string& path, const std::function<void(Question&, const json&)>& read) {
  const std::string file = std::filesystem::path(path).stem().string();
  std::vector<Question> questions;
  for_each_json_line(read_file(path), path, [&](const json& line, size_t number) {
    const json* category = nullptr;
    for (const char* name : kCategories)
      if (!category && line.contains(name)) category = &*line.find(name);
    Question& question = questions.emplace_back();
    question.place = one_line(path) + ", line " + std::to_string(number);
    question.category = one_line(category ? word_of(*category) : file);
    read(question, line);
  });
  if (questions.empty()) throw std::runtime_error(one_line(path) + " has no JSON lines");
  return questions;
}

}  // namespace

std::vector<Question> read_pairs(const std::string& path, const QuestionTokens& how) {
  return read_lines(path, [&](Question& pair, const json& line) {
    for (const char* name : {"sentence_good", "sentence_bad"})
      pair.choices.push_back(choice_of(how, "", text_of(require_field(line, {&name, 1}), name)));
  });
}

std::vector<Question> read_choices(const std::string& path, const QuestionTokens& how) {
  return read_lines(path, [&](Question& question, const json& line) {
    const std::string text = text_of(require_field(line, kTexts), "the text");
    const AnswerOptions options = answer_options_of(line);
    for (const std::string& completion : options.texts) question.choices.push_back(choice_of(how, text, completion));
    question.right = right_of(line, options);
  });
}
