// Checkpoints that are damaged or forged, and a run of version 0.1.0.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/json.hpp"
#include "data/run_directory/directory.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/size.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// A run that must load and go on in every later version.
const std::string kRelease = "test/run_0.1.0/", kCheckpoint = kRelease + "checkpoint.safetensors";

// The checksum of a piece, over words of eight bytes.
uint64_t sum_of(const std::string& bytes) {
  uint64_t state = 0x243f6a8885a308d3ull;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    state = ((state << 29 | state >> 35) ^ word) * 0x9e3779b97f4a7c15ull;
  }
  return state ^ state >> 32;
}

template <class T>
std::string bytes_of(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// The checksum of a file, as README.md documents it.
uint64_t sum_of_pieces(const std::string& bytes) {
  constexpr size_t kPiece = 262144;
  if (bytes.size() <= kPiece) return sum_of(bytes);
  std::string sums;
  for (size_t i = 0; i < bytes.size(); i += kPiece) sums += bytes_of(sum_of(bytes.substr(i, kPiece)));
  return sum_of(sums);
}

// ---- safetensors -----------------------------------------------------------------------------------------

// A checkpoint in parts. joined() joins them with a correct checksum.
struct Parts {
  std::string header, data;

  Json json() const { return Json::parse(header); }
};

Parts parts_of(const std::string& checkpoint) {
  uint64_t length = 0;
  std::memcpy(&length, checkpoint.data(), 8);
  return {checkpoint.substr(8, length), checkpoint.substr(8 + length)};
}

std::string joined(std::string header, const std::string& data) {
  header.append((64 - (8 + header.size()) % 64) % 64, ' ');
  const std::string opening = R"({"__metadata__":{"checksum":")";
  REQUIRE(header.starts_with(opening));
  header.replace(opening.size(), 16, 16, '0');
  std::string bytes = bytes_of(static_cast<uint64_t>(header.size())) + header + data;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum_of_pieces(bytes)));
  return bytes.replace(8 + opening.size(), 16, digits);
}

// The fields of the run, and the same checkpoint with others.
std::string fields_of(const std::string& checkpoint) {
  return parts_of(checkpoint).json()["__metadata__"]["train_gpt"];
}

std::string with_fields(const std::string& checkpoint, const std::string& fields) {
  const Parts parts = parts_of(checkpoint);
  Json header = parts.json();
  header["__metadata__"]["train_gpt"] = fields;
  return joined(to_text(header), parts.data);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// Chooses the optimizers.
Buffer empty_state(Model& model) {
  assign_optimizers(model.table, kAdamWAlone);
  return allocate(state_floats(model.table));
}

// All numbers of a slot, in the order of the table.
std::vector<float> slot_of(const Model& model, const Buffer& state, size_t slot) {
  std::vector<float> numbers;
  for (const TensorSpec& spec : model.table)
    if (spec.optimizer) {
      const float* x = &state[state_table(spec)[slot].offset];
      numbers.insert(numbers.end(), x, x + spec.size());
    }
  return numbers;
}

// A model with the optimizer's state, loaded.
struct Loaded {
  CheckpointHeader header;
  Model model;
  Buffer state;

  explicit Loaded(const std::string& path)
      : header(read_checkpoint_header(path)), model(header.options.config, false), state(empty_state(model)) {
    load_checkpoint(path, model, &state);
  }
};

bool equal(const Loaded& a, const Loaded& b) {
  const auto weights = [](const Loaded& x) {
    return std::vector(&x.model.weights[0], &x.model.weights[x.model.floats]);
  };
  const auto slot = [](const Loaded& x, size_t number) { return slot_of(x.model, x.state, number); };
  return weights(a) == weights(b) && slot(a, 0) == slot(b, 0) && slot(a, 1) == slot(b, 1) && slot(a, 0) != slot(a, 1);
}

std::string refusal_of(const std::string& path) {
  return message_of<std::runtime_error>([&] { read_checkpoint_header(path); });
}

// CHECKs that the file is rejected in one line that begins with its name and `after`, and says why.
void check_refused_checkpoint(const Folder& f, const std::string& bytes, const std::string& after,
                              const std::string& why) {
  f.write("bad", bytes);
  const std::string message = refusal_of(f.path("bad"));
  INFO(why << "\n" << message);
  CHECK(contains(message, f.path("bad") + after));
  CHECK(contains(message, why));
  CHECK(message.find_first_of("\n\x1b") == message.npos);
}

// A checkpoint of a model with one layer, on bytes.
CheckpointHeader one_layer(int heads, int channels) {
  CheckpointHeader header;
  Config& config = header.options.config;
  config.n_layer = 1, config.n_head = heads, config.channels = channels, config.context = 8, config.vocab_size = 256;
  config = resolve(config);
  return header;
}

}  // namespace

