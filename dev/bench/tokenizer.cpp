// Byte-pair encoding: encoding with GPT-2's ranks against tiktoken, and training against Hugging Face's tokenizers and
// rustbpe. The text and GPT-2's files are not part of the project; they are below $SHARED or ../shared.

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "data/files/files.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/files/bpe_files.hpp"

#include "bench.hpp"

namespace {

constexpr int kVocabulary = 4096;

// The path of data/NAME there, or "" if there is none.
std::string shared_file(const std::string& name) {
  const char* folder = std::getenv("SHARED");
  const std::string path = std::string(folder ? folder : "../shared") + "/data/" + name;
  return std::filesystem::exists(path) ? std::filesystem::absolute(path).string() : "";
}

struct Rival {
  const char *name, *request;
};

// Times our work against the rivals that are installed, as one row.
void race(Bench& bench, const std::string& what, std::function<void()> work, const std::vector<Rival>& rivals,
          const std::string& files, double bytes) {
  std::vector<Contestant> contestants = {bench.clock.ours(std::move(work))};
  if (bench.clock.peer.present())
    for (const Rival& rival : rivals) contestants.push_back(bench.clock.theirs(rival.request + files));
  const std::vector<Times> times = bench.clock.race(contestants);
  bench.clock.peer.forget();
  Json row = {{"of", what}, {"seconds", times[0].seconds()}, {"speed", bytes / times[0].seconds() / 1e6}};
  for (size_t i = 1; i < times.size(); ++i) {
    if (!times[i].known()) continue;
    const std::string name = rivals[i - 1].name;
    row[name] = bytes / times[i].seconds() / 1e6;
    row["/ " + name] = speedup(times[0], times[i]);
  }
  bench.report.row(row);
}

}  // namespace

void bench_tokenizers(Bench& all) {
  Bench bench = all;
  bench.clock.rounds = std::min(bench.clock.rounds, 5);
  const std::string path = shared_file("tinyshakespeare.txt"), encoder = shared_file("gpt2/encoder.json"),
                    vocab = shared_file("gpt2/vocab.bpe");
  if (path.empty()) return bench.report.say("tokenizer: left out, no data/tinyshakespeare.txt in $SHARED or ../shared");
  const std::string text = read_file(path);
  std::string large;
  for (int i = 0; i < (bench.quick ? 1 : 8); ++i) large += text;
  bench.report.table("tokenizer", "Byte-pair encoding of tiny Shakespeare, in MB of text per second",
                     {{"of", "", 28, kText}, {"speed", "ours", 6, 1}, {"tiktoken", "tiktoken", 8, 1},
                      {"/ tiktoken", "ours / it", 9, 2}, {"tokenizers", "tokenizers", 10, 1},
                      {"/ tokenizers", "ours / it", 9, 2}, {"rustbpe", "rustbpe", 7, 1},
                      {"/ rustbpe", "ours / it", 9, 2}});
  const double bytes = static_cast<double>(text.size()), repeats = static_cast<double>(large.size()) / bytes;
  if (encoder.empty() || vocab.empty()) {
    bench.report.say("  encoding: left out, no data/gpt2/encoder.json and vocab.bpe in $SHARED or ../shared");
  } else {
    const Bpe gpt2 = read_bpe(encoder);
    race(bench, "encoding with GPT-2's ranks", [&] { gpt2.encode(large); }, {{"tiktoken", "encode"}},
         " text=" + path + " repeats=" + std::to_string(static_cast<int>(repeats)) + " encoder=" + encoder +
             " merges=" + vocab,
         bytes * repeats);
  }
  race(bench, "training of " + std::to_string(kVocabulary) + " tokens", [&] { train_bpe(text, kVocabulary); },
       {{"tokenizers", "train_tokenizer by=tokenizers"}, {"rustbpe", "train_tokenizer by=rustbpe"}},
       " text=" + path + " vocabulary=" + std::to_string(kVocabulary), bytes);
}
