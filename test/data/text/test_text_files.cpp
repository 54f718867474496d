// Reading text: which files count as text, how they are split, and the messages about them.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include "data/corpus/corpus_files.hpp"
#include "data/text/load_dataset.hpp"
#include "data/strings/utf8.hpp"
#include "data/options/command_line.hpp"
#include "data/run/messages.hpp"
#include "data/run_directory/directory.hpp"
#include "catch.hpp"
#include "check.hpp"
#include "small_run.hpp"

namespace {

const std::string kDry = "train --dry-run --context 8 --data ";

std::string lines(const std::string& line, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += line + "\n";
  return text;
}

// Trains a run r for one step with a character tokenizer.
void train_char(const Folder& f, const std::string& text) {
  f.write("seen.txt", text);
  REQUIRE(f.run("train --data seen.txt --tokenizer char --steps 1 --layers 1 --heads 1 --channels 8 --context 8 --out "
                "r --quiet")
              .status == 0);
}

std::vector<uint32_t> tokens_of(const Dataset& data) {
  std::vector<uint32_t> tokens;
  data.tokens.for_each(0, data.tokens.size(), [&](uint32_t token) { tokens.push_back(token); });
  return tokens;
}

}  // namespace

TEST_CASE("a folder's files are read if their contents are text", "[text]") {
  const Folder f;
  f.write("notes/a.md", lines("Some text.", 20));
  f.write("notes/deep/b", lines("Größe", 20));
  f.write("notes/picture.txt", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  f.write("notes/latin.txt", lines("Gr\xf6\xdf""e", 20));
  f.write("notes/.hidden", "never");
  write_corpus(f.path("notes/stories.txt"), 600, 1);
  const Outcome all = f.run(kDry + "notes --tokenizer char");
  INFO(all.err);
  REQUIRE(all.status == 0);
  CHECK(contains(all.out, "data     3 files:"));
  CHECK(contains(all.out, "skipped 3 files that are not text: "));
  for (const char* name : {"notes/picture.txt", "notes/latin.txt", "notes/stories.txt.nats"})
    CHECK(contains(all.out, name));
  CHECK(contains(f.run(kDry + "notes --include *.md").out, "data     notes/a.md:"));
  CHECK(contains(f.run(kDry + "notes --exclude *.md deep --include *.txt *.md b").out, "data     notes/stories.txt:"));
  CHECK(contains(f.run(kDry + "notes --include deep/*").out, "data     notes/deep/b:"));
  check_refused(f, kDry + "notes --include *.tex", "there is no text in notes");
}

TEST_CASE("a folder is read without the output of train_gpt", "[text][program]") {
  const Folder f;
  const std::string run = " --context 8 --layers 1 --heads 1 --channels 8 --batch 2 --eval-every 1 --threads 1 --quiet";
  const auto data_of = [&](const std::string& name) {
    return read_checkpoint_header(f.path(name + "/checkpoint.safetensors")).data_fingerprint;
  };
  f.write("all/notes.txt", lines("Some text.", 100));
  f.write("all/out/mine.txt", lines("Below --out.", 100));
  REQUIRE(f.run("train all --steps 1 --force --out all/out" + run).status == 0);
  CHECK(f.run("train --out all/out --resume --steps 2").status == 0);  // the same text
  const Outcome second = f.run("train all --steps 1 --out second" + run);
  CHECK(second.status == 0);
  CHECK(contains(second.out, "NOTE     left out the output of train_gpt: all/out\n"));
  CHECK(data_of("second") == data_of("all/out"));

  const std::string compare = "compare all --steps 1 --grid placement=post,pre --out all/cells" + run;
  const Outcome cells = f.run(compare);
  INFO(cells.err);
  REQUIRE(cells.status == 0);
  REQUIRE(f.run(compare + " --force").status == 0);
  size_t runs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(f.path("all/cells")))
    if (entry.path().filename() == "checkpoint.safetensors")
      CHECK((++runs, read_checkpoint_header(entry.path().string()).data_fingerprint) == data_of("second"));
  CHECK(runs == 2);

  REQUIRE(f.run("tokenizer all --vocab 260 --out all/tok.json").status == 0);
  const std::string first = f.read("all/tok.json");
  REQUIRE(f.run("tokenizer all --vocab 260 --out all/tok.json --force").status == 0);
  CHECK(f.read("all/tok.json") == first);

  check_refused(f, "train all --steps 1 --out all", "all is --out, which is never read: choose another --out");
  check_refused(f, kDry + "all/cells", "all/cells holds a run or a comparison, and no text to learn");
}

TEST_CASE("links to folders are followed, each folder once", "[text]") {
  const Folder f;
  f.write("here/a.txt", lines("Some text.", 20));
  f.write("there/b.txt", lines("Other text.", 20));
  f.write("there/deep/c.txt", lines("Deep text.", 20));
  namespace fs = std::filesystem;
  fs::create_directory_symlink("../there", f.path("here/1"));
  fs::create_directory_symlink("../there/deep", f.path("here/0"));
  fs::create_directory_symlink("..", f.path("there/loop"));
  fs::create_directory_symlink("self", f.path("here/self"));
  const Text text = read_text({f.path("here")}, {});
  std::vector<std::string> names;
  for (const Text::File& file : text.files) names.push_back(file.name.substr(f.path("").size()));
  CHECK(names == std::vector<std::string>{"here/0/c.txt", "here/1/b.txt", "here/a.txt"});
  CHECK(text.notes == std::vector<std::string>{"skipped 1 file that is not text: " + f.path("here/self")});
}

