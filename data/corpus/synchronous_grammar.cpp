#include "synchronous_grammar.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "grammar_lines.hpp"

namespace {

// ---- from text to rules ----------------------------------------------------------------------------------

[[noreturn]] void fail_grammar(const std::string& why) { throw std::invalid_argument("synchronous grammar: " + why); }

// A value of a feature, and its spellings.
struct FeatureValue {
  std::string name, source, target;
};

// Returns the position of the first feature after `at`: of N in "[noun N]", "noun N:" and "{N}".
size_t find_feature(const std::string& line, size_t at = 0) {
  for (; at + 1 < line.size(); ++at)
    if (line[at] >= 'A' && line[at] <= 'Z' && (at == 0 || std::strchr(" {", line[at - 1])) &&
        std::strchr(" ]}:", line[at + 1]))
      return at;
  return line.npos;
}

// Replaces a feature by one of its values, and in braces by its spelling.
std::string with_value(std::string line, char feature, const FeatureValue& value) {
  for (size_t at = 0; (at = find_feature(line, at)) != line.npos; ++at) {
    if (line[at] != feature) continue;
    const std::string& spelling = at < line.find(" = ") ? value.source : value.target;
    if (line[at + 1] == '}') line.replace(--at, 3, spelling);
    else line.replace(at, 1, value.name);
  }
  return line;
}

// Takes odds such as "(2) " from the beginning of an entry or a target.
double take_odds(std::string& written) {
  if (!written.starts_with("(")) return 1;
  const double odds = std::atof(written.c_str() + 1);
  const size_t end = written.find(") ");
  if (!(odds > 0) || end == written.npos) fail_grammar("no positive odds and text in: " + written);
  written.erase(0, end + 2);
  return odds;
}

// Divides a side into texts and the insides of brackets, which child() numbers.
Side read_side(std::string_view text, const std::function<int(const std::string&)>& child) {
  Side side;
  for (size_t used; !text.empty(); text.remove_prefix(used)) {
    if (text[0] == '[') {
      used = text.find(']') + 1;
      if (used == 0) fail_grammar("a bracket is not closed in: " + std::string(text));
      side.push_back({.child = child(std::string(text.substr(1, used - 2)))});
    } else {
      used = std::min(text.find('['), text.size());
      side.push_back({.text = std::string(text.substr(0, used))});
    }
  }
  return side;
}

// Builds the rules that the start needs, one for each name and level.
struct GrammarBuilder {
  struct Entry {
    double odds;
    std::string text;
  };
  int deepest;
  bool literal;
  std::map<char, std::vector<FeatureValue>> features{};
  std::map<std::string, std::vector<Entry>> entries{};  // by the name of their rule: "noun sun many"
  std::map<std::pair<std::string, int>, int> built{};   // name and level → rule; -1 while it is built
  std::vector<std::vector<Production>> rules{};

  void read(std::string_view text) {
    std::string head;
    for (const auto& [is_header, words] : grammar_lines(text)) {
      const size_t colon = is_header ? words.find(':') : 0;
      if (colon == words.npos) fail_grammar("no colon follows the rule's name: " + words);
      if (is_header) head = words.substr(0, colon + 1);
      if (head.empty()) fail_grammar("an entry comes before the first rule: " + words);
      for (std::string entry : split(is_header ? words.substr(colon + 1) : words, " / ")) {
        if (entry.empty()) continue;
        if (find_feature(head) == 0) {
          add_value(head, entry);
        } else {
          const double odds = take_odds(entry);
          add_entry(head + " " + entry, odds, head);
        }
      }
    }
  }

  void add_value(const std::string& head, const std::string& written) {
    std::vector<std::string> cells = split(written, " ");
    cells.resize(3);
    for (std::string& cell : cells)
      if (cell == "-") cell.clear();
    for (size_t at = 0; at < head.size(); at += 2) features[head[at]].push_back({cells[0], cells[1], cells[2]});
  }

  // Adds an entry once for each value of its features. Those that the header lacks share its odds.
  void add_entry(const std::string& line, double odds, const std::string& head) {
    const size_t at = find_feature(line);
    if (at != line.npos) {
      const std::vector<FeatureValue>& values = features[line[at]];
      if (values.empty()) fail_grammar(std::string("no feature is named ") + line[at]);
      const bool shares = head.find(line[at]) == head.npos;
      for (const FeatureValue& value : values)
        add_entry(with_value(line, line[at], value), shares ? odds / static_cast<double>(values.size()) : odds, head);
      return;
    }
    const size_t colon = line.find(": ");
    entries[line.substr(0, colon)].push_back({odds, line.substr(colon + 2)});
  }

