#pragma once
// The output of a comparison: curves.csv, runs.csv, summary.csv, diagnostics.csv, and the table on the terminal. The
// columns are described in data/compare/README.md.

#include <string>

#include "summary.hpp"

// "runs train on 12800 to 51200 tokens: ..." if their numbers differ, else "".
std::string unequal_tokens(const Comparison& comparison);

void write_tables(const Comparison& comparison, const std::string& directory);
void print_table(const Comparison& comparison);
