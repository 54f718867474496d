#include "append_source.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "data/files/files.hpp"
#include "data/host/machine.hpp"
#include "data/strings/format.hpp"
#include "documents.hpp"
#include "layers/kernels/random.hpp"
#include "token_files.hpp"

namespace fs = std::filesystem;

namespace {

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
void append_token_files(Dataset& data, const TextSource& source, bool all_count) {
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
std::vector<Stretch> append_source_text(Dataset& data, TextSource& source, Unknown unknown, size_t& count) {
  Text& text = source.text;
  if (data.around.first >= 0) {
    for (const TextSpan& part : source.documents) {
      data.encoding.bytes += part.token ? 0 : part.end - part.begin;
      data.encoding.parts += !part.token;
    }
    return append_documents(data, text.bytes, source.documents, unknown, count);
  }
  data.encoding.bytes = text.bytes.size();
  data.encoding.parts = 1;
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

}  // namespace

std::vector<Document> append_source(Dataset& data, TextSource& source, const TextFiles& filter) {
  Text& text = source.text;
  if (data.documents != kEndOfText) note_special_tokens(text, data.tokenizer);
  data.notes.insert(data.notes.end(), text.notes.begin(), text.notes.end());
  const size_t before = data.tokens.size();
  data.encoding = {.begin = before};
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
