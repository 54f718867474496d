#include "load_dataset.hpp"

#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "append_source.hpp"
#include "data/files/files.hpp"
#include "data/files/mapped_file.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "data/text/readers/pairs.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "documents.hpp"
#include "layers/kernels/random.hpp"
#include "text_source.hpp"
#include "token_files.hpp"
#include "unread_options.hpp"

namespace {

using Names = std::vector<std::string>;

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

// A tokenizer, and the file it was read from, or "" if it came with a model.
struct Known {
  const Tokenizer& tokenizer;
  std::string file;

  std::string name() const { return file.empty() ? "the model's tokenizer" : file; }
};

// Throws if the tokenizer file next to the token files has other tokens. Token files without one are believed.
void require_same_tokens(Dataset& data, const TextSource& source, const Known& known) {
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
Tokenizer new_tokenizer(const TextOptions& options, const TextSource& source, const TextSource& validation,
                        const Names& special) {
  const std::string& name = options.tokenizer;
  const Text& text = source.text;
  if (name == "byte" || name.empty()) return Tokenizer::bytes().with_special(special);
  if (name == "char") return alphabet_of(text, validation.text).with_special(special);
  const int vocabulary = vocabulary_of_bpe(name);
  if (special.empty()) return train_tokenizer(text.bytes, vocabulary);
  return train_tokenizer(text_of_documents(text, source.documents), vocabulary, special);
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
void find_documents(TextSource& source, const std::string& how) {
  source.documents = find_documents(source.text, how);
  const auto documents = std::ranges::count_if(source.documents, [](const TextSpan& part) { return part.is_first; });
  if (static_cast<size_t>(documents) != source.nats.size() * (source.pairs ? 2 : 1)) source.nats.clear();
}

// A text to validate on may be one document.
void note_one_document(Dataset& data, const TextSource& source) {
  const bool lines = std::ranges::none_of(source.text.files, [](const Text::File& f) { return f.spans.empty(); });
  if (source.token_files.empty() && !lines && lacks_separator(source.text, data.documents))
    data.notes.push_back("there is no " + data.documents + " in " + source.text.name + ": each file is one document");
}

// Counts words as `wc -w` does.
size_t count_words(const TextSource& source) {
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
size_t end_of_stream(const Dataset& data, const TextSource& source) {
  return data.tokens.size() - (source.token_files.empty() && data.around.last >= 0 ? 1 : 0);
}

bool have_masks(const Names& token_files) { return std::any_of(token_files.begin(), token_files.end(), has_mask); }

// Decides where documents end and what fills a row, where that is open. Without a token that ends them, the stories of
// a corpus are one text. `known` is the tokenizer, or null if it will be made for the text.
void decide_documents(Dataset& data, const DocumentOptions& how, TextSource& source, const Tokenizer* known) {
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
bool needs_separator(const Dataset& data, const TextOptions& options, const TextSource& source) {
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

// Windows of a stream begin and end anywhere, so that a prompt would be no use for its completion. Without a token
// between documents, `data` does not even say where prompts are: `has_prompts` does.
void require_all_counted(const Dataset& data, bool has_prompts, const char* advice) {
  if (data.counted.size() == 0 && !has_prompts) return;
  const char* hides = data.masking.on() ? "mlm masks tokens" : data.spans.on() ? "span hides spans" : nullptr;
  if (hides)
    throw std::runtime_error(std::string("--objective ") + hides + " anywhere, and " + data.name +
                             " has prompts that do not count: add --loss all");
  if (data.packing == Packing::stream)
    throw std::runtime_error(std::string("--packing stream cannot leave prompts out of the loss: ") + advice);
}

const char* document_of(const Dataset& data) {
  return data.has_sources && !data.spans.on() ? "pair that fits the context" : "document";
}

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
void choose_tokenizer(Dataset& data, const TextOptions& options, const Tokenizer* known, const TextSource& source,
                      const TextSource& validation, int context) {
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
ReadText facts_of(const Dataset& data, const TextSource& source, const TextSource& validation, const Tokenizer* known) {
  ReadText facts = {.tokenizer = data.tokenizer, .has_known_tokenizer = known != nullptr, .packing = data.packing};
  for (const TextSource* part : {&source, &validation}) {
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
Parts append_parts(Dataset& data, TextSource& source, TextSource& validation, const TextOptions& options, int context) {
  std::vector<Document> documents = append_source(data, source, options);
  if (!validation.empty()) {
    data.train = data.tokens.size();
    std::vector<Document> more = append_source(data, validation, options);
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
  TextSource source = open_source(options.data, options, raw, options.val_data);
  if (source.text.chat) options.chat = source.text.chat;
  TextSource validation = open_validation(options, source, raw);
  require_same_chat(options, validation.text);
  const bool separate = !validation.empty(), validates = separate || options.val_fraction > 0;
  Copies copies;
  copies.add(source.text);
  copies.add(validation.text);
  if (const std::string note = copies.note(); !note.empty()) source.text.notes.push_back(note);
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
  for (const TextSource* part : {&source, &validation})
    if (known) require_same_tokens(data, *part, {*known, file});
  decide_documents(data, options, source, known);
  if (source.token_files.empty()) require_separator(source.text, data.documents);
  if (options.data_limit == 0) data.words = count_words(source);
  if (separate) find_documents(validation, data.documents);
  if (separate) note_one_document(data, validation);
  choose_tokenizer(data, options, known, source, validation, context);
  note_unread(data, given, facts_of(data, source, validation, known));
  Parts parts = append_parts(data, source, validation, options, context);
  const bool has_prompts = options.learn == LearnedPart::completion &&
                           (source.text.has_answers || validation.text.has_answers);
  require_all_counted(data, has_prompts, "use --packing documents, or --loss all");
  std::future<uint64_t> hash;  // a sequential hash, computed while other threads count
  if (source.token_files.empty()) hash = begin_fingerprint(data);
  const TextSource& of_validation = separate ? validation : source;
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
  for (const TextSource* part : {&source, &validation})  // they decide the floor
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
  TextSource source = open_measured(files.data, files, tokenizer.reads_token_files());
  Dataset data;
  data.name = source.name();
  data.has_sources = source.pairs;
  data.chat = source.text.chat;
  if (data.chat) require_tokens(*data.chat, tokenizer);
  require_same_tokens(data, source, {tokenizer, ""});
  decide_documents(data, how, source, &tokenizer);
  note_one_document(data, source);
  data.tokenizer = tokenizer.finding_special(files.finds_special);
  set_hidden(data, how, context);
  set_separator(data, how.separator);
  TextOptions options;  // the others are the model's
  static_cast<TextFiles&>(options) = given;
  note_unread(data, options, facts_of(data, source, {}, &tokenizer));
  const std::vector<Document> documents = append_source(data, source, files);
  const bool has_prompts = files.learn == LearnedPart::completion && source.text.has_answers;
  require_all_counted(data, has_prompts, "the model has learned a stream of text; --loss all counts them, too");
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