TEST_CASE("a header is checked against the model it describes and the size of the file", "[forged]") {
  const Folder f;
  fs::copy(kCheckpoint, f.path("good"));
  const std::string checkpoint = f.read("good"), header = fields_of(checkpoint);
  const auto forge = [&](const std::string& forged) { return with_fields(checkpoint, forged); };
  REQUIRE(read_checkpoint_header(f.path("good")).step == 5);
  REQUIRE(forge(header) == checkpoint);
  const auto says = [&](const std::string& forged, const std::string& why) {
    check_refused_checkpoint(f, forge(forged), " is corrupted: its header cannot be read (", why);
  };
  const auto instead = [&](const std::string& from, const std::string& to, const std::string& why) {
    says(replaced(header, from, to), why);
  };
  instead("\"step\":5", "\"step\":-1e308", "step is out of range");
  instead("\"step\":5", "\"step\":-5", "step is out of range");
  instead("\"step\":5", "\"step\":5.5", "step is out of range");
  instead("\"step\":5", "\"step\":3", "best_step is out of range");
  instead("\"codepoints\":[10,", "\"codepoints\":[9,10,", "more tokens than its model");
  instead("\"codepoints\":[10,", "\"codepoints\":[99999999,", "alphabet");
  instead("\"codepoints\":[10,", "\"codepoints\":[55296,", "alphabet");
  instead("\"codepoints\":[10,", "\"codepoints\":[122,", "alphabet");
  instead("\"codepoints\":[10,32,", "\"codepoints\":[32,10,", "alphabet");
  const auto setting = [&](const std::string& name, const std::string& value) {
    return "\"" + name + "\":" + value + ",";
  };
  instead(setting("layers", "1"), setting("layers", "10000"), "fewer tensors than the model");
  instead(setting("channels", "16"), setting("channels", "1048576"), "has another shape than in its model");
  instead(setting("channels", "16"), setting("channels", "0"), "--channels 0 is outside the range");
  instead(setting("heads", "2"), setting("heads", "3"), "--kv-heads 2 does not divide --heads 3");
  instead("\"optimizer\":true", "\"optimizer\":7", "boolean");
  instead(setting("batch", "2"), setting("batch", "2") + setting("\\u001b[2J", "true"), "");
  instead("\"batch\":2,", "\"batch\":2,\"help\":true,", "there is no setting 'help'");
  instead("\"batch\":2,", "\"batch\":null,", "--batch null is not a number");
  instead("\"data\":[\"text.txt\"]", "\"data\":\"text.txt\"", "is a list");
  instead("\"data\":[\"text.txt\"]", "\"data\":[[256]]", "a byte outside 0 to 255");
  instead("\"size\":\"nano\"", "\"size\":[1000]", "a byte outside 0 to 255");
  says(std::string(100000, '['), "nested too deep");
  says("{\"a\":" + std::string(100000, '['), "nested too deep");
  says("{\"a\":1e999}", "a number too large for a double");
  says("", "is not JSON");
  f.write("bad", forge(replaced(header, "\"optimizer\":true", "\"optimizer\":false")));
  CHECK(contains(refusal_of(f.path("bad")), "is not a tensor of its model"));
}

