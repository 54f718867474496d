// Adapters in the layout of peft: on which base they are read, what is refused, and how they go back. check_formats.py
// compares them with peft itself.

#include <cmath>
#include <filesystem>

#include "catch.hpp"
#include "data/files/json.hpp"
#include "small_run.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kTrain = " --warmup 0 --quiet --threads 1 --eval-every 0 --steps ";

// A base, a run with adapters on it, and its adapters.
struct Adapted : Corpus {
  Adapted() {
    must("train stories.txt --preset llama2 --steps 2 --out base" + kTiny);
    must("export base --to hf --dtype bf16 --out hf");
    must("train stories.txt --init-from hf --lora 2 --lora-alpha 3 --lora-on q,v,down --lr 0.1 --out tuned" +
                    kTrain + "2");
    must("export tuned --to hf --out adapters");
  }
  std::string logits(const std::string& model) const {
    must("eval " + model + " --data stories.txt --batch 2 --logits logits.npy --force");
    return read("logits.npy");
  }
  std::string tensors(const std::string& folder) const { return read(folder + "/adapter_model.safetensors"); }
  json settings(const std::string& folder = "adapters") const {
    return parse_json(read(folder + "/adapter_config.json"));
  }
  void write_settings(const json& file) const { write("adapters/adapter_config.json", to_text(file)); }
};

}  // namespace

TEST_CASE("adapters of peft are read as the run that wrote them, and go back", "[lora][peft][program]") {
  const Adapted f;
  CHECK(f.settings().at("base_model_name_or_path") == f.path("hf"));
  CHECK(f.logits("adapters") == f.logits("tuned"));
  CHECK(f.logits("adapters") != f.logits("hf"));
  CHECK(f.run("sample adapters --length 5").status == 0);
  CHECK(contains(f.tensors("adapters"), R"("dtype":"F32")"));  // although the base is in bf16
  f.must("export adapters --to hf --out again");
  CHECK(f.tensors("again") == f.tensors("adapters"));
  CHECK(f.settings("again") == f.settings());
  f.must("export tuned --to hf --lora-merge --out merged");
  f.must("export adapters --to hf --lora-merge --out merged-too");
  CHECK(f.read("merged-too/model.safetensors") == f.read("merged/model.safetensors"));

  json file = f.settings();
  file["use_rslora"] = true;  // scales by alpha / sqrt(r)
  f.write_settings(file);
  CHECK(read_checkpoint_header(f.path("adapters")).options.config.lora_alpha == 3 * std::sqrt(2.f));
}

TEST_CASE("training goes on with adapters of peft, or with the whole model", "[lora][peft][program]") {
  const Adapted f;
  const std::string tune = "train stories.txt --init-from adapters" + kTrain + "1 ";
  f.must(tune + "--lr 0 --out more");
  CHECK(last_weights(f, "more") == last_weights(f, "tuned"));
  f.must(tune + "--lr 0.1 --out trained");
  f.must("export trained --to hf --out back");
  CHECK(f.tensors("back") != f.tensors("adapters"));
  CHECK(f.settings("back") == f.settings());
  f.must(tune + "--lora 0 --lr 0 --out whole");
  CHECK(read_checkpoint_header(f.path("whole/checkpoint.safetensors")).options.config.lora_rank == 0);
  f.must("export tuned --to hf --dtype f32 --lora-merge --out merged");
  CHECK(f.logits("whole") == f.logits("merged"));
  check_refused(f, tune + "--lora 3 --out x", "does not fit this model: expected block.0.attention.q.lora_a (3, 8)");
}

TEST_CASE("adapters of peft need their base, which import may name", "[lora][peft][program]") {
  const Adapted f;
  const std::string want = f.logits("adapters");
  fs::rename(f.path("hf"), f.path("elsewhere"));
  check_refused(f, "eval adapters --data stories.txt",
                ", which is no folder of a model here: train_gpt import adapters --base FOLDER --out RUN");
  f.must("import adapters --base elsewhere --out in");
  CHECK(f.logits("in") == want);
  f.must("export in --to hf --out back");
  CHECK(f.tensors("back") == f.tensors("adapters"));
  CHECK(f.settings("back").at("base_model_name_or_path") == f.path("elsewhere"));

  json file = f.settings();
  file["base_model_name_or_path"] = nullptr;
  f.write_settings(file);
  check_refused(f, "sample adapters", "adapters adapts a model that it does not name: train_gpt import adapters");
  fs::copy(f.path("elsewhere/config.json"), f.path("adapters"));
  fs::copy(f.path("elsewhere/model.safetensors"), f.path("adapters"));
  fs::copy(f.path("elsewhere/tokenizer.json"), f.path("adapters"));
  CHECK(f.logits("adapters") == want);  // the base is in the same folder

  check_refused(f, "import adapters --base stories.txt --out x", "stories.txt is no folder of a model of transformers");
  check_refused(f, "import back --base adapters --out x", "adapters holds adapters itself");
  check_refused(f, "import elsewhere --base elsewhere --out x", "--base is for a folder with adapters");
  f.must("train stories.txt --preset llama2 --steps 1 --out deep" + kTiny + "--layers 2");
  f.must("export deep --to hf --out deep-hf");
  check_refused(f, "import back --base deep-hf --out x", "back/adapter_model.safetensors lacks the tensor 'base");
}

