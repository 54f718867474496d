// What a command may read, write, replace and remove.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "data/options/command_settings.hpp"
#include "data/options/help.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kTwoCells = "compare stories.txt --steps 2 --out c --grid placement=post,pre seed=1,2" + kTiny +
                              "--eval-every 2 --eval-batches 1 ";

// An output that the user names: the words before it on the command line, and the inputs.
struct Output {
  std::string words, input;
};

const std::vector<Output>& outputs() {
  static const std::vector<Output> all = {
      {"eval run --data stories.txt --batch 1 --logits ", "stories.txt"},
      {"eval run --data stories.txt --batch 1 --gradients ", "run/best.safetensors"},
      {"tokenizer texts/a.txt texts/b.txt --vocab 260 --out ", "texts/b.txt"},
      {"corpus --bytes 2k --out ", ""},
      {"init-report stories.txt --layers 1 --channels 8 --heads 1 --context 256 --out ", "stories.txt"},
      {"export run --to gguf --out ", "run/best.safetensors"},
  };
  return all;
}

struct Run : Corpus {
  Run() {
    for (const char* name : {"texts/a.txt", "texts/b.txt"}) write(name, "one two three");
    const std::string words = "train stories.txt --steps 2 --out run --eval-every 2 --eval-batches 1 --preset llama2";
    REQUIRE(run(words + tiny).status == 0);
  }
  const std::string tiny = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --threads 1 --quiet ";
};

}  // namespace

TEST_CASE("a file that the system cannot look at is neither there nor absent", "[paths]") {
  const Folder f;
  f.write("a", "");
  fs::create_symlink("nothing", f.path("link"));
  CHECK(is_there(f.path("a")));
  CHECK(is_there(f.path("link")));
  CHECK_FALSE(is_there(f.path("b")));
  CHECK_FALSE(is_there(f.path("a/b")));
  const std::string long_name(300, 'x');
  CHECK(contains(message_of<std::runtime_error>([&] { is_there(f.path(long_name)); }), "cannot look at "));
}

TEST_CASE("an output replaces a file only with --force", "[paths]") {
  const Run f;
  for (const Output& o : outputs()) {
    INFO(o.words);
    f.write("out", "mine");
    check_refused(f, o.words + "out", "out is there already: --force replaces it");
    CHECK(f.read("out") == "mine");
    CHECK(f.run(o.words + "out --force").status == 0);
    CHECK(f.read("out") != "mine");
    check_refused(f, o.words + "- --force", "name a file instead of -");
  }
  f.write("out.nats", "mine");
  fs::remove(f.path("out"));
  check_refused(f, "corpus --bytes 2k --out out", "out.nats is there already: --force replaces it");
}

TEST_CASE("an output replaces no link, pipe, device or folder, even with --force", "[paths]") {
  const Run f;
  f.write("target", "mine");
  fs::create_symlink("target", f.path("link"));
  fs::create_symlink("nowhere", f.path("dangling"));
  fs::create_directory(f.path("folder"));
  REQUIRE(mkfifo(f.path("pipe").c_str(), 0600) == 0);
  std::vector<std::pair<std::string, std::string>> places = {
      {"link", "a symbolic link"}, {"dangling", "a symbolic link"}, {"pipe", "a pipe"}, {"folder", "a folder"}};
  struct stat null {};
  const bool known = stat("/dev/null", &null) == 0;  // root alone may make another one, which this test may lose
  if (known && mknod(f.path("null").c_str(), S_IFCHR | 0600, null.st_rdev) == 0)
    places.emplace_back("null", "a device");
  for (const Output& o : outputs())
    for (const auto& [name, kind] : places)
      check_refused(f, o.words + name + " --force", "cannot write " + name + ": it is " + kind);
  CHECK(f.read("target") == "mine");
  CHECK(fs::is_symlink(f.path("link")));
  CHECK(fs::is_fifo(f.path("pipe")));
}

