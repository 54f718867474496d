#pragma once
// Hashes of what the kernels compute, to compare WebAssembly with the native program.

#include <string>

// A line for each kernel: its name, "exact" or "libm", and a hash of its output for pseudo-random inputs. "libm" says
// that a function of the C library is involved, which may round differently.
std::string kernel_hashes();
