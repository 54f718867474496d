// The whole program: runs that are stopped, killed, resumed and repeated, and wrong input.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>

#include "data/corpus/corpus_files.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/version.hpp"
#include "catch.hpp"
#include "check.hpp"
#include "small_run.hpp"

TEST_CASE("training has the same bits with any number of threads", "[program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 12 --dropout 0.1 --placement deepnorm" + kSmall;
  for (const char* threads : {"1", "2", "3"})
    REQUIRE(f.run(words + "--threads " + threads + " --out t" + threads).status == 0);
  for (const char* other : {"t2", "t3"}) {
    CHECK(losses_in(f.read("t1/metrics.csv")) == losses_in(f.read(std::string(other) + "/metrics.csv")));
    CHECK(
        same_bits(last_weights(f, "t1"), last_weights(f, other)));
  }
}

TEST_CASE("a run that is killed resumes with the same bits", "[program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 60 --save-every 7 --dropout 0.1 --kv-heads 1" + kSmall;
  REQUIRE(f.run(words + "--out whole").status == 0);

  const Outcome killed = f.run_until(words + "--out broken", SIGKILL, [&] {
    return f.has("broken/checkpoint.safetensors") && count_lines(f.read("broken/metrics.csv")) > 17;
  });
  REQUIRE(killed.status == 128 + SIGKILL);
  REQUIRE(count_lines(f.read("broken/metrics.csv")) < 61);
  const Outcome resumed = f.run("train --out broken --resume --quiet");
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")) == losses_in(f.read("broken/metrics.csv")));
  CHECK(same_bits(last_weights(f, "whole"), last_weights(f, "broken")));
  CHECK(same_bits(weights_in(f.path("whole/best.safetensors")), weights_in(f.path("broken/best.safetensors"))));
}

TEST_CASE("Ctrl-C saves the run and says how to resume it", "[program]") {
  const Corpus f;
  const Outcome stopped = f.run_until("train --data stories.txt --steps 100000 --out r" + kSmall, SIGINT, [&] {
    return count_lines(f.read("r/metrics.csv")) > 3;
  });
  CHECK(stopped.status == 130);
  CHECK(contains(stopped.out, "train --out r --resume"));
  const int64_t step = read_checkpoint_header(f.path("r/checkpoint.safetensors")).step;
  CHECK(count_lines(f.read("r/metrics.csv")) == static_cast<size_t>(step) + 1);
  const Outcome resumed = f.run("train --out r --resume --quiet --steps " + std::to_string(step + 2));
  CHECK(resumed.status == 0);
  CHECK(read_checkpoint_header(f.path("r/checkpoint.safetensors")).step == step + 2);
}

TEST_CASE("the comparison that a run suggests is of all its texts", "[program][suggestion]") {
  const Corpus f;
  f.write("more.txt", f.read("stories.txt"));
  const std::string small = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --steps 1 --eval-every 0 ";
  const Outcome run = f.run("train stories.txt more.txt --out r" + small);
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, " compare --data stories.txt more.txt --grid "));
}

TEST_CASE("a finished run can be extended, but not changed", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 4 --lr 0.001 --out r" + kSmall).status == 0);
  CHECK(f.run("train --out r --resume --steps 6 --quiet").status == 0);
  CHECK(count_lines(f.read("r/metrics.csv")) == 7);
  check_refused(f, "train --out r --resume --steps 8 --batch 5", "--batch is 4 there and 5 here");
  f.write("other.txt", f.read("stories.txt") + "One more line.\n");
  CHECK(contains(f.run("train --out r --resume --data other.txt").err, "not the one the run was trained on"));
  for (const char* dry : {"", " --dry-run"})
    CHECK(contains(f.run("train --data stories.txt --out r" + kSmall + dry).err, "already holds a run"));
  CHECK(f.run("train --data stories.txt --steps 2 --out r --force --dry-run" + kSmall).status == 0);
  CHECK(count_lines(f.read("r/metrics.csv")) == 7);
  CHECK(f.run("train --data stories.txt --steps 2 --out r --force" + kSmall).status == 0);
  CHECK(count_lines(f.read("r/metrics.csv")) == 3);
}

