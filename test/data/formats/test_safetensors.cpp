// safetensors: numbers, files, shards, and files that are damaged.

#include "data/formats/safetensors.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/json.hpp"
#include "message.hpp"
#include "program.hpp"

using nlohmann::json;

namespace {

// The bytes of a file with this header and so many bytes of data.
std::string bytes_of(const std::string& header, size_t data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::copy_n(reinterpret_cast<const char*>(&length), 8, bytes.data());
  return bytes + header + std::string(data, '\0');
}

json row(const char* type, std::vector<uint64_t> shape, uint64_t begin, uint64_t end) {
  return {{"dtype", type}, {"shape", std::move(shape)}, {"data_offsets", {begin, end}}};
}

std::string refusal(const Folder& f, const std::string& bytes) {
  f.write("x.safetensors", bytes);
  return message_of<std::runtime_error>([&] { StoredTensors file(f.path("x.safetensors")); });
}

// CHECKs that opening throws one line that names the file and contains `message`.
void check_damaged(const Folder& f, const std::string& bytes, const std::string& message) {
  const std::string got = refusal(f, bytes);
  INFO("wanted: " << message);
  INFO("got: " << got);
  CHECK(got.starts_with(f.path("x.safetensors")));
  CHECK(contains(got, message));
  CHECK(count_lines(got) == 0);
}

std::vector<float> values_of(const StoredTensors& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  REQUIRE(tensor);
  std::vector<float> values(tensor->size());
  file.read(values.data(), *tensor);
  return values;
}

NewTensor tensor(const std::string& name, std::vector<uint64_t> shape, std::vector<float> values) {
  return {name, std::move(shape), [values] { return values; }};
}

}  // namespace

TEST_CASE("half and bfloat16 become floats exactly", "[safetensors]") {
  for (int bits = 0; bits < 65536; ++bits) {
    const int sign = bits >> 15 ? -1 : 1;
    const auto same = [&](float got, int exponent_bits, int fraction_bits) {
      const int top = (1 << exponent_bits) - 1, bias = top / 2;
      const int exponent = bits >> fraction_bits & top, fraction = bits & ((1 << fraction_bits) - 1);
      if (exponent == top && fraction != 0) return std::isnan(got);
      const int whole = (exponent > 0 ? 1 << fraction_bits : 0) + fraction, power = std::max(exponent, 1) - bias;
      const double size = exponent == top ? std::numeric_limits<double>::infinity()
                                          : std::ldexp(whole, power - fraction_bits);
      return double(got) == sign * size && std::signbit(got) == (sign < 0);
    };
    const auto code = static_cast<uint16_t>(bits);
    if (!same(float_of_half(code), 5, 10)) FAIL_CHECK("half " << bits);
    if (!same(float_of_bfloat16(code), 8, 7)) FAIL_CHECK("bfloat16 " << bits);
  }
}

TEST_CASE("tensors come back with the same bits", "[safetensors]") {
  const Folder f;
  const float nan = std::bit_cast<float>(0x7fc12345u);
  const std::vector<float> odd = {0.f, -0.f, 1e-45f, nan, std::numeric_limits<float>::infinity(), -1.5f};
  const std::vector<NewTensor> tensors = {tensor("b", {2, 3}, odd), tensor("a", {}, {7}), tensor("none", {0, 4}, {})};
  write_safetensors(f.path("x.safetensors"), tensors, {{"format", "pt"}});
  const StoredTensors file(f.path("x.safetensors"));
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.all().size() == 3);
  CHECK(file.find("b")->shape == std::vector<uint64_t>{2, 3});
  CHECK(file.find("c") == nullptr);
  CHECK(values_of(file, "a") == std::vector<float>{7});
  CHECK(values_of(file, "none").empty());
  const std::vector<float> got = values_of(file, "b");
  for (size_t i = 0; i < odd.size(); ++i) CHECK(std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(odd[i]));
  const std::string bytes = f.read("x.safetensors");
  uint64_t length = 0;
  std::copy_n(bytes.data(), 8, reinterpret_cast<char*>(&length));
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 4 * (odd.size() + 1));
}

TEST_CASE("the data starts at a multiple of 8 bytes", "[safetensors]") {
  const Folder f;
  for (size_t n = 0; n < 8; ++n) {
    write_safetensors(f.path("x.safetensors"), {tensor("a", {}, {7})}, {{"name", std::string(n, 'x')}});
    uint64_t length = 0;
    const std::string bytes = f.read("x.safetensors");
    std::copy_n(bytes.data(), 8, reinterpret_cast<char*>(&length));
    CHECK(length % 8 == 0);
  }
}

TEST_CASE("half and bfloat16 tensors are read as floats", "[safetensors]") {
  const Folder f;
  const json header = {{"h", row("F16", {2}, 0, 4)}, {"w", row("BF16", {1, 2}, 4, 8)}, {"n", row("I64", {1}, 8, 16)}};
  std::string bytes = bytes_of(to_text(header), 16);
  const uint16_t codes[] = {0x3c00, 0xc000, 0x3f80, 0xc040};
  std::copy_n(reinterpret_cast<const char*>(codes), 8, bytes.end() - 16);
  f.write("x.safetensors", bytes);
  const StoredTensors file(f.path("x.safetensors"));
  CHECK(values_of(file, "h") == std::vector<float>{1, -2});
  CHECK(values_of(file, "w") == std::vector<float>{1, -3});
  CHECK(message_of<std::runtime_error>([&] { values_of(file, "n"); }) ==
        f.path("x.safetensors") + ": 'n' has dtype I64; train_gpt reads F32, F16 and BF16");
}

