#include "sample.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <unistd.h>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/line_editor.hpp"
#include "data/host/machine.hpp"
#include "data/options/command_settings.hpp"
#include "data/run/fill_masks.hpp"
#include "data/run/generate_text.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"
#include "data/text/documents.hpp"
#include "data/text/readers/pairs.hpp"
#include "data/text/readers/text_files.hpp"

namespace {

constexpr int kUsualLength = 500;  // tokens, unless --length or the context ends a sample earlier

// Replaces the texts "\n" and "\t", because newlines and tabs are hard to type in a shell.
std::string with_newlines(std::string text) {
  for (const auto& [typed, meant] : {std::pair{"\\n", "\n"}, std::pair{"\\t", "\t"}})
    for (size_t at; (at = text.find(typed)) != text.npos;) text.replace(at, 2, meant);
  return text;
}

// Returns what encode() returns. Its errors say where in the prompt they are.
auto with_place(const auto& encode) {
  try {
    return encode();
  } catch (const NoToken& error) {
    throw std::runtime_error("byte " + std::to_string(error.at + 1) + " of the prompt: " + error.what() + "; " +
                             (error.is_utf8 ? NoToken::kAdvice : "convert it"));
  }
}

// Returns the prompt that the model reads, without characters that the tokenizer skips.
std::string known_prompt(std::string prompt, const Tokenizer& tokenizer, Unknown unknown) {
  drop_returns(prompt);
  if (const std::string note = tokenizer.note_on_special("the prompt", prompt); !note.empty())
    print_note(note);
  size_t count = 0;
  std::string known = with_place([&] { return tokenizer.decode(tokenizer.encode(prompt, unknown, &count)); });
  if (count > 0)
    print_note(counted(static_cast<double>(count), "character") + " of the prompt not in the vocabulary: " +
               tokenizer.done_with(unknown));
  return known;
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
  const ChatTemplate* chat;  // null: prompts are texts to continue

  // How to generate to the end of a text, or of an answer.
  Generation until_the_end() const {
    Generation until = how;
    until.turn_end = answer_end(chat, trained.header.tokenizer);
    if (chat) until.begin = chat->content_begin;
    return until;
  }
  // The sentinels that a source may have.
  Spans spans() const { return trained.model.config.crosses() ? spans_with(trained.header.tokenizer) : Spans(); }
  std::string known(const std::string& prompt) const {
    if (spans().on()) return prompt;
    return known_prompt(prompt, trained.header.tokenizer, options.unknown);
  }
  void print_json(int sample, const std::string& prompt, const std::string& text, const Generated& result) const {
    nlohmann::ordered_json json = {{"checkpoint", trained.path}, {"seed", options.sampling.seed}, {"sample", sample}};
    json.update(json_of(prompt, text, result));
    Output::line(to_ascii(json));
  }
};

// Returns the tokens of a conversation up to the begin of the next answer.
std::vector<int> tokens_of(const Session& session, const std::vector<Turn>& turns) {
  std::vector<ChatPart> parts = session.chat->parts_of(turns);
  for (ChatPart& part : session.chat->answer_begin()) parts.push_back(std::move(part));
  return conversation_tokens(session.trained.header.tokenizer, session.how.around, parts);
}

// Prints samples in order although they are generated in parallel. Prints the first unfinished sample as it grows. An
// answer is printed without its question, and a target without its source.
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
      if (first_ < count_) begin();
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
    if (!session_.chat && session_.how.source.empty()) output_.write(prompt_);
    output_.write(std::exchange(waiting_[first_].text, ""));
  }

  const Session& session_;
  const int count_ = session_.how.beams > 0 ? 1 : session_.options.count;
  const std::string prompt_;
  Output output_;
  int first_ = 0;  // the first sample that is not fully printed
  std::map<int, Sample> waiting_;
  bool any_full_ = false;
};

// Returns --prompt, or what standard input has.
std::string prompt_of(const SampleOptions& options) {
  const bool piped = !options.prompt && !isatty(STDIN_FILENO);
  return piped || options.prompt == "-" ? read_file("-") : options.prompt.value_or("");
}

// Returns the tokens that the model continues. An encoder reads the prompt as its source.
std::vector<int> read(Session& session, const std::string& prompt) {
  const Tokenizer& tokenizer = session.trained.header.tokenizer;
  if (session.trained.model.config.crosses()) {
    session.how.source = with_place([&] {
      return source_tokens(tokenizer, prompt, session.how.around, session.trained.model.config.context,
                           session.spans(), session.options.unknown);
    });
    return session.how.around.start();
  }
  return session.chat ? tokens_of(session, {{"user", prompt}}) : prompt_tokens(tokenizer, prompt, session.how);
}

