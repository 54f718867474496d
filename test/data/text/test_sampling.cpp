// How training windows are drawn: --sampling and --epochs.

#include <cmath>
#include <map>
#include <set>

#include "data/text/dataset.hpp"
#include "data/run/evaluate.hpp"
#include "catch.hpp"
#include "check.hpp"
#include "small_run.hpp"
#include "table.hpp"

namespace {

Dataset shuffled(const std::string& path, int context) {
  TextOptions options;
  options.data = {path};
  options.sampling = Draws::shuffle;
  return load_dataset(options, nullptr, context);
}

}  // namespace

TEST_CASE("permuted is a permutation that depends only on its key", "[sampling]") {
  for (const uint64_t n : {1u, 2u, 3u, 17u, 1000u, 4096u, 4097u}) {
    std::set<uint64_t> seen;
    size_t fixed = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = permuted(i, n, 5);
      REQUIRE(to < n);
      seen.insert(to);
      fixed += to == i;
    }
    CHECK(seen.size() == n);
    CHECK((n < 17 || fixed < 10));  // the expected number is 1
  }
  size_t same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += permuted(i, 1000, 5) == permuted(i, 1000, 6);
  CHECK(same < 10);
}

TEST_CASE("random windows depend on seed, step and row, and stay in the training split", "[sampling]") {
  Dataset data;
  data.tokens.append(std::vector<uint16_t>(100000)), data.train = 50000;
  std::set<size_t> starts;
  for (uint64_t seed = 0; seed < 3; ++seed)
    for (uint64_t step = 0; step < 3; ++step)
      for (uint64_t row = 0; row < 10; ++row) {
        const size_t start = draw_row(data, 8, {seed, step, 10}, row).at(0).start;
        CHECK(start + 8 < data.train);
        starts.insert(start);
      }
  CHECK(starts.size() > 80);  // out of 90
}

TEST_CASE("the unigram loss is that of the training split, with a chance for unseen characters", "[sampling]") {
  Dataset data;
  data.tokens.append(std::vector<uint16_t>{'a', 'a', 'a', 'b', 'X', 'Y'});
  data.train = 4;
  data.val.add({3, 2, 2});
  measure_validation(data);
  CHECK(data.unigram_nats == Approx(std::log(260.)));  // the training split has neither X nor Y
  CHECK(data.val_bytes == 2);
  CHECK(data.bits_per_byte(std::log(2.)) == Approx(1));
}

TEST_CASE("every shuffled window occurs once per epoch, in another order each time", "[sampling]") {
  const Folder f;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i % 23);
  f.write("text.txt", text);
  const int T = 10;
  const Dataset data = shuffled(f.path("text.txt"), T);
  REQUIRE(data.train == 2700);
  REQUIRE(data.rows.size() == 270);  // the last one has one target less
  std::vector<std::vector<size_t>> epochs(2);
  for (uint64_t i = 0; i < 540; ++i) epochs[i / 270].push_back(draw_row(data, T, {7, i / 6, 6}, i % 6).at(0).start);
  for (const auto& starts : epochs) {
    const std::set<size_t> once(starts.begin(), starts.end());
    CHECK(once.size() == 270);
    CHECK(*once.rbegin() == 2690);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(steps_of_epochs(data, T, 6, 2) == 90);
  CHECK(steps_of_epochs(data, T, 7, 1) == 39);
}

TEST_CASE("training and validation loss of documents are the same average", "[sampling]") {
  const Corpus f;
  const std::string packing = GENERATE("padded", "documents");
  REQUIRE(f.run("train --data stories.txt --out r --packing " + packing +
                " --epochs 1 --lr 0 --layers 1 --heads 2 --channels 16 --batch 2 --accumulate 3 --eval-every 0 --quiet")
              .status == 0);
  const TrainedModel trained = load_trained_model(f.path("r/checkpoint.safetensors"));
  const int T = trained.model.config.context;
  TextOptions options;
  options.data = {f.path("stories.txt")};
  options.packing = packing == "padded" ? Packing::padded : Packing::documents;
  Dataset data = load_dataset(options, nullptr, T);
  const Table metrics(f.read("r/metrics.csv"));
  const std::vector<double> tokens = metrics.numbers("tokens"), loss = metrics.numbers("train_loss");
  REQUIRE(tokens.size() == (data.rows.size() + 5) / 6);
  // The last step fills its batch from the next epoch, so it is left out.
  double nats = 0;
  const size_t whole = data.rows.size() / 6;
  for (size_t i = 0; i < whole; ++i) nats += loss[i] * (tokens[i] - (i > 0 ? tokens[i - 1] : 0));
  data.val = {};
  for (uint64_t i = 0; i < whole * 6; ++i) data.val.add(draw_row(data, T, {1, i / 6, 6}, i % 6));
  CHECK(tokens[whole - 1] == double(data.val_targets()));
  const Activations activations = allocate_activations(trained.model.config, 4, T, false);
  CHECK(std::abs(nats / tokens[whole - 1] - evaluate(trained.model, activations, data, 4, 0)) < 1e-6);
}

TEST_CASE("micro-batches of stories of unequal length equal one batch", "[sampling]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --steps 4 --eval-every 0 --layers 2 --heads 2 "
                            "--channels 32 --quiet ";
  REQUIRE(f.run(words + "--batch 4 --out whole").status == 0);
  REQUIRE(f.run(words + "--batch 1 --accumulate 4 --out parts").status == 0);
  const auto whole = last_weights(f, "whole"), parts = last_weights(f, "parts");
  check_close("sampling/micro-batches/weights", parts, widen(whole), 1e-6);
}

TEST_CASE("a shuffled run resumes with the same bits", "[sampling]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --sampling shuffle --schedule constant" + kSmall;
  REQUIRE(f.run(words + "--steps 12 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 7 --out r").status == 0);
  REQUIRE(f.run("train --out r --resume --steps 12 --quiet").status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")).back() == losses_in(f.read("r/metrics.csv")).back());
  CHECK(same_bits(last_weights(f, "whole"), last_weights(f, "r")));
  CHECK(contains(f.run("train --out r --resume --sampling random").err,
                 "--sampling is \"shuffle\" there and \"random\" here"));
}

TEST_CASE("--epochs sets the number of steps", "[sampling]") {
  const Corpus f;
  f.write("recipe.toml", "steps = 5\n");
  const std::string words = "train --data stories.txt --dry-run" + kSmall;
  // 54,000 bytes in windows of 32, 4 in a batch.
  CHECK(contains(f.run(words + "--epochs 2").out, "steps    842 of 128 tokens"));
  CHECK(contains(f.run(words + "--config recipe.toml --epochs 2").out, "steps    842 of"));
  check_refused(f, words + "--epochs 2 --steps 7", "--steps and --epochs both say how long to train: leave one out");
  REQUIRE(f.run("train --data stories.txt --steps 3 --out r" + kSmall).status == 0);
  CHECK(contains(f.run("train --out r --resume --epochs 0.01 --dry-run").out, "steps    5 of"));
}
