// Weights that torch.save wrote (python_ref/pytorch_fixtures.py), and files that are damaged or hold more than tensors.

#include <cmath>
#include <cstring>
#include <filesystem>

#include "check.hpp"
#include "data/files/files.hpp"
#include "data/formats/float_types.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/pytorch/pytorch_file.hpp"
#include "data/formats/pytorch/unpickle.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kFiles = "test/pytorch/";

std::vector<float> values_of(const HeldTensor& tensor) {
  std::vector<float> values(tensor.size());
  tensor.read(values.data());
  return values;
}

Model loaded(const std::string& folder) {
  const auto from = open_huggingface(folder);
  Model model(from->config(), false);
  from->load(model);
  return model;
}

// CHECKs that every weight is that of the folder in test/huggingface, rounded.
void check_weights(const Model& model, const std::string& name, float (*rounded)(float)) {
  const Model want = loaded("test/huggingface/" + name);
  REQUIRE(model.floats == want.floats);
  for (size_t i = 0; i < want.floats; ++i)
    if (model.weights[i] != rounded(want.weights[i])) FAIL(i << ": " << model.weights[i]);
}

// ---- files made by hand ----------------------------------------------------------------------------------

template <class T>
std::string bytes_of(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct Entry {
  std::string name, bytes;
  uint16_t method = 0, flags = 0;
};

std::string zip_of(const std::vector<Entry>& entries) {
  std::string file, directory;
  const auto sizes = [](const Entry& e) {
    const auto size = static_cast<uint32_t>(e.bytes.size());
    return bytes_of(uint32_t{0}) + bytes_of(size) + bytes_of(size) + bytes_of(static_cast<uint16_t>(e.name.size()));
  };
  for (const Entry& e : entries) {
    const std::string common = bytes_of(e.flags) + bytes_of(e.method) + std::string(4, '\0') + sizes(e);
    directory += "PK\x01\x02" + std::string(4, '\0') + common + std::string(12, '\0') +
                 bytes_of(static_cast<uint32_t>(file.size())) + e.name;
    file += "PK\x03\x04" + std::string(2, '\0') + common + std::string(2, '\0') + e.name + e.bytes;
  }
  const auto count = static_cast<uint16_t>(entries.size());
  return file + directory + "PK\x05\x06" + std::string(4, '\0') + bytes_of(count) + bytes_of(count) +
         bytes_of(static_cast<uint32_t>(directory.size())) + bytes_of(static_cast<uint32_t>(file.size())) +
         std::string(2, '\0');
}

std::string text_of(const std::string& text) { return "X" + bytes_of(static_cast<uint32_t>(text.size())) + text; }

std::string number_of(int32_t x) { return "J" + bytes_of(x); }

std::string tuple_of(const std::vector<int32_t>& numbers) {
  std::string bytes = "(";
  for (const int32_t x : numbers) bytes += number_of(x);
  return bytes + "t";
}

// torch._utils._rebuild_tensor_v2 with a storage of float32.
std::string tensor_of(int32_t offset, const std::vector<int32_t>& shape, const std::vector<int32_t>& stride,
                      const std::string& type = "FloatStorage", const std::string& storage = "0") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text_of("storage") + "ctorch\n" + type + "\n" + text_of(storage) +
         text_of("cpu") + number_of(4) + "tQ" + number_of(offset) + tuple_of(shape) + tuple_of(stride) + "\x89NtR";
}

std::string dict_of(const std::string& name, const std::string& value) {
  return "\x80\x02}(" + text_of(name) + value + "u.";
}

std::string file_of(const std::string& pickle, size_t numbers = 4) {
  return zip_of({{"x/data.pkl", pickle}, {"x/data/0", std::string(4 * numbers, '\0')}});
}

