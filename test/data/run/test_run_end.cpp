// How a run ends: its final validation, signals, divergence, and the state it leaves.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "check.hpp"
#include "data/files/json.hpp"
#include "data/host/progress.hpp"
#include "data/run/evaluate.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "layers/model/initialize.hpp"
#include "small_run.hpp"
#include "table.hpp"

namespace {

// The validation split has 1,700 batches, so validation takes long.
const std::string kLongValidation =
    "train --data stories.txt --val-fraction 0.9 --layers 1 --heads 1 --channels 16 --context 32 "
    "--batch 1 --eval-every 100 --eval-batches 4 --quiet --final-batches 0 ";

// Limits the size of the files that a child process may write.
void limit_files(size_t bytes) {
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

bool has_step(const Folder& f, const std::string& run, int64_t step) {
  const std::string file = run + "/checkpoint.safetensors";
  return f.has(file) && read_checkpoint_header(f.path(file)).step == step;
}

}  // namespace

TEST_CASE("the last step is saved before the final validation, which --resume repeats after a kill", "[program][end]") {
  const Corpus f;
  const std::string words = kLongValidation + "--steps 3 ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  const Outcome killed = f.run_until(words + "--out r", SIGKILL, [&] { return f.has("r/checkpoint.safetensors"); });
  REQUIRE(killed.status == 128 + SIGKILL);
  CHECK(has_step(f, "r", 3));
  CHECK_FALSE(read_outcome(f.path("r")));
  CHECK(f.run("train --out r --resume --quiet").status == 0);
  CHECK(losses_in(f.read("r/metrics.csv")) == losses_in(f.read("whole/metrics.csv")));
  CHECK(read_outcome(f.path("r"))->val_loss_full == read_outcome(f.path("whole"))->val_loss_full);
}

TEST_CASE("Ctrl-C during the final validation leaves a finished run", "[program][end]") {
  const Corpus f;
  const Outcome stopped =
      f.run_until(kLongValidation + "--steps 3 --out r", SIGINT, [&] { return f.has("r/best.safetensors"); });
  CHECK(stopped.status == 130);
  CHECK(contains(stopped.out, "The run is finished; its last measurement was stopped"));
  CHECK(read_outcome(f.path("r"))->finished);
  CHECK(std::isnan(read_outcome(f.path("r"))->val_loss_full));
  CHECK(f.run("train --out r --resume --quiet").status == 0);
  CHECK(read_outcome(f.path("r"))->val_loss_full > 0);
  check_refused(f, "train --out r --resume --quiet", "r is finished: say how far to go on, e.g. --steps 6");
  CHECK(read_outcome(f.path("r")));
}

TEST_CASE("a stopped validation is repeated on resume", "[program][end]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --val-fraction 0.9 --layers 1 --heads 1 --channels 16 --context 32 "
      "--batch 1 --eval-every 2 --eval-batches 0 --steps 4 --quiet ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  // Step 2 is validated before its row is written.
  REQUIRE(f.run_until(words + "--out r", SIGINT, [&] { return count_lines(f.read("r/metrics.csv")) > 1; }).status ==
          130);
  REQUIRE(f.run("train --out r --resume --quiet").status == 0);
  CHECK(losses_in(f.read("r/metrics.csv")) == losses_in(f.read("whole/metrics.csv")));
}

TEST_CASE("the loss on the whole validation split is measured if it is small, and only once", "[program][end]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 5" + kSmall;
  const auto last = [&](const std::string& run, const std::string& column) {
    return Table(f.read(run + "/metrics.csv")).last(column);
  };
  const Outcome small = f.run(words + "--out small");
  CHECK(last("small", "val_loss_full").empty());
  CHECK(contains(small.out, " batches; --final-batches 0 measures all of them"));
  REQUIRE(f.run(words + "--out whole --final-batches 0").status == 0);
  CHECK(last("whole", "val_loss") == last("small", "val_loss"));
  CHECK(last("whole", "val_loss_full") == csv_number(read_outcome(f.path("whole"))->val_loss_full));
  CHECK(last("whole", "val_loss_full") != last("whole", "val_loss"));
  REQUIRE(f.run(words + "--out once --eval-batches 0").status == 0);
  CHECK(last("once", "val_loss_full") == last("whole", "val_loss_full"));
  CHECK(last("once", "val_loss") == last("once", "val_loss_full"));
}

TEST_CASE("the best weights are chosen by one estimate of the loss", "[program][end]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --lr 0.003 --warmup 0 --schedule constant" + kSmall;
  REQUIRE(f.run(words + "--steps 10 --out short --final-batches 0").status == 0);
  REQUIRE(f.run(words + "--steps 15 --out long").status == 0);
  const Table shorter(f.read("short/metrics.csv")), longer(f.read("long/metrics.csv"));
  CHECK(shorter.at("val_loss", 10) == longer.at("val_loss", 10));
  const CheckpointHeader header = read_checkpoint_header(f.path("short/checkpoint.safetensors"));
  CHECK(csv_number(header.best_loss) == shorter.at("val_loss", header.best_step));
  REQUIRE(f.run("train --out long --resume --steps 20 --eval-batches 1 --quiet").status == 0);
  CHECK(read_checkpoint_header(f.path("long/checkpoint.safetensors")).best_step == 20);  // a new estimate
}

TEST_CASE("every signal that stops a run saves it, and each has its own exit code", "[program][end]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --save-every 0 --steps 100000" + kSmall;
  for (const auto& [signal, status] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {SIGUSR1, 138}}) {
    const std::string run = "r" + std::to_string(signal);
    const auto ready = [&] { return count_lines(f.read(run + "/metrics.csv")) > 3; };
    CHECK(f.run_until(words + "--out " + run, signal, ready).status == status);
    REQUIRE(f.has(run + "/checkpoint.safetensors"));
    CHECK(has_step(f, run, static_cast<int64_t>(count_lines(f.read(run + "/metrics.csv"))) - 1));
  }
}

