#pragma once
// A probabilistic grammar with a memory, written as text. Two tables and one sentence:
//
//   name: he his               A rule, and the columns its entries have besides the word itself.
//     Lily | she | her         One entry per line (or several, separated by " / ").
//     Tom | he | his
//   thing:
//     red kite / old drum
//   story:
//     [a=name] lost a(n) [x=thing]. "Who has my [x]?" asked [a]. [A.he] looked in
//         [a.his] bag.         Deeper lines carry an entry on.
//
//   [rule]      one entry of the rule, every entry equally likely
//   [a=rule]    the same, and the variable a (always one letter) remembers which. An entry that another
//               variable remembers is not chosen again, so [a=name] and [b=name] are two people.
//   [a=p.home]  the same, from the rule that stands in column `home` of what p remembers
//   [a] [a.he]  what a remembers: the word, or its column `he`; [A.he] begins with a capital
//   a(n)        "an" before a vowel, else "a"
//
// Every choice is uniform over the entries that are left, so a derivation that chose among n1, n2, ...
// entries has -log P = log n1 + log n2 + ... nats: exactly known.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

struct GrammarSymbol {
  enum Kind { literal, article, pick, recall };
  Kind kind = literal;
  std::string text;      // literal: what is said. pick: the rule's name, or "" where [of.column] names it
  char variable = 0;     // pick: who remembers the entry, 0 if nobody. recall: who is asked
  char of = 0;           // pick: whose column names the rule
  std::string column;    // "" is the word itself
  bool capital = false;  // recall: with a capital
};

struct GrammarEntry {
  std::vector<GrammarSymbol> body;
  std::map<std::string, std::string> columns;  // "" is the word itself, as written
};

struct Grammar {
  std::map<std::string, std::vector<GrammarEntry>> rules;

  // Reads the format above. Throws std::invalid_argument on a rule that is missing, empty, named twice or without a
  // colon, an entry before the first rule or with a cell too few or too many, and a bracket that is not closed.
  explicit Grammar(std::string_view source);

  // The rule `start` written out; choose(n) picks one of 0 ... n-1. Adds -log P to `nats`.
  std::string tell(const std::string& start, const std::function<size_t(size_t)>& choose, double& nats) const;

  // All the ways in which `start` can produce exactly this text: -log P of each derivation. Empty if it
  // cannot; more than one where the grammar is ambiguous. `readable`, if given, becomes the length of the
  // longest prefix of the text that some derivation begins with.
  std::vector<double> read(const std::string& start, std::string_view text, size_t* readable = nullptr) const;
};
