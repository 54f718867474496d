// Tokens in pieces, and training with byte-pair encodings.

#include "data/text/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/generate_text.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/strings/format.hpp"
#include "data/text/load_dataset.hpp"
#include "data/text/token_files.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_files.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace {

std::vector<uint32_t> all_of(const Tokens& tokens, size_t begin, size_t end) {
  std::vector<uint32_t> all;
  tokens.for_each(begin, end, [&](uint32_t token) { all.push_back(token); });
  return all;
}

// Returns a tokenizer of each kind, made for `text`.
std::vector<Tokenizer> tokenizers_for(const std::string& text) {
  return {Tokenizer::bytes(), Tokenizer::characters(text), Tokenizer::bpe(train_bpe(text, 300))};
}

// A byte tokenizer with a special token, as a file.
void write_byte_tokenizer(const Folder& f, const std::string& name) {
  BpeTables tables;
  tables.tokens = byte_tokens();
  tables.tokens.push_back("<|endoftext|>");
  tables.special.push_back({256, "<|endoftext|>"});
  f.write(name, to_json(Bpe(std::move(tables))));
}

const std::string kSmallRun =
    " --context 16 --layers 1 --heads 1 --channels 8 --batch 2 --threads 1 --eval-batches 2 --quiet ";

}  // namespace

TEST_CASE("tokens in several pieces are one sequence", "[tokens]") {
  Tokens tokens;
  tokens.append(std::vector<uint16_t>{1, 2, 65535});
  tokens.append(std::vector<uint32_t>{});
  tokens.append(std::vector<uint32_t>{70000, 5});
  const uint16_t file[] = {6, 7};
  tokens.append_mapped(nullptr, file, 2, 2);
  tokens.append(std::vector<uint8_t>{255});
  tokens.append_bytes("a\xe9");
  CHECK(tokens.size() == 10);
  CHECK(tokens.memory() == 3 * 2 + 2 * 4 + 3);
  const std::vector<uint32_t> expected = {1, 2, 65535, 70000, 5, 6, 7, 255, 'a', 0xe9};
  CHECK(all_of(tokens, 0, 10) == expected);
  for (size_t i = 0; i < 10; ++i) CHECK(tokens[i] == expected[i]);
  CHECK(tokens.find(0, 7, 5) == 4);
  CHECK(tokens.find(0, 4, 5) == 4);
  CHECK(tokens.find(1, 7, 1) == 7);
  CHECK(tokens.find(0, 10, 0xe9) == 9);
  CHECK(tokens.find(0, 10, 0x1e9) == 10);
  Tokens turned;
  turned.append(tokens, 3, 7);
  turned.append(tokens, 1, 3);
  CHECK(all_of(turned, 0, 6) == std::vector<uint32_t>{70000, 5, 6, 7, 2, 65535});
  CHECK(all_of(turned, 2, 5) == std::vector<uint32_t>{6, 7, 2});
  CHECK(turned.memory() == 2 * 2 + 2 * 4);
  CHECK(Tokens().size() == 0);
}

TEST_CASE("the bytes of a text are its tokens, and memory holds them once", "[tokens]") {
  const Folder f;
  f.write("text.txt", "Größe\xff\n" + std::string(300, 'x'));
  TextOptions options;
  options.data = {f.path("text.txt")};
  const Dataset data = load_dataset(options, nullptr, 16);
  const std::string text = f.read("text.txt");
  CHECK(data.tokens.memory() == text.size());
  CHECK(data.bytes == text.size());
  CHECK(data.tokenizer.decode(all_of(data.tokens, 0, text.size())) == text);
  std::string wide;  // checkpoints of earlier versions hold the hash of 16-bit tokens
  for (const char byte : text) wide += {byte, '\0'};
  CHECK(data.fingerprint == rng::word(wide));
}

TEST_CASE("threads share the pieces of a text of characters", "[tokens]") {
  const Folder f;
  std::string text;
  while (text.size() < 3 << 20) text += "a" + std::string(text.size() % 7, 'b') + "é€😀";
  f.write("text.txt", text + "z");
  TextOptions options;
  options.data = {f.path("text.txt")}, options.tokenizer = "char";
  const Dataset data = load_dataset(options, nullptr, 16);
  CHECK(data.tokenizer.alphabet() == std::vector<uint32_t>{'a', 'b', 'z', 0xe9, 0x20ac, 0x1f600});
  CHECK(data.tokens.memory() == data.tokens.size());
  CHECK(data.tokenizer.decode(all_of(data.tokens, 0, data.tokens.size())) == text + "z");

  const auto message = [&] { return message_of<std::runtime_error>([&] { load_dataset(options, nullptr, 16); }); };
  const Tokenizer known = Tokenizer::characters(text);
  text.assign(3 << 20, 'a');
  text[(1 << 20) + 5] = '\n', text[2 << 20] = text[5 << 19] = '\xff';
  f.write("text.txt", text);
  CHECK(contains(message(), "line 2, byte " + std::to_string((1 << 20) - 5) + ": 0xff is not UTF-8"));
  f.write("text.txt", "y" + std::string(1 << 20, 'a') + "y" + std::string(1 << 20, 'a') + "z");
  CHECK(contains(message_of<std::runtime_error>([&] { load_dataset(options, &known, 16); }), "byte 1: character 'y'"));
  options.unknown = Unknown::skip;
  const Dataset skipped = load_dataset(options, &known, 16);
  CHECK(skipped.tokens.size() == 2 << 20);
  CHECK(skipped.notes == std::vector<std::string>{"3 characters of " + f.path("text.txt") +
                                                  " not in the model's vocabulary: skipped"});
}

