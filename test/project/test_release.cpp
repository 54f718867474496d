// Installing the program, and the launcher of a release.

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "catch.hpp"
#include "data/files/json.hpp"
#include "data/options/completion.hpp"
#include "data/options/man_page.hpp"
#include "message.hpp"
#include "program.hpp"

namespace fs = std::filesystem;

namespace {

int status_of(const std::string& command) { return WEXITSTATUS(std::system(command.c_str())); }

// What a command prints on standard output.
std::string printed_by(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

void write_script(const Folder& f, const std::string& name, const std::string& text) {
  f.write(name, text);
  fs::permissions(f.path(name), fs::perms(0755));
}

}  // namespace

TEST_CASE("an installed program has its manual page and completion, and can be removed", "[release][program]") {
  const Folder f;
  const std::string script = "dev/release/install.sh ", to = "'" + f.path("a b/usr") + "'", program = program_path();
  REQUIRE(status_of("umask 077; " + script + program + " " + to + " >/dev/null") == 0);
  REQUIRE(status_of("env -i '" + f.path("a b/usr/bin/train_gpt") + "' --version >/dev/null") == 0);
  CHECK(f.read("a b/usr/share/man/man1/train_gpt.1") == man_page());
  CHECK(f.read("a b/usr/share/bash-completion/completions/train_gpt") == completion_script("bash"));
  CHECK(f.read("a b/usr/share/zsh/site-functions/_train_gpt") == completion_script("zsh"));
  CHECK(f.read("a b/usr/share/fish/vendor_completions.d/train_gpt.fish") == completion_script("fish"));
  // Everyone may read it, whatever the umask.
  CHECK(fs::status(f.path("a b/usr/share/man/man1/train_gpt.1")).permissions() == fs::perms(0644));
  CHECK(fs::status(f.path("a b/usr/bin")).permissions() == fs::perms(0755));

  CHECK(status_of(script + "--remove " + to) == 0);
  int left = 0;
  for (const auto& entry : fs::recursive_directory_iterator(f.path("a b"))) left += !entry.is_directory();
  CHECK(left == 0);
  CHECK(status_of(script + "--remove " + to) == 0);  // nothing there
}

TEST_CASE("make takes a file whose name has spaces, and several files", "[release]") {
  const Folder f;
  for (const char* name : {"my notes.txt", "a.txt", "b.txt", "it's.txt"}) f.write(name, "x");
  std::ifstream makefile("dev/recipes/recipes.mk");
  std::string rules;
  for (std::string line; std::getline(makefile, line);)
    if (line.starts_with("quoted =") || line.starts_with("files =")) rules += line + "\n";
  REQUIRE(count_lines(rules) == 2);
  f.write("Makefile", rules + "t:\n\t@printf '[%s]' $(call files,$(DATA))\n");
  const auto words_of = [&](const std::string& data) {
    return printed_by("make -s -C '" + f.path(".") + "' t DATA=\"" + data + "\"");
  };
  if (words_of("a.txt") == "") return skip_test("no make");
  CHECK(words_of("my notes.txt") == "[my notes.txt]");
  CHECK(words_of("it's.txt") == "[it's.txt]");
  CHECK(words_of("a.txt b.txt") == "[a.txt][b.txt]");
}

TEST_CASE("the launcher of a release starts the program that fits the processor", "[release]") {
  const std::string avx2 = "fpu sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe";
  const std::string most = " avx512f avx512cd avx512dq avx512bw", avx512 = most + " avx512vl avx512_bf16";
  const struct {
    std::string flags, started;
  } cases[] = {{avx2, "v3"}, {avx2 + most, "v3"}, {avx2 + avx512, "v4"}, {avx512 + " " + avx2, "v4"}};
  const Folder f;
  std::ifstream file("dev/release/launcher.sh");
  std::string launcher((std::istreambuf_iterator<char>(file)), {});
  const std::string cpuinfo = "/proc/cpuinfo";
  REQUIRE(launcher.find(cpuinfo) != launcher.npos);
  write_script(f, "a b/train_gpt", launcher.replace(launcher.find(cpuinfo), cpuinfo.size(), "./cpuinfo"));
  for (const std::string kind : {"v3", "v4"})
    write_script(f, "a b/train_gpt-x86-64-" + kind, "#!/bin/sh\necho " + kind + " $# \"$2\" $TRAIN_GPT_COMMAND\n");
  fs::create_symlink("a b/train_gpt", f.path("train_gpt"));
  const std::string run = "cd '" + f.path("") + "' && env -i ./train_gpt train 'my text.txt' >out 2>&1";
  for (const auto& [flags, started] : cases) {
    INFO(flags);
    f.write("cpuinfo", "processor\t: 0\nflags\t\t: " + flags + "\nbugs\t\t: avx512vl\n");
    CHECK(status_of(run) == 0);
    CHECK(f.read("out") == started + " 2 my text.txt ./train_gpt\n");
  }
  f.write("cpuinfo", "flags\t\t: fpu sse2 avx avx2x bmi1 bmi2 f16c fma abm movbe\n");
  CHECK(status_of(run) == 1);
  CHECK(f.read("out").starts_with("train_gpt: this program needs a processor with AVX2"));
}

TEST_CASE("the changelog, git's tags and an archive's VERSION say the version", "[release]") {
  const Folder f;
  fs::create_directories(f.path("dev/release"));
  fs::copy_file("dev/release/version.sh", f.path("dev/release/version.sh"));
  f.write("dev/CHANGELOG.md", "# Changelog\n\n## 1.2.0, unreleased\n\n- new\n\n## 1.1.0\n");
  const std::string script = "'" + f.path("dev/release/version.sh") + "' ";
  const auto git = [&](const std::string& words) {
    return status_of("git -C '" + f.path(".") + "' -c user.name=a -c user.email=a@b.c " + words + " >/dev/null 2>&1");
  };
  CHECK(printed_by(script) == "1.2.0\n");
  f.write("VERSION", "1.2.0+abc\n");
  CHECK(printed_by(script) == "1.2.0+abc\n");
  CHECK(printed_by(script + "--number") == "1.2.0\n");
  if (git("init") != 0) return skip_test("no git");
  REQUIRE(git("add dev") == 0);
  REQUIRE(git("commit -m one") == 0);
  REQUIRE(git("tag v1.1.0") == 0);
  const std::string commit = printed_by(script);
  CHECK(commit.starts_with("1.2.0+"));
  CHECK(count_lines(commit) == 1);
  REQUIRE(git("tag v1.2.0") == 0);
  CHECK(printed_by(script) == "1.2.0\n");
  f.write("dev/CHANGELOG.md", "## 1.2.0\n");
  CHECK(printed_by(script).ends_with("-dirty\n"));
}

TEST_CASE("a release is cited by its version, and lists each library that it contains once", "[release]") {
  const std::string number = printed_by("dev/release/version.sh --number");
  std::ifstream file("dev/release/CITATION.cff");
  const std::string citation((std::istreambuf_iterator<char>(file)), {});
  CHECK(contains(citation, "\nversion: " + number));
  const auto bill = parse_json(printed_by("dev/release/libraries.sh sbom 1.2.3"));
  CHECK(bill.at("metadata").at("component").at("version") == "1.2.3");
  std::set<std::string> names;
  for (const auto& library : bill.at("components")) CHECK(names.insert(library.at("name")).second);
  CHECK((names.empty() || names.count("libpcre2-dev") == 1));  // empty without dpkg
}

TEST_CASE("suggested commands begin with the command that a launcher was called by", "[release][program]") {
  const Folder f;
  f.write("a.txt", std::string(2000, 'a'));
  const auto printed = [&](const std::string& words) {
    const std::string tiny = " --steps 1 --layers 1 --channels 8 --heads 1 --context 16 --force >";
    const std::string there = "cd '" + f.path("") + "' && ", command = program_path() + " " + words + tiny;
    REQUIRE(status_of(there + command + "out 2>&1") == 0);
    REQUIRE(status_of(there + "TRAIN_GPT_COMMAND=launch " + command + "launched 2>&1") == 0);
    return std::pair(f.read("out"), f.read("launched"));
  };
  CHECK(contains(printed("train a.txt --out r").second, "\n  launch sample r"));
  const auto [compiled, installed] = printed("compare a.txt --out c --grid seed=1,2");
  CHECK(contains(compiled, "\nreport  make report RUN=c\n"));
  CHECK(contains(installed, "\ntables  c/summary.csv\n"));
  CHECK_FALSE(contains(installed, "make report"));  // nothing is compiled there
}
