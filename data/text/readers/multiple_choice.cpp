#include "multiple_choice.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "data/files/files.hpp"

namespace {

// Reads a file's 16-bit words one by one, and checks first that the file has them.
class Words {
 public:
  Words(const InputFile& file, uint64_t from) : file_(file), words_((file.size() - from) / 2) {
    file.read(words_.data(), words_.size() * 2, from);
  }

  void begin_question(int index) { question_ = index; end_ = words_.size(); }
  void set_end(size_t words) {
    if (words > words_.size() - at_) fail("is longer than the file");
    end_ = at_ + words;
  }
  int next(const char* what) {
    if (at_ >= end_) fail(std::string("ends before its ") + what);
    return words_[at_++];
  }
  std::vector<int> tokens(const char* what) {
    const auto count = static_cast<size_t>(next(what));
    if (count == 0) fail(std::string("has a ") + what + " without tokens");
    if (count > end_ - at_) fail(std::string("ends before its ") + what);
    at_ += count;
    return {words_.begin() + static_cast<std::ptrdiff_t>(at_ - count),
            words_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }
  bool at_end() const { return at_ == end_; }
  bool at_end_of_file() const { return at_ == words_.size(); }
  std::string place() const { return file_.path() + ": question " + std::to_string(question_); }
  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(place() + " " + why); }

 private:
  const InputFile& file_;
  std::vector<uint16_t> words_;
  size_t at_ = 0, end_ = 0;
  int question_ = 0;
};

Question read_question(Words& words, int index) {
  constexpr int kStart = 65535, kHeader = 5;  // words
  words.begin_question(index);
  if (words.next("start") != kStart) words.fail("does not begin with 65535");
  const int bytes = words.next("size");
  if (bytes % 2 != 0 || bytes < 2 * kHeader) words.fail("says that it has " + std::to_string(bytes) + " bytes");
  words.set_end(static_cast<size_t>(bytes) / 2 - 2);
  if (const int stored = words.next("index"); stored != index)
    words.fail("has the index " + std::to_string(stored));
  Question question{words.place(), "", {}};
  question.right = words.next("answer");
  const int completions = words.next("number of completions");
  if (completions < 2 || question.right >= completions)
    words.fail("has " + std::to_string(completions) + " completions, of which " + std::to_string(question.right) +
               " is right (from 0)");
  const std::vector<int> text = words.tokens("text");
  for (int c = 0; c < completions; ++c) {
    const std::vector<int> completion = words.tokens("completion");
    Choice choice{text, text.size(), static_cast<double>(completion.size())};
    choice.tokens.insert(choice.tokens.end(), completion.begin(), completion.end());
    question.choices.push_back(choice);
  }
  if (!words.at_end()) words.fail("is shorter than it says");
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  constexpr int32_t kMagic = 20240522, kVersion = 1, kMost = 65535;
  int32_t header[256];
  const InputFile file(path);
  if (file.size() < sizeof header) file.fail(" is no file of llm.c's questions: it is too short");
  file.read(header, sizeof header, 0);
  if (header[0] != kMagic || header[1] != kVersion)
    file.fail(" is no file of llm.c's questions: it begins with " + std::to_string(header[0]) + " and " +
              std::to_string(header[1]) + ", not 20240522 and 1; llm.c's dev/data/hellaswag.py writes one");
  const int count = header[2];
  if (count < 1 || count > kMost) file.fail(" has " + std::to_string(count) + " questions, not 1 to 65535");
  const uint64_t bytes = file.size() - sizeof header;
  if (bytes % 2 != 0 || bytes > static_cast<uint64_t>(count) * kMost)
    file.fail(": its size does not fit " + std::to_string(count) + " questions");
  Words words(file, sizeof header);
  std::vector<Question> questions;
  for (int i = 0; i < count; ++i) questions.push_back(read_question(words, i));
  if (!words.at_end_of_file()) file.fail(" goes on after its last question");
  return questions;
}
