#pragma once
// The CSV files of a run.

#include <cstdint>
#include <string>
#include <vector>

// The header and the rows of `path` up to step `last_step`, in `columns`, of which the first is the step. A row that
// cannot be read is left out, and a note on standard error says so; the last may be torn. `words` are the columns that
// are no numbers; `once`: each step has one row.
std::string csv_up_to(const std::string& path, const std::vector<std::string>& columns, int64_t last_step,
                      const std::vector<std::string>& words, bool once);

// A number in a CSV file: nine significant digits, and nothing for NaN.
std::string csv_number(double x);

// The fields of a line of numbers and plain words, as metrics.csv and diagnostics.csv have them: nothing is quoted.
std::vector<std::string> csv_fields(const std::string& line);
