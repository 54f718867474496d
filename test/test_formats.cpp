// Folders of Hugging Face: tiny models that transformers wrote (python_ref/huggingface_fixtures.py), export and import
// of every preset that has a class, and folders that do not fit.

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "check.hpp"
#include "data/formats/architectures.hpp"
#include "data/formats/huggingface.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "small_run.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kLoss = 2e-7;  // 2.1e-8

json read(const std::string& path) { return json::parse(std::ifstream(path)); }

// A small model of a preset, with random numbers in every tensor.
Model small(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.n_layer = 3, c.n_head = 2, c.channels = 16, c.hidden = 24, c.context = 8, c.vocab_size = 11;
  if (c.window > 0) c.window = 5;
  Model model(c, false);
  const std::vector<float> values = random_floats(model.floats, 3);
  for (const TensorSpec& spec : model.table)
    std::copy_n(values.begin() + spec.offset, spec.size(), model.weights.get() + spec.offset);
  return model;
}

std::string refusal_of(const std::string& folder) {
  return message_of<std::runtime_error>([&] { open_huggingface(folder); });
}

const std::vector<std::string> kExpressed = {"gpt2",  "gpt3",  "llama",       "llama2", "llama3", "mistral", "qwen",
                                             "qwen2", "qwen3", "baichuan-7b", "gemma2", "olmo2"};

}  // namespace

TEST_CASE("a model that transformers wrote has its loss here", "[formats]") {
  for (const std::string name : {"gpt2", "llama", "llama-bf16-shards"}) {
    INFO(name);
    const std::string folder = "test/huggingface/" + name;
    const std::unique_ptr<OtherModel> from = open_huggingface(folder);
    Model model(from->config(), false);
    from->load(model);
    const json expected = read(folder + "/expected.json");
    constexpr int B = 2, T = 9;
    std::vector<int> tokens, targets;
    for (const json& row : expected["tokens"]) {
      const auto ids = row.get<std::vector<int>>();
      tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
      targets.insert(targets.end(), ids.begin() + 1, ids.end());
    }
    const Activations a = allocate_activations(model.config, B, T, false);
    const double loss = model_loss(model, a, {tokens.data(), targets.data(), B, T}) / (B * T);
    check_error("formats loss/" + name, std::abs(loss / expected["loss"].get<double>() - 1), kLoss);
  }
}

TEST_CASE("a preset that is exported and imported again has the same bits", "[formats]") {
  const Folder f;
  for (const std::string& preset : kExpressed) {
    INFO(preset);
    const Model model = small(preset);
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    const std::unique_ptr<OtherModel> from = open_huggingface(f.path("."));
    CHECK(from->tokenizer().kind() == Tokenizer::Kind::byte);
    Model again(from->config(), false);
    from->load(again);
    REQUIRE(again.table.size() == model.table.size());
    CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
    CHECK(again.config.norm_eps == model.config.norm_eps);
    CHECK(again.config.rope_theta == model.config.rope_theta);
    CHECK(again.config.window == model.config.window);
    CHECK(again.config.window_every == model.config.window_every);
    CHECK(float(*again.config.attention_scale) == float(*model.config.attention_scale));
  }
}

TEST_CASE("presets without a class are refused by the option in the way", "[formats]") {
  for (const std::string& preset : preset_names()) {
    if (std::find(kExpressed.begin(), kExpressed.end(), preset) != kExpressed.end()) continue;
    INFO(preset);
    const std::string message = message_of<std::invalid_argument>([&] { expressed(small(preset).config); });
    CHECK(contains(message, "no model class of transformers is this model: the nearest, "));
    CHECK(contains(message, " has no --"));
    CHECK(count_lines(message) == 0);
  }
  Config c = small("gpt2").config;
  c.placement = "deepnorm", c.skip_scale.reset(), c.final_norm.reset(), c.init_gain.reset(), c.residual_gain.reset();
  CHECK(contains(message_of<std::invalid_argument>([&] { expressed(c); }), "--"));
  c = small("llama").config;
  c.window = 4;
  CHECK(std::string(expressed(c).architecture.model_class) == "MistralForCausalLM");
  c.logit_cap = 3;
  CHECK(contains(message_of<std::invalid_argument>([&] { expressed(c); }), "--logit-cap 3 (it has 0)"));
}

