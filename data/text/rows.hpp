#pragma once
// Which windows of the tokens fill each row of a batch.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tokens.hpp"

// A window of a document that is longer than a window: the first one with a target that counts, or a later one.
enum class Cut : uint8_t { none, first, later };

// The model reads tokens [start, start + length). The target of each is the token after it, or, with masking, itself.
struct TokenWindow {
  size_t start;
  int length;
  int targets;  // the number of targets that count, or at most that many in a window anywhere in a stream
  // An encoder reads tokens [source, source + source_length), if there is one.
  size_t source = 0;
  int source_length = 0;
  int text_length = 0;  // of the text in which spans are hidden (spans.hpp), from `start` on; 0: none are
  Cut cut = Cut::none;
};

// Rows of one window each, or of several examples side by side.
class Rows {
 public:
  void add(std::span<const TokenWindow> row);
  void add(const TokenWindow& window) { add({&window, 1}); }

  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::span<const TokenWindow> operator[](size_t r) const;
  const std::vector<TokenWindow>& windows() const { return windows_; }  // of all rows
  size_t targets() const { return targets_; }                           // that count, in all rows
  int longest() const { return longest_; }                              // row, in tokens of targets or of sources

 private:
  std::vector<TokenWindow> windows_;
  std::vector<size_t> ends_;  // row r ends before window ends_[r]
  size_t targets_ = 0;
  int longest_ = 0;
};

// Returns a window for each document, or several if it has more than T targets. Without masking, the last token of a
// document is a target only, and the first is none. Leaves out windows without a target that counts; count(begin, end)
// is the number of those among tokens [begin, end). `cut` is increased by the number of documents that are longer.
template <class Count>
std::vector<TokenWindow> windows_of(const std::vector<Stretch>& documents, int T, const Count& count, size_t& cut,
                                    bool masks = false) {
  std::vector<TokenWindow> windows;
  for (const Stretch& document : documents) {
    const size_t end = document.end - (masks ? 0 : 1);
    const bool is_cut = end - document.begin > static_cast<size_t>(T);
    Cut next = is_cut ? Cut::first : Cut::none;
    cut += is_cut;
    for (size_t at = document.begin; at < end; at += T) {
      const auto length = static_cast<int>(std::min<size_t>(T, end - at));
      const size_t first = at + (masks ? 0 : 1);
      const auto targets = static_cast<int>(count(first, first + length));
      if (targets == 0) continue;
      windows.push_back({.start = at, .length = length, .targets = targets, .cut = next});
      if (is_cut) next = Cut::later;
    }
  }
  return windows;
}

// A row for each window.
Rows one_per_row(const std::vector<TokenWindow>& windows);

// Packs windows of at most T tokens into rows of T, longest first, each into the row with the least space that is
// enough (best-fit decreasing). With sources, a row has T places for targets and T for
// sources. The longer part of a window is then its length, and the smaller rest of a row is its space.
Rows packed_rows(const std::vector<TokenWindow>& windows, int T);
