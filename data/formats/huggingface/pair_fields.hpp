#pragma once
// The same as class_fields.hpp, for the classes with an encoder and a decoder: T5 and BART, and their relatives.

#include "config_keys.hpp"

extern const ConfigFields kBartFields, kMarianFields, kMbartFields, kMt5Fields, kPegasusFields, kT5Fields;
