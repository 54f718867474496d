// Checkpoints that are damaged or forged, and those of earlier versions of the program.

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>

#include "catch.hpp"
#include "layers/model/size.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kOldRun = "test/old_run/";

// The checksum of a checkpoint, as the documentation of its format has it: words of eight bytes.
std::string with_checksum(std::string bytes) {
  uint64_t state = 0x243f6a8885a308d3ull;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    state = ((state << 29 | state >> 35) ^ word) * 0x9e3779b97f4a7c15ull;
  }
  state ^= state >> 32;
  return bytes.append(reinterpret_cast<const char*>(&state), 8);
}

// The same checkpoint with `header` in it, and a checksum that is right.
std::string with_header(const std::string& checkpoint, std::string header) {
  uint32_t length = 0;
  std::memcpy(&length, checkpoint.data() + 12, 4);
  const std::string numbers = checkpoint.substr(16 + length, checkpoint.size() - 24 - length);
  header.append((64 - (16 + header.size()) % 64) % 64, ' ');
  length = static_cast<uint32_t>(header.size());
  return with_checksum(checkpoint.substr(0, 12) + std::string(reinterpret_cast<const char*>(&length), 4) + header + numbers);
}

std::string header_in(const std::string& checkpoint) {
  uint32_t length = 0;
  std::memcpy(&length, checkpoint.data() + 12, 4);
  return checkpoint.substr(16, length);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a header is checked against the model it describes and the size of the file", "[program][forged]") {
  const Folder f;
  fs::copy(kOldRun + "checkpoint.bin", f.path("good.bin"));
  const std::string checkpoint = f.read("good.bin"), header = header_in(checkpoint);
  REQUIRE(read_checkpoint_header(f.path("good.bin")).step == 5);
  REQUIRE(with_header(checkpoint, header) == checkpoint);
  const auto says = [&](const std::string& forged, const std::string& why) {
    f.write("bad.bin", with_header(checkpoint, forged));
    const std::string message = message_of([&] { read_checkpoint_header(f.path("bad.bin")); });
    INFO(why << "\n" << message);
    CHECK(contains(message, f.path("bad.bin") + " is corrupted: its header cannot be read ("));
    CHECK(contains(message, why));
    CHECK(message.find_first_of("\n\x1b") == message.npos);
  };
  const auto instead = [&](const std::string& from, const std::string& to, const std::string& why) {
    says(replaced(header, from, to), why);
  };
  instead("\"step\":5", "\"step\":-1e308", "step is out of range");
  instead("\"step\":5", "\"step\":-5", "step is out of range");
  instead("\"step\":5", "\"step\":5.5", "step is out of range");
  instead("\"step\":5", "\"step\":3", "best_step is out of range");
  instead("\"best_step\":5", "\"best_step\":0", "do not agree");
  instead("\"codepoints\":[10,", "\"codepoints\":[9,10,", "more tokens than its model");
  instead("\"codepoints\":[10,", "\"codepoints\":[99999999,", "alphabet");
  instead("\"codepoints\":[10,", "\"codepoints\":[55296,", "alphabet");
  instead("\"codepoints\":[10,", "\"codepoints\":[122,", "alphabet");
  instead("\"codepoints\":[10,32,", "\"codepoints\":[32,10,", "alphabet");
  instead("layers = 1\\n", "layers = 10000\\n", "fewer tensors than the model");
  instead("channels = 16\\n", "channels = 1048576\\n", "of its table is not embedding.token.weight");
  instead("\"optimizer\":true", "\"optimizer\":7", "boolean");
  instead("\"offset\":0", "\"offset\":64", "of its table is not embedding.token.weight");
  instead("\"name\":\"embedding.token.weight\"", "\"name\":\"\\u001b[2J\"", "of its table is not embedding.token.weight");
  instead("batch = 2\\n", "batch = 2\\nhelp = true\\n", "");
  instead("batch = 2\\n", "batch = 2\\n\\u001b[31m = 1\\n", "");
  says(std::string(100000, '['), "nested too deep");
  says("{\"a\":" + std::string(100000, '['), "nested too deep");
  says("", "parse error");
  f.write("bad.bin", with_header(checkpoint, replaced(header, "\"optimizer\":true", "\"optimizer\":false")));
  CHECK(contains(message_of([&] { read_checkpoint_header(f.path("bad.bin")); }), "bytes, expected"));
}

