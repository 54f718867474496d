#pragma once
// Which layers of a model have a feature, as text:
//
//   all, none
//   5 of 6           the first five of every six
//   last 1 of 2      the last one of every two
//   0,4,8            these, counted from 0

#include <string>
#include <vector>

// Throws std::invalid_argument with what is expected, if the text is none of these forms.
bool has_layer(const std::string& set, int layer);

// The first of these forms that describes the set; "N of M" with the smallest M.
std::string layer_set(const std::vector<bool>& has);

// The same for a model of this many layers.
std::string shortest_layer_set(const std::string& set, int n_layer);