TEST_CASE("a text that is cut has the tokens of the whole text", "[tokens][long]") {
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

// Compared with an int, nlohmann's 2^63 is negative; converted to 32 bits, 2^32 + 1 is 1.
TEST_CASE("numbers of a stored tokenizer or setting that wrap when narrowed are refused", "[tokens]") {
  using nlohmann::json;
  const auto stored = [](const std::string& points) {
    return parse_json(R"({"kind": "char", "codepoints": [)" + points + "]}");
  };
  CHECK(tokenizer_from_json(stored("97, 1114111")).vocabulary() == 2);
  for (const char* last : {"1114112", "4294967394", "9223372036854775808", "18446744073709551615", "-1", "98.5"})
    CHECK_THROWS_AS(tokenizer_from_json(stored("97, " + std::string(last))), std::runtime_error);

  const json pieces = to_json(read_tokenizer("test/reference/pieces/llama2.model"));
  for (const char* key : {"begin", "end"})
    for (const uint64_t token : {uint64_t{1} << 32 | 1, uint64_t{1} << 63 | 1}) {
      json forged = pieces;
      forged["tables"][key] = token;
      CHECK_THROWS_AS(tokenizer_from_json(forged), std::runtime_error);
    }

  TrainOptions options;
  options.config = preset_config("gpt2", "nano");
  options.config.vocab_size = 256;
  json settings = to_json(options);
  settings["document-separator"] = json::array({97, 98});
  CHECK(train_options_of(settings).separator == "ab");
  for (const uint64_t byte : {uint64_t{256}, uint64_t{1} << 63 | 97, ~uint64_t{0}}) {
    settings["document-separator"] = json::array({97, byte});
    CHECK_THROWS_AS(train_options_of(settings), std::invalid_argument);
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
    for (const TokenWindow& window : data.rows.windows())
      CHECK(int(data.tokens[window.start]) == data.around.first);
  }
}

TEST_CASE("a run with a byte-pair encoding trains, resumes, samples and is evaluated", "[tokens][long]") {
  const Corpus f;
  const std::string words = "train stories.txt --tokenizer bpe:300 --context 64 --steps 3 --layers 1 --heads 1 "
                            "--channels 8 --batch 2 --threads 1 --quiet --out run";
  const Outcome first = f.run(words);
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(contains(first.out, "vocabulary 300"));
  const CheckpointHeader header = read_checkpoint_header(f.path("run/checkpoint.safetensors"));
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
  CHECK(read_checkpoint_header(f.path("same/checkpoint.safetensors")).data_fingerprint == header.data_fingerprint);
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
  check_refused(f, train + "./", "has no tokenizer.json, encoder.json, vocab.json, ");
  check_refused(f, train + "wordz", "unknown tokenizer 'wordz'");
}

TEST_CASE("a folder with the name of a tokenizer is no tokenizer file", "[tokens]") {
  const Corpus f;
  std::filesystem::create_directory(f.path("char"));
  REQUIRE(f.run("train stories.txt --tokenizer char --steps 1 --out r" + kSmallRun).status == 0);
  CHECK(contains(f.read("r/config.toml"), "\ntokenizer = \"char\"\n"));
}

TEST_CASE("tokenizers and models of other programs are named, with what to do", "[tokens][program]") {
  const Corpus f;
  const std::string train = "train stories.txt --dry-run --context 8 --tokenizer ";
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  f.write("llama3/tokenizer.model", "IQ== 0\nIg== 1\nIw== 2\n");
  check_refused(f, train + "llama3", "llama3/tokenizer.model cannot be used as a tokenizer: it is a tiktoken file of ");
  f.write("pointer.json", pointer);
  check_refused(f, train + "pointer.json", "pointer.json is a pointer of Git LFS, not the file itself");
  check_refused(f, train + "gpt2", "; a model of the Hugging Face hub is fetched first: hf download gpt2");
  check_refused(f, train + "Owner/Name", "there is no tokenizer Owner/Name; a model of the Hugging Face hub");

  const std::string from = "train stories.txt --init-from ";
  check_refused(f, from + "gpt2", "hf download gpt2 --local-dir gpt2");
  check_refused(f, "eval HuggingFaceTB/SmolLM-135M --data stories.txt",
                "hf download HuggingFaceTB/SmolLM-135M --local-dir SmolLM-135M");
  CHECK_FALSE(contains(f.run("sample runs/none").err, "hub"));
  CHECK_FALSE(contains(f.run("sample nowhere").err, "hub"));
  f.write("m.gguf", "GGUF" + std::string(99, '\0'));
  check_refused(f, "sample m.gguf", "m.gguf has version 0 of GGUF; train_gpt reads versions 2 and 3");
  f.write("ckpt.pt", "PK\x03\x04" + std::string(99, '\0'));
  check_refused(f, from + "ckpt.pt", "ckpt.pt is a PyTorch file, which train_gpt reads only as the pytorch_model.bin");
  f.write("hf/config.json", R"({"model_type": "gpt2"})");
  f.write("hf/pytorch_model.bin", "PK\x03\x04" + std::string(99, '\0'));
  check_refused(f, from + "hf", "hf/pytorch_model.bin is truncated, or no zip file");
  check_refused(f, "import hf --out x", "hf/pytorch_model.bin is truncated, or no zip file");
  check_refused(f, "import gpt2 --out x", "there is no file or folder gpt2; a model of the Hugging Face hub");
  f.write("lfs/config.json", R"({"model_type": "gpt2"})");
  f.write("lfs/model.safetensors", pointer);
  check_refused(f, from + "lfs", "lfs/model.safetensors is a pointer of Git LFS");
  namespace fs = std::filesystem;
  fs::copy("test/huggingface/gpt2", f.path("gptq"), fs::copy_options::recursive);
  nlohmann::json config = parse_json(f.read("gptq/config.json"));
  config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  f.write("gptq/config.json", to_text(config));
  check_refused(f, from + "gptq", "its weights are quantized (quantization_config: \"gptq\")");
}

TEST_CASE("a folder is a tokenizer by its name alone, and its tokenizer.model stands in for a refused file",
          "[tokens][program]") {
  const Corpus f;
  const std::string train = "train stories.txt --dry-run --context 8 --tokenizer ";
  write_byte_tokenizer(f, "tok/tokenizer.json");
  CHECK(contains(f.run(train + "tok").out, "vocabulary 257"));
  f.write("tok/tokenizer.json", R"({"model": {"type": "Lattice"}})");
  check_refused(f, train + "tok", "the model Lattice is not supported");
  f.write("tok/tokenizer.model", read_file("test/reference/pieces/llama2.model"));
  const Outcome o = f.run(train + "tok");
  CHECK(contains(o.out, "vocabulary 440"));
  CHECK(contains(o.err, "NOTE: tok/tokenizer.json cannot be used as a tokenizer: the model Lattice is not supported; "
                        "reading tok/tokenizer.model\n"));
  REQUIRE(f.run("tokenize stories.txt --tokenizer tok --out tokens").status == 0);
  CHECK(f.read("tokens/tokenizer.model") == f.read("tok/tokenizer.model"));
}

TEST_CASE("token files are read as they were written", "[tokens]") {
  const Folder f;
  for (const bool wide : {false, true}) {
    const std::vector<uint32_t> written = {1, 2, 65535, wide ? 70000u : 7u};
    write_token_file(f.path("a.bin"), written, wide);
    CHECK(f.read("a.bin").size() == 1024 + 4 * (wide ? 4 : 2));
    Tokens tokens;
    append_token_file(tokens, f.path("a.bin"));
    CHECK(all_of(tokens, 0, 4) == written);
    CHECK(tokens.memory() == 0);
  }
  f.write("raw.bin", std::string("\1\0\xff\xff", 4));
  Tokens raw;
  append_token_file(raw, f.path("raw.bin"));
  CHECK(all_of(raw, 0, 2) == std::vector<uint32_t>{1, 65535});
}

TEST_CASE("llm.c's token files have the layout of its writer", "[tokens]") {
  // write_datafile() of llm.c's dev/data/data_common.py: 256 int32, of which three are set, then uint16 tokens.
  const Folder f;
  std::string file(1024, '\0');
  const int32_t header[] = {20240520, 1, 3};
  std::memcpy(file.data(), header, sizeof header);
  const uint16_t tokens[] = {50256, 464, 198};
  file.append(reinterpret_cast<const char*>(tokens), sizeof tokens);
  write_token_file(f.path("a.bin"), {50256, 464, 198}, false);
  CHECK(f.read("a.bin") == file);
}

TEST_CASE("a token file whose size does not fit its header is refused", "[tokens]") {
  const Folder f;
  write_token_file(f.path("whole.bin"), {1, 2, 3}, false);
  const std::string whole = f.read("whole.bin");
  const auto refusal = [&](const std::string& bytes) {
    f.write("a.bin", bytes);
    return message_of<std::runtime_error>([&] {
      Tokens tokens;
      append_token_file(tokens, f.path("a.bin"));
    });
  };
  const auto with = [&](size_t i, int32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + 4 * i, &value, 4);
    return refusal(bytes);
  };
  CHECK(refusal(whole) == "");
  CHECK(contains(refusal(whole.substr(0, 100)), "is truncated"));
  CHECK(contains(refusal(whole.substr(0, 1028)), "has 1028 bytes, and its header asks for 1030"));
  CHECK(contains(refusal(whole + "12"), "has 1032 bytes, and its header asks for 1030"));
  CHECK(contains(with(1, 2), "is a token file of version 2; train_gpt reads version 1"));
  CHECK(contains(with(2, -1), "its header asks for"));
  CHECK(contains(refusal("abc"), "has an odd number of bytes"));
}

