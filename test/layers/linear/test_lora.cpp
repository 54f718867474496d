// Low-rank adapters: training them, merging them, and the runs that hold them. test_textbook_model.cpp compares their
// gradients with the textbook's.

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "catch.hpp"
#include "check.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/huggingface/peft.hpp"
#include "data/formats/safetensors.hpp"
#include "data/run/step_inputs.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/presets.hpp"
#include "layers/training/step.hpp"
#include "small_run.hpp"

namespace {

constexpr int kB = 2, kT = 16, kV = 64;
constexpr const char* kEvery = "q,k,v,o,up,down";

Config adapted(const std::string& preset, const std::string& shared = "") {
  Config c = preset_config(preset, "nano");
  c.n_layer = 2, c.channels = 24, c.n_head = 2, c.kv_heads = 2, c.hidden = 40, c.context = kT, c.vocab_size = kV;
  c.lora_rank = 3, c.lora_on = kEvery, c.lora_shared = shared;
  return resolve(c);
}

// A model whose adapters do something.
Model filled(const Config& config) {
  Model model(config);
  initialize(model, 1);
  for (const TensorSpec& spec : model.table)
    if (spec.leaf() == "lora_b") {
      const std::vector<float> b = random_floats(spec.size(), spec.offset, 0, .1f);
      std::copy(b.begin(), b.end(), model.weights.get() + spec.offset);
    }
  return model;
}

std::vector<float> logits_of(const Model& model) {
  const std::vector<int> tokens = random_ints(kB * kT, 1, kV);
  std::vector<float> logits(size_t(kB) * kT * kV);
  const Activations activations = allocate_activations(model.config, kB, kT, false);
  batch_logits(logits.data(), model, activations, {tokens.data(), nullptr, kB, kT});
  return logits;
}

std::vector<std::string> adapter_names(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  std::vector<std::string> names;
  for (const TensorSpec& spec : layout.table())
    if (spec.role == Role::adapter && spec.layer == 0) names.push_back(spec.part);
  return names;
}

}  // namespace

TEST_CASE("adapters belong to the matrices that are named, or to joined ones", "[lora]") {
  Config c = adapted("llama2");
  c.lora_on = "v,down";
  const std::vector<std::string> names = {"attention.v.lora_a", "attention.v.lora_b", "ffn.down.lora_a",
                                          "ffn.down.lora_b"};
  CHECK(adapter_names(c) == names);
  c.lora_on = "v,gate", c.lora_shared = "qkv,gate_up";
  const std::vector<std::string> joined = {"attention.qkv.lora_a", "attention.qkv.lora_b", "ffn.gate_up.lora_a",
                                           "ffn.gate_up.lora_b"};
  CHECK(adapter_names(c) == joined);
  c.lora_rank = 0;
  CHECK(adapter_names(c).empty());
  const auto refusal = [&](const std::string& on) {
    Config other = adapted("gpt2");
    other.lora_on = on;
    return message_of<ConfigError>([&] { resolve(other); });
  };
  CHECK(contains(refusal("q,gate"), "names 'gate', which is no matrix of this model: choose from q,k,v,o,up,down"));
  CHECK(contains(refusal(""), "names no matrix"));
}

TEST_CASE("new adapters change nothing, and merged ones are the model", "[lora]") {
  for (const auto& [preset, shared] : {std::pair{"gpt2", "qkv"}, {"llama2", ""}, {"llama2", "qkv,gate_up"}}) {
    const Config config = adapted(preset, shared);
    Model plain(config.without_lora(), false), fresh(config);
    initialize(plain, 1), initialize(fresh, 1);
    CHECK(logits_of(plain) == logits_of(fresh));
    const Model model = filled(config);
    CHECK(logits_of(model) != logits_of(plain));
    const std::vector<float> got = logits_of(merged(filled(config)));
    check_close(std::string("merged adapters/") + preset, got, widen(logits_of(model)), 5e-6);
  }
}