TEST_CASE("a closed pipe and a file that is too large leave a checkpoint and a message", "[program][end]") {
  const Corpus f;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Started piped =
      f.start("train --data stories.txt --save-every 0 --sample-every 1 --steps 100000 --out p" + kSmall, [&] {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
      });
  close(ends[1]), close(ends[0]);
  const Outcome closed = f.finish(piped);
  CHECK(closed.status == 128 + SIGPIPE);
  CHECK(contains(closed.err, "and saved; to go on"));
  CHECK(f.has("p/checkpoint.safetensors"));

  // The limit is large enough for the checkpoint but not for the metrics.
  const std::string words =
      "train --data stories.txt --save-every 0 --layers 1 --heads 1 --channels 4 --context 8 --batch 1 "
      "--eval-every 0 --quiet --steps 100000 --out m";
  const Outcome large = f.finish(f.start(words, [] { limit_files(40000); }));
  INFO(large.err);
  CHECK(large.status == 1);
  CHECK(contains(large.err, "cannot write m/metrics.csv"));
  CHECK(contains(large.err, "is saved"));
  CHECK(count_lines(large.err) == 1);
  CHECK(f.has("m/checkpoint.safetensors"));
}

TEST_CASE("a run that is killed before its first save starts over", "[program][end]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 40 --save-every 0 --eval-every 0 --layers 2 --heads 2 "
                            "--channels 32 --context 32 --batch 4 --quiet ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  const Outcome killed =
      f.run_until(words + "--out r", SIGKILL, [&] { return count_lines(f.read("r/metrics.csv")) > 3; });
  REQUIRE(killed.status == 128 + SIGKILL);
  CHECK(contains(f.run(words + "--out r").err, "--resume continues it"));
  const Outcome resumed = f.run("train --out r --resume --quiet");
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")) == losses_in(f.read("r/metrics.csv")));
}

TEST_CASE("a run that diverges in its last update reports it and is not saved", "[program][end]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --warmup 0 --clip 0 --eval-every 0 --layers 2 --heads 2 --channels 32 "
      "--context 32 --batch 4 --quiet ";
  // Without eps, tokens that do not occur in the batch are updated by 0/0.
  const Outcome nan = f.run(words + "--steps 1 --no-tied --adam-eps 0 --out nan");
  CHECK(nan.status == 3);
  CHECK(contains(nan.err,
                 "step 1: the update is not finite; the first tensor with a NaN or an infinity is embedding.token"));
  CHECK_FALSE(read_outcome(f.path("nan"))->finished);
  CHECK_FALSE(f.has("nan/checkpoint.safetensors"));

  REQUIRE(f.run(words + "--steps 4 --out r").status == 0);
  const std::string good = f.read("r/checkpoint.safetensors");
  const Outcome exploded = f.run("train --out r --resume --steps 6 --save-every 1 --lr 1e6 --quiet");
  CHECK(exploded.status == 3);
  CHECK(count_lines(exploded.err) == 1);
  CHECK(f.read("r/checkpoint.safetensors") == good);
  CHECK_FALSE(read_outcome(f.path("r"))->finished);
}

