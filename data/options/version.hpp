#pragma once
// What --version prints: commit, compiler, OpenMP, SIMD.

#include <string>

std::string version_text();
