#include "help.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "command_settings.hpp"
#include "data/strings/format.hpp"

const std::vector<CommandRow>& commands() {
  static const std::vector<CommandRow> rows = {
      {Command::Kind::train, "train", "train a model on text", "data", "FILE... [OPTIONS]",
       "train my.txt\n"
       "train my.txt --tokenizer char --for 10m\n"
       "train my.txt --preset llama2 --layers 6 --channels 256 --heads 8\n"
       "train --out runs/0001-pre-layernorm --resume --steps 6000\n"},
      {Command::Kind::sample, "sample", "generate text with a trained model", "checkpoint", "[RUN] [OPTIONS]",
       "sample --prompt 'One day' --temperature 0.8\n"
       "sample runs/0001-pre-layernorm --length 200 --seed 2\n"},
      {Command::Kind::eval, "eval", "measure the loss of a trained model on a text", "checkpoint",
       "[RUN] --data FILE... [OPTIONS]",
       "eval --data my.txt\n"
       "eval runs/0001-pre-layernorm --data my.txt\n"
       "eval runs/0001-pre-layernorm --pairs pairs.jsonl\n"},
      {Command::Kind::info, "info", "draw a model, list its tensors, count its FLOPs", "checkpoint", "[RUN] [OPTIONS]",
       "info runs/0001-pre-layernorm\n"
       "info --preset gpt2 --size 124M\n"
       "info --preset llama2 --cost\n"},
      {Command::Kind::compare, "compare", "compare models, one per combination of options", "data",
       "FILE... --grid KEY=A,B... [OPTIONS]",
       "compare my.txt --grid placement=post,pre norm=rmsnorm --steps 500\n"
       "compare my.txt --grid activation=gelu,swiglu seed=1,2,3 --jobs 2\n"
       "compare my.txt --layers 8 --tune lr=1e-3,3e-3 warmup=20%,50%\n"
       "compare my.txt --grid placement=post,pre --flops 1e12,3e12,1e13\n"},
      {Command::Kind::init_report, "init-report", "show gradients and activations before the first step", "data",
       "FILE... [OPTIONS]",
       "init-report my.txt --grid placement=post,pre layers=6,12\n"
       "init-report my.txt --init xavier --channels 64 --out init.csv\n"},
      {Command::Kind::export_model, "export", "write a trained model for other programs", "checkpoint",
       "[RUN] --out PATH [OPTIONS]",
       "export --out my-model\n"
       "export runs/0001-pre-layernorm --out my-model --force\n"},
      {Command::Kind::import_model, "import", "make a run of another program's model", "from", "PATH --out DIR",
       "import my-model --out runs/imported\n"},
      {Command::Kind::corpus, "corpus", "write stories of known entropy", "out", "FILE [OPTIONS]",
       "corpus stories.txt --bytes 500k --seed 2\n"
       "corpus --check stories.txt\n"
       "corpus --pairs pairs.jsonl --count 2000\n"
       "corpus translations.jsonl --pairs-of translation\n"},
      {Command::Kind::tokenizer, "tokenizer", "train a byte-pair encoding on text", "data",
       "FILE... --out FILE [OPTIONS]",
       "tokenizer my.txt --vocab 512 --out tok.json\n"},
      {Command::Kind::tokenize, "tokenize", "write a text as token files", "data", "FILE... --out DIR [OPTIONS]",
       "tokenize my.txt --tokenizer bpe:4096 --out tokens\n"
       "tokenize my.txt --tokenizer tok.json --out files\n"},
      {Command::Kind::completion, "completion", "print tab completion for a shell", "shell", "bash|zsh|fish",
       "completion bash\n"},
      {Command::Kind::man, "man", "print the manual page", "", "", "man\n"},
  };
  return rows;
}

const CommandRow& command_row(Command::Kind kind) {
  return *std::find_if(commands().begin(), commands().end(), [&](const CommandRow& row) { return row.kind == kind; });
}

