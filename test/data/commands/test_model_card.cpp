// The model card that export writes next to a model of Hugging Face.

#include "data/commands/export/model_card.hpp"

#include <filesystem>

#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"
#include "small_run.hpp"

namespace {

// The line that begins with `key`, without it; "" if there is none.
std::string value_of(const std::string& card, const std::string& key) {
  const size_t at = ("\n" + card).find("\n" + key);
  return at == card.npos ? "" : card.substr(at + key.size(), card.find('\n', at) - at - key.size());
}

// The command of a card, without the program's name.
std::string command_in(const std::string& card) {
  const std::string command = value_of(card, "train_gpt train");
  return "train" + command;
}

}  // namespace

TEST_CASE("a model card says what a run's files say", "[card][program]") {
  const Corpus f;
  std::filesystem::create_directory(f.path("texts"));
  std::filesystem::rename(f.path("stories.txt"), f.path("texts/my stories.txt"));
  f.write("run.toml", "data = [\"texts/my stories.txt\"]\n");
  f.must("train --config run.toml --steps 7 --lr 2e-3 --norm rmsnorm --placement sandwich --final-batches 0 --out run" +
         kSmall);
  f.must("export run/checkpoint.safetensors --out mine");
  const std::string card = f.read("mine/README.md");
  INFO(card);
  const MetricsRow row = row_of_step(f.path("run/metrics.csv"), 7);
  REQUIRE(row.step == 7);
  CHECK(card.starts_with("---\nlibrary_name: transformers\n"));
  CHECK(value_of(card, "base_model: ") == "");
  CHECK(contains(card, "\n- sandwich\n- rmsnorm\nmodel-index:\n- name: \"mine\"\n"));
  CHECK(value_of(card, "      name: ") == "\"my stories.txt\"");
  CHECK(value_of(card, "      value: ") == format("%.6g", row.val_loss_full));
  // Bits of the same loss, although the row's were measured on a few batches.
  CHECK(row.val_loss != row.val_loss_full);
  CHECK(contains(card, format("\n      value: %.6g\n", row.val_loss_full * (row.val_bpb / row.val_loss))));
  CHECK(contains(card, " bits/byte, on the whole validation split |"));
  CHECK(value_of(card, "| trained for | ") == "7 steps, " + format_count(double(row.tokens)) + " tokens |");
  CHECK(contains(card, "| program | train_gpt "));
  CHECK_FALSE(contains(card, "texts/"));  // cards are published
  CHECK(contains(card, "--lr 0.002 "));
  CHECK_FALSE(contains(card, "--kv-heads"));  // it follows from --heads

  // The command trains the same model.
  f.write("my", f.read("texts/my stories.txt"));
  std::string words = command_in(card);
  words.replace(words.find("'my stories.txt'"), 16, "my");
  f.must(words + " --quiet --out again");
  CHECK(last_weights(f, "again") == last_weights(f, "run"));
}

TEST_CASE("a model card knows what a bare checkpoint says", "[card][program]") {
  const Corpus f;
  f.must("train stories.txt --steps 6 --out run" + kSmall);
  std::filesystem::rename(f.path("run/checkpoint.safetensors"), f.path("alone.safetensors"));
  f.write("metrics.csv", "step,tokens\n6,7\n");  // of something else
  f.must("export alone.safetensors --out mine");
  const std::string card = f.read("mine/README.md");
  INFO(card);
  CHECK(value_of(card, "| trained for | ") == "6 steps |");
  CHECK(value_of(card, "      value: ") ==
        format("%.6g", read_checkpoint_header(f.path("alone.safetensors")).val_loss));
  CHECK_FALSE(contains(card, "bits"));
  CHECK(contains(card, " nats/token, as measured while it trained |"));
  CHECK(contains(card, "train_gpt train"));

  f.must("export mine --out converted");  // nobody trained it here
  const std::string converted = f.read("converted/README.md");
  CHECK(value_of(converted, "base_model: ") == "\"mine\"");
  CHECK_FALSE(contains(converted, "model-index"));
  CHECK_FALSE(contains(converted, "train_gpt train"));

  f.must("train stories.txt --init-from mine --steps 2 --out tuned --batch 2 --quiet --documents file");
  f.must("export tuned --out ours");
  CHECK(value_of(f.read("ours/README.md"), "base_model: ") == "\"mine\"");
}

TEST_CASE("a model card names the model of another program that its runs began with", "[card][program]") {
  const Corpus f;
  const std::string more = " --steps 1 --batch 2 --quiet --documents file";
  f.must("train stories.txt --steps 1 --out run" + kSmall);
  f.must("export run --out models--org--my--model/snapshots/0a1b");  // as in the cache of Hugging Face
  f.must("train stories.txt --init-from models--org--my--model/snapshots/0a1b --out first" + more);
  f.must("train stories.txt --init-from first --lora 2 --out second" + more);
  f.must("export second --out of-first");
  const std::string of_first = f.read("of-first/README.md");
  CHECK(value_of(of_first, "library_name: ") == "peft");
  CHECK(value_of(of_first, "| began as | ") == "org/my--model |");
  CHECK_FALSE(contains(of_first, "base_model: "));  // they fit the weights of `first` alone
  f.must("train stories.txt --init-from models--org--my--model/snapshots/0a1b --lora 2 --out adapted" + more);
  f.must("export adapted --out adapters");
  CHECK(value_of(f.read("adapters/README.md"), "base_model: ") == "\"org/my--model\"");
  f.must("export second --lora-merge --out merged");
  const std::string merged = f.read("merged/README.md");
  CHECK(value_of(merged, "library_name: ") == "transformers");
  CHECK(value_of(merged, "base_model: ") == "\"org/my--model\"");

  f.must("export run --to gguf --out mine.gguf");
  f.must("train stories.txt --init-from mine.gguf --out third" + more);
  f.must("export third --out from-gguf");
  const std::string from_gguf = f.read("from-gguf/README.md");
  CHECK_FALSE(contains(from_gguf, "base_model: "));  // hubs look for a repository of this name
  CHECK(value_of(from_gguf, "| began as | ") == "mine.gguf |");
}

TEST_CASE("export replaces its own model card and nobody else's", "[card][paths]") {
  const Corpus f;
  f.must("train stories.txt --tokenizer bpe:260 --bias --steps 1 --out run" + kTiny);
  f.must("export run --out mine");
  const std::string card = f.read("mine/README.md");
  f.must("export run --out mine --dtype bf16 --force");
  CHECK(f.read("mine/README.md") == card);
  f.must("export run --to llmc --out mine --force");
  CHECK_FALSE(f.has("mine/README.md"));
  const std::string edited = card.substr(0, card.rfind("<!--"));
  f.write("mine/README.md", edited);
  const Outcome o = f.run("export run --out mine --force");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "mine/README.md: kept"));
  CHECK(f.read("mine/README.md") == edited);
  f.write("run/config.toml", "layers = \"many\"\n");
  check_refused(f, "export run --out other", "run/config.toml");
  CHECK_FALSE(f.has("other"));
}
