#include "man_page.hpp"

#include <set>
#include <sstream>
#include <string>

#include "command_settings.hpp"
#include "help.hpp"

namespace {

// Escapes text for roff, so that characters stand for themselves and a line does not start with a request.
std::string escaped(const std::string& text) {
  std::string out = "\\&";
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      default: out += c;
    }
  }
  return out;
}

std::string paragraph(const std::string& text) { return ".PP\n" + escaped(text) + "\n"; }

std::string verbatim(const std::string& text, const std::string& before = "") {
  std::string lines = ".PP\n.EX\n";
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines += escaped(before + line) + "\n";
  return lines + ".EE\n";
}

// `known` holds the options of earlier commands. A command only names those that it shares with them.
std::string section_of(const CommandRow& row, std::set<std::string>& known) {
  std::string text = std::string(".SH ") + row.name + "\n" + escaped(row.help) + "\n" + paragraph(usage_of(row)), same;
  text += verbatim(row.examples, "train_gpt ");
  for (const Setting& s : settings_of(row.kind)) {
    const std::string item = ".TP\n.B " + escaped(spelling_of(s)) + "\n" + escaped(explanation_of(s)) + "\n";
    if (s.group.empty()) continue;
    if (known.insert(item).second) text += item;
    else same += (same.empty() ? "" : ", ") + spelling_of(s);
  }
  return text + (same.empty() ? "" : paragraph("Options as described above: " + same));
}

}  // namespace

std::string man_page() {
  std::string text = ".TH TRAIN_GPT 1 \"\" train_gpt \"User Commands\"\n.nh\n.ad l\n.SH NAME\n"
                     "train_gpt \\- train small GPT, Llama, BERT and T5 models on the CPU\n.SH DESCRIPTION\n";
  text += verbatim(help_of_program());
  std::set<std::string> known;
  for (const CommandRow& row : commands()) text += section_of(row, known);
  return text + ".SH ENVIRONMENT\n" + escaped("OMP_NUM_THREADS sets the threads if --threads does not. ") +
         "OMP_WAIT_POLICY and GOMP_SPINCOUNT say how threads wait; without them, a waiting thread soon sleeps.\n";
}