TEST_CASE("accumulated micro-batches equal one batch", "[program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 5 --dropout 0.2 --eval-every 0 --layers 2 --heads 2 "
                            "--channels 32 --context 32 --quiet ";
  REQUIRE(f.run(words + "--batch 8 --out whole").status == 0);
  REQUIRE(f.run(words + "--batch 2 --accumulate 4 --out parts").status == 0);
  const auto whole = last_weights(f, "whole"), parts = last_weights(f, "parts");
  check_close("program/micro-batches/weights", parts, widen(whole), 1e-6);
}

TEST_CASE("config.toml reads back, and unset options stay unset", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3 --placement deepnorm --no-bias --out a" + kSmall).status == 0);
  REQUIRE(f.run("train --config a/config.toml --out b --quiet").status == 0);
  CHECK(f.read("a/config.toml") == f.read("b/config.toml"));
  CHECK(losses_in(f.read("a/metrics.csv")) == losses_in(f.read("b/metrics.csv")));
  for (const char* line : {"# beta2 = 0.95", "# momentum = 0", "# nesterov = false", "lr = 0.003",
                           "# lr-embedding = 0.003", "# lr-vector = 0.003", "# lr-norm = 0.003"})
    CHECK(contains(f.read("a/config.toml"), std::string("\n") + line + "\n"));
  CHECK_FALSE(contains(f.read("a/config.toml"), "lr-head"));  // the classifier is tied
  REQUIRE(f.run("train --config a/config.toml --placement pre --out c --quiet").status == 0);
  const Config c = read_checkpoint_header(f.path("c/checkpoint.safetensors")).options.config;
  CHECK(c.placement == "pre");
  CHECK(*c.skip_scale == 1);
  CHECK(*c.final_norm);
  CHECK(*c.residual_gain);
}

TEST_CASE("runs are numbered, and sample, eval and info find the newest", "[program][slow]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3" + kSmall).status == 0);
  REQUIRE(f.run("train --data stories.txt --steps 3 --placement post-ln --norm rmsnorm" + kSmall).status == 0);
  CHECK(f.has("runs/0001-pre-layernorm/best.safetensors"));
  CHECK(f.has("runs/0002-post-rmsnorm/checkpoint.safetensors"));
  const Outcome info = f.run("info");
  CHECK(contains(info.out, "0002-post-rmsnorm"));
  CHECK(contains(info.out, "block.1.ffn.norm_sum.gain"));
  for (const char* option : {"--placement post", "--no-bias", "--channels=64"}) {
    check_refused(f, std::string("info runs/0001-pre-layernorm ") + option,
                  "says what a model is, and runs/0001-pre-layernorm is a model already: leave out --");
  }
  CHECK(contains(f.run("info runs/0001-pre-layernorm --batch 7").out, "to train with --batch 7"));
  const Outcome sample = f.run("sample --prompt Lily --length 40 --greedy");
  CHECK(sample.status == 0);
  CHECK(sample.out.starts_with("Lily"));
  CHECK(sample.out.size() == 4 + 40 + 1);
  CHECK(sample.out == f.run("sample --length 40 --greedy", "Lily").out);
  CHECK(sample.out == f.run("sample --prompt Lily --length 40 --temperature 0").out);
  CHECK(sample.out == f.run("sample --prompt Lily --length 40 --greedy --temperature 2").out);
  CHECK(sample.out == f.run("sample --prompt - --length 40 --greedy", "Lily").out);
  const auto line = parse_json(f.run("sample --prompt Lily --length 40 --greedy --json").out);
  std::string text = line["prompt"];
  for (const int byte : line["tokens"]) text += static_cast<char>(byte);
  CHECK(text + "\n" == sample.out);
  CHECK(line["end"] == "length");
  CHECK(parse_json(f.run("sample --greedy --json --prompt Lily --stop y --length 99").out)["end"] == "stop");
  CHECK(sample.out != f.run("sample --prompt Lily --length 40 --greedy --repeat-penalty 3").out);
  CHECK(sample.out == f.run("sample --prompt Lily --length 40 --min-p 1").out);
  const Outcome beyond = f.run("sample runs/0001-pre-layernorm --prompt Lily --length 60 --seed 3");
  CHECK(beyond.status == 0);
  CHECK(contains(beyond.err, "beyond the context of 32 tokens"));
  const Outcome cut = f.run("sample runs/0001-pre-layernorm --prompt " + std::string(40, 'a'));
  CHECK(cut.status == 0);
  CHECK(contains(cut.err, "the prompt has 40 tokens and the context 32: the model sees the last 16 to 32]"));
  CHECK(contains(f.run("sample runs/0001-pre-layernorm --interactive", std::string(40, 'a') + "\n").err,
                 "the prompt has 40 tokens and the context 32"));
  CHECK(f.run("eval --data stories.txt").status == 0);

  // The newest run is the one saved last, even if its best weights are older than another run's.
  const auto now = std::filesystem::last_write_time(f.path("runs/0002-post-rmsnorm/checkpoint.safetensors"));
  const auto set_age = [&](const std::string& file, int seconds) {
    std::filesystem::last_write_time(f.path("runs/" + file), now - std::chrono::seconds(seconds));
  };
  set_age("0001-pre-layernorm/best.safetensors", 30), set_age("0001-pre-layernorm/checkpoint.safetensors", 0);
  set_age("0002-post-rmsnorm/best.safetensors", 20), set_age("0002-post-rmsnorm/checkpoint.safetensors", 10);
  CHECK(contains(f.run("info").out, "0001-pre-layernorm/best.safetensors"));
}