// Says how much of a long text the model sees. `longest` counts the tokens that it will write, too.
void note_on_context(const Session& session, size_t prompt, size_t longest) {
  const int context = session.trained.model.config.context;
  if (session.how.beams > 0) return;  // they refuse such a prompt
  if (prompt > static_cast<size_t>(context))
    std::fprintf(stderr, "[the prompt has %zu tokens and the context %d: the model sees the last %d to %d]\n", prompt,
                 context, std::max(1, context / 2), context);
  else if (longest > static_cast<size_t>(context) && !session.how.within_context)
    std::fprintf(stderr, "[beyond the context of %d tokens the model sees the last %d to %d]\n", context,
                 std::max(1, context / 2), context);
}

void print_samples(Session session, std::string prompt) {
  const auto& [options, trained, how, chat] = session;
  prompt = session.known(prompt);
  if (prompt.empty()) session.chat = nullptr;  // the model writes both sides of a conversation
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const std::vector<int> tokens = read(session, prompt);
  const int context = trained.model.config.context;
  note_on_context(session, tokens.size(), tokens.size() + static_cast<size_t>(how.length));
  InOrder samples(session, prompt);
  generate_texts(trained.model, tokenizer, tokens, session.until_the_end(), options.count,
                 {[&](int n, const std::string& piece) { samples.write(n, piece); },
                  [&](int n, const Generated& result) { samples.end(n, result); }});
  if (samples.any_full())  // printed last, because an earlier note would split a word
    std::fprintf(stderr, "[the context of %d tokens is full%s]\n", context,
                 how.beams > 0 ? "" : ": --length N goes on beyond it");
}

// ---- the prompt loop -------------------------------------------------------------------------------------

// A text that was generated, and whether its document has ended with it.
struct Continuation {
  std::string text;
  bool ended;
};

// Generates the text after a prompt and prints it as it grows. Ctrl-C ends it. `shown` is the prompt as JSON has it.
Continuation continued(const Session& session, const std::vector<int>& prompt, const std::string& shown,
                       uint64_t number) {
  const bool json = session.options.json;
  const TrainedModel& trained = session.trained;
  Generation how = session.until_the_end();
  how.number = number;
  how.stopped = interrupted;
  Output output;
  std::string text;
  if (!trained.model.config.crosses()) note_on_context(session, prompt.size(), prompt.size());
  const CatchCtrlC until_the_end;
  const Generated result =
      generate_text(trained.model, trained.header.tokenizer, prompt, how, [&](const std::string& piece) {
        text += piece;
        if (!json) output.write(piece);
      });
  json ? session.print_json(static_cast<int>(number), shown, text, result) : output.end();
  return {text, result.end == std::string_view("document")};
}

// Reads lines, and calls answer() with each and its number. An empty line calls start().
void loop_over_lines(const char* hint, const std::function<void()>& start,
                     const std::function<void(const std::string& line, uint64_t number)>& answer) {
  LineEditor lines("> ");
  if (lines.on_terminal()) std::fprintf(stderr, "%s Ctrl-C ends an answer, Ctrl-D the program.\n", hint);
  start();
  uint64_t number = 0;
  while (const std::optional<std::string> line = lines.read()) try {
      line->empty() ? start() : answer(*line, number);
      number += line->empty() ? 0 : 1;
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "train_gpt: %s\n", error.what());
    }
}

void continue_text(const Session& session) {
  std::string text;
  const auto start = [&] { text = session.options.prompt.value_or(""); };
  loop_over_lines("Each line continues the text; an empty line starts anew.", start,
                  [&](const std::string& line, uint64_t number) {
                    text = session.known(text + line);
                    const std::vector<int> tokens =
                        prompt_tokens(session.trained.header.tokenizer, text, session.how);
                    const Continuation more = continued(session, tokens, text, number);
                    text += more.text;
                    if (more.ended) start();
                  });
}

// Each line is a source.
void translate(Session session) {
  loop_over_lines("Each line is a source.", [] {}, [&](const std::string& line, uint64_t number) {
    const std::string source = session.known(line);
    const std::vector<int> tokens = read(session, source);
    continued(session, tokens, source, number);
  });
}

// Removes the first question and its answer, if there are later ones. A system's turn before them stays.
bool forget_first(std::vector<Turn>& turns) {
  const auto first = turns.begin() + (turns.front().role == "system" ? 1 : 0);
  if (turns.end() - first < 3) return false;
  turns.erase(first, first + 2);
  return true;
}

// Answers each line as a turn of a conversation. If it fills more than half of the context, its first turns are left
// out.
void converse(const Session& session) {
  const auto most = static_cast<size_t>(std::max(1, session.trained.model.config.context / 2));
  std::vector<Turn> turns;
  const auto start = [&] {
    turns.clear();
    if (session.options.prompt) turns.push_back({"system", session.known(*session.options.prompt)});
  };
  loop_over_lines("Each line is a question; an empty line starts anew.", start,
                  [&](const std::string& line, uint64_t number) {
                    turns.push_back({"user", session.known(line)});
                    std::vector<int> tokens = tokens_of(session, turns);
                    bool forgotten = false;
                    for (; tokens.size() > most && forget_first(turns); forgotten = true)
                      tokens = tokens_of(session, turns);
                    if (forgotten) std::fputs("[the first turns no longer fit into the context]\n", stderr);
                    turns.push_back({"assistant", continued(session, tokens, line, number).text});
                  });
}