TEST_CASE("adapters train models with several residual streams", "[lora][program]") {
  for (const char* placement : {"hyper", "hyper-static", "mhc", "mhc-read", "mhc-mean", "hyper-independent",
                                "gated-residual", "resi-dual", "siamese", "attnres", "attnres-normed"}) {
    Config config = adapted("gpt2");
    config.placement = placement;
    const Model model = filled(resolve(config));
    CHECK(joined_matrices(model.config, {}) == "");
    const std::vector<float> got = logits_of(merged(filled(model.config)));
    check_close(std::string("merged adapters/") + placement, got, widen(logits_of(model)), 5e-6);
  }
  const Corpus f;
  REQUIRE(f.run("train stories.txt --placement hyper --steps 2 --out base" + kTiny).status == 0);
  const Outcome tuned = f.run("train stories.txt --init-from base --lora 2 --steps 2 --quiet --out tuned");
  INFO(tuned.err);
  REQUIRE(tuned.status == 0);
  CHECK(f.run("eval tuned --data stories.txt").status == 0);
  check_refused(f, "export tuned --to hf --out x", "several residual streams (--placement hyper)");
  check_refused(f, "export tuned --to hf --lora-merge --out x", "several residual streams (--placement hyper)");
}

// GPT-NeoX stores q, k and v of a head together: (H, 3, D).
TEST_CASE("the rows of adapters go out and come in in the order of the class", "[lora]") {
  Config c = adapted("gpt-neox");
  REQUIRE(joined_matrices(c, {}) == "qkv");
  c.lora_shared = "qkv", c.lora_on = "q";
  const Model model = filled(c);
  const Folder f;
  write_adapters(f.path("."), {model, Tokenizer::bytes(), "x", "f32"});
  const StoredTensors tensors(f.path("adapter_model.safetensors"));
  const std::string name = "base_model.model.gpt_neox.layers.1.attention.query_key_value.lora_B.weight";
  const StoredTensor* stored = tensors.find(name);
  REQUIRE(stored != nullptr);
  std::vector<float> b(stored->size());
  tensors.read(b.data(), *stored);
  const size_t H = c.n_head, D = c.head_dim, r = c.lora_rank;
  const float* ours = model.p.blocks[1].attention.qkv.lora[0].b;
  for (size_t part = 0; part < 3; ++part)
    for (size_t h = 0; h < H; ++h)
      for (size_t i = 0; i < D * r; ++i) CHECK(b[((h * 3 + part) * D) * r + i] == ours[((part * H + h) * D) * r + i]);

  Model base(c.without_lora(), false);
  initialize(base, 2);
  std::filesystem::create_directory(f.path("base"));
  write_huggingface(f.path("base"), {base, Tokenizer::bytes(), "x", "f32"});
  const std::unique_ptr<ForeignModel> from = open_adapted(f.path("."), f.path("base"));
  Model back(from->config(), false);
  from->load(back);
  REQUIRE(back.table.size() == model.table.size());
  for (size_t i = 0; i < model.table.size(); ++i) {
    const TensorSpec &spec = model.table[i], &read = back.table[i];
    INFO(spec.name);
    REQUIRE(read.name == spec.name);
    if (spec.role == Role::adapter)
      CHECK(std::equal(&back.weights[read.offset], &back.weights[read.offset] + read.size(),
                       &model.weights[spec.offset]));
  }
}

TEST_CASE("only adapters train, with the same bits on any number of threads", "[lora]") {
  check_same_for_all_threads([] {
    TrainOptions o;
    o.config = adapted("gpt2", "qkv");
    o.config.lora_dropout = .3f;
    Model model(o.config, false);
    initialize(model, 1);
    choose_trained(model.table, o);
    allocate_gradients(model);
    const std::vector<float> before(model.weights.get(), model.weights.get() + model.floats);
    TrainingState s(std::move(model), kB, kT);
    const std::vector<int> tokens = random_ints(kB * kT, 1, kV), targets = random_ints(kB * kT, 2, kV);
    for (int step = 0; step < 2; ++step)
      training_step(s, micro_batches({tokens.data(), targets.data(), kB, kT}, 1), {}, step, .01);
    for (const TensorSpec& spec : s.model.table) {
      const float *was = before.data() + spec.offset, *is = s.model.weights.get() + spec.offset;
      CHECK(std::equal(was, was + spec.size(), is) == (spec.role != Role::adapter));
    }
    return std::vector<float>(s.model.weights.get(), s.model.weights.get() + s.model.floats);
  });
}

