// Results for other programs: JSON, gradients.

#include <cmath>
#include <csignal>
#include <cstring>

#include "catch.hpp"
#include "check.hpp"
#include "data/files/json.hpp"
#include "data/formats/npy.hpp"
#include "data/host/interrupt.hpp"
#include "data/run/generate_text.hpp"
#include "small_run.hpp"

namespace {

std::vector<nlohmann::json> json_lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(text)) lines.push_back(parse_json(line));
  return lines;
}

std::vector<std::string> events_of(const std::vector<nlohmann::json>& lines) {
  std::vector<std::string> events;
  for (const auto& line : lines) events.push_back(line.at("event"));
  return events;
}

// ---- .npz ------------------------------------------------------------------------------------------------

uint64_t number_at(const std::string& bytes, size_t at, size_t width) {
  REQUIRE(at + width <= bytes.size());
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, width);
  return value;
}

struct Array {
  std::string name, header;
  std::vector<float> values;
};

// By the central directory, as zip readers do. CHECKs that the local headers say the same.
std::vector<Array> arrays_in(const std::string& zip) {
  const size_t end = zip.size() - 22;
  REQUIRE(number_at(zip, end, 4) == 0x06054b50);
  const uint64_t count = number_at(zip, end + 10, 2);
  CHECK(number_at(zip, end + 8, 2) == count);
  size_t at = number_at(zip, end + 16, 4);
  CHECK(at + number_at(zip, end + 12, 4) == end);
  std::vector<Array> arrays;
  for (uint64_t i = 0; i < count; ++i) {
    REQUIRE(number_at(zip, at, 4) == 0x02014b50);
    const size_t length = number_at(zip, at + 28, 2), local = number_at(zip, at + 42, 4);
    const size_t size = number_at(zip, at + 20, 4);
    const std::string name = zip.substr(at + 46, length);
    CHECK(number_at(zip, at + 24, 4) == size);
    REQUIRE(number_at(zip, local, 4) == 0x04034b50);
    CHECK(zip.substr(local + 4, 26) == zip.substr(at + 6, 26));
    CHECK(zip.substr(local + 30, length) == name);
    const std::string npy = zip.substr(local + 30 + length, size);
    REQUIRE(npy.size() == size);
    CHECK(number_at(zip, at + 16, 4) == crc32(npy));
    const size_t header = 10 + number_at(npy, 8, 2);
    CHECK(header % 64 == 0);
    Array array{name, npy.substr(10, header - 10), std::vector<float>((size - header) / 4)};
    std::memcpy(array.values.data(), npy.data() + header, size - header);
    arrays.push_back(array);
    at += 46 + length;
  }
  CHECK(at == end);
  return arrays;
}

}  // namespace

TEST_CASE("train --json writes an event a line, and the text to standard error", "[measure]") {
  const Corpus f;
  const Outcome done = f.run("train --data stories.txt --steps 4 --sample-every 2 --out r --json" + kSmall +
                             "--eval-every 2 --final-batches 1");
  INFO(done.err);
  REQUIRE(done.status == 0);
  const auto lines = json_lines_of(done.out);
  CHECK(events_of(lines) == std::vector<std::string>{"plan", "step", "validation", "step", "sample", "step", "step",
                                                     "validation", "end"});
  CHECK(contains(done.err, "checkpoint  r/checkpoint.safetensors"));
  CHECK(lines[0]["settings"]["steps"] == 4);
  CHECK(lines[1]["step"] == 1);
  CHECK(lines[1]["train_loss"].get<double>() == Approx(std::log(256.)).epsilon(.1));
  CHECK(lines[2]["step"] == 2);
  CHECK(lines[2]["best"] == true);
  CHECK(lines.back()["state"] == "finished");
  CHECK(lines.back()["parameters"] == lines[0]["parameters"]);
  CHECK(!contains(f.read("r/config.toml"), "json"));
}

TEST_CASE("info --json has the model, its tensors and its cost", "[measure]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 1 --out runs/a" + kTiny).status == 0);
  for (const char* words : {"info --json", "info runs/a --json --cost"}) {
    const Outcome done = f.run(words);
    INFO(done.err);
    REQUIRE(done.status == 0);
    const auto json = parse_json(done.out);
    CHECK(json["checkpoint"]["step"] == 1);
    size_t parameters = 0;
    for (const auto& tensor : json["tensors"]) {
      size_t size = 1;
      for (const size_t d : tensor["shape"]) size *= d;
      parameters += size;
      if (tensor["name"] == "block.0.attention.o.weight") CHECK(tensor["role"] == "o");
    }
    CHECK(json["parameters"] == parameters);
    CHECK(json.contains("cost") == contains(words, "--cost"));
    if (!json.contains("cost")) continue;
    double sum = 0;
    for (const auto& part : json["cost"]["parts"]) sum += part["parameters"].get<double>();
    CHECK(sum == static_cast<double>(parameters));
  }
}

