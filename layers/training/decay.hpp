#pragma once
// Decoupled weight decay within an update.

#include <type_traits>

#include "layers/kernels/simd.hpp"

// Returns weights multiplied by `keep`, minus `change`. Cautious decay (Chen et al. 2025, arXiv 2510.12402) does not
// decay weights that the change moves away from zero, which have change·w < 0.
template <bool cautious>
inline simd::Vec moved(simd::Vec w, simd::Vec change, float keep) {
  if constexpr (cautious) return (change * w >= 0.f ? keep * w : w) - change;
  else return keep * w - change;
}

// Calls f with std::true_type or std::false_type. If a loop tested `cautious` in every round, the compiler might make
// two versions of it that round differently.
template <class F>
inline void with_decay(bool cautious, F f) {
  if (cautious) f(std::true_type());
  else f(std::false_type());
}