TEST_CASE("a token file that is cut while it is read ends a run with its name, and the run is saved", "[tokens]") {
  const Corpus f;
  write_byte_tokenizer(f, "tok.json");
  REQUIRE(f.run("tokenize stories.txt --tokenizer tok.json --out all").status == 0);
  const std::string name = "all/train_000000.bin", whole = f.read(name);
  REQUIRE(whole.size() > 100000);
  const std::string words = "train all --steps 1000000 --layers 1 --heads 1 --channels 8 --context 16 --batch 2 "
                            "--threads 1 --eval-every 0 --save-every 0 --quiet ";
  for (const int accumulate : {1, 8})
    for (const size_t bytes : {size_t{0}, whole.size() - 10}) {
      f.write(name, whole);
      const std::string run = "r" + std::to_string(accumulate) + "-" + std::to_string(bytes);
      bool cut = false;
      const std::string more = "--accumulate " + std::to_string(accumulate) + " --out " + run;
      const Outcome o = f.run_until(words + more, SIGKILL, [&] {
        if (!cut && count_lines(f.read(run + "/metrics.csv")) > 3)
          cut = truncate(f.path(name).c_str(), static_cast<off_t>(bytes)) == 0;
        return false;
      });
      INFO(o.err);
      CHECK(o.status == 1);
      CHECK(count_lines(o.err) == 1);
      const int64_t step = read_checkpoint_header(f.path(run + "/checkpoint.safetensors")).step;
      CHECK(contains(o.err, name + " was cut from " + std::to_string(whole.size()) + " to " + std::to_string(bytes) +
                                " bytes while it was read: restore it and start again; step " + std::to_string(step) +
                                " is saved"));
      f.write(name, whole);
      CHECK(f.run("train --out " + run + " --resume --steps " + std::to_string(step + 1)).status == 0);
    }
}