TEST_CASE("an output never replaces a file that the command reads, under any name", "[paths]") {
  const Run f;
  for (const Output& o : outputs()) {
    if (o.input.empty()) continue;
    const std::string before = f.read(o.input);
    fs::remove(f.path("other"));
    fs::create_hard_link(f.path(o.input), f.path("other"));
    for (const std::string& name : {o.input, "./texts/../" + o.input, f.path(o.input), std::string("other")})
      check_refused(f, o.words + name + " --force", "cannot write " + name + ": this command reads it");
    CHECK(f.read(o.input) == before);
  }
  check_refused(f, "train stories.txt --config run/config.toml --out run --force", "run/config.toml");
  const std::string both = "eval run --data stories.txt --batch 1 --logits both --gradients ./both --force";
  check_refused(f, both, "--logits and --gradients are the same file: name two");
  CHECK(!f.has("both"));
  check_refused(f, "train stories.txt --init-from run --out run --force --steps 1", "run/best.safetensors");
  CHECK(f.has("run/checkpoint.safetensors"));
}

TEST_CASE("compare --force removes what its options name, and nothing of the user", "[paths][compare]") {
  const Corpus f;
  REQUIRE(f.run(kTwoCells).status == 0);
  const std::vector<std::string> kept = {"c/notes/draft/log.txt", "c/notes/draft/thesis.txt", "elsewhere/x/log.txt",
                                         "elsewhere/x/photo.jpg", "c/placement=post/mine/log.txt",
                                         "c/placement=pre/seed=1/remarks.txt", "c/placement=none/seed=1/log.txt",
                                         "c/placement=post/seed=7/log.txt"};
  for (const std::string& name : kept) f.write(name, "mine");
  fs::create_directory_symlink(f.path("elsewhere"), f.path("c/linked"));
  fs::create_directory_symlink(f.path("elsewhere/x"), f.path("c/placement=post/seed=1,lr=1"));
  f.write("c/placement=post/seed=2/checkpoint.safetensors.123.partial", "left");
  const std::string half = kTwoCells.substr(0, kTwoCells.find("--grid")) + "--grid placement=pre --force" +
                           kTwoCells.substr(kTwoCells.find(kTiny));
  const Outcome again = f.run(half);
  INFO(again.err);
  REQUIRE(again.status == 0);
  for (const std::string& name : kept) CHECK(f.read(name) == "mine");
  CHECK(!f.has("c/placement=post/seed=2"));
  CHECK(!f.has("c/placement=pre/seed=2"));
  CHECK(f.has("c/placement=pre/seed=1/checkpoint.safetensors"));
  fs::remove(f.path("c/curves.csv"));
  f.write("c/curves.csv/x", "mine");
  const Outcome refused = f.run(half);
  CHECK(refused.status == 1);
  CHECK(contains(refused.err, "cannot write c/curves.csv: it is a folder"));
  CHECK(f.has("c/placement=pre/seed=1/checkpoint.safetensors"));
}

TEST_CASE("a run or comparison does not begin among the user's files", "[paths][compare]") {
  const Corpus f;
  const std::string train = "train stories.txt --steps 1 --out c" + kTiny;
  for (const char* name : {"c/summary.csv", "c/notes.txt", "c/placement=post/seed=1/log.txt"}) {
    f.write(name, "mine");
    for (const std::string& words : {kTwoCells, train}) check_refused(f, words, "c holds other files, as ");
    CHECK(f.read(name) == "mine");
    fs::remove_all(f.path("c"));
  }
  // Files that the shell creates before the program starts.
  for (const char* name : {"c/log.txt", "c/train.log", "c/nohup.out", "c/.hidden"}) f.write(name, "mine");
  REQUIRE(f.run(train).status == 0);
  check_refused(f, kTwoCells, "c holds other files, as ");
  const std::string elsewhere = kTwoCells.substr(0, kTwoCells.find(" c ")) + " d ";
  REQUIRE(f.run(elsewhere + kTwoCells.substr(kTwoCells.find("--grid"))).status == 0);
  check_refused(f, "train stories.txt --steps 1 --out d" + kTiny, "d holds other files, as ");
}