TEST_CASE("a file with several names is read once, and copies are noted", "[text][long]") {
  const Folder f;
  f.write("set/a.txt", lines("Some text.", 30));
  f.write("set/b.txt", lines("Other text.", 30));
  std::filesystem::create_symlink("set/a.txt", f.path("link.txt"));
  std::filesystem::create_hard_link(f.path("set/a.txt"), f.path("same.txt"));
  for (const char* second : {"set/a.txt", "link.txt", "same.txt", "set/../set/a.txt"}) {
    const Outcome o = f.run(kDry + "set " + second);
    INFO(o.err);
    CHECK(contains(o.out, "data     2 files: 690 bytes,"));
    CHECK(contains(o.out, std::string("NOTE     named twice, and read once: ") + second + "\n"));
  }
  const std::string warning = "NOTE     the same text as another file: ";
  CHECK_FALSE(contains(f.run(kDry + "set").out, warning));
  std::filesystem::copy_file(f.path("set/a.txt"), f.path("copy.txt"));
  CHECK(contains(f.run(kDry + "set copy.txt").out, warning + "copy.txt; validation may be of text that"));
  CHECK(contains(f.run(kDry + "set --val-data copy.txt").out, warning + "copy.txt; validation may be of text that"));
}

TEST_CASE("a file in --data and in --val-data is for validation alone", "[text][long]") {
  const Folder f;
  f.write("set/a.txt", lines("Some text.", 30));
  f.write("set/valid.txt", lines("Held out.", 30));
  std::filesystem::create_hard_link(f.path("set/valid.txt"), f.path("same.txt"));
  std::filesystem::create_symlink("set/valid.txt", f.path("link.txt"));
  for (const char* name : {"set/valid.txt", "same.txt", "link.txt", "set/../set/valid.txt"}) {
    const Outcome o = f.run(kDry + "set --val-data " + name);
    INFO(o.err);
    CHECK(contains(o.out, "data     set/a.txt: 630 bytes, 330 tokens to train on, 300 to validate"));
    CHECK(contains(o.out, "NOTE     left out what is in --val-data: set/valid.txt\n"));
  }
  const std::string nothing = "nothing is left to train on: left out what is in --val-data: set/a.txt";
  check_refused(f, kDry + "set/a.txt --val-data set/a.txt", nothing);
  check_refused(f, kDry + "set --val-data set", nothing);
}

TEST_CASE("files of other programs are named with the command that helps", "[text]") {
  const Folder f;
  const std::tuple<const char*, std::string, const char*> files[] = {
      {"a.gz", "\x1f\x8b\x08", "a.gz is compressed by gzip: zcat a.gz | train_gpt train -"},
      {"a.zst", "\x28\xb5\x2f\xfd", "a.zst is compressed by Zstandard: zstdcat a.zst | train_gpt train -"},
      {"a.xz", std::string("\xfd\x37zXZ\0", 6), "a.xz is compressed by xz: xzcat a.xz | train_gpt train -"},
      {"a.bz2", "BZh91AY&SY\x01", "a.bz2 is compressed by bzip2: bzcat a.bz2 | train_gpt train -"},
      {"a.zip", "PK\x03\x04", "a.zip is a zip file: unzip -p a.zip | train_gpt train -"},
      {"a.parquet", std::string("PAR1\x15\0", 6), "a.parquet is a Parquet table: python3 -c "},
      {"a.npy", "\x93NUMPY\x01", "a.npy is an array of NumPy: if it holds tokens, "},
      {"a.utf16", std::string("\xff\xfe" "a\0", 4), "a.utf16 is UTF-16: iconv -f UTF-16 -t UTF-8 a.utf16 | train_gpt"},
      {"a.utf32", std::string("\xff\xfe\0\0", 4), "a.utf32 is UTF-32: iconv -f UTF-32 -t UTF-8 a.utf32 | train_gpt"},
      {"a.pdf", "%PDF-1.4\n", "a.pdf is a PDF file: pdftotext a.pdf - | train_gpt train -"},
      {"a.txt", "version https://git-lfs.github.com/spec/v1\n", "a.txt is a pointer of Git LFS, not the file itself: "},
      {"a.bin", std::string("\x05\0\x06\x01", 4), "a.bin looks like tokens: add --tokenizer FILE"}};
  for (const auto& [name, bytes, message] : files) {
    f.write(name, bytes + bytes);
    check_refused(f, kDry + name, message);
    f.write("folder/" + std::string(name), bytes + bytes);
  }
  check_refused(f, "train -", "there is no text");
  f.write("folder/good.txt", lines("Some text.", 30));
  const Outcome folder = f.run(kDry + "folder");
  CHECK(contains(folder.out, "data     folder/good.txt: 330 bytes"));
  CHECK(contains(folder.out, "NOTE     folder/a.bz2 is compressed by bzip2: bzcat folder/a.bz2 | train_gpt train -\n"));

  f.write("a.json", "[\n" + lines(" {\"text\": \"Some text.\"},", 30));
  CHECK(contains(f.run(kDry + "a.json").out,
                 "NOTE     JSON is learned as it is: a.json; for its texts alone: jq -r '.[].text' a.json | "));
}

