#include "corpus.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "data/corpus/corpus_files.hpp"
#include "data/corpus/minimal_pairs.hpp"
#include "data/corpus/town.hpp"
#include "data/files/files.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"

namespace {

// Writes lines, each a `unit`, unless the path is empty.
void write_lines(const std::string& path, const std::string& lines, const char* unit) {
  if (path.empty()) return;
  write_file(path, lines);
  std::printf("%s: %s\n", path.c_str(),
              counted(static_cast<double>(std::count(lines.begin(), lines.end(), '\n')), unit).c_str());
}

bool is_town(const CorpusOptions& options) { return options.grammar == kTown; }

Grammar grammar_of(const CorpusOptions& options) {
  return is_town(options) ? town_grammar(options.seed) : story_grammar(options.grammar);
}

void write_and_report(const CorpusOptions& options) {
  if (!is_town(options) && (!options.questions.empty() || !options.held_out.empty()))
    throw std::invalid_argument("--questions and --held-out are about --grammar town");
  const size_t bytes = parse_bytes(options.bytes);
  for (const std::string& out : {options.out, nats_path(options.out), options.questions, options.held_out})
    if (!out.empty()) check_output(out, options.force);
  const Stopwatch clock;
  const CorpusSummary summary = write_corpus(options.out, bytes, options.seed, grammar_of(options));
  std::printf("%s: %s, %s, floor %.4f nats/byte (%.1f s)\n", options.out.c_str(),
              counted(static_cast<double>(summary.stories), "story").c_str(), format_bytes(summary.bytes).c_str(),
              summary.nats / static_cast<double>(summary.bytes), clock.seconds());
  if (!is_town(options)) return;
  const TownQuestions questions = town_questions(options.seed);
  write_lines(options.questions, questions.asked, "conversation");
  write_lines(options.held_out, questions.held_out, "question");
}

void write_pairs_and_report(const CorpusOptions& options) {
  check_output(options.pairs, options.force);
  const int64_t pairs =
      write_pairs(options.pairs, options.count, options.seed, options.grammar, grammar_of(options));
  std::printf("%s: %s\n", options.pairs.c_str(), counted(static_cast<double>(pairs), "pair").c_str());
}

void check_and_report(const CorpusOptions& options) {
  constexpr size_t kMost = 1 << 28, kMostShown = 60;  // bytes
  const std::string name = options.check == "-" ? "standard input" : one_line(options.check);
  const std::string text = read_file(options.check, kMost);
  const std::string known = options.known.empty() ? "" : read_file(options.known, kMost);
  const StoryCheck c = check_stories(text, known);
  if (c.lines == 0) throw std::runtime_error(name + " has no stories to check: give one story per line");
  std::printf("%s: %zu of %zu stories follow the grammar (%.1f %%); %zu are different", name.c_str(), c.stories,
              c.lines, 100. * static_cast<double>(c.stories) / static_cast<double>(c.lines), c.distinct);
  if (!options.known.empty())
    std::printf("; %zu %s in %s", c.known, c.known == 1 ? "occurs" : "occur", one_line(options.known).c_str());
  if (c.stories > 0) std::printf("; %.1f nats per story", c.nats / static_cast<double>(c.stories));
  std::printf("\n");
  if (c.first_wrong > 0)
    std::printf("line %zu goes wrong after \"%s\", at \"%s\"\n", c.first_wrong, one_line(c.readable).c_str(),
                one_line(c.wrong.substr(0, kMostShown)).c_str());
}

// Throws if the options name a file to write next to one to check.
void require_nothing_to_write(const CorpusOptions& o) {
  for (const auto& [name, path] : {std::pair("out", o.out), {"pairs", o.pairs}, {"questions", o.questions},
                                   {"held-out", o.held_out}})
    if (!path.empty())
      throw std::invalid_argument(std::string("--check reads stories and writes no file: leave out --") + name);
}

}  // namespace

void run_corpus(const CorpusOptions& options) {
  if (!options.check.empty()) {
    require_nothing_to_write(options);
    return check_and_report(options);
  }
  if (!options.known.empty())
    throw std::invalid_argument("--known goes with --check: name the stories to compare with");
  if (options.out.empty() && options.pairs.empty())
    throw std::invalid_argument("--out is missing: name the file to write, or check one with --check FILE");
  if (!options.pairs.empty()) write_pairs_and_report(options);
  if (!options.out.empty()) write_and_report(options);
}
