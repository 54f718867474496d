// All runs of a comparison read the same text, tokenizer and initial weights, or it ends without a table. All are
// validated on the same tokens.

#include <csignal>
#include <filesystem>
#include <functional>

#include "check.hpp"
#include "data/run_directory/directory.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kRuns =
    " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --steps 60 --threads 1 --val-fraction .2 --out x ";
const std::string kGrid = " --grid norm=layernorm,rmsnorm ";

// Exchanges two files. A run that has read the first keeps its content.
void exchange(const Folder& f, const std::string& a, const std::string& b) {
  fs::rename(f.path(a), f.path("exchanged"));
  fs::rename(f.path(b), f.path(a));
  fs::rename(f.path("exchanged"), f.path(b));
}

// Runs a comparison and calls `change` while its first run trains.
Outcome changed_in_first_run(const Folder& f, const std::string& words, const std::function<void()>& change) {
  return f.run_until(words, SIGCONT, [&] {
    if (!f.has("x/norm=layernorm/seed=1/metrics.csv")) return false;
    change();
    return true;
  });
}

// The comparison ends if `file` is exchanged for `other` between two runs, and goes on once it is restored.
void check_change(const Folder& f, const std::string& words, const std::string& file, const std::string& other,
                  const std::string& what) {
  const Outcome o = changed_in_first_run(f, "compare" + words + kRuns + kGrid, [&] { exchange(f, file, other); });
  INFO(words << "\n" << o.out << o.err);
  CHECK(o.status == 1);
  CHECK(contains(o.err, "norm=rmsnorm  seed=1 was not trained: " + what + " since the comparison began"));
  CHECK(count_lines(o.err) == 1);
  CHECK(!f.has("x/summary.csv"));
  CHECK(!f.has("x/norm=rmsnorm/seed=1/metrics.csv"));
  check_refused(f, "compare --out x --resume", "cannot go on with x: " + what + " since the comparison began");
  exchange(f, file, other);
  const Outcome again = f.run("compare --out x --resume");
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK(contains(f.read("x/summary.csv"), "rmsnorm"));
}

}  // namespace

TEST_CASE("a comparison ends if its text changes between two runs", "[compare][program][inputs]") {
  const Corpus f;
  f.write("a.txt", f.read("stories.txt").substr(0, 20000));
  f.write("b.txt", f.read("stories.txt").substr(20000, 20000));
  check_change(f, " --data a.txt", "a.txt", "b.txt", "the text has changed");
  fs::remove_all(f.path("x"));
  check_change(f, " --data stories.txt --val-data a.txt", "a.txt", "b.txt", "the text has changed");
}

TEST_CASE("a comparison ends if the stories' entropies change between two runs", "[compare][program][inputs]") {
  const Corpus f;  // without .nats files, the text is split and drawn differently
  const fs::path nats = f.path("stories.txt.nats"), away = f.path("away");
  const std::string words = "compare --data stories.txt" + kRuns + kGrid;
  const Outcome o = changed_in_first_run(f, words, [&] { fs::rename(nats, away); });
  CHECK(contains(o.err, "the text has changed since the comparison began"));
  CHECK(o.status == 1);
}

TEST_CASE("a comparison ends if its tokenizer or a token changes between two runs", "[compare][program][inputs]") {
  const Corpus f;
  write_corpus(f.path("long.txt"), 600000, 2);
  REQUIRE(f.run("tokenizer --data long.txt --vocab 260 --out a.json").status == 0);
  REQUIRE(f.run("tokenizer --data long.txt --vocab 270 --out b.json").status == 0);
  std::string tokens;
  for (const unsigned char c : f.read("long.txt")) tokens += {static_cast<char>(c), '\0'};
  f.write("a.bin", tokens);
  tokens[tokens.size() / 200 * 2 + 8000] ^= 1;  // far from what the hash of a run's checkpoint samples
  f.write("b.bin", tokens);
  const std::string raw = " --data a.bin --eval-batches 2 --final-batches 1 --tokenizer a.json";
  check_change(f, raw, "a.bin", "b.bin", "the text has changed");
  fs::remove_all(f.path("x"));
  check_change(f, raw, "a.json", "b.json", "the tokenizer has changed");
}

TEST_CASE("a comparison ends if the weights of --init-from change between two runs", "[compare][program][inputs]") {
  const Corpus f;
  for (const std::string seed : {"1", "2"})
    REQUIRE(f.run("train stories.txt --steps 2 --seed " + seed + " --out r" + seed + kTiny).status == 0);
  const std::string best = "/checkpoint.safetensors";
  const Outcome o =
      changed_in_first_run(f, "compare --data stories.txt --steps 60 --batch 2 --threads 1 --out x --init-from r1" +
                                  kGrid,
                           [&] { exchange(f, "r1" + best, "r2" + best); });
  INFO(o.err);
  CHECK(o.status == 1);
  CHECK(contains(o.err, "/r1 has changed since the comparison began"));
  check_refused(f, "compare --out x --resume", "has changed since the comparison began");
}

