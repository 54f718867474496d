#include "pytorch_file.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>

#include "data/files/foreign_files.hpp"
#include "data/formats/float_types.hpp"
#include "data/formats/shard_index.hpp"
#include "data/strings/utf8.hpp"
#include "stored_zip.hpp"
#include "unpickle.hpp"

namespace {

constexpr uint64_t kLongestPickle = 1 << 26;  // bytes
constexpr const char *kWeights = "/pytorch_model.bin", *kIndex = "/pytorch_model.bin.index.json";
constexpr const char* kPickle = "/data.pkl";

struct StorageType {
  const char* name;
  uint64_t bytes;
  float (*convert)(const unsigned char* from) = nullptr;  // null if train_gpt does not read such numbers
  const char* dtype = "";
};

float of_float(const unsigned char* from) {
  float x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <float (*convert)(uint16_t)>
float of_16_bits(const unsigned char* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return convert(bits);
}

constexpr StorageType kTypes[] = {
    {"FloatStorage", 4, of_float, "f32"},
    {"HalfStorage", 2, of_16_bits<float_of_half>, "f16"},
    {"BFloat16Storage", 2, of_16_bits<float_of_bfloat16>, "bf16"},
    {"DoubleStorage", 8}, {"LongStorage", 8}, {"IntStorage", 4}, {"ShortStorage", 2},
    {"CharStorage", 1},   {"ByteStorage", 1}, {"BoolStorage", 1},
};

// A tensor and where its storage is in the file.
struct PlacedTensor : PickledTensor {
  const StorageType* numbers = nullptr;
  uint64_t begin = 0;  // bytes, from the start of the file
  uint64_t count = 1;  // elements
  uint64_t span = 0;   // numbers of the storage from the first element to the last
};

// Checks the tensor against a storage of so many numbers.
void measure(PlacedTensor& t, const std::string& name, uint64_t stored) {
  const auto fail = [&] { throw std::runtime_error(in_quotes(name) + " needs more numbers than its storage has"); };
  uint64_t last = t.offset;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const uint64_t d = t.shape[i];
    if (d > 0 && t.count > stored / d) fail();
    t.count *= d;
    if (d > 1 && t.stride[i] > stored / (d - 1)) fail();
    if (d > 1) last += t.stride[i] * (d - 1);
  }
  if (t.count > 0 && last >= stored) fail();
  t.span = t.count > 0 ? last - t.offset + 1 : 0;
}

// Calls f(index in the storage) for each element in row-major order.
template <class F>
void for_each_place(const PlacedTensor& t, F f) {
  std::vector<uint64_t> index(t.shape.size());
  uint64_t place = 0;
  for (uint64_t n = 0; n < t.count; ++n) {
    f(place);
    for (size_t i = index.size(); i-- > 0;) {
      place += t.stride[i];
      if (++index[i] < t.shape[i]) break;
      place -= t.stride[i] * t.shape[i];
      index[i] = 0;
    }
  }
}

void read_tensor(float* to, const InputFile& file, const PlacedTensor& t, const std::string& name) {
  if (!t.numbers->convert)
    file.fail(": " + in_quotes(name) + " has a " + t.type + "; train_gpt reads FloatStorage, HalfStorage and "
                                                            "BFloat16Storage");
  std::vector<unsigned char> bytes(t.span * t.numbers->bytes);
  file.read(bytes.data(), bytes.size(), t.begin + t.offset * t.numbers->bytes);
  for_each_place(t, [&](uint64_t place) { *to++ = t.numbers->convert(&bytes[place * t.numbers->bytes]); });
}

std::string text_of(const InputFile& file, const ZipEntry& entry, uint64_t most) {
  if (entry.size > most) throw std::runtime_error("one of its entries is too long");
  std::string text(entry.size, '\0');
  file.read(text.data(), entry.size, entry.begin);
  return text;
}

std::map<std::string, PlacedTensor> tensors_in(const InputFile& file, const std::map<std::string, ZipEntry>& entries) {
  const auto pickle =
      std::find_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.first.ends_with(kPickle); });
  if (pickle == entries.end()) throw std::runtime_error("it has no data.pkl, as torch.save() writes it");
  const std::string folder = pickle->first.substr(0, pickle->first.size() - std::string(kPickle).size());
  const auto order = entries.find(folder + "/byteorder");
  if (order != entries.end() && text_of(file, order->second, 16) != "little")
    throw std::runtime_error("its numbers are for big-endian processors");
  std::map<std::string, PlacedTensor> tensors;
  std::set<std::string> storages;
  uint64_t stored = 0, needed = 0;
  for (const auto& [name, pickled] : unpickle_tensors(text_of(file, pickle->second, kLongestPickle))) {
    PlacedTensor& t = tensors[name];
    static_cast<PickledTensor&>(t) = pickled;
    const auto type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& row) { return t.type == row.name; });
    if (type == std::end(kTypes)) throw std::runtime_error(in_quotes(name) + " has the unknown " + in_quotes(t.type));
    const auto entry = entries.find(folder + "/data/" + t.storage);
    if (entry == entries.end()) throw std::runtime_error(in_quotes(name) + " has a storage that is missing");
    t.numbers = type;
    t.begin = entry->second.begin;
    measure(t, name, entry->second.size / type->bytes);
    needed += t.count * type->bytes;
    if (storages.insert(t.storage).second) stored += entry->second.size;
  }
  // Tied matrices share a storage. More sharing would let a small file ask for a lot of memory.
  if (needed > 2 * stored) throw std::runtime_error("its tensors need more than twice the numbers that it holds");
  return tensors;
}

}  // namespace

bool has_pytorch_weights(const std::string& folder) {
  return std::filesystem::is_regular_file(folder + kWeights) || std::filesystem::is_regular_file(folder + kIndex);
}

HeldTensors read_pytorch_file(const std::string& path) {
  const auto file = std::make_shared<const InputFile>(path);
  if (const std::string start = start_of_file(path); !start.starts_with("PK"))
    file->fail(" " + (foreign_model(start).empty() ? "is no file of torch.save()" : foreign_model(start)));
  const auto entries = entries_of_zip(*file);
  HeldTensors held;
  for (const auto& [name, tensor] : explained(path + " cannot be used: ", [&] { return tensors_in(*file, entries); }))
    held[name] = {path, tensor.shape, [file, name = name, tensor = tensor](float* to) {
                    read_tensor(to, *file, tensor, name);
                  }, tensor.numbers->dtype};
  return held;
}

HeldTensors read_pytorch_folder(const std::string& folder) {
  if (std::filesystem::exists(folder + kWeights)) return read_pytorch_file(folder + kWeights);
  const ShardIndex index(folder, kIndex + 1);
  HeldTensors held;
  for (const std::string& name : index.files())
    for (auto& [tensor, numbers] : read_pytorch_file(folder + "/" + name)) {
      index.require(tensor, name);
      held[tensor] = std::move(numbers);
    }
  index.require_all(held.size());
  return held;
}