TEST_CASE("an output replaces no file in the folder of a run or a comparison, even with --force", "[paths]") {
  const Run f;
  REQUIRE(f.run(kTwoCells).status == 0);
  for (const Output& o : outputs())
    for (const char* name : {"run/checkpoint.safetensors", "run/config.toml", "c/runs.csv"}) {
      const std::string before = f.read(name), words = o.words + name + " --force";
      INFO(words);
      const Outcome out = f.run(words);
      CHECK(out.status == 1);
      CHECK(contains(out.err, std::string("cannot write ") + name + ": "));
      CHECK(f.read(name) == before);
    }
  CHECK(f.run("eval run --data stories.txt --batch 1 --logits run/new").status == 0);
}

TEST_CASE("a comparison resumes with all of its runs, or not at all", "[paths][compare]") {
  const Corpus f;
  const std::string words = kTwoCells + "--tune lr=1e-3,2e-3 --tune-runs 3 ";
  REQUIRE(f.run(words).status == 0);
  const std::string before = f.read("c/curves.csv"), options = f.read("c/comparison.toml");
  const std::pair<const char*, const char*> narrower[] = {
      {"--grid placement=post seed=1,2", "its tables would lose cell placement=pre;"},
      {"--grid placement=post,pre norm=rmsnorm seed=1,2", "its tables would lose cell placement=post;"},
      {"--grid placement=post,pre seed=1", "its tables would lose seed 2;"},
      {"--tune lr=1e-3,4e-3", "its tables would lose --tune lr=0.002;"},
      {"--tune beta1=.8,.9", "its tables would lose the runs with --tune lr;"},
      {"--tune-seed 5", "its tables would lose --tune-seed 0;"},
      {"--tune-runs 2", "its tables would lose --tune-runs 3;"}};
  for (const auto& [option, why] : narrower) check_refused(f, std::string("compare --out c --resume ") + option, why);
  CHECK(f.read("c/curves.csv") == before);
  CHECK(f.read("c/comparison.toml") == options);
}

TEST_CASE("--force replaces the whole of earlier token files", "[paths][tokens]") {
  const Corpus f;
  const std::string words = "tokenize stories.txt --tokenizer bpe:260 --out tok --val-fraction 0.2 ";
  REQUIRE(f.run(words + "--shard-tokens 9000").status == 0);
  REQUIRE(f.has("tok/train_000001.bin"));
  f.write("tok/README", "mine");
  REQUIRE(f.run(words + "--force").status == 0);
  CHECK(!f.has("tok/train_000001.bin"));
  CHECK(f.has("tok/train_000000.bin"));
  CHECK(f.read("tok/README") == "mine");
  check_refused(f, "tokenize tok/train_000000.bin --tokenizer bpe:260 --out tok --force",
                "tok/train_000000.bin: this command reads it");
  check_refused(f, "tokenize stories.txt --tokenizer tok/tokenizer.json --out tok --force",
                "tok/tokenizer.json: this command reads it");
  fs::copy_file(f.path("tok/val_000000.bin"), f.path("tok/theirs_train.bin"));
  check_refused(f, words + "--force", "cannot replace tok/theirs_train.bin: tokenize did not write it");
  CHECK(f.has("tok/train_000000.bin"));
}