std::string refusal(const std::string& bytes) {
  const Folder f;
  f.write("x.bin", bytes);
  const std::string message = message_of<std::runtime_error>([&] {
    for (const auto& [name, tensor] : read_pytorch_file(f.path("x.bin"))) values_of(tensor);
  });
  CHECK(count_lines(message) == 0);
  return message.starts_with(f.path("x.bin")) ? message.substr(f.path("x.bin").size()) : "NO FILE: " + message;
}

std::string pickle_refusal(const std::string& pickle) {
  return message_of<std::runtime_error>([&] { unpickle_tensors(pickle); });
}

}  // namespace

TEST_CASE("tensors with strides and shared storages are read as PyTorch has them", "[pytorch]") {
  const HeldTensors held = read_pytorch_file(kFiles + "views.bin");
  int compared = 0;
  for (const auto& [name, tensor] : held) {
    if (name.ends_with(".want")) continue;
    INFO(name);
    const HeldTensor& want = held.at(name + ".want");
    CHECK(tensor.shape == want.shape);
    CHECK(same_bits(values_of(tensor), values_of(want)));
    ++compared;
  }
  CHECK(compared == 13);
  CHECK(values_of(held.at("every third"))[2] == std::pow(7.f, 1.5f));
}

TEST_CASE("a folder with pytorch_model.bin is a model", "[pytorch]") {
  const Folder f;
  fs::copy("test/huggingface/gpt2/config.json", f.path("config.json"));
  fs::copy(kFiles + "gpt2-f16.bin", f.path("pytorch_model.bin"));
  check_weights(loaded(f.path(".")), "gpt2", [](float x) { return float_of_half(half_of_float(x)); });
  fs::copy("test/huggingface/gpt2/model.safetensors", f.path("model.safetensors"));  // is read instead
  check_weights(loaded(f.path(".")), "gpt2", [](float x) { return x; });
}

TEST_CASE("a folder with pytorch_model.bin in parts is a model", "[pytorch]") {
  const Folder f;
  fs::copy("test/huggingface/llama/config.json", f.path("config.json"));
  const std::string index = read_file(kFiles + "llama-bf16.json");
  f.write("pytorch_model.bin.index.json", index);
  for (const char* name : {"llama-bf16-1.bin", "llama-bf16-2.bin"}) fs::copy(kFiles + name, f.path(name));
  check_weights(loaded(f.path(".")), "llama", [](float x) { return float_of_bfloat16(bfloat16_of_float(x)); });
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = index;
    f.write("pytorch_model.bin.index.json", changed.replace(changed.find(from), from.size(), to));
    return message_of<std::runtime_error>([&] { loaded(f.path(".")); });
  };
  CHECK(contains(refused("\"lm_head.weight\": \"llama-bf16-1.bin\"", "\"lm_head.weight\": \"llama-bf16-2.bin\""),
                 "'lm_head.weight' is in " + f.path("./llama-bf16-1.bin") + ", which it does not say"));
  CHECK(contains(refused("\"lm_head.weight\"", "\"more\": \"llama-bf16-1.bin\", \"lm_head.weight\""),
                 "it lists tensors that its files do not hold"));
  CHECK(contains(refused("llama-bf16-1.bin", "../llama.bin"), "is not in a file of this folder"));
}

TEST_CASE("the program reads pytorch_model.bin", "[pytorch]") {
  const Corpus f;
  fs::create_directory(f.path("old"));
  REQUIRE(f.run("train stories.txt --preset gpt2 --steps 1 --out run" + kTiny).status == 0);
  REQUIRE(f.run("export run --to hf --out old --force").status == 0);
  fs::remove(f.path("old/model.safetensors"));
  fs::copy(kFiles + "gpt2-f16.bin", f.path("old/pytorch_model.bin"));
  check_refused(f, "eval old --data stories.txt", "old/pytorch_model.bin: 'transformer.");
  f.write("old/pytorch_model.bin", "\x80\x02" + std::string(99, '\0'));
  check_refused(f, "eval old --data stories.txt", "old/pytorch_model.bin is a PyTorch file of before version 1.6: "
                                                "convert it with python3 -c 'import sys, torch; f = sys.argv[1]; ");
  f.write("old/pytorch_model.bin", file_of(dict_of("x", "cposix\nsystem\n")));
  check_refused(f, "train stories.txt --init-from old", "old/pytorch_model.bin cannot be used: its pickle names "
                                                        "'posix.system', which no dict of tensors needs");
}

