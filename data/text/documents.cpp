#include "documents.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

namespace {

// Adds the range without newlines at its ends, unless it is empty.
void add_trimmed(std::vector<TextSpan>& documents, std::string_view text, size_t begin, size_t end) {
  while (begin < end && text[begin] == '\n') ++begin;
  while (begin < end && text[end - 1] == '\n') --end;
  if (begin < end) documents.push_back({begin, end});
}

// Splits a file at a separator and adds the parts.
void add_separated(std::vector<TextSpan>& documents, std::string_view text, const TextSpan& file,
                   std::string_view separator) {
  const std::string_view in_file = text.substr(0, file.end);
  for (size_t begin = file.begin; begin < file.end;) {
    const size_t end = std::min(in_file.find(separator, begin), file.end);
    add_trimmed(documents, text, begin, end);
    begin = end + separator.size();
  }
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

// Splits a file at its blank lines, which may have spaces, and adds the parts.
void add_paragraphs(std::vector<TextSpan>& documents, std::string_view text, const TextSpan& file) {
  size_t begin = file.begin;  // of the paragraph
  for (size_t at = file.begin; at < file.end;) {
    const size_t end = std::min(text.substr(0, file.end).find('\n', at), file.end);
    if (is_blank(text.substr(at, end - at))) {
      add_trimmed(documents, text, begin, at);
      begin = end;
    }
    at = end + 1;
  }
  add_trimmed(documents, text, begin, file.end);
}

// The tokens of some documents.
template <class T>
struct Encoded {
  std::vector<T> tokens;
  std::vector<uint8_t> counted;  // 1 for each token that counts as a target
  std::vector<size_t> lengths;   // the number of tokens of each document
  size_t unknown = 0;
  size_t cut = 0;  // prompts whose last token also holds the start of their completion
  std::optional<NoToken> error;

  void add(int token, bool counts) {
    tokens.push_back(static_cast<T>(token));
    counted.push_back(counts);
  }

  // Adds whole documents.
  void add(const Tokenizer& tokenizer, const DocumentTokens& around, std::string_view text,
           std::span<const TextSpan> parts, Unknown how) {
    const int before = around.first, after = around.last;
    for (size_t i = 0; i < parts.size() && !error;) {
      if (parts[i].is_first) {
        lengths.push_back((before == after ? 1 : 2) + (around.begin >= 0));  // neighbors may share one token
        if (before != after) add(before, false);
        if (around.begin >= 0) add(around.begin, parts[i].counts);
      }
      const size_t size = tokens.size(), end = end_of_joined(tokenizer, parts, i);
      try {
        if (is_document_end(parts[i].token)) add(after, parts[i].counts);
        else if (parts[i].token) add(special(parts[i].token, tokenizer), parts[i].counts);
        else add_joined(tokenizer, text, parts.subspan(i, end - i), how);
      } catch (const NoToken& e) {
        error = e.behind(parts[i].begin);
      }
      lengths.back() += tokens.size() - size;
      i = end;
      if (i == parts.size() || parts[i].is_first) add(after, parts[i - 1].counts);
    }
  }

 private:
  static size_t end_of_joined(const Tokenizer& tokenizer, std::span<const TextSpan> parts, size_t i) {
    do ++i;
    while (i < parts.size() && (parts[i].joins || (parts[i].follows && tokenizer.prefixes_space())));
    return i;
  }

  int special(const char* name, const Tokenizer& tokenizer) {
    const auto [known, is_new] = special_.emplace(name, 0);
    if (is_new) known->second = tokenizer.special(name);
    return known->second;
  }

  // Adds parts that are one text for the tokenizer. A token of two parts belongs to the second.
  void add_joined(const Tokenizer& tokenizer, std::string_view text, std::span<const TextSpan> parts, Unknown how) {
    const size_t begin = parts.front().begin;
    const std::vector<uint32_t> all = tokenizer.encode(text.substr(begin, parts.back().end - begin), how, &unknown);
    size_t at = 0;
    for (const TextSpan& part : parts) {
      size_t end = all.size();
      if (&part != &parts.back()) {
        const std::vector<uint32_t> alone = tokenizer.encode(text.substr(begin, part.end - begin), how);
        end = equal_tokens(all, alone);
        cut += end < alone.size() && !(&part)[1].joins;
      }
      for (; at < end; ++at) add(static_cast<int>(all[at]), part.counts);
    }
  }

  // How many first tokens are the same.
  static size_t equal_tokens(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }

  std::map<const char*, int> special_;  // the tokens of chat templates
};

// The ends of groups of parts that are whole documents and have about `bytes` bytes each.
std::vector<size_t> groups_of(const std::vector<TextSpan>& parts, size_t bytes) {
  std::vector<size_t> ends;
  size_t sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i].end - parts[i].begin;
    const bool last = i + 1 == parts.size();
    if (!last && (sum < bytes || !parts[i + 1].is_first)) continue;
    ends.push_back(i + 1);
    sum = 0;
  }
  return ends;
}

