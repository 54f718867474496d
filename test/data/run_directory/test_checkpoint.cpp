// Checkpoints: their contents, files that are rejected, and the state that a resumed run continues.

#include "data/run_directory/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <thread>
#include <tuple>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "catch.hpp"
#include "check.hpp"
#include "data/files/json.hpp"
#include "data/formats/safetensors.hpp"
#include "data/options/command_line.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/evaluate.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/history.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/initialize.hpp"
#include "layers/training/adafactor.hpp"
#include "layers/training/step.hpp"
#include "small_run.hpp"
#include "table.hpp"

namespace {

Config tiny() {
  Config c;
  c.n_layer = 1, c.n_head = 2, c.channels = 8, c.context = 8, c.vocab_size = 256;
  return resolve(c);
}

struct Saved : TrainingState {
  Folder folder;
  CheckpointHeader header;
  std::string path = folder.path("x.safetensors");

  Saved() : TrainingState(Model(tiny()), 1, 8) {
    initialize(model, 1);
    header.options.config = model.config;
    header.step = 7, header.elapsed = 12.5, header.val_loss = 3, header.best_loss = 2, header.best_step = 5;
  }
  void save(bool with_moments = true) const {
    save_checkpoint(path, header, model, with_moments ? &optimizer_state : nullptr);
  }
  void load() { load_checkpoint(path, model, &optimizer_state); }
};

std::string refusal(Saved& s) { return message_of<std::runtime_error>([&] { s.load(); }); }

}  // namespace

TEST_CASE("a header reads back unchanged", "[checkpoint]") {
  const Saved s;
  s.save();
  const CheckpointHeader h = read_checkpoint_header(s.path);
  CHECK(h.step == 7);
  CHECK(h.elapsed == 12.5);
  CHECK(h.val_loss == 3);
  CHECK(h.best_loss == 2);
  CHECK(h.best_step == 5);
  CHECK(h.optimizer);
}

TEST_CASE("the time of a clock that went back reads as none", "[checkpoint]") {
  Saved s;
  for (const double seconds : {-1., -1e-9, std::nan(""), double(INFINITY)}) {
    s.header.elapsed = seconds;
    s.save();
    CHECK(read_checkpoint_header(s.path).elapsed == 0);
  }
}

TEST_CASE("a run of no steps has checkpoints that load, and it goes on", "[checkpoint][program]") {
  const Corpus f;
  const std::string small = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --threads 1 --quiet ";
  REQUIRE(f.run("train stories.txt --steps 0 --out r" + small).status == 0);
  for (const char* file : {"r/checkpoint.safetensors", "r/best.safetensors"}) {
    const CheckpointHeader header = read_checkpoint_header(f.path(file));
    CHECK(header.step == 0);
    CHECK(header.best_step == 0);
    CHECK(header.best_loss > 5);
  }
  CHECK(f.run("info r").status == 0);
  REQUIRE(f.run("train --out r --resume --steps 3 --lr 0 --quiet").status == 0);
  CHECK(read_checkpoint_header(f.path("r/checkpoint.safetensors")).best_step == 0);
  CHECK(f.run("train --out r --resume --steps 4 --quiet").status == 0);
}

