#include "llmc_tokenizer.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "data/files/files.hpp"
#include "data/strings/utf8.hpp"

namespace {

constexpr uint32_t kMagic = 20240328, kGpt2End = 50256;
constexpr size_t kHeader = 256, kHeaderBytes = kHeader * sizeof(uint32_t), kLongest = 255;

struct File {
  std::vector<std::string> tokens;
  uint32_t end;  // the token that ends a text
};

File parse(std::string_view bytes) {
  uint32_t header[kHeader];
  if (bytes.size() < kHeaderBytes) throw std::runtime_error("it is shorter than its header of 1024 bytes");
  std::memcpy(header, bytes.data(), kHeaderBytes);
  if (header[0] != kMagic) throw std::runtime_error("it is not a tokenizer of llm.c");
  const uint32_t version = header[1], count = header[2];
  if (version != 1 && version != 2)
    throw std::runtime_error("its version is " + std::to_string(version) + ", and train_gpt reads 1 and 2");
  File file{{}, version == 1 ? kGpt2End : header[3]};
  for (bytes.remove_prefix(kHeaderBytes); file.tokens.size() < count;) {
    const size_t length = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
    if (bytes.size() < 1 + length)
      throw std::runtime_error("it is cut short in token " + std::to_string(file.tokens.size()) + " of " +
                               std::to_string(count));
    if (length == 0) throw std::runtime_error("token " + std::to_string(file.tokens.size()) + " is empty");
    file.tokens.emplace_back(bytes.substr(1, length));
    bytes.remove_prefix(1 + length);
  }
  if (!bytes.empty()) throw std::runtime_error("it continues after its " + std::to_string(count) + " tokens");
  if (file.end >= count)
    throw std::runtime_error("the end of a text, " + std::to_string(file.end) + ", is not one of its tokens");
  return file;
}

bool are_bytes(const std::vector<std::string>& tokens) {
  if (tokens.size() != 256) return false;
  for (size_t b = 0; b < 256; ++b)
    if (tokens[b] != std::string(1, static_cast<char>(b))) return false;
  return true;
}

// Returns the code points if each token is one and they ascend.
std::optional<std::vector<uint32_t>> characters_of(const std::vector<std::string>& tokens) {
  std::vector<uint32_t> points;
  for (const std::string& token : tokens) {
    size_t at = 0;
    const std::optional<uint32_t> point = next_code_point(token, at);
    if (!point || at != token.size() || (!points.empty() && *point <= points.back())) return {};
    points.push_back(*point);
  }
  return points;
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (int t = 0; t < tokenizer.vocabulary(); ++t) tokens.push_back(tokenizer.decode(t));
  return tokens;
}

bool same_tables(const BpeTables& a, const BpeTables& b) {
  return a.tokens == b.tokens && a.merges == b.merges && a.words_first == b.words_first && a.special == b.special;
}

bool same_tokenizer(const Tokenizer& a, const Tokenizer& b) {
  return a.kind() == b.kind() && a.alphabet() == b.alphabet() && a.added() == b.added() &&
         (!a.bpe() || same_tables(a.bpe()->tables(), b.bpe()->tables()));
}

std::optional<Tokenizer> bytes_or_characters(const std::vector<std::string>& tokens) {
  if (are_bytes(tokens)) return Tokenizer::bytes();
  if (auto points = characters_of(tokens)) return Tokenizer::characters(std::move(*points));
  return {};
}

// Returns the tokenizer if its tokens are bytes or characters, with or without a last token that ends a text.
std::optional<Tokenizer> without_merges(const File& file) {
  if (auto tokenizer = bytes_or_characters(file.tokens)) return tokenizer;
  if (file.end + 1 != file.tokens.size()) return {};
  const auto tokenizer = bytes_or_characters({file.tokens.begin(), file.tokens.end() - 1});
  if (!tokenizer) return {};
  return tokenizer->with_special({file.tokens.back()});
}

uint32_t end_of(const Tokenizer& tokenizer) {
  if (!tokenizer.added().empty()) return tokenizer.special(tokenizer.added()[0]);
  if (tokenizer.bpe() && !tokenizer.bpe()->tables().special.empty()) return tokenizer.bpe()->tables().special[0].token;
  return std::max(0, tokenizer.newline());
}

}  // namespace

