#include "load_dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <future>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "corpus.hpp"
#include "data/host/format.hpp"
#include "data/host/machine.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "token_files.hpp"

namespace fs = std::filesystem;

namespace {

// A text, and -log P of each of its stories if it is a generated corpus. Or token files.
struct Source {
  Text text;
  std::vector<double> nats;
  std::vector<std::string> token_files;

  bool empty() const { return text.parts.empty() && token_files.empty(); }
  const std::string& name() const { return token_files.empty() ? text.name : token_files[0]; }
};

Source read_source(const std::vector<std::string>& paths, const TextFiles& filter) {
  Source source{read_text(paths, filter), {}, {}};
  if (source.text.parts.size() == 1) source.nats = read_nats(source.text.name, source.text.bytes);
  return source;
}

// The tokenizer file of token files: the one that is named, or else that beside them. "": none.
std::string tokenizer_file_of(const std::string& path, const std::string& tokenizer) {
  if (names_file(tokenizer)) return tokenizer;
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.bin"})
    if (tokenizer == "byte" && fs::exists(folder / name)) return (folder / name).string();
  return "";
}

// `raw`: NAME.bin without a header holds tokens.
Source open_source(const std::vector<std::string>& paths, const TextFiles& filter, bool raw) {
  Source source;
  source.token_files = find_token_files(paths, raw);
  return source.token_files.empty() ? read_source(paths, filter) : source;
}

// The text of --val-data, or the token files for validation in the folders of --data.
Source open_validation(const TextOptions& options, const Source& training, bool raw) {
  const bool tokens = !training.token_files.empty();
  Source source;
  if (options.val_data.empty()) {
    std::vector<std::string> folders = options.data;
    std::erase_if(folders, [](const std::string& path) { return !fs::is_directory(path); });
    if (tokens) source.token_files = find_token_files(folders, raw, true);
    return source;
  }
  source = open_source(options.val_data, options, raw);
  if (tokens == source.token_files.empty())
    throw std::runtime_error("--data and --val-data are text and tokens: give both as text or both as tokens");
  return source;
}

// ---- tokens ----------------------------------------------------------------------------------------------

size_t newlines(const Dataset& data, size_t begin, size_t end) {
  size_t n = 0;
  data.tokens.for_each(begin, end, [&, newline = data.tokenizer.newline()](uint32_t t) { n += int(t) == newline; });
  return n;
}

// The advice depends on whether the tokenizer is new or a checkpoint's.
[[noreturn]] void fail_token(const Text& text, const NoToken& error, bool new_tokenizer) {
  const char* advice = error.is_utf8   ? "--unknown skip or --unknown replace goes on without it"
                       : new_tokenizer ? "convert the file, leave it out, or use --tokenizer byte, which reads anything"
                                       : "convert the file or leave it out";
  throw std::runtime_error(text.place(error.at) + ": " + error.what() + "; " + advice);
}

Tokenizer alphabet_of(const Text& text, const Text& validation) {
  std::set<uint32_t> known;
  for (const Text* part : {&text, &validation}) {
    try {
      const std::vector<uint32_t> found = Tokenizer::characters(part->bytes).alphabet();
      known.insert(found.begin(), found.end());
    } catch (const NoToken& error) {
      fail_token(*part, error, true);
    }
  }
  return Tokenizer::characters(std::vector<uint32_t>(known.begin(), known.end()));
}

Tokenizer tokenizer_of_tokens(const std::string& file, const std::string& name) {
  const std::string found = tokenizer_file_of(file, name);
  if (!found.empty()) return read_tokenizer(found);
  throw std::runtime_error(file + " holds tokens: name their tokenizer with --tokenizer FILE, or put its "
                                  "tokenizer.json beside them");
}

// A byte-pair encoding is trained on the whole text, but not on validation files.
Tokenizer new_tokenizer(const TextOptions& options, const Source& source, const Source& validation) {
  const std::string& name = options.tokenizer;
  const Text& text = source.text;
  if (!source.token_files.empty()) return tokenizer_of_tokens(source.token_files[0], name);
  if (name == "byte") return Tokenizer::bytes();
  if (name == "char") return alphabet_of(text, validation.text);
  if (const int vocabulary = vocabulary_of_bpe(name))
    return Tokenizer::bpe(train_bpe_shown(text.bytes, vocabulary, options.separator));
  return read_tokenizer(name);
}

// Encodes a text piece by piece, so that memory holds its tokens once. T is an unsigned integer of 8, 16 or 32 bits.
// Threads share the pieces, or what encode() makes of one.
template <class T>
std::vector<T> encoded(const Tokenizer& tokenizer, std::string_view text, Unknown unknown, size_t& count) {
  const bool shares = tokenizer.bpe() || tokenizer.pieces();
  std::vector<T> tokens;
  if (!shares) {
    check_memory(text.size() * sizeof(T), "give less text");
    tokens.reserve(text.size());
  }
  const std::vector<std::string_view> pieces = tokenizer.cut(text, shares ? 1 << 24 : 1 << 18);
  std::optional<NoToken> first_error;
#pragma omp parallel for ordered schedule(static, 1) if (!shares)
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::vector<T> part;
    std::optional<NoToken> error;
    size_t unknown_here = 0;
    try {
      const std::vector<uint32_t> wide = tokenizer.encode(pieces[i], unknown, &unknown_here);
      part.assign(wide.begin(), wide.end());
    } catch (const NoToken& e) {
      error = e.behind(static_cast<size_t>(pieces[i].data() - text.data()));
    }
#pragma omp ordered
    {
      tokens.insert(tokens.end(), part.begin(), part.end());
      count += unknown_here;
      if (!first_error) first_error = error;
    }
  }
  if (first_error) throw *first_error;
  return tokens;
}

