#include "layers/config/tensors.hpp"
#include "layers/kernels/buffer.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "check.hpp"
#include "data/formats/float_types.hpp"
#include "layers/kernels/elementwise.hpp"

namespace {

struct Walk {
  float *a, *q, *c, *d;
};

Walk walk(Layout& layout) {
  Walk w;
  w.a = layout.take("a", Role::embedding, {3, 7}, {0, .5f});
  w.q = layout.take_joined({{"q", Role::qk, {2, 5}, {}}, {"k", Role::qk, {1, 5}, {}}, {"v", Role::v, {3, 5}, {}}});
  w.c = layout.take("c", Role::gain, {1}, {1, 0});
  w.d = layout.take("d", Role::ffn_out, {2, 2, 2});
  return w;
}

}  // namespace

TEST_CASE("equal declarations give equal tables, and tensors are aligned and in order", "[tensors]") {
  Layout measure;
  const Walk nothing = walk(measure);
  CHECK(nothing.a == nullptr);
  CHECK(nothing.q == nullptr);

  Buffer buffer = allocate(measure.size());
  Layout layout(buffer.get());
  const Walk w = walk(layout);
  REQUIRE(layout.size() == measure.size());
  REQUIRE(layout.table().size() == 6);
  size_t end = 0;
  for (size_t i = 0; i < layout.table().size(); ++i) {
    const TensorSpec &spec = layout.table()[i], &measured = measure.table()[i];
    CHECK(spec.name == measured.name);
    CHECK(spec.offset == measured.offset);
    CHECK(spec.offset >= end);
    end = spec.offset + spec.size();
    CHECK(spec.decay == (spec.shape.size() >= 2));
    CHECK(spec.trained);
  }
  CHECK(end <= layout.size());
  for (const float* p : {w.a, w.q, w.c, w.d}) CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
  CHECK(buffer.get() + layout.table()[0].offset == w.a);
  CHECK(buffer.get() + layout.table()[1].offset == w.q);
  CHECK(layout.table()[2].offset == layout.table()[1].offset + 10);  // q, k, v: one matrix
  CHECK(layout.table()[3].offset == layout.table()[2].offset + 5);
  CHECK(layout.table()[0].start.deviation == .5f);
  CHECK(layout.table()[4].start.mean == 1);
  CHECK(layout.table()[5].size() == 8);
}

TEST_CASE("a tensor knows its role, its layer and its group", "[tensors]") {
  Layout layout;
  layout.take("embedding.token.weight", Role::embedding, {3, 7});
  layout.enter_layer(12);
  layout.take("ffn.up.weight", Role::ffn_in, {5, 7});
  layout.leave_layer();
  layout.take("loss", Role::classifier, {2});
  const TensorSpec &token = layout.table()[0], &up = layout.table()[1], &loss = layout.table()[2];
  CHECK(token.layer == kOutside);
  CHECK(token.name == token.part);
  CHECK(up.name == "block.12.ffn.up.weight");
  CHECK(up.part == "ffn.up.weight");
  CHECK(up.group() == "ffn.up");
  CHECK(up.leaf() == "weight");
  CHECK(up.layer == 12);
  CHECK(up.role == Role::ffn_in);
  CHECK(loss.layer == kOutside);
}

TEST_CASE("buffers are zero and aligned", "[tensors]") {
  for (const size_t n : {0, 1, 17, 1000}) {
    const Buffer buffer = allocate(n);
    REQUIRE(buffer);
    CHECK(reinterpret_cast<uintptr_t>(buffer.get()) % 64 == 0);
    for (size_t i = 0; i < n; ++i) REQUIRE(buffer[i] == 0);
  }
}

TEST_CASE("sizes that do not fit in memory are refused", "[tensors]") {
  const size_t big = size_t{1} << 31;
  CHECK(checked_product({3, 5, 7}) == 105);
  CHECK(checked_product({0, big, big, big}) == 0);
  CHECK_THROWS_AS(checked_product({big, big, big}), std::overflow_error);
  CHECK_THROWS_AS(checked_product({big, big, 4}), std::overflow_error);
  const int large = std::numeric_limits<int>::max();
  CHECK_THROWS_AS(Layout().take("x", Role::o, {large, large, large}), std::overflow_error);
  Layout full;  // one tensor could be addressed, two cannot
  const auto take = [&] { full.take("y", Role::o, {1 << 30, 1 << 30}); };
  take();
  CHECK_THROWS_AS(take(), std::overflow_error);
  CHECK_THROWS_AS(allocate(std::numeric_limits<size_t>::max() / 2), std::overflow_error);
}