TEST_CASE("an error about a file that is not text names the file and the place", "[text]") {
  const Folder f;
  f.write("good.txt", lines("Some text.", 20));
  f.write("bad.txt", lines("Some text.", 3) + "caf\xe9\n");
  f.write("zero.bin", lines("Some text.", 20) + std::string("\0", 1));
  check_refused(f, kDry + "good.txt bad.txt --tokenizer char", "bad.txt, line 4, byte 4: 0xe9 is not UTF-8; ");
  CHECK(contains(f.run(kDry + "zero.bin").out, "zero.bin is not text (byte 220 is 0x00)"));
}

TEST_CASE("pipes, devices and folders that cannot be read end with one line", "[text]") {
  const Folder f;
  const Outcome zero = f.run(kDry + "/dev/zero");
  CHECK(zero.status == 1);
  CHECK(zero.err == "train_gpt: /dev/zero is a device, not a file with text\n");
  CHECK(f.run("train --config /dev/zero").err == zero.err);
  CHECK(contains(f.run(kDry + "/dev/null").err, "there is no text in /dev/null: it is empty"));
  REQUIRE(mkfifo(f.path("pipe").c_str(), 0600) == 0);
  CHECK(f.run(kDry + "pipe").err == "train_gpt: pipe is a pipe that nothing writes to\n");
  f.write("notes/a.txt", lines("Some text.", 20));
  REQUIRE(mkfifo(f.path("notes/pipe").c_str(), 0600) == 0);
  CHECK(contains(f.run(kDry + "notes").out, "skipped 1 file that is not text: notes/pipe"));
  f.write("notes/closed/b.txt", "b");
  std::filesystem::permissions(f.path("notes/closed"), std::filesystem::perms::none);
  if (::geteuid() != 0) {  // root can read it
    const Outcome closed = f.run(kDry + "notes");
    CHECK(contains(closed.err, "cannot read the folder notes/closed: Permission denied"));
    CHECK(f.run(kDry + "notes --exclude closed").status == 0);
  }
  std::filesystem::permissions(f.path("notes/closed"), std::filesystem::perms::owner_all);
}

TEST_CASE("a text larger than memory is refused before it is read", "[text]") {
  const Folder f;
  f.write("huge.txt", "x");
  REQUIRE(truncate(f.path("huge.txt").c_str(), int64_t{1} << 42) == 0);
  const Outcome o = f.run(kDry + "huge.txt");
  CHECK(o.status == 1);
  CHECK(contains(o.err, "of memory and the machine has "));
  CHECK(contains(o.err, ": give less text"));
}

TEST_CASE("CRLF line ends and byte order marks are removed", "[text]") {
  const Folder f;
  train_char(f, lines("some text", 30));
  f.write("dos.txt", "\xef\xbb\xbf" + lines("some text\r", 30));
  const Outcome tuned = f.run("train --init-from r --data dos.txt --steps 1 --out tuned --quiet");
  INFO(tuned.err);
  CHECK(tuned.status == 0);
  CHECK(contains(tuned.out,
                 "NOTE     left out the byte order mark of dos.txt\nNOTE     read CRLF line ends as LF: dos.txt\n"));
  const auto loss = [&](const std::string& file) {
    const std::string out = f.run("eval r --data " + file).out;
    return out.substr(out.find("loss"), 40);
  };
  CHECK(loss("dos.txt") == loss("seen.txt"));
}