TEST_CASE("a comparison takes ways to fine-tune one model as cells", "[compare][program]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2 --out r1" + kTiny).status == 0);
  const std::string words = "compare --out x --threads 1";
  const Outcome o = f.run(words + " --data stories.txt --steps 4 --batch 2 --init-from r1" +
                          " --grid train-only=norm seed=1 + freeze=norm seed=1 + lora=2 seed=1 + seed=1");
  INFO(o.err);
  CHECK(o.status == 0);
  CHECK(count_lines(f.read("x/summary.csv")) == 5);
  CHECK(f.run(words + " --resume").status == 0);
}

TEST_CASE("a comparison reads a folder of tokens with the tokenizer beside them", "[compare][program][inputs]") {
  const Corpus f;
  REQUIRE(f.run("tokenizer --data stories.txt --vocab 260 --out a.json").status == 0);
  REQUIRE(f.run("tokenize stories.txt --tokenizer a.json --out tokens").status == 0);
  const Outcome o = f.run("compare tokens" + kRuns + kGrid);
  INFO(o.err);
  CHECK(o.status == 0);
  CHECK(count_lines(f.read("x/summary.csv")) == 3);
  CHECK(f.run("compare --out x --resume").status == 0);
}

TEST_CASE("a comparison validates on another text without a part of the first", "[compare][program][inputs]") {
  const Corpus f;
  f.write("val.txt", f.read("stories.txt").substr(0, 5000));
  const std::string words = "compare stories.txt --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --steps 2" +
                            kGrid + "--threads 1 --val-fraction 0 --out x ";
  check_refused(f, words,
                "compare needs the loss on a validation text: set --eval-every, and --val-fraction or --val-data");
  const Outcome o = f.run(words + "--val-data val.txt");
  INFO(o.err);
  CHECK(o.status == 0);
}

TEST_CASE("who joins a comparison reads what it began with", "[compare][program][inputs][locks]") {
  const Corpus f;
  f.write("a.txt", f.read("stories.txt").substr(0, 20000));
  f.write("b.txt", f.read("stories.txt").substr(20000, 20000));
  const std::string words = "compare --data a.txt" + kRuns + kGrid + "--steps 300 --join";
  const Outcome o = changed_in_first_run(f, words, [&] {
    exchange(f, "a.txt", "b.txt");
    check_refused(f, words, "cannot go on with x: the text has changed since the comparison began");
    exchange(f, "a.txt", "b.txt");
  });
  CHECK(o.status == 0);
}

TEST_CASE("a run that read something else, or does not say what, does not count", "[compare][program][inputs]") {
  const Corpus f;
  REQUIRE(f.run("compare --data stories.txt" + kRuns + kGrid).status == 0);
  const std::string file = "x/norm=rmsnorm/seed=1/outcome.json", text = f.read(file);
  const size_t hash = text.find("inputs") + 20;
  f.write(file, text.substr(0, hash) + (text[hash] == '0' ? "1" : "0") + text.substr(hash + 1));
  check_refused(f, "compare --out x --resume", "seed=1 holds another run: it was trained with another text");
  f.write(file, text.substr(0, text.find(",\n  \"inputs\"")) + "\n}\n");
  check_refused(f, "compare --out x --resume", "seed=1 holds another run: it does not say what it was trained with");
}

TEST_CASE("a token file that is rewritten while a run reads it spoils that run", "[compare][program][inputs]") {
  const Folder f;
  std::string tokens(20000, '\0');
  for (size_t i = 0; i < tokens.size(); i += 2) tokens[i] = static_cast<char>('a' + i / 2 % 7 * (i % 5));
  f.write("a.bin", tokens);
  f.write("text.txt", std::string(5000, 'a'));
  REQUIRE(f.run("tokenizer --data text.txt --vocab 257 --out a.json").status == 0);
  const Outcome o = changed_in_first_run(f, "compare --data a.bin --tokenizer a.json" + kRuns + kGrid, [&] {
    std::FILE* file = std::fopen(f.path("a.bin").c_str(), "r+b");  // in place, as `cp` does
    std::fputc('z', file);
    std::fclose(file);
  });
  CHECK(o.status == 1);
  f.write("a.bin", tokens);
  check_refused(f, "compare --out x --resume", "x/norm=layernorm/seed=1 holds another run: it was trained with");
}

