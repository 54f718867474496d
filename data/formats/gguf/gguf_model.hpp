#pragma once
// Reads GGUF files, llama.cpp's file format (gguf.hpp has the layout). Quantized weights become floats.

#include <memory>
#include <string>

#include "data/formats/foreign_model.hpp"

// Throws std::runtime_error if the file is damaged, or train_gpt does not have its model or its number formats.
std::unique_ptr<ForeignModel> open_gguf(const std::string& path);
