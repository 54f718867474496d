// Span corruption: which spans of a text are hidden, and what the encoder and the decoder read.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "catch.hpp"
#include "check.hpp"
#include "data/run/step_inputs.hpp"
#include "data/text/load_dataset.hpp"
#include "data/text/spans.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "message.hpp"
#include "numbered_lines.hpp"
#include "small_run.hpp"

namespace {

using Ints = std::vector<int>;

// Tokens from 1000 on are sentinels.
Spans spans_of(int sentinels) {
  Spans spans;
  for (int i = 0; i < sentinels; ++i) spans.sentinels.push_back(1000 + i);
  return spans;
}

Ints numbers(int n) {
  Ints all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What stands after each sentinel, up to the next one.
std::map<int, Ints> after_sentinels(const Ints& target, int first_sentinel) {
  std::map<int, Ints> spans;
  int sentinel = -1;
  for (const int token : target) {
    if (token >= first_sentinel) spans[sentinel = token];
    else spans[sentinel].push_back(token);
  }
  return spans;
}

// Puts the spans back into their places.
Ints restored(const Ints& source, const Ints& target, int first_sentinel) {
  const std::map<int, Ints> spans = after_sentinels(target, first_sentinel);
  Ints all;
  for (const int token : source) {
    if (token < first_sentinel) all.push_back(token);
    else all.insert(all.end(), spans.at(token).begin(), spans.at(token).end());
  }
  return all;
}

Dataset load(const Folder& f, const std::string& file, int context, DocumentOptions how = {},
             double val_fraction = .1, const std::string& tokenizer = "byte") {
  TextOptions options;
  how.hides_spans = true;
  static_cast<DocumentOptions&>(options) = how;
  options.data = {f.path(file)};
  options.tokenizer = tokenizer;
  options.val_fraction = val_fraction;
  return load_dataset(options, nullptr, context);
}

}  // namespace

TEST_CASE("hidden spans and what is kept are the whole window", "[spans]") {
  const Spans spans = spans_of(101);
  std::set<bool> begins, ends;
  for (int n = 2; n < 300; ++n) {
    const Ints window = numbers(n);
    const HiddenSpans hidden = hide_spans(window, spans, n);
    CHECK(restored(hidden.source, hidden.target, 1000) == window);
    CHECK(hidden.source.size() + 1 == static_cast<size_t>(spans.source_length(n)));
    CHECK(hidden.target.size() + 1 == static_cast<size_t>(spans.target_length(n)));
    Ints sentinels;
    for (const int token : hidden.target)
      if (token >= 1000) sentinels.push_back(token);
    Ints want = numbers(spans.count(n) + 1);  // the last one hides nothing
    for (int& i : want) i += 1000;
    CHECK(sentinels == want);
    CHECK(hidden.target.back() == 1000 + spans.count(n));
    for (size_t i = 0; i + 1 < hidden.target.size(); ++i)
      CHECK((hidden.target[i] < 1000 || hidden.target[i + 1] < 1000));  // no span is empty
    for (size_t i = 0; i + 1 < hidden.source.size(); ++i)
      CHECK((hidden.source[i] < 1000 || hidden.source[i + 1] < 1000));  // no two spans touch
    begins.insert(hidden.source.front() >= 1000);
    ends.insert(hidden.source.back() >= 1000);
  }
  CHECK((begins.size() == 2 && ends.size() == 2));  // any part of a window may be hidden
}

TEST_CASE("15 % of the tokens are hidden, in spans of three tokens in the mean", "[spans]") {
  const Spans spans = spans_of(101);
  CHECK((spans.hidden(100) == 15 && spans.count(100) == 5));
  CHECK((spans.hidden(2) == 1 && spans.count(2) == 1));
  // random_spans_helper() of T5's code (t5/data/preprocessors.py) makes sources of 512 tokens out of 568. Its targets
  // have 114 tokens, and none of them is a last sentinel.
  CHECK(spans.longest(512) == 568);
  CHECK(spans.source_length(568) == 512);
  CHECK(spans.target_length(568) == 115);
  CHECK(spans.longest(4) > 0);
  CHECK(spans.longest(3) == 0);
  // All lengths of two spans with six tokens are equally likely.
  REQUIRE((spans.hidden(40) == 6 && spans.count(40) == 2));
  std::map<size_t, int> lengths;
  for (uint64_t key = 0; key < 5000; ++key)
    ++lengths[after_sentinels(hide_spans(numbers(40), spans, key).target, 1000)[1000].size()];
  REQUIRE(lengths.size() == 5);
  for (const auto& [length, times] : lengths) CHECK(std::abs(times - 1000) < 140);  // 5 standard deviations
}

TEST_CASE("few sentinels hide fewer and longer spans", "[spans]") {
  const Spans spans = spans_of(3);
  CHECK(spans.count(400) == 2);
  const HiddenSpans hidden = hide_spans(numbers(400), spans, 1);
  CHECK(restored(hidden.source, hidden.target, 1000) == numbers(400));
  CHECK(hidden.target.size() == 60 + 3);
}

TEST_CASE("a new tokenizer gets sentinels, the first of which is its last token", "[spans]") {
  const Folder f;
  f.write("a.txt", numbered_lines(80));
  const Dataset data = load(f, "a.txt", 64);
  const int n = data.window_length(64), count = data.spans.count(n);
  CHECK(data.spans.source_length(n) == 64);
  CHECK(data.tokenizer.vocabulary() == 256 + 1 + count + 1);
  REQUIRE(data.spans.sentinels.size() == static_cast<size_t>(count + 1));
  CHECK(data.spans.sentinels[0] == data.tokenizer.vocabulary() - 1);
  CHECK(data.spans.sentinels[1] == data.tokenizer.special("<extra_id_1>"));
  CHECK(spans_with(Tokenizer::bytes().with_special({"<extra_id_0>", "<extra_id_2>"})).sentinels == Ints{256});
  CHECK(std::isnan(data.bits_per_byte(1)));
  CHECK(data.floor == 0);
  CHECK(data.unigram_nats < data.uniform_nats());
}

TEST_CASE("rows of a text with hidden spans give the text back", "[spans]") {
  const Folder f;
  f.write("a.txt", numbered_lines(80));
  for (const Packing packing : {Packing::stream, Packing::documents, Packing::padded}) {
    TextOptions options;
    options.data = {f.path("a.txt")};
    options.packing = packing;
    options.documents = packing == Packing::stream ? "file" : "line";
    options.sampling = Draws::shuffle;
    options.val_fraction = 0;
    options.hides_spans = true;
    const Dataset data = load_dataset(options, nullptr, 48);
    const auto count = static_cast<int>(data.rows.size());
    const int first = data.spans.sentinels.back(), E = data.around.last;
    std::map<size_t, Ints> texts;  // by their place
    const RowBatch rows = draw_batch(data, count, 48, {1, 0, static_cast<uint64_t>(count)}, 0);
    for (int b = 0; b < count; ++b) {
      int at = 0, source_at = 0;
      const auto part = [&](const Ints& of, int begin, int size) {
        return Ints(of.begin() + b * 48 + begin, of.begin() + b * 48 + begin + size);
      };
      for (const TokenWindow& window : draw_row(data, 48, {1, 0, static_cast<uint64_t>(count)}, b)) {
        Ints tokens = part(rows.tokens, at, window.length), targets = part(rows.targets, at, window.length);
        Ints source = part(rows.encoder.tokens, source_at, window.source_length);
        CHECK((tokens.front() == E && targets.back() == E && source.back() == E));
        CHECK(std::equal(tokens.begin() + 1, tokens.end(), targets.begin()));
        CHECK(part(rows.encoder.from, at, window.length) == Ints(window.length, source_at));
        CHECK(part(rows.encoder.to, at, window.length) == Ints(window.length, source_at + window.source_length));
        source.pop_back();
        targets.pop_back();
        texts[window.start] = restored(source, targets, first);
        at += window.length;
        source_at += window.source_length;
      }
      for (int t = at; t < 48; ++t) CHECK(rows.targets[b * 48 + t] == kIgnore);
    }
    Ints all;
    for (const auto& [start, text] : texts) all.insert(all.end(), text.begin(), text.end());
    std::erase(all, E);
    std::string text = data.tokenizer.decode({all.begin(), all.end()}), want = numbered_lines(80);
    if (packing != Packing::stream) std::erase(want, '\n');
    CHECK(text == want);
  }
}

TEST_CASE("hidden spans differ from step to step, and not when a run is resumed or validated again", "[spans]") {
  const Folder f;
  f.write("a.txt", numbered_lines(200));
  for (const char* documents : {"file", "line"}) {
    const Dataset data = load(f, "a.txt", 32, {.documents = documents});
    const RowBatch batch = draw_batch(data, 4, 32, {1, 5, 4}, 0);
    CHECK(draw_batch(data, 4, 32, {1, 5, 4}, 0).encoder.tokens == batch.encoder.tokens);
    const RowBatch second = draw_batch(data, 2, 32, {1, 5, 4}, 2);
    CHECK(std::ranges::equal(second.encoder.tokens, std::span(batch.encoder.tokens).subspan(64)));
    CHECK(draw_batch(data, 4, 32, {2, 5, 4}, 0).encoder.tokens != batch.encoder.tokens);
    CHECK(fill_rows(data, data.val, 0, 2, 32).targets == fill_rows(data, data.val, 0, 2, 32).targets);
    CHECK(tokens_of_step(data, 32, {1, 5, 4}, 17) == 4 * 32);  // most tokens are read only
    CHECK(tokens_before(data, 32, {1, 5, 4}) == 5 * 4 * 32);
  }
  f.write("b.txt", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");  // the same window in every epoch
  const Dataset data = load(f, "b.txt", 48, {.documents = "line"}, 0);
  std::set<Ints> seen;
  for (uint64_t step = 0; step < 8; ++step) seen.insert(draw_batch(data, 1, 48, {1, step, 1}, 0).encoder.tokens);
  CHECK(seen.size() > 4);
}

TEST_CASE("a run that cannot hide spans is refused", "[spans][program]") {
  const Folder f;
  f.write("a.txt", numbered_lines(200));
  f.write("qa.jsonl", R"({"prompt": "who is it", "completion": "me"})" "\n");
  const std::string span = " --dry-run --objective span --encoder-layers 1 ";
  check_refused(f, "train qa.jsonl --val-fraction 0" + span, "has prompts that do not count: add --loss all");
  check_refused(f, "train a.txt --context 3" + span, "--objective span needs a --context of at least 4, not 3");
}

TEST_CASE("a tokenizer of pieces gets the sentinels that a context needs", "[spans]") {
  const Folder f;
  f.write("a.txt", numbered_lines(200));
  const Dataset data = load(f, "a.txt", 32, {}, .1, "test/reference/pieces/llama2.model");
  CHECK(data.spans.sentinels.size() == sentinel_names(32).size());
  CHECK(data.spans.sentinels[0] == data.tokenizer.vocabulary() - 1);
}
