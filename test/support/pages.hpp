#pragma once
// The checks of pages. Each returns what is wrong with a page.

#include <string>
#include <vector>

#include "markdown.hpp"
#include "tree.hpp"

namespace pages {

using Complaints = std::vector<std::string>;  // "layers/norm/norm.md:12: ..."

Complaints wrong_names(const Page& page, const Tree& tree);     // in backticks
Complaints wrong_commands(const Page& page, const Tree& tree);  // in code blocks

}  // namespace pages
