#include "line_editor.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <termios.h>
#include <unistd.h>

namespace {

constexpr char kCtrlC = 3, kCtrlD = 4, kBackspace = 8, kCtrlU = 21, kCtrlW = 23, kEscape = 27, kDelete = 127;

// While this object lives, keys arrive one by one and the terminal does not show them.
class KeyByKey {
 public:
  KeyByKey() : works_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    works_ = works_ && tcsetattr(STDIN_FILENO, TCSADRAIN, &now) == 0;
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;
  ~KeyByKey() {
    if (works_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_{};
  bool works_;
};

// The next byte, or EOF.
int next_key() {
  unsigned char c;
  ssize_t n;
  while ((n = ::read(STDIN_FILENO, &c, 1)) < 0 && errno == EINTR) {
  }
  return n == 1 ? c : EOF;
}

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool goes_on(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }  // a continuation byte of UTF-8

}  // namespace

LineEditor::LineEditor(std::string prompt) : prompt_(std::move(prompt)), terminal_(isatty(STDIN_FILENO)) {}

std::optional<std::string> LineEditor::read() {
  if (terminal_) return edit();
  std::string line;
  int c;
  while ((c = std::getchar()) != EOF && c != '\n') line += static_cast<char>(c);
  return c == EOF && line.empty() ? std::nullopt : std::optional(line);
}

std::optional<std::string> LineEditor::edit() {
  std::optional<KeyByKey> keys(std::in_place);
  shown_ = earlier_.size();
  line_.clear();
  put(prompt_);
  for (;;) {
    const int key = next_key();
    if (key == kCtrlC) {
      keys.reset();
      std::raise(SIGINT);
      return std::nullopt;
    }
    const bool end = key == EOF || (key == kCtrlD && line_.empty());
    if (!end && key != '\n' && key != '\r') {
      take(static_cast<char>(key));
      continue;
    }
    put("\n");
    if (end && line_.empty()) return std::nullopt;
    if (!line_.empty()) earlier_.push_back(line_);
    return line_;
  }
}

void LineEditor::take(char c) {
  const auto code = static_cast<unsigned char>(c);
  if (code < ' ' && c != '\t') return control(c);
  if (c == kDelete) return erase_last();
  line_ += c;
  put({&c, 1});
}

void LineEditor::control(char c) {
  if (c == kBackspace) erase_last();
  if (c == kEscape) escape();
  if (c == kCtrlU) show("");
  if (c != kCtrlW) return;
  const size_t word = line_.find_last_not_of(' ');
  const size_t space = word == line_.npos ? word : line_.find_last_of(' ', word);
  show(std::string_view(line_).substr(0, space == line_.npos ? 0 : space + 1));
}

// Reads ESC [ parameters letter, ESC O letter, or ESC and one character.
void LineEditor::escape() {
  int key = next_key();
  if (key != '[' && key != 'O') return;
  do key = next_key();
  while (key != EOF && (key < '@' || key > '~'));
  if (key == 'A') recall(-1);
  if (key == 'B') recall(1);
}

void LineEditor::recall(int by) {
  if (by < 0 ? shown_ == 0 : shown_ == earlier_.size()) return;
  shown_ += static_cast<size_t>(by);
  show(shown_ < earlier_.size() ? std::string_view(earlier_[shown_]) : "");
}

void LineEditor::erase_last() {
  size_t end = line_.size();
  while (end > 0 && goes_on(line_[end - 1])) --end;
  show(std::string_view(line_).substr(0, end - std::min<size_t>(end, 1)));
}

// If the line is wider than the terminal, its first rows stay on the screen.
void LineEditor::show(std::string_view line) {
  line_ = std::string(line);
  put("\r\033[K" + prompt_ + line_);
}
