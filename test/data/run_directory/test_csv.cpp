// metrics.csv and diagnostics.csv of a resumed run: readable rows stay, damaged rows are removed.

#include "catch.hpp"
#include "data/run_directory/metrics.hpp"
#include "small_run.hpp"

TEST_CASE("readable rows survive damage between them", "[csv]") {
  const Folder f;
  const auto rows = [&](const std::string& text, int64_t last, const std::vector<size_t>& dropped = {}) {
    f.write("x.csv", text);
    const CsvRows read = csv_up_to(f.path("x.csv"), {"step", "loss", "new"}, last, {}, true);
    CHECK(read.dropped == dropped);
    return read.text;
  };
  const std::string head = "step,loss,new\n";
  CHECK(rows("step,loss\n1,3.5\n2,\n3,3.25\n", 3) == head + "1,3.5,\n2,,\n3,3.25,\n");  // an earlier version's
  CHECK(rows(head + "1,3,\n\x1b[2J,2,\n3,1,\n4,x,\n5,1\n5,1,\n6,2,\n", 6, {3, 5, 6}) ==
        head + "1,3,\n3,1,\n5,1,\n6,2,\n");
  CHECK(rows(head + "1,3,\n2,4,\n2,5,\n1,3,\n3,1,\n", 9, {4, 5}) == head + "1,3,\n2,4,\n3,1,\n");  // two wrote at once
  CHECK(rows(head + "1,3,\n999999999999999999999,4,\n2,5,\n", 9, {3}) == head + "1,3,\n2,5,\n");
  CHECK(rows(head + "1,3,\n2,4,", 9) == head + "1,3,\n");  // torn
  CHECK(rows(head + "1,3,\n2,4,\n3,5,\n", 2) == head + "1,3,\n2,4,\n");
  CHECK(rows("stxx,lo\n1,3,\n", 9) == head + "1,3,\n");
  CHECK(rows("", 9) == head);
}

TEST_CASE("a resumed run keeps its metrics and says which rows it cannot read", "[program][csv]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 6 --diagnostics 2 --out r" + kTiny).status == 0);
  const std::string metrics = f.read("r/metrics.csv"), diagnostics = f.read("r/diagnostics.csv");
  const auto damaged = [](std::string text, const std::string& row) {
    return text.replace(text.find(row), row.size(), "\nrubbish\n");
  };
  const size_t third = metrics.find("\n3,");
  f.write("r/metrics.csv", damaged(metrics, metrics.substr(third, metrics.find("\n4,") + 1 - third)) + "7,22");
  f.write("r/diagnostics.csv",
          "step,layer,part,what,value\nrubbish\n" + diagnostics.substr(diagnostics.find('\n') + 1) + "7,0,str");
  const Outcome o = f.run("train --out r --resume --steps 8 --quiet");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.err, "r/metrics.csv: dropped 1 row that cannot be read (line 4)"));
  CHECK(contains(o.err, "r/diagnostics.csv: dropped 1 row that cannot be read (line 2)"));
  const std::vector<std::string> now = losses_in(f.read("r/metrics.csv")), then = losses_in(metrics);
  REQUIRE(now.size() == 8);
  CHECK(now[2] == then[2]);
  CHECK(now[3] == then[4]);
  CHECK(now[7].starts_with("8,"));
  CHECK(f.read("r/diagnostics.csv").starts_with(diagnostics));
}