TEST_CASE("floats are rounded to 16 bits as the formats do it, and widened in place", "[tensors]") {
  std::vector<float> x = random_floats(1001, 1, -4, 4);
  for (const uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u,
                              0x80000000u, 0x00000001u, 0x33800000u, 0x477fefffu, 0x477ff000u})
    x.push_back(std::bit_cast<float>(bits));
  const size_t n = x.size();
  for (const NumberType type : {NumberType::bf16, NumberType::fp16}) {
    const bool bf16 = type == NumberType::bf16;
    std::vector<float> packed(floats_of(type, n)), wide(n);
    round_to(type, packed.data(), 0, x.data(), n / 2);
    round_to(type, packed.data(), n / 2, x.data() + n / 2, n - n / 2);
    std::memcpy(reinterpret_cast<char*>(wide.data()) + 2 * n, packed.data(), 2 * n);
    widen(type, wide.data(), n);
    const auto* bits = reinterpret_cast<const uint16_t*>(packed.data());
    const auto vector = [&](size_t i) {
      return bf16 ? simd::load(reinterpret_cast<const Bfloat16*>(bits) + i, 1)[0]
                  : simd::load(reinterpret_cast<const Float16*>(bits) + i, 1)[0];
    };
    for (size_t i = 0; i < n; ++i) {
      INFO(x[i]);
      CHECK(bits[i] == (bf16 ? bfloat16_of_float(x[i]) : half_of_float(x[i])));
      const float want = bf16 ? float_of_bfloat16(bits[i]) : float_of_half(bits[i]);
      CHECK(std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(want));
      if (!std::isnan(want)) CHECK(std::bit_cast<uint32_t>(vector(i)) == std::bit_cast<uint32_t>(want));
    }
  }
}

TEST_CASE("frozen matrices that may be of 16 bits take half of the room", "[tensors]") {
  const auto walk = [](Layout& layout) {
    layout.take_matrix({{"q", Role::qk, {4, 6}, {}}, {"k", Role::qk, {2, 6}, {}}});
    layout.take_matrix({{"odd", Role::o, {3, 5}, {}}});
    layout.take("vector", Role::o, {6});
    layout.take_matrix({{"o", Role::o, {40, 4}, {}}});
  };
  Layout all;
  walk(all);
  std::vector<TensorSpec> table = all.table();
  for (TensorSpec& spec : table) spec.trained = spec.name == "o";
  Layout layout(nullptr, table, NumberType::bf16);
  walk(layout);
  const std::vector<TensorSpec>& found = layout.table();
  for (const TensorSpec& spec : found)
    CHECK((spec.numbers == NumberType::bf16) == (spec.name == "q" || spec.name == "k"));
  CHECK(found[1].offset == 12);  // 24 numbers
  CHECK(found[2].offset == 32);  // 18 floats, aligned; 48 without bf16
  CHECK(layout.size() == buffer_floats(found));
  CHECK(all.size() == buffer_floats(all.table()));

  Buffer buffer = allocate(layout.size());
  const std::vector<float> values = random_floats(12, 5);
  std::copy_n(values.begin(), values.size(), FloatsToWrite(buffer.get(), found[1]).data());
  const std::vector<float> read = read_floats(found[1], buffer.get());
  for (size_t i = 0; i < values.size(); ++i) CHECK(read[i] == float_of_bfloat16(bfloat16_of_float(values[i])));
  CHECK(buffer[found[0].offset] == 0);
  CHECK(first_non_finite(found, buffer.get()) == nullptr);
  FloatsToWrite(buffer.get(), found[1]).data()[11] = INFINITY;
  CHECK(first_non_finite(found, buffer.get()) == &found[1]);
}