  int rule_of(const std::string& name, int level) {
    const auto [place, is_new] = built.try_emplace({name, level}, -1);
    if (!is_new && place->second < 0) fail_grammar("the rule " + name + " contains itself without ^");
    if (!is_new) return place->second;
    std::vector<Production> productions;
    double sum = 0;
    for (const Entry& entry : entries[name]) {
      if (level == deepest && entry.text.find("[^") != entry.text.npos) continue;
      productions.push_back(production_of(entry, level));
      sum += entry.odds;
    }
    if (productions.empty()) fail_grammar("the rule " + name + " has no entry");
    for (Production& p : productions) p.share /= sum;
    rules.push_back(productions);
    return place->second = static_cast<int>(rules.size()) - 1;
  }

  Production production_of(const Entry& entry, int level) {
    const std::vector<std::string> sides = split(entry.text, " = ");
    if (sides.size() != 2) fail_grammar("there is not one = between two sides in: " + entry.text);
    Production p{.share = entry.odds, .children = {}, .source = {}, .targets = {}};
    p.source = read_side(sides[0], [&](const std::string& name) {
      const int deeper = name[0] == '^';
      p.children.push_back(rule_of(name.substr(deeper), level + deeper));
      return static_cast<int>(p.children.size()) - 1;
    });
    const auto child_numbered = [&](const std::string& number) {
      const int child = std::atoi(number.c_str()) - 1;
      if (child >= 0 && child < static_cast<int>(p.children.size())) return child;
      fail_grammar("no child [" + number + "] in: " + entry.text);
    };
    double sum = 0;
    for (std::string target : split(sides[1], " | ")) {
      if (literal && !p.targets.empty()) break;
      const double odds = take_odds(target);
      p.targets.emplace_back(odds, read_side(target, child_numbered));
      sum += odds;
    }
    for (auto& [share, side] : p.targets) share /= sum;
    return p;
  }
};

// ---- parsing ---------------------------------------------------------------------------------------------

// Finds all derivations of parts of a text, from the top down and from left to right.
struct SourceParser {
  const SynchronousGrammar& grammar;
  std::string_view text;
  SynchronousGrammar forest{};  // its sources are the targets of the grammar
  std::vector<double> mass{};   // of each rule of the forest: the sum over its derivations
  size_t readable = 0;

  struct Found {
    size_t end;
    int rule;  // of the forest
  };
  std::map<std::pair<int, size_t>, std::vector<Found>> known{};  // by rule of the grammar, and beginning

  struct Match {
    size_t end;
    std::vector<int> children;  // rules of the forest
  };

  // True if these words come next.
  bool reads(const std::string& words, size_t at) {
    const std::string_view ahead = text.substr(at, words.size());
    const size_t same = std::mismatch(ahead.begin(), ahead.end(), words.begin()).first - ahead.begin();
    readable = std::max(readable, at + same);
    return same == words.size();
  }

  std::vector<Match> matches(const Production& p, size_t begin) {
    if (p.source[0].child < 0 && !reads(p.source[0].text, begin)) return {};  // most words are others
    std::vector<Match> all = {{begin, std::vector<int>(p.children.size())}};
    for (const SideSymbol& symbol : p.source) {
      std::vector<Match> longer;
      for (const Match& match : all) {
        if (symbol.child < 0) {
          if (reads(symbol.text, match.end)) longer.push_back({match.end + symbol.text.size(), match.children});
          continue;
        }
        for (const auto& [end, rule] : find(p.children[symbol.child], match.end)) {
          longer.push_back({end, match.children});
          longer.back().children[symbol.child] = rule;
        }
      }
      all = std::move(longer);
    }
    return all;
  }

  const std::vector<Found>& find(int rule, size_t begin) {
    const auto [place, is_new] = known.try_emplace({rule, begin});
    if (!is_new) return place->second;
    std::map<size_t, std::vector<Production>> by_end;
    for (const Production& p : grammar.rules[rule])
      for (const Match& match : matches(p, begin))
        for (const auto& [share, side] : p.targets)
          by_end[match.end].push_back({.share = p.share * share, .children = match.children, .source = side});
    for (auto& [end, productions] : by_end) {
      place->second.push_back({end, static_cast<int>(mass.size())});
      double sum = 0;
      for (Production& p : productions) {
        for (const int child : p.children) p.share *= mass[child];
        sum += p.share;
      }
      for (Production& p : productions) p.share /= sum;
      forest.rules.push_back(std::move(productions));
      mass.push_back(sum);
    }
    return place->second;
  }