// Appends the tokens of a text, each file of it behind a separator if there is one. Bytes are tokens as they are.
template <class T>
void append_text(Dataset& data, Text& text, Unknown unknown, size_t& count) {
  const bool bytes = data.tokenizer.kind() == Tokenizer::Kind::byte;
  if (data.separator < 0 && bytes) return data.tokens.append_bytes(std::move(text.bytes));
  if (data.separator < 0) return data.tokens.append(encoded<T>(data.tokenizer, text.bytes, unknown, count));
  for (size_t i = 0; i < text.parts.size(); ++i) {
    data.tokens.append(std::vector<T>{static_cast<T>(data.separator)});
    data.tokens.append(encoded<T>(data.tokenizer, text.part(i), unknown, count));
  }
}

void append_token_files(Dataset& data, const Source& source) {
  for (const std::string& file : source.token_files) {
    data.fingerprint = rng::key({data.fingerprint, append_token_file(data.tokens, file)});
    data.bytes += fs::file_size(file);
  }
  if (source.token_files.size() > 1)
    data.name += " and " + counted(static_cast<double>(source.token_files.size() - 1), "more file");
}

// Appends the tokens of a source.
void append(Dataset& data, Source& source, const TextFiles& filter) {
  if (!source.token_files.empty()) return append_token_files(data, source);
  Text& text = source.text;
  const size_t before = data.tokens.size();
  size_t unknown = 0;
  data.bytes += text.bytes.size();
  try {
    if (data.tokenizer.vocabulary() <= 1 << 8) append_text<uint8_t>(data, text, filter.unknown, unknown);
    else if (data.tokenizer.vocabulary() <= 1 << 16) append_text<uint16_t>(data, text, filter.unknown, unknown);
    else append_text<uint32_t>(data, text, filter.unknown, unknown);
  } catch (const NoToken& error) {
    fail_token(text, error, false);
  }
  data.notes.insert(data.notes.end(), text.notes.begin(), text.notes.end());
  if (unknown > 0) {
    data.notes.push_back(counted(static_cast<double>(unknown), "character") + " of " + text.name +
                         " not in the model's vocabulary: " +
                         (filter.unknown == Unknown::skip ? "skipped" : "replaced"));
    source.nats.clear();  // these are no longer the stories whose entropy is known
  }
  if (!source.nats.empty() && newlines(data, before, data.tokens.size()) != source.nats.size()) {
    data.notes.push_back("the floor is not known: the tokenizer joins the ends of stories with other text");
    source.nats.clear();
  }
}

// ---- windows ---------------------------------------------------------------------------------------------

// Adds windows side by side over tokens [first, end).
void add_windows(std::vector<TokenWindow>& windows, size_t first, size_t end, int T) {
  for (size_t start = first; start + 1 < end; start += T)
    windows.push_back({start, static_cast<int>(std::min<size_t>(T, end - 1 - start))});
}

// One window for each story in [first, end) that follows a '\n', starting at that '\n'. Returns no windows if a story
// is longer than T.
std::vector<TokenWindow> windows_by_story(const Dataset& data, size_t first, size_t end, int T) {
  const auto newline = static_cast<uint32_t>(data.tokenizer.newline());
  std::vector<TokenWindow> windows;
  for (size_t start = first; start < end;) {
    const size_t next = data.tokens.find(start, end, newline) + 1;
    if (next - start > static_cast<size_t>(T) || next > end) return {};
    if (start > 0 && data.tokens[start - 1] == newline)
      windows.push_back({start - 1, static_cast<int>(next - start)});
    start = next;
  }
  return windows;
}

// ---- the split -------------------------------------------------------------------------------------------

// Tokens [begin, end).
struct Stretch {
  size_t begin, end;
};

// The start of the line that `at` is in, or `at` if the line starts before `lowest`.
size_t line_start(const Dataset& data, size_t lowest, size_t at) {
  for (size_t i = at; i > lowest; --i)
    if (int(data.tokens[i - 1]) == data.tokenizer.newline()) return i;
  return at;
}