TEST_CASE("data options that the text does not read are noted", "[text]") {
  const Corpus f;
  f.write("t.txt", lines("some text", 60));
  std::string texts, answers, pairs;
  for (int i = 0; i < 60; ++i) {
    texts += "{\"text\": \"some text\"}\n";
    answers += "{\"prompt\": \"some\", \"completion\": \"text\"}\n";
    pairs += "one\ttwo\n";
  }
  f.write("t.jsonl", texts);
  f.write("a.jsonl", answers);
  f.write("p.tsv", pairs);
  f.must("tokenize stories.txt --tokenizer bpe:300 --out A");
  f.must("tokenizer stories.txt --vocab 300 --out tok.json");
  const auto notes = [&](const std::string& words) {
    const Outcome o = f.run("train " + words + " --dry-run --context 8 --layers 1 --heads 1 --channels 8");
    INFO(words << "\n" << o.err);
    CHECK(o.status == 0);
    std::string found;
    std::istringstream all(o.out);
    for (std::string line; std::getline(all, line);)
      if (contains(line, "has no effect")) found += line.substr(line.find("--")) + "\n";
    return found;
  };
  const std::string no = " has no effect ";
  const struct {
    std::string words, found;
  } cases[] = {
      {"t.txt --loss all", "--loss" + no + "without prompts and conversations\n"},
      {"t.jsonl --loss all", "--loss" + no + "without prompts and conversations\n"},
      {"a.jsonl --loss all", ""},
      {"t.txt --text-field foo", "--text-field" + no + "without JSON lines\n"},
      {"t.txt --prompt-field prompt", ""},
      {"t.txt --prompt-field foo", "--prompt-field" + no + "without JSON lines\n"},
      {"t.jsonl --text-field text", ""},
      {"t.txt --chat-template plain",
       "--chat-template" + no + "without prompts and conversations, but for the special tokens of a new tokenizer\n"},
      {"a.jsonl --chat-template plain", ""},
      {"t.jsonl --documents paragraph", "--documents" + no + "on JSON lines and pairs, each of which is a document\n"},
      {"p.tsv --objective pairs --encoder-layers 1 --documents paragraph",
       "--documents" + no + "on JSON lines and pairs, each of which is a document\n"},
      {"t.txt t.jsonl --documents line --text-field text", ""},
      {"t.jsonl --sampling shuffle", "--sampling" + no + "on documents, whose rows are shuffled\n"},
      {"t.txt --sampling shuffle --val-split spread --val-fraction 0.2", ""},
      {"t.txt --special-tokens tokens",
       "--special-tokens" + no + "with a tokenizer that is no tokenizer.json\n"},
      {"t.txt --special-tokens tokens --tokenizer tok.json --unknown skip", ""},
      {"t.txt --unknown skip", "--unknown" + no + "with a tokenizer that has all characters\n"},
      {"t.txt --unknown skip --tokenizer char", "--unknown" + no + "with a tokenizer that has all characters\n"},
      {"A --unknown skip", "--unknown" + no + "on token files\n"},
      {"A --special-tokens text", "--special-tokens" + no + "on token files\n"},
      {"A --val-fraction 0", "--val-fraction" + no + "with token files for validation\n"},
      {"A --val-split spread", "--val-split" + no + "with token files for validation\n"},
      {"A/train_000000.bin --val-split spread --val-fraction 0.3", ""},
  };
  for (const auto& [words, found] : cases) {
    INFO(words);
    CHECK(notes(words) == found);
  }
  f.must("train a.jsonl --chat-template plain --steps 1 --layers 1 --heads 1 --channels 8 --context 8 --out r --quiet");
  CHECK(notes("t.txt --init-from r") == "");  // the template is the model's
  CHECK(contains(f.run("eval r --data t.txt --text-field foo").err,
                 "NOTE: --text-field has no effect without JSON lines\n"));
}

TEST_CASE("--unknown for characters that a model has never seen", "[text]") {
  const Folder f;
  train_char(f, lines("what is it?", 30));
  f.write("new.txt", lines("what ís it?", 10));
  const Outcome refused = f.run("eval r --data new.txt");
  CHECK(refused.status == 1);
  CHECK(contains(refused.err, "new.txt, line 1, byte 6: character 'í' (U+00ED) is not in the model's vocabulary; "
                              "--unknown skip leaves it out, --unknown replace writes a replacement"));
  const Outcome skipped = f.run("eval r --data new.txt --unknown skip");
  CHECK(contains(skipped.out, "(109 tokens)"));
  CHECK(contains(skipped.err, "10 characters of new.txt not in the model's vocabulary: skipped"));
  CHECK(contains(f.run("eval r --data new.txt --unknown replace").out, "(119 tokens)"));
  CHECK(f.run("train --init-from r --data new.txt --steps 1 --out tuned --quiet --unknown skip").status == 0);
  CHECK(f.run("train --out tuned --resume --steps 2 --quiet").status == 0);
  f.must("train new.txt --init-from r --unknown replace --dry-run");
  f.write("seen.txt", lines("what is it", 30));
  f.must("train seen.txt --tokenizer char --steps 1 --layers 1 --heads 1 --channels 8 --context 8 --out no --quiet");
  const Outcome lost = f.run("eval no --data new.txt --unknown replace");
  CHECK(contains(lost.out, "(99 tokens)"));
  CHECK(contains(lost.err, "20 characters of new.txt not in the model's vocabulary: skipped, because the "
                           "replacements U+FFFD and '?' are not in it either\n"));
  CHECK(contains(f.run("sample r --length 0", "wí").err, "byte 2 of the prompt: character 'í'"));
  CHECK(f.run("sample r --length 0 --unknown skip", "wí").out == "w\n");
  CHECK(f.run("sample r --length 0 --unknown replace", "wí").out == "w?\n");
}

TEST_CASE("only characters of the alphabet have tokens, and only valid UTF-8 is a character", "[text]") {
  const Tokenizer ac = Tokenizer::characters("ca");
  CHECK(ac.encode("cac") == std::vector<uint32_t>{1, 0, 1});
  CHECK_THROWS_AS(ac.encode("abc"), NoToken);
  std::vector<uint32_t> points(0xffff);
  std::iota(points.begin(), points.end(), 0x10000);
  CHECK(Tokenizer::characters(points).vocabulary() == 0xffff);
  points.push_back(points.back() + 1);
  CHECK_THROWS_AS(Tokenizer::characters(points), std::runtime_error);
  for (const char* bytes : {"\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf"}) {
    size_t at = 0;
    CHECK_FALSE(next_code_point(bytes, at));
  }
}

TEST_CASE("the files of a folder are in alphabetical order, and a place names the right one", "[text]") {
  const Folder f;
  f.write("d/b.txt", "bb\n"), f.write("d/a.txt", "aa\n");
  const Text text = read_text({f.path("d")}, {});
  CHECK(text.bytes == "aa\nbb\n");
  CHECK(text.place(2) == f.path("d/a.txt") + ", line 1, byte 3");
  CHECK(text.place(3) == f.path("d/b.txt") + ", line 1, byte 1");
  std::string returns = "a\rb\r\nc\r";
  CHECK(drop_returns(returns));
  CHECK(returns == "a\rb\nc\r");
}

