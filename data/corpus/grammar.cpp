#include "grammar.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>

#include "grammar_lines.hpp"

namespace {

using Memory = std::array<const GrammarEntry*, 26>;  // the entry that each variable remembers

// Parses the inside of a bracket: "rule", "a=rule", "a=p.home", "a", "A.he".
GrammarSymbol parse_slot(std::string_view slot) {
  const auto is_variable = [](std::string_view s) { return s.size() == 1 || (s.size() > 1 && s[1] == '.'); };
  GrammarSymbol symbol;
  if (slot.size() > 2 && slot[1] == '=') {
    symbol.variable = slot[0];
    slot.remove_prefix(2);
  } else if (is_variable(slot)) {
    symbol.kind = GrammarSymbol::recall;
    symbol.capital = std::isupper(static_cast<unsigned char>(slot[0]));
    symbol.variable = static_cast<char>(std::tolower(static_cast<unsigned char>(slot[0])));
    if (slot.size() > 1) symbol.column = slot.substr(2);
    return symbol;
  }
  symbol.kind = GrammarSymbol::pick;
  if (is_variable(slot)) {
    symbol.of = slot[0];
    symbol.column = slot.substr(2);
  } else {
    symbol.text = slot;
  }
  return symbol;
}

std::vector<GrammarSymbol> parse_body(std::string_view text) {
  std::vector<GrammarSymbol> body;
  for (size_t used; !text.empty(); text.remove_prefix(used)) {
    if (text[0] == '[') {
      used = text.find(']') + 1;
      if (used == 0) throw std::invalid_argument("grammar: a bracket is not closed in: " + std::string(text));
      body.push_back(parse_slot(text.substr(1, used - 2)));
    } else if (text.starts_with("a(n) ")) {
      used = 5;
      body.push_back({.kind = GrammarSymbol::article});
    } else {
      used = std::min({text.find('['), text.find("a(n) "), text.size()});
      body.push_back({.text = std::string(text.substr(0, used))});
    }
  }
  return body;
}

const GrammarEntry& remembered(const Memory& memory, char variable) {
  const GrammarEntry* entry = memory.at(static_cast<size_t>(variable - 'a'));
  if (!entry) throw std::invalid_argument(std::string("grammar: nothing is remembered as ") + variable);
  return *entry;
}

const std::string& column(const GrammarEntry& entry, const std::string& name) {
  const auto found = entry.columns.find(name);
  if (found != entry.columns.end()) return found->second;
  throw std::invalid_argument("grammar: \"" + entry.columns.at("") + "\" has no column " + name);
}

// Returns the text of a recall of this entry.
std::string recalled(const GrammarSymbol& symbol, const GrammarEntry& entry) {
  std::string word = column(entry, symbol.column);
  if (symbol.capital) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

// Returns the entries that a pick may choose: all of its rule that no variable remembers.
std::vector<const GrammarEntry*> choices(const Grammar& grammar, const GrammarSymbol& pick, const Memory& memory) {
  const std::string& rule = pick.of ? column(remembered(memory, pick.of), pick.column) : pick.text;
  std::vector<const GrammarEntry*> left;
  for (const GrammarEntry& entry : grammar.rules.at(rule))
    if (std::find(memory.begin(), memory.end(), &entry) == memory.end()) left.push_back(&entry);
  if (left.empty()) throw std::invalid_argument("grammar: no entry of " + rule + " is left");
  return left;
}

bool is_vowel(char c) { return std::string_view("aeiou").find(c) != std::string_view::npos; }

struct Teller {
  const Grammar& grammar;
  const Telling& how;
  double& nats;
  Memory memory{};
  std::string text{};
  bool after_article = false;

  void say(const std::string& words) {
    if (after_article && is_vowel(words[0])) text.insert(text.size() - 1, "n");
    after_article = false;
    text += words;
  }

  void tell(const std::vector<GrammarSymbol>& body) {
    for (const GrammarSymbol& symbol : body) {
      if (symbol.kind == GrammarSymbol::literal) say(symbol.text);
      if (symbol.kind == GrammarSymbol::recall) {
        const GrammarEntry* entry = &remembered(memory, symbol.variable);
        say(recalled(symbol, how.say ? *how.say(entry, symbol.column) : *entry));
      }
      if (symbol.kind == GrammarSymbol::article) {
        say("a ");
        after_article = true;
      }
      if (symbol.kind == GrammarSymbol::pick) {
        const std::vector<const GrammarEntry*> left = choices(grammar, symbol, memory);
        const GrammarEntry* entry = how.pick(left);
        nats += std::log(static_cast<double>(left.size()));
        if (symbol.variable) memory.at(static_cast<size_t>(symbol.variable - 'a')) = entry;
        tell(entry->body);
      }
    }
  }
};

// The symbols still to read: the rest of one entry's body, then the symbols after that entry.
struct Agenda {
  const GrammarSymbol* next;
  const GrammarSymbol* end;
  const Agenda* after;
};

// Tries every entry at every choice, and gives up a path at its first wrong letter.
struct GrammarReader {
  const Grammar& grammar;
  std::string_view text;
  std::vector<double> derivations{};
  size_t furthest = 0;  // length of the longest prefix that could be read

  void read(Agenda agenda, size_t at, Memory memory, double nats) {
    for (;;) {
      while (agenda.next == agenda.end) {
        if (!agenda.after) {
          if (at == text.size()) derivations.push_back(nats);
          return;
        }
        agenda = *agenda.after;
      }
      const GrammarSymbol& symbol = *agenda.next++;
      if (symbol.kind == GrammarSymbol::pick) {
        const std::vector<const GrammarEntry*> left = choices(grammar, symbol, memory);
        nats += std::log(static_cast<double>(left.size()));
        for (const GrammarEntry* entry : left) {
          Memory then = memory;
          if (symbol.variable) then.at(static_cast<size_t>(symbol.variable - 'a')) = entry;
          read({entry->body.data(), entry->body.data() + entry->body.size(), &agenda}, at, then, nats);
        }
        return;
      }
      std::string words = symbol.kind == GrammarSymbol::recall ? recalled(symbol, remembered(memory, symbol.variable))
                                                                 : symbol.text;
      if (symbol.kind == GrammarSymbol::article) {
        const bool n = text.substr(at, 3) == "an " && at + 3 < text.size() && is_vowel(text[at + 3]);
        const bool vowel_ahead = at + 2 < text.size() && is_vowel(text[at + 2]);
        if (!n && vowel_ahead) return;  // "a owl"
        words = n ? "an " : "a ";
      }
      const std::string_view ahead = text.substr(at, words.size());
      const size_t same = std::mismatch(ahead.begin(), ahead.end(), words.begin()).first - ahead.begin();
      furthest = std::max(furthest, at + same);
      if (same < words.size()) return;
      at += same;
    }
  }
};

// Parses an entry such as "Lily | she | her".
GrammarEntry parse_entry(const std::string& rule, const std::vector<std::string>& columns, const std::string& written) {
  const std::vector<std::string> cells = split(" " + written, " | ");  // "| Lily" has an empty cell before the bar
  if (cells.size() != columns.size())
    throw std::invalid_argument("grammar: " + rule + " has another number of columns than: " + written);
  GrammarEntry entry{parse_body(cells[0]), {}};
  for (size_t i = 0; i < cells.size(); ++i) entry.columns[columns[i]] = cells[i];
  return entry;
}

// Checks every rule, and the rules that picks name. Which rule a column names is known only while telling a text.
void check_rules(const std::map<std::string, std::vector<GrammarEntry>>& rules) {
  for (const auto& [rule, entries] : rules) {
    if (entries.empty()) throw std::invalid_argument("grammar: the rule " + rule + " has no entry");
    for (const GrammarEntry& entry : entries)
      for (const GrammarSymbol& symbol : entry.body)
        if (symbol.kind == GrammarSymbol::pick && !symbol.of && !rules.count(symbol.text))
          throw std::invalid_argument("grammar: no rule is named " + symbol.text + ", used in " + rule);
  }
}

}  // namespace

Grammar::Grammar(std::string_view source) {
  std::string rule;
  std::vector<std::string> columns;
  for (const auto& [is_header, words] : grammar_lines(source)) {
    if (is_header) {
      const size_t colon = words.find(':');
      rule = words.substr(0, colon);
      if (colon == words.npos) throw std::invalid_argument("grammar: no colon after the rule's name: " + rule);
      if (!rules.try_emplace(rule).second) throw std::invalid_argument("grammar: two rules are named " + rule);
      columns = split(words.substr(colon + 1), " ");  // the first is "", because a space or nothing follows the colon
    } else if (rule.empty()) {
      throw std::invalid_argument("grammar: an entry comes before the first rule: " + words);
    } else {
      for (const std::string& written : split(words, " / ")) rules[rule].push_back(parse_entry(rule, columns, written));
    }
  }
  check_rules(rules);
}

std::string Grammar::tell(const std::string& start, const std::function<size_t(size_t)>& choose, double& nats) const {
  return tell(start, {[&](const auto& left) { return left.at(choose(left.size())); }, nullptr}, nats);
}

std::string Grammar::tell(const std::string& start, const Telling& how, double& nats) const {
  Teller teller{*this, how, nats};
  teller.tell({{.kind = GrammarSymbol::pick, .text = start}});
  return teller.text;
}

std::vector<double> Grammar::read(const std::string& start, std::string_view text, size_t* readable) const {
  GrammarReader reader{*this, text};
  const GrammarSymbol whole{.kind = GrammarSymbol::pick, .text = start};
  reader.read({&whole, &whole + 1, nullptr}, 0, {}, 0);
  if (readable) *readable = reader.furthest;
  return reader.derivations;
}