namespace {

constexpr size_t kWidth = 80, kIndent = 30;
constexpr size_t kFew = 20;  // so many options are all common

// Writes `text` from column `indent` on, wrapped at spaces.
std::string wrapped(const std::string& text, size_t indent) {
  std::istringstream in(text);
  std::string lines, line;
  for (std::string word, value; in >> word; line += (line.empty() ? "" : " ") + word) {
    if (word.ends_with("default:") && in >> value) word += " " + value;  // on one line
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
  }
  return lines + line + "\n";
}

std::string line_of(const Setting& s) {
  const std::string left = "  " + spelling_of(s);
  const std::string gap = left.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ')
                                                    : std::string(kIndent - left.size(), ' ');
  return left + gap + wrapped(explanation_of(s), kIndent);
}

// The positional option first, the others in the order of --help-all.
std::string common_options(const CommandRow& row, const std::vector<CommandSetting>& settings) {
  std::string text;
  for (const Setting& s : settings)
    if (s.common && !s.group.empty()) s.name == row.positional ? text.insert(0, line_of(s)) : text += line_of(s);
  return "\nCommon options:\n" + text + "\n" +
         wrapped(std::string("train_gpt ") + row.name + " --help-all shows all " + std::to_string(settings.size()) +
                     " options.", 0);
}

std::string all_options(const std::vector<CommandSetting>& settings) {
  std::string text, group;
  for (const Setting& s : settings) {
    if (s.group.empty()) continue;
    if (s.group != group) text += "\n" + s.group + ":\n";
    group = s.group;
    text += line_of(s);
  }
  return text;
}

}  // namespace

std::string spelling_of(const Setting& s) {
  if (s.positional) return s.takes;
  return (s.negatable() ? "--[no-]" : "--") + s.name + (s.flag() ? "" : " " + s.takes);
}

std::string explanation_of(const Setting& s) {
  std::string text = s.help;
  for (const std::string& name : s.choices) text += (&name == &s.choices[0] ? ": " : ", ") + name;
  if (s.shown.empty()) return text;
  if (!text.ends_with(")")) return text + " (default: " + s.shown + ")";
  for (const char* before : {"(", "; "})  // "(0: off)" says what 0 is: "(default: off)"
    if (const size_t at = text.find(before + s.shown + ": "); at != text.npos)
      return text.replace(at + std::strlen(before), s.shown.size(), "default");
  return text.substr(0, text.size() - 1) + "; default: " + s.shown + ")";
}

std::string usage_of(const CommandRow& row) {
  return std::string("train_gpt ") + row.name + (*row.usage ? " " : "") + row.usage;
}

std::string help_of_program() {
  std::string text = "train_gpt trains small GPT, Llama, BERT and T5 models on the CPU.\n\n"
                     "Usage: train_gpt COMMAND [OPTIONS]\n\nCommands:\n";
  for (const CommandRow& row : commands()) text += "  " + padded(row.name, 13) + row.help + "\n";
  text += "\nExamples:\n"
          "  train_gpt corpus stories.txt\n"
          "  train_gpt train stories.txt\n"
          "  train_gpt sample --prompt 'One day'\n";
  return text + "\n'train_gpt COMMAND --help' shows the options of a command,\n'train_gpt --version' the version.\n"
                "\nExit status: 0 for success, 1 for an error, 3 if training diverged,\n"
                "128 + the signal's number if one stopped it (130: Ctrl-C).\n";
}

std::string help_of(const CommandRow& row, bool all) {
  const std::vector<CommandSetting>& settings = settings_of(row.kind);
  std::string text = std::string("train_gpt ") + row.name + ": " + row.help + "\n\nUsage: " + usage_of(row) +
                     "\n\nExamples:\n";
  std::istringstream examples(row.examples);
  for (std::string line; std::getline(examples, line);) text += "  train_gpt " + line + "\n";
  return text + (all || settings.size() <= kFew ? all_options(settings) : common_options(row, settings));
}
