#pragma once
// Generates the manual page from the commands and the table of options.

#include <string>

// Returns the page as roff with the man macros, in ASCII.
std::string man_page();