namespace {

// The same every time.
class Choices {
 public:
  size_t below(size_t n) { return rng::key({5, next_++}) % n; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t next_ = 0;
};

// Returns a value that the setting accepts, as tested by parsing it.
std::string any_value(const Setting& s, Choices& choose) {
  static const std::vector<std::string> numbers = {"0",    "1",    "2",     "3",    "8",   "16",   "0.1", "0.5",
                                                   "0.99", "1e-3", "1e-12", "1e-7", "100", "12345", "1e6", "1e15"};
  static const std::vector<std::string> texts = {"norm", "a b", "\"quoted\" 'twice'", "back\\slash", "# no comment",
                                                 "two\nlines", "Füße 狐", "\xff\xfe", "[brackets]", "q,v", "10%"};
  if (s.flag()) return choose.below(2) ? "true" : "false";
  if (s.takes == "N" || s.takes == "X") return choose.of(numbers);
  return !s.choices.empty() ? choose.of(s.choices) : choose.of(texts);
}

// Returns a command line with about `count` random options that may be given together.
std::vector<std::string> any_words(Choices& choose, size_t count) {
  std::vector<std::string> words = {"train", "--context=8", "--channels=16", "--layers=2", "--heads=2"};
  for (size_t i = 0; i < count; ++i) {
    const Setting& s = choose.of(train_settings());
    if (contains("context channels embedding-channels layers heads head-dim hidden experts vocab-size", s.name))
      continue;
    words.push_back("--" + s.name + "=" + any_value(s, choose));
    try {
      resolved(with_vocabulary(parse_words(words).train).config);
    } catch (const std::exception&) {
      words.pop_back();
    }
  }
  return words;
}

// Checks that `lines` random command lines, which set nearly all options, read back.
void check_read_back(int lines) {
  const Folder f;
  Choices choose;
  std::vector<std::string> left = names_of(train_settings());  // settings that no command line has set yet
  for (int i = 0; i < lines; ++i) {
    const std::vector<std::string> words = any_words(choose, 40);
    std::string line;
    for (const std::string& word : words) {
      line += word + " ";
      std::erase(left, word.substr(2, word.find('=') - 2));
    }
    INFO(line);
    CheckpointHeader header;
    header.options = with_vocabulary(parse_words(words).train);
    header.options.config = resolved(header.options.config);
    REQUIRE(differences(from_toml(to_toml(header.options)), header.options) == std::vector<std::string>());
    const Model model(header.options.config, false);
    save_checkpoint(f.path("x"), header, model, nullptr);
    const CheckpointHeader again = read_checkpoint_header(f.path("x"));
    REQUIRE(differences(again.options, header.options) == std::vector<std::string>());
    REQUIRE(to_text(to_json(again.options)) == to_text(to_json(header.options)));
  }
  INFO("never chosen: " << left.size());
  CHECK(left.size() < 15);
}

}  // namespace

TEST_CASE("options chosen at random read back from a checkpoint and from config.toml", "[checkpoint]") {
  check_read_back(50);
}

TEST_CASE("many options chosen at random read back", "[checkpoint][nightly]") {
  check_read_back(150);
}

TEST_CASE("an impossible header is refused", "[checkpoint]") {
  Saved s;
  s.header.tokenizer = Tokenizer::characters(std::vector<uint32_t>{97, 97});
  s.save();
  CHECK_THROWS_AS(read_checkpoint_header(s.path), std::runtime_error);
}

TEST_CASE("a checkpoint is refused if moments are missing or not finite, or if bytes follow", "[checkpoint]") {
  Saved s;
  s.save();
  s.load();
  s.folder.write("x.safetensors", s.folder.read("x.safetensors") + "x");
  CHECK(contains(refusal(s), "is corrupted: its tensors take "));
  s.save(false);
  CHECK(contains(refusal(s), "no optimizer state"));
  s.optimizer_state[3] = NAN;
  s.save();
  CHECK(contains(refusal(s), "is not finite"));
}

TEST_CASE("a checkpoint is refused if a tensor has the state of an optimizer that does not take it", "[checkpoint]") {
  Saved s;
  Optimizer of_all = kAdafactorVectors;
  of_all.takes = [](const TensorSpec&) { return true; };
  const Optimizer* const rows[] = {&of_all};
  assign_optimizers(s.model.table, rows);
  s.header.options.optimizer = &run_optimizer("adafactor");
  s.save();
  const std::string refused = message_of<std::runtime_error>([&] { read_checkpoint_header(s.path); });
  CHECK(contains(refused, "optimizer.variance.block.0.attention.k.weight is not a tensor of its model"));
}

TEST_CASE("an estimate of the loss reads windows from the whole validation split", "[checkpoint]") {
  Saved s;
  Dataset data, spread;
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 100; ++i) tokens.push_back(static_cast<uint16_t>(i * i % 97));
  data.tokens.append(tokens);
  for (size_t i = 0; i < 8; ++i) data.val.add({8 * i, 8, 8});
  spread = data;
  spread.val = {};
  for (size_t i = 0; i < 8; i += 2) spread.val.add(data.val[i]);
  const Activations activations = allocate_activations(s.model.config, 2, 8, false);
  CHECK(evaluate(s.model, activations, data, 2, 2) == evaluate(s.model, activations, spread, 2, 0));
}

