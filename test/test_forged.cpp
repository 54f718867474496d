// Checkpoints that are damaged, forged or written by earlier versions of the program.

#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "layers/model/size.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kOldRun = "test/old_run/";

// Appends the checksum of a checkpoint as its format documents it, over words of eight bytes.
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

// The same checkpoint with another header and a correct checksum.
std::string with_header(const std::string& checkpoint, std::string header) {
  uint32_t length = 0;
  std::memcpy(&length, checkpoint.data() + 12, 4);
  const std::string numbers = checkpoint.substr(16 + length, checkpoint.size() - 24 - length);
  header.append((64 - (16 + header.size()) % 64) % 64, ' ');
  length = static_cast<uint32_t>(header.size());
  const std::string bytes_of_length(reinterpret_cast<const char*>(&length), 4);
  return with_checksum(checkpoint.substr(0, 12) + bytes_of_length + header + numbers);
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

OptimizerState empty_state(const Model& model) {
  OptimizerState state;
  for (int slot = 0; slot < kAdamW.slots; ++slot) state.push_back(allocate(model.floats));
  return state;
}

// Rewrites a checkpoint in the current format.
void save_again(const std::string& path) {
  const CheckpointHeader header = read_checkpoint_header(path);
  Model model(header.options.config, false);
  OptimizerState state = empty_state(model);
  load_checkpoint(path, model, &state);
  save_checkpoint(path, header, model, &state);
}

std::string refusal_of(const std::string& path) {
  return message_of<std::runtime_error>([&] { read_checkpoint_header(path); });
}

}  // namespace

