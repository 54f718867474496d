#pragma once
// The checks of pages. Each returns what is wrong with a page.

#include <string>
#include <vector>

#include "markdown.hpp"
#include "tree.hpp"

namespace pages {

using Complaints = std::vector<std::string>;  // "layers/norm/norm.md:12: ..."

Complaints wrong_links(const Page& page, const Tree& tree);     // to files, pictures and headings
Complaints wrong_names(const Page& page, const Tree& tree);     // in backticks
Complaints wrong_commands(const Page& page, const Tree& tree);  // in code blocks
Complaints wrong_tests(const Page& page, const Tree& tree);     // test cases quoted with their file
Complaints wrong_formulas(const Page& page);
Complaints wrong_tables(const Page& page);
Complaints unnamed_measurements(const Page& page, const Tree& tree);
Complaints wrong_form_of_layer(const Page& page);
Complaints untested_examples(const Page& page, const Tree& tree);

// True for the page of a layer: one that lists its textbook.
bool is_layer(const Page& page);

}  // namespace pages
