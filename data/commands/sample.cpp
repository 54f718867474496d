#include "sample.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/line_editor.hpp"
#include "data/host/machine.hpp"
#include "data/run/generate_text.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/utf8.hpp"
#include "data/text/text_files.hpp"

namespace {

constexpr int kUsualLength = 500;  // tokens, unless --length or the context ends a sample earlier

// Replaces the texts "\n" and "\t", because newlines and tabs are hard to type in a shell.
std::string with_newlines(std::string text) {
  for (const auto& [typed, meant] : {std::pair{"\\n", "\n"}, std::pair{"\\t", "\t"}})
    for (size_t at; (at = text.find(typed)) != text.npos;) text.replace(at, 2, meant);
  return text;
}

// Returns the prompt that the model reads, without characters that the tokenizer skips.
std::string known_prompt(std::string prompt, const Tokenizer& tokenizer, Unknown unknown) {
  drop_returns(prompt);
  if (const std::string note = tokenizer.note_on_special("the prompt", prompt); !note.empty())
    std::fprintf(stderr, "NOTE: %s\n", note.c_str());
  try {
    return tokenizer.decode(tokenizer.encode(prompt, unknown));
  } catch (const NoToken& error) {
    throw std::runtime_error("byte " + std::to_string(error.at + 1) + " of the prompt: " + error.what() + "; " +
                             (error.is_utf8 ? NoToken::kAdvice : "convert it"));
  }
}

// Writes to standard output: exact bytes to a file or a pipe, no control characters to a terminal, which would obey
// them.
class Output {
 public:
  void write(const std::string& text) { put(terminal_ ? shown_.feed(text) : text); }
  void end() { put(shown_.finish() + "\n"); }
  static void line(const std::string& text) { put(text + "\n"); }

 private:
  static void put(const std::string& bytes) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    std::fflush(stdout);
  }
  const bool terminal_ = isatty(STDOUT_FILENO);
  TerminalText shown_;
};

// In the text, bytes that are not UTF-8 become U+FFFD. The tokens are exact and include a stop text's.
nlohmann::ordered_json json_of(const std::string& prompt, const std::string& text, const Generated& result) {
  return {{"prompt", prompt}, {"text", text}, {"tokens", result.tokens}, {"end", result.end}};
}

// What all samples of one call share.
struct Session {
  const SampleOptions& options;
  const TrainedModel& trained;
  Generation how;

  std::string known(const std::string& prompt) const {
    return known_prompt(prompt, trained.header.tokenizer, options.unknown);
  }
  void print_json(int sample, const std::string& prompt, const std::string& text, const Generated& result) const {
    nlohmann::ordered_json json = {{"checkpoint", trained.path}, {"seed", options.sampling.seed}, {"sample", sample}};
    json.update(json_of(prompt, text, result));
    Output::line(to_ascii(json));
  }
};

// Prints samples in order although they are generated in parallel. Prints the first unfinished sample as it grows.
class InOrder {
 public:
  InOrder(const Session& session, std::string prompt) : session_(session), prompt_(std::move(prompt)) { begin(); }

  void write(int n, const std::string& piece) {
    if (n == first_ && !session_.options.json) output_.write(piece);
    else waiting_[n].text += piece;
  }
  void end(int n, const Generated& result) {
    waiting_[n].result = result;
    any_full_ |= result.end == std::string_view("context");
    while (waiting_.contains(first_) && waiting_[first_].result) {
      const Sample& sample = waiting_[first_];
      session_.options.json ? session_.print_json(first_, prompt_, sample.text, *sample.result) : output_.end();
      waiting_.erase(first_++);
      if (first_ < session_.options.count) begin();
    }
  }
  bool any_full() const { return any_full_; }  // some sample ended because the context was full

 private:
  struct Sample {
    std::string text;
    std::optional<Generated> result;  // set once the sample has ended
  };

  void begin() {
    if (session_.options.json) return;
    output_.write(prompt_);
    output_.write(std::exchange(waiting_[first_].text, ""));
  }

  const Session& session_;
  const std::string prompt_;
  Output output_;
  int first_ = 0;  // the first sample that is not fully printed
  std::map<int, Sample> waiting_;
  bool any_full_ = false;
};

void print_samples(const Session& session) {
  const auto& [options, trained, how] = session;
  std::string prompt = options.prompt.value_or("");
  if (prompt == "-" || (!options.prompt && !isatty(STDIN_FILENO))) prompt = read_file("-");
  prompt = session.known(prompt);
  const int context = trained.model.config.context;
  const size_t longest = trained.header.tokenizer.encode(prompt).size() + static_cast<size_t>(how.length);
  if (!how.within_context && longest > static_cast<size_t>(context))
    std::fprintf(stderr, "[beyond the context of %d tokens the model sees the last %d to %d]\n", context,
                 std::max(1, context / 2), context);
  InOrder samples(session, prompt);
  generate_texts(trained.model, trained.header.tokenizer, prompt, how, options.count,
                 {[&](int n, const std::string& piece) { samples.write(n, piece); },
                  [&](int n, const Generated& result) { samples.end(n, result); }});
  if (samples.any_full())  // printed last, because an earlier note would split a word
    std::fprintf(stderr, "[the context of %d tokens is full: --length N goes on beyond it]\n", context);
}

// ---- the prompt loop -------------------------------------------------------------------------------------

// Generates the text after `prompt` and prints it as it grows. Ctrl-C ends it. Returns both, or "" if the document has
// ended.
std::string continued(const Session& session, const std::string& prompt, uint64_t number) {
  const bool json = session.options.json;
  const TrainedModel& trained = session.trained;
  Generation how = session.how;
  how.number = number;
  how.stopped = interrupted;
  Output output;
  std::string text;
  const CatchCtrlC until_the_end;
  const Generated result =
      generate_text(trained.model, trained.header.tokenizer, prompt, how, [&](const std::string& piece) {
        text += piece;
        if (!json) output.write(piece);
      });
  json ? session.print_json(static_cast<int>(number), prompt, text, result) : output.end();
  return result.end == std::string_view("document") ? "" : prompt + text;
}

void talk(const Session& session) {
  const std::string begin = session.options.prompt.value_or("");
  std::string text = begin;
  uint64_t number = 0;
  LineEditor lines("> ");
  if (lines.on_terminal())
    std::fputs("Each line continues the text; an empty line starts anew. Ctrl-C ends an answer, Ctrl-D the program.\n",
               stderr);
  while (const std::optional<std::string> line = lines.read()) {
    if (line->empty()) {
      text = begin;
      continue;
    }
    try {
      text = session.known(text + *line);
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "train_gpt: %s\n", error.what());
      continue;
    }
    text = continued(session, text, number++);
    if (text.empty()) text = begin;
  }
}

}  // namespace

void run_sample(const SampleOptions& options) {
  use_threads(options.threads);
  const TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint));
  std::fprintf(stderr, "%s, step %lld\n", name_of_checkpoint(options.checkpoint, trained.path).c_str(),
               static_cast<long long>(trained.header.step));
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const bool open = !options.length;
  const Session session{options, trained,
                        {.length = options.length.value_or(kUsualLength),
                         .stop = with_newlines(options.stop),
                         .sampling = options.sampling,
                         .around = tokenizer.around(trained.header.options.separator),
                         .within_context = open,
                         .at_first = trained.header.options.begin_contexts()}};
  options.interactive ? talk(session) : print_samples(session);
}
