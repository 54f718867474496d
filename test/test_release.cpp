// Installing the program, and the launcher of a release.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "catch.hpp"
#include "data/options/completion.hpp"
#include "data/options/man_page.hpp"
#include "program.hpp"

namespace fs = std::filesystem;

namespace {

int status_of(const std::string& command) { return WEXITSTATUS(std::system(command.c_str())); }

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