// Sets which of the last tokens count. All tokens before them do, unless that is known.
void set_counted(Dataset& data, const Tokens& counted) {
  const size_t before = data.tokens.size() - counted.size();
  if (data.counted.size() < before) data.counted.append(std::vector<uint8_t>(before - data.counted.size(), 1));
  data.counted.append(counted, 0, counted.size());
}

// A group is encoded by one thread, unless a document is so long that encode() divides it among all threads.
template <class T>
std::vector<Stretch> append(Dataset& data, std::string_view text, const std::vector<TextSpan>& parts, Unknown unknown,
                            size_t& count) {
  constexpr size_t kGroup = 1 << 18;
  const std::vector<size_t> ends = groups_of(parts, kGroup);
  const size_t shared = data.around.first == data.around.last ? 1 : 0;
  std::vector<Stretch> found;
  std::optional<NoToken> first_error;
  Tokens counted;
  size_t cut = 0;
  if (shared == 1) {
    data.tokens.append(std::vector<T>{static_cast<T>(data.around.first)});
    counted.append(std::vector<uint8_t>(1));
  }
#pragma omp parallel for ordered schedule(static, 1) if (ends.size() < parts.size())
  for (size_t group = 0; group < ends.size(); ++group) {
    const size_t begin = group == 0 ? 0 : ends[group - 1];
    Encoded<T> part;
    part.add(data.tokenizer, data.around, text, std::span(parts).subspan(begin, ends[group] - begin), unknown);
#pragma omp ordered
    {
      size_t start = data.tokens.size() - shared;
      for (const size_t length : part.lengths) {
        found.push_back({start, start + length + shared});
        start += length;
      }
      data.tokens.append(std::move(part.tokens));
      counted.append(std::move(part.counted));
      count += part.unknown;
      cut += part.cut;
      if (!first_error) first_error = part.error;
    }
  }
  if (first_error) throw *first_error;
  if (cut > 0)
    data.notes.push_back(std::to_string(cut) + " of the prompts end within a token, such as a space before a word: " +
                         "sample them without this end");
  const bool all = std::all_of(parts.begin(), parts.end(), [](const TextSpan& part) { return part.counts; });
  if (!all || data.counted.size() > 0) set_counted(data, counted);
  return found;
}

}  // namespace

bool lacks_separator(const Text& text, const std::string& how) {
  const bool named = std::find(std::begin(kDocuments), std::end(kDocuments), how) != std::end(kDocuments);
  return !named && text.bytes.find(how) == text.bytes.npos;
}

void require_separator(const Text& text, const std::string& how) {
  if (lacks_separator(text, how))
    throw std::runtime_error("--documents " + how + ": there is no such text in " + text.name);
}

std::vector<TextSpan> find_documents(const Text& text, const std::string& how) {
  std::vector<TextSpan> documents;
  for (size_t i = 0; i < text.files.size(); ++i) {
    const std::vector<TextSpan>& known = text.files[i].spans;
    const TextSpan file = {text.files[i].begin, text.files[i].begin + text.bytes_of(i).size()};
    if (!known.empty()) {
      documents.insert(documents.end(), known.begin(), known.end());
    } else if (how == "file") {
      if (file.begin < file.end) documents.push_back(file);
    } else if (how == "paragraph") {
      add_paragraphs(documents, text.bytes, file);
    } else {
      add_separated(documents, text.bytes, file, how == "line" ? "\n" : how);
    }
  }
  return documents;
}

std::string text_of_documents(const Text& text, const std::vector<TextSpan>& documents) {
  std::string all;
  for (const TextSpan& at : documents) all.append(text.bytes, at.begin, at.end - at.begin).append("\n");
  return all;
}

std::vector<Stretch> append_documents(Dataset& data, std::string_view text, const std::vector<TextSpan>& parts,
                                      Unknown unknown, size_t& count) {
  if (data.tokenizer.vocabulary() <= 1 << 8) return append<uint8_t>(data, text, parts, unknown, count);
  if (data.tokenizer.vocabulary() <= 1 << 16) return append<uint16_t>(data, text, parts, unknown, count);
  return append<uint32_t>(data, text, parts, unknown, count);
}

std::vector<int> conversation_tokens(const Tokenizer& tokenizer, const DocumentTokens& around,
                                     const std::vector<ChatPart>& parts) {
  std::string text;
  std::vector<TextSpan> spans;
  append_parts(text, spans, parts, {.is_chat = true});
  Encoded<uint32_t> document;
  document.add(tokenizer, around, text, spans, Unknown::error);
  std::vector<int> tokens(document.tokens.begin(), document.tokens.end() - 1);  // without the document's end
  if (around.first == around.last) tokens.insert(tokens.begin(), around.first);
  return tokens;
}