TEST_CASE("raw tokens of 32 bits are refused, and only a word makes a file one for validation", "[tokens][long]") {
  const Folder f;
  const auto raw = [](const std::vector<uint32_t>& tokens, size_t width) {
    std::string bytes;
    for (const uint32_t token : tokens) bytes.append(reinterpret_cast<const char*>(&token), width);
    return bytes;
  };
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < 500; ++i) numbers.push_back(i % 257);
  write_byte_tokenizer(f, "tokens/tokenizer.json");
  f.write("wide.bin", raw(numbers, 4));
  const std::string dry = " --tokenizer tokens/tokenizer.json --dry-run --context 8";
  check_refused(f, "train wide.bin" + dry, "looks like 32-bit tokens");
  f.write("zeros.bin", std::string(400, '\0'));
  CHECK(f.run("train zeros.bin" + dry).status == 0);

  for (const char* name : {"medieval_000000", "interval", "valley", "train", "vals"})
    f.write("tokens/" + std::string(name) + ".bin", raw(numbers, 2));
  for (const char* name : {"val_000000", "corpus-valid", "my.Validation.1", "x_val"})
    f.write("tokens/" + std::string(name) + ".bin", raw({1, 2, 3}, 2));
  CHECK(find_token_files({f.path("tokens")}, true).size() == 5);
  CHECK(find_token_files({f.path("tokens")}, true, true).size() == 4);
  CHECK(!contains(f.run("train tokens --dry-run --context 8").out, "NOTE"));
  f.write("tokens/sub/story.txt", "Once upon a time.");
  CHECK(contains(f.run("train tokens --dry-run --context 8").out,
                 "NOTE     only the tokens are read, not the texts next to them: tokens/sub/story.txt\n"));
  CHECK(notes_on_token_files({f.path("tokens")}, find_token_files({f.path("tokens")}, true)).empty());
  const Outcome o = f.run("train tokens --val-data tokens/medieval_000000.bin --dry-run --context 8");
  CHECK(contains(o.out, "2.00 k tokens to train on, 500 to validate"));
  CHECK(contains(o.out, "NOTE     left out what is in --val-data: tokens/medieval_000000.bin\n"));
  check_refused(f, "train tokens/train.bin --val-data tokens/train.bin --dry-run", "nothing is left to train on");
  const Outcome twice = f.run("train tokens/train.bin tokens/../tokens/train.bin --dry-run --context 8");
  CHECK(contains(twice.out, "450 tokens to train on, 50 to validate"));
  CHECK(contains(twice.out, "NOTE     named twice, and read once: tokens/../tokens/train.bin\n"));
}

TEST_CASE("bits per byte are left out if the tokenizer changes the text", "[tokens][program]") {
  const Folder f;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "of \xef\xac\x81sh and \xef\xac\x82our\n";  // ligatures: fish and flour
  f.write("t.txt", text);
  f.must("tokenizer t.txt --vocab 300 --out same.json");
  nlohmann::json other = parse_json(f.read("same.json"));
  other["normalizer"] = {{"type", "NFKC"}};
  f.write("nfkc.json", to_text(other));
  const std::string unknown = "bits per byte are unknown: the tokenizer changes the text, whose ";
  const std::string note = unknown + "6000 bytes are 5400 in its tokens";
  for (const std::string documents : {"file", "line"}) {
    const std::string words = " --layers 1 --channels 8 --heads 1 --context 8 --batch 1 --steps 1 --documents ";
    const auto plan = [&](const std::string& tokenizer) {
      return f.run("train t.txt --dry-run --tokenizer " + tokenizer + words + documents).out;
    };
    CHECK_FALSE(contains(plan("same.json"), unknown));
    CHECK(contains(plan("nfkc.json"), documents == "file" ? note : unknown));
  }
  f.must("train t.txt --tokenizer nfkc.json --layers 1 --channels 8 --heads 1 --context 8 --batch 1 --steps 1 --quiet "
         "--warmup 0 --out r");
  const Outcome o = f.run("eval r --data t.txt --json");
  CHECK(parse_json(o.out).at("bits_per_byte").is_null());
  CHECK(contains(o.err, note));
}

