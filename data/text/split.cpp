#include "split.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "data/strings/format.hpp"

// ---- a stream --------------------------------------------------------------------------------------------

namespace {

// Adds windows back to back over tokens [first, end).
void add_windows(Rows& rows, const Dataset& data, size_t first, size_t end, int T) {
  if (data.spans.on()) {
    for (const TokenWindow& window : windows_with_spans({{first, end}}, data.spans, T)) rows.add(window);
    return;
  }
  for (size_t start = first; start + 1 < end; start += T) {
    const auto length = static_cast<int>(std::min<size_t>(T, end - 1 - start));
    const size_t first = start + (data.masking.on() ? 0 : 1);
    rows.add({start, length, static_cast<int>(data.targets_among(first, first + length))});
  }
}

// Returns the start of the line that contains `at`, or `at` if the line starts before `lowest`.
size_t line_start(const Dataset& data, size_t lowest, size_t at) {
  for (size_t i = at; i > lowest; --i)
    if (int(data.tokens[i - 1]) == data.tokenizer.newline()) return i;
  return at;
}

// Returns the ends of up to 100 equal stretches. Takes fewer if a part would be shorter than four contexts.
std::vector<Stretch> spread_parts(const Dataset& data, double fraction, int context) {
  const size_t n = data.tokens.size(), wanted = static_cast<size_t>(static_cast<double>(n) * fraction);
  const size_t count = std::clamp<size_t>(wanted / (4 * context), 1, 100);
  std::vector<Stretch> parts;
  size_t last = 0;
  for (size_t i = 1; i <= count; ++i) {
    const Stretch anywhere{n * i / count - wanted / count, n * i / count};
    const Stretch lines{line_start(data, last, anywhere.begin), i == count ? n : line_start(data, last, anywhere.end)};
    parts.push_back(lines.begin < lines.end ? lines : anywhere);
    last = parts.back().end;
  }
  return parts;
}

// Moves these parts of the tokens to the end. `parts` receives their new positions.
void move_behind(Dataset& data, std::vector<Stretch>& parts) {
  Tokens rest, moved;
  size_t at = 0;
  for (const Stretch& part : parts) {
    rest.append(data.tokens, at, part.begin);
    moved.append(data.tokens, part.begin, part.end);
    at = part.end;
  }
  rest.append(data.tokens, at, data.tokens.size());
  size_t end = data.train = rest.size();
  for (Stretch& p : parts) {
    p = {end, end + p.end - p.begin};
    end = p.end;
  }
  rest.append(moved, 0, moved.size());
  data.tokens = std::move(rest);
}

}  // namespace

std::vector<Stretch> split_stream(Dataset& data, const SplitOptions& options, int context) {
  if (options.val_split == ValSplit::spread && options.val_fraction > 0) {
    std::vector<Stretch> parts = spread_parts(data, options.val_fraction, context);
    move_behind(data, parts);
    return parts;
  }
  data.train = static_cast<size_t>(static_cast<double>(data.tokens.size()) * (1 - options.val_fraction));
  return {{data.train, data.tokens.size()}};
}

void set_stream_rows(Dataset& data, const std::vector<Stretch>& validation, Draws sampling, int context) {
  for (const Stretch& part : validation) add_windows(data.val, data, part.begin, part.end, context);
  if (sampling == Draws::shuffle) add_windows(data.rows, data, 0, data.train, context);
  if (!data.val.empty()) measure_validation(data);
}

// ---- documents -------------------------------------------------------------------------------------------

namespace {

size_t size_of(const Document& document) { return document.tokens.end - document.tokens.begin; }

size_t total_size(const std::vector<Document>& documents) {
  return std::transform_reduce(documents.begin(), documents.end(), size_t{0}, std::plus<>(), size_of);
}

// Returns windows of the documents' texts, without the tokens around them.
std::vector<TokenWindow> windows_with_spans(const Dataset& data, std::vector<Stretch> documents, int context,
                                            size_t& cut) {
  for (Stretch& document : documents) {
    ++document.begin;
    --document.end;
    cut += document.end - document.begin > static_cast<size_t>(data.window_length(context));
  }
  return windows_with_spans(documents, data.spans, context);
}

std::vector<TokenWindow> windows_of(const Dataset& data, const std::vector<Document>& documents, int context,
                                    size_t& cut) {
  std::vector<Stretch> stretches;
  for (const Document& document : documents) stretches.push_back(document.tokens);
  if (data.spans.on()) return windows_with_spans(data, stretches, context, cut);
  std::vector<TokenWindow> windows =
      windows_of(stretches, context, [&](size_t begin, size_t end) { return data.targets_among(begin, end); }, cut,
                 data.masking.on());
  for (size_t i = 0; data.has_sources && i < windows.size(); ++i) {  // no pair is cut, so each has one window
    const Stretch source = documents[i].source;
    windows[i].source = source.begin;
    windows[i].source_length = static_cast<int>(source.end - source.begin);
  }
  return windows;
}

// Removes the pairs that do not fit the context, and returns their number. The last token of a target is not read.
size_t leave_out_long(std::vector<Document>& pairs, int context) {
  const auto most = static_cast<size_t>(context);
  return std::erase_if(pairs, [&](const Document& pair) {
    return size_of(pair) > most + 1 || pair.source.end - pair.source.begin > most;
  });
}

Rows rows_of(const Dataset& data, const std::vector<TokenWindow>& windows, int context) {
  return data.packing == Packing::padded ? one_per_row(windows) : packed_rows(windows, context);
}

}  // namespace

