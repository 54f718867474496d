#pragma once
// The text of an option's value, read.

#include <optional>
#include <string>

// Returns a number within limits, which are included; "1e3", "1_000" and "1k" are whole numbers, "10%" is a fraction.
// NaN is outside all limits. Throws std::invalid_argument "--lr x is not a number: choose 0 to 1e6", and with a unit
// "--warmup 150% is outside the range: choose 0% to 100%".
double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole,
                    const std::string& unit = "");

// Returns whether the word means yes (true, yes, on, 1) or no (false, no, off, 0); nothing if it is another word.
std::optional<bool> truth_of(std::string word);
// Throws std::invalid_argument if truth_of() returns nothing.
bool parse_bool(const std::string& name, const std::string& text);