TEST_CASE("finite weights whose loss is NaN do not replace a checkpoint", "[program][end]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --warmup 0 --clip 0 --eval-every 0 --placement none --layers 8 --heads 2 --channels 32 "
      "--context 32 --batch 4 --quiet ";
  REQUIRE(f.run(words + "--steps 2 --lr 1e-6 --out r").status == 0);
  const std::string good = f.read("r/checkpoint.safetensors");
  const Outcome o = f.run("train --out r --resume --steps 4 --save-every 1 --lr 1e6 --quiet");
  CHECK(o.status == 3);
  CHECK(contains(o.err, "not finite"));
  CHECK(f.read("r/checkpoint.safetensors") == good);
}

TEST_CASE("weights that are not finite, or whose output is not, are refused", "[program][end]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 1 --out r" + kSmall).status == 0);
  const CheckpointHeader header = read_checkpoint_header(f.path("r/checkpoint.safetensors"));
  Model model(header.options.config);
  load_checkpoint(f.path("r/checkpoint.safetensors"), model, nullptr);
  const auto refused = [&](const std::string& message) {
    save_checkpoint(f.path("bad.bin"), header, model, nullptr);
    for (const char* words : {"eval bad.bin --data stories.txt", "sample bad.bin --prompt x --length 3"}) {
      const Outcome o = f.run(words);
      INFO(o.err);
      CHECK(o.status == 1);
      CHECK(contains(o.err, message));
    }
  };
  model.weights.get()[5] = NAN;
  refused("embedding.token.weight is not finite, because its training diverged");
  std::fill_n(model.weights.get(), model.floats, 1e30f);
  refused("not finite: its training diverged");
}

TEST_CASE("evaluate reports its progress and can be stopped", "[end]") {
  const Corpus f;
  Config config;
  config.n_layer = 1, config.n_head = 1, config.channels = 8, config.context = 16, config.vocab_size = 256;
  Model model(resolve(config));
  initialize(model, 1);
  TextOptions text;
  text.data = {f.path("stories.txt")};
  const Dataset data = load_dataset(text, nullptr, 16);
  const Activations activations = allocate_activations(model.config, 4, 16, false);
  std::vector<int64_t> seen;
  const double loss = evaluate(model, activations, data, 4, 3, [&](int64_t done, int64_t total) {
    seen.push_back(10 * done + total);
    return true;
  });
  CHECK(seen == std::vector<int64_t>{3, 13, 23});
  CHECK(loss == evaluate(model, activations, data, 4, 3));
  CHECK(std::isnan(evaluate(model, activations, data, 4, 3, [](int64_t done, int64_t) { return done < 2; })));
}

TEST_CASE("the documents of a sample have at most 600 tokens together", "[program][end]") {
  const Corpus f;
  const std::string words = " --layers 1 --heads 1 --channels 8 --context 1024 --batch 1 --steps 1 --threads 1";
  REQUIRE(f.run("train --data stories.txt --eval-batches 1 --final-batches 1 --out r" + words).status == 0);
  const std::string text = f.read("r/samples.txt");  // of bytes, which are tokens, and lines between documents
  CHECK(text.size() > 600);
  CHECK(text.size() <= 600 + std::string("==== step 1 ====\n\n\n\n").size());
  const std::string beams = "sample r --prompt One --beams 2 --length 3";
  const Outcome one = f.run(beams);
  REQUIRE(one.status == 0);
  CHECK(f.run(beams + " --count 2").out == one.out);  // one text, and its prompt once
}

