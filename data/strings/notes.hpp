#pragma once
// Notes: one line for the user about what the program did with the input, where nothing is wrong.

#include <string>

// Prints "NOTE: ..." to standard error.
void print_note(const std::string& note);

// The same, but each text once: a tokenizer may be read several times.
void print_note_once(const std::string& note);