TEST_CASE("a resumed run adds to its time and its tokens", "[program][checkpoint]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 4 --diagnostics 1 --out r" + kSmall).status == 0);
  CHECK(f.has("r/diagnostics.csv"));
  CHECK(find_checkpoint(f.path("r")) == f.path("r/best.safetensors"));
  CHECK_FALSE(read_checkpoint_header(f.path("r/best.safetensors")).optimizer);
  REQUIRE(f.run("train --out r --resume --steps 6 --quiet").status == 0);
  const Table table(f.read("r/metrics.csv"));
  CHECK(table.at("tokens", 4) == "512");
  CHECK(table.at("tokens", 6) == "768");
  double seconds = 0;
  for (int step = 1; step <= 6; ++step) seconds += std::stod(table.at("step_ms", step)) / 1000;
  CHECK(std::stod(table.at("elapsed_s", 6)) == Approx(seconds).margin(.005));
  CHECK(read_checkpoint_header(f.path("r/checkpoint.safetensors")).elapsed == Approx(seconds).margin(.005));
  REQUIRE(f.run("train --data stories.txt --steps 1 --force --out r" + kSmall).status == 0);
  CHECK_FALSE(f.has("r/diagnostics.csv"));
}

TEST_CASE("a resumed run that is killed has no outcome", "[program][checkpoint]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --out r" + kSmall).status == 0);
  REQUIRE(f.has("r/outcome.json"));
  const auto trains = [&] { return count_lines(f.read("r/metrics.csv")) > 5; };
  REQUIRE(f.run_until("train --out r --resume --steps 100000 --quiet", SIGKILL, trains).status == 128 + SIGKILL);
  CHECK_FALSE(f.has("r/outcome.json"));
}

TEST_CASE("a run and its checkpoints record the program and the date", "[program][checkpoint]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --out r" + kTiny).status == 0);
  setenv("SOURCE_DATE_EPOCH", "1790000000", 1);
  const Outcome later = f.run("train --out r --resume --steps 4 --quiet");
  setenv("SOURCE_DATE_EPOCH", kEpochOfTests, 1);
  REQUIRE(later.status == 0);
  const std::vector<HistoryLine> calls = read_history(f.path("r"));
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].from_step == 0);
  CHECK(calls[0].date == date_now());
  CHECK(calls[1].from_step == 2);
  CHECK(calls[1].date == "2026-09-21T14:13:20Z");
  const ProgramRecord& here = this_program();
  for (const HistoryLine& call : calls)
    CHECK(std::tie(call.program.version, call.program.compiler, call.program.simd) ==
          std::tie(here.version, here.compiler, here.simd));
  const auto record = parse_json(StoredTensors(f.path("r/checkpoint.safetensors")).metadata().at("program"));
  CHECK(record == nlohmann::json{{"version", here.version}, {"compiler", here.compiler}, {"simd", here.simd},
                                 {"date", calls[1].date}});

  REQUIRE(f.run("train --data stories.txt --steps 4 --out whole" + kTiny).status == 0);
  CHECK(last_weights(f, "r") == last_weights(f, "whole"));
  f.write("r/history.jsonl", "{\"date\": 3}\nnonsense\n" + f.read("r/history.jsonl") + "{\"date\": ");
  CHECK(read_history(f.path("r")).size() == 2);
  REQUIRE(f.run("train --data stories.txt --steps 1 --force --out r" + kTiny).status == 0);
  CHECK(read_history(f.path("r")).size() == 1);
}