TEST_CASE("a token file that is missing between others is noted, and masks that are", "[tokens]") {
  const Folder f;
  const std::string folder = f.path("tokens");
  const auto notes = [&] { return notes_on_token_files({folder}, find_token_files({folder}, true)); };
  for (const char* name : {"train_000000", "train_000001", "train_000003", "train_000010", "one_7", "one_99", "year24"})
    f.write("tokens/" + std::string(name) + ".bin", std::string(10, '\0'));
  CHECK(notes().empty());  // 4 of 11 are there: no sequence
  std::filesystem::remove(f.path("tokens/train_000010.bin"));
  REQUIRE(notes().size() == 1);
  CHECK(contains(notes()[0], "there is no " + folder + "/train_000002.bin, though files before and after are there"));
  CHECK(notes_on_token_files({}, find_token_files({folder}, true)).empty());  // named one by one
  f.write("tokens/train_000002.bin", std::string(10, '\0'));
  CHECK(notes().empty());
  for (const char* name : {"train_000000", "train_000001", "train_000003", "one_7", "one_99", "year24"})
    f.write("tokens/" + std::string(name) + ".mask", std::string(5, '\1'));
  REQUIRE(notes().size() == 1);
  CHECK(contains(notes()[0], "train_000002.bin without a mask: all tokens count there, unlike in "));
  f.write("tokens/train_000002.mask", std::string(5, '\1'));
  CHECK(notes().empty());
}

TEST_CASE("bits per byte count the bytes of the text, and eval agrees with train", "[tokens][program]") {
  const Folder f;
  write_byte_tokenizer(f, "bytes.json");
  f.write("train.txt", read_file("test/reference/pieces/hard.txt"));
  const std::string documents[] = {"One two.\n", " Three four five.\n", "Six\n"};
  size_t bytes = 0, files = 0;
  for (const std::string& document : documents) {
    f.write("val/" + std::to_string(files++) + ".txt", document);
    bytes += document.size();
  }
  const auto number = [](const std::string& json, const std::string& key) {
    return parse_json(json).at(key).get<double>();
  };
  const std::pair<std::string, std::string> tokenizers[] = {{"bytes.json", "<|endoftext|>"},
                                                            {"test/reference/pieces/llama2.model", "<s>"}};
  for (const auto& [tokenizer, separator] : tokenizers) {
    const std::string file = f.has(tokenizer) ? tokenizer : std::filesystem::absolute(tokenizer).string();
    const std::string run = tokenizer.substr(0, 1);
    const Outcome trained = f.run("train train.txt --val-data val --tokenizer " + file + " --document-separator " +
                                  separator + " --steps 2 --batch 8 --out " + run +
                                  " --final-batches 0 --context 16 --layers 1 --heads 1 --channels 8 --threads 1");
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    const Outcome eval = f.run("eval " + run + "/checkpoint.safetensors --data val --json --threads 1");
    REQUIRE(eval.status == 0);
    const auto outcome = parse_json(f.read(run + "/outcome.json"));
    CHECK(number(eval.out, "loss") == outcome.at("val_loss_full").get<double>());
    CHECK(number(eval.out, "bytes") == static_cast<double>(bytes));  // the first target is the first token of a text
    CHECK(contains(trained.out, format("%.4f bits/byte", number(eval.out, "bits_per_byte"))));
  }
}

TEST_CASE("names of special tokens in a text are noted by every command that reads one", "[tokens][program]") {
  const Folder f;
  write_byte_tokenizer(f, "tok.json");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "A tale.<|endoftext|><|endoftex\n";
  f.write("tales.txt", text);
  const std::string special = "has the name of a special token ", note = "NOTE: tales.txt " + special + "60 times "
                              "(<|endoftext|>): it is read as ordinary text, while other programs make one token of it";
  const Outcome trained = f.run("train tales.txt --tokenizer tok.json --steps 1 --eval-every 1 --out r" + kSmallRun);
  REQUIRE(trained.status == 0);
  CHECK(contains(trained.out, "NOTE     tales.txt " + special + "60 times (<|endoftext|>)"));
  CHECK(contains(f.run("eval r --data tales.txt").err, note));
  CHECK(contains(f.run("tokenize tales.txt --tokenizer tok.json --out tokens").err, note));
  CHECK(contains(f.run("compare tales.txt --tokenizer tok.json --grid placement=post,pre --dry-run" + kSmallRun).out,
                 note));
  CHECK(contains(f.run("init-report tales.txt --tokenizer tok.json --grid placement=post --context 16").err, note));
  CHECK(contains(f.run("sample r --length 1 --prompt a<|endoftext|>").err, "NOTE: the prompt " + special + "1 time "));
  CHECK(contains(f.run("sample r --length 1 --interactive", "a<|endoftext|>\n").err, "NOTE: the prompt " + special));

  CHECK_FALSE(contains(f.run("sample r --length 1 --prompt a<|endoftex").err, "NOTE"));
  CHECK_FALSE(contains(f.run("train tales.txt --dry-run --context 8").out, special));
  const Tokenizer llama2 = read_tokenizer("test/reference/pieces/llama2.model");
  CHECK(contains(llama2.note_on_special("x", "two <s> of </s> these <"), "x has the name of a special token 2 times"));
}

