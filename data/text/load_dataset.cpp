#include "load_dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "data/corpus/corpus_files.hpp"
#include "data/corpus/translation.hpp"
#include "data/files/files.hpp"
#include "data/files/mapped_file.hpp"
#include "data/host/machine.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/stored_tokenizer.hpp"
#include "documents.hpp"
#include "layers/kernels/random.hpp"
#include "pairs.hpp"
#include "token_files.hpp"
#include "unread_options.hpp"

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// A text and its documents, with -log P of each if it is a generated corpus; or token files.
struct Source {
  Text text;
  bool pairs = false;               // each two documents are a pair
  std::vector<TextSpan> documents;  // their parts
  std::vector<double> nats;
  Names token_files;

  bool empty() const { return text.files.empty() && token_files.empty(); }
  // "all/train_000000.bin and 3 more files"
  std::string name() const {
    if (token_files.empty()) return text.name;
    const auto more = static_cast<double>(token_files.size() - 1);
    return one_line(token_files[0]) + (more > 0 ? " and " + counted(more, "more file") : "");
  }
};

// True if JSON lines are read as targets that follow from their sources.
bool translates(const JsonFields& fields) {
  if (fields.reads_pairs) return fields.source_field == "source" && fields.target_field == "target";
  return fields.prompt_field.name() == "source" && fields.completion_field.name() == "target" &&
         fields.learn == LearnedPart::completion;
}

// Returns the -log P of the lines of a generated corpus, or nothing if the text is something else. That of pairs is
// known if their targets are learned, and from their sources.
std::vector<double> nats_of(const Text& text, const JsonFields& fields) {
  if (text.files.size() != 1 || !fs::exists(nats_path(text.files[0].name))) return {};
  const Text::File& file = text.files[0];
  const bool has_columns = form_of(file.name) == PairForm::tabs;
  if (file.spans.empty()) return has_columns ? std::vector<double>() : read_nats(file.name, text.bytes);
  return translates(fields) ? read_nats(file.name, read_file(file.name)) : std::vector<double>();
}

Source read_source(const Names& paths, const TextFiles& filter, const Names& held_out) {
  Source source;
  source.text = read_text(paths, filter, held_out);
  source.pairs = filter.reads_pairs;
  source.nats = nats_of(source.text, filter);
  return source;
}

// Returns the tokenizer file in a folder, or next to a file, or "".
std::string tokenizer_file_beside(const std::string& path) {
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.bin"})
    if (fs::exists(folder / name)) return (folder / name).string();
  return "";
}

// Returns the tokenizer file for token files: the named one, or if none is named, the file next to them, or "".
std::string tokenizer_file_of(const std::string& path, const std::string& tokenizer) {
  if (names_file(tokenizer)) return tokenizer;
  return tokenizer.empty() ? tokenizer_file_beside(path) : "";
}

// Returns the token files for training and for validation.
Names find_all_tokens(const Names& paths, bool raw) {
  Names all = find_token_files(paths, raw);
  const Names validation = find_token_files(paths, raw, true);
  all.insert(all.end(), validation.begin(), validation.end());
  return all;
}

// If `raw`, a NAME.bin without a header holds tokens.
Source open_source(const Names& paths, const TextFiles& filter, bool raw, const Names& held_out = {}) {
  Source source;
  source.token_files = find_token_files(paths, raw);
  if (source.token_files.empty()) return read_source(paths, filter, held_out);
  if (filter.reads_pairs)
    throw std::runtime_error(source.token_files[0] + " holds tokens, and --objective pairs reads text: name files of "
                             "pairs");
  if (const Names repeated = remove_repeated(source.token_files); !repeated.empty())
    source.text.notes.push_back(note_of_repeated(repeated));
  if (const std::string note = note_of_texts_beside(paths, filter, find_all_tokens(paths, raw)); !note.empty())
    source.text.notes.push_back(note);
  const Names held = remove_held_out(source.token_files, find_token_files(held_out, raw));
  if (!held.empty()) source.text.notes.push_back(note_of_held_out(held));
  if (source.token_files.empty()) throw std::runtime_error("nothing is left to train on: " + note_of_held_out(held));
  return source;
}

