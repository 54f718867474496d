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

size_t Tokens::find(size_t begin, size_t end, uint32_t token) const {
  for (size_t i = begin; i < end;) {
    const Piece& piece = piece_of(i);
    for (const size_t stop = std::min(end, piece.end); i < stop; ++i)
      if (at(piece, i) == token) return i;
  }
  return end;
}

const Tokens::Piece& Tokens::piece_of(size_t i) const {
  if (i < pieces_.front().end) return pieces_.front();
  return *std::upper_bound(pieces_.begin(), pieces_.end(), i, [](size_t at, const Piece& p) { return at < p.end; });
}
