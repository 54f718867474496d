#pragma once
// The text of --version: commit, compiler, OpenMP, SIMD.

#include <string>

std::string version_text();