TEST_CASE("a run with adapters resumes, samples, and is exported alone or merged", "[lora][program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3 --out base" + kTiny).status == 0);
  const std::string tune = "train stories.txt --init-from base --batch 2 --lora 2 --lora-dropout .1 --eval-every 0 "
                           "--threads 1 --quiet --steps ";
  const Outcome done = f.run(tune + "6 --out whole");
  REQUIRE(done.status == 0);
  CHECK(contains(done.out, "trains   "));
  REQUIRE(f.run(tune + "3 --schedule-end 6 --out half").status == 0);
  REQUIRE(f.run("train --resume --out half --steps 6").status == 0);
  CHECK(same_bits(last_weights(f, "half"), last_weights(f, "whole")));
  CHECK(f.run("sample whole --length 5").status == 0);

  REQUIRE(f.run("export whole --to hf --out adapters").status == 0);
  const StoredTensors tensors(f.path("adapters/adapter_model.safetensors"));
  const StoredTensor* b = tensors.find("base_model.model.transformer.h.0.attn.c_attn.lora_B.weight");
  REQUIRE(b != nullptr);
  CHECK(b->shape == std::vector<uint64_t>{24, 2});
  CHECK(tensors.all().size() == 2);
  const std::string config = read_file(f.path("adapters/adapter_config.json"));
  for (const char* part : {R"("attn.c_attn")", R"("fan_in_fan_out": true)", R"("r": 2)"}) CHECK(contains(config, part));
  REQUIRE(f.run("export whole --to hf --lora-merge --out merged").status == 0);
  CHECK(f.run("sample merged --length 5").status == 0);
  CHECK(f.run("export whole --to llmc --lora-merge --out llmc").status == 0);

  check_refused(f, "export whole --to gguf --out x.gguf", "--to gguf has no adapters: add --lora-merge");
  check_refused(f, "export base --to hf --lora-merge --out x", "base has no adapters: leave --lora-merge out");
  check_refused(f, tune + "3 --train-only norm", "--lora trains its adapters alone");
  check_refused(f, tune + "3 --lora-on x", "--lora-on names 'x', which is no matrix of this model");
}

TEST_CASE("samples of a model of 16 bits are those of the same numbers as floats", "[lora][program]") {
  const Corpus f;
  f.must("train --data stories.txt --steps 3 --out base" + kTiny);
  f.must("export base --to hf --out came --dtype bf16");
  const auto sampled = [&](const std::string& run, const std::string& more) {
    return f.run("sample " + run + " --prompt Once --length 60 --seed 3 --json " + more).out;
  };
  const std::string text = sampled("came", "");
  CHECK(contains(text, "\"tokens\":["));
  for (const std::string type : {"fp32", "bf16"}) CHECK(sampled("came", "--weights " + type) == text);
  const auto tokens = [](const std::string& json) { return json.substr(json.find("\"text\"")); };
  CHECK(tokens(sampled("base", "--weights bf16")) == tokens(text));  // base, rounded as export rounds it
  CHECK(sampled("base", "--weights fp32") == sampled("base", ""));
  const std::string exported = f.run("export base --to hf --out again").out;
  CHECK(contains(exported, " parameters, in "));
  CHECK_FALSE(contains(exported, " 0 parameters"));  // whoever loads a model need not train it

  const std::string tune = "train stories.txt --batch 2 --steps 3 --threads 1 --quiet --init-from came ";
  f.must(tune + "--lora 2 --out adapted");
  f.must(tune + "--train-only ffn --out some");  // some matrices are floats, the others bf16
  for (const std::string run : {"adapted", "some"}) CHECK(sampled(run, "--weights fp32") == sampled(run, ""));
  const auto numbers = [&](const std::string& file, std::optional<NumberType> matrices) {
    std::map<std::string, NumberType> found;
    for (const TensorSpec& spec : load_trained_model(f.path(file), matrices).model.table)
      if (spec.layer <= 0 && spec.shape.size() == 2) found[spec.part] = spec.numbers;
    return found;
  };
  for (const auto& [part, type] : numbers("some/checkpoint.safetensors", {})) {
    INFO(part);
    CHECK((type == NumberType::fp32) == (contains(part, "ffn") || part == "embedding.position.weight"));
  }
  for (const auto& [part, type] : numbers("came", {})) {
    INFO(part);
    CHECK((type == NumberType::fp32) == (part == "embedding.position.weight"));
  }
  for (const auto& [part, type] : numbers("base/checkpoint.safetensors", {})) CHECK(type == NumberType::fp32);
  f.must("train --data stories.txt --steps 1 --fix-norm --out fixed" + kTiny);
  check_refused(f, "sample fixed --weights bf16",
                "fixed/checkpoint.safetensors was trained with --fix-norm, so its weights must be floats");
}

