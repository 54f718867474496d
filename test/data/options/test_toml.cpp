// Config files: values read back exactly, and errors name the file and the line.

#include "catch.hpp"
#include "data/files/json.hpp"
#include "data/options/command_line.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/settings_file.hpp"
#include "parse.hpp"
#include "small_run.hpp"

namespace {

const std::vector<std::string> kOdd = {
    "plain.txt", "a b.txt", "a#b.txt", "line\nbreak.txt", "tab\t\r\x01\x1b[31m\x7f.txt", "\"double\"", "'single'",
    "'both\"", "back\\slash\\n", "Füße/狐🦊.txt", "latin1 \xe9.txt", "\xc3", "\xed\xa0\x80 \xf4\x90\x80\x80", "[a, b]",
    "# no comment", "true", "1e3", "--dashes", "-", "", " ", "a = b", "{}", "%%", "$HOME `x`"};

std::string error_of(const std::string& toml) {
  return message_of<std::invalid_argument>([&] { read_toml(toml); });
}

}  // namespace

TEST_CASE("any text reads back unchanged from TOML and JSON", "[toml]") {
  for (const std::string& text : kOdd) {
    INFO(toml(text));
    const auto entries = read_toml("a = " + toml(text) + " # a comment\nb = 1\n");
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].values == std::vector<std::string>{text});
    CHECK(count_lines(toml(text)) == 0);
  }
  CHECK(read_toml("data = " + toml(kOdd)).at(0).values == kOdd);
  TrainOptions o;
  o.data = kOdd, o.init_from = kOdd[4];
  const TrainOptions again = from_toml(to_toml(with_vocabulary(o)));
  CHECK(again.data == kOdd);
  CHECK(again.init_from == kOdd[4]);
  const auto json = parse_json(to_text(to_json(with_vocabulary(o))));
  CHECK(train_options_of(json).data == kOdd);
  CHECK(train_options_of(json).init_from == kOdd[4]);
  CHECK(to_json(train_options_of(json)) == json);
}

TEST_CASE("numbers of training read back from config.toml as they were given", "[toml]") {
  const std::vector<std::vector<std::string>> given = {
      {"--norm-decay", "0.1"}, {"--norm-decay-out", "0.1"}, {"--norm-decay", "0.3", "--norm-decay-out", "0.1"},
      {"--beta2", "0.98", "--momentum", "0.9", "--lr-norm", "0.3"}, {"--clip", "0.1", "--adam-eps", "1e-9"}};
  for (std::vector<std::string> words : given) {
    INFO(words[0]);
    words.insert(words.begin(), {"train_gpt", "train", "a.txt", "--placement", "sandwich"});
    const TrainOptions options = with_vocabulary(parse_program_words(words).train);
    CHECK(differences(from_toml(to_toml(options, options)), options) == std::vector<std::string>());
  }
}

TEST_CASE("TOML with comments, arrays, both kinds of quotes and escapes", "[toml]") {
  const auto entries = read_toml(
      "\xef\xbb\xbf# head\r\n\r\nlr = 1e-3  # rate\r\n  name='C:\\dir'\nlist = [ 'a', # one\n\n \"b\",\n]\n"
      "bare = rmsnorm\n\"quoted\" = \"\\u00fc\\U0001F98A\\t\"\nempty = []");
  REQUIRE(entries.size() == 6);
  CHECK(entries[0].values == std::vector<std::string>{"1e-3"});
  CHECK(entries[1].values == std::vector<std::string>{"C:\\dir"});
  CHECK(entries[2].values == std::vector<std::string>{"a", "b"});
  CHECK(entries[2].line == 5);
  CHECK(entries[3].line == 9);
  CHECK(entries[4].values == std::vector<std::string>{"ü🦊\t"});
  CHECK(entries[5].values.empty());
}

TEST_CASE("an error in TOML names its line", "[toml]") {
  const struct {
    const char *toml, *message;
  } cases[] = {
      {"a = 1\n[train]\n", "line 2: tables such as [train] are not read: write name = value"},
      {"a\n", "line 1: expected name = value"},
      {"a = \n", "line 1: a value is missing"},
      {"a = = 3\n", "line 1: a value is missing"},
      {"a = 1 2\n", "line 1: more text after the value of 'a': quote the value"},
      {"a = \"b\n", "line 1: the string is not closed"},
      {"a = \"\"\"b\"\"\"", "line 1: multi-line strings are not read"},
      {"a = \"\\q\"", "line 1: unknown escape \\q"},
      {"a = \"\\u0000\"", "line 1: unknown escape \\u"},
      {"a = \"\\u12\"", "line 1: unknown escape \\u"},
      {"a = [1, 2\n", "the array is not closed"},
      {"a = [1 2]", "line 1: the array needs ,"},
      {"\na = [1, [2]]", "line 2: an array in an array is not read"},
      {"a = {b = 1}", "line 1: a value is missing"},
      {"a = 1\na = 2", "line 2: 'a' appears twice"},
  };
  for (const auto& [toml, message] : cases) {
    INFO(toml);
    CHECK(contains(error_of(toml), message));
  }
  for (const char c : {'[', '"', '{', '\\', '=', '\n', '\0'}) {
    const std::string deep(1000000, c);
    error_of(deep), error_of("a = " + deep), error_of("a = [" + deep);  // must end soon
  }
}