TEST_CASE("info reads the weights before it vouches for a file, and anything but a file is refused", "[program][forged]") {
  const Folder f;
  fs::copy(kOldRun + "checkpoint.bin", f.path("good.bin"));
  std::string damaged = f.read("good.bin");
  damaged[damaged.size() - 30000] ^= 1;
  f.write("bad.bin", damaged);
  CHECK(f.run("info good.bin").status == 0);
  for (const char* words : {"info bad.bin", "info bad.bin --cost"}) {
    const Outcome o = f.run(words);
    CHECK(o.status == 1);
    CHECK(contains(o.err, "train_gpt: bad.bin is corrupted: its checksum is wrong"));
    CHECK(o.out.empty());
  }
  CHECK(contains(f.run("info /dev/zero").err, "/dev/zero is not a checkpoint"));
}

TEST_CASE("memory goes by what is sampled, and a context too long for the machine is refused", "[program][forged]") {
  const Folder f;
  f.write("text.txt", std::string(400, 'a') + "\n");
  REQUIRE(f.run("train --data text.txt --position rope --layers 1 --channels 16 --heads 2 --context 8 --steps 1 --out r --quiet").status == 0);
  const std::string checkpoint = f.read("r/checkpoint.bin");
  f.write("long.bin", with_header(checkpoint, replaced(header_in(checkpoint), "context = 8\\n", "context = 4194304\\n")));
  const CheckpointHeader header = read_checkpoint_header(f.path("long.bin"));
  CHECK(memory_of_inference(header.options.config, 1, 20).total() < 1000000);
  const Outcome sampled = f.run("sample long.bin --length 8 --prompt a");
  CHECK(sampled.status == 0);
  const Outcome evaluated = f.run("eval long.bin --data text.txt --batch 500");
  CHECK(evaluated.status == 1);
  CHECK(contains(evaluated.err, "train_gpt: this needs "));
  CHECK(contains(evaluated.err, ": lower --batch"));
  CHECK(evaluated.out.empty());
}

TEST_CASE("a run of an earlier version goes on", "[program][forged]") {
  const Folder f;
  for (const char* name : {"checkpoint.bin", "config.toml", "metrics.csv"}) {
    fs::create_directories(f.path("r"));
    fs::copy(kOldRun + name, f.path(std::string("r/") + name));
  }
  fs::copy(kOldRun + "text.txt", f.path("text.txt"));
  fs::copy(kOldRun + "resumed.csv", f.path("resumed.csv"));

  const std::vector<std::string> before = losses_in(f.read("r/metrics.csv"));
  const Outcome resumed = f.run("train --out r --resume --steps 9 --quiet");
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  const std::vector<std::string> then = losses_in(f.read("resumed.csv")), now = losses_in(f.read("r/metrics.csv"));
  REQUIRE(now.size() == before.size() + then.size() - 1);
  for (size_t i = 1; i < before.size(); ++i) CHECK(now[i] == before[i]);
  // The same losses and norms, within what processors differ in.
  for (size_t i = 1; i < then.size(); ++i) {
    const auto numbers = [](const std::string& line) {
      std::vector<double> x;
      std::istringstream in(line);
      for (std::string field; std::getline(in, field, ',');) x.push_back(std::strtod(field.c_str(), nullptr));
      return x;
    };
    const auto want = numbers(then[i]), got = numbers(now[before.size() + i - 1]);
    CHECK(got[0] == want[0]);
    CHECK(std::abs(got[2] - want[2]) < 1e-4);  // train_loss
    CHECK(std::abs(got[6] - want[6]) < 1e-3);  // grad_norm
  }
}