TEST_CASE("two token files that differ anywhere have different fingerprints", "[tokens]") {
  const Folder f;
  write_byte_tokenizer(f, "tokenizer.json");
  TextOptions options;
  const auto fingerprint = [&](const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    write_token_file(f.path("train_0.bin"), a, false);
    write_token_file(f.path("train_1.bin"), b, false);
    options.data = {f.path("train_0.bin"), f.path("train_1.bin")};
    return load_dataset(options, nullptr, 8).fingerprint;
  };
  const std::vector<uint32_t> x(100, 1), y(100, 2), longer(101, 1);
  CHECK(fingerprint(x, y) == fingerprint(x, y));
  CHECK(fingerprint(x, y) != fingerprint(y, y));
  CHECK(fingerprint(x, y) != fingerprint(x, x));
  CHECK(fingerprint(x, x) != fingerprint(x, longer));
  std::vector<uint32_t> large(5000, 1);
  const uint64_t before = fingerprint(large, x);
  large[10] = 2;
  CHECK(fingerprint(large, x) != before);
}

TEST_CASE("tokenize writes files that train as the text does", "[tokens]") {
  const Corpus f;
  f.write("more/a.txt", "first document\n");
  f.write("more/b.txt", "second document\n");
  const Outcome o = f.run("tokenize stories.txt more --tokenizer bpe:300 --shard-tokens 5000 --out tokens");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(f.has("tokens/train_000001.bin"));
  CHECK(f.has("tokens/val_000000.bin"));
  const Tokenizer tokenizer = read_tokenizer(f.path("tokens"));
  CHECK(tokenizer.vocabulary() == 300);
  CHECK(tokenizer.special("<|endoftext|>") == 299);

  TextOptions options;
  options.data = {f.path("tokens")};
  const Dataset data = load_dataset(options, nullptr, 16);
  CHECK(data.tokens.memory() == 0);
  CHECK(data.train > 9 * (data.tokens.size() - data.train) - 20);
  std::string text;
  size_t documents = 0;
  data.tokens.for_each(0, data.tokens.size(), [&](uint32_t token) {
    documents += token == 299;
    if (token != 299) text += tokenizer.decode(static_cast<int>(token));
  });
  CHECK(documents == 4);  // one between two neighbors, and one at each end
  CHECK(text.size() == f.read("stories.txt").size() + 15 + 16);

  REQUIRE(f.run("train tokens --steps 2 --out run" + kSmallRun).status == 0);
  CHECK(contains(f.read("run/config.toml"), "\ntokenizer = \"" + f.path("tokens/tokenizer.json") + "\"\n"));
  CHECK(f.run("train --out run --resume --steps 3").status == 0);
  const std::string note = "name tokens/val_000000.bin\n";
  CHECK_FALSE(contains(f.run("eval run --data tokens/val_000000.bin --threads 1").err, note));
  CHECK(contains(f.run("eval run --data tokens --threads 1").err, note));
  REQUIRE(f.run("tokenize more stories.txt --tokenizer tokens/tokenizer.json --out others").status == 0);
  CHECK(contains(f.run("train others --val-data tokens --steps 1 --dry-run" + kSmallRun).out, note));
  CHECK(f.run("train tokens/train_*.bin --val-data tokens/val_000000.bin --steps 1 --out glob" + kSmallRun).status ==
        0);
  CHECK(read_checkpoint_header(f.path("glob/checkpoint.safetensors")).data_fingerprint ==
        read_checkpoint_header(f.path("run/checkpoint.safetensors")).data_fingerprint);
  write_token_file(f.path("tokens/train_000000.bin"), std::vector<uint32_t>(5000, 1), false);
  check_refused(f, "train --out run --resume --steps 4", "the text is not the one the run was trained on");

  check_refused(f, "tokenize stories.txt --out tokens", "tokens is not empty");
  check_refused(f, "tokenize stories.txt --tokenizer byte --out other", "token files need a byte-pair encoding");
  check_refused(f, "train tokens/train_000001.bin stories.txt --out r", "another file does not");
  check_refused(f, "train stories.txt --val-data tokens/val_000000.bin --out r", "give both as text or both as tokens");
  std::filesystem::remove(f.path("tokens/tokenizer.json"));
  check_refused(f, "train tokens --out r", "name their tokenizer with --tokenizer FILE");
}

