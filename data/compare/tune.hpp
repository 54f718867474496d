#pragma once
// The first stage of a comparison: each cell's own best value.

#include "study.hpp"

// Every value of --tune with every cell on one seed, and further ones beyond the edge where the best lies there; then
// each cell knows its own.
void tune(Study& study);