TEST_CASE("an error in a config file names the file and the line", "[toml]") {
  const Corpus f;
  const struct {
    const char *toml, *message;
  } cases[] = {
      {"lr = 1\nlayrs = 3\n", "c.toml line 2: unknown option '--layrs': did you mean '--layers'?"},
      {"steps = \"x\"\n", "c.toml line 1: --steps x is not a number"},
      {"norm = \"rsmnorm\"\n", "c.toml line 1: unknown norm 'rsmnorm': did you mean 'rmsnorm'?"},
      {"\nsize = \"125M\"\n", "c.toml line 2: --size: unknown size of preset gpt2 '125M'"},
      {"heads = 3\n", "c.toml line 1: --heads 3 does not divide"},
      {"layers = [1, 2]\n", "c.toml line 1: --layers takes one value"},
      {"layers = [[[1]]]\n", "c.toml line 1: an array in an array"},
      {"help = true\n", "c.toml line 1: unknown option '--help'"},
      {"config = \"c.toml\"\n", "c.toml line 1: a config file cannot read another one"},
      {"device = \"cuda\"\n", "c.toml line 1: there is no --device"},
      {"bias = \"perhaps\"\n", "c.toml line 1: --bias perhaps is not true or false"},
      {"textbook = true\nmatmul = \"bf16\"\n", "c.toml line 1: --textbook computes in double"},
      {"init-from = \"nowhere\"\n", "nowhere"},
      {"for = \"soon\"\n", "--for soon is not a time"},
      {"a\x1b[31m = 1\n", "c.toml line 1: expected name = value"},
  };
  for (const auto& [toml, message] : cases) {
    f.write("c.toml", toml);
    const Outcome o = f.run("train stories.txt --config c.toml");
    INFO(toml << o.err);
    CHECK(o.status == 1);
    CHECK(contains(o.err, message));
    CHECK(count_lines(o.err) == 1);
    CHECK(o.err.find('\x1b') == o.err.npos);
  }
  f.write("c.toml", std::string(17 << 20, '#'));
  CHECK(contains(f.run("train stories.txt --config c.toml").err, "c.toml is larger than 16 MB"));
}

TEST_CASE("a run on an odd path resumes, and its config reads back", "[toml]") {
  const Corpus f;
  const std::string odd = "a#\"b\"\\ 'c'\nd é \xe9.txt";
  f.write(odd, f.read("stories.txt"));
  f.write("c.toml", "data = [" + toml(odd) + "]\n");
  REQUIRE(f.run("train --config c.toml --steps 2 --out r" + kSmall).status == 0);
  const Outcome resumed = f.run("train --out r --resume --steps 3 --quiet");
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK(f.run("train --config r/config.toml --steps 2 --out s --quiet").status == 0);
  const std::string words =
      "compare --config c.toml --grid seed=1 --steps 2 --out c" + kSmall.substr(0, kSmall.find("--quiet"));
  REQUIRE(f.run(words).status == 0);
  CHECK(f.run("compare --out c --resume").status == 0);
}

TEST_CASE("later files and the command line override earlier files", "[toml]") {
  const Corpus f;
  f.write("a.toml", "steps = 5\nlr = 1e-4\ndata = \"no.txt\"\n");
  f.write("b.toml", "steps = 6\n");
  const std::string line = "train stories.txt --config a.toml --config b.toml --batch_size 4 --dry-run --layers 1";
  const Outcome o = f.run(line);
  CHECK(o.status == 0);
  CHECK(contains(o.err, "NOTE: --batch-size is --batch here\n"));
  CHECK(contains(o.out, "6 of "));
  CHECK(contains(f.run(line + " --for 1h --steps 3").err, "both say how long"));
}

TEST_CASE("control characters in an error message are escaped", "[toml]") {
  const Corpus f;
  const Outcome o = f.run("train a\x1b[2J.txt");
  CHECK(contains(o.err, "a\\x1b[2J.txt"));
  f.write("odd.toml", "sampling = \"ran\\ndom\"\n");
  CHECK(contains(f.run("train --config odd.toml").err, "odd.toml line 1: unknown sampling 'ran\\ndom'"));
}