TEST_CASE("a corpus has a floor only if all of it is read", "[text]") {
  const Corpus f;
  std::string letters = f.read("stories.txt");
  TextFiles files;
  files.data = {f.path("stories.txt")}, files.unknown = Unknown::skip;
  const auto floor = [&] {
    const Tokenizer tokenizer = Tokenizer::characters(letters).with_special({"end"});
    return load_for_evaluation(files, tokenizer, 400, {.separator = "end"}).floor;
  };
  CHECK(floor() > 0);
  std::erase(letters, 'd');
  CHECK(floor() == 0);
}

TEST_CASE("an error of eval suggests no option that eval does not have", "[text]") {
  const Folder f;
  train_char(f, lines("some text", 30));
  f.write("one.txt", "s");
  f.write("latin.txt", "caf\xe9 text");
  for (const char* file : {"one.txt", "latin.txt"}) {
    const Outcome o = f.run(std::string("eval r --data ") + file);
    INFO(o.err);
    CHECK(o.status == 1);
    for (const char* option : {"--context", "--val-fraction", "--tokenizer"}) CHECK(!contains(o.err, option));
  }
}

TEST_CASE("--val-data validates on other files", "[text]") {
  const Corpus f;
  write_corpus(f.path("train.txt"), 1100, 7);
  const Outcome o = f.run(
      "train --data train.txt --val-data stories.txt --steps 1 --layers 1 --heads 1 --channels 8 --out r --quiet");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "tokens to train on"));
  CHECK(contains(o.out, "floor"));
  CHECK(f.run("train --out r --resume --steps 2 --quiet").status == 0);
  write_corpus(f.path("train.txt"), 1100, 8);
  CHECK(contains(f.run("train --out r --resume --steps 3").err, "not the one the run was trained on"));
}

TEST_CASE("the same characters split differently into files are another text", "[text]") {
  const Folder f;
  f.write("a", "aaaaaaaaaaaa"), f.write("b", "bbbbbbbb"), f.write("ab", "aaaaaaaaaaaab"), f.write("b7", "bbbbbbb");
  const auto fingerprint = [&](const char* data, const char* validation) {
    TextOptions o;
    o.data = {f.path(data)}, o.val_data = {f.path(validation)};
    return load_dataset(o, nullptr, 4).fingerprint;
  };
  CHECK(fingerprint("a", "b") != fingerprint("ab", "b7"));
  CHECK(fingerprint("a", "b") == fingerprint("a", "b"));
}

TEST_CASE("a spread validation split keeps whole stories, their floor and all tokens", "[text]") {
  const Folder f;
  write_corpus(f.path("stories.txt"), 300000, 3);
  TextOptions options;
  options.data = {f.path("stories.txt")};
  const Dataset tail = load_dataset(options, nullptr, 256);
  options.val_split = ValSplit::spread;
  const Dataset spread = load_dataset(options, nullptr, 256);
  REQUIRE(spread.tokens.size() == tail.tokens.size());
  CHECK(spread.fingerprint == tail.fingerprint);
  CHECK(tokens_of(tail) == tokens_of(spread));
  const double share = double(spread.tokens.size() - spread.train) / double(spread.tokens.size());
  CHECK(std::abs(share - .1) < .01);
  double nats = 0;
  for (const TokenWindow& window : spread.val.windows()) {
    std::string story;
    CHECK(int(spread.tokens[window.start]) == spread.around.first);
    CHECK(int(spread.tokens[window.start + static_cast<size_t>(window.length)]) == spread.around.last);
    for (int i = 1; i < window.length; ++i)
      story += spread.tokenizer.decode(static_cast<int>(spread.tokens[window.start + i]));
    const auto found = story_nats(story);
    REQUIRE(found);
    nats += *found;
  }
  CHECK(std::abs(nats / double(spread.val_targets()) - spread.floor) < 1e-6);
  CHECK(spread.floor != tail.floor);
}

TEST_CASE("a spread validation split has a part of every file", "[text]") {
  const Folder f;
  for (int i = 0; i < 8; ++i) f.write("notes/" + std::to_string(i), std::string(2000, static_cast<char>('a' + i)));
  TextOptions options;
  options.data = {f.path("notes")};
  const auto letters = [&] {
    const Dataset data = load_dataset(options, nullptr, 16);
    const std::vector<uint32_t> tokens = tokens_of(data);
    return std::set<uint32_t>(tokens.begin() + static_cast<int64_t>(data.train), tokens.end()).size();
  };
  CHECK(letters() == 1 + 1);  // one is the token between files
  options.val_split = ValSplit::spread;
  CHECK(letters() == 8 + 1);
}