TEST_CASE("a model without biases has zeros for them in GPT-2's class", "[formats]") {
  const Folder f;
  Config c = small("gpt2").config;
  c.bias = false;
  c.qkv_bias.reset(), c.norm_bias.reset();
  Model model(c, false);
  initialize(model, 1);
  write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
  const std::unique_ptr<OtherModel> from = open_huggingface(f.path("."));
  CHECK(from->config().bias);
  Model again(from->config(), false);
  from->load(again);
  for (const TensorSpec& spec : again.table)
    if (spec.leaf() == "bias") CHECK(norm_of(widen({again.weights.get() + spec.offset, spec.size()})) == 0);
}

TEST_CASE("a folder whose config.json or tensors do not fit is refused", "[formats]") {
  const Folder f;
  const Model model = small("llama");
  const auto with = [&](const std::string& key, const json& value) {
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    json file = json::parse(f.read("config.json"));
    file[key] = value;
    f.write("config.json", file.dump());
    return refusal_of(f.path("."));
  };
  CHECK(with("bos_token_id", 1) == "");
  CHECK(contains(with("model_type", "bert"), "config.json cannot be used: model_type is 'bert', and train_gpt"));
  CHECK(contains(with("model_type", 3), "config.json cannot be used"));
  CHECK(contains(with("hidden_act", "relu"), "hidden_act is \"relu\"; train_gpt has \"silu\" only"));
  CHECK(contains(with("attention_bias", true), "attention_bias is true; train_gpt has false only"));
  CHECK(contains(with("rope_parameters", {{"rope_type", "llama3"}}), "rope_type is \"llama3\""));
  CHECK(contains(with("num_hidden_layers", 1e9), "num_hidden_layers is not a whole number"));
  CHECK(contains(with("num_hidden_layers", 1 << 20), "layers is 1048576"));
  CHECK(contains(with("num_attention_heads", 3), "cannot be used"));
  CHECK(contains(with("num_hidden_layers", nullptr), "num_hidden_layers is missing"));
  CHECK(contains(with("num_hidden_layers", 4), "lacks the tensor 'model.layers.3."));
  CHECK(contains(with("num_hidden_layers", 2), "which the model of config.json does not have"));
  CHECK(contains(with("vocab_size", 12), "has the shape (11, 16), and config.json asks for (12, 16)"));
  f.write("config.json", std::string(100000, '['));
  CHECK(contains(refusal_of(f.path(".")), "nested too deep"));
}

TEST_CASE("a run is exported, and its folder is a checkpoint", "[formats]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --tokenizer char --preset llama2 --steps 3 --out run" + kTiny).status == 0);
  const Outcome exported = f.run("export run --out hf");
  INFO(exported.err);
  REQUIRE(exported.status == 0);
  CHECK(contains(exported.out, "hf: LlamaForCausalLM of transformers, "));
  check_refused(f, "export run --out hf", "hf is not empty: choose another --out, or overwrite it with --force");
  CHECK(same_bits(weights_in(f.path("hf")), weights_in(f.path("run/checkpoint.bin"))));
  const auto loss = [&](const std::string& of) {
    const std::string out = f.run("eval " + of + " --data stories.txt --threads 1").out;
    return lines_of(out).at(1).substr(0, 20);
  };
  CHECK(loss("hf") == loss("run"));
  CHECK(f.run("sample hf --greedy --length 20").out == f.run("sample run --greedy --length 20").out);
  CHECK(f.run("info hf").status == 0);
  const std::string tune = "train stories.txt --init-from hf --out tuned --steps 1 --eval-every 0 --quiet";
  const Outcome tuned = f.run(tune);
  INFO(tuned.err);
  CHECK(tuned.status == 0);
  json config = json::parse(f.read("hf/config.json"));
  config.erase("train_gpt_tokenizer");
  f.write("hf/config.json", config.dump());
  check_refused(f, "eval hf --data stories.txt", "hf has no tokenizer that train_gpt reads: copy a tokenizer.json");
  REQUIRE(f.run("train stories.txt --placement post --steps 1 --out post" + kTiny).status == 0);
  check_refused(f, "export post --out none", "has no --");
  CHECK(!f.has("none"));
}
