#include "messages.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <optional>
#include <set>

#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "evaluate.hpp"
#include "fill_masks.hpp"
#include "generate_text.hpp"
#include "layers/config/base_model.hpp"
#include "layers/config/parametrization.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "schedule.hpp"
#include "unused_options.hpp"

namespace {

// Factors that a parametrization fills in if they are open (resolve.cpp).
struct FilledFactor {
  const char* option;
  std::optional<double> Config::*value;
  double (*factor)(const Config& config);
};
constexpr FilledFactor kFilledFactors[] = {{"logit-scale", &Config::logit_scale, logit_factor},
                                           {"attention-scale", &Config::attention_scale, score_factor},
                                           {"branch-scale", &Config::branch_scale, branch_factor}};

// A factor that the user or a preset has set stays as it is. Returns "" if this one is open, or if the parametrization
// has none.
std::string kept_factor(const FilledFactor& row, const Config& given) {
  const std::optional<double> value = given.*row.value;
  const double factor = value ? row.factor(given) : 1;
  if (factor == 1) return "";
  const std::string option = std::string("--") + row.option;
  return option + " " + format("%g", *value) + " takes the place of the parametrization's factor " +
         format("%g", factor) + "; " + option + format(" %g", *value * factor) + " would be the base model's " +
         format("%g", *value);
}

// With --init-from these factors are the model's, so a warning would blame options that nobody set.
std::vector<std::string> kept_factors(const TrainOptions& given) {
  std::vector<std::string> lines;
  if (!given.init_from.empty()) return lines;
  for (const FilledFactor& row : kFilledFactors) lines.push_back(kept_factor(row, given.config));
  return lines;
}

// One entry for each kind of mistake, in the same order for all runs; "" if the run does not make it.
std::vector<std::string> rate_mistakes(const TrainOptions& o) {
  const LearningRate& rate = o.rate;
  const int64_t warmup = rate.warmup_steps(o.steps);
  const auto line_if = [](bool holds, const std::string& line) { return holds ? line : ""; };
  return {
      line_if(rate.lr == 0, "--lr 0: nothing will be learned"),
      line_if(rate.lr >= .1 && o.optimizer->rows.front() == &kAdamW,
              "--lr " + format("%g", rate.lr) + ": AdamW moves every weight by about that much in a step; try 1e-3"),
      line_if(warmup > 0 && o.steps > 0 && warmup >= o.steps,
              "--warmup " + std::to_string(warmup) + " does not end before step " + std::to_string(o.steps) +
                  ": the learning rate only gets to " + format("%.2g", rate.at(o.steps - 1, o.steps)) + " of " +
                  format("%g", rate.lr) + "; try --warmup 10%"),
      line_if(rate.min_lr > rate.lr, "--min-lr " + format("%g", rate.min_lr) + " is above --lr " +
                                         format("%g", rate.lr) + ": the learning rate rises at the end"),
      line_if(o.config.lora_rank > 0 && o.init_from.empty(),
              "--lora without --init-from trains adapters of a model with random weights: name a trained one"),
      line_if(o.config.parametrization != Parametrization::sp && o.optimizer->rows.front() == &kSgd && o.clip > 0,
              "--clip " + format("%g", o.clip) + " changes the size of SGD's steps, and differently at each width: " +
                  "--parametrization needs --clip 0 with --optimizer sgd"),
  };
}

// Warns if --mix-fraction is too small for one early block, so that mix-ln is its second placement alone.
std::vector<std::string> early_blocks(const TrainOptions& o) {
  for (const Config& stack : stack_configs(resolved(with_vocabulary(o).config))) {
    const Placement& row = *stack.placement_row;
    if (!row.early || &placement_at(stack, 0, "attention") == row.early) continue;
    const int depth = base_depth(stack);
    return {"--mix-fraction " + format("%g", stack.mix_fraction) + " of " +
            (depth == stack.n_layer ? "" : "the base model's ") + counted(depth, "layer") +
            " is less than one block, so none has --placement " + row.early->name + ": raise it to " +
            format("%g", std::ceil(100. / depth) / 100)};
  }
  return {""};
}

// A parametrization takes the number of heads as the base model's, if --base-heads is open. In a comparison of several
// numbers that cannot be true of all.
std::string open_base_heads(const std::vector<TrainOptions>& given) {
  std::set<int> numbers;
  for (const TrainOptions& o : given)
    if (o.config.parametrization != Parametrization::sp && o.config.base_heads == 0) numbers.insert(o.config.n_head);
  if (numbers.size() < 2) return "";
  return "--base-heads is open, so each run takes its own number of heads as the base model's, from " +
         std::to_string(*numbers.begin()) + " to " + std::to_string(*numbers.rbegin()) +
         ": set --base-heads to the tuned model's";
}

// Adds what `lines_of` says about the runs: of each kind of line, the first that is not empty.
void add_first(std::vector<std::string>& lines, const std::vector<TrainOptions>& runs,
               std::vector<std::string> (*lines_of)(const TrainOptions& o)) {
  std::vector<std::string> first;
  for (const TrainOptions& o : runs) {
    const std::vector<std::string> here = lines_of(o);
    first.resize(here.size());
    for (size_t i = 0; i < here.size(); ++i)
      if (first[i].empty()) first[i] = here[i];
  }
  std::ranges::copy_if(first, std::back_inserter(lines), [](const std::string& line) { return !line.empty(); });
}

}  // namespace

