#include "spans.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layers/kernels/random.hpp"

std::string sentinel_name(int i) { return "<extra_id_" + std::to_string(i) + ">"; }

namespace {

// Returns `parts` random positive numbers with this sum. All such lists are equally likely.
std::vector<int> random_parts(int sum, int parts, uint64_t key) {
  std::vector<int> cuts(sum - 1);  // their first `parts` - 1 will be the places where a part ends
  std::iota(cuts.begin(), cuts.end(), 1);
  for (int i = 0; i + 1 < parts; ++i) std::swap(cuts[i], cuts[i + rng::below(cuts.size() - i, key, i)]);
  cuts.resize(parts - 1);
  std::ranges::sort(cuts);
  cuts.push_back(sum);
  std::adjacent_difference(cuts.begin(), cuts.end(), cuts.begin());
  return cuts;
}

}  // namespace

int Spans::hidden(int n) const { return std::clamp(static_cast<int>(std::lround(n * kFraction)), 1, n - 1); }

int Spans::count(int n) const {
  const int most = std::max(1, static_cast<int>(sentinels.size()) - 1);
  return std::clamp(static_cast<int>(std::lround(hidden(n) / kMeanLength)), 1, most);
}

int Spans::longest(int T) const {
  int n = 1;
  while (source_length(n + 1) <= T && target_length(n + 1) <= T) ++n;
  return n > 1 ? n : 0;
}

TokenWindow Spans::window(size_t start, int n) const {
  return {.start = start, .length = target_length(n), .targets = target_length(n), .source = start,
          .source_length = source_length(n), .text_length = n};
}

std::vector<TokenWindow> windows_with_spans(const std::vector<Stretch>& documents, const Spans& spans, int T) {
  const auto most = static_cast<size_t>(spans.longest(T));
  std::vector<TokenWindow> windows;
  for (const Stretch& document : documents)
    for (size_t at = document.begin; at + 1 < document.end; at += most)
      windows.push_back(spans.window(at, static_cast<int>(std::min(most, document.end - at))));
  return windows;
}

std::vector<std::string> sentinel_names(int T) {
  const Spans any{std::vector<int>(T + 2)};
  const int n = any.longest(T);
  std::vector<std::string> names;
  for (int i = n > 0 ? any.count(n) : 1; i >= 0; --i) names.push_back(sentinel_name(i));
  return names;
}

Spans spans_with(const Tokenizer& tokenizer) {
  const std::vector<std::string> special = tokenizer.special_names();
  Spans spans;
  while (std::ranges::find(special, sentinel_name(static_cast<int>(spans.sentinels.size()))) != special.end())
    spans.sentinels.push_back(tokenizer.special(sentinel_name(static_cast<int>(spans.sentinels.size()))));
  return spans;
}

HiddenSpans hide_spans(std::span<const int> window, const Spans& spans, uint64_t key) {
  const auto n = static_cast<int>(window.size());
  const int hidden = spans.hidden(n), count = spans.count(n);
  const std::vector<int> lengths = random_parts(hidden, count, rng::key({key, rng::word("spans")}));
  // The first and the last kept part may be empty, those between two spans may not.
  std::vector<int> kept = random_parts(n - hidden + 2, count + 1, rng::key({key, rng::word("kept")}));
  --kept.front();
  HiddenSpans result;
  size_t at = 0;
  const auto move = [&](std::vector<int>& to, int tokens) {
    to.insert(to.end(), window.begin() + at, window.begin() + at + tokens);
    at += tokens;
  };
  for (int i = 0; i < count; ++i) {
    move(result.source, kept[i]);
    result.source.push_back(spans.sentinels[i]);
    result.target.push_back(spans.sentinels[i]);
    move(result.target, lengths[i]);
  }
  move(result.source, kept[count] - 1);
  result.target.push_back(spans.sentinels[count]);
  return result;
}