TEST_CASE("warnings name settings that are probably mistakes", "[text]") {
  const Corpus f;
  TextOptions text;
  text.data = {f.path("stories.txt")};
  text.documents = "file";
  const Dataset data = load_dataset(text, nullptr, 32);
  const auto warnings = [&](const std::string& more) {
    std::istringstream in("train" + kSmall + more);
    const TrainOptions o = parse_words({std::istream_iterator<std::string>(in), {}}).train;
    std::string found;
    for (const std::string& line : warnings_about({o}, {o})) found += line + "\n";
    for (const std::string& line : warnings_about(data, o, 1000000)) found += line + "\n";
    return found;
  };
  const TrainOptions late = parse_words({"train", "--steps", "9"}).train;
  TrainOptions early = late;
  early.rate.warmup = 2;
  CHECK(warnings_about({early, early}, {early}).empty());
  CHECK(warnings_about({early, late}, {early}).size() == 1);
  const std::string little = "the text has 0.054 tokens for each parameter, ";
  CHECK(warnings("--init-from r") == "");
  CHECK(warnings("").starts_with(little));
  CHECK(contains(warnings("--steps 20000"), "the text is read 48 times, "));
  CHECK(contains(warnings("--steps 100 --warmup 5000"),
                 "--warmup 5000 does not end before step 100: the learning rate only gets to 6e-05 of 0.003; try "
                 "--warmup 10%\n"));
  CHECK(contains(warnings("--lr 0"), "--lr 0: nothing will be learned\n"));
  CHECK(contains(warnings("--placement mix-ln --layers 3"),
                 "--mix-fraction 0.25 of 3 layers is less than one block, so none has --placement post: raise it to "
                 "0.34\n"));
  CHECK(!contains(warnings("--placement mix-ln --layers 3 --mix-fraction 0.34"), "is less than one"));
  const std::string deep = "--placement mix-ln --layers 8 ";
  CHECK(contains(warnings(deep + "--parametrization completep --base-channels 8 --base-layers 2"),
                 "of the base model's 2 layers is less than one block"));
  CHECK(contains(warnings(deep + "--encoder-layers 3 --objective pairs"), "of 3 layers is less than one block"));
  CHECK(contains(warnings("--lr 1"), "--lr 1: "));
  CHECK(contains(warnings("--min-lr 0.1"), "--min-lr 0.1 is above --lr 0.003: the learning rate rises at the end\n"));
  CHECK(contains(warnings("--min-lr 1e-4 --schedule constant"), "--min-lr has no effect with --schedule constant\n"));
  CHECK(contains(warnings("--patience 3 --val-fraction 0"), "--patience has no effect without validations\n"));
  CHECK(contains(warnings("--val-data v.txt --val-split spread"), "--val-split has no effect with --val-data\n"));
  CHECK(contains(warnings("--val-data v.txt --val-fraction 0.5"), "--val-fraction has no effect with --val-data\n"));
  CHECK(contains(warnings("--val-fraction 0 --val-split spread"), "--val-split has no effect with --val-fraction 0\n"));
  CHECK(contains(warnings("--cautious-decay --weight-decay 0"),
                 "--cautious-decay has no effect with --weight-decay 0\n"));
  CHECK_FALSE(contains(warnings("--cautious-decay --weight-decay 0 --norm-decay 0.1"), "no effect"));
  CHECK(contains(warnings("--optimizer sgd --beta2 0.99"), "--beta2 has no effect with --optimizer sgd\n"));
  CHECK(contains(warnings("--muon-scale spectral"), "--muon-scale has no effect with --optimizer adamw\n"));
  CHECK(contains(warnings("--streams 3"), "--streams has no effect with --placement pre\n"));
  CHECK(contains(warnings("--residual-block 3"), "--residual-block has no effect with --placement pre\n"));
  CHECK(contains(warnings("--placement attnres --skip-scale 2"),
                 "--skip-scale has no effect with --placement attnres\n"));
  const std::string keys_alone = "--placement attnres --norm-in dyt --norm-final dyt ";
  CHECK(!contains(warnings(keys_alone + "--no-norm-gain"), "no effect"));
  CHECK(!contains(warnings(keys_alone + "--norm-gain-init 2"), "no effect"));
  CHECK(contains(warnings("--router-loss 0.1"), "--router-loss has no effect without --experts\n"));
  CHECK(contains(warnings("--layer-scale-init 0.1"), "--layer-scale-init has no effect with --placement pre\n"));
  CHECK(contains(warnings("--placement none --norm rmsnorm"), "--norm has no effect with --placement none\n"));
  CHECK(contains(warnings("--placement rezero --norm-eps 1e-3"), "--norm-eps has no effect with --placement rezero\n"));
  CHECK(contains(warnings("--placement none --lr-norm 1e-3"), "--lr-norm has no effect with --placement none\n"));
  CHECK(contains(warnings("--gated-norm-rank 4"), "--gated-norm-rank has no effect with --norm layernorm\n"));
  CHECK(contains(warnings("--norm-out dyt"), "--norm-out has no effect with --placement pre\n"));
  CHECK(contains(warnings("--placement post --norm-final dyt"), "--norm-final has no effect without --final-norm\n"));
  CHECK(contains(warnings("--norm rmsnorm --norm-in dyt --norm-final dyt"),
                 "--norm has no effect on a model whose norms are all named by site\n"));
  CHECK(contains(warnings("--norm-decay-out 0.1"), "--norm-decay-out has no effect with --placement pre\n"));
  CHECK(contains(warnings("--norm simple-rmsnorm --norm-gain-init 0.5"),
                 "--norm-gain-init has no effect without --norm-gain\n"));
  CHECK(contains(warnings("--init-from r --init xavier"), "--init has no effect with --init-from\n"));
  const std::string nothing = " has no effect because none of its tensors train: the model has none, or --lora, "
                              "--train-only or --freeze leave none\n";
  for (const auto& [words, option] : {std::pair{"--lora 2 --lr-norm 1e-4", "lr-norm"},
                                      {"--lora 2 --lr-embedding 1e-4", "lr-embedding"},
                                      {"--freeze embedding --lr-embedding 1e-4", "lr-embedding"},
                                      {"--freeze norm|bias --lr-vector 1e-4", "lr-vector"},
                                      {"--no-tied --train-only norm --lr-head 1e-4", "lr-head"},
                                      {"--train-only norm --weight-decay 0.2", "weight-decay"},
                                      {"--train-only norm --cautious-decay", "cautious-decay"},
                                      {"--freeze norm --norm-decay 0.1", "norm-decay"},
                                      {"--norm nonparametric-layernorm --norm-decay 0.1", "norm-decay"},
                                      {"--optimizer muon --train-only norm --muon-scale spectral", "muon-scale"},
                                      {"--optimizer muon --freeze block --momentum 0.8", "momentum"}})
    CHECK(contains(warnings(words), "--" + std::string(option) + nothing));
  for (const char* read : {"--placement none --final-norm --norm rmsnorm", "--train-only norm --lr-norm 1e-4",
                           "--placement none --qk-norm head --norm-eps 1e-3", "--lora 2 --weight-decay 0.2",
                           "--placement post --final-norm --norm-final dyt", "--norm-in dyt --dyt-alpha 0.2",
                           "--norm rmsnorm --norm-in dyt --norm-final dyt --embedding-norm",
                           "--placement attnres --residual-block 2 --skip-scale 0.5",
                           "--placement siamese --norm rmsnorm --norm-in dyt --norm-sum dyt --norm-final dyt",
                           "--placement mix-ln --mix-fraction 0.5 --norm-in dyt --norm-sum derf --norm-decay-out 0.1",
                           "--norm simple-rmsnorm --norm-in rmsnorm --norm-gain-init 0.5",
                           "--train-only norm --norm-decay 0.1 --cautious-decay",
                           "--train-only norm --optimizer sgd --momentum 0.8", "--init-from r --norm rmsnorm"})
    CHECK_FALSE(contains(warnings(read), "no effect"));
  for (const char* read : {"--optimizer sgd --nesterov", "--optimizer muon --muon-scale spectral --beta2 0.99",
                           "--placement mhc --streams 3", "--preset mixtral --router-loss 0.1", "--preset llama",
                           "--placement layerscale --layer-scale-init 0.1", "--window 5 --window-every 2",
                           "--norm dyt --dyt-alpha 0.2", "--norm-in gatednorm --gated-norm-rank 4",
                           "--position rope --rope-theta 500", "--lora 2 --lora-on q"})
    CHECK_FALSE(contains(warnings(read), "no effect"));
  const auto compared = [&](const std::string& more) {
    return f.run("compare --data stories.txt --dry-run" + kSmall + more).out;
  };
  CHECK_FALSE(contains(compared("--grid optimizer=muon,adamw --muon-scale spectral"), "no effect"));
  CHECK(contains(compared("--grid optimizer=lion,adamw --muon-scale spectral"),
                 "WARNING: --muon-scale has no effect with --optimizer lion or with --optimizer adamw\n"));
  CHECK(contains(compared("--grid momentum=0.8,0.9"), "--momentum has no effect with --optimizer adamw\n"));
  CHECK(contains(compared("--grid placement=pre,post --tune streams=2,4"),
                 "--streams has no effect with --placement pre or with --placement post\n"));
  const std::string plan = f.run("train --data stories.txt --dry-run --accumulate 2 --warmup 5000" + kSmall).out;
  CHECK(contains(plan, "steps    3,000 of 256 tokens (batch 4 x 2 accumulated x context 32), 14.3 epochs\n"));
  CHECK(contains(plan, "rate     0.003 after 5000 warm-up steps, cosine to 0.0003\nWARNING  --warmup 5000 "));
  const std::string share = f.run("train --data stories.txt --dry-run --warmup 12.5%" + kSmall).out;
  CHECK(contains(share, "rate     0.003 after a warm-up of 12.5% of the steps, cosine to 0.0003\n"));
  CHECK(contains(warnings("--steps 50 --warmup 100%"), "--warmup 50 does not end before step 50: "));
  const std::string base = "--parametrization completep --base-channels 8 --base-layers 1 ";
  CHECK_FALSE(contains(warnings(base), "takes the place"));
  CHECK_FALSE(contains(warnings("--logit-scale 2"), "takes the place"));
  CHECK(contains(warnings(base + "--logit-scale 4"),
                 "--logit-scale 4 takes the place of the parametrization's factor 0.25; "
                 "--logit-scale 1 would be the base model's 4"));
  CHECK(contains(warnings(base + "--layers 2 --branch-scale 1"), "--branch-scale 1 takes the place of"));
  CHECK(contains(warnings(base + "--attention-scale 1"), "--attention-scale 1 takes the place of"));
  CHECK(contains(warnings(base + "--optimizer sgd"), "--clip 1 changes the size of SGD's steps"));
  CHECK_FALSE(contains(warnings(base + "--optimizer sgd --clip 0"), "--clip"));
  CHECK_FALSE(contains(warnings(base), "--clip"));
  const std::string heads = "--grid channels=16 heads=2 + channels=32 heads=4 ";
  CHECK(contains(compared(heads + base), "WARNING: --base-heads is open, so each run takes its own number of heads "
                                         "as the base model's, from 2 to 4: set --base-heads"));
  CHECK_FALSE(contains(compared(heads + base + "--base-heads 1"), "--base-heads is open"));
  const std::string muon = f.run("train --data stories.txt --dry-run --optimizer muon" + kSmall).out;
  CHECK(contains(muon, "rate     0.003 after 100 warm-up steps, cosine to 0.0003, Muon\n"));
}