TEST_CASE("a pickle may name tensors alone", "[pytorch]") {
  const auto tensors = unpickle_tensors(dict_of("w", tensor_of(1, {2, 1}, {1, 1})));
  REQUIRE(tensors.size() == 1);
  CHECK(tensors.at("w").storage == "0");
  CHECK(tensors.at("w").type == "FloatStorage");
  CHECK(tensors.at("w").offset == 1);
  CHECK(tensors.at("w").shape == std::vector<uint64_t>{2, 1});
  struct Case {
    std::string pickle, message;
  };
  const std::vector<Case> cases = {
      {dict_of("w", "cposix\nsystem\n(" + text_of("id") + "tR"),
       "its pickle names 'posix.system', which no dict of tensors needs: train_gpt calls nothing in a pickle"},
      {dict_of("w", "cbuiltins\neval\n"), "names 'builtins.eval'"},
      {dict_of("w", "ctorch.evil\nxStorage\n)R"), "calls what is no function"},
      {dict_of("w", text_of("a") + text_of("b") + "\x93"), "names 'a.b'"},
      {dict_of("w", "i"), "has the instruction 0x69, which no dict of tensors needs"},
      {dict_of("w", "\x81"), "has the instruction 0x81"},
      {dict_of("w", "\x8a\x09" + std::string(9, '\1')), "has a number of more than 64 bits"},
      {dict_of("w", "K\x05"), "has 'w', which is no tensor"},
      {dict_of("w", tensor_of(-1, {1}, {1})), "has a tensor without a storage"},
      {dict_of("w", tensor_of(0, {-1}, {1})), "has a shape that no tensor has"},
      {dict_of("w", tensor_of(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1})), "has a shape that no tensor has"},
      {dict_of("w", tensor_of(0, {1}, {1, 1})), "has a tensor with other strides than dimensions"},
      {dict_of("w", "ctorch._utils\n_rebuild_parameter\n(NtR"), "has a parameter without a tensor"},
      {dict_of("w", "ccollections\nOrderedDict\n(Nt" "R"), "calls collections.OrderedDict with arguments"},
      {"\x80\x02K\x01.", "is no dict of tensors"},
      {"\x80\x02}(K\x01K\x02u.", "is no dict of tensors with names"},
      {"\x80\x02}(K\x01u.", "adds to what holds nothing"},
      {"\x80\x02.", "takes a value that is not there"},
      {"\x80\x02h\x07.", "takes a value that is not there"},
      {"\x80\x02(.", "takes a value that is not there"},
      {"\x80\x02K\x01" "a.", "adds to what holds nothing"},
      {"\x80\x02]K\x01K\x02s.", "adds to what holds nothing"},
      {"\x80\x02X\xff\xff\xff\x7f" "abc", "is cut short"},
      {"\x80\x02" "cposix", "is cut short"},
      {"\x80\x02", "is cut short"},
      {"\x80\x02" + std::string(300000, 'N'), "has more than 262,144 values"},
  };
  for (const Case& one : cases) {
    const std::string message = pickle_refusal(one.pickle);
    INFO(message << " for " << one.message);
    CHECK(message.starts_with("its pickle "));
    CHECK(contains(message, one.message));
  }
  const std::string twice = dict_of("w", tensor_of(0, {1}, {1}) + text_of("w") + tensor_of(0, {1}, {1}));
  CHECK(pickle_refusal(twice) == "its pickle has 'w' twice");
  CHECK(pickle_refusal("\x80\x02}q\x01(" + text_of("w") + "h\x01u.") == "its pickle has 'w', which is no tensor");
}

