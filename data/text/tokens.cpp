#include "tokens.hpp"

#include <algorithm>

void Tokens::append(Segment segment) {
  if (segment.end == 0) return;
  segment.begin = size();
  segment.end += segment.begin;
  segments_.push_back(std::move(segment));
}

void Tokens::append(const Tokens& from, size_t begin, size_t end) {
  while (begin < end) {
    Segment segment = from.segment_of(begin);
    const size_t stop = std::min(end, segment.end);
    const size_t skipped = (begin - segment.begin) * static_cast<size_t>(segment.width);
    segment.data = static_cast<const char*>(segment.data) + skipped;
    segment.end = stop - begin;
    append(std::move(segment));
    begin = stop;
  }
}

size_t Tokens::memory() const {
  size_t bytes = 0;
  for (const Segment& segment : segments_)
    if (!segment.mapped) bytes += (segment.end - segment.begin) * static_cast<size_t>(segment.width);
  return bytes;
}

uint32_t Tokens::operator[](size_t i) const {
  const Segment& segment = segment_of(i);
  return with_numbers(segment, [&](const auto* numbers) -> uint32_t { return numbers[i - segment.begin]; });
}

size_t Tokens::find(size_t begin, size_t end, uint32_t token) const {
  for (size_t i = begin; i < end;) {
    const Segment& segment = segment_of(i);
    const size_t first = i - segment.begin, stop = std::min(end, segment.end) - segment.begin;
    i = segment.begin + with_numbers(segment, [&](const auto* numbers) -> size_t {
          return std::find(numbers + first, numbers + stop, token) - numbers;
        });
    if (i < segment.begin + stop) return i;
  }
  return end;
}

const Tokens::Segment& Tokens::segment_of(size_t i) const {
  if (i < segments_.front().end) return segments_.front();
  return *std::upper_bound(segments_.begin(), segments_.end(), i,
                           [](size_t at, const Segment& s) { return at < s.end; });
}
