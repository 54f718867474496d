#include "notes.hpp"

#include <cstdio>
#include <mutex>
#include <set>

#include "utf8.hpp"

void print_note(const std::string& note) { std::fprintf(stderr, "NOTE: %s\n", one_line(note).c_str()); }

void print_note_once(const std::string& note) {
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (printed.insert(note).second) print_note(note);
}
