// Names, commands and listings in the pages are right. Each check first runs on made-up pages with known faults,
// then on the pages of the project. test_worked_*.cpp check the worked numbers, python_ref/check_markdown.py
// everything else.

#include <sys/wait.h>

#include <cstdlib>

#include "catch.hpp"
#include "pages.hpp"
#include "program.hpp"

using namespace pages;

namespace {

std::vector<Page> all_pages() {
  std::vector<Page> all;
  for (const auto& [path, text] : read_tree().files) {
    const bool beside_code = path.starts_with("layers/") || path.starts_with("data/");
    if (path == "README.md" || (beside_code && path.ends_with(".md")) || path.ends_with("/README.md"))
      all.push_back(parse_page(path, text));
  }
  return all;
}

// A made-up tree, and a page in its layers/.
const Tree& small() {
  static const Tree made_up = tree_of({
      {"Makefile",
       "STUDY ?=\ntrain:  ## train\n\tbuild/train_gpt $(ARGS)\ntest:\nladders:\nstudy:\nexercise:\n\t$(LAYER)\n"},
      {"dev/bench/bench.mk", "bench: x\n\t$(ARGS) $(DATA)\n"},
      {"README.md", "# Top\n## Two words\n## Two words\n"},
      {"layers/norm/norm.hpp", "struct Norm { float eps; };\nvoid norm_forward(float* y);  // only_said\n"},
      {"layers/textbook/norm.hpp", "namespace textbook {\nvoid row_forward(int N);\n}\n"},
      {"dev/bench/norm.cpp", "flag(\"--quick\"); open(\"bench.json\");\n"},
      {"dev/ladder/gemm.cpp", ""},
      {"dev/studies/warmup/study.py", ""},
      {"dev/exercise/exercises.txt", "# name | level\nnorm | * | layers/norm/norm.hpp\n"},
      {"test/layers/norm/test_norm.cpp", "TEST_CASE(\"a norm is right\", \"[norm]\") {}\n"},
      {"test/reference/norm/one.x.npy", ""},
  });
  return made_up;
}

Page page_of(const std::string& text) { return parse_page("layers/norm/norm.md", text); }

// CHECKs that `check` returns one complaint for each text in `wrong` and none for those in `right`.
template <class Check>
void check_finds(Check check, const std::vector<std::string>& wrong, const std::vector<std::string>& right) {
  for (const std::string& text : wrong) {
    INFO(text);
    CHECK(check(page_of(text)).size() == 1);
  }
  for (const std::string& text : right) {
    INFO(text);
    CHECK(check(page_of(text)) == Complaints{});
  }
}

void check_all(const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints) {
    INFO(complaint);
    CHECK(complaint.empty());
  }
}

}  // namespace

TEST_CASE("names in backticks exist", "[pages]") {
  const auto check = [](const Page& page) { return wrong_names(page, small()); };
  check_finds(
      check,
      {"`layers/norm/norm.cpp`", "`textbook/linear.hpp`", "`layers/nothing`", "`test/reference/*.json`",
       "`report.json`", "`norm_backward`", "`only_said`", "`textbook::norm_forward`", "`Norm::gain`",
       "`eps()`", "`norm_forward\nnothing`", "`make nothing`", "`make study STUDY=depth`",
       "`make bench ARGS=gemm`", "`make bench ARGS=--slow`", "`make ladders ARGS='norm 768'`",
       "`make train NOTHING=1`", "`make test ARGS='[gain]'`", "`make exercise LAYER=gain`",
       "`make train ARGS='--stepz 9'`", "`make train ARGS='--norm bart'`", "`--nothing`", "`--norm bart`",
       "`--qk-norm head|none|half`", "`--placement post --no-biaz`", "`build/train_gpt train --steps nine`",
       "`train_gpt run`", "`train_gpt train --preset NAME --sizes S`",
       "`time -v build/train_gpt sample --steps 9`"},
      {"`layers/norm/norm.hpp`", "`norm.hpp`", "`textbook/norm.hpp`", "`layers/`", "`test/reference/*.npy`",
       "`bench.json`", "`<layer>/<case>.x.npy`", "`layers/textbook/NAME.hpp`", "`norm_forward`",
       "`norm_forward()`", "`textbook::row_forward`", "`Norm::eps`", "`row_forward(y, N)`", "`x`", "`dγ`",
       "`1e-5`", "`make`", "`make bench`", "`make bench ARGS='norm --quick'`",
       "`make ladders ARGS='gemm 768 128'`", "`make study STUDY=warmup`", "`make test ARGS='[norm]'`",
       "`make exercise LAYER=norm`", "`make train ARGS='--steps 9 --norm batchnorm'`", "`--norm`",
       "`--norm batchnorm`", "`--qk-norm head|full`", "`--window W`", "`--beta2`", "`--no-bias`", "`--quick`",
       "`--placement post --norm-eps`", "`train_gpt`", "`train_gpt info --preset NAME`",
       "`build/train_gpt train --data my.txt --steps 9`", "`train_gpt COMMAND --help`",
       "```\n`nothing_of_ours`\n```"});
  for (const Page& page : all_pages()) check_all(wrong_names(page, read_tree()));
}