TEST_CASE("Ctrl-C ends the sample of a finished run, which is not stored", "[program][end]") {
  const Corpus f;
  const Outcome o = f.run_until("train --data stories.txt --layers 6 --heads 4 --channels 256 --context 600 --batch 1 "
                                "--steps 1 --threads 1 --eval-batches 1 --final-batches 1 --out r",
                                SIGINT, [&] { return f.has("r/outcome.json"); });
  INFO(o.out << o.err);
  CHECK(o.status == 130);
  CHECK(contains(o.out, "checkpoint  r/"));
  CHECK(!f.has("r/samples.txt"));
  check_refused(f, "train --out r --resume", "r is finished");
}

TEST_CASE("on a terminal, the progress line is cleared before a sample is printed", "[program][end]") {
  const Corpus f;
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return skip_test("no pseudo-terminal");
  const std::string name = ptsname(terminal);
  const Started started = f.start("train --data stories.txt --steps 4 --sample-every 2 --out r" + kSmall, [&] {
    dup2(open(name.c_str(), O_RDWR | O_NOCTTY), STDOUT_FILENO);
  });
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);  // keeps the output until it is read
  std::string text;
  char piece[4096];
  const auto drain = [&] {
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(terminal, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(n));
  };
  siginfo_t ended{};
  const auto process = static_cast<id_t>(started.process);
  while (waitid(P_PID, process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) drain(), usleep(1000);
  drain();
  CHECK(f.finish(started).status == 0);
  close(slave), close(terminal);
  const size_t sample = text.find("---- sample ----");
  REQUIRE(sample != text.npos);
  REQUIRE(contains(text.substr(0, sample), "step 1/4"));
  const size_t line = text.rfind('\n', sample) == text.npos ? 0 : text.rfind('\n', sample);
  const size_t cleared = text.rfind("\r\033[K", sample);
  CHECK(cleared != text.npos);
  CHECK((cleared >= line && cleared + 4 == sample));
}