TEST_CASE("patience ends a run that no longer improves, resumed or not", "[text]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 400 --lr 0 --patience 3 --eval-every 4"
                            " --layers 1 --heads 2 --channels 16 --context 32 --batch 2 --quiet --out ";
  const Outcome o = f.run(words + "r");
  INFO(o.err);
  CHECK(o.status == 0);
  CHECK(contains(o.out, "stopped early: no new best in 3 validations since step 4 ("));
  CHECK(read_checkpoint_header(f.path("r/checkpoint.safetensors")).step == 16);
  CHECK(contains(f.read("r/outcome.json"), "\"state\": \"stopped early\""));
  CHECK(contains(o.out, "weights     this loss is of step 16, the last. sample, eval and export use step 4, "));
  const Outcome killed =
      f.run_until(words + "s --save-every 1", SIGKILL, [&] { return count_lines(f.read("s/metrics.csv")) > 6; });
  if (killed.status != 0) CHECK(f.run("train --out s --resume --quiet").status == 0);
  CHECK(losses_in(f.read("r/metrics.csv")) == losses_in(f.read("s/metrics.csv")));
  CHECK(f.run("train --out r --resume --patience 5 --quiet").status == 0);
  CHECK(read_checkpoint_header(f.path("r/checkpoint.safetensors")).step == 24);
}