  // Returns the probability of the whole text, and makes its rule the start of the forest.
  double parse() {
    for (const auto& [end, rule] : find(static_cast<int>(grammar.rules.size()) - 1, 0))
      if (end == text.size()) {
        forest.rules.resize(rule + 1);
        return mass[rule];
      }
    forest.rules.clear();
    return 0;
  }
};

}  // namespace

SynchronousGrammar::SynchronousGrammar(std::string_view text, const std::string& start, int deepest, bool literal) {
  GrammarBuilder builder{deepest, literal};
  builder.read(text);
  builder.rule_of(start, 0);
  rules = std::move(builder.rules);
}

SentencePair SynchronousGrammar::tell(const std::function<double()>& uniform) const {
  const auto pick = [&](const auto& all, const auto& share_of) -> const auto& {
    double left = uniform();
    for (const auto& one : all)
      if ((left -= share_of(one)) < 0) return one;
    return all.back();  // after rounding
  };
  const std::function<SentencePair(int)> told = [&](int rule) {
    const Production& p = pick(rules[rule], [](const Production& one) { return one.share; });
    std::vector<SentencePair> children;
    for (const int child : p.children) children.push_back(told(child));
    const auto& [share, target] = pick(p.targets, [](const auto& one) { return one.first; });
    SentencePair pair{"", "", -std::log(share)};
    for (const SideSymbol& s : p.source) pair.source += s.child < 0 ? s.text : children[s.child].source;
    for (const SideSymbol& s : target) pair.target += s.child < 0 ? s.text : children[s.child].target;
    for (const SentencePair& child : children) pair.nats += child.nats;
    return pair;
  };
  return told(static_cast<int>(rules.size()) - 1);
}

SynchronousGrammar SynchronousGrammar::targets() const {
  SynchronousGrammar projected;
  for (const std::vector<Production>& rule : rules) {
    // Two words with one translation are one word here, and so are two orders of the same two rules.
    std::map<std::pair<std::vector<int>, Side>, double> shares;
    for (const Production& p : rule)
      for (auto [share, side] : p.targets) {
        std::vector<int> children;  // in their order in the target
        for (SideSymbol& symbol : side) {
          if (symbol.child < 0) continue;
          children.push_back(p.children[symbol.child]);
          symbol.child = static_cast<int>(children.size()) - 1;
        }
        shares[{children, side}] += p.share * share;
      }
    std::vector<Production>& productions = projected.rules.emplace_back();
    for (const auto& [body, share] : shares)
      productions.push_back({.share = share, .children = body.first, .source = body.second});
  }
  return projected;
}

SynchronousGrammar SynchronousGrammar::given(std::string_view source, size_t* readable) const {
  SourceParser parser{*this, source};
  parser.parse();
  if (readable) *readable = parser.readable;
  return std::move(parser.forest);
}

double SynchronousGrammar::nats(std::string_view source, size_t* readable) const {
  if (rules.empty()) return std::numeric_limits<double>::infinity();
  SourceParser parser{*this, source};
  const double probability = parser.parse();
  if (readable) *readable = parser.readable;
  return -std::log(probability);
}

double SynchronousGrammar::fold(const std::function<double(const Production&)>& of,
                                const std::function<double(double, double, double)>& add) const {
  std::vector<double> values;  // of each rule
  for (const std::vector<Production>& rule : rules) {
    double value = 0;
    for (const Production& p : rule) {
      double sum = of(p);
      for (const int child : p.children) sum += values[child];
      value = add(value, p.share, sum);
    }
    values.push_back(value);
  }
  return values.back();
}

double SynchronousGrammar::mean(const std::function<double(const Production&)>& of) const {
  return fold(of, [](double sum, double share, double value) { return sum + share * value; });
}

double SynchronousGrammar::most(const std::function<double(const Production&)>& of) const {
  return fold(of, [](double most, double, double value) { return std::max(most, value); });
}

std::map<std::string, double> SynchronousGrammar::words() const {
  std::vector<double> uses(rules.size());  // the mean number of uses of each rule
  uses.back() = 1;
  std::map<std::string, double> words;
  for (size_t rule = rules.size(); rule-- > 0;)
    for (const Production& p : rules[rule]) {
      for (const int child : p.children) uses[child] += uses[rule] * p.share;
      for (const SideSymbol& symbol : p.source) {
        std::string spaced;
        for (const char c : symbol.text) spaced += c == ',' || c == '.' ? std::string(" ") + c : std::string(1, c);
        std::istringstream in(spaced);
        for (std::string word; in >> word;) words[word] += uses[rule] * p.share;
      }
    }
  return words;
}