TEST_CASE("commands in code blocks are valid", "[pages]") {
  const auto check = [](const Page& page) { return wrong_commands(page, small()); };
  check_finds(check,
              {"```\nmake nothing\n```", "```\nmake test ARGS='[norm],[nothing]'\n```",
               "```sh\n$ make trains\n...\n```",
               "```\nbuild/train_gpt train --steps 9 \\\n  --norm bart\n```",
               "1. Run\n\n   ```\n   x\n```\n\n```\nbuild/train_gpt trian\n```"},
              {"```\nmake train   # and nothing more\nmakes sense\n```", "```\nmake test ARGS='[norm],[norm]'\n```",
               "```\nbuild/train_gpt train --steps 9 | tail\n```", "```cpp\nmake nothing\n```", "make nothing"});
  for (const Page& page : all_pages()) check_all(wrong_commands(page, read_tree()));
}

// ---- dev/pages.sh ------------------------------------------------------------------------------------------

namespace {

struct Script {
  Folder folder;
  int status = 0;
  std::string said;

  // The page after the script has run.
  std::string filled(const std::string& page) {
    folder.write("page.md", page);
    run("");
    return folder.read("page.md");
  }
  void run(const std::string& option) {
    const std::string words =
        "dev/pages.sh " + option + " " + folder.path("page.md") + " >" + folder.path("said") + " 2>&1";
    status = WEXITSTATUS(std::system(words.c_str()));
    said = folder.read("said");
  }
  std::string piece(const std::string& file, const std::string& text) {
    folder.write("code.cpp", file);
    const std::string mark = "<!-- excerpt: " + folder.path("code.cpp") + " " + text + " -->\n```cpp\n";
    const std::string page = filled("# T\n" + mark + "old\n```\nend\n");
    const size_t begin = page.find(mark) + mark.size();
    CHECK(page.ends_with("```\nend\n"));
    return page.substr(begin, page.size() - 8 - begin);
  }
};

}  // namespace

TEST_CASE("make pages fills in a whole file, and --check detects that it has changed", "[pages]") {
  Script script;
  script.folder.write("code.hpp", "one\n  two\n\nthree\n");
  const std::string mark = "<!-- listing: " + script.folder.path("code.hpp") + " -->\n";
  const std::string want = "# T\n" + mark + "```cpp\none\n  two\n\nthree\n```\nend\n";
  CHECK(script.filled("# T\n" + mark + "```cpp\n(make pages)\n```\nend\n") == want);
  CHECK(script.status == 0);
  script.run("--check");
  CHECK(script.status == 0);
  CHECK(script.said == "");
  script.folder.write("code.hpp", "one\n  2\n\nthree\n");
  script.run("--check");
  CHECK(script.status == 1);
  CHECK(script.said.find("`make pages`") != script.said.npos);
  CHECK(script.folder.read("page.md") == want);
}

TEST_CASE("make pages fills in a section of a file", "[pages]") {
  Script script;
  script.folder.write("code.hpp",
                      "#pragma once\n\nnamespace n {\n\n// ---- a ----\n\none\n\ntwo\n\n"
                      "// ---- a b ----\n\nthree\n\n}  // namespace n\n");
  for (const auto& [section, text] : {std::pair{"a", "one\n\ntwo\n"}, {"a b", "three\n"}}) {
    const std::string mark = "<!-- listing: " + script.folder.path("code.hpp") + " " + section + " -->\n```cpp\n";
    CHECK(script.filled(mark + "old\n```\n") == mark + text + "```\n");
  }
}

TEST_CASE("make pages extracts a function, a row or a statement from a file", "[pages]") {
  Script script;
  CHECK(script.piece("a\n\n// b\n\n// c\ntemplate <class T>\nT f(T x,\n  T y) {\n  if (x) {\n  }\n}\nvoid g() {\n}\n",
                     "T f(") == "// c\ntemplate <class T>\nT f(T x,\n  T y) {\n  if (x) {\n  }\n}\n");
  CHECK(script.piece("struct S {\n  int x;\n};\nint y;\n", "struct S") == "struct S {\n  int x;\n};\n");
  CHECK(script.piece("int x = 3;  // three\nint y;\n}\n", "int x") == "int x = 3;  // three\n");
  CHECK(script.piece("  {\"a\", 1},\n  {\"b\",\n   {2}, f()},  // b's\n  {\"c\"}};\n", "{\"b\"") ==
        "  {\"b\",\n   {2}, f()},  // b's\n");
  CHECK(script.piece("f() {\n  // note\n  x = f(1,\n        2);\n  y = 3;\n}\n", "x = ") ==
        "  x = f(1,\n        2);\n");
}

TEST_CASE("make pages leaves a page alone if it cannot fill in a listing", "[pages]") {
  Script script;
  script.folder.write("code.hpp", "one\n");
  const std::string file = script.folder.path("code.hpp");
  for (const std::string& page :
       {"<!-- listing: " + file + " -->\n\n```cpp\n```\n", "<!-- listing: " + file + " -->\n```cpp\nx\n",
        "<!-- listing: " + file + "x -->\n```cpp\n```\n", "<!-- excerpt: " + file + " -->\n```cpp\n```\n",
        "<!-- excerpt: " + file + " two -->\n```cpp\n```\n", "<!-- excerpt: " + file + " one -->\n```cpp\n```\n",
        "<!-- listing: " + file + " two -->\n```cpp\n```\n", "<!-- listing: " + file + " -->\n"}) {
    INFO(page);
    CHECK(script.filled(page) == page);
    CHECK(script.status != 0);
    CHECK(script.said.find("page.md:") != script.said.npos);
  }
}

TEST_CASE("pages show the current code", "[pages]") {
  INFO("`make pages` brings them up to date");
  CHECK(std::system("dev/pages.sh --check") == 0);
}