TEST_CASE("the tensors of a checkpoint are checked against its model and the rules of safetensors", "[forged]") {
  const Folder f;
  fs::copy(kCheckpoint, f.path("good"));
  const Parts good = parts_of(f.read("good"));
  const Json header = good.json();
  REQUIRE(joined(to_text(header), good.data) == f.read("good"));
  CHECK(header["__metadata__"]["format"] == "pt");
  CHECK(header["embedding.token.weight"]["shape"] == Json({42, 16}));
  CHECK(header.contains("optimizer.exp_avg.embedding.token.weight"));
  CHECK(header.contains("optimizer.exp_avg_sq.embedding.token.weight"));
  CHECK((8 + good.header.size()) % 64 == 0);

  const auto says = [&](const std::string& text, const std::string& why, const std::string& data) {
    check_refused_checkpoint(f, joined(text, data), " ", why);
  };
  const auto instead = [&](const std::string& from, const std::string& to, const std::string& why) {
    says(replaced(to_text(header), from, to), why, good.data);
  };
  const std::string first = R"("embedding.token.weight":{"dtype":"F32","shape":[42,16],"data_offsets":[0,2688]})";
  instead("[2688,3712]", "[2684,3708]", "overlaps another tensor");
  instead("[0,2688]", "[0,2684]", "do not fit its shape");
  instead("[0,2688]", "[50112,52800]", "gap");
  instead("[0,2688]", "[4611686018427387904,4611686018427390592]", "gap");
  instead("[0,2688]", "[18446744073709551612,2684]", "do not fit its shape");
  instead("[0,2688]", "[-1,2687]", "a negative number");
  instead("[42,16]", "[16,42]", "embedding.token.weight has another shape than in its model");
  instead("[42,16]", "[42,16,1]", "embedding.token.weight has another shape than in its model");
  instead("[42,16]", "[4294967338,16]", "do not fit its shape");
  instead("[42,16]", "[42,9223372036854775824]", "more elements than can be counted");
  instead("F32", "I32", "embedding.token.weight has dtype I32, not F32");
  instead("F32", "F16", "do not fit its shape");
  const std::string seed = R"(\"seed\":)", moments = R"(\"moments\":\"bf16\",)";
  instead(seed, moments + seed, "has dtype F32, not BF16");
  instead("\"embedding.token.weight", "\"embedding.token.wait", "embedding.token.wait is not a tensor of its model");
  instead("\"embedding.token.weight", "\"\\u001b[2J", "is not a tensor of its model");
  instead("\"optimizer.exp_avg.", "\"optimizer.momentum.", "is not a tensor of its model");
  instead("\"block.0.attention.q.weight", "\"block.0.attention.k.weight", "twice");
  instead(first, first + "," + first, "it holds 'embedding.token.weight' twice");
  instead(first, first + R"(,"more":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})", "more is not a tensor");
  instead(R"("format":"pt",)", R"("format":"pt","format":"pt",)", "it holds 'format' twice");
  instead(R"("version":"4")", R"("version":"5")", "is a checkpoint of version 5; this train_gpt reads version 4");
  instead(R"("version":"4")", R"("edition":"4")", "is a checkpoint of version unknown");
  instead(R"("train_gpt":)", R"("other":)", "is corrupted: its header cannot be read");
  says(to_text(header), "is truncated: its tensors take 50112 bytes, and the file has 50108 for them",
       good.data.substr(4));
  says(to_text(header), "is corrupted: its tensors take 50112 bytes, and the file has 50116 for them",
       good.data + "more");
  Json shorter = header;
  const std::string last = (--shorter.end()).key();
  const size_t end = shorter[last]["data_offsets"][0];
  shorter.erase(last);
  says(to_text(shorter), "its optimizer state is incomplete", good.data.substr(0, end));

  // Without a weight, and without its bytes.
  Json fewer = header;
  const std::string weight = "embedding.position.weight";
  const size_t from = fewer[weight]["data_offsets"][0], to = fewer[weight]["data_offsets"][1];
  fewer.erase(weight);
  for (auto& [name, row] : fewer.items())
    if (name != "__metadata__")
      for (auto& offset : row["data_offsets"])
        if (offset.get<size_t>() >= to) offset = offset.get<size_t>() - (to - from);
  says(to_text(fewer), "it lists 15 weights, and its model has 16", good.data.substr(0, from) + good.data.substr(to));
}

TEST_CASE("a checkpoint that is truncated or has one wrong bit is never loaded", "[forged]") {
  const Folder f;
  const CheckpointHeader header = one_layer(1, 8);
  Model model(header.options.config, false);
  initialize(model, 1);
  save_checkpoint(f.path("x"), header, model, nullptr);
  const std::string good = f.read("x");
  const size_t data = good.size() - parts_of(good).data.size();
  const auto refused = [&](std::string bytes) {
    f.write("x", bytes);
    const std::string why = message_of<std::runtime_error>([&] { load_checkpoint(f.path("x"), model, nullptr); });
    return contains(why, f.path("x "));
  };
  CHECK_FALSE(refused(good));
  for (size_t at = 0; at < good.size(); at += one_of(7) * (at < data ? 1 : 97))
    for (int bit = 0; bit < 8; ++bit) {
      if (at > 300 && bit != int(at % 8)) continue;  // the other bits take half a minute, and are rejected, too
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      if (!refused(bytes)) FAIL_CHECK("bit " << bit << " of byte " << at);
    }
  std::vector<size_t> ends = {0, 7, 8, 9, 36, 37, 52, 53, 54, data - 1, data, data + 1, good.size() - 1};
  const Json rows = parts_of(good).json();
  for (const auto& [name, row] : rows.items())
    if (name != "__metadata__")
      for (const size_t end : {-1, 0, 1}) ends.push_back(data + row["data_offsets"][0].get<size_t>() + end);
  for (const size_t end : ends)
    if (!refused(good.substr(0, end))) FAIL_CHECK("truncated to " << end);
}

