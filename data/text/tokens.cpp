#include "tokens.hpp"

#include <algorithm>

void Tokens::append(Piece piece) {
  if (piece.end == 0) return;
  piece.begin = size();
  piece.end += piece.begin;
  pieces_.push_back(std::move(piece));
}

void Tokens::append(const Tokens& from, size_t begin, size_t end) {
  while (begin < end) {
    Piece piece = from.piece_of(begin);
    const size_t stop = std::min(end, piece.end);
    piece.data = static_cast<const char*>(piece.data) + (begin - piece.begin) * static_cast<size_t>(piece.width);
    piece.end = stop - begin;
    append(std::move(piece));
    begin = stop;
  }
}

size_t Tokens::memory() const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_)
    if (!piece.mapped) bytes += (piece.end - piece.begin) * static_cast<size_t>(piece.width);
  return bytes;
}

uint32_t Tokens::operator[](size_t i) const {
  const Piece& piece = piece_of(i);
  return with_numbers(piece, [&](const auto* numbers) -> uint32_t { return numbers[i - piece.begin]; });
}

size_t Tokens::find(size_t begin, size_t end, uint32_t token) const {
  for (size_t i = begin; i < end;) {
    const Piece& piece = piece_of(i);
    const size_t first = i - piece.begin, stop = std::min(end, piece.end) - piece.begin;
    i = piece.begin + with_numbers(piece, [&](const auto* numbers) -> size_t {
          return std::find(numbers + first, numbers + stop, token) - numbers;
        });
    if (i < piece.begin + stop) return i;
  }
  return end;
}

const Tokens::Piece& Tokens::piece_of(size_t i) const {
  if (i < pieces_.front().end) return pieces_.front();
  return *std::upper_bound(pieces_.begin(), pieces_.end(), i, [](size_t at, const Piece& p) { return at < p.end; });
}