TEST_CASE("--for chooses the number of steps and records it", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --for 1s --out r" + kSmall).status == 0);
  const TrainOptions o = read_checkpoint_header(f.path("r/checkpoint.safetensors")).options;
  CHECK(o.steps >= 1);
  CHECK(contains(f.read("r/config.toml"), "steps = " + std::to_string(o.steps)));
  REQUIRE(f.run("train --config r/config.toml --out again --quiet").status == 0);
  CHECK(losses_in(f.read("r/metrics.csv")) == losses_in(f.read("again/metrics.csv")));
}

TEST_CASE("--for measures the speed of a resumed run without changing it", "[program]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --schedule constant" + kSmall;
  REQUIRE(f.run(words + "--steps 4 --out r").status == 0);
  std::string run;
  int64_t steps = 0;
  for (const std::string time : {"1s", "5s", "25s"}) {  // a busy machine may give the first seconds to other programs
    if (steps > 10) break;
    run = "r" + time;
    std::filesystem::copy(f.path("r"), f.path(run));
    REQUIRE(f.run("train --out " + run + " --resume --for " + time + " --quiet").status == 0);
    steps = read_checkpoint_header(f.path(run + "/checkpoint.safetensors")).options.steps;
  }
  CHECK(steps > 10);
  REQUIRE(f.run(words + "--out whole --steps " + std::to_string(steps)).status == 0);
  CHECK(same_bits(last_weights(f, "whole"), last_weights(f, run)));
}

TEST_CASE("compare trains every cell and reports one that diverges", "[program]") {
  const Corpus f;
  const Outcome o =
      f.run("compare --data stories.txt --steps 8 --clip 0 --warmup 0 --out c --grid placement=post,none lr=1e-3,1e6" +
            kSmall);
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(f.has("c/placement=post,lr=1e-3/seed=1/checkpoint.safetensors"));
  CHECK(f.read("c/curves.csv").starts_with("cell,stage,placement,peak_lr,seed,step,"));
  CHECK(contains(f.read("c/curves.csv"), "\"placement=none,lr=1e-3\",final,none,1e-3,1,8,"));
  CHECK(contains(f.read("c/runs.csv"), "\"placement=none,lr=1e6\",final,none,1e6,1,diverged,"));
  CHECK(contains(f.read("c/runs.csv"), "," + date_now() + "," + this_program().version + ","));
  CHECK(contains(f.read("c/runs.csv"), ",block.0."));  // the first tensor that was not finite
  CHECK(contains(o.out, "0/1 finished, 1 diverged"));
  CHECK(contains(o.out, "placement=none,lr=1e6  seed=1: diverged at step "));
}

namespace {

// A comparison's CSV file without the columns that depend on time.
std::string untimed(const std::string& csv) {
  const std::set<std::string> timed = {"elapsed_s", "step_ms", "tokens_per_second", "seconds", "seconds_to_target",
                                       "seconds_min", "seconds_max", "tokens_per_second_min", "tokens_per_second_max",
                                       "command", "directory"};
  std::string kept;
  std::vector<std::string> header;
  std::istringstream file(csv);
  for (std::string line; std::getline(file, line); kept += "\n") {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : line)
      if (c == '"') quoted = !quoted;
      else if (c == ',' && !quoted) fields.emplace_back();
      else fields.back() += c;
    if (header.empty()) header = fields;
    for (size_t i = 0; i < fields.size(); ++i)
      if (!timed.count(header[i])) kept += fields[i] + ",";
  }
  return kept;
}

}  // namespace