DocumentSplit split_documents(const std::vector<Document>& documents, const SplitOptions& options) {
  constexpr size_t kMostStretches = 100, kFewestDocuments = 4;  // stretches; documents for validation in each
  if (options.val_fraction == 0) return {documents, {}};
  const bool spread = options.val_split == ValSplit::spread;
  const auto wanted = static_cast<size_t>(static_cast<double>(documents.size()) * options.val_fraction);
  const size_t count = spread ? std::clamp<size_t>(wanted / kFewestDocuments, 1, kMostStretches) : 1;
  const size_t share = total_size(documents) / count;
  const auto train_share = static_cast<size_t>(static_cast<double>(share) * (1 - options.val_fraction));
  DocumentSplit split;
  size_t before = 0;  // tokens of the documents before
  for (const Document& document : documents) {
    const bool last = &document == &documents.back();
    const bool validates = before % share >= train_share || (last && split.val.empty() && documents.size() > 1);
    (validates ? split.val : split.train).push_back(document);
    before += size_of(document);
  }
  return split;
}

std::string note_of_share(const DocumentSplit& split, const SplitOptions& options) {
  const auto val = static_cast<double>(total_size(split.val));
  const double share = val / (val + static_cast<double>(total_size(split.train)));
  if (val == 0 || share <= 2 * options.val_fraction) return "";
  return format("validation has %.0f%% of the tokens", 100 * share) +
         format(" instead of %g%%, because documents stay whole", 100 * options.val_fraction);
}

void set_document_rows(Dataset& data, DocumentSplit split, bool nats_known, int context) {
  size_t cut = 0, cut_to_validate = 0;
  const std::string longer = " longer than the context of " + std::to_string(context);
  if (data.has_sources && !data.spans.on()) {
    const size_t left_out = leave_out_long(split.train, context) + leave_out_long(split.val, context);
    if (left_out > 0)
      data.notes.push_back("left out " + counted(static_cast<double>(left_out), "pair") +
                           " whose source or target is" + longer);
  }
  data.train = total_size(split.train);
  data.rows = rows_of(data, windows_of(data, split.train, context, cut), context);
  data.val = rows_of(data, windows_of(data, split.val, context, cut_to_validate), context);
  if (cut + cut_to_validate > 0)
    data.notes.push_back(counted(static_cast<double>(cut + cut_to_validate), "document") + longer +
                         ": each is cut into examples of at most " + std::to_string(data.window_length(context)) +
                         " tokens");
  if (data.val.empty()) return;
  nats_known = nats_known && !data.hides();
  if (nats_known && cut_to_validate > 0) data.notes.push_back("the floor is not known: a story is" + longer);
  if (nats_known && cut_to_validate == 0) {
    const double nats = std::transform_reduce(split.val.begin(), split.val.end(), 0.0, std::plus<>(),
                                              [](const Document& document) { return document.nats; });
    data.floor = nats / static_cast<double>(data.val_targets());
  }
  measure_validation(data);
}

namespace {

// Returns the number of tokens to keep of these.
size_t limited(size_t have, const SplitOptions& options) {
  if (options.data_limit == 0) return have;
  const auto limit = static_cast<size_t>(options.data_limit);
  if (limit > have)
    throw std::runtime_error("--data-limit " + std::to_string(limit) + " is more than the " + std::to_string(have) +
                             " tokens to train on: lower it, or leave it out");
  return limit;
}

}  // namespace

size_t limit_stream(Dataset& data, const SplitOptions& options, int context) {
  const size_t all = data.train;
  data.train = limited(all, options);
  require_tokens(data.train, data.window_length(context) + 1, "training with a context of " + std::to_string(context),
                 data.name, "raise --data-limit, or lower --context");
  return all - data.train;
}

size_t limit_documents(std::vector<Document>& train, const SplitOptions& options) {
  const size_t all = total_size(train), limit = limited(all, options);
  size_t tokens = 0;
  const auto beyond = std::ranges::find_if(train, [&](const Document& document) {
    const bool full = tokens >= limit;
    tokens += size_of(document);
    return full;
  });
  train.erase(beyond, train.end());
  return all - total_size(train);
}

void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice) {
  if (have >= need) return;
  throw std::runtime_error("too little text in " + name + ": " + what + " needs at least " + std::to_string(need) +
                           " tokens and has " + std::to_string(have) + "; " + advice);
}