TEST_CASE("a header that safetensors does not allow is not written", "[forged][long]") {
  const Folder f;
  const Loaded loaded(kCheckpoint);
  CheckpointHeader header = loaded.header;
  header.unwritten_row = std::string(100000000, '1');
  const std::string message =
      message_of<std::runtime_error>([&] { save_checkpoint(f.path("x"), header, loaded.model, nullptr); });
  CHECK(contains(message, "cannot write " + f.path("x") + ": safetensors allows a header of 100 MB"));
  CHECK_FALSE(f.has("x"));
}

TEST_CASE("tensors are loaded by name, in any order", "[forged]") {
  const Folder f;
  // There are no gaps. Reverse the tensors, and then their rows.
  fs::copy(kCheckpoint, f.path("new"));
  const Parts parts = parts_of(f.read("new"));
  const Json rows = parts.json();
  Json other = {{"__metadata__", rows["__metadata__"]}};
  std::string data;
  for (auto row = --rows.end(); row.key() != "__metadata__"; --row) {
    const size_t from = row.value()["data_offsets"][0], to = row.value()["data_offsets"][1];
    other[row.key()] = row.value();
    other[row.key()]["data_offsets"] = {data.size(), data.size() + to - from};
    data += parts.data.substr(from, to - from);
  }
  f.write("reversed", joined(to_text(other), data));
  Json sorted = {{"__metadata__", other["__metadata__"]}};
  for (const auto& [name, row] : rows.items())
    if (name != "__metadata__") sorted[name] = other[name];
  f.write("sorted", joined(to_text(sorted), data));
  for (const char* name : {"reversed", "sorted"}) CHECK(equal(Loaded(f.path("new")), Loaded(f.path(name))));
  CHECK(verify_checkpoint(f.path("reversed")).step == 5);
}

TEST_CASE("the checksum of a large checkpoint has pieces", "[forged][long]") {
  const Folder f;
  const CheckpointHeader header = one_layer(2, 64);
  Model model(header.options.config, false);
  initialize(model, 1);
  Buffer state = empty_state(model);
  for (size_t i = 0; i < state_floats(model.table); ++i) state[i] = static_cast<float>(i);
  save_checkpoint(f.path("new"), header, model, &state);
  const std::string bytes = f.read("new");
  REQUIRE(bytes.size() > 3 * 262144);
  const Parts parts = parts_of(bytes);
  CHECK(joined(parts.header, parts.data) == bytes);
  for (const size_t at : {bytes.size() - 1, bytes.size() - 262144, bytes.size() / 2}) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    f.write("bad", damaged);
    CHECK(contains(message_of<std::runtime_error>([&] { Loaded bad(f.path("bad")); }), "its checksum is wrong"));
    CHECK(contains(message_of<std::runtime_error>([&] { verify_checkpoint(f.path("bad")); }), "checksum is wrong"));
  }
}

TEST_CASE("info verifies a checkpoint's checksum and refuses what is not a file", "[program][forged]") {
  const Folder f;
  fs::copy(kCheckpoint, f.path("good"));
  std::string damaged = f.read("good");
  damaged[damaged.size() - 30000] ^= 1;
  f.write("bad", damaged);
  CHECK(f.run("info good").status == 0);
  for (const char* words : {"info bad", "info bad --cost"}) {
    const Outcome o = f.run(words);
    CHECK(o.status == 1);
    CHECK(contains(o.err, "train_gpt: bad is corrupted: its checksum is wrong"));
    CHECK(o.out.empty());
  }
  CHECK(contains(f.run("info /dev/zero").err, "/dev/zero is not a checkpoint"));
}

TEST_CASE("sample and eval need memory for their text alone", "[program][forged][long]") {
  const Folder f;
  f.write("text.txt", std::string(400, 'a') + "\n");
  REQUIRE(f.run("train --data text.txt --position rope --layers 1 --channels 16 --heads 2 --context 8 --steps 1 --out "
                "r --quiet")
              .status == 0);
  const std::string checkpoint = f.read("r/checkpoint.safetensors");
  f.write("long", with_fields(checkpoint, replaced(fields_of(checkpoint), "\"context\":8,", "\"context\":4194304,")));
  const CheckpointHeader header = read_checkpoint_header(f.path("long"));
  CHECK(memory_of_inference(header.options.config, 1, 20).total() < 1000000 + kProgramBytes);
  const Outcome sampled = f.run("sample long --length 8 --prompt a");
  CHECK(sampled.status == 0);
  CHECK(f.run("eval long --data text.txt").status == 0);
  CHECK(f.run("eval long --data text.txt --batch 1000000").status == 0);  // of which the text fills one row
}

TEST_CASE("a run of version 0.1.0 can be resumed", "[program][forged]") {
  const Folder f;
  fs::copy(kRelease, f.path("r"));
  for (const char* name : {"text.txt", "resumed.csv"}) fs::rename(f.path("r/" + std::string(name)), f.path(name));
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