TEST_CASE("a comparison that is killed resumes to the same tables", "[program]") {
  const Corpus f;
  const std::string words =
      "compare --data stories.txt --steps 30 --save-every 4 --warmup 5 --grid placement=post,none norm=rmsnorm "
      "--tune lr=1e-3,3e-3 --tune-runs 2" +
      kSmall;
  REQUIRE(f.run(words + "--out whole").status == 0);
  // The metrics of a run at the learning rate that its cell chose.
  const auto metrics_of = [&](const std::string& run) {
    for (const char* rate : {",lr=0.001", ",lr=0.003"})
      if (f.has(run + rate + "/metrics.csv")) return run + rate + "/metrics.csv";
    return run;
  };
  size_t killed = 0;
  for (const char* run : {"broken/placement=post,norm=rmsnorm/tune,seed=0", "broken/placement=none,norm=rmsnorm/seed=1",
                          "broken/placement=post,norm=rmsnorm/seed=3"}) {
    const std::string again = f.has("broken") ? "compare --out broken --resume" : words + "--out broken";
    killed +=
        f.run_until(again, SIGKILL, [&] { return count_lines(f.read(metrics_of(run))) > 9; }).status == 128 + SIGKILL;
  }
  CHECK(killed == 3);
  const Outcome asked = f.run_until("compare --out broken --resume", SIGINT,
                                    [&] { return f.has(metrics_of("broken/placement=none,norm=rmsnorm/seed=3")); });
  CHECK((asked.status == 130 ? contains(asked.err, "--resume") : asked.status == 0));
  const Outcome last = f.run("compare --out broken --resume --jobs 2");
  INFO(last.err);
  REQUIRE(last.status == 0);
  for (const char* table : {"summary.csv", "runs.csv", "curves.csv"})
    CHECK(untimed(f.read(std::string("whole/") + table)) == untimed(f.read(std::string("broken/") + table)));
  CHECK(contains(f.read("whole/summary.csv"), "\"placement=post,norm=rmsnorm\",post,rmsnorm,"));

  // Finished runs are not repeated, the grid may grow, and a run may not change.
  const auto before = std::filesystem::last_write_time(f.path(metrics_of("whole/placement=post,norm=rmsnorm/seed=1")));
  REQUIRE(f.run("compare --out whole --resume --grid placement=post,none,pre norm=rmsnorm").status == 0);
  CHECK(contains(f.read("whole/summary.csv"), "\"placement=pre,norm=rmsnorm\",pre,rmsnorm,"));
  CHECK(before == std::filesystem::last_write_time(f.path(metrics_of("whole/placement=post,norm=rmsnorm/seed=1"))));
  check_refused(f, "compare --out whole --resume --batch 5", "--batch is 4 there and 5 here");
  CHECK(contains(f.run(words + "--out whole").err, "already holds a comparison"));
}

// A preset changes the defaults of other options, so the options must be stored as the user gave them.
TEST_CASE("a comparison of presets resumes with the same options", "[program]") {
  const Corpus f;
  const std::string words =
      "compare --data stories.txt --steps 12 --batch 2 --layers 2 --channels 32 --heads 2 --context 32 --eval-every 6 "
      "--eval-batches 2 --grid preset=gpt2,llama2 ";
  REQUIRE(f.run(words + "--out whole").status == 0);
  f.run_until(words + "--out broken", SIGINT, [&] { return f.has("broken/preset=gpt2/seed=1/metrics.csv"); });
  REQUIRE(f.run("compare --out broken --resume").status == 0);
  CHECK(untimed(f.read("whole/summary.csv")) == untimed(f.read("broken/summary.csv")));
  CHECK(contains(f.read("broken/preset=llama2/seed=1/config.toml"), "norm = \"rmsnorm\""));
}