TEST_CASE("outcome.json says how a run ended", "[checkpoint]") {
  const Folder f;
  RunOutcome o{.finished = true, .early = true, .step = 7, .what = "", .tensor = ""};
  o.data_fingerprint = 0xfedcba9876543210;
  write_outcome(f.path("."), o);
  for (const char* line :
       {"\"state\": \"stopped early\"", "\"floor\": null", "\"data\": \"18364758544493064720\""})
    CHECK(contains(f.read("outcome.json"), line));
  const std::string good = f.read("outcome.json");
  const auto again = read_outcome(f.path("."));
  CHECK((again->finished && again->early));
  CHECK(again->floor == 0);
  CHECK(std::isnan(again->val_loss_full));
  CHECK(again->data_fingerprint == o.data_fingerprint);
  o.unigram = std::nan("");  // without validation
  write_outcome(f.path("."), o);
  CHECK(std::isnan(read_outcome(f.path("."))->unigram));
  for (const char* bad : {"\"\"", "\"-1\"", "\"18446744073709551616\"", "\"12x\"", "null", "-1", "1.5"}) {
    std::string damaged = good;
    damaged.replace(damaged.find("\"18364758544493064720\""), 22, bad);
    f.write("outcome.json", damaged);
    CHECK(contains(message_of<std::runtime_error>([&] { read_outcome(f.path(".")); }), "is not an outcome"));
  }
}

TEST_CASE("a checkpoint written on another thread holds the numbers of the call", "[checkpoint]") {
  Saved s;
  for (size_t i = 0; i < s.shard().state; ++i) s.optimizer_state[i] = static_cast<float>(i % 7);
  s.save();
  const std::string expected = s.folder.read("x.safetensors");
  s.folder.write("x.safetensors", "old");
  auto saving = save_checkpoint_later(s.path, s.header, s.model, &s.optimizer_state);
  std::fill_n(s.model.weights.get(), s.model.floats, 0.f);
  std::fill_n(s.optimizer_state.get(), s.shard().state, 0.f);
  REQUIRE(saving.valid());
  saving.get();
  CHECK(s.folder.read("x.safetensors") == expected);
  saving = save_checkpoint_later(s.folder.path("none/x.safetensors"), s.header, s.model, &s.optimizer_state);
  CHECK(contains(message_of<std::runtime_error>([&] { saving.get(); }), "cannot write "));
}

