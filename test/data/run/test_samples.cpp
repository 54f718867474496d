// samples.txt of a run.

#include "catch.hpp"
#include "program.hpp"

TEST_CASE("a run keeps its samples with their steps, and --force starts a new file", "[samples]") {
  const Folder folder;
  folder.write("text.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  const std::string words =
      "train --data text.txt --layers 1 --channels 8 --heads 1 --context 16 --steps 5 --sample-every 2 --out run";
  for (const char* again : {"", " --force"}) {
    REQUIRE(folder.run(words + again).status == 0);
    const std::string kept = folder.read("run/samples.txt");
    size_t at = 0;
    for (const char* header : {"==== step 2 ====\n", "==== step 4 ====\n", "==== step 5 ====\n"}) {
      at = kept.find(header, at);
      REQUIRE(at != std::string::npos);
    }
    REQUIRE(kept.find("==== step 2 ====", kept.find("==== step 4 ====")) == std::string::npos);
  }
}