TEST_CASE("compare accepts an existing run only if its options are those of the cell", "[program][slow]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --steps 6 --out c" + kSmall + "--grid placement=post,pre ";
  REQUIRE(f.run(words).status == 0);
  CHECK(contains(f.run("compare --out c --resume --data-seed 9").err, "--data-seed is 1 there and 9 here"));
  REQUIRE(f.run("train --resume --steps 9 --quiet --out c/placement=pre/seed=1").status == 0);
  CHECK(contains(f.run("compare --out c --resume").err,
                 "c/placement=pre/seed=1 holds another run: --steps is 9 there and 6 here"));
  REQUIRE(f.run(words + "--force").status == 0);
  write_corpus(f.path("stories.txt"), 60000, 2);
  CHECK(contains(f.run("compare --out c --resume").err, "the text has changed since the comparison began"));
  f.write("c/notes.txt", "mine");
  REQUIRE(f.run(words + "--force").status == 0);
  CHECK(f.read("c/notes.txt") == "mine");
}

TEST_CASE("a comparison on a full disk loses nothing", "[program]") {
  const Corpus f;
  const std::string words = "compare --data stories.txt --steps 6 --grid placement=post,pre --out c" + kSmall;
  const Outcome full = f.run_with_little_space(words, 40000);  // less than a checkpoint
  CHECK(full.status == 1);
  CHECK(count_lines(full.err) == 1);
  CHECK(contains(full.err, "cannot write c/placement=post/seed=1/best.safetensors"));
  CHECK(f.run("compare --out c --resume").status == 0);
  REQUIRE(f.run(words + "--force").status == 0);
  const std::string before = f.read("c/curves.csv");
  // Enough only for the options, and for the file of 1024 bytes that clang's OpenMP writes.
  const Outcome tables = f.run_with_little_space("compare --out c --resume", 1024);
  CHECK(tables.status == 1);
  CHECK(count_lines(tables.err) == 1);
  CHECK(f.read("c/curves.csv") == before);
}

// Writes text.txt and trains a run r whose tokens are characters.
static void train_on_characters(const Folder& f) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "Füße, 狐 und 🦊 ";
  f.write("text.txt", text);
  REQUIRE(f.run("train --data text.txt --tokenizer char --steps 3 --out r" + kSmall).status == 0);
}

TEST_CASE("a run with a character tokenizer and characters of several bytes", "[program]") {
  const Folder f;
  train_on_characters(f);
  const Outcome sample = f.run("sample r --prompt 狐 --length 5");
  CHECK(sample.out.starts_with("狐"));
  const Outcome unknown = f.run("sample r --prompt 犬");
  CHECK(unknown.status == 1);
  CHECK(contains(unknown.err, "'犬' (U+72AC"));
  f.write("zoo.txt", "Füße und ein Zebra");
  CHECK(contains(f.run("eval r --data zoo.txt").err, "'i' (U+0069"));
}

TEST_CASE("a run that starts from another run's weights uses that run's tokenizer", "[program]") {
  const Folder f;
  train_on_characters(f);
  const std::string words = "train --data text.txt --steps 3 --batch 4 --quiet --init-from r ";
  REQUIRE(f.run(words + "--out s").status == 0);
  const CheckpointHeader header = read_checkpoint_header(f.path("s/checkpoint.safetensors"));
  CHECK(header.tokenizer.kind() == Tokenizer::Kind::character);
  CHECK(header.options.tokenizer == "char");
  CHECK(header.options.config.n_layer == 2);
  CHECK(f.run("sample s --prompt 狐 --length 5").out.starts_with("狐"));
  CHECK(f.run("train --out s --resume --steps 4 --quiet").status == 0);
  CHECK(contains(f.run(words + "--tokenizer byte --out t").err, "r was trained with --tokenizer char"));
}

