#include "tokenize.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/files/gguf_keys.hpp"
#include "data/files/partial_files.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "data/text/documents.hpp"
#include "data/text/token_files.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_json.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"

namespace fs = std::filesystem;

namespace {

// Writes the files PREFIX_000000.bin, PREFIX_000001.bin, ..., and next to each a mask if some tokens do not count.
class Shards {
 public:
  Shards(std::string prefix, size_t most, bool wide) : prefix_(std::move(prefix)), most_(most), wide_(wide) {}

  void add(const Dataset& data, size_t begin, size_t end) {
    size_t at = begin;
    data.tokens.for_each(begin, end, [&](uint32_t token) {
      tokens_.push_back(token);
      counted_.push_back(data.counted.size() == 0 || data.counted[at] != 0);
      ++at;
      if (tokens_.size() == most_) finish();
    });
    total_ += end - begin;
  }

  void finish() {
    if (tokens_.empty()) return;
    char number[32];
    std::snprintf(number, sizeof number, "_%06zu.bin", files_++);
    write_token_file(prefix_ + number, tokens_, wide_);
    if (std::find(counted_.begin(), counted_.end(), 0) != counted_.end()) write_mask(prefix_ + number, counted_);
    tokens_.clear();
    counted_.clear();
  }

  size_t total() const { return total_; }
  size_t files() const { return files_; }

 private:
  std::string prefix_;
  size_t most_, files_ = 0, total_ = 0;
  bool wide_;
  std::vector<uint32_t> tokens_;
  std::vector<uint8_t> counted_;
};

// True for names such as "train_000000.bin", which Shards gives its files.
bool is_shard(const std::string& name) {
  for (const std::string start : {"train_", "val_"}) {
    if (!name.starts_with(start) || !name.ends_with(".bin") || name.size() < start.size() + 10) continue;
    const std::string number = name.substr(start.size(), name.size() - start.size() - 4);
    if (number.find_first_not_of("0123456789") == number.npos) return true;
  }
  return false;
}

// Returns the files of an earlier output in the folder. Throws if the folder has other files that `train` would read
// together with the new ones.
std::vector<std::string> earlier_tokens(const std::string& folder) {
  std::vector<std::string> files, tokenizers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path().string(), name = entry.path().filename().string();
    const bool tokenizer = std::ranges::find(kBesideTokens, name) != std::end(kBesideTokens);
    if (tokenizer || is_shard(name)) check_output(path, true);
    const bool shard = is_shard(name) && has_token_header(path);
    if (tokenizer) tokenizers.push_back(path);
    else if (shard) files.push_back(path);
    else if (is_mask(path)) files.push_back(path);
    else if (name.ends_with(".bin") || has_token_header(path))
      throw std::runtime_error("cannot replace " + path + ": tokenize did not write it, and train would read it with " +
                               "the new tokens; remove it or choose another --out");
  }
  if (files.empty() && !tokenizers.empty())
    throw std::runtime_error("cannot replace " + tokenizers[0] + ": it does not belong to earlier tokens; remove it " +
                             "or choose another --out");
  files.insert(files.end(), tokenizers.begin(), tokenizers.end());
  return files;
}

// Returns the files that --force replaces: all of an earlier output, so that `train` reads none of them.
std::vector<std::string> replaced_files(const TokenizeOptions& o) {
  if (!fs::exists(o.out) || fs::is_empty(o.out)) return {};
  if (!o.force)
    throw std::invalid_argument(o.out + " is not empty: choose another --out, or overwrite it with --force");
  for (const std::string& path : o.data) will_read(path, o.out);
  if (names_file(o.tokenizer)) will_read(o.tokenizer, "");
  return earlier_tokens(o.out);
}

// Reads or trains the tokenizer. `source` receives the file it was read from.
Tokenizer tokenizer_for(const TokenizeOptions& o, std::string& source) {
  const int vocabulary = vocabulary_of_bpe(o.tokenizer);
  if (vocabulary == 0) {
    const bool file = o.tokenizer != "byte" && o.tokenizer != "char";
    const Tokenizer found = file ? read_tokenizer(o.tokenizer, &source) : Tokenizer();
    if (found.bpe() || found.pieces()) return found.finding_special(o.finds_special);
    throw std::invalid_argument("token files need a byte-pair encoding: --tokenizer bpe:4096, or a tokenizer.json, "
                                "tokenizer.model or GGUF file that has one");
  }
  const Text text = read_text(o.data, o);
  std::vector<std::string> special = text.chat ? text.chat->special_names() : std::vector<std::string>();
  special.insert(special.begin(), o.separator);
  require_separator(text, o.documents);
  return train_tokenizer(text_of_documents(text, find_documents(text, o.documents)), vocabulary, special);
}

// Returns the tokens around a document. If the tokenizer lacks the default separator, uses its own, or none.
DocumentTokens around_documents(const TokenizeOptions& o, const Tokenizer& tokenizer) {
  try {
    return tokenizer.around(o.separator);
  } catch (const std::runtime_error&) {
    if (o.separator != TokenizeOptions().separator) throw;
    return tokenizer.around(tokenizer.separator());
  }
}

// The files tell documents apart by the token between them.
void require_one_end(const std::vector<TextSpan>& parts, const std::string& name) {
  for (const TextSpan& part : parts)
    if (is_document_end(part.token))
      throw std::runtime_error(name + ", line " + std::to_string(part.line) + ": in token files, the end of an " +
                               "answer would end the conversation: use --chat-template chatml, or train on the text");
}

// The tokens of a text, and its documents.
struct Tokenized {
  Dataset data;
  std::vector<Stretch> documents;
  bool whole_files = false;  // each document is a file
};

