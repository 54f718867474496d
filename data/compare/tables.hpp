#pragma once
// The output of a comparison: curves.csv, runs.csv, summary.csv, diagnostics.csv, and the table on the terminal.
// README.md describes the columns.

#include <string>

#include "summary.hpp"

// Returns "runs train on 12800 to 51200 tokens: ..." if the numbers differ, else "".
std::string unequal_tokens(const Comparison& comparison);

void write_tables(const Comparison& comparison);  // into its directory
void print_table(const Comparison& comparison);
void print_json_summary(const Comparison& comparison);  // prints the rows of summary.csv with json_line()