TEST_CASE("a comparison of runs that start from checkpoints can be resumed and replaced", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --out r" + kSmall).status == 0);
  const std::string words = "compare --data stories.txt --steps 4 --batch 4 --eval-every 4 --eval-batches 2 --out c ";
  REQUIRE(f.run(words + "--init-from r --grid lr=1e-3,3e-3").status == 0);
  const Outcome more = f.run("compare --out c --resume --grid lr=1e-3,3e-3,1e-2");
  INFO(more.err);
  CHECK(more.status == 0);
  CHECK(f.has("c/lr=1e-2/seed=1/checkpoint.safetensors"));

  REQUIRE(f.run(words + "--force --grid init-from=./r,./r/best.safetensors").status == 0);
  CHECK(f.has("c/init-from=.%2Fr%2Fbest.safetensors/seed=1/checkpoint.safetensors"));
  REQUIRE(f.run(words + "--force --init-from r --grid lr=1e-3").status == 0);
  CHECK_FALSE(f.has("c/init-from=.%2Fr%2Fbest.safetensors"));
  CHECK_FALSE(f.has("c/init-from=."));

  REQUIRE(f.run("train --data stories.txt --tokenizer char --steps 2 --out s" + kSmall).status == 0);
  CHECK(contains(f.run(words + "--force --grid init-from=r,s").err, "have different tokens"));

  // Three heads fit the checkpoint's channels but not a new model's.
  REQUIRE(f.run("train --data stories.txt --steps 1 --out t" + kSmall + "--heads 3 --channels 24").status == 0);
  CHECK(f.run(words + "--force --init-from t --heads 3 --grid lr=1e-3").status == 0);
}

TEST_CASE("a full disk does not damage the last checkpoint", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 4 --out r" + kSmall).status == 0);
  const std::string before = f.read("r/checkpoint.safetensors");
  const std::string steps = GENERATE("8", "1000000 --save-every 2");
  const Outcome full = f.run_with_little_space("train --out r --resume --quiet --steps " + steps, before.size() / 2);
  CHECK(full.status == 1);
  CHECK(contains(full.err, "cannot write r/"));
  CHECK(count_lines(full.err) == 1);
  CHECK(f.read("r/checkpoint.safetensors") == before);
  for (const auto& entry : std::filesystem::directory_iterator(f.path("r")))
    CHECK(entry.path().extension() != ".partial");
}

TEST_CASE("a checkpoint that is damaged or does not fit is refused", "[program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --out r" + kSmall).status == 0);
  const std::string good = f.read("r/checkpoint.safetensors");
  const auto refused = [&](std::string bytes, const std::string& because) {
    f.write("bad.bin", bytes);
    const Outcome o = f.run("sample bad.bin --length 3 --prompt x");
    INFO(o.err);
    CHECK(o.status == 1);
    CHECK(contains(o.err, because));
    CHECK(o.out.empty());
  };
  refused(good.substr(0, good.size() - 100), "truncated");
  refused(good.substr(0, 10), "not a checkpoint");
  refused("XXXX" + good.substr(4), "longer than 100 MB");
  refused("GGUF" + good.substr(4), "of GGUF; train_gpt reads versions 2 and 3");
  refused(good.substr(0, 8) + "[" + good.substr(9), "not a checkpoint");
  std::string other = good;
  other[good.find(R"("version":"4")") + 11] = '9';
  refused(other, "version 9");
  other = good;
  other[good.size() / 2] ^= 1;
  refused(other, "checksum");
  check_refused(f, "train --data stories.txt --out s --init-from r --channels 64" + kSmall.substr(0, 24),
                "expected embedding.token.weight (256, 64), found embedding.token.weight (256, 32)");
  CHECK(f.run("train --data stories.txt --out t --steps 1 --init-from r --quiet").status == 0);
}