// The ends of up to 100 equal stretches, so few that each part has four contexts.
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

// Tokens, and -log P of their stories if it is known.
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

// Moves these parts of the tokens, and -log P of their stories, behind the others. `parts` becomes where they are then.
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
  for (Stretch& p : parts) p = {end, end + p.end - p.begin}, end = p.end;
  rest.tokens.append(moved.tokens, 0, moved.tokens.size());
  data.tokens = std::move(rest.tokens), nats = std::move(rest.nats);
  nats.insert(nats.end(), moved.nats.begin(), moved.nats.end());
}

// A hash of the tokens, as 16-bit numbers if they are not `wide`.
uint64_t fingerprint(const Tokens& tokens, bool wide) {
  uint64_t hash = rng::word("");
  tokens.for_each(0, tokens.size(), [&](auto token) {
    hash = rng::word_byte(rng::word_byte(hash, token & 0xff), token >> 8 & 0xff);
    if (wide) hash = rng::word_byte(rng::word_byte(hash, token >> 16 & 0xff), token >> 24);
  });
  return hash;
}

// Sets data.train and returns the stretches after it, which are for validation.
std::vector<Stretch> split(Dataset& data, std::vector<double>& nats, const TextOptions& options, int context) {
  if (options.val_split == ValSplit::spread && options.val_fraction > 0) {
    std::vector<Stretch> parts = spread_parts(data, options.val_fraction, context);
    move_behind(data, nats, parts);
    return parts;
  }
  data.train = static_cast<size_t>(static_cast<double>(data.tokens.size()) * (1 - options.val_fraction));
  if (!nats.empty()) data.train = line_start(data, 0, data.train);
  return {{data.train, data.tokens.size()}};
}

// `nats` ends with the -log P of the validation's stories, or is empty.
void set_validation(Dataset& data, const std::vector<double>& nats, const std::vector<Stretch>& parts, int context) {
  if (!nats.empty()) data.val = windows_by_story(data, data.train, data.tokens.size(), context);
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

}  // namespace

Dataset load_dataset(const TextOptions& options, const Tokenizer* tokenizer, int context) {
  const bool raw = tokenizer ? tokenizer->bpe() || tokenizer->pieces()
                             : !tokenizer_file_of(options.data.at(0), options.tokenizer).empty();
  Source source = open_source(options.data, options, raw), validation = open_validation(options, source, raw);
  const bool separate = !validation.empty();
  Dataset data;
  data.name = source.name();
  data.tokenizer = tokenizer ? *tokenizer : new_tokenizer(options, source, validation);
  data.separator = data.tokenizer.special(options.separator);
  append(data, source, options);
  std::vector<Stretch> parts;
  if (separate) {
    data.train = data.tokens.size();
    append(data, validation, options);
    parts = {{data.train, data.tokens.size()}};
  } else {
    parts = split(data, source.nats, options, context);
  }
  std::future<uint64_t> hash;  // one long chain, computed while other threads count
  if (source.token_files.empty())
    hash = std::async([tokens = data.tokens, wide = data.tokenizer.vocabulary() > 1 << 16] {
      return fingerprint(tokens, wide);
    });
  require_tokens(data.train, context + 1, "training with a context of " + std::to_string(context), data.name,
                 "give more text, or lower --context or --val-fraction");
  if (separate || options.val_fraction > 0) {
    require_tokens(data.tokens.size() - data.train, 2, "validation", separate ? validation.name() : data.name,
                   "give more text or raise --val-fraction");
    set_validation(data, separate ? validation.nats : source.nats, parts, context);
  }
  if (options.sampling == Draws::shuffle) {
    if (!source.nats.empty()) data.windows = windows_by_story(data, 0, data.train, context);
    if (data.windows.empty()) add_windows(data.windows, 0, data.train, context);
  }
  if (hash.valid()) data.fingerprint = hash.get();
  if (separate) data.fingerprint = rng::key({data.fingerprint, data.train});
  return data;
}

std::string tokenizer_of(const TextOptions& options) {
  const std::string file = tokenizer_file_of(options.data.at(0), options.tokenizer);
  return file.empty() || find_token_files(options.data, true).empty() ? options.tokenizer : file;
}

Dataset load_for_evaluation(const TextFiles& files, const Tokenizer& tokenizer, int context, int separator) {
  Source source = open_source(files.data, files, tokenizer.bpe() || tokenizer.pieces());
  Dataset data;
  data.name = source.name();
  data.tokenizer = tokenizer;
  data.separator = separator;
  append(data, source, files);
  require_tokens(data.tokens.size(), 2, "evaluation", data.name, "give more text");
  set_validation(data, source.nats, {{0, data.tokens.size()}}, context);
  return data;
}