std::vector<std::string> warnings_about(const std::vector<TrainOptions>& runs, const std::vector<TrainOptions>& given) {
  std::vector<std::string> lines = unused_options(given);
  add_first(lines, runs, rate_mistakes);
  add_first(lines, given, kept_factors);
  add_first(lines, given, early_blocks);
  if (const std::string line = open_base_heads(given); !line.empty()) lines.push_back(line);
  return lines;
}

double epochs_of(const Dataset& data, const TrainOptions& o) {
  return static_cast<double>(o.steps) * o.batch * o.accumulate / data.rows_per_epoch(o.config.context);
}

std::vector<std::string> warnings_about(const Dataset& data, const TrainOptions& o, size_t parameters) {
  // Repeating a text up to 4 times is as good as fresh text; beyond 16 times it adds little (Muennighoff et al. 2023,
  // arXiv 2305.16264).
  constexpr double kMostEpochs = 16, kGoodEpochs = 4, kFewestTokens = .1;
  const double epochs = epochs_of(data, o), each = static_cast<double>(data.train) / static_cast<double>(parameters);
  std::vector<std::string> lines;
  if (o.init_from.empty() && each < kFewestTokens)
    lines.push_back(format("the text has %.2g tokens for each parameter", each) +
                    ", so the model can learn it by heart: give more text or a smaller model");
  const int known = data.tokenizer.vocabulary(), all = o.config.vocab_size;
  if (o.init_from.empty() && all >= 2 * known)
    lines.push_back("the tokenizer has " + format_count(known) + " of the model's " + format_count(all) +
                    " tokens: give --vocab-size " + std::to_string(known) + ", or a larger --tokenizer");
  if (epochs > kMostEpochs)
    lines.push_back(format("the text is read %.0f times", epochs) +
                    ", and more than 16 times mostly overfits: try --steps " +
                    std::to_string(static_cast<int64_t>(static_cast<double>(o.steps) * kGoodEpochs / epochs) + 1) +
                    (data.val.empty() ? "" : " or --patience 5"));
  return lines;
}

namespace {

// Returns a command line that calls this program.
std::string program_words(const Trainer& t, std::vector<std::string> words) {
  words.insert(words.begin(), t.command.program);
  return shell_words(words);
}

// Explains the weights: the printed loss belongs to the last ones, but other commands read the best.
void print_weights(const Trainer& t, int64_t last) {
  if (t.state.best_step == last) {
    std::printf("weights     step %lld, the last and the best: sample, eval and export use them\n",
                static_cast<long long>(last));
    return;
  }
  std::printf("weights     this loss is of step %lld, the last. sample, eval and export use step %lld, the best\n"
              "            (%.4f nats/token on %lld batches)\n",
              static_cast<long long>(last), static_cast<long long>(t.state.best_step), t.state.best_loss,
              static_cast<long long>(t.batches_per_validation()));
}

void print_validation(const Trainer& t, const RunOutcome& outcome) {
  const bool whole = !std::isnan(outcome.val_loss_full);
  const double loss = whole ? outcome.val_loss_full : t.state.val_loss;
  if (std::isnan(loss)) return;
  std::printf("\nvalidation  %s", t.data.in_units(loss).c_str());
  if (t.data.floor > 0) std::printf("; the floor is %.4f nats/token, %.4f above it", t.data.floor, loss - t.data.floor);
  std::printf("\n");
  if (loss >= t.data.unigram_nats - kStuckWithin)
    std::printf("            No better than guessing each token by its frequency (unigram, %.4f).\n"
                "            A lower --lr, a longer --warmup or more steps may help.\n",
                t.data.unigram_nats);
  if (!whole && outcome.measured)
    std::printf("            on %lld of %lld batches; --final-batches 0 measures all of them\n",
                static_cast<long long>(t.options().eval_batches),
                static_cast<long long>(validation_batches(t.data, t.options().batch)));
  print_weights(t, outcome.step);
}

// Returns the first word of the text that a run trains on, which its tokenizer knows. "" if it is no ordinary word.
std::string first_word(const Dataset& data) {
  constexpr size_t kTokens = 32, kMostBytes = 20;
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < std::min(data.train, kTokens); ++i)
    if (static_cast<int>(data.tokens[i]) != data.around.first) tokens.push_back(data.tokens[i]);
  const std::string text = data.tokenizer.decode(tokens);
  const size_t begin = text.find_first_not_of(" \t\r\n-"), end = text.find_first_of(" \t\r\n", begin);
  if (begin == text.npos || end == text.npos || end - begin > kMostBytes) return "";
  const std::string word = text.substr(begin, end - begin);
  return for_terminal(word) == word ? word : "";
}