std::vector<Merge> merges_of_ranks(const std::vector<std::string>& tokens, const std::vector<SpecialToken>& special) {
  std::unordered_map<std::string_view, uint32_t> numbers;
  const auto is_special = [&](uint32_t token) {
    return std::any_of(special.begin(), special.end(), [&](const SpecialToken& s) { return s.token == token; });
  };
  std::vector<Merge> merges;
  for (uint32_t token = 0; token < tokens.size(); ++token) {
    if (is_special(token)) continue;
    const std::string_view bytes = tokens[token];
    if (!numbers.emplace(bytes, token).second)
      throw std::runtime_error("token " + std::to_string(token) + " is there twice");
    if (bytes.size() < 2) continue;
    // Symbol i begins at starts[i]. made[i] is the token that symbols i and i + 1 make, if it is an earlier token.
    std::vector<size_t> starts(bytes.size() + 1);
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = i;
    const auto made_at = [&](size_t i) {
      const auto found = numbers.find(bytes.substr(starts[i], starts[i + 2] - starts[i]));
      return found == numbers.end() ? token : found->second;  // `token` itself makes no merge
    };
    std::vector<uint32_t> made;
    for (size_t i = 0; i + 2 < starts.size(); ++i) made.push_back(made_at(i));
    while (made.size() > 1) {
      const size_t best = std::min_element(made.begin(), made.end()) - made.begin();
      if (made[best] >= token) break;
      starts.erase(starts.begin() + best + 1);
      made.erase(made.begin() + best);
      if (best > 0) made[best - 1] = made_at(best - 1);
      if (best < made.size()) made[best] = made_at(best);
    }
    const auto symbol = [&](size_t i) { return numbers.find(bytes.substr(starts[i], starts[i + 1] - starts[i])); };
    if (made.size() != 1 || symbol(0) == numbers.end() || symbol(1) == numbers.end())
      throw std::runtime_error("token " + std::to_string(token) + " is not the merge of two tokens before it");
    merges.push_back({symbol(0)->second, symbol(1)->second, token});
  }
  return merges;
}

bool is_llmc_tokenizer(std::string_view bytes) {
  return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), &kMagic, sizeof kMagic) == 0;
}

Tokenizer tokenizer_from_llmc(std::string_view bytes) {
  File file = parse(bytes);
  if (auto tokenizer = without_merges(file)) return *std::move(tokenizer);
  BpeTables tables;
  try {
    tables.merges = merges_of_ranks(file.tokens, {});
  } catch (const std::runtime_error&) {  // the only token that may not be a merge is the one that ends a text
    tables.special.push_back({file.end, file.tokens[file.end]});
    tables.merges = merges_of_ranks(file.tokens, tables.special);
  }
  tables.tokens = std::move(file.tokens);
  return Tokenizer::bpe(Bpe(std::move(tables)));
}

Tokenizer read_llmc_tokenizer(const std::string& path) {
  const std::string bytes = read_file(path, kLargestTokenizer);
  return explained(path + " cannot be used as a tokenizer: ", [&] { return tokenizer_from_llmc(bytes); });
}

std::string to_llmc(const Tokenizer& tokenizer) {
  const auto fail = [](const std::string& why) {
    throw std::invalid_argument("llm.c's gpt2_tokenizer.bin cannot hold this tokenizer: " + why);
  };
  if (tokenizer.pieces()) fail("it is SentencePiece's");
  if (tokenizer.bpe() && tokenizer.bpe()->tables().split != Split::gpt2)
    fail("it does not split words as GPT-2 does");
  if (tokenizer.bpe() && tokenizer.bpe()->tables().nfc) fail("it normalizes text");
  const std::vector<std::string> tokens = tokens_of(tokenizer);
  const uint32_t header[kHeader] = {kMagic, 2, static_cast<uint32_t>(tokens.size()), end_of(tokenizer)};
  std::string file(reinterpret_cast<const char*>(header), kHeaderBytes);
  for (const std::string& token : tokens) {
    if (token.empty() || token.size() > kLongest) fail("a token has " + std::to_string(token.size()) + " bytes");
    file += static_cast<char>(token.size());
    file += token;
  }
  try {
    if (same_tokenizer(tokenizer_from_llmc(file), tokenizer)) return file;
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }
  fail("its merges do not follow from the numbers of its tokens");
  return "";
}
