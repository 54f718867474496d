#pragma once
// The sub-command corpus: writes stories or translations, or checks a text against their grammar.

#include "data/options/options.hpp"

void run_corpus(const CorpusOptions& options);