// Returns the prompts of the first documents for validation, with the token that begins each.
std::vector<std::vector<int>> prompts_of(const Dataset& data, size_t most) {
  std::vector<TokenWindow> windows = (data.val.empty() ? data.rows : data.val).windows();
  std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<std::vector<int>> prompts;
  for (const TokenWindow& window : windows) {
    if (static_cast<int>(data.tokens[window.start]) != data.around.first) continue;  // inside a long document
    std::vector<int> prompt;
    const size_t end = window.start + static_cast<size_t>(window.length);
    for (size_t at = window.start; at < end && (prompt.empty() || data.counted[at] == 0); ++at)
      prompt.push_back(static_cast<int>(data.tokens[at]));
    prompts.push_back(std::move(prompt));
    if (prompts.size() == most) break;
  }
  return prompts;
}

// Continues a prompt by at most `left` tokens, and subtracts the number written from `left`. Ctrl-C ends the text.
std::string continued(const Trainer& t, const std::vector<int>& prompt, Generation how, int& left) {
  how.length = left;
  how.around = t.data.around;
  how.activations = &t.activations;
  how.within_context = true;
  how.stopped = interrupted;
  std::string text;
  const Generated result = generate_text(t.model, t.data.tokenizer, prompt, how, [&](const auto& p) { text += p; });
  left -= static_cast<int>(result.tokens.size());
  return text;
}

// Answers the first prompts for validation.
std::string answers_of(const Trainer& t) {
  const Tokenizer& tokenizer = t.data.tokenizer;
  const Generation how{.sampling = {.temperature = .8f, .seed = t.options().seed},
                       .turn_end = answer_end(t.data.chat, tokenizer)};
  std::string text;
  int left = t.sample_length();
  for (const std::vector<int>& prompt : prompts_of(t.data, t.sample_texts())) {
    if (left == 0) break;
    text += (text.empty() ? "" : "\n") + tokenizer.decode({prompt.begin() + 1, prompt.end()});
    text += continued(t, prompt, how, left);
  }
  return text;
}

// Appends the sources in a row, until there are `most`.
void append_sources(std::vector<std::vector<int>>& sources, const RowBatch& row, size_t most) {
  const EncoderRows& encoder = row.encoder;
  for (int t = 0; t < row.T && row.targets[t] != kIgnore && sources.size() < most; ++t)
    if (t == 0 || encoder.from[t] != encoder.from[t - 1])
      sources.emplace_back(encoder.tokens.begin() + encoder.from[t], encoder.tokens.begin() + encoder.to[t]);
}

// Returns the sources of the first rows for validation, or for training, each with the token that ends it.
std::vector<std::vector<int>> first_sources(const Dataset& data, int T, size_t most) {
  const Rows& rows = data.val.empty() ? data.rows : data.val;
  std::vector<std::vector<int>> sources;
  for (size_t r = 0; sources.size() < most && (r < rows.size() || rows.empty()); ++r)
    append_sources(sources, rows.empty() ? draw_batch(data, 1, T, {0, r, 1}, 0) : fill_rows(data, rows, r, 1, T), most);
  return sources;
}

std::string text_of(const Tokenizer& tokenizer, const std::vector<int>& source) {
  return tokenizer.decode({source.begin(), source.end() - 1});
}

// Writes the targets of the first sources.
std::string targets_of(const Trainer& t) {
  const Tokenizer& tokenizer = t.data.tokenizer;
  std::string text;
  int left = t.sample_length();
  for (const std::vector<int>& source : first_sources(t.data, t.model.config.context, t.sample_texts())) {
    if (left == 0) break;
    text += (text.empty() ? "" : "\n") + text_of(tokenizer, source) + "\n  ";
    text += continued(t, t.data.around.start(), {.sampling = {.temperature = 0}, .source = source}, left);
  }
  return text;
}

