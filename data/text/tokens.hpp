#pragma once
// A long sequence of tokens in segments. Each lies in memory or in a mapped file, with 8, 16 or 32 bits per token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Tokens [begin, end) of a sequence.
struct Stretch {
  size_t begin, end;
};

class Tokens {
 public:
  template <class T>  // uint8_t, uint16_t or uint32_t
  void append(std::vector<T> tokens) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(tokens));
    append({0, kept->size(), kept->data(), sizeof(T), false, kept});
  }
  // Appends a text whose bytes are the tokens, without copying it.
  void append_bytes(std::string text) {
    const auto kept = std::make_shared<const std::string>(std::move(text));
    append({0, kept->size(), kept->data(), 1, false, kept});
  }
  // Appends `count` tokens of a mapped file, little-endian, with `width` bytes each (2 or 4). `file` keeps it mapped.
  void append_mapped(std::shared_ptr<const void> file, const void* data, int width, size_t count) {
    append({0, count, data, width, true, std::move(file)});
  }
  // Appends tokens [begin, end) of another sequence, without copying them.
  void append(const Tokens& from, size_t begin, size_t end);

  size_t size() const { return segments_.empty() ? 0 : segments_.back().end; }
  size_t memory() const;  // bytes, without mapped files

  uint32_t operator[](size_t i) const;
  // Calls f(token) for tokens [begin, end) in order. The token has the type that stores it.
  template <class F>
  void for_each(size_t begin, size_t end, const F& f) const;
  // Returns the position of the first `token` from `begin` on, or `end`.
  size_t find(size_t begin, size_t end, uint32_t token) const;

 private:
  struct Segment {
    size_t begin, end;  // positions in the sequence
    const void* data;
    int width;  // bytes of a token
    bool mapped;
    std::shared_ptr<const void> owner;
  };
  // Calls f(numbers) for the tokens of a segment, in the type that stores them.
  template <class F>
  static auto with_numbers(const Segment& segment, const F& f) {
    if (segment.width == 1) return f(static_cast<const uint8_t*>(segment.data));
    if (segment.width == 2) return f(static_cast<const uint16_t*>(segment.data));
    return f(static_cast<const uint32_t*>(segment.data));
  }
  const Segment& segment_of(size_t i) const;
  void append(Segment segment);  // segment.end is the number of its tokens

  std::vector<Segment> segments_;
};

template <class F>
void Tokens::for_each(size_t begin, size_t end, const F& f) const {
  for (size_t i = begin; i < end;) {
    const Segment& segment = segment_of(i);
    const size_t first = i - segment.begin, stop = (segment.end < end ? segment.end : end) - segment.begin;
    with_numbers(segment, [&](const auto* numbers) {
      for (size_t k = first; k < stop; ++k) f(numbers[k]);
    });
    i = segment.begin + stop;
  }
}