// ---- masks -----------------------------------------------------------------------------------------------

nlohmann::ordered_json json_of(const Tokenizer& tokenizer, const FilledMask& mask) {
  nlohmann::ordered_json guesses = nlohmann::ordered_json::array();
  for (const Guess& guess : mask.guesses)
    guesses.push_back({{"token", guess.token}, {"text", tokenizer.decode(guess.token)},
                       {"probability", guess.probability}});
  return {{"place", mask.place}, {"guesses", guesses}};
}

void print_masks(const Tokenizer& tokenizer, const std::vector<FilledMask>& masks) {
  for (size_t m = 0; m < masks.size(); ++m) {
    if (masks.size() > 1) Output::line((m > 0 ? "\n" : "") + ("mask " + std::to_string(m + 1)));
    for (const Guess& guess : masks[m].guesses)
      Output::line(format("%6.1f %%  ", 100 * guess.probability) + in_quotes(tokenizer.decode(guess.token)));
  }
}

// Lists the likeliest tokens for each mask of a prompt.
void fill_prompt(const Session& session, const std::string& prompt) {
  const Tokenizer& tokenizer = session.trained.header.tokenizer;
  const Model& model = session.trained.model;
  const std::vector<int> tokens =
      masked_prompt(tokenizer, prompt, session.how.around, session.options.unknown, model.config.context);
  const Activations activations = allocate_activations(model.config, 1, static_cast<int>(tokens.size()), false);
  const std::vector<FilledMask> masks =
      fill_masks(model, activations, tokens, tokenizer.special(mask_name(tokenizer)));
  if (!session.options.json) return print_masks(tokenizer, masks);
  nlohmann::ordered_json json = {{"checkpoint", session.trained.path}, {"prompt", prompt},
                                 {"text", filled_text(tokenizer, tokens, masks)}};
  for (const FilledMask& mask : masks) json["masks"].push_back(json_of(tokenizer, mask));
  Output::line(to_ascii(json));
}

// Says which of the user's options a model of masked tokens does not read.
void note_unread(const SampleOptions& options) {
  constexpr std::string_view kRead[] = {"checkpoint", "prompt", "unknown", "special-tokens", "json", "interactive",
                                        "weights", "threads"};
  Command given, plain;
  given.sample = options;
  for (const CommandSetting& s : settings_of(Command::Kind::sample))
    if (std::ranges::find(kRead, s.name) == std::end(kRead) && s.value(given) != s.value(plain))
      print_note("--" + s.name + " has no effect with a model of masked tokens");
}

void fill_lines(const Session& session) {
  const std::string hint = "Each line is a text with " + mask_name(session.trained.header.tokenizer) + ".";
  loop_over_lines(hint.c_str(), [] {}, [&](const std::string& line, uint64_t) { fill_prompt(session, line); });
}

}  // namespace

void run_sample(const SampleOptions& options) {
  use_threads(options.threads);
  TrainedModel trained = load_trained_model(find_checkpoint(options.checkpoint), options.weights);
  trained.model = without_fix_norm(std::move(trained.model));  // rather than for each token
  trained.header.tokenizer = trained.header.tokenizer.finding_special(options.finds_special);
  trained.header.tokenizer.require_text();
  const std::string prompt = options.interactive ? "" : prompt_of(options);
  const bool masks = trained.model.config.objective == Objective::mlm, reads = trained.model.config.crosses();
  if (!options.interactive && !options.raw && prompt.empty() && trained.header.answers)
    throw std::invalid_argument("this model has learned to answer, and not how a text begins: add --prompt 'a question'"
                                ", or --raw to see what it writes");
  std::fprintf(stderr, "%s, step %lld\n", name_of_checkpoint(options.checkpoint, trained.path).c_str(),
               static_cast<long long>(trained.header.step));
  if (const std::string note = options.raw ? "" : note_on_chat(trained.header); !note.empty())
    print_note(note);
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const bool open = !options.length;
  Sampling sampling = options.sampling;
  sampling.temperature = options.temperature.value_or(reads ? 0.f : 1.f);
  const std::string& separator = trained.header.options.separator;
  const Session session{options, trained,
                        {.length = options.length.value_or(kUsualLength),
                         .stop = with_newlines(options.stop),
                         .sampling = sampling,
                         .around = reads ? tokens_around_pairs(tokenizer, separator) : tokenizer.around(separator),
                         .within_context = open,
                         .at_first = trained.header.options.begin_contexts(),
                         .beams = options.beams},
                        options.raw ? nullptr : trained.header.chat()};
  if (masks) note_unread(options);
  if (masks) return options.interactive ? fill_lines(session) : fill_prompt(session, prompt);
  if (!options.interactive) return print_samples(session, prompt);
  if (reads) return translate(session);
  session.chat ? converse(session) : continue_text(session);
}
