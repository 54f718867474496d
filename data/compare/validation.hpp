#pragma once
// The tokens on which a run is validated. Only losses on the same tokens can be compared.

#include <cstdint>
#include <string>
#include <tuple>

#include "data/options/options.hpp"
#include "data/text/dataset.hpp"

// The options that decide which tokens a run reads and on which it is validated, of those that --grid and --tune take:
// --init-from, --data-limit, --context, --objective, --mask-fraction, and --batch with --final-batches.
using Reading = std::tuple<std::string, int64_t, int, Objective, double, int>;
Reading reading_of(const TrainOptions& options);

// Loads the text of a run in the comparison directory `out`. Throws as load_dataset() does.
Dataset load_text(TrainOptions options, const std::string& out);

// Hashes the places of the tokens that count in a run's final loss, and how they are hidden.
uint64_t hash_validation(const TrainOptions& options, const Dataset& data);