// Samples documents, or a part of a stream.
std::string texts_of(const Trainer& t) {
  const std::vector<int> start = prompt_tokens(t.data.tokenizer, "", {.sampling = {}, .around = t.data.around});
  std::string text;
  int left = t.sample_length();
  for (int n = 0; n < t.sample_texts() && left > 0; ++n) {
    const Generation how{.sampling = {.temperature = .8f, .seed = t.options().seed}, .number = uint64_t(n)};
    text += (n == 0 ? "" : "\n") + continued(t, start, how, left);
  }
  const size_t end = text.rfind('\n');
  if (t.data.packing == Packing::stream && end != text.npos && end > text.size() / 2) text.resize(end);
  return text;
}

std::vector<std::string> compare_words(const Trainer& t) {
  std::vector<std::string> words = {"compare", "--data"};
  words.insert(words.end(), t.command.train.data.begin(), t.command.train.data.end());
  words.insert(words.end(), {"--grid", "placement=post,pre,sandwich,deepnorm", "--tune", "lr=1e-3,3e-3",
                             "warmup=20%,50%", "--tune-runs", "10", "--steps", "600"});
  return words;
}

// Returns the words of a command that trains on. If the rate has fallen to 0, they begin a new schedule.
std::vector<std::string> longer_words(const Trainer& t) {
  const TrainOptions& o = t.options();
  std::vector<std::string> words = {"train", "--out", o.out, "--resume", "--steps", std::to_string(2 * o.steps)};
  if (rate_at(o, o.steps) == 0) words.insert(words.end(), {"--lr", format("%g", o.rate.lr)});
  return words;
}

// Returns the words of a command that shows what the model has learned.
std::vector<std::string> sample_words(const Trainer& t) {
  const std::string& out = t.options().out;
  if (t.data.chat || t.state.answers) return {"sample", out, "--interactive"};
  if (t.data.has_sources)
    return {"sample", out, "--prompt", text_of(t.data.tokenizer, first_sources(t.data, t.model.config.context, 1)[0])};
  const std::string prompt = first_word(t.data);
  if (t.data.masking.on()) return {"sample", out, "--prompt", prompt + " " + mask_name(t.data.tokenizer)};
  return prompt.empty() ? std::vector<std::string>{"sample", out}
                        : std::vector<std::string>{"sample", out, "--prompt", prompt};
}

std::string sample_text(const Trainer& t) {
  if (t.data.masking.on()) return filled_sample(t.model, t.activations, t.data);
  if (t.data.has_sources) return targets_of(t);
  return t.state.answers ? answers_of(t) : texts_of(t);
}

}  // namespace

std::string text_sample(const Trainer& t, int64_t step) {
  const std::string text = sample_text(t);
  if (interrupted()) return "(Ctrl-C stopped this sample)";
  keep_sample(t.options().out, step, text);
  if (has_json_lines()) json_line(to_ascii({{"event", "sample"}, {"step", step}, {"text", text}}));
  return "---- sample ----\n" + for_terminal(text) + "\n----------------";
}

void print_summary(const Trainer& t, const RunOutcome& outcome) {
  if (outcome.early)
    std::printf("stopped early: no new best in %lld validations since step %lld (%.4f nats/token, in %s)\n",
                static_cast<long long>(t.options().patience), static_cast<long long>(t.state.best_step),
                t.state.best_loss, kBestCheckpoint);
  print_validation(t, outcome);
  if (!std::isnan(outcome.pairs))
    std::printf("pairs       %.4f of %s are right, the mean of the categories\n", outcome.pairs,
                counted(static_cast<double>(t.pairs.size()), "pair").c_str());
  std::printf("checkpoint  %s\n", last_checkpoint(t.options().out).c_str());
  if (!outcome.measured)
    std::printf("The run is finished; its last measurement was stopped. To repeat it:\n  %s\n",
                program_words(t, {"train", "--out", t.options().out, "--resume"}).c_str());
  if (t.options().quiet || interrupted()) return;
  std::fflush(stdout);  // a sample takes a while
  std::printf("%s\n", text_sample(t, outcome.step).c_str());
  std::vector<std::vector<std::string>> next = {sample_words(t), longer_words(t)};
  if (t.options().init_from.empty()) next.push_back(compare_words(t));  // pretrained weights have their placement
  std::printf("next:\n");
  for (const auto& words : next) std::printf("  %s\n", program_words(t, words).c_str());
}

void print_stopped(const Trainer& t, int64_t step, bool saved) {
  if (has_json_lines())
    json_line(to_ascii({{"event", "stopped"}, {"run", t.options().out}, {"step", step}, {"saved", saved}}));
  std::FILE* to = stop_signal() == SIGPIPE ? stderr : stdout;
  std::fprintf(to, "stopped at step %lld and %s; to go on:\n  %s\n", static_cast<long long>(step),
               saved ? "saved" : "not saved, because its loss has exploded",
               program_words(t, {"train", "--out", t.options().out, "--resume"}).c_str());
}