TEST_CASE("a checkpoint that waits for another is not written if that fails", "[checkpoint]") {
  Saved s;
  save_checkpoint(s.path, s.header, s.model, nullptr);
  const std::string expected = s.folder.read("x.safetensors");
  const auto save = [&](const char* file, const std::shared_future<void>& after) {
    return save_checkpoint_later(s.folder.path(file), s.header, s.model, nullptr, after);
  };
  std::promise<void> first;
  const auto second = save("second", first.get_future().share()), third = save("third", second);
  CHECK(third.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK_FALSE(s.folder.has("second"));
  first.set_value();
  third.get();
  CHECK(s.folder.read("second") == expected);
  CHECK(s.folder.read("third") == expected);
  const auto fails = save("none/fourth", {}), fifth = save("fifth", fails);
  CHECK(contains(message_of<std::runtime_error>([&] { fifth.get(); }), "cannot write "));
  CHECK_FALSE(s.folder.has("fifth"));
}

// Trains, and replaces best.safetensors by a folder once the program has prepared the run's directory. Until then, the
// program's first line of JSON waits for a full pipe.
static Outcome without_best(const Folder& f, const std::string& words, const std::string& run) {
  f.write(run + "/history.jsonl", "the last file that --force removes");
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  REQUIRE(fcntl(pipe[1], F_SETFL, O_NONBLOCK) == 0);
  char bytes[4096] = {};
  while (write(pipe[1], bytes, sizeof bytes) > 0) continue;
  REQUIRE(fcntl(pipe[1], F_SETFL, 0) == 0);
  const Started started = f.start(words + " --json --force --out " + run, [&] {
    dup2(pipe[1], STDOUT_FILENO);
    close(pipe[0]);
  });
  close(pipe[1]);
  while (f.has(run + "/history.jsonl")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::filesystem::create_directories(f.path(run + "/best.safetensors/in the way"));
  while (read(pipe[0], bytes, sizeof bytes) > 0) continue;
  close(pipe[0]);
  return f.finish(started);
}

TEST_CASE("a checkpoint names no best weights that could not be written", "[program][checkpoint]") {
  const Corpus f;
  const std::string words = "train --data stories.txt" + kSmall + "--steps 8 --save-every 0 ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  for (const char* every : {"3", "7"}) {  // the error comes during training, or at its end
    const std::string run = std::string("r") + every;
    const Outcome failed = without_best(f, words + " --eval-every " + every, run);
    INFO(failed.err);
    CHECK(failed.status == 1);
    CHECK(contains(failed.err, run + "/best.safetensors"));
    CHECK(contains(failed.err, " is saved"));
    const CheckpointHeader saved = verify_checkpoint(f.path(run + "/checkpoint.safetensors"));
    CHECK(saved.step > 2);
    CHECK(saved.best_step == 0);
    CHECK(std::isinf(saved.best_loss));
    std::filesystem::remove_all(f.path(run + "/best.safetensors"));
    REQUIRE(f.run("train --resume --quiet --out " + run).status == 0);
    CHECK(last_weights(f, run) == last_weights(f, "whole"));
    CHECK(same_bits(weights_in(f.path(run + "/best.safetensors")), weights_in(f.path("whole/best.safetensors"))));
  }
}

TEST_CASE("a run whose last step's weights could not be written as the best validates that step again",
          "[program][checkpoint]") {
  const Corpus f;
  const std::string words = "train --data stories.txt" + kSmall + "--steps 4 --eval-every 2 ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  REQUIRE(verify_checkpoint(f.path("whole/best.safetensors")).step == 4);
  const Outcome failed = without_best(f, words + "--eval-every 4", "r");
  CHECK(failed.status == 1);
  CHECK(contains(failed.err, "r/best.safetensors"));
  std::filesystem::remove_all(f.path("r/best.safetensors"));
  REQUIRE(f.run("train --resume --quiet --out r").status == 0);
  CHECK(same_bits(weights_in(f.path("r/best.safetensors")), weights_in(f.path("whole/best.safetensors"))));
}

TEST_CASE("best weights are whole after Ctrl-C and after a kill, and of the step that the checkpoint names",
          "[program][checkpoint]") {
  const Corpus f;
  const std::string words = "train --data stories.txt" + kSmall +
                            "--eval-every 1 --eval-batches 1 --save-every 2 --schedule constant --warmup 0 ";
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string run = "r" + std::to_string(signal), whole = "whole" + std::to_string(signal);
    f.run_until(words + "--steps 100000 --out " + run, signal,
                [&] { return count_lines(f.read(run + "/metrics.csv")) > 20; });
    const CheckpointHeader last = verify_checkpoint(f.path(run + "/checkpoint.safetensors"));
    const CheckpointHeader best = verify_checkpoint(f.path(run + "/best.safetensors"));
    CHECK(best.step == best.best_step);
    CHECK(best.best_step >= last.best_step);  // a kill may come between the two files
    if (signal == SIGINT) CHECK(best.best_step == last.best_step);
    const std::string steps = " --steps " + std::to_string(last.step + 3);
    REQUIRE(f.run("train --resume --quiet --out " + run + steps).status == 0);
    REQUIRE(f.run(words + "--out " + whole + steps).status == 0);
    CHECK(same_bits(weights_in(f.path(run + "/best.safetensors")), weights_in(f.path(whole + "/best.safetensors"))));
  }
}

TEST_CASE("saves while training goes on do not change a run", "[program][checkpoint]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 8 --accumulate 2" + kSmall;
  REQUIRE(f.run(words + "--out plain").status == 0);
  REQUIRE(f.run(words + "--save-every 1 --out often").status == 0);
  CHECK(last_weights(f, "often") == last_weights(f, "plain"));
  CHECK(f.run("info often").status == 0);
}
