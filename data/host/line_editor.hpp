#pragma once
// Lines that a user types on a terminal, with a little editing: Backspace, Ctrl-U (the line), Ctrl-W (a word), and the
// arrows up and down for earlier lines. Other control sequences do nothing, and none is shown.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

class LineEditor {
 public:
  // Standard input and error, which shows the prompt if the input is a terminal.
  explicit LineEditor(std::string prompt);

  bool on_terminal() const { return terminal_; }

  // The next line, without its newline. None at the end of the input, which Ctrl-D on an empty line is.
  std::optional<std::string> read();

 private:
  void take(char c);
  void control(char c);
  void escape();            // the rest of a control sequence
  void recall(int by);      // the line `by` after the one that is shown
  void show(std::string_view line);
  void erase_last();
  std::optional<std::string> edit();

  const std::string prompt_;
  const bool terminal_;
  std::string line_;
  std::vector<std::string> earlier_;
  size_t shown_ = 0;  // of `earlier_`; its size: a new line
};