TEST_CASE("--force replaces the whole of an earlier export, and no model of others", "[paths][formats]") {
  const Corpus f;
  const std::string small = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --eval-every 0 --quiet ";
  REQUIRE(f.run("train stories.txt --tokenizer bpe:260 --bias --steps 1 --out run" + small).status == 0);
  REQUIRE(f.run("export run --to hf --out out").status == 0);
  f.write("out/README.md", "mine");
  const Outcome other = f.run("export run --to llmc --out out --force");
  INFO(other.err);
  REQUIRE(other.status == 0);
  CHECK(!f.has("out/config.json"));
  CHECK(contains(f.run("import out --out back").out, "llm.c"));
  check_refused(f, "export out --to hf --out out --force", "out/");
  REQUIRE(f.run("export run --to hf --out out --force").status == 0);
  CHECK(!f.has("out/model.bin"));
  CHECK(f.read("out/README.md") == "mine");
  // Files as Hugging Face's hub stores them.
  f.write("hub/model.safetensors", "theirs");
  f.write("hub/tokenizer.json", "theirs");
  check_refused(f, "export run --to llmc --out hub --force", "export did not write it");
  check_refused(f, "export run --to hf --out run --force", "run holds a run");
  CHECK(f.read("hub/tokenizer.json") == "theirs");
  CHECK(f.read("hub/model.safetensors") == "theirs");
}

TEST_CASE("a --force that is refused, lacks space or is stopped keeps the earlier output", "[paths][formats][tokens]") {
  const Corpus f;
  const std::string small = " --layers 1 --heads 1 --channels 8 --context 16 --batch 2 --eval-every 0 --quiet ";
  f.must("train stories.txt --steps 1 --out run" + small);
  f.must("train stories.txt --steps 1 --out mhc --placement mhc" + small);
  f.must("export run --out hf");
  f.must("import hf --out in");
  f.must("corpus big.txt --bytes 8M");
  f.write("text/note", "mine");
  f.must("corpus --out text/c.txt --bytes 20k");
  const std::string tokenize = "tokenize big.txt --tokenizer hf --shard-tokens 100000 --out tok --force";
  f.must("tokenize stories.txt --tokenizer hf --out tok");
  const auto files_in = [&](const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const std::string& name : names_in(f.path(folder))) files[name] = f.read(folder + "/" + name);
    return files;
  };
  struct Case {
    const char* folder;
    std::string words;
    size_t space;  // bytes; 0: unlimited
  };
  const std::string corpus = "corpus --out text/c.txt --force --bytes 1M --seed 2";
  for (const Case& c : {Case{"hf", "export mhc --out hf --force", 0}, {"hf", "export run --out hf --force", 3000},
                        {"in", "import hf --out in --force", 3000}, {"tok", tokenize, 150000},
                        {"text", corpus, 100000}}) {
    const auto before = files_in(c.folder);
    INFO(c.words);
    REQUIRE(!before.empty());
    CHECK((c.space == 0 ? f.run(c.words) : f.run_with_little_space(c.words, c.space)).status == 1);
    CHECK(files_in(c.folder) == before);
  }
  for (const std::string words : {"import hf --out hf --force", "train text/c.txt --out hf --force",
                                  "train text/c.txt --out hf --dry-run"})
    check_refused(f, words, "hf has the config.json or the weights of another program's model");
  CHECK(f.run("export mhc --out none").status == 1);
  CHECK(!f.has("none"));
  const auto before = files_in("tok");
  const auto begun = [&] { return f.has("tok") && files_in("tok").size() > before.size() + 2; };
  for (const auto& [signal, status] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}}) {
    const Outcome o = f.run_until(tokenize, signal, begun);
    CHECK(o.status == status);
    CHECK(contains(o.err, "unfinished files are removed"));
    CHECK(files_in("tok") == before);
  }
  f.must(tokenize);
  CHECK(files_in("tok").size() > before.size());
}

TEST_CASE("files keep their permissions when they are written again", "[paths]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 1 --out r" + kTiny).status == 0);
  const std::vector<std::string> names = {"r/checkpoint.safetensors", "r/metrics.csv", "r/config.toml"};
  for (const std::string& name : names) REQUIRE(chmod(f.path(name).c_str(), 0640) == 0);
  REQUIRE(f.run("train --out r --resume --steps 2 --quiet").status == 0);
  for (const std::string& name : names) {
    INFO(name);
    CHECK((fs::status(f.path(name)).permissions() & fs::perms::all) == fs::perms(0640));
  }
}