TEST_CASE("wrong input ends with one clear line and leaves nothing behind", "[program]") {
  const Corpus f;
  f.write("empty.txt", "");
  f.write("short.txt", "Too short.");
  std::filesystem::create_directory(f.path("folder"));
  const struct {
    const char *words, *message;
  } cases[] = {
      {"train", "--data is missing"},
      {"train --data nowhere.txt", "cannot read nowhere.txt"},
      {"train --data empty.txt", "it is empty"},
      {"train --data folder", "there is no text in folder"},
      {"train --data short.txt", "needs at least 257 tokens and has 9"},
      {"train --data stories.txt --heads 3", "--heads 3 does not divide --channels 128"},
      {"train --data stories.txt --kv-heads 3", "--kv-heads 3 does not divide --heads 4"},
      {"train --data stories.txt --position rope --head-dim 5", "even head dimension"},
      {"train --data stories.txt --placement postt", "did you mean 'post'?"},
      {"train --data stories.txt --norm layernrom", "did you mean 'layernorm'?"},
      {"train --data stories.txt --preset gtp2", "did you mean 'gpt2'?"},
      {"train --data stories.txt --size 125M", "did you mean '124M'?"},
      {"train --data stories.txt --layrs 3", "did you mean '--layers'?"},
      {"trian", "did you mean 'train'?"},
      {"train --data stories.txt --lr nan", "outside"},
      {"train --data stories.txt --lr -1", "outside"},
      {"train --data stories.txt --dropout 1.5", "outside"},
      {"train --data stories.txt --layers many", "not a number"},
      {"train --data stories.txt --vocab-size 100", "smaller than the 257 tokens"},
      {"train --data stories.txt --channels 1000000 --layers 10000", "memory"},
      {"train --data stories.txt --batch 1000000 --context 4000", "too large"},
      {"train --data stories.txt --for soon", "not a time"},
      {"train --data stories.txt --resume", "--resume needs --out"},
      {"train --data stories.txt --config nowhere.toml", "cannot read nowhere.toml"},
      {"sample", "no run in runs/"},
      {"sample nowhere", "there is no checkpoint or run nowhere"},
      {"sample stories.txt --length 3", "not a checkpoint"},
      {"compare --data stories.txt --grid placment=post", "did you mean 'placement'?"},
      {"compare --data stories.txt --grid placement=", "has no values"},
      {"compare --data stories.txt --grid placement=post,prr", "did you mean 'pre'?"},
      {"compare --data stories.txt", "--grid is missing"},
      {"compare --data stories.txt --grid placement=post heads=3",
       "cell placement=post,heads=3: --heads 3 does not divide"},
      {"compare --data stories.txt --grid placement=post,post2 --dry-run", "did you mean 'post'?"},
      {"compare --data stories.txt --grid placement=post,pre --baseline placement=pst",
       "did you mean 'placement=post'?"},
      {"compare --data stories.txt --grid placement=post lr=1e-3,1e-2 --tune lr=1e-3,1e-2", "both name lr"},
      {"compare --data stories.txt --grid placement=post seed=0,1 --tune lr=1e-3,1e-2",
       "--tune-seed 0 is one of the seeds"},
      {"compare --data stories.txt --grid placement=post --for 10s", "say --steps, not --for"},
      {"compare --data - --grid placement=post", "--data - cannot do that"},
      {"compare --resume --out nowhere", "nowhere holds no comparison"},
      {"compare --data stories.txt --grid data=stories.txt,short.txt", "losses on different texts"},
      {"compare --data stories.txt --grid placement=pre,pre-ln",
       "cells placement=pre and placement=pre-ln are the same"},
      {"compare --data stories.txt --grid seed=1,x", "seed 'x' is not a whole number"},
      {"compare --data stories.txt --tune seed=4,5", "it must not be chosen by the loss"},
      {"compare --data stories.txt --tune heads=2,3", "--heads 3 does not divide"},
      {"compare --data stories.txt --grid placement=post --eval-every 0", "needs the loss on a validation text"},
      {"compare --data stories.txt --grid placement=post --steps 0", "compares nothing"},
      {"corpus --bytes many --out x.txt", "not a size"},
      {"corpus --bytes 10k --out nowhere/x.txt", "cannot write nowhere/x.txt"},
  };
  for (const auto& c : cases) {
    check_refused(f, c.words, c.message);
    CHECK(!f.has("runs"));
  }
}

TEST_CASE("a loss that is no longer finite stops the run and names the tensor", "[program]") {
  const Corpus f;
  const Outcome o =
      f.run("train --data stories.txt --placement none --lr 1e6 --warmup 0 --clip 0 --steps 50 --out r" + kSmall);
  CHECK(o.status == 3);
  CHECK(contains(o.err, "is not finite"));
  CHECK(contains(o.err, "block."));
}

TEST_CASE("a dry run of a large model predicts its time and runs nothing of it", "[program][long]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --dry-run --layers 12 --channels 1024 --heads 16 ";
  if (const size_t peak = f.peak_of(words)) CHECK(peak < size_t{1} << 29);
  const Outcome o = f.run(words);
  CHECK(o.status == 0);
  CHECK(contains(o.out, "\ntime     at least "));
  CHECK(contains(f.run(words + "--for 10m").out, " in 10m, at that speed\n"));
  CHECK(contains(f.run(words + "--freeze block\\..*").out, "\ntrains   "));
  CHECK(!f.has("runs"));
}

TEST_CASE("a dry run prints its plan and writes nothing", "[program][slow]") {
  const Corpus f;
  const Outcome o = f.run("train --data stories.txt --dry-run");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "parameters"));
  CHECK(!f.has("runs"));
}