TEST_CASE("a comparison of a folder that holds it reads the folder's text alone", "[compare][program][inputs]") {
  const Corpus f;
  f.write("set/a.txt", f.read("stories.txt").substr(0, 20000));
  const auto text_of = [&](const std::string& out) {
    const std::string options = f.read(out + "/comparison.toml");
    const size_t at = options.find("input-hashes");
    return options.substr(at, options.find('\n', at) - at);
  };
  const std::string words = "compare set" + kRuns + kGrid + "--save-every 20 ";
  REQUIRE(f.run("compare --data set/a.txt" + kRuns + kGrid).status == 0);
  REQUIRE(f.run("train set/a.txt --steps 2 --out set/runs/0001" + kTiny).status == 0);
  for (const std::string out : {"set/runs/one", "set/two", "set/runs/joined"}) {
    const Outcome o = f.run(words + "--out " + out + (out == "set/runs/joined" ? " --join" : ""));
    INFO(out << "\n" << o.out << o.err);
    CHECK(o.status == 0);
    CHECK(f.has(out + "/norm=rmsnorm/seed=1/outcome.json"));
    CHECK(f.run("compare --resume --out " + out).status == 0);
    CHECK(text_of(out) == text_of("x"));
    CHECK(losses_in(f.read(out + "/norm=rmsnorm/seed=1/metrics.csv")) ==
          losses_in(f.read("x/norm=rmsnorm/seed=1/metrics.csv")));
  }
}

TEST_CASE("--grid and --tune refuse what would compare losses on different tokens", "[compare][program][inputs]") {
  const Corpus f;
  const std::string words = "compare stories.txt --steps 4 --out y --dry-run" + kTiny + "--eval-every 2 ";
  const auto refused = [&](const std::string& options, const std::string& why) {
    check_refused(f, words + options, why);
    CHECK(!f.has("y"));
  };
  const std::string both = f.run(words + "--grid lr=1e-3,3e-3 seed=1,2 --lr 2e-3 --seed 5").out;
  for (const std::string key : {"lr", "seed"})
    CHECK(contains(both, "NOTE: --grid names " + key + ", so --" + key + " has no effect"));
  CHECK(contains(f.run(words + "--grid placement=pre,post --tune lr=1e-3,3e-3 --lr 2e-3").out,
                 "NOTE: --tune names lr, so --lr has no effect"));
  CHECK_FALSE(contains(f.run(words + "--grid lr=1e-3 + placement=post --lr 2e-3").out, "has no effect"));
  for (const std::string option : {"--grid ", "--tune "}) {
    for (const std::string key : {"val-fraction=.05,.5", "packing=1,2"})
      refused(option + key, key.substr(0, key.find('=')) + ": losses on different texts cannot be compared");
    for (const std::string key : {"eval-every=0,2", "eval-batches=1,2", "final-batches=1,0", "patience=1,3",
                                  "eval-pairs=1,2", "save-every=1,2"})
      refused(option + key, option + key.substr(0, key.find('=')) + ": all runs of a comparison measure alike");
    refused(option + "time-in-all=1,2", "unknown key 'time-in-all'");
    refused(option + "steps=0,4", "--steps 0 compares nothing");
    refused(option + "mask-fraction=.1,.5 --objective mlm", "are validated on different tokens");
    refused(option + "context=8,16 --objective mlm", "are validated on different tokens");
    refused(option + "batch=1,2 --eval-batches 1 --final-batches 1", "are validated on different tokens");
  }
  for (const std::string key : {"seed=1,2", "data-seed=1,2", "lanes=1,2", "threads=1,2", "data-limit=2000,4000"})
    refused("--tune " + key, key.substr(0, key.find('=')) + ": it must not be chosen by the loss; tune another option");
  refused("--grid objective=lm,mlm", "cells objective=lm and objective=mlm have different tokens");
}

TEST_CASE("runs with the same validation tokens are compared, whatever their rows", "[compare][program][inputs]") {
  const Corpus f;
  f.must("corpus p.tsv --pairs-of translation --count 300");
  const std::string rest = " --steps 4 --out y --dry-run" + kTiny + "--eval-every 2 ",
                    pairs = "compare p.tsv --objective pairs --encoder-layers 1" + rest;
  for (const std::string option : {"--grid context=", "--tune context="}) {
    check_refused(f, pairs + option + "64,160", "are validated on different tokens");
    CHECK(f.run(pairs + option + "300,400").status == 0);
    CHECK(f.run("compare stories.txt" + rest + option + "8,32").status == 0);
    CHECK(f.run("compare stories.txt" + rest + "--documents line " + option + "8,200").status == 0);
  }
  for (const std::string grid : {"batch=1,2", "threads=1,2", "data-limit=2000,4000", "steps=2,3", "accumulate=1,2"})
    CHECK(f.run("compare stories.txt" + rest + "--grid " + grid).status == 0);
}

TEST_CASE("tuning does not try a context with other validation tokens", "[compare][program][inputs]") {
  const Corpus f;
  f.must("corpus p.tsv --pairs-of translation --count 40");
  const Outcome o = f.run("compare p.tsv --objective pairs --encoder-layers 1 --steps 1 --out y" + kTiny +
                          "--eval-every 1 --lr 0 --tune context=200,400 --grid seed=1 --tune-runs 4");
  INFO(o.out << o.err);
  CHECK(o.status == 0);
  CHECK(!f.has("y/model/tune,seed=0,context=100"));
  CHECK(contains(f.read("y/summary.csv"), "context=<200"));
}
