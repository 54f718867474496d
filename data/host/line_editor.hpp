#pragma once
// Reads lines typed on a terminal. Backspace deletes a character, Ctrl-W a word and Ctrl-U the line; the up and down
// arrows recall earlier lines. Other control sequences are ignored and not shown.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

class LineEditor {
 public:
  // Reads standard input. If that is a terminal, writes the prompt to standard error.
  explicit LineEditor(std::string prompt);

  bool on_terminal() const { return terminal_; }

  // Returns the next line without its newline, or nothing at the end of the input (Ctrl-D on an empty line).
  std::optional<std::string> read();

 private:
  void take(char c);
  void control(char c);
  void escape();            // reads the rest of a control sequence
  void recall(int by);      // shows the line `by` places after the current one
  void show(std::string_view line);
  void erase_last();
  std::optional<std::string> edit();

  const std::string prompt_;
  const bool terminal_;
  std::string line_;
  std::vector<std::string> earlier_;
  size_t shown_ = 0;  // index in `earlier_`; its size stands for the new line
};
