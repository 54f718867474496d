#include "tensor_places.hpp"

TensorPlaces places_in(const std::vector<TensorSpec>& table, float* buffer) {
  TensorPlaces places;
  for (const TensorSpec& spec : table) places[spec.name] = {spec, buffer};
  return places;
}

const TensorSpec* first_non_finite(const TensorPlaces& places) {
  for (const auto& [name, place] : places)
    if (first_non_finite({place.spec}, place.buffer)) return &place.spec;
  return nullptr;
}
