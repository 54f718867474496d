#pragma once
// init-report --widths, --depths: trains models of several sizes for a few steps, and prints how the changes of their
// activations depend on the size (layers/training/coordinates.hpp).

#include "data/options/options.hpp"

void check_coordinates(const Command& command);
