#pragma once
// A long sequence of tokens. Its pieces may lie in memory or in mapped files, with 16 or 32 bits for each token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

class Tokens {
 public:
  template <class T>  // uint16_t or uint32_t
  void append(std::vector<T> tokens) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(tokens));
    append({0, kept->size(), kept->data(), sizeof(T), false, kept});
  }
  // Appends `count` tokens of a mapped file, little-endian, with `width` bytes each (2 or 4). `file` keeps it mapped.
  void append_mapped(std::shared_ptr<const void> file, const void* data, int width, size_t count) {
    append({0, count, data, width, true, std::move(file)});
  }
  // Appends tokens [begin, end) of another sequence, without copying them.
  void append(const Tokens& from, size_t begin, size_t end);

  size_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  size_t memory() const;  // bytes, without mapped files

  uint32_t operator[](size_t i) const { return at(piece_of(i), i); }
  // Calls f(token) for tokens [begin, end) in order.
  template <class F>
  void for_each(size_t begin, size_t end, const F& f) const;
  // The first token from `begin` on that equals `token`, or `end`.
  size_t find(size_t begin, size_t end, uint32_t token) const;

 private:
  struct Piece {
    size_t begin, end;  // positions in the sequence
    const void* data;
    int width;  // bytes of a token
    bool mapped;
    std::shared_ptr<const void> owner;
  };
  static uint32_t at(const Piece& piece, size_t i) {
    const size_t k = i - piece.begin;
    return piece.width == 2 ? static_cast<const uint16_t*>(piece.data)[k] : static_cast<const uint32_t*>(piece.data)[k];
  }
  const Piece& piece_of(size_t i) const;
  void append(Piece piece);  // of tokens [0, piece.end)

  std::vector<Piece> pieces_;
};

template <class F>
void Tokens::for_each(size_t begin, size_t end, const F& f) const {
  for (size_t i = begin; i < end;) {
    const Piece& piece = piece_of(i);
    for (const size_t stop = piece.end < end ? piece.end : end; i < stop; ++i) f(at(piece, i));
  }
}