TEST_CASE("tokenize writes SentencePiece's tokens, which train with a copy of its file", "[tokens]") {
  const Folder f;
  const std::string model = read_file("test/reference/pieces/llama2.model");
  f.write("my.model", model);
  f.write("a.txt", read_file("test/reference/pieces/hard.txt"));
  f.write("b.txt", "the second document\n");
  const Outcome o = f.run("tokenize a.txt b.txt --tokenizer my.model --val-fraction 0.1 --out tokens");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(f.read("tokens/tokenizer.model") == model);
  const Tokenizer tokenizer = read_tokenizer(f.path("tokens"));
  TextOptions options;
  options.data = {f.path("tokens")};
  const Dataset data = load_dataset(options, nullptr, 16);
  std::vector<uint32_t> train, val;
  for (const char* name : {"a.txt", "b.txt"}) {
    std::vector<uint32_t> tokens = {1};  // <s>
    for (const uint32_t token : tokenizer.encode(f.read(name))) tokens.push_back(token);
    tokens.push_back(2);  // </s>
    const auto split = tokens.begin() + static_cast<int>(0.9 * static_cast<double>(tokens.size()));
    train.insert(train.end(), tokens.begin(), split);
    val.insert(val.end(), split, tokens.end());
  }
  CHECK(all_of(data.tokens, 0, data.train) == train);
  CHECK(all_of(data.tokens, data.train, data.tokens.size()) == val);

  REQUIRE(f.run("train tokens --steps 1 --out run" + kSmallRun).status == 0);
  CHECK(contains(f.read("run/config.toml"), "\ntokenizer = \"" + f.path("tokens/tokenizer.model") + "\"\n"));
  CHECK(f.run("train --out run --resume --steps 2").status == 0);
  CHECK(f.run("eval run --data tokens/val_000000.bin --threads 1").status == 0);

  // llama2.c's file is not a token file.
  std::filesystem::remove(f.path("tokens/tokenizer.model"));
  f.write("tokens/tokenizer.bin", to_llama2c(*tokenizer.pieces()));
  CHECK(load_dataset(options, nullptr, 16).fingerprint == data.fingerprint);
  REQUIRE(f.run("tokenize a.txt b.txt --tokenizer ./tokens --val-fraction 0.1 --out again").status == 0);
  CHECK(f.read("again/tokenizer.bin") == f.read("tokens/tokenizer.bin"));
  CHECK(f.read("again/train_000000.bin") == f.read("tokens/train_000000.bin"));
}

TEST_CASE("a token beyond the vocabulary is refused", "[tokens]") {
  const Folder f;
  write_byte_tokenizer(f, "tokenizer.json");
  std::vector<uint32_t> tokens(200, 5);
  tokens[100] = 300;
  write_token_file(f.path("train.bin"), tokens, false);
  check_refused(f, "train train.bin --steps 1 --out r" + kSmallRun,
                "token 300 in train.bin, and the tokenizer has 257: name the right one with --tokenizer");
}

TEST_CASE("token files of another tokenizer are refused, whoever reads them", "[tokens]") {
  const Corpus f;
  f.write("u.txt", read_file("test/reference/pieces/hard.txt"));
  f.must("tokenize stories.txt --tokenizer bpe:300 --out A");
  f.must("tokenize u.txt --tokenizer bpe:300 --out Z");
  f.must("tokenize u.txt --tokenizer A/tokenizer.json --out same");
  f.must("train A --steps 1 --out r" + kSmallRun);
  f.must("train stories.txt --documents line --packing documents --steps 1 --out bytes" + kSmallRun);
  const std::string other = "holds tokens of Z/tokenizer.json, which differs from ", run = kSmallRun + "--out x";
  check_refused(f, "train A Z --steps 1" + run, "Z/train_000000.bin " + other + "A/tokenizer.json at token ");
  check_refused(f, "train A --val-data Z --steps 1" + run, other + "A/tokenizer.json at token ");
  check_refused(f, "train Z --tokenizer A/tokenizer.json --steps 1" + run, other + "A/tokenizer.json at token ");
  for (const std::string& words : {"train Z --init-from r --steps 1" + run, std::string("eval r --data Z"),
                                  std::string("eval bytes --data Z")})
    check_refused(f, words, "Z/train_000000.bin " + other + "the model's tokenizer at token ");
  check_refused(f, "compare Z --init-from r --grid seed=1,2 --steps 1 --out c", other);
  for (const std::string name : {"byte", "char", "bpe:300"})
    check_refused(f, "train A --tokenizer " + name + " --steps 1" + run,
                  "A/train_000000.bin holds tokens of A/tokenizer.json, and not of --tokenizer " + name +
                      ": leave --tokenizer out");
  CHECK_FALSE(f.has("x"));

  // Equal tokens, more special tokens, and no tokenizer to compare with.
  CHECK(f.run("train A same --val-data same --dry-run" + kSmallRun).status == 0);
  CHECK(f.run("eval r --data same").status == 0);
  f.must("train A --objective mlm --steps 1 --out masked" + kSmallRun);
  CHECK(f.run("eval masked --data A").status == 0);
  f.write("plain/z.bin", f.read("Z/train_000000.bin"));
  CHECK(f.run("eval r --data plain").status == 0);
  f.write("plain/tokenizer.json", R"({"model": {"type": "Lattice"}})");
  CHECK(contains(f.run("eval r --data plain").err, "NOTE: the tokens of plain/z.bin are read as those of the model's "
                                                   "tokenizer: plain/tokenizer.json cannot be used"));
}