TEST_CASE("frozen matrices of a model of 16 bits stay so, and training has the same bits", "[lora][program][long]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3 --out base" + kTiny).status == 0);
  const std::string type = GENERATE("bf16", "fp16");
  REQUIRE(f.run("export base --to hf --out came --dtype " + std::string(type == "bf16" ? "bf16" : "f16")).status == 0);
  const std::string tune = "train stories.txt --batch 2 --eval-every 2 --threads 1 --quiet ";
  const auto bytes = [&](const std::string& run) {
    return std::filesystem::file_size(f.path(run + "/checkpoint.safetensors"));
  };
  const auto header = [&](const std::string& run) {
    return read_checkpoint_header(f.path(run + "/checkpoint.safetensors"));
  };
  for (const std::string what : {"--lora 2", "--train-only norm", "--freeze attention|embedding"}) {
    INFO(what);
    const std::string start = tune + what + " --force --init-from came ";
    const Outcome halves = f.run(start + "--steps 6 --out halves");
    const Outcome floats = f.run(start + "--steps 6 --frozen-weights fp32 --out floats");
    REQUIRE(halves.status == 0);
    REQUIRE(floats.status == 0);
    CHECK(contains(halves.out, "; frozen matrices are " + type + "\n"));
    CHECK_FALSE(contains(floats.out, type));
    CHECK(last_weights(f, "halves") == last_weights(f, "floats"));
    CHECK(header("halves").val_loss == header("floats").val_loss);
    CHECK(bytes("halves") < bytes("floats"));

    REQUIRE(f.run(start + "--steps 3 --schedule-end 6 --out half").status == 0);
    REQUIRE(f.run("train --resume --out half --steps 6").status == 0);
    CHECK(last_weights(f, "half") == last_weights(f, "floats"));
  }
  CHECK(contains(f.run("train stories.txt --init-from came --lora 2 --textbook --steps 1 --quiet --force --out x").out,
                 "trains   "));
  check_refused(f, tune + "--init-from came --lora 2 --textbook --frozen-weights bf16 --steps 1 --out y",
                "--textbook reads floats: leave --frozen-weights out");

  // A model of floats is rounded if the user asks for it; without frozen matrices the option does nothing.
  REQUIRE(f.run(tune + "--init-from base --lora 2 --steps 6 --out plain").status == 0);
  REQUIRE(f.run(tune + "--init-from base --lora 2 --frozen-weights bf16 --steps 6 --out rounded").status == 0);
  CHECK(bytes("rounded") < bytes("plain"));

  // From a checkpoint whose numbers are of 16 bits: the same, or the other type.
  REQUIRE(f.run(tune + "--init-from rounded --frozen-weights bf16 --steps 6 --out same").status == 0);
  REQUIRE(f.run(tune + "--init-from rounded --steps 6 --out widened").status == 0);
  CHECK(last_weights(f, "same") == last_weights(f, "widened"));
  REQUIRE(f.run(tune + "--init-from rounded --frozen-weights fp16 --steps 6 --out other").status == 0);
  CHECK(bytes("other") < bytes("plain"));
  CHECK(contains(f.run(tune + "--init-from base --frozen-weights bf16 --steps 1 --out z").out,
                 "--frozen-weights has no effect on a model that trains as a whole"));
}
