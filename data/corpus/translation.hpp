#pragma once
// A translation task of known floor: English sentences, and their translations into a made language. Both come from one
// synchronous grammar, so P(target | source) is known exactly. A learner has to
//   - reverse the order of clauses, and of the parts of a clause;
//   - choose the ending of a verb, an adjective and "that" (kio, kia, kion, kian) by the gender and number of a noun
//     that comes later in the target, and whose gender its English word does not show;
//   - choose the meaning of "crane" or "bat" by a verb, which a relative clause may separate from it; of "drew" by its
//     object; and of "bank" by the scene that the sentence begins with.
// What remains free are synonyms, the order of what "and" joins, the place of a manner, and the word "ve".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "corpus.hpp"
#include "synchronous_grammar.hpp"

struct PairGrammar {
  const char* name;
  bool literal = false;  // each source has one translation, the first of each entry
};
inline constexpr PairGrammar kPairGrammars[] = {{.name = "translation"}, {.name = "literal", .literal = true}};

// Returns a grammar of kPairGrammars by its name. Throws std::invalid_argument for other names.
const SynchronousGrammar& pair_grammar(std::string_view name = "translation");

// Tells one pair. A pure function: the same seed, index and grammar give the same pair.
SentencePair tell_pair(uint64_t seed, uint64_t index, const SynchronousGrammar& grammar);

// Returns -log P(target | source), or nothing if the target is no translation of the source.
std::optional<double> translation_nats(const SynchronousGrammar& grammar, std::string_view source,
                                       std::string_view target);

// A pair as a line: {"source": ..., "target": ...}, or the two with a tab between them.
enum class PairForm { json, tabs };
PairForm form_of(std::string_view path);  // tabs for NAME.tsv
std::string line_of(const SentencePair& pair, PairForm form);

// Reads a line of either form. Throws std::runtime_error if it is neither.
SentencePair read_pair(std::string_view line);

// Calls `use` for each of a series of lines with distinct sources: `count` lines, or at most `bytes` bytes if it is 0.
// Each line's nats are -log P(target | source).
CorpusSummary tell_pairs(size_t bytes, size_t count, uint64_t seed, const SynchronousGrammar& grammar, PairForm form,
                         const std::function<void(const Story&)>& use);

// Counts how many lines of a text are a source and a translation of it. `known` counts by source.
StoryCheck check_pairs(std::string_view text, std::string_view known, const SynchronousGrammar& grammar);

// Mean nats per pair, as exact sums over the grammar.
struct PairEntropies {
  double source, target;       // H(source), H(target)
  double floor;                // H(target | source) = H(source, target) - H(source)
  double unigram;              // of the target's words: the loss of their frequencies
  double words, bytes;         // mean lengths of the target; "." is a word
  double longest;              // bytes of the longest target
};
PairEntropies entropies_of(const SynchronousGrammar& grammar);