TEST_CASE("two tokenizers differ if a token is another text, not if one has more special tokens", "[tokens]") {
  const std::string text = "one two one two";
  const Tokenizer a = Tokenizer::bpe(train_bpe(text, 260)), more = a.with_special({"[MASK]"});
  CHECK(first_other_token(a, a) == -1);
  CHECK(first_other_token(a, more) == -1);
  CHECK(first_other_token(more, a) == -1);
  CHECK(first_other_token(more, a.with_special({"<mask>"})) == 260);
  const Tokenizer longer = Tokenizer::bpe(train_bpe(text, 261));
  CHECK(first_other_token(a, longer) == 260);  // a merge
  CHECK(first_other_token(longer, a) == 260);
  CHECK(first_other_token(more, longer) == 260);
  CHECK(first_other_token(Tokenizer::bytes(), a) == 0);
  CHECK(first_other_token(Tokenizer::unread({300, "", ""}), a) == -1);
  const Tokenizer pieces = read_tokenizer("test/reference/pieces/llama2.model");
  CHECK(first_other_token(pieces, pieces.without_begin()) == -1);
  CHECK(first_other_token(pieces, pieces.with_special({"<extra_id_0>"})) == -1);
}

TEST_CASE("a plan names each token file once", "[tokens]") {
  const Corpus f;
  f.must("tokenize stories.txt --tokenizer bpe:300 --shard-tokens 15000 --val-fraction 0.5 --out A");
  REQUIRE(f.has("A/val_000001.bin"));
  const std::string out = f.run("train A --dry-run" + kSmallRun).out;
  CHECK(contains(out, "data     A/train_000000.bin and "));
  CHECK(out.find("more file") == out.rfind("more file"));
}

TEST_CASE("20 GB of raw tokens train in the memory of the model", "[tokens]") {
  const Folder f;
  write_byte_tokenizer(f, "tok.json");
  f.write("big.bin", "");
  std::filesystem::resize_file(f.path("big.bin"), 20000000000);  // a sparse file of zeros
  const Outcome o = f.run("train big.bin --tokenizer tok.json --steps 2 --out r" + kSmallRun + "--context 256");
  INFO(o.out << o.err);
  CHECK(o.status == 0);
  CHECK(contains(o.out, "20.0 GB"));
  CHECK(contains(o.out, "needs 13.7 MB"));  // of which 12.6 are the program itself
}

TEST_CASE("documents are separated by a special token, which a sample starts from and ends at", "[tokens]") {
  const Folder f;
  f.write("text/a.txt", std::string(300, 'a'));
  f.write("text/b.txt", std::string(300, 'b'));
  TextOptions options;
  options.data = {f.path("text")};
  Dataset data;
  for (const std::string tokenizer : {"byte", "char", "bpe:260"}) {
    INFO(tokenizer);
    options.tokenizer = tokenizer;
    data = load_dataset(options, nullptr, 8);
    const int separator = data.around.first;
    CHECK(data.around.last == separator);
    CHECK(separator == data.tokenizer.vocabulary() - 1);
    CHECK(data.tokenizer.name_of_special(separator) == "<|endoftext|>");
    size_t separators = 0;
    data.tokens.for_each(0, data.tokens.size(), [&](uint32_t token) { separators += int(token) == separator; });
    CHECK(separators == 3);
    CHECK(int(data.tokens[0]) == separator);
    CHECK(int(data.tokens[data.tokens.size() - 1]) == separator);
  }
  // Text that looks like the special token is text.
  for (const uint32_t token : data.tokenizer.encode("<|endoftext|>")) CHECK(int(token) != data.around.first);
  const Tokenizer without = Tokenizer::bytes();
  options.separator = "<|endoftext|>";
  CHECK(message_of<std::runtime_error>([&] { load_dataset(options, &without, 8); }) ==
        "the tokenizer has no special token <|endoftext|>");

  Config c = preset_config("gpt2", "nano");
  c.n_layer = 1, c.channels = 8, c.n_head = 1, c.context = 16, c.vocab_size = data.tokenizer.vocabulary();
  c.tied = false;
  c.head_bias = true;
  Model model(resolve(c), false);
  for (size_t i = 0; i < model.floats; ++i) model.weights.get()[i] = 0;
  for (const TensorSpec& spec : model.table)  // the likeliest token is the separator
    if (spec.name == "head.bias") model.weights.get()[spec.offset + static_cast<size_t>(data.around.first)] = 9;
  const auto sample = [&](int separator) {
    std::string text;
    generate_text(model, data.tokenizer, "", {.length = 3, .stop = "", .sampling = {.temperature = 0},
                  .around = {separator, separator}}, [&](const std::string& piece) { text += piece; });
    return text;
  };
  CHECK(sample(data.around.first) == "");
  CHECK(sample(-1) == "<|endoftext|><|endoftext|><|endoftext|>");
}
