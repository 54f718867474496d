#pragma once
// The sub-command corpus: writes stories, or checks some.

#include "data/options/options.hpp"

void run_corpus(const CorpusOptions& options);
