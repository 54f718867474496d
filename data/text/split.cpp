#include "split.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

size_t newlines(const Dataset& data, size_t begin, size_t end) {
  size_t n = 0;
  data.tokens.for_each(begin, end, [&, newline = data.tokenizer.newline()](uint32_t t) { n += int(t) == newline; });
  return n;
}

namespace {

// ---- windows ---------------------------------------------------------------------------------------------

// Adds windows back to back over tokens [first, end).
void add_windows(std::vector<TokenWindow>& windows, size_t first, size_t end, int T) {
  for (size_t start = first; start + 1 < end; start += T)
    windows.push_back({start, static_cast<int>(std::min<size_t>(T, end - 1 - start))});
}

// Returns one window for each story in [first, end) that follows a '\n' at `lowest` or later. The window starts at that
// '\n'. Returns no windows if any story is longer than T.
std::vector<TokenWindow> windows_by_story(const Dataset& data, size_t lowest, size_t first, size_t end, int T) {
  const auto newline = static_cast<uint32_t>(data.tokenizer.newline());
  std::vector<TokenWindow> windows;
  for (size_t start = first; start < end;) {
    const size_t next = data.tokens.find(start, end, newline) + 1;
    if (next - start > static_cast<size_t>(T) || next > end) return {};
    if (start > lowest && data.tokens[start - 1] == newline)
      windows.push_back({start - 1, static_cast<int>(next - start)});
    start = next;
  }
  return windows;
}

// ---- the split -------------------------------------------------------------------------------------------

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

// Tokens, and -log P of their stories if known.
struct Stories {
  Tokens tokens;
  std::vector<double> nats;

  void append(const Stories& from, size_t begin, size_t end, size_t& story, const Dataset& data) {
    tokens.append(from.tokens, begin, end);
    if (from.nats.empty()) return;
    const size_t count = newlines(data, begin, end);
    nats.insert(nats.end(), from.nats.begin() + story, from.nats.begin() + story + count);
    story += count;
  }
};

// Moves these parts of the tokens, and -log P of their stories, to the end. `parts` receives their new positions.
void move_behind(Dataset& data, std::vector<double>& nats, std::vector<Stretch>& parts) {
  const Stories all{data.tokens, nats};
  Stories rest, moved;
  size_t at = 0, story = 0;
  for (const Stretch& part : parts) {
    rest.append(all, at, part.begin, story, data);
    moved.append(all, part.begin, part.end, story, data);
    at = part.end;
  }
  rest.append(all, at, all.tokens.size(), story, data);
  size_t end = data.train = rest.tokens.size();
  for (Stretch& p : parts) {
    p = {end, end + p.end - p.begin};
    end = p.end;
  }
  rest.tokens.append(moved.tokens, 0, moved.tokens.size());
  data.tokens = std::move(rest.tokens);
  nats = std::move(rest.nats);
  nats.insert(nats.end(), moved.nats.begin(), moved.nats.end());
}

}  // namespace

std::vector<Stretch> split(Dataset& data, std::vector<double>& nats, const SplitOptions& options, int context) {
  if (options.val_split == ValSplit::spread && options.val_fraction > 0) {
    std::vector<Stretch> parts = spread_parts(data, options.val_fraction, context);
    move_behind(data, nats, parts);
    return parts;
  }
  data.train = static_cast<size_t>(static_cast<double>(data.tokens.size()) * (1 - options.val_fraction));
  if (!nats.empty()) data.train = line_start(data, 0, data.train);
  return {{data.train, data.tokens.size()}};
}

void set_validation(Dataset& data, const std::vector<double>& nats, const std::vector<Stretch>& parts, int context,
                    bool own_text) {
  const size_t lowest = own_text ? data.train : 0;
  if (!nats.empty()) data.val = windows_by_story(data, lowest, data.train, data.tokens.size(), context);
  if (!data.val.empty()) {
    const double sum = std::accumulate(nats.end() - static_cast<int64_t>(data.val.size()), nats.end(), 0.0);
    data.floor = sum / static_cast<double>(data.val_targets());
  } else {
    if (!nats.empty() && data.train < data.tokens.size())
      data.notes.push_back("the floor is not known: a story is longer than the context of " + std::to_string(context));
    for (const Stretch& part : parts) add_windows(data.val, part.begin, part.end, context);
  }
  measure_validation(data);
}

void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice) {
  if (have >= need) return;
  throw std::runtime_error("too little text in " + name + ": " + what + " needs at least " + std::to_string(need) +
                           " tokens and has " + std::to_string(have) + "; " + advice);
}

void set_windows(Dataset& data, bool by_story, int context) {
  if (by_story) data.windows = windows_by_story(data, 0, 0, data.train, context);
  data.by_line = !data.windows.empty();
  if (data.windows.empty()) add_windows(data.windows, 0, data.train, context);
}