TEST_CASE("a run is not written through links", "[paths]") {
  const Corpus f;
  f.write("mine", "mine");
  const std::string words = "train stories.txt --steps 2 --out r --sample-every 1" + kTiny;
  for (const std::string name : {"samples.txt", "metrics.csv", "checkpoint.safetensors"}) {
    fs::create_directory(f.path("r"));
    fs::create_symlink("../mine", f.path("r/" + name));
    check_refused(f, words + "--force", "cannot write r/" + name + ": it is a symbolic link");
    fs::remove_all(f.path("r"));
    REQUIRE(f.run(words).status == 0);
    fs::remove(f.path("r/" + name));
    fs::create_symlink("../mine", f.path("r/" + name));
    if (name == "samples.txt")
      check_refused(f, "train --out r --resume --steps 3", "cannot write r/" + name + ": it is a symbolic link");
    CHECK(f.read("mine") == "mine");
    fs::remove_all(f.path("r"));
  }
  fs::create_directories(f.path("c/placement=post/seed=1"));
  fs::create_symlink("../../../mine", f.path("c/placement=post/seed=1/log.txt"));
  check_refused(f, kTwoCells + "--force", "cannot write c/placement=post/seed=1/log.txt: it is a symbolic link");
  CHECK(f.read("mine") == "mine");
}

TEST_CASE("the next run gets a number of a few digits", "[paths]") {
  const Corpus f;
  const std::string words = "train stories.txt --steps 1" + kTiny;
  for (const char* name : {"2147483647-x", "99999999999999999999-x", "-5", "notes", "20261126-notes"})
    fs::create_directories(f.path("runs/" + std::string(name)));
  for (const char* name : {"runs/0001-pre-layernorm", "runs/0002-pre-layernorm"}) {
    REQUIRE(f.run(words).status == 0);
    CHECK(f.has(name));
  }
}

// ---- pipes without a writer ------------------------------------------------------------------------------