TEST_CASE("Ctrl-C in a long step is confirmed on a terminal, and a second one ends the program", "[program][end]") {
  const Corpus f;
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return skip_test("no pseudo-terminal");
  const std::string name = ptsname(terminal);
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);
  const Started started = f.start("train --data stories.txt --accumulate 1000000 --out r" + kSmall, [&] {
    dup2(open(name.c_str(), O_RDWR | O_NOCTTY), STDERR_FILENO);
  });
  const auto wait_until = [&](const auto& ready) {
    siginfo_t ended{};
    while (!ready() && waitid(P_PID, static_cast<id_t>(started.process), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0)
      usleep(1000);
  };
  wait_until([&] { return f.has("r/metrics.csv"); });
  usleep(100'000);
  kill(started.process, SIGINT);
  std::string text;
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  wait_until([&] {
    char piece[4096];
    for (ssize_t n; (n = read(terminal, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(n));
    return contains(text, "stopping");
  });
  CHECK(contains(text, "stopping after this step; Ctrl-C again stops now, without saving"));
  kill(started.process, SIGINT);
  CHECK(f.finish(started).status == 130);
  close(slave), close(terminal);
}

TEST_CASE("on a terminal, lines are edited without a trace of control sequences", "[program][end]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 1 --out r" + kTiny).status == 0);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return skip_test("no pseudo-terminal");
  const std::string name = ptsname(terminal);
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);
  const Started started = f.start("sample r --interactive --json --length 3", [&] {
    const int typed = open(name.c_str(), O_RDWR | O_NOCTTY);
    dup2(typed, STDIN_FILENO), dup2(typed, STDERR_FILENO);
  });
  // The keys of each line, once the prompt is there.
  const std::vector<std::string> lines = {"a\x1b[D\x1b[3~\x1bOFb\xc3\xa9\x7f\x7fOn day\x17\x08" "e\n", "\n",
                                          "junk\x15\x1b[A\x1b[A\x1b[B\x1b[A\n", "\x04"};
  std::string text;
  char piece[4096];
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  size_t typed = 0;
  siginfo_t ended{};
  const auto process = static_cast<id_t>(started.process);
  const Stopwatch clock;
  const auto runs = [&] {
    return waitid(P_PID, process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  };
  while (runs() && clock.seconds() < 20) {
    for (ssize_t n; (n = read(terminal, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(n));
    if (typed < lines.size() && text.ends_with("\n> ")) {
      const std::string& keys = lines[typed++];
      text += '.';
      CHECK(write(terminal, keys.data(), keys.size()) == ssize_t(keys.size()));
    }
    usleep(1000);
  }
  if (ended.si_pid == 0) kill(started.process, SIGKILL);
  const Outcome o = f.finish(started);
  close(slave), close(terminal);
  INFO(text);
  CHECK(o.status == 0);
  CHECK(contains(text, "Ctrl-D the program"));
  for (const char* raw : {"^[", "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[3", "\x1bO"}) CHECK_FALSE(contains(text, raw));
  const std::vector<std::string> answers = lines_of(o.out);
  REQUIRE(answers.size() == 2);
  for (const std::string& answer : answers) CHECK(parse_json(answer)["prompt"] == "aOne");
}

TEST_CASE("train ends with commands that can be run; its comparison tunes the rate and the warm-up", "[program][end]") {
  const Corpus f;
  const std::string tiny = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --threads 1 ";
  const std::string out = f.run("train stories.txt --steps 2 --eval-batches 1 --out r" + tiny).out;
  std::istringstream lines(out.substr(out.find("\nnext:\n") + 7));
  std::vector<std::string> suggested;
  for (std::string line; std::getline(lines, line);) suggested.push_back(line.substr(line.find("train_gpt ") + 10));
  REQUIRE(suggested.size() == 3);
  CHECK(f.run("sample r --length 4").status == 0);
  CHECK(f.run(suggested[1] + " --dry-run").status == 0);
  const Outcome plan = f.run(suggested[2] + " --dry-run" + tiny);
  INFO(suggested[2] << plan.err);
  CHECK(plan.status == 0);
  CHECK(contains(plan.out, " runs each to tune lr and warmup on seed 0"));
  // A comparison from nothing says little about weights that were trained before.
  const std::string tuned = f.run("train stories.txt --init-from r --steps 2 --warmup 0 --eval-batches 1 --out t").out;
  CHECK(contains(tuned, "\nnext:\n"));
  CHECK_FALSE(contains(tuned, "train_gpt compare"));
}

TEST_CASE("a run that learned only the frequencies of the tokens says so", "[program][end]") {
  const Corpus f;
  const std::string words = "train stories.txt --layers 1 --heads 1 --channels 16 --context 16 --batch 4 --steps 200 "
                            "--eval-every 100 --eval-batches 1 --warmup 10 ";
  const std::string line = "  (no better than guessing by frequency, ", end = "No better than guessing each token by";
  const Outcome nothing = f.run(words + "--lr 0"), something = f.run(words + "--lr 1e-2");
  INFO(nothing.out << something.out);
  CHECK(contains(nothing.out, line));
  CHECK(contains(nothing.out, end));
  CHECK_FALSE(contains(something.out, line));
  CHECK_FALSE(contains(something.out, end));
  CHECK_FALSE(contains(f.run(words + "--lr 0 --warmup 200").out, line));
}

TEST_CASE("train suggests a prompt that its tokenizer knows", "[program][end]") {
  const Folder f;
  const std::string tiny = " --steps 2 --eval-batches 1 --layers 1 --heads 1 --channels 8 --context 16 --batch 2 ";
  const auto suggested = [&](const std::string& text, const std::string& run) {
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "\nbir varmış, bir yokmuş";
    f.write("text.txt", text + lines);
    const std::string out = f.run("train text.txt --tokenizer char --out " + run + tiny).out;
    const size_t begin = out.find("train_gpt sample ") + 10;
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  CHECK(suggested("- güzel bir gün", "words") == "sample words --prompt güzel");
  CHECK(f.run("sample words --prompt güzel --length 4").status == 0);
  CHECK(suggested("\033[2Jx y", "escapes") == "sample escapes");
  CHECK(suggested(std::string(100, 'x'), "long") == "sample long");
}

TEST_CASE("commands that the program suggests are quoted for a shell", "[program][end]") {
  const Corpus f;
  const Outcome o = f.run(
      "train --data stories.txt --out my;run --steps 2 --layers 1 --channels 16 --heads 2 --context 16 --batch 2");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, " train --out 'my;run' --resume --steps 4\n"));
  CHECK(contains(o.out, " sample 'my;run' --prompt One\n"));
  CHECK(contains(o.out, "NOTE     the floor is not known: a story is longer than the context of 16\n"));
  CHECK(
      !contains(f.run("train --data stories.txt --dry-run --val-fraction 0 --eval-every 0 --context 16").out, "floor"));
}
