#pragma once
// A probabilistic grammar with a memory, written as text. This example has two rules for words and one for sentences:
//
//   name: he his               A rule, and the columns that its entries have after the word itself, which may be empty.
//     Lily | she | her         One entry per line (or several, separated by " / ").
//     Tom | he | his
//   thing:
//     red kite / old drum
//   story:
//     [a=name] lost a(n) [x=thing]. "Who has my [x]?" asked [a]. [A.he] looked in
//         [a.his] bag.         A line with a deeper indent continues the entry above it.
//
//   [rule]      one entry of the rule, every entry equally likely
//   [a=rule]    the same, and the variable a (always one letter) remembers the entry. An entry that another
//               variable remembers is not chosen again, so [a=name] and [b=name] are two people.
//   [a=p.home]  the same, but the rule is named by the column `home` of the entry that p remembers
//   [a] [a.he]  the word that a remembers, or its column `he`; [A.he] begins with a capital
//   a(n)        "an" before a vowel, else "a"
//
// Every choice is uniform over the entries that are left, so a derivation that chose among n1, n2, ...
// entries has -log P = log n1 + log n2 + ... nats exactly.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

struct GrammarSymbol {
  enum Kind { literal, article, pick, recall };
  Kind kind = literal;
  std::string text{};    // literal: the text itself. pick: the rule's name, or "" if [of.column] names it
  char variable = 0;     // pick: the variable that remembers the entry, 0 for none. recall: the variable that is read
  char of = 0;           // pick: the variable whose column names the rule
  std::string column{};  // "" is the word itself
  bool capital = false;  // recall: begins with a capital
};

struct GrammarEntry {
  std::vector<GrammarSymbol> body;
  std::map<std::string, std::string> columns;  // key "" is the word itself
};

// Decides what a grammar tells.
struct Telling {
  using Entry = const GrammarEntry*;
  std::function<Entry(const std::vector<Entry>& left)> pick;               // returns one of those that are left
  std::function<Entry(Entry remembered, const std::string& column)> say;  // whose word a recall says; none: remembered
};

struct Grammar {
  std::map<std::string, std::vector<GrammarEntry>> rules;

  // Reads the format above. Throws std::invalid_argument for a rule that is missing, empty, named twice or without a
  // colon, for an entry before the first rule or with a wrong number of columns, and for a bracket that is not closed.
  explicit Grammar(std::string_view source);

  // Writes one text of the rule `start`; choose(n) picks one of 0 ... n-1. Adds -log P to `nats`.
  std::string tell(const std::string& start, const std::function<size_t(size_t)>& choose, double& nats) const;

  // Does the same with any other decisions.
  std::string tell(const std::string& start, const Telling& how, double& nats) const;

  // Finds all the ways in which `start` can produce exactly this text: -log P of each derivation. Returns an empty list
  // if it cannot, and more than one number if the text is ambiguous. `readable`, if given, becomes the length of the
  // longest prefix of the text that some derivation begins with.
  std::vector<double> read(const std::string& start, std::string_view text, size_t* readable = nullptr) const;
};