TEST_CASE("adapters alone are exported only if nothing else of the model has changed", "[lora][peft][program]") {
  const Adapted f;
  const std::string tune = "train stories.txt --init-from hf --lora 2" + kTrain + "1 --out other --force ";
  for (const std::string option : {"--norm-eps 0.1", "--rope-theta 500", "--placement post", "--logit-scale 2"}) {
    f.must(tune + option);
    check_refused(f, "export other --to hf --out x", "these adapters need a model with " + option + " instead of ");
    f.must("export other --to hf --lora-merge --force --out merged");
  }
  f.must("train stories.txt --init-from other --lora 2" + kTrain + "1 --out more");
  check_refused(f, "export more --to hf --out x", "these adapters need a model with --logit-scale 2 instead of ");
  f.must(tune + "--context 12 --lora-dropout 0.1");
  f.must("export other --to hf --out x");
  f.must("train stories.txt --branch-warmup branchnorm --branch-warmup-steps 2 --steps 3 --out grown" + kTiny);
  f.must("train stories.txt --init-from grown --lora 2" + kTrain + "1 --out other --force");
  f.must("export other --to hf --force --out x");
  f.must("train stories.txt --norm batchnorm --steps 2 --out batches" + kTiny);
  f.must("train stories.txt --init-from batches --lora 2" + kTrain + "1 --out other --force");
  check_refused(f, "export other --to hf --out y", "training has changed BatchNorm's running statistics, too");
  f.must("train stories.txt --lora 2 --steps 1 --out alone" + kTiny);
  check_refused(f, "export alone --to hf --out y", "these adapters were trained on random weights");
  fs::remove_all(f.path("hf"));
  const Outcome moved = f.run("export tuned --to hf --out y");
  CHECK(moved.status == 0);
  CHECK(contains(moved.err, "NOTE: export cannot check that only adapters differ from " + f.path("hf") + ": "));
}

TEST_CASE("what train_gpt's adapters cannot compute is refused by its key", "[lora][peft][program]") {
  const Adapted f;
  const json good = f.settings();
  const auto refused = [&](const json& more, const std::string& message) {
    json file = good;
    file.update(more);
    f.write_settings(file);
    check_refused(f, "eval adapters --data stories.txt", message);
  };
  const std::string plain = ", and train_gpt computes plain LoRA only";
  refused({{"peft_type", "IA3"}}, "adapters/adapter_config.json cannot be used: peft_type is \"IA3\"" + plain);
  refused({{"use_dora", true}}, "use_dora is true" + plain);
  refused({{"bias", "all"}}, "bias is \"all\"" + plain);
  refused({{"task_type", "SEQ_CLS"}}, "task_type is \"SEQ_CLS\"" + plain);
  refused({{"modules_to_save", {"lm_head"}}}, "modules_to_save is [\"lm_head\"]" + plain);
  refused({{"rank_pattern", {{"q_proj", 4}}}}, "rank_pattern is {\"q_proj\":4}" + plain);
  refused({{"layers_to_transform", {0}}}, "layers_to_transform is [0]" + plain);
  refused({{"init_lora_weights", "pissa"}}, "init_lora_weights is \"pissa\"" + plain);
  refused({{"a_new_key", 1}}, "a_new_key is 1" + plain);
  const std::string unused = ", whose adapters the file has: peft would not use them";
  const std::string first = good.at("target_modules").at(0).get<std::string>();
  refused({{"target_modules", {first}}}, "target_modules leaves out ");
  refused({{"target_modules", "nothing"}}, unused);
  refused({{"target_modules", "("}}, "target_modules is no regular expression");
  refused({{"exclude_modules", {first}}}, "exclude_modules leaves out ");
  refused({{"exclude_modules", ".*" + first}}, unused);
  for (const json& all : {json("all-linear"), json(".*"), json(nullptr)}) {
    json file = good;
    file["target_modules"] = all;
    f.write_settings(file);
    CHECK(f.run("eval adapters --data stories.txt").status == 0);
  }
  refused({{"r", 0}}, "r is no whole number from 1 to 4096");
  refused({{"lora_alpha", "x"}}, "lora_alpha is no number");
  refused({{"lora_alpha", 0}}, "--lora-alpha is 0: must be 0.000001");
  refused({{"r", 3}}, "does not fit the rank 3 and the base " + f.path("hf"));
  f.write_settings(good);
  std::string file = f.tensors("adapters");
  file.replace(file.find("v_proj"), 6, "x_proj");  // the name of lora_A
  f.write("adapters/adapter_model.safetensors", file);
  check_refused(f, "eval adapters --data stories.txt", "which --lora-on q,down has no adapter for");
  json more = good;  // what newer versions write, and plain LoRA ignores
  more.update({{"eva_config", nullptr}, {"use_bdlora", false}, {"alpha_pattern", json::object()}, {"revision", "x"}});
  f.write_settings(more);
  CHECK_FALSE(contains(f.run("eval adapters --data stories.txt").err, "cannot be used"));
}