TEST_CASE("a file that is truncated anywhere is refused", "[safetensors]") {
  const Folder f;
  write_safetensors(f.path("whole"), {tensor("a", {2}, {1, 2}), tensor("b", {1}, {3})}, {{"format", "pt"}});
  const std::string whole = f.read("whole");
  for (size_t n = 0; n < whole.size(); ++n)
    check_damaged(f, whole.substr(0, n), n < 8                   ? "shorter than the length of a header"
                                         : n < whole.size() - 12 ? "shorter than its header"
                                                                 : "and the file has");
  check_damaged(f, whole + "x", "its tensors take 12 bytes, and the file has 13");
}

TEST_CASE("a header that lies is refused", "[safetensors]") {
  const Folder f;
  const std::string many = "18446744073709551615";
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {2}, 0, 8)}, {"b", row("F32", {2}, 4, 12)}}), 12),
                "overlaps");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {1}, 0, 4)}, {"b", row("F32", {1}, 8, 12)}}), 12),
                "after a gap");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {1}, 4, 8)}}), 8), "after a gap");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {2}, 8, 0)}}), 8), "do not fit its shape");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F16", {2}, 0, 8)}}), 8), "do not fit its shape");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F4", {2}, 0, 8)}}), 8), "unknown dtype 'F4'");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {1ull << 32, 1ull << 32}, 0, 0)}}), 0), "can be counted");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {1ull << 62}, 0, 0)}}), 0), "can be counted");
  check_damaged(f, bytes_of(to_text(json{{"a", row("F32", {1ull << 40}, 0, 1ull << 42)}}), 8), "and the file has 8");
  check_damaged(f, bytes_of(to_text(json{{"a", row("U8", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 1)}}), 1), "8 dimensions");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":[)" + many + R"(0],"data_offsets":[0,1]}})", 1), "not whole");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1), "a negative number");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), "not two numbers");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "lacks dtype, shape or data_offsets");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1), "a number in a wrong place");
  check_damaged(f, bytes_of(R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", 1), "a list in a wrong");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1), "twice");
  check_damaged(f, bytes_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1), "unknown field 'x'");
  const std::string one = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  check_damaged(f, bytes_of("{" + one + "," + one + "}", 1), "it holds 'a' twice");
  check_damaged(f, bytes_of(R"({"__metadata__":{"a":1}})", 0), "a number in a wrong place");
  check_damaged(f, bytes_of(R"({"__metadata__":{"a":{}}})", 0), "an object in a wrong place");
  check_damaged(f, bytes_of("[" + one + "]", 1), "it is no JSON object");
  check_damaged(f, bytes_of("{" + one, 1), "it is no JSON at byte");
  check_damaged(f, bytes_of("{\"a\xff\":1}", 1), "it is no JSON at byte");
  check_damaged(f, bytes_of("", 4), "it is no JSON object");
}

TEST_CASE("a header is not believed before it is checked", "[safetensors]") {
  const Folder f;
  check_damaged(f, std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "longer than 100 MB");
  std::string ten_gigabytes(16, '\0');
  ten_gigabytes[4] = 2;
  check_damaged(f, ten_gigabytes, "longer than 100 MB");
  for (const std::string opening : {"[", "{\"shape\":"}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += opening;
    check_damaged(f, bytes_of("{\"a\":" + deep, 0), " in a wrong place, at 'a'");
  }
  const auto open = [](const std::string& path) {
    return message_of<std::runtime_error>([&] { StoredTensors file(path); });
  };
  CHECK(contains(open(f.path("absent")), "cannot read " + f.path("absent")));
  CHECK(open("/dev/null") == "/dev/null is not a file");
}

TEST_CASE("a folder of shards is read as one", "[safetensors]") {
  const Folder f;
  write_safetensors(f.path("1.safetensors"), {tensor("a", {1}, {1})}, {});
  write_safetensors(f.path("2.safetensors"), {tensor("b", {1}, {2}), tensor("c", {1}, {3})}, {});
  const auto with_index = [&](const std::string& map) {
    f.write("model.safetensors.index.json", map);
    return message_of<std::runtime_error>([&] {
      const StoredTensors folder(f.path("."));
      CHECK(values_of(folder, "a")[0] + values_of(folder, "b")[0] + values_of(folder, "c")[0] == 6);
    });
  };
  const std::string a = R"("a":"1.safetensors")", b = R"("b":"2.safetensors")", c = R"("c":"2.safetensors")";
  CHECK(with_index("{\"weight_map\":{" + a + "," + b + "," + c + "}}") == "");
  CHECK(contains(with_index("{\"weight_map\":{" + a + "," + b + "}}"), "'c' is in"));
  CHECK(contains(with_index("{\"weight_map\":{" + a + "," + b + "," + c + R"(,"d":"1.safetensors"}})"), "lists"));
  CHECK(contains(with_index(R"({"weight_map":{"a":"../1.safetensors"}})"), "not in a file of this folder"));
  CHECK(contains(with_index(R"({"weight_map":{"a":"3.safetensors"}})"), "3.safetensors"));
  CHECK(contains(with_index(R"({"weight_map":3})"), "it has no weight_map"));
  CHECK(contains(with_index(R"([])"), "it has no weight_map"));
  CHECK(contains(with_index("{"), "is not JSON"));
  CHECK(contains(with_index(std::string(100000, '[')), "nested too deep"));
}
