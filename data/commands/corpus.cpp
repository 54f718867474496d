#include "corpus.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "data/corpus/corpus_files.hpp"
#include "data/corpus/lexicon.hpp"
#include "data/corpus/minimal_pairs.hpp"
#include "data/corpus/town.hpp"
#include "data/corpus/translation.hpp"
#include "data/files/files.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/strings/utf8.hpp"

namespace {

// Writes lines, each a `unit`, unless the path is empty.
void write_lines(const std::string& path, const std::string& lines, const char* unit) {
  if (path.empty()) return;
  write_file(path, lines);
  std::printf("%s: %s\n", path.c_str(),
              counted(static_cast<double>(std::count(lines.begin(), lines.end(), '\n')), unit).c_str());
}

std::string name_of_check(const CorpusOptions& o) { return o.check == "-" ? "standard input" : one_line(o.check); }

// A kind of text: its words, and how it is told and checked.
struct TextKind {
  const char* name = nullptr;                          // of --grammar; null: any other
  const char *line = "story", *lines = "stories";      // one of its lines, and several
  const char* right = "follow the grammar";            // what lines do that a check accepts
  const char* mean = "; %.1f nats per story";          // -log P, for printf
  const char* if_none = nullptr;                       // a note for a text without a right line
  bool questions = false;                              // may come with --questions and --held-out
  Grammar (*grammar)(const CorpusOptions&) = nullptr;  // of its minimal pairs; null: it has none
  StoryTeller (*teller)(const CorpusOptions&) = nullptr;
  StoryCheck (*check)(const CorpusOptions&, std::string_view text, std::string_view known);
};

constexpr TextKind kTextKinds[] = {
    {.name = kTown,
     .if_none = "a town depends on its --seed: name the one that wrote the text",
     .questions = true,
     .grammar = [](const CorpusOptions& o) { return town_grammar(o.seed); },
     .teller = [](const CorpusOptions& o) { return teller_of(o.seed, town_grammar(o.seed)); },
     .check = [](const CorpusOptions& o, std::string_view text, std::string_view known) {
       const Grammar town = town_grammar(o.seed);
       return check_stories(text, known, &town);
     }},
    {.name = kLexicon,
     .line = "line",
     .lines = "lines",
     .mean = "; %.1f nats per line",
     .if_none = "for stories and tales, leave out --grammar",
     .teller = [](const CorpusOptions& o) -> StoryTeller {
       return [seed = o.seed](uint64_t index) { return tell_lexicon_line(seed, index); };
     },
     .check = [](const CorpusOptions&, std::string_view text, std::string_view known) {
       return check_lexicon(text, known);
     }},
    {.if_none = "for the text of a town, name --grammar town and its --seed, and for a lexicon --grammar lexicon",
     .grammar = [](const CorpusOptions& o) { return story_grammar(o.grammar); },
     .teller = [](const CorpusOptions& o) { return teller_of(o.seed, story_grammar(o.grammar)); },
     .check = [](const CorpusOptions&, std::string_view text, std::string_view known) {
       return check_stories(text, known);
     }}};

// What --pairs-of checks.
constexpr TextKind kTranslations = {
    .line = "pair",
    .lines = "pairs",
    .right = "are a source and a translation of it",
    .mean = "; %.4f nats per pair",
    .check = [](const CorpusOptions& o, std::string_view text, std::string_view known) {
      return explained(name_of_check(o) + ", ", [&] { return check_pairs(text, known, pair_grammar(o.pairs_of)); });
    }};

const TextKind& kind_of(const CorpusOptions& o) {
  if (!o.pairs_of.empty()) return kTranslations;
  return *std::find_if(std::begin(kTextKinds), std::end(kTextKinds),
                       [&](const TextKind& kind) { return kind.name == nullptr || o.grammar == kind.name; });
}

void write_and_report(const CorpusOptions& options) {
  const TextKind& kind = kind_of(options);
  if (!kind.questions && (!options.questions.empty() || !options.held_out.empty()))
    throw std::invalid_argument("--questions and --held-out are about --grammar town");
  const size_t bytes = parse_bytes(options.bytes);
  for (const std::string& out : {options.out, nats_path(options.out), options.questions, options.held_out})
    if (!out.empty()) check_output(out, options.force);
  const Stopwatch clock;
  const CorpusSummary summary = write_corpus(options.out, bytes, options.seed, kind.teller(options));
  std::printf("%s: %s, %s, floor %.4f nats/byte (%.1f s)\n", options.out.c_str(),
              counted(static_cast<double>(summary.stories), kind.line).c_str(), format_bytes(summary.bytes).c_str(),
              summary.nats / static_cast<double>(summary.bytes), clock.seconds());
  if (!kind.questions) return;
  const TownQuestions questions = town_questions(options.seed);
  write_lines(options.questions, questions.asked, "conversation");
  write_lines(options.held_out, questions.held_out, "question");
}

void write_pairs_and_report(const CorpusOptions& options) {
  const TextKind& kind = kind_of(options);
  if (kind.grammar == nullptr)
    throw std::invalid_argument("--grammar " + options.grammar +
                                " makes no minimal pairs: name another --grammar, or leave out --pairs");
  check_output(options.pairs, options.force);
  const int64_t pairs =
      write_pairs(options.pairs, options.count.value_or(1000), options.seed, options.grammar, kind.grammar(options));
  std::printf("%s: %s\n", options.pairs.c_str(), counted(static_cast<double>(pairs), "pair").c_str());
}

// The rows of the table: what a loss of so many nats per pair is.
std::string entropies_text(const PairEntropies& h) {
  std::vector<std::vector<std::string>> rows = {{"exact means of the grammar", "nats/pair", "nats/word", "nats/byte"}};
  for (const auto& [what, nats] : {std::pair("floor: H(target | source)", h.floor),
                                   {"H(target): without its source", h.target},
                                   {"words of the target by their frequency", h.unigram}})
    rows.push_back({what, format("%.4f", nats), format("%.4f", nats / h.words), format("%.4f", nats / h.bytes)});
  rows.push_back({"H(source)", format("%.4f", h.source), "", ""});
  return aligned(rows, 1) + "a target has " + format("%.2f", h.words) + " words and " + format("%.2f", h.bytes) +
         " bytes in the mean, and at most " + format_count(h.longest) + " bytes\n";
}

void write_translations_and_report(const CorpusOptions& options) {
  const size_t bytes = parse_bytes(options.bytes), count = static_cast<size_t>(options.count.value_or(0));
  for (const std::string& out : {options.out, nats_path(options.out)}) check_output(out, options.force);
  const Stopwatch clock;
  const SynchronousGrammar& grammar = pair_grammar(options.pairs_of);
  const auto tell = [&](const auto& use) {
    return tell_pairs(bytes, count, options.seed, grammar, form_of(options.out), use);
  };
  const CorpusSummary summary =
      write_with_nats(options.out, "seed " + std::to_string(options.seed) + "; of each target given its source",
                      std::to_string(bytes) + " bytes hold no pair; ask for 2k or more", tell);
  const auto pairs = static_cast<double>(summary.stories);
  std::printf("%s: %s, %s, floor %.4f nats/pair (%.1f s)\n%s", options.out.c_str(), counted(pairs, "pair").c_str(),
              format_bytes(summary.bytes).c_str(), summary.nats / pairs, clock.seconds(),
              entropies_text(entropies_of(grammar)).c_str());
}

void check_and_report(const CorpusOptions& options) {
  constexpr size_t kMost = 1 << 28, kMostShown = 60;  // bytes
  const std::string name = name_of_check(options);
  const std::string text = read_file(options.check, kMost);
  const std::string known = options.known.empty() ? "" : read_file(options.known, kMost);
  const TextKind& kind = kind_of(options);
  const StoryCheck c = kind.check(options, text, known);
  if (c.lines == 0)
    throw std::runtime_error(name + " has no " + kind.lines + " to check: each line is one " + kind.line);
  std::printf("%s: %zu of %zu %s %s (%.1f %%); %zu %s different", name.c_str(), c.stories, c.lines, kind.lines,
              kind.right, 100. * static_cast<double>(c.stories) / static_cast<double>(c.lines), c.distinct,
              c.distinct == 1 ? "is" : "are");
  if (!options.known.empty())
    std::printf("; %zu %s in %s", c.known, c.known == 1 ? "occurs" : "occur", one_line(options.known).c_str());
  if (c.stories > 0) std::printf("%s", format(kind.mean, c.nats / static_cast<double>(c.stories)).c_str());
  std::printf("\n");
  if (c.first_wrong > 0)
    std::printf("line %zu goes wrong after \"%s\", at \"%s\"\n", c.first_wrong, one_line(c.readable).c_str(),
                one_line(c.wrong.substr(0, kMostShown)).c_str());
  if (c.stories == 0 && kind.if_none != nullptr) print_note(kind.if_none);
}

// Throws if the options name a file to write next to one to check.
void require_nothing_to_write(const CorpusOptions& o) {
  for (const auto& [name, path] : {std::pair("out", o.out), {"pairs", o.pairs}, {"questions", o.questions},
                                   {"held-out", o.held_out}})
    if (!path.empty())
      throw std::invalid_argument(std::string("--check reads stories and writes no file: leave out --") + name);
}

// Throws if the options name files of stories next to one of translations.
void require_translations_alone(const CorpusOptions& o) {
  for (const auto& [name, path] : {std::pair("pairs", o.pairs), {"questions", o.questions}, {"held-out", o.held_out}})
    if (!path.empty())
      throw std::invalid_argument(std::string("--pairs-of writes translations to --out alone: leave out --") + name);
}

}  // namespace

void run_corpus(const CorpusOptions& options) {
  if (!options.check.empty()) {
    require_nothing_to_write(options);
    return check_and_report(options);
  }
  if (!options.pairs_of.empty()) require_translations_alone(options);
  if (!options.known.empty())
    throw std::invalid_argument("--known goes with --check: name the stories to compare with");
  if (options.out.empty() && options.pairs.empty())
    throw std::invalid_argument("--out is missing: name the file to write, or check one with --check FILE");
  if (!options.pairs_of.empty()) return write_translations_and_report(options);
  if (!options.pairs.empty()) write_pairs_and_report(options);
  if (!options.out.empty()) write_and_report(options);
}
