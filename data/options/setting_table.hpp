#pragma once
// Writes rows of options: one call for each option, by the kind of its value.

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "layers/config/enum_names.hpp"
#include "settings.hpp"
#include "values.hpp"

// The place of a member of a member.
constexpr auto in(auto outer, auto inner) {
  return [=](auto& o) -> auto& { return (o.*outer).*inner; };
}

// Collects the rows of a table. `place` says which variable a row sets: a member of Options, or in(a, b) for member b
// of its member a.
template <class Options>
class SettingTable {
 public:
  using Row = SettingOf<Options>;
  using Needs = std::vector<Condition<Options>>;
  std::vector<Row> rows;

  // The group of the rows that follow, a heading of the help. "" keeps them out of the help.
  void group(const std::string& name) { group_ = name; }

  template <class Place>
  Row& text(const std::string& name, Place place, const std::string& takes, const std::string& help,
            const Traits& traits = {}, const Needs& needs = {}) {
    return add(name, takes, help, traits, needs, place,
               [](auto& variable, const std::string& text) { variable = text; });
  }

  // The choices of a name.
  template <class Place>
  Row& named(const std::string& name, Place place, const std::vector<std::string>& choices, const std::string& help,
            const Traits& traits = {}) {
    Row& row = text(name, place, "NAME", help, traits);
    row.choices = choices;
    return row;
  }

  template <class Place>
  Row& list(const std::string& name, Place place, const std::string& takes, const std::string& help,
            const Traits& traits = {}, const Needs& needs = {}) {
    Row& row = add(name, takes, help, traits, needs, place,
                   [](auto& variable, const std::string& text) { variable.push_back(text); });
    row.list = true;
    return row;
  }

  template <class Place>
  Row& flag(const std::string& name, Place place, const std::string& help, const Traits& traits = {},
            const Needs& needs = {}) {
    return add(name, "", help, traits, needs, place,
               [name](auto& variable, const std::string& text) { variable = parse_bool(name, text); });
  }

  template <class Place>
  Row& number(const std::string& name, Place place, double low, double high, const std::string& help,
              const Traits& traits = {}, const Needs& needs = {}) {
    using T = std::remove_cvref_t<std::invoke_result_t<Place, Options&>>;
    constexpr bool whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<int>> ||
                           std::is_same_v<T, std::optional<int64_t>>;
    return add(name, whole ? "N" : "X", help, traits, needs, place, [=](T& variable, const std::string& text) {
      variable = static_cast<T>(parse_number(name, text, low, high, whole));
    });
  }

  template <class Place, class E, size_t N>
  Row& choice(const std::string& name, const Named<E> (&names)[N], Place place, const std::string& help,
              const Traits& traits = {}, const Needs& needs = {}) {
    const auto set = [place, &names, name](Options& o, const std::string& text) {
      std::invoke(place, o) = value_of(names, name, text);
    };
    const auto value = [place, &names](const Options& o) {
      const std::optional<E> x = std::invoke(place, o);
      return x ? toml(std::string(name_of(names, *x))) : "";
    };
    Row& row = computed(name, "NAME", help, traits, needs, set, value);
    row.choices = names_of(names);
    return row;
  }

  // A row that does not follow from one variable.
  Row& computed(const std::string& name, const std::string& takes, const std::string& help, const Traits& traits,
           const Needs& needs, const std::function<void(Options&, const std::string&)>& set,
           const std::function<std::string(const Options&)>& value) {
    Row& row = rows.emplace_back();
    static_cast<Traits&>(row) = traits;
    row.name = name;
    row.group = group_;
    row.help = help;
    row.takes = takes;
    row.set = set;
    row.value = value;
    row.needs = needs;
    row.shown = value(Options());
    row.open_by_default = row.shown.empty();
    std::erase(row.shown, '"');
    if (takes.empty()) row.shown = row.shown == "true" ? "on" : "";
    if (row.shown == "[]") row.shown = "";
    return row;
  }

  // The rows of options that are a member of these.
  template <class Inner>
  void add(Inner Options::*member, const std::vector<SettingOf<Inner>>& inner) {
    for (const SettingOf<Inner>& s : inner) {
      Row& row = rows.emplace_back();
      static_cast<Setting&>(row) = s;
      row.set = [member, set = s.set](Options& o, const std::string& text) { set(o.*member, text); };
      row.value = [member, value = s.value](const Options& o) { return value(o.*member); };
      for (const Condition<Inner>& need : s.needs)
        row.needs.push_back({[member, met = need.met](const Options& o) { return met && met(o.*member); },
                             need.acts_on, need.otherwise, need.of_words});
    }
  }

 private:
  template <class Place, class Parse>
  Row& add(const std::string& name, const std::string& takes, const std::string& help, const Traits& traits,
           const Needs& needs, Place place, Parse parse) {
    return computed(name, takes, help, traits, needs,
                    [=](Options& o, const std::string& text) { parse(std::invoke(place, o), text); },
                    [=](const Options& o) { return toml(std::invoke(place, o)); });
  }

  std::string group_ = "Options";
};

// The rows of a function that adds them to a table.
template <class Options>
std::vector<SettingOf<Options>> rows_of(void (*describe)(SettingTable<Options>&)) {
  SettingTable<Options> t;
  describe(t);
  return t.rows;
}