TEST_CASE("views that leave their storage are refused", "[pytorch]") {
  const auto refused = [](int32_t offset, const std::vector<int32_t>& shape, const std::vector<int32_t>& stride) {
    return refusal(file_of(dict_of("w", tensor_of(offset, shape, stride)), 6));
  };
  const std::string more = " cannot be used: 'w' needs more numbers than its storage has";
  CHECK(refused(0, {6}, {1}) == "NO FILE: ");
  CHECK(refused(2, {2, 2}, {1, 2}) == "NO FILE: ");
  CHECK(refused(9, {0}, {1}) == "NO FILE: ");
  CHECK(refused(1, {6}, {1}) == more);
  CHECK(refused(0, {2, 2}, {5, 1}) == more);
  CHECK(refused(6, {}, {}) == more);
  CHECK(refused(0, {7}, {0}) == more);
  CHECK(refused(0, {1 << 30, 1 << 30, 1 << 30}, {0, 0, 0}) == more);
  CHECK(refused(0, {2, 2}, {1 << 30, 1 << 30}) == more);
  CHECK(refusal(file_of(dict_of("w", tensor_of(0, {1}, {1}, "FloatStorage", "7")))) ==
        " cannot be used: 'w' has a storage that is missing");
  CHECK(refusal(file_of(dict_of("w", tensor_of(0, {1}, {1}, "OddStorage")))) ==
        " cannot be used: 'w' has the unknown 'OddStorage'");
  CHECK(refusal(file_of(dict_of("w", tensor_of(0, {1}, {1}, "LongStorage")))) ==
        ": 'w' has a LongStorage; train_gpt reads FloatStorage, HalfStorage and BFloat16Storage");
  std::string many = "\x80\x02}(";
  for (const char* name : {"a", "b", "c"}) many += text_of(name) + tensor_of(0, {4}, {1});
  CHECK(contains(refusal(file_of(many + "u.")), "its tensors need more than twice the numbers that it holds"));
}

TEST_CASE("a damaged zip file is refused in one line", "[pytorch]") {
  const std::string pickle = dict_of("w", tensor_of(0, {4}, {1})), good = file_of(pickle);
  CHECK(refusal(good) == "NO FILE: ");
  for (size_t size = 0; size < good.size(); ++size) {
    INFO(size);
    CHECK(!refusal(good.substr(0, size)).starts_with("NO FILE"));
  }
  for (size_t at = 4; at < good.size(); ++at)  // accepted or not, but never a crash
    for (const char byte : {'\xff', '\x7f', '\0'}) refusal(std::string(good).replace(at, 1, 1, byte));
  const std::string numbers(16, '\0');
  CHECK(contains(refusal(zip_of({{"x/data.pkl", pickle}, {"x/data/0", numbers, 8}})),
                 "its entry 'x/data/0' is compressed or encrypted"));
  CHECK(contains(refusal(zip_of({{"x/data.pkl", pickle}, {"x/data/0", numbers, 0, 1}})), "is compressed or encrypted"));
  CHECK(refusal(zip_of({{"x/data/0", numbers}})) == " cannot be used: it has no data.pkl, as torch.save() writes it");
  CHECK(contains(refusal(zip_of({{"x/data.pkl", pickle}, {"x/data.pkl", pickle}})), "holds 'x/data.pkl' twice"));
  CHECK(contains(refusal(zip_of({{"x/data.pkl", pickle}, {"x/data/0", numbers}, {"x/byteorder", "big"}})),
                 "its numbers are for big-endian processors"));
  CHECK(refusal(zip_of({{"x/data.pkl", pickle}, {"x/data/0", numbers}, {"x/byteorder", "little"}})) == "NO FILE: ");
  CHECK(refusal("hello, world") == " is no file of torch.save()");
}
