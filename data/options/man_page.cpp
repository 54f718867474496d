#include "man_page.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "help.hpp"
#include "settings.hpp"

namespace {

// Escapes text for roff, so that characters stand for themselves and a line does not start with a command.
std::string escaped(const std::string& text) {
  std::string out = text.starts_with(".") || text.starts_with("'") ? "\\&" : "";
  for (const char c : text)
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      default: out += c;
    }
  return out;
}

std::string item(const std::string& term, const std::string& text) {
  return ".TP\n\\fB" + escaped(term) + "\\fR\n" + escaped(text) + "\n";
}

std::string sentence(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

// The headings of a command's options, each with the options below it.
using Groups = std::vector<std::pair<std::string, std::string>>;

Groups groups_of(const CommandRow& row) {
  Command c;
  c.kind = row.kind;
  Groups groups;
  for (const Setting& s : settings_of(c)) {
    if (s.group.empty()) continue;
    if (groups.empty() || groups.back().first != s.group) groups.push_back({s.group, ""});
    groups.back().second += item(spelling_of(s), explanation_of(s));
  }
  return groups;
}

std::string examples_of(const CommandRow& row) {
  std::string text = ".PP\n.EX\n";
  std::istringstream lines(row.examples);
  for (std::string line; std::getline(lines, line);) text += escaped("train_gpt " + line) + "\n";
  return text + ".EE\n";
}

// Returns the options of a command. Groups that are the same as in `train` are only named.
std::string options_of(const CommandRow& row, const Groups& train) {
  std::string text, same;
  for (const auto& group : groups_of(row)) {
    const auto& [heading, items] = group;
    const bool known = row.kind != Command::Kind::train && std::find(train.begin(), train.end(), group) != train.end();
    if (known) same += (same.empty() ? "" : ", ") + heading;
    else text += ".SS " + heading + "\n" + items;
  }
  return same.empty() ? text : text + ".PP\nThe options of these groups are those of \\fBtrain\\fR: " + same + ".\n";
}

std::string section_of(const CommandRow& row, const Groups& train) {
  std::string heading = row.name;
  std::transform(heading.begin(), heading.end(), heading.begin(), [](unsigned char c) { return std::toupper(c); });
  return ".SH " + heading + "\n" + escaped(sentence(row.help)) + "\n.PP\n\\fB" +
         escaped(usage_of(row)) + "\\fR\n" + examples_of(row) + options_of(row, train);
}

std::string summary() {
  std::string text = ".SH COMMANDS\n";
  for (const CommandRow& row : commands()) text += item(row.name, row.help);
  return text + item("help COMMAND", "show the common options of a command") + item("version", "print the version");
}

std::string environment() {
  return ".SH ENVIRONMENT\n" +
         item("OMP_NUM_THREADS, OMP_THREAD_LIMIT", "The number of threads if --threads does not say, and the most.") +
         item("OMP_WAIT_POLICY, GOMP_SPINCOUNT, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY",
              "How threads wait, and on which processors they run. If none of these is set, a waiting thread soon "
              "sleeps.") +
         item("NO_COLOR", "Changes nothing: train_gpt prints no colors.");
}

std::string exit_status() {
  return ".SH EXIT STATUS\n" + item("0", "success") + item("1", "an error") + item("3", "training diverged") +
         item("128 + N", "signal N stopped the program (130: Ctrl-C)");
}

constexpr const char* kStart = R"(.TH TRAIN_GPT 1 "" train_gpt "User Commands"
.nh
.ad l
.SH NAME
train_gpt \- train small GPT and Llama models on the CPU
.SH SYNOPSIS
.B train_gpt
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
.B train_gpt
trains small GPT and Llama models on text, on the CPU.
It compares normalizations and where they go, generates text, and reads and writes the models of other programs.
.PP
The command comes first.
An option is written \fB\-\-name value\fR or \fB\-\-name=value\fR.
\fB\-\-[no\-]name\fR stands for \fB\-\-name\fR and \fB\-\-no\-name\fR.
\fB...\fR after a placeholder means one value or more.
\fB\-\-\fR ends the options.
)";

}  // namespace

std::string man_page() {
  const Groups train = groups_of(row_of(Command::Kind::train));
  std::string text = kStart + summary();
  for (const CommandRow& row : commands()) text += section_of(row, train);
  return text + environment() + exit_status();
}