// Opens the text of --val-data, or the validation token files in the folders of --data.
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

// The advice depends on whether the tokenizer is new or a checkpoint's.
[[noreturn]] void fail_token(const Text& text, const NoToken& error, bool new_tokenizer) {
  const char* advice = "convert the file or leave it out";
  if (new_tokenizer) advice = "convert the file, leave it out, or use --tokenizer byte, which reads anything";
  if (error.is_utf8) advice = NoToken::kAdvice;
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

// Returns the path of the tokenizer file for a token file.
std::string require_tokenizer_file(const std::string& file, const std::string& name) {
  const std::string found = tokenizer_file_of(file, name), beside = tokenizer_file_beside(file);
  if (!found.empty()) return found;
  if (!beside.empty())
    throw std::runtime_error(file + " holds tokens of " + beside + ", and not of --tokenizer " + name +
                             ": leave --tokenizer out");
  throw std::runtime_error(file + " holds tokens: name their tokenizer with --tokenizer FILE, or put its "
                                  "tokenizer.json next to them");
}

// A tokenizer, and the file it was read from, or "" if it came with a model.
struct Known {
  const Tokenizer& tokenizer;
  std::string file;

  std::string name() const { return file.empty() ? "the model's tokenizer" : file; }
};

// Throws if the tokenizer file next to the token files has other tokens. Token files without one are believed.
void require_same_tokens(Dataset& data, const Source& source, const Known& known) {
  std::set<std::string> seen = {known.file, ""};
  for (const std::string& file : source.token_files) {
    const std::string beside = tokenizer_file_beside(file);
    if (known.tokenizer.unread() || !seen.insert(beside).second) continue;
    int differs = -1;
    try {
      differs = first_other_token(known.tokenizer, read_tokenizer(beside));
    } catch (const std::runtime_error& error) {
      data.notes.push_back("the tokens of " + one_line(file) + " are read as those of " + one_line(known.name()) +
                           ": " + one_line(error.what()));
    }
    if (differs >= 0)
      throw std::runtime_error(file + " holds tokens of " + beside + ", which differs from " + known.name() +
                               " at token " + std::to_string(differs) + ": tokenize its text with " + known.name());
  }
}

// Makes the tokenizer that the options name. Its last tokens are these special tokens. Trains a byte-pair encoding on
// the whole text of --data, not on --val-data.
Tokenizer new_tokenizer(const TextOptions& options, const Source& source, const Source& validation,
                        const Names& special) {
  const std::string& name = options.tokenizer;
  const Text& text = source.text;
  if (name == "byte" || name.empty()) return Tokenizer::bytes().with_special(special);
  if (name == "char") return alphabet_of(text, validation.text).with_special(special);
  const int vocabulary = vocabulary_of_bpe(name);
  if (special.empty()) return train_tokenizer(text.bytes, vocabulary);
  return train_tokenizer(text_of_documents(text, source.documents), vocabulary, special);
}

// Encodes a text piece by piece, so that memory holds its tokens once. T is an unsigned integer of 8, 16 or 32 bits.
// Either the threads share the pieces, or encode() uses all threads for one piece.
template <class T>
std::vector<T> encoded(const Tokenizer& tokenizer, std::string_view text, Unknown unknown, size_t& count) {
  const bool shares = tokenizer.reads_token_files();
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

// Appends the tokens of a text without separators. Byte tokens need no encoding.
template <class T>
void append_text(Dataset& data, Text& text, Unknown unknown, size_t& count) {
  if (data.tokenizer.kind() == Tokenizer::Kind::byte) return data.tokens.append_bytes(std::move(text.bytes));
  data.tokens.append(encoded<T>(data.tokenizer, text.bytes, unknown, count));
}

// Reads the masks of the files, unless all tokens count.
void append_token_files(Dataset& data, const Source& source, bool all_count) {
  for (const std::string& file : source.token_files) {
    const TokenFileHash hash = append_token_file(data.tokens, file, all_count ? nullptr : &data.counted);
    data.fingerprint = rng::key({data.fingerprint, hash.sampled});
    data.token_files.push_back(hash.whole);
    data.bytes += fs::file_size(file);
  }
  if (data.counted.size() > 0 && data.counted.size() < data.tokens.size())
    data.counted.append(std::vector<uint8_t>(data.tokens.size() - data.counted.size(), 1));
}

// Finds the documents in tokens [begin, end), each of which begins with data.around.first.
std::vector<Stretch> documents_among(const Dataset& data, size_t begin, size_t end) {
  const auto first = static_cast<uint32_t>(data.around.first);
  const size_t shared = data.around.first == data.around.last ? 1 : 0;
  std::vector<Stretch> documents;
  for (size_t at = data.tokens.find(begin, end, first); at < end;) {
    const size_t next = data.tokens.find(at + 1, end, first);
    documents.push_back({at, std::min(next + shared, end)});
    at = next;
  }
  std::erase_if(documents, [](const Stretch& document) { return document.end - document.begin < 2; });
  return documents;
}

// Appends the tokens of a text, and returns its documents if it has separators.
std::vector<Stretch> append_source_text(Dataset& data, Source& source, Unknown unknown, size_t& count) {
  Text& text = source.text;
  if (data.around.first >= 0) return append_documents(data, text.bytes, source.documents, unknown, count);
  if (data.tokenizer.vocabulary() <= 1 << 8) append_text<uint8_t>(data, text, unknown, count);
  else if (data.tokenizer.vocabulary() <= 1 << 16) append_text<uint16_t>(data, text, unknown, count);
  else append_text<uint32_t>(data, text, unknown, count);
  return {};
}

// Returns the targets of pairs, with their sources. The token that begins a source is not read.
std::vector<Document> paired(const std::vector<Stretch>& stretches) {
  std::vector<Document> pairs;
  for (size_t i = 0; i + 1 < stretches.size(); i += 2)
    pairs.push_back({.tokens = stretches[i + 1], .source = {stretches[i].begin + 1, stretches[i].end}});
  return pairs;
}

// Appends the tokens of a source. Returns its documents if there are separators.
std::vector<Document> append(Dataset& data, Source& source, const TextFiles& filter) {
  Text& text = source.text;
  if (data.documents != kEndOfText) note_special_tokens(text, data.tokenizer);
  data.notes.insert(data.notes.end(), text.notes.begin(), text.notes.end());
  const size_t before = data.tokens.size();
  size_t unknown = 0;
  std::vector<Stretch> stretches;
  if (!source.token_files.empty()) {
    append_token_files(data, source, filter.learn == LearnedPart::all);
    if (data.packing != Packing::stream) stretches = documents_among(data, before, data.tokens.size());
  } else {
    data.tokenizer.require_text();
    data.bytes += text.bytes.size();
    try {
      stretches = append_source_text(data, source, filter.unknown, unknown);
    } catch (const NoToken& error) {
      fail_token(text, error, false);
    }
  }
  if (unknown > 0) {
    data.notes.push_back(counted(static_cast<double>(unknown), "character") + " of " + text.name +
                         " not in the model's vocabulary: " + data.tokenizer.done_with(filter.unknown));
    source.nats.clear();  // these stories' -log P is no longer known
  }
  std::vector<Document> documents = source.pairs ? paired(stretches) : std::vector<Document>();
  for (size_t i = 0; !source.pairs && i < stretches.size(); ++i) documents.push_back({stretches[i]});
  for (size_t i = 0; i < std::min(documents.size(), source.nats.size()); ++i) documents[i].nats = source.nats[i];
  return documents;
}

// Hashes the tokens, as 32-bit numbers if `wide`, else as 16-bit numbers.
uint64_t fingerprint(const Tokens& tokens, bool wide) {
  uint64_t hash = rng::word("");
  tokens.for_each(0, tokens.size(), [&](auto token) {
    hash = rng::word_byte(rng::word_byte(hash, token & 0xff), token >> 8 & 0xff);
    if (wide) hash = rng::word_byte(rng::word_byte(hash, token >> 16 & 0xff), token >> 24);
  });
  return hash;
}

// Hashes on another thread, or on fetching the result if no thread can start. std::async must not choose by itself:
// libstdc++ then passes on a function that it has already moved from.
std::future<uint64_t> begin_fingerprint(const Dataset& data) {
  const auto work = [tokens = data.tokens, wide = data.tokenizer.vocabulary() > 1 << 16] {
    return fingerprint(tokens, wide);
  };
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

// Finds the documents of a text. The -log P of stories is of no use unless each is a document.
void find_documents(Source& source, const std::string& how) {
  source.documents = find_documents(source.text, how);
  const auto documents = std::ranges::count_if(source.documents, [](const TextSpan& part) { return part.is_first; });
  if (static_cast<size_t>(documents) != source.nats.size() * (source.pairs ? 2 : 1)) source.nats.clear();
}

// Counts words as `wc -w` does.
size_t count_words(const Source& source) {
  size_t words = 0;
  for (const TextSpan& part : source.documents) {
    bool inside = false;
    for (const char c : std::string_view(source.text.bytes).substr(part.begin, part.end - part.begin)) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      words += inside < !space;
      inside = !space;
    }
  }
  return words;
}

// The end of the tokens to validate on. Nothing follows the last document of a text, so its end is no target.
size_t end_of_stream(const Dataset& data, const Source& source) {
  return data.tokens.size() - (source.token_files.empty() && data.around.last >= 0 ? 1 : 0);
}

bool have_masks(const Names& token_files) { return std::any_of(token_files.begin(), token_files.end(), has_mask); }

// Decides where documents end and what fills a row, where that is open. Without a token that ends them, the stories of
// a corpus are one text. `known` is the tokenizer, or null if it will be made for the text.
void decide_documents(Dataset& data, const DocumentOptions& how, Source& source, const Tokenizer* known) {
  const bool separates = !how.separator.empty() || !known || !known->separator().empty();
  if (!source.nats.empty() && !separates && how.documents.empty())
    data.notes.push_back("the floor is not known: the tokenizer has no special token that ends a story");
  data.documents = how.documents;
  if (data.documents.empty()) data.documents = source.nats.empty() || !separates ? kDocuments[0] : kDocuments[1];
  const auto& files = source.text.files;
  const bool whole_files = std::all_of(files.begin(), files.end(), [](const Text::File& f) { return f.spans.empty(); });
  const bool by_file = data.documents == kDocuments[0] && whole_files && !have_masks(source.token_files);
  data.packing = how.packing.value_or(by_file ? Packing::stream : Packing::documents);
  if (source.pairs && data.packing == Packing::stream)
    throw std::runtime_error("--packing stream reads no pairs: choose documents or padded");
  if (source.token_files.empty()) find_documents(source, data.documents);
}

// True if the documents need a token that ends them.
bool needs_separator(const Dataset& data, const TextOptions& options, const Source& source) {
  return source.documents.size() > 1 || data.packing != Packing::stream || options.chat || options.hides_spans;
}

// Sets the tokens around documents.
void set_separator(Dataset& data, const std::string& name) {
  data.around = data.has_sources ? tokens_around_pairs(data.tokenizer, name) : data.tokenizer.around(name);
  if (data.spans.on() && data.around.begin >= 0)
    throw std::runtime_error("--objective span has no place for the token with which this tokenizer begins each text");
  if (data.around.first >= 0 || (data.packing == Packing::stream && !data.has_sources)) return;
  throw std::runtime_error("the tokenizer has no special token that ends a document: name one with "
                           "--document-separator, or read all documents as one with --packing stream");
}

// Windows of a stream begin and end anywhere, so that a prompt would be no use for its completion.
void require_all_counted(const Dataset& data, const char* advice) {
  if (data.masking.on() && data.counted.size() > 0)
    throw std::runtime_error("--objective mlm masks tokens anywhere, and " + data.name +
                             " has prompts that do not count: add --loss all");
  if (data.spans.on() && data.counted.size() > 0)
    throw std::runtime_error("--objective span hides spans anywhere, and " + data.name +
                             " has prompts that do not count: add --loss all");
  if (data.packing == Packing::stream && data.counted.size() > 0)
    throw std::runtime_error(std::string("--packing stream cannot leave prompts out of the loss: ") + advice);
}

const char* document_of(const Dataset& data) { return data.has_sources ? "pair that fits the context" : "document"; }

void require_documents(const Dataset& data, bool validates) {
  const std::string document = document_of(data);
  if (data.rows.empty()) throw std::runtime_error("there is no " + document + " to train on in " + data.name);
  if (validates && data.val.empty())
    throw std::runtime_error("there is no " + document + " for validation in " + data.name +
                             ": give more text, raise --val-fraction, or set it to 0");
}

void require_no_chat(const TextOptions& options) {
  if (options.reads_pairs && options.chat)
    throw std::runtime_error("--chat-template is for conversations: leave it out with --objective pairs");
}

constexpr const char* kMasksNeeded = "token [MASK] or <mask>, which --objective mlm needs";
constexpr const char* kSentinelsNeeded = "tokens <extra_id_0> and <extra_id_1>, which --objective span needs";

bool has_sentinels(const Tokenizer& tokenizer) { return spans_with(tokenizer).sentinels.size() > 1; }

// Adds the special tokens that the objective needs, unless the tokenizer has them.
Tokenizer with_objective(const Tokenizer& tokenizer, const DocumentOptions& how, int context) {
  if (how.mask_fraction > 0)
    return mask_name(tokenizer).empty() ? tokenizer.with_special({kMaskName}) : tokenizer;
  if (how.hides_spans)
    return has_sentinels(tokenizer) ? tokenizer : tokenizer.with_special(sentinel_names(context));
  return tokenizer;
}

// Sets what the objective hides.
void set_hidden(Dataset& data, const DocumentOptions& how, int context) {
  const bool masks = how.mask_fraction > 0;
  const bool lacks = masks ? mask_name(data.tokenizer).empty() : how.hides_spans && !has_sentinels(data.tokenizer);
  if (lacks)
    throw std::runtime_error("the model's tokenizer has no " + std::string(masks ? kMasksNeeded : kSentinelsNeeded) +
                             ": use one that has");
  if (masks) data.masking = masking_with(data.tokenizer, how.mask_fraction);
  if (how.hides_spans) data.spans = spans_with(data.tokenizer);
  data.has_sources = data.has_sources || how.hides_spans;
  if (data.window_length(context) == 0)
    throw std::runtime_error("--objective span needs a --context of at least 4, not " + std::to_string(context));
}

// Chooses or makes the tokenizer, and the token that separates documents. `known` is null, or the tokenizer.
void choose_tokenizer(Dataset& data, const TextOptions& options, const Tokenizer* known, const Source& source,
                      const Source& validation, int context) {
  std::string separator = options.separator;
  if (separator.empty() && needs_separator(data, options, source)) separator = known ? known->separator() : kEndOfText;
  Names special = options.chat ? options.chat->special_names() : Names();
  if (!separator.empty()) special.insert(special.begin(), separator);
  data.tokenizer = known ? known->finding_special(options.finds_special)
                         : new_tokenizer(options, source, validation, special);
  data.tokenizer = with_objective(data.tokenizer, options, context);
  set_hidden(data, options, context);
  set_separator(data, separator);
  if (options.chat) require_tokens(*options.chat, data.tokenizer);
}

// Throws if the stream is too short for a row.
void require_stream(const Dataset& data, const std::string& name_of_validation, bool validates, int context) {
  require_tokens(data.train, data.window_length(context) + 1,
                 "training with a context of " + std::to_string(context), data.name,
                 "give more text, or lower --context or --val-fraction");
  if (validates)
    require_tokens(data.val_tokens(), 2, "validation", name_of_validation,
                   "give more text or raise --val-fraction");
}

const Tokenizer* pointer_to(const std::optional<Tokenizer>& tokenizer) { return tokenizer ? &*tokenizer : nullptr; }

// Returns the options with the chat template that suits the tokenizer; null: a new one.
template <class Options>
Options with_usual_chat(Options options, const Tokenizer* tokenizer) {
  options.usual_chat = &usual_chat_template(tokenizer);
  return options;
}

// `options` have the template of the training text.
void require_same_chat(const TextOptions& options, const Text& validation) {
  if (validation.chat && !options.chat)
    throw std::runtime_error("there are conversations in --val-data only: name a --chat-template for the prompts, too");
}

// What the options are about, after reading.
ReadText facts_of(const Dataset& data, const Source& source, const Source& validation, const Tokenizer* known) {
  ReadText facts = {.tokenizer = data.tokenizer, .has_known_tokenizer = known != nullptr, .packing = data.packing};
  for (const Source* part : {&source, &validation}) {
    facts.has_token_files |= !part->token_files.empty();
    facts.has_answers |= part->text.has_answers || have_masks(part->token_files);
    for (const Text::File& file : part->text.files) (file.spans.empty() ? facts.has_plain : facts.has_lines) = true;
  }
  facts.has_val_token_files = !validation.token_files.empty();
  return facts;
}

void note_unread(Dataset& data, const TextOptions& options, const ReadText& facts) {
  const std::vector<std::string> lines = unread_options(options, facts);
  data.notes.insert(data.notes.end(), lines.begin(), lines.end());
}

// What the text is split into: documents, or stretches of a stream for validation.
struct Parts {
  DocumentSplit documents;
  std::vector<Stretch> validation;
};

// Appends the tokens of both texts. Without a second one, a part of the first is for validation.
Parts append_parts(Dataset& data, Source& source, Source& validation, const TextOptions& options, int context) {
  std::vector<Document> documents = append(data, source, options);
  if (!validation.empty()) {
    data.train = data.tokens.size();
    std::vector<Document> more = append(data, validation, options);
    return {{std::move(documents), std::move(more)}, {{data.train, end_of_stream(data, validation)}}};
  }
  if (data.packing == Packing::stream) return {{}, split_stream(data, options, context)};
  DocumentSplit split = split_documents(documents, options);
  if (const std::string note = note_of_share(split, options); !note.empty()) data.notes.push_back(note);
  return {std::move(split), {}};
}

}  // namespace

Dataset load_dataset(const TextOptions& given, const Tokenizer* tokenizer, int context) {
  std::optional<Tokenizer> from_file;
  if (!tokenizer && names_file(given.tokenizer)) from_file = read_tokenizer(given.tokenizer);
  require_no_chat(given);
  TextOptions options = with_usual_chat(given, tokenizer ? tokenizer : pointer_to(from_file));
  const bool raw = tokenizer ? tokenizer->reads_token_files()
                             : !tokenizer_file_of(options.data.at(0), options.tokenizer).empty();
  Source source = open_source(options.data, options, raw, options.val_data);
  if (source.text.chat) options.chat = source.text.chat;
  Source validation = open_validation(options, source, raw);
  require_same_chat(options, validation.text);
  const bool separate = !validation.empty(), validates = separate || options.val_fraction > 0;
  note_copies(source.text, validation.text);
  Dataset data;
  data.name = source.name();
  data.has_sources = source.pairs;
  data.chat = source.token_files.empty() ? source.text.chat : options.chat;
  std::string file = from_file ? given.tokenizer : "";
  if (!tokenizer && !from_file && !source.token_files.empty()) {
    file = require_tokenizer_file(source.token_files[0], options.tokenizer);
    from_file = read_tokenizer(file);
  }
  const Tokenizer* known = tokenizer ? tokenizer : pointer_to(from_file);
  for (const Source* part : {&source, &validation})
    if (known) require_same_tokens(data, *part, {*known, file});
  decide_documents(data, options, source, known);
  if (options.data_limit == 0) data.words = count_words(source);
  if (separate) find_documents(validation, data.documents);
  choose_tokenizer(data, options, known, source, validation, context);
  note_unread(data, given, facts_of(data, source, validation, known));
  Parts parts = append_parts(data, source, validation, options, context);
  require_all_counted(data, "use --packing documents, or --loss all");
  std::future<uint64_t> hash;  // a sequential hash, computed while other threads count
  if (source.token_files.empty()) hash = begin_fingerprint(data);
  const Source& of_validation = separate ? validation : source;
  if (data.packing == Packing::stream) {
    require_stream(data, of_validation.name(), validates, context);
    data.left_out = limit_stream(data, options, context);
    set_stream_rows(data, validates ? parts.validation : std::vector<Stretch>(), options.sampling, context);
  } else {
    data.left_out = limit_documents(parts.documents.train, options);
    set_document_rows(data, parts.documents, !of_validation.nats.empty(), context);
    require_documents(data, validates);
  }
  if (hash.valid()) data.fingerprint = hash.get();
  if (separate) data.fingerprint = rng::key({data.fingerprint, data.train + data.left_out});
  for (const Source* part : {&source, &validation})  // they decide the floor
    if (!part->nats.empty())
      data.fingerprint = rng::key({data.fingerprint, hash_bytes(0, part->nats.data(), 8 * part->nats.size())});
  require_mapped_files();
  return data;
}

std::string tokenizer_of(const TextOptions& options) {
  const std::string file = tokenizer_file_of(options.data.at(0), options.tokenizer);
  if (!file.empty() && !find_token_files(options.data, true).empty()) return file;
  return options.tokenizer.empty() ? "byte" : options.tokenizer;
}

Dataset load_for_evaluation(const TextFiles& given, const Tokenizer& tokenizer, int context,
                            const DocumentOptions& how) {
  const TextFiles files = with_usual_chat(given, &tokenizer);
  Source source = open_source(files.data, files, tokenizer.reads_token_files());
  Dataset data;
  data.name = source.name();
  data.has_sources = source.pairs;
  data.chat = source.text.chat;
  if (data.chat) require_tokens(*data.chat, tokenizer);
  require_same_tokens(data, source, {tokenizer, ""});
  decide_documents(data, how, source, &tokenizer);
  data.tokenizer = tokenizer.finding_special(files.finds_special);
  set_hidden(data, how, context);
  set_separator(data, how.separator);
  TextOptions options;  // the others are the model's
  static_cast<TextFiles&>(options) = given;
  note_unread(data, options, facts_of(data, source, {}, &tokenizer));
  const std::vector<Document> documents = append(data, source, files);
  require_all_counted(data, "the model has learned a stream of text; --loss all counts them, too");
  if (data.packing == Packing::stream) {
    require_tokens(data.tokens.size(), 2, "evaluation", data.name, "give more text");
    set_stream_rows(data, {{0, end_of_stream(data, source)}}, Draws::random, context);
  } else {
    set_document_rows(data, {{}, documents}, !source.nats.empty(), context);
    if (data.val.empty())
      throw std::runtime_error("there is no " + std::string(document_of(data)) + " in " + data.name);
  }
  require_mapped_files();
  return data;
}
