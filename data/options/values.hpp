#pragma once
// The text of an option's value, read.

#include <string>

// Returns a number within limits, which are included; "1e3", "1_000" and "1k" are whole numbers, "10%" is a fraction.
// NaN is outside all limits. Throws std::invalid_argument "--lr x is not a number: choose 0 to 1e6".
double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole);

// Throws std::invalid_argument unless the text is true, yes, on or 1, or their opposites.
bool parse_bool(const std::string& name, const std::string& text);
