#pragma once
// Span corruption (T5: Raffel et al. 2020, arXiv 1910.10683, §3.1.4). Spans of a window of text are hidden. The source
// is the window with a sentinel token in the place of each span. The target is each sentinel and the span that it
// hides, and a last sentinel:
//
//   window   Thank you for inviting me to your party last week .
//   source   Thank you <extra_id_0> me to your party <extra_id_1> week .
//   target   <extra_id_0> for inviting <extra_id_1> last <extra_id_2>
//
// The token that ends a document ends both. The choice of spans depends only on a key, so a resumed run makes the same
// one.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"
#include "rows.hpp"

struct Spans {
  static constexpr double kFraction = .15;  // of the tokens of a window, which are hidden
  static constexpr double kMeanLength = 3;  // of a span, in tokens

  std::vector<int> sentinels = {};  // <extra_id_0>, <extra_id_1>, ...; empty: no spans are hidden

  bool on() const { return !sentinels.empty(); }
  // In a window of n tokens, n being at least 2: how many are hidden, in how many spans, and how many tokens the
  // encoder and the decoder read.
  int hidden(int n) const;
  int count(int n) const;  // at most one for each sentinel but the last
  int source_length(int n) const { return n - hidden(n) + count(n) + 1; }
  int target_length(int n) const { return hidden(n) + count(n) + 2; }

  // The largest window whose source and target have at most T tokens; 0 if there is none.
  int longest(int T) const;
  TokenWindow window(size_t start, int n) const;
};

// Returns windows of the documents for rows of T tokens. A rest of one token is left out: nothing can be hidden in it.
std::vector<TokenWindow> windows_with_spans(const std::vector<Stretch>& documents, const Spans& spans, int T);

// The name of sentinel i: "<extra_id_0>".
std::string sentinel_name(int i);

// The names of the sentinels for rows of T tokens, for a new tokenizer. As in T5's, the first one is the last token.
std::vector<std::string> sentinel_names(int T);

// Returns the spans with the sentinels that the tokenizer has.
Spans spans_with(const Tokenizer& tokenizer);

struct HiddenSpans {
  std::vector<int> source, target;  // without the tokens around them
};
HiddenSpans hide_spans(std::span<const int> window, const Spans& spans, uint64_t key);
