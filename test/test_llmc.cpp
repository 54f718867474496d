// llm.c's files: gpt2_tokenizer.bin.

#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/host/files.hpp"
#include "data/text/bpe_files.hpp"
#include "data/text/bpe_training.hpp"
#include "data/text/llmc_tokenizer.hpp"
#include "data/text/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "message.hpp"
#include "program.hpp"
#include "shared.hpp"

namespace {

std::vector<std::vector<uint32_t>> merges_of(const Tokenizer& tokenizer) {
  std::vector<std::vector<uint32_t>> rows;
  for (const Merge& m : tokenizer.bpe()->tables().merges) rows.push_back({m.left, m.right, m.token});
  return rows;
}

void check_equal(const Tokenizer& a, const Tokenizer& b) {
  REQUIRE(a.kind() == b.kind());
  CHECK(a.alphabet() == b.alphabet());
  if (!a.bpe()) return;
  CHECK(a.bpe()->tables().tokens == b.bpe()->tables().tokens);
  CHECK(merges_of(a) == merges_of(b));
  REQUIRE(a.bpe()->tables().special.size() == b.bpe()->tables().special.size());
  for (size_t i = 0; i < a.bpe()->tables().special.size(); ++i)
    CHECK(a.bpe()->tables().special[i].token == b.bpe()->tables().special[i].token);
}

Tokenizer trained(const std::string& end) {
  BpeTables tables = train_bpe(read_file("test/reference/tokenizer/trained_on.txt"), 400).tables();
  if (!end.empty()) tables.special.push_back({400, end}), tables.tokens.push_back(end);
  return Tokenizer::bpe(Bpe(tables));
}

// A file with these tokens.
std::string file_of(const std::vector<std::string>& tokens, uint32_t version = 2, uint32_t end = 0) {
  const uint32_t header[256] = {20240328, version, static_cast<uint32_t>(tokens.size()), end};
  std::string file(reinterpret_cast<const char*>(header), sizeof header);
  for (const std::string& token : tokens) file += static_cast<char>(token.size()) + token;
  return file;
}

std::vector<std::string> bytes_and(const std::vector<std::string>& more) {
  std::vector<std::string> tokens = byte_tokens();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

std::string refusal(const std::string& bytes) {
  return message_of<std::runtime_error>([&] { tokenizer_from_llmc(bytes); });
}

}  // namespace

TEST_CASE("a tokenizer is written for llm.c and read again", "[llmc]") {
  for (const Tokenizer& tokenizer : {Tokenizer::bytes(), Tokenizer::characters(std::string_view("a z\u00e9\u65e5\n")),
                                     trained(""), trained("<|endoftext|>"), trained("end of text")}) {
    const std::string file = to_llmc(tokenizer);
    check_equal(tokenizer_from_llmc(file), tokenizer);
    const Folder f;
    f.write("gpt2_tokenizer.bin", file);
    check_equal(read_tokenizer(f.path("gpt2_tokenizer.bin")), tokenizer);
    check_equal(read_tokenizer(f.path(".")), tokenizer);
    uint32_t header[4];
    std::memcpy(header, file.data(), sizeof header);
    CHECK(header[2] == static_cast<uint32_t>(tokenizer.vocabulary()));
    const int end = tokenizer.vocabulary() == 401 ? 400 : tokenizer.newline();
    CHECK(header[3] == static_cast<uint32_t>(end));
  }
}

TEST_CASE("tokenizers that llm.c's file cannot hold are refused", "[llmc]") {
  const auto refused = [](const BpeTables& tables) {
    return message_of<std::invalid_argument>([&] { to_llmc(Tokenizer::bpe(Bpe(tables))); });
  };
  const std::string cannot = "llm.c's gpt2_tokenizer.bin cannot hold this tokenizer: ";
  const BpeTables tables = trained("").bpe()->tables();
  BpeTables changed = tables;
  changed.words_first = true;
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  std::swap(changed.merges[0], changed.merges[50]);
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  changed.merges.pop_back();
  CHECK(refused(changed) == cannot + "its merges do not follow from the numbers of its tokens");
  changed = tables;
  changed.tokens.push_back(std::string(256, 'a'));
  CHECK(refused(changed) == cannot + "a token has 256 bytes");
  changed.tokens.back() = "two";
  changed.tokens.push_back("ends");
  changed.special = {{400, "two"}, {401, "ends"}};
  CHECK(contains(refused(changed), cannot + "token 40"));
}

TEST_CASE("a damaged tokenizer of llm.c is refused in one line that names it", "[llmc]") {
  CHECK(refusal(file_of(bytes_and({"ab", "abc"}))) == "");
  CHECK(refusal(file_of({"a"}, 1)) == "the end of a text, 50256, is not one of its tokens");
  CHECK(refusal(file_of(bytes_and({}), 3)) == "its version is 3, and train_gpt reads 1 and 2");
  CHECK(refusal(file_of(bytes_and({}), 2, 256)) == "the end of a text, 256, is not one of its tokens");
  CHECK(refusal(file_of(bytes_and({""}))) == "token 256 is empty");
  CHECK(refusal(file_of(bytes_and({"ab", "ab"}))) == "token 257 is there twice");
  CHECK(refusal(file_of(bytes_and({"abc"}))) == "token 256 is not the merge of two tokens before it");
  CHECK(refusal(file_of(bytes_and({"abc", "ab"}))) == "token 256 is not the merge of two tokens before it");
  CHECK(refusal(file_of({"a", "b", "ab"})) == "it has no token for byte 0");
  const std::string file = file_of(bytes_and({"ab", "abc"}));
  CHECK(refusal(file + "x") == "it goes on behind its 258 tokens");
  CHECK(refusal("x" + file.substr(1)) == "it is not a tokenizer of llm.c");
  std::string many = file;
  many.replace(8, 4, "\xff\xff\xff\xff");
  CHECK(refusal(many) == "it is cut short in token 258 of 4294967295");
  const Folder f;
  for (size_t size = 4; size < file.size(); size += size < 1020 ? 127 : 1) {
    f.write("t.bin", file.substr(0, size));
    const std::string message = message_of<std::runtime_error>([&] { read_tokenizer(f.path("t.bin")); });
    CHECK(message.starts_with(f.path("t.bin") + " cannot be used as a tokenizer: it is "));
    CHECK(count_lines(message) == 0);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {  // must throw or succeed
    std::string damaged = file;
    damaged[rng::key({seed, 1}) % damaged.size()] = static_cast<char>(rng::key({seed, 2}) >> 8);
    refusal(damaged);
  }
}

TEST_CASE("GPT-2's merges follow from the numbers of its tokens", "[llmc]") {
  const std::string encoder = shared_file("gpt2/encoder.json");
  if (encoder.empty()) return skip_test("no gpt2/encoder.json");
  const Tokenizer gpt2 = read_tokenizer(encoder);
  REQUIRE(gpt2.vocabulary() == 50257);
  check_equal(tokenizer_from_llmc(to_llmc(gpt2)), gpt2);
}
