// Training with --textbook.

#include "check.hpp"
#include "small_run.hpp"
#include "table.hpp"

namespace {

// The largest relative difference between two numbers of the same index.
double largest_difference(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::fabs(got[i] / want[i] - 1));
  return largest;
}

}  // namespace

TEST_CASE("--textbook has the same training curve", "[program][textbook]") {
  const Corpus f;
  const std::pair<std::string, std::string> models[] = {
      {"gpt2", "--lr 0.01 --warmup 2"},
      {"llama deepnorm", "--preset llama2 --placement deepnorm --kv-heads 1 --lr 0.003"},
      {"batchnorm dropout", "--norm batchnorm --dropout 0.1 --accumulate 2"}};
  for (const auto& [name, wiring] : models) {
    const std::string words = "train --data stories.txt --steps 20 " + wiring + kSmall + "--force ";
    REQUIRE(f.run(words + "--out fast").status == 0);
    const Outcome slow = f.run(words + "--out slow --textbook");
    INFO(slow.err);
    REQUIRE(slow.status == 0);
    CHECK(contains(slow.out, "the textbook takes the steps"));
    const Table fast(f.read("fast/metrics.csv")), book(f.read("slow/metrics.csv"));
    REQUIRE(fast.numbers("train_loss").size() == 20);
    REQUIRE(fast.numbers("val_loss").size() == 4);
    for (const char* column : {"train_loss", "val_loss", "grad_norm"})
      check_error("textbook program/" + name + "/" + column,
                  largest_difference(book.numbers(column), fast.numbers(column)), 2e-6);
    // The weights differ: otherwise --textbook did nothing.
    CHECK_FALSE(same_bits(last_weights(f, "fast"), last_weights(f, "slow")));
  }
}

TEST_CASE("a run with --textbook resumes with the same bits, and only with --textbook", "[program][textbook]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --schedule constant --warmup 0 --norm batchnorm --dropout 0.1 --textbook" + kSmall +
      "--eval-every 0 ";
  REQUIRE(f.run(words + "--steps 8 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 3 --out parts").status == 0);
  REQUIRE(f.run("train --out parts --resume --steps 8 --threads 1 --quiet").status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")) == losses_in(f.read("parts/metrics.csv")));
  CHECK(same_bits(last_weights(f, "whole"), last_weights(f, "parts")));
  CHECK(contains(f.run("train --out parts --resume --steps 9 --no-textbook").err,
                 "--textbook is true there and false here"));
  CHECK(contains(f.run("train --out parts --resume --steps 9 --diagnostics 1").err, "leave --diagnostics out"));
}

TEST_CASE("--textbook stops if numbers are not finite, and works in compare", "[program][textbook]") {
  const Corpus f;
  const Outcome diverged = f.run(
      "train --data stories.txt --textbook --placement none --lr 1e6 --warmup 0 --clip 0 --steps 50 --out r" + kSmall);
  CHECK(diverged.status == 3);
  CHECK(contains(diverged.err, "is not finite; the first tensor with a NaN or an infinity is "));
  CHECK_FALSE(contains(diverged.err, "is none"));
  const Outcome compared = f.run("compare --data stories.txt --steps 3 --out c --grid textbook=true,false" + kSmall);
  INFO(compared.err);
  CHECK(compared.status == 0);
  CHECK(count_lines(f.read("c/summary.csv")) == 3);
}

TEST_CASE("options that --textbook does not support are refused in one line", "[program][textbook]") {
  const Corpus f;
  for (const char* option : {"--diagnostics 5", "--matmul bf16", "--recompute"}) {
    const Outcome o = f.run(std::string("train --data stories.txt --textbook ") + option);
    INFO(o.err);
    CHECK(o.status == 1);
    CHECK(count_lines(o.err) == 1);
    CHECK(
        contains(o.err, std::string("leave ") + std::string(option).substr(0, std::string(option).find(' ')) + " out"));
    CHECK(!f.has("runs"));
  }
}