TEST_CASE("text for a terminal contains no control characters", "[text]") {
  CHECK(for_terminal("a\tb\n\x1b[31mred\x07") == "a\tb\n\\x1b[31mred\\x07");
  CHECK(for_terminal(std::string("\0\x7f", 2)) == "\\x00\\x7f");
  CHECK(for_terminal("Größe € 😀") == "Größe € 😀");
  CHECK(for_terminal("\xc2\x9b") == "\\xc2\\x9b");           // a control character above 127
  CHECK(for_terminal("\xe2\x82") == "\\xe2\\x82");           // incomplete
  CHECK(for_terminal("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  TerminalText pieces;
  std::string shown;
  for (const char c : std::string("€\xff!")) shown += pieces.feed(std::string(1, c));
  CHECK(shown == "€\\xff!");
}

TEST_CASE("names of files, checked stories and outcomes reach the terminal without control characters", "[text]") {
  const Folder f;
  const std::string escape = "\x1b]0;title\a", shown = "\\x1b]0;title\\x07";
  f.write("folder/" + escape + ".txt", lines("[{\"a\": 1}]", 30));
  f.write("folder/" + escape + ".bin", std::string("\x1f\x8b\0", 3));
  const Outcome plan = f.run(kDry + "folder");
  CHECK(plan.status == 0);
  CHECK(contains(plan.out, "folder/" + shown + ".txt: 330 bytes"));
  CHECK(contains(plan.out, "JSON is learned as it is: folder/" + shown));
  CHECK(contains(f.run("train --dry-run --data " + ("folder/" + escape) + ".bin").err, shown));
  for (const char* words : {"train --dry-run --context 8 --data folder", "tokenizer folder --out t.json --vocab 257"}) {
    const Outcome o = f.run(words);
    CHECK_FALSE(contains(o.out + o.err, "\x1b"));
  }
  f.write("checked", "One \x1b[2J" + std::string(1000, 'x') + "\n");
  const Outcome checked = f.run("corpus --check checked");
  CHECK(contains(checked.out, "at \"\\x1b[2Jxxx"));
  CHECK(checked.out.size() < 300);
  REQUIRE(truncate(f.path("checked").c_str(), (1 << 28) + 1) == 0);
  check_refused(f, "corpus --check checked", "checked is larger than 256 MB: is it the right file?");
  f.write("r/outcome.json", R"({"state": "diverged", "step": 3, "what": "loss", "tensor": "a\u001b[2J",)"
                            R"( "parameters": 1, "unigram": 1.0, "floor": 0.0, "data": "1"})");
  REQUIRE(read_outcome(f.path("r")));
  CHECK(read_outcome(f.path("r"))->tensor == "a\\x1b[2J");
}

TEST_CASE("a sample that is not printed on a terminal has exact bytes, including NUL", "[text]") {
  const Folder f;
  f.write("zero.bin", std::string(4000, '\0'));
  REQUIRE(f.run("train --data zero.bin --steps 60 --warmup 0 --lr 0.01 --layers 1 --heads 1 --channels 8 --context 8 "
                "--out r --quiet")
              .status == 0);
  CHECK(f.run("sample r --length 20 --greedy", std::string(3, '\0')).out == std::string(23, '\0') + "\n");
}
