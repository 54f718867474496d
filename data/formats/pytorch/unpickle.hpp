#pragma once
// Reads the pickle that torch.save() writes for a dict of tensors, and nothing else. A pickle is a program for a stack
// machine that may call any Python function. Here an instruction or a name that is not in a short list is refused, and
// none of the functions is called: their arguments say what the tensors are.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// A view of a storage. Element (i, j, ...) is number offset + i·stride[0] + j·stride[1] + ... of the storage.
struct PickledTensor {
  std::string storage, type;  // "0", "FloatStorage"
  uint64_t offset = 0;
  std::vector<uint64_t> shape, stride;
};

// Returns the tensors by name. Throws std::runtime_error, without a file name, that names what is refused.
std::map<std::string, PickledTensor> unpickle_tensors(std::string_view bytes);