namespace {

// Command lines that each read `pipe` through one option, for all such options in the table.
std::vector<std::string> readers_of_options() {
  const std::string tiny = " --steps 1 --out o" + kTiny;
  const std::vector<std::pair<std::string, std::string>> bases = {
      {"train", "--data stories.txt" + tiny}, {"sample", "--length 1"}, {"info", ""},
      {"eval", "--checkpoint=run --data stories.txt"},
      {"compare", "--data stories.txt --grid placement=post,pre" + tiny + "--eval-every 1 "},
      {"init-report", "--data stories.txt --layers 1 --channels 8 --heads 1 --context 16"},
      {"export", "--out x --to hf"}, {"import", "--out o"}, {"corpus", "--check stories.txt"},
      {"tokenizer", "--data stories.txt --out x"}, {"tokenize", "--data stories.txt --out x"}};
  std::vector<std::string> all;
  for (const auto& [name, of_all] : bases)
    for (const CommandRow& row : commands()) {
      if (row.name != name) continue;
      for (const Setting& s : settings_of(row.kind)) {
        const bool path = s.files || s.takes.starts_with("FILE") || s.takes == "RUN" || s.takes == "PATH";
        const bool written = s.name == "out" || s.name == "logits" || s.name == "gradients" ||
                             (name == "corpus" && (s.name == "pairs" || s.name == "questions" || s.name == "held-out"));
        if (!path || written) continue;
        const bool questions = s.name == "pairs" || s.name == "choices" || s.name == "hellaswag";
        const std::string base = questions ? "--checkpoint=run" : of_all;
        for (const std::string pipe : {"./pipe", "pipe.model"})
          all.push_back(name + " " + base + " --" + s.name + "=" + pipe);
      }
    }
  return all;
}

// Command lines that read a folder in which a pipe replaces one file.
struct FolderFile {
  std::string of, file, words;  // a copy of the folder `of` is `in`
};

const std::vector<FolderFile>& folder_files() {
  static const std::vector<FolderFile> all = {
      {"run", "best.safetensors", "sample IN --length 1"},
      {"run", "best.safetensors", "export IN --out x"},
      {"run", "checkpoint.safetensors", "train --out IN --resume --steps 3"},
      {"run", "config.toml", "train --out IN --resume --steps 3"},
      {"run", "metrics.csv", "train --out IN --resume --steps 3"},
      {"run", "outcome.json", "train --out IN --resume"},
      {"hf", "config.json", "info IN"},
      {"hf", "config.json", "import IN --out back"},
      {"hf", "model.safetensors", "info IN"},
      {"hf", "tokenizer.json", "sample IN --length 1"},
      {"hf", "tokenizer.json", "train stories.txt --steps 1 --out o --tokenizer ./IN"},
      {"llmc", "model.bin", "info IN"},
      {"llmc", "gpt2_tokenizer.bin", "sample IN --length 1"},
      {"tok", "tokenizer.json", "train IN --steps 1 --out o"},
      {"tok", "tokenizer.json", "tokenize stories.txt --tokenizer ./IN --out x"},
      {"c", "comparison.toml", "compare --out IN --resume"},
      {"c", "comparison.toml", "compare --out IN --join"},
      {"c", "placement=post/seed=1/config.toml", "compare --out IN --resume"},
      {"c", "placement=post/seed=1/outcome.json", "compare --out IN --resume"},
      {"c", "placement=post/seed=1/metrics.csv", "compare --out IN --resume"},
      {"texts", "a.txt.nats", "train IN/a.txt --steps 1 --out o"},
  };
  return all;
}

void replace_by_pipe(const std::string& path) {
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
}

// Waits for a program, and ends it if it takes longer than `seconds`.
Outcome finish_within(const Folder& f, const Started& started, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  siginfo_t ended{};
  while (std::chrono::steady_clock::now() < end && ended.si_pid == 0) {
    waitid(P_PID, started.process, &ended, WEXITED | WNOHANG | WNOWAIT);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (ended.si_pid == 0) kill(started.process, SIGKILL);
  return f.finish(started);
}

}  // namespace

TEST_CASE("no command waits for a pipe that nothing writes to", "[paths][long]") {
  const Run f;
  REQUIRE(f.run("train stories.txt --tokenizer bpe:260 --bias --steps 1 --out gpt2" + f.tiny).status == 0);
  for (const std::string format : {"hf", "llmc"})
    REQUIRE(f.run("export gpt2 --to " + format + " --out " + format).status == 0);
  REQUIRE(f.run("tokenize stories.txt --tokenizer bpe:260 --out tok").status == 0);
  REQUIRE(f.run(kTwoCells).status == 0);
  for (const char* name : {"pipe", "pipe.model"}) replace_by_pipe(f.path(name));

  std::vector<std::string> lines = readers_of_options();
  const size_t options = lines.size();
  for (const FolderFile& m : folder_files()) {
    const std::string in = "in" + std::to_string(lines.size());
    fs::copy(f.path(m.of), f.path(in), fs::copy_options::recursive);
    replace_by_pipe(f.path(in + "/" + m.file));
    lines.push_back(m.words);
    lines.back().replace(m.words.find("IN"), 2, in);
  }
  CHECK(options > 25);
  std::vector<Started> started;
  for (const std::string& words : lines) started.push_back(f.start(words));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Outcome o = finish_within(f, started[i], 30);
    INFO(lines[i] << "\n" << o.out << o.err);
    CHECK(o.status == 1);
    CHECK((contains(o.err, "pipe") || (i >= options && contains(o.err, "in" + std::to_string(i)))));
    CHECK(count_lines(o.err) == 1);
  }
}
