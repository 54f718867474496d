#pragma once
// A synchronous grammar: a probabilistic context-free grammar that writes a sentence and its translation together
// (Lewis & Stearns 1968, "Syntax-directed transduction"; Aho & Ullman 1969, "Syntax directed translations and the
// pushdown assembler"; with probabilities: Wu 1997, "Stochastic inversion transduction grammars"). As text:
//
//   N: one / many s n         A feature (one capital letter, or several that share its values). A value may have a
//   G: sun - o / moon - a     spelling in the source and one in the target; "-" is none.
//
//   clause:                   A rule. Its entries are source = target, in which [2] is the second rule of the source.
//     the [noun G N] ran = kur{G}{N} [1]         G and N are free here: all four values are equally likely.
//     (2) the [noun G N] that [^clause] ran = [2] ki [1] kur{G}{N} | (3) ki [2] [1] kur{G}{N}
//   noun sun N:               A rule for each value of N. {N} is its spelling on that side.
//     duck{N} = kvako{N} / frog{N} = ribo{N}
//
// (2) are the odds of an entry, or of one of its targets, which " | " separates. They are 1 if none are written.
// [^clause] is one level deeper. Entries that would be deeper than the deepest level are left out. So the grammar is
// finite, and means over it are exact sums.

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// One side of a production is a list of texts and of children.
struct SideSymbol {
  int child = -1;      // the number of a child in Production::children, or -1
  std::string text{};  // otherwise
  auto operator<=>(const SideSymbol&) const = default;
};
using Side = std::vector<SideSymbol>;

struct Production {
  double share = 1;           // its probability in its rule
  std::vector<int> children;  // rules
  Side source;
  std::vector<std::pair<double, Side>> targets = {{1, {}}};  // with their probabilities
};

// A sentence, one of its translations, and -log P(target | source).
struct SentencePair {
  std::string source, target;
  double nats = 0;
};

struct SynchronousGrammar {
  std::vector<std::vector<Production>> rules;  // children stand before their parents, and the start is the last

  SynchronousGrammar() = default;

  // Reads the format above, from the rule `start`. If `literal`, keeps only the first target of each entry. Throws
  // std::invalid_argument for a rule that is missing, has no entry or contains itself without ^, and for bad brackets.
  SynchronousGrammar(std::string_view text, const std::string& start, int deepest, bool literal = false);

  // Writes a pair; uniform() returns a number in [0, 1).
  SentencePair tell(const std::function<double()>& uniform) const;

  // The grammar of the targets alone, as a grammar whose source they are.
  SynchronousGrammar targets() const;

  // The translations of a source, as the grammar of the targets alone (the parse forest: Bar-Hillel, Perles & Shamir
  // 1961; Billot & Lang 1989). Its probabilities are those given the source. Without rules if this is no source.
  // `readable`, if given, becomes the length of the longest prefix of `source` that the grammar can begin with.
  SynchronousGrammar given(std::string_view source, size_t* readable = nullptr) const;

  // -log P of a text as the source: a sum over its derivations. Infinite if there is none.
  double nats(std::string_view source, size_t* readable = nullptr) const;

  // The mean over derivations of the sum of of(production) over the productions of a derivation, and the largest sum.
  double mean(const std::function<double(const Production&)>& of) const;
  double most(const std::function<double(const Production&)>& of) const;

  // How often each word occurs in a source, in the mean. "," and "." count as words.
  std::map<std::string, double> words() const;

 private:
  double fold(const std::function<double(const Production&)>& of,
              const std::function<double(double sum, double share, double value)>& add) const;
};
