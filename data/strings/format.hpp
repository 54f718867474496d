#pragma once
// Numbers, durations and command lines as text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

std::string format(const char* printf_format, double value);
std::string format_bytes(size_t bytes);                          // "84 MB"
std::string format_count(double n);                              // "3,600,000"
std::string counted(double n, const std::string& noun);          // "1 layer", "3,600 layers"
std::string format_short(double n);                              // "3.6 M"
std::string format_seconds(double seconds);                      // "1 min 5 s", "2 h 3 min"
std::string format_hash(uint64_t hash);                          // 16 hexadecimal digits
size_t columns_of(const std::string& utf8);                      // characters, not bytes
std::string padded(const std::string& utf8, size_t columns);     // with spaces after it
std::string shell_words(const std::vector<std::string>& words);  // joined by spaces, quoted for a shell

// Lays out a table: the first `left` columns are text, aligned left; the others are numbers, aligned right. Leaves
// empty columns out.
std::string aligned(const std::vector<std::vector<std::string>>& rows, size_t left);