TEST_CASE("compare --json writes the plan, each run and the summary", "[measure]") {
  const Corpus f;
  const Outcome done =
      f.run("compare --data stories.txt --grid norm=layernorm,rmsnorm --steps 2 --out c --json" + kTiny +
            "--eval-every 1");
  INFO(done.err);
  REQUIRE(done.status == 0);
  const auto lines = json_lines_of(done.out);
  CHECK(events_of(lines) == std::vector<std::string>{"plan", "run", "run", "summary", "summary"});
  CHECK(lines[0]["runs"] == 2);
  CHECK(lines[1]["run"] == "norm=layernorm  seed=1");
  CHECK(lines[3]["cell"] == "norm=layernorm");
  CHECK(lines[3]["verdict"] == "baseline");
  CHECK(lines[4]["n"] == 1);
  CHECK(lines[4].at("p").is_null());  // one seed
  CHECK(f.run("compare --out c --resume").status == 0);  // --json is of one call
}

TEST_CASE("sample --json says where a sample comes from, --interactive goes on with each line", "[measure]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3 --out r" + kTiny).status == 0);
  const std::string words = "sample r --seed 3 --length 9 --json";
  const auto pair = json_lines_of(f.run(words + " --count 2 --prompt One").out);
  REQUIRE(pair.size() == 2);
  CHECK(pair[0]["checkpoint"] == "r/checkpoint.safetensors");
  CHECK(pair[1]["seed"] == 3);
  CHECK(pair[1]["sample"] == 1);

  const Outcome talk = f.run(words + " --greedy --interactive", "One\n day\n\nOne\nlast line");
  CHECK(talk.status == 0);
  const auto answers = json_lines_of(talk.out);
  REQUIRE(answers.size() == 4);
  CHECK(answers[0]["text"] == json_lines_of(f.run(words + " --greedy --prompt One").out)[0]["text"]);
  CHECK(answers[1]["prompt"].get<std::string>().starts_with("One"));
  CHECK(answers[1]["prompt"].get<std::string>().ends_with(" day"));
  CHECK(answers[2]["prompt"] == "One");  // the empty line has made the model forget
  CHECK(answers[2]["text"] == answers[0]["text"]);
  check_refused(f, "sample r --interactive --count 2", "leave out --count");
}

TEST_CASE("Ctrl-C ends an answer and not the program", "[measure]") {
  Config c;
  c.n_layer = 1, c.n_head = 1, c.channels = 8, c.context = 16, c.vocab_size = 256;
  const Model model(c, false);
  int asked = 0;
  const Generated result = generate_text(
      model, Tokenizer::bytes(), "a",
      {.length = 50, .stop = "", .sampling = {}, .stopped = [&] { return ++asked == 3; }}, [](const std::string&) {});
  CHECK(std::string(result.end) == "interrupted");
  CHECK(result.tokens.size() == 3);
  {
    const CatchCtrlC now;
    std::raise(SIGINT);
    CHECK(interrupted());
  }
  CHECK_FALSE(interrupted());
}

TEST_CASE("crc32 is that of zip", "[measure]") {
  CHECK(crc32("123456789") == 0xcbf43926);
  CHECK(crc32("6789", crc32("12345")) == 0xcbf43926);
}

TEST_CASE("eval writes the gradients of the first batch", "[measure]") {
  const Corpus f;
  f.write("short.txt", f.read("stories.txt").substr(0, 3 * 16 + 1));
  REQUIRE(f.run("train stories.txt --steps 3 --out run --norm batchnorm" + kTiny).status == 0);
  const Outcome done = f.run("eval run --data short.txt --batch 8 --gradients g.npz");
  INFO(done.err);
  REQUIRE(done.status == 0);
  const std::vector<Array> arrays = arrays_in(f.read("g.npz"));

  const TrainedModel trained = load_trained_model(f.path("run/checkpoint.safetensors"));
  Model model(trained.model.config);
  std::copy_n(trained.model.weights.get(), model.floats, model.weights.get());
  const std::string text = f.read("short.txt");
  const std::vector<int> tokens(text.begin(), text.end() - 1), targets(text.begin() + 1, text.end());
  model_loss_and_gradients(model, allocate_activations(model.config, 3, 16, true),
                           {tokens.data(), targets.data(), 3, 16}, 1 / 48.f, {});
  size_t at = 0;
  for (const TensorSpec& spec : model.table) {
    if (!spec.trained) continue;  // the running statistics
    REQUIRE(at < arrays.size());
    INFO(spec.name);
    const Array& array = arrays[at++];
    CHECK(array.name == spec.name + ".npy");
    std::string shape;
    for (const int d : spec.shape) shape += std::to_string(d) + ", ";
    CHECK(array.header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }"));
    CHECK(same_bits(array.values, {model.gradients.get() + spec.gradient, spec.size()}));
  }
  CHECK(at == arrays.size());
  CHECK(at < model.table.size());
}
