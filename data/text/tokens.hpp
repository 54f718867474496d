#pragma once
// A long sequence of tokens in pieces. Each piece lies in memory or in a mapped file, with 8, 16 or 32 bits per token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

  size_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  size_t memory() const;  // bytes, without mapped files

  uint32_t operator[](size_t i) const;
  // Calls f(token) for tokens [begin, end) in order. The token has the type that stores it.
  template <class F>
  void for_each(size_t begin, size_t end, const F& f) const;
  // Returns the position of the first `token` from `begin` on, or `end`.
  size_t find(size_t begin, size_t end, uint32_t token) const;

 private:
  struct Piece {
    size_t begin, end;  // positions in the sequence
    const void* data;
    int width;  // bytes of a token
    bool mapped;
    std::shared_ptr<const void> owner;
  };
  // Calls f(numbers) for the tokens of a piece, in the type that stores them.
  template <class F>
  static auto with_numbers(const Piece& piece, const F& f) {
    if (piece.width == 1) return f(static_cast<const uint8_t*>(piece.data));
    if (piece.width == 2) return f(static_cast<const uint16_t*>(piece.data));
    return f(static_cast<const uint32_t*>(piece.data));
  }
  const Piece& piece_of(size_t i) const;
  void append(Piece piece);  // piece.end is the number of its tokens

  std::vector<Piece> pieces_;
};

template <class F>
void Tokens::for_each(size_t begin, size_t end, const F& f) const {
  for (size_t i = begin; i < end;) {
    const Piece& piece = piece_of(i);
    const size_t first = i - piece.begin, stop = (piece.end < end ? piece.end : end) - piece.begin;
    with_numbers(piece, [&](const auto* numbers) {
      for (size_t k = first; k < stop; ++k) f(numbers[k]);
    });
    i = piece.begin + stop;
  }
}
