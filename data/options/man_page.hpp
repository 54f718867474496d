#pragma once
// The manual page, generated from the commands and the table of options.

#include <string>

// The page as roff with the man macros, in ASCII.
std::string man_page();