TEST_CASE("a header is checked against the model it describes and the size of the file", "[forged]") {
  const Folder f;
  const int version = GENERATE(1, 2);
  INFO("version " << version);
  fs::copy(kOldRun + "checkpoint.bin", f.path("good.bin"));
  if (version == 2) save_again(f.path("good.bin"));
  const std::string checkpoint = f.read("good.bin"), header = header_in(checkpoint);
  REQUIRE(checkpoint[8] == version);
  REQUIRE(read_checkpoint_header(f.path("good.bin")).step == 5);
  REQUIRE(with_header(checkpoint, header) == checkpoint);
  const auto says = [&](const std::string& forged, const std::string& why) {
    f.write("bad.bin", with_header(checkpoint, forged));
    const std::string message = refusal_of(f.path("bad.bin"));
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
  const auto setting = [&](const std::string& name, const std::string& value) {
    return version == 1 ? name + " = " + value + "\\n" : "\"" + name + "\":" + value + ",";
  };
  instead(setting("layers", "1"), setting("layers", "10000"), "fewer tensors than the model");
  instead(setting("channels", "16"), setting("channels", "1048576"), "of its table is not a tensor of its model");
  instead(setting("channels", "16"), setting("channels", "0"), "--channels 0 is outside the range");
  instead(setting("heads", "2"), setting("heads", "3"), "--kv-heads 2 does not divide --heads 3");
  instead("\"optimizer\":true", "\"optimizer\":7", "boolean");
  instead("\"offset\":0", "\"offset\":1", "embedding.position.weight of its table overlaps");
  instead("\"offset\":0", "\"offset\":4176", "embedding.token.weight of its table overlaps another tensor or the end");
  instead("\"offset\":0", "\"offset\":4611686018427387904", "offset is out of range");
  instead("\"offset\":0", "\"offset\":-1", "offset is out of range");
  instead("\"floats\":4176", "\"floats\":4611686018427387904", "floats is out of range");
  instead("\"floats\":4176", "\"floats\":4000", "out of range");
  instead("\"name\":\"embedding.token.weight\"", "\"name\":\"\\u001b[2J\"", "not a tensor of its model");
  instead("\"name\":\"embedding.token.weight\"", "\"name\":\"block.0.ffn.up.weight\"", "not a tensor of its model");
  instead("block.0.attention.q.weight", "block.0.attention.k.weight", "not a tensor of its model");
  instead(setting("batch", "2"), setting("batch", "2") + setting(version == 1 ? "help" : "\\u001b[2J", "true"), "");
  if (version == 1) instead("batch = 2\\n", "batch = 2\\n\\u001b[31m = 1\\n", "");
  if (version == 2) {
    instead("\"batch\":2,", "\"batch\":2,\"help\":true,", "there is no setting 'help'");
    instead("\"batch\":2,", "\"batch\":null,", "--batch null is not a number");
    instead("\"data\":[\"text.txt\"]", "\"data\":\"text.txt\"", "is a list");
    instead("\"data\":[\"text.txt\"]", "\"data\":[[256]]", "a byte outside 0 to 255");
    instead("\"size\":\"nano\"", "\"size\":[1000]", "a byte outside 0 to 255");
  }
  says(std::string(100000, '['), "nested too deep");
  says("{\"a\":" + std::string(100000, '['), "nested too deep");
  says("", "is not JSON");
  f.write("bad.bin", with_header(checkpoint, replaced(header, "\"optimizer\":true", "\"optimizer\":false")));
  CHECK(contains(refusal_of(f.path("bad.bin")), "bytes, expected"));
}

TEST_CASE("a file of another version is refused", "[forged]") {
  const Folder f;
  for (const char version : {0, 3}) {
    fs::copy(kOldRun + "checkpoint.bin", f.path("other.bin"), fs::copy_options::overwrite_existing);
    std::string bytes = f.read("other.bin");
    bytes[8] = version;
    f.write("other.bin", bytes);
    const std::string message = refusal_of(f.path("other.bin"));
    CHECK(contains(message, "this train_gpt reads versions 1 to 2"));
  }
}

TEST_CASE("tensors are loaded by name, in any order and at any offset", "[forged]") {
  const Folder f;
  fs::copy(kOldRun + "checkpoint.bin", f.path("a.bin"));
  save_again(f.path("a.bin"));
  const std::string checkpoint = f.read("a.bin");
  nlohmann::json header = nlohmann::json::parse(header_in(checkpoint));
  // Insert three floats before the weights and before each moment, and reverse the rows of the table.
  const size_t bytes = header["floats"].get<size_t>() * sizeof(float), begin = checkpoint.size() - 8 - 3 * bytes;
  std::string moved = checkpoint.substr(0, begin);
  for (size_t i = 0; i < 3; ++i) moved += std::string(12, 'x') + checkpoint.substr(begin + i * bytes, bytes);
  header["floats"] = header["floats"].get<size_t>() + 3;
  for (auto& row : header["table"]) row["offset"] = row["offset"].get<size_t>() + 3;
  std::reverse(header["table"].begin(), header["table"].end());
  f.write("b.bin", with_header(moved + std::string(8, ' '), header.dump()));

  const Config config = read_checkpoint_header(f.path("b.bin")).options.config;
  Model a(config, false), b(config, false);
  OptimizerState of_a = empty_state(a), of_b = empty_state(b);
  load_checkpoint(f.path("a.bin"), a, &of_a);
  load_checkpoint(f.path("b.bin"), b, &of_b);
  CHECK(verify_checkpoint(f.path("b.bin")).step == 5);
  const auto equal = [&](const Buffer& x, const Buffer& y) {
    return std::memcmp(x.get(), y.get(), a.floats * sizeof(float)) == 0;
  };
  CHECK(equal(a.weights, b.weights));
  CHECK(equal(of_a[0], of_b[0]));
  CHECK(equal(of_a[1], of_b[1]));
  CHECK(!equal(a.weights, of_a[0]));
}

TEST_CASE("info verifies a checkpoint's checksum and refuses what is not a file", "[program][forged]") {
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

TEST_CASE("sample needs memory for its text alone, and eval refuses a context too long for the machine",
          "[program][forged]") {
  const Folder f;
  f.write("text.txt", std::string(400, 'a') + "\n");
  REQUIRE(f.run("train --data text.txt --position rope --layers 1 --channels 16 --heads 2 --context 8 --steps 1 --out "
                "r --quiet")
              .status == 0);
  const std::string checkpoint = f.read("r/checkpoint.bin");
  const std::string forged = replaced(header_in(checkpoint), "\"context\":8,", "\"context\":4194304,");
  f.write("long.bin", with_header(checkpoint, forged));
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

TEST_CASE("a run of an earlier version can be resumed", "[program][forged]") {
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
  // The same losses and norms, up to differences between processors.
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
