#pragma once
// Checkpoints of versions 1 and 2, which are only read:
//
//   "TRAINGPT"  u32 version  u32 length of the header
//   header      JSON, padded with spaces to a multiple of 64 bytes: settings, table of tensors, tokenizer, step, ...
//   weights     float32; the table has the offset of each tensor
//   state       float32; the optimizer's buffers, laid out like the weights. best.bin has none
//   checksum    u64 over everything before it
// All numbers are little-endian. Version 1 held the settings as TOML, under "options".

#include <memory>

#include "checkpoint_file.hpp"

bool is_old_checkpoint(const InputFile& file);

// Throws std::runtime_error in one line that names the file if it is truncated, corrupted or of a newer version.
CheckpointFile open_old_checkpoint(const std::shared_ptr<const InputFile>& file);
