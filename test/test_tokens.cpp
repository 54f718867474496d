// Tokens in pieces, and training with byte-pair encodings.

#include "data/text/tokens.hpp"

#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/run/checkpoint.hpp"
#include "data/text/bpe_training.hpp"
#include "data/text/dataset.hpp"
#include "data/text/stored_tokenizer.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace {

std::vector<uint32_t> all_of(const Tokens& tokens, size_t begin, size_t end) {
  std::vector<uint32_t> all;
  tokens.for_each(begin, end, [&](uint32_t token) { all.push_back(token); });
  return all;
}

// All words of `text` with the kinds of tokenizer.
std::vector<Tokenizer> tokenizers_for(const std::string& text) {
  return {Tokenizer::bytes(), Tokenizer::characters(text), Tokenizer::bpe(train_bpe(text, 300))};
}

}  // namespace

TEST_CASE("tokens in several pieces are one sequence", "[tokens]") {
  Tokens tokens;
  tokens.append(std::vector<uint16_t>{1, 2, 65535});
  tokens.append(std::vector<uint32_t>{});
  tokens.append(std::vector<uint32_t>{70000, 5});
  const uint16_t file[] = {6, 7};
  tokens.append_mapped(nullptr, file, 2, 2);
  CHECK(tokens.size() == 7);
  CHECK(tokens.memory() == 3 * 2 + 2 * 4);
  const std::vector<uint32_t> expected = {1, 2, 65535, 70000, 5, 6, 7};
  CHECK(all_of(tokens, 0, 7) == expected);
  for (size_t i = 0; i < 7; ++i) CHECK(tokens[i] == expected[i]);
  CHECK(tokens.find(0, 7, 5) == 4);
  CHECK(tokens.find(0, 4, 5) == 4);
  CHECK(tokens.find(1, 7, 1) == 7);
  Tokens turned;
  turned.append(tokens, 3, 7);
  turned.append(tokens, 1, 3);
  CHECK(all_of(turned, 0, 6) == std::vector<uint32_t>{70000, 5, 6, 7, 2, 65535});
  CHECK(all_of(turned, 2, 5) == std::vector<uint32_t>{6, 7, 2});
  CHECK(turned.memory() == 2 * 2 + 2 * 4);
  CHECK(Tokens().size() == 0);
}

TEST_CASE("a text that is cut has the tokens of the whole text", "[tokens]") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Grüße, 世界! and  then\n\n\tmore " + std::to_string(i) + " 🙂";
  for (const Tokenizer& tokenizer : tokenizers_for(text)) {
    INFO(name_of_kind(tokenizer.kind()));
    const std::vector<uint32_t> whole = tokenizer.encode(text);
    for (const size_t bytes : {1, 2, 3, 50, 1000}) {
      std::vector<uint32_t> tokens;
      if (tokenizer.kind() == Tokenizer::Kind::character && bytes < 4) continue;
      for (const std::string_view piece : tokenizer.cut(text, bytes))
        for (const uint32_t token : tokenizer.encode(piece)) tokens.push_back(token);
      CHECK(tokens == whole);
    }
    std::string decoded;
    for (const uint32_t token : whole) decoded += tokenizer.decode(static_cast<int>(token));
    CHECK(decoded == text);
  }
}

TEST_CASE("a tokenizer that is stored and read again has the same tokens", "[tokens]") {
  const std::string text = "one two one two, eins zwei: äöü 123 one two";
  for (const Tokenizer& tokenizer : tokenizers_for(text)) {
    const Tokenizer again = tokenizer_from_json(to_json(tokenizer));
    CHECK(again.kind() == tokenizer.kind());
    CHECK(again.vocabulary() == tokenizer.vocabulary());
    CHECK(again.encode(text) == tokenizer.encode(text));
  }
}

TEST_CASE("the floor of stories is known with a byte-pair encoding", "[tokens]") {
  const Corpus f;
  TextOptions options;
  options.data = {f.path("stories.txt")};
  const Dataset bytes = load_dataset(options, nullptr, 400);
  options.tokenizer = "bpe:400";
  for (const ValSplit split : {ValSplit::tail, ValSplit::spread}) {
    options.val_split = split;
    options.sampling = Draws::shuffle;
    const Dataset data = load_dataset(options, nullptr, 400);
    REQUIRE(data.floor > 0);
    CHECK(data.tokens.size() < bytes.tokens.size() / 2);
    CHECK(data.val.size() > 5);
    // The entropy of a byte of the stories does not depend on how they are cut into tokens.
    const auto bits = [](const Dataset& d) { return d.bits_per_byte(d.floor); };
    CHECK(std::abs(bits(data) / bits(bytes) - 1) < .05);
    for (const TokenWindow& window : data.windows)
      CHECK(int(data.tokens[window.start]) == data.tokenizer.newline());
  }
}

TEST_CASE("a run with a byte-pair encoding trains, resumes, samples and is evaluated", "[tokens]") {
  const Corpus f;
  const std::string words = "train stories.txt --tokenizer bpe:300 --context 64 --steps 3 --layers 1 --heads 1 "
                            "--channels 8 --batch 2 --threads 1 --quiet --out run";
  const Outcome first = f.run(words);
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(contains(first.out, "vocabulary 300"));
  const CheckpointHeader header = read_checkpoint_header(f.path("run/checkpoint.bin"));
  REQUIRE(header.tokenizer.bpe());
  CHECK(header.options.tokenizer == "bpe:300");
  CHECK(header.options.config.vocab_size == 300);
  CHECK(f.run("train --out run --resume --steps 5").status == 0);
  const Outcome sample = f.run("sample run --prompt Leo --length 5 --greedy");
  CHECK(sample.status == 0);
  CHECK(sample.out.starts_with("Leo"));
  CHECK(f.run("eval run --data stories.txt --threads 1").status == 0);
  CHECK(f.run("info run").status == 0);

  // The same tokenizer from a file, and from the weights of the run.
  REQUIRE(f.run("tokenizer stories.txt --vocab 300 --out tok.json").status == 0);
  REQUIRE(f.run("train stories.txt --tokenizer tok.json --context 64 --steps 3 --layers 1 --heads 1 --channels 8 "
                "--batch 2 --threads 1 --quiet --out same").status == 0);
  CHECK(read_checkpoint_header(f.path("same/checkpoint.bin")).data_fingerprint == header.data_fingerprint);
  std::filesystem::remove(f.path("tok.json"));
  CHECK(f.run("train --out same --resume --steps 4").status == 0);
  CHECK(f.run("train stories.txt --init-from same --steps 1 --quiet --threads 1 --out tuned").status == 0);
  check_refused(f, "train stories.txt --init-from same --tokenizer byte --out t", "was trained with --tokenizer ");

  REQUIRE(f.run("export run --out hf").status == 0);
  CHECK(f.run("sample hf --prompt Leo --length 5 --greedy").out == sample.out);
}

TEST_CASE("a tokenizer that is missing or unknown is refused", "[tokens]") {
  const Corpus f;
  const std::string train = "train stories.txt --dry-run --tokenizer ";
  check_refused(f, train + "bpe:12", "--tokenizer bpe:12 needs a vocabulary from 256 to 1000000, such as bpe:4096");
  check_refused(f, train + "bpe:x", "needs a vocabulary");
  check_refused(f, train + "bpe:300x", "needs a vocabulary");
  check_refused(f, train + "none.json", "none.json");
  check_refused(f, train + "./", "has no tokenizer.json, encoder.json or vocab.json");
  check_refused(f, train + "wordz", "unknown tokenizer 'wordz'");
}