// Reads a path of --data, without files that `earlier` paths had. The text has no file if none is new.
Text text_of(TokenizeOptions o, const Tokenizer& tokenizer, const std::string& path,
             const std::vector<std::string>& earlier) {
  o.usual_chat = &usual_chat_template(&tokenizer);
  Text text = read_text({path}, o, earlier);
  if (!text.held_out.empty()) text.notes.push_back(note_of_repeated(text.held_out));
  if (o.documents != o.separator) note_special_tokens(text, tokenizer);
  for (const std::string& note : text.notes) print_note(note);
  return text;
}

Tokenized tokenized(const TokenizeOptions& o, const Tokenizer& tokenizer, const Text& text) {
  Tokenized t;
  t.data.tokenizer = tokenizer;
  t.data.around = around_documents(o, tokenizer);
  t.data.bytes = text.bytes.size();
  size_t unknown = 0;
  if (t.data.around.first >= 0) {
    require_separator(text, o.documents);
    const std::vector<TextSpan> parts = find_documents(text, o.documents);
    if (t.data.around.first == t.data.around.last) require_one_end(parts, text.name);
    t.documents = append_documents(t.data, text.bytes, parts, o.unknown, unknown);
    t.whole_files = t.documents.size() <= text.files.size();
  } else {
    t.data.tokens.append(tokenizer.encode(text.bytes, o.unknown, &unknown));
    t.documents = {{0, t.data.tokens.size()}};
    t.whole_files = true;
  }
  if (unknown > 0)
    print_note(counted(static_cast<double>(unknown), "character") + " of " + text.name + " not in the vocabulary: " +
               tokenizer.done_with(o.unknown));
  return t;
}

// The same, with the place in the text in the error for a character without a token.
Tokenized tokenized_at(const TokenizeOptions& o, const Tokenizer& tokenizer, const Text& text) {
  try {
    return tokenized(o, tokenizer, text);
  } catch (const NoToken& error) {
    throw std::runtime_error(text.place(error.at) + ": " + error.what() + "; " + NoToken::kAdvice);
  }
}

// Returns where validation begins: at a document, unless documents are files.
size_t validation_of(const Tokenized& text, double fraction) {
  const size_t begin = text.documents.front().begin, end = text.documents.back().end;
  const auto at = begin + static_cast<size_t>(static_cast<double>(end - begin) * (1 - fraction));
  if (text.whole_files || fraction == 0) return at;
  const auto after = std::find_if(text.documents.begin(), text.documents.end(),
                                  [&](const Stretch& document) { return document.begin >= at; });
  return after == text.documents.end() ? end : after->begin;
}

// Returns a tokenizer.json, the bytes of SentencePiece's or llama2.c's file, or llama2.c's file for pieces from GGUF.
std::string tokenizer_file(const Tokenizer& tokenizer, const std::string& source) {
  constexpr size_t kLargestFile = 1 << 28;
  if (tokenizer.bpe()) return to_json(*tokenizer.bpe());
  return is_gguf(source) ? to_llama2c(*tokenizer.pieces()) : read_file(source, kLargestFile);
}

// Writes it under the name that `train` looks for.
void write_tokenizer(const TokenizeOptions& o, const Tokenizer& tokenizer, const std::string& file) {
  const char* name = is_sentencepiece_model(file) ? "/tokenizer.model" : "/tokenizer.bin";
  write_file(o.out + (tokenizer.bpe() ? "/tokenizer.json" : name), file);
}

}  // namespace

// Reads one of --data at a time, so that only the largest has to fit into memory.
void run_tokenize(const TokenizeOptions& o) {
  use_threads(o.threads);
  const std::vector<std::string> replaced = replaced_files(o);
  std::string source;
  const Tokenizer tokenizer = tokenizer_for(o, source);
  const std::string own_file = tokenizer_file(tokenizer, source);
  const DocumentTokens around = around_documents(o, tokenizer);
  make_folder(o.out);
  PublishTogether files(replaced);
  const bool wide = tokenizer.vocabulary() > 1 << 16;
  Shards train(o.out + "/train", static_cast<size_t>(o.shard_tokens), wide);
  Shards val(o.out + "/val", static_cast<size_t>(o.shard_tokens), wide);
  const Stopwatch clock;
  size_t bytes = 0, documents = 0;
  std::vector<std::string> earlier;
  Copies copies;
  for (const std::string& path : o.data) {
    const Text source = text_of(o, tokenizer, path, earlier);
    earlier.push_back(path);
    if (source.files.empty()) continue;
    copies.add(source);
    const Tokenized text = tokenized_at(o, tokenizer, source);
    const bool shared = around.first >= 0 && around.first == around.last;  // with the text before
    const size_t split = validation_of(text, o.val_fraction), all = text.data.tokens.size();
    const bool ends = shared && !text.whole_files && split < all;  // the token there ends the last document, too
    train.add(text.data, shared && train.total() > 0 ? 1 : 0, split + (ends ? 1 : 0));
    val.add(text.data, split, all);
    bytes += text.data.bytes;
    documents += text.documents.size();
  }
  if (const std::string note = copies.note(); !note.empty()) print_note(note);
  train.finish();
  val.finish();
  write_tokenizer(o, tokenizer, own_file);
  files.publish();
  const auto count = [](size_t n, const char* what) { return counted(static_cast<double>(n), what); };
  std::printf("%s: %s: %s to train on in %s, %s to validate in %s (%s in %.1f s), vocabulary %d\n", o.out.c_str(),
              count(documents, "document").c_str(), count(train.total(), "token").c_str(),
              count(train.files(), "file").c_str(), format_short(static_cast<double>(val.total())).c_str(),
              count(val.files(), "file").c_str(), format_bytes(bytes).c_str(), clock.seconds(),
              tokenizer.vocabulary());
}
