// Folders of Hugging Face: tiny models that transformers wrote (python_ref/huggingface_fixtures.py), export and import
// of every preset with a model class, and folders that do not fit.

#include <algorithm>
#include <filesystem>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "check.hpp"
#include "data/files/json.hpp"
#include "data/formats/float_types.hpp"
#include "data/formats/foreign_tensors.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/huggingface/modeling.hpp"
#include "data/options/command_settings.hpp"
#include "data/run/resume.hpp"
#include "data/strings/format.hpp"
#include "data/tokenizer/files/bpe_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/config/placements.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "small_run.hpp"
#include "sources.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kLoss = 2e-7;  // 2.1e-8
constexpr double kGradients = 5e-5;  // 5.4e-6 with AVX2, 2.8e-5 with SSE2: the bias of k, whose gradient cancels

json read(const std::string& path) { return parse_json(read_file(path)); }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A model with random numbers in every tensor.
Model randomized(const Config& c) {
  Model model(c, false);
  const std::vector<float> values = random_floats(model.floats, 3);
  for (const TensorSpec& spec : model.table)
    std::copy_n(values.begin() + spec.offset, spec.size(), model.weights.get() + spec.offset);
  return model;
}

// A small model of a preset. Some classes have hidden layers of 4·C only.
Model small(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.n_layer = 3, c.n_head = 4, c.channels = 32, c.context = 8, c.vocab_size = 11;
  c.hidden = preset == "gpt1" || preset == "bloom" ? 128 : 24;
  if (c.window > 0) c.window = 5;
  if (preset == "transformer") c.head_bias = true;  // MarianMTModel always has it
  return randomized(c);
}

// The rows of a list of lists, one after another.
std::vector<int> flat(const json& rows) {
  std::vector<int> all;
  for (const json& row : rows)
    for (const json& number : row) all.push_back(number);
  return all;
}

std::string refusal_of(const std::string& folder) {
  return message_of<std::runtime_error>([&] { open_huggingface(folder); });
}

// All others are exported with their own code.
const std::set<std::string> kOwn = {"baichuan-13b", "chatglm-6b"};

std::string class_of(const Config& config) { return expressed(config).architecture.model_class; }

// Compares the gradients of their tensors with what huggingface_fixtures.py wrote. `model` holds gradients as its
// weights.
void check_gradients(const std::string& name, const Model& model, const json& config, const json& expected) {
  double largest = 0;
  for (const json& numbers : expected) largest = std::max(largest, numbers[0].get<double>());
  const auto tensors = foreign_tensors(*find_architecture(config), model.config);
  CHECK(tensors.size() == expected.size());
  for (const auto& [tensor, rows] : tensors) {
    INFO(tensor);
    REQUIRE(expected.contains(tensor));
    const std::vector<float> g = values_of(rows, model.config, model);
    double product = 0;
    for (size_t i = 0; i < g.size(); ++i) product += static_cast<double>(g[i]) * std::cos(static_cast<double>(i));
    const double norm = expected[tensor][0], scale = std::max(norm, 1e-3 * largest);  // some gradients cancel
    const double error = std::max(std::abs(norm_of(widen(g)) - norm),
                                  std::abs(product - expected[tensor][1].get<double>()));
    check_error("formats gradients/" + name, error / scale, kGradients);
  }
}

}  // namespace

TEST_CASE("a model that transformers wrote has its loss and its gradients here", "[formats]") {
  int models = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("test/huggingface")) {
    const std::string folder = entry.path(), name = entry.path().filename();
    INFO(name);
    ++models;
    const std::unique_ptr<ForeignModel> from = open_huggingface(folder);
    Config config = from->config();
    config.router_loss = config.router_z_loss = 0;  // transformers does not add the router's losses
    Model model(config, true);
    from->load(model);
    const json expected = read(folder + "/expected.json");
    constexpr int B = 2, T = 9;
    std::vector<int> tokens, targets;
    for (const json& row : expected["tokens"]) {
      const auto ids = row.get<std::vector<int>>();
      tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
      targets.insert(targets.end(), ids.begin() + 1, ids.end());
    }
    const Activations a = allocate_activations(model.config, B, T, true);
    Batch batch{tokens.data(), targets.data(), B, T};
    Sources sources;
    if (config.crosses()) {
      sources = one_source_each(flat(expected["sources"]), expected["lengths"], T);
      batch.encoder = sources.input();
    }
    const double loss = model_loss_and_gradients(model, a, batch, 1.f / (B * T), {}) / (B * T);
    check_error("formats loss/" + name, std::abs(loss / expected["loss"].get<double>() - 1), kLoss);
    std::copy_n(model.gradients.get(), model.floats, model.weights.get());  // values_of() reads weights
    check_gradients(name, model, read(folder + "/config.json"), expected["gradients"]);
  }
  CHECK(models == 46);
}

TEST_CASE("weights that are trained on keep everything that their model computes", "[formats]") {
  const Folder f;
  for (const auto& entry : fs::directory_iterator("test/huggingface")) {
    INFO(entry.path().string());
    Config c = open_huggingface(entry.path().string())->config();
    c.vocab_size = 256;
    write_huggingface(f.path("."), {Model(c, false), Tokenizer::bytes(), "", "f32"});
    CheckpointHeader header;
    TrainOptions o = options_on_checkpoint({"train", "--init-from", f.path(".")}, {}, header);
    o.config.vocab_size = c.vocab_size;  // otherwise the text's
    CHECK(same_model(o.config, c));
  }
}

TEST_CASE("a preset that is exported and imported again has the same bits", "[formats]") {
  const Folder f;
  for (const std::string& preset : preset_names()) {
    INFO(preset);
    if (preset == "ngpt") continue;  // refused
    const Model model = small(preset);
    CHECK((class_of(model.config) == "TrainGPTForCausalLM") == kOwn.contains(preset));
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    const std::unique_ptr<ForeignModel> from = open_huggingface(f.path("."));
    CHECK(from->tokenizer().kind() == Tokenizer::Kind::byte);
    Model again(from->config(), false);
    from->load(again);
    REQUIRE(again.table.size() == model.table.size());
    CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
    CHECK(again.config.norm_eps == model.config.norm_eps);
    CHECK(again.config.rope_theta == model.config.rope_theta);
    CHECK(again.config.window == model.config.window);
    CHECK(again.config.window_layers == model.config.window_layers);
    CHECK(float(*again.config.attention_scale) == float(*model.config.attention_scale));
  }
}

TEST_CASE("settings of initial weights and of training do not choose a model's class", "[formats]") {
  const auto class_with = [](void (*change)(Config&)) {
    Config c = small("gpt2").config;
    change(c);
    return class_of(c);
  };
  CHECK(class_with([](Config& c) { c.zero_init = true, c.init_gain = 2, c.init = InitChoice::xavier; }) ==
        "GPT2LMHeadModel");
  CHECK(class_with([](Config& c) { c.dropout = .1f, c.z_loss = 1e-4f, c.router_loss = 3; }) == "GPT2LMHeadModel");
  CHECK(class_with([](Config& c) {
          c.rope_theta = 500, c.window_layers = "1 of 3", c.streams = 2, c.mix_fraction = .5, c.rope_layers = "1 of 2";
          c.window_rope_theta = 7, c.rope_scaling = RopeScaling::yarn, c.rope_factor = 3;
        }) == "GPT2LMHeadModel");
  CHECK(class_with([](Config& c) { c.recompute = Recompute::full, c.matmul = Matmul::bf16; }) == "GPT2LMHeadModel");
  CHECK(class_with([](Config& c) { c.embedding_scale = 2; }) == "TrainGPTForCausalLM");
  Config mixtral = small("mixtral").config;
  mixtral.router_loss = 3;
  mixtral.router_z_loss = 2;
  CHECK(class_of(mixtral) == "MixtralForCausalLM");
}

TEST_CASE("--to and --dtype of export take what the table of formats has", "[formats]") {
  const auto choices_of = [](const char* option) {
    const auto& rows = settings_of(Command::Kind::export_model);
    return std::ranges::find(rows, option, &CommandSetting::name)->choices;
  };
  std::vector<std::string> names;
  std::set<std::string> dtypes;
  for (const Format& row : formats()) {
    names.emplace_back(row.name);
    dtypes.insert(row.dtypes.begin(), row.dtypes.end());
  }
  CHECK(choices_of("to") == names);
  const std::vector<std::string> types = choices_of("dtype");
  CHECK(std::set(types.begin(), types.end()) == dtypes);
  CHECK(types.size() == dtypes.size());
}

TEST_CASE("a model without a class comes with its own", "[formats]") {
  Config c = small("llama").config;
  c.window = 4;
  CHECK(class_of(c) == "MistralForCausalLM");
  c.norm_sites[0] = NormChoice{c.norm};  // as it is anyway
  CHECK(class_of(c) == "MistralForCausalLM");
  c.norm_sites[0] = NormChoice{c.norm, true};
  CHECK(class_of(c) == "TrainGPTForCausalLM");
  c.norm_sites[0].reset();
  c.logit_cap = 3;
  CHECK(class_of(c) == "TrainGPTForCausalLM");
  CHECK(contains(expressed(c).why, "ForCausalLM has no --"));
  Config far = c;  // many settings away from any class
  far.norm = NormKind::dyt, far.placement = "sandwich", far.activation = Activation::relu2, far.attention_cap = 5;
  CHECK(contains(expressed(resolve(far)).why, "ForCausalLM has no --"));
  const Folder f;
  Model model(c, false);
  CHECK(contains(write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"}),
                 "TrainGPTForCausalLM of modeling_train_gpt.py (load it with trust_remote_code=True; "));
  CHECK(f.read("modeling_train_gpt.py") == text_of("data/formats/huggingface/modeling_train_gpt.py"));
  CHECK(parse_json(f.read("config.json"))["auto_map"]["AutoModelForCausalLM"] ==
        "modeling_train_gpt.TrainGPTForCausalLM");
}

// The fields of modeling_train_gpt.py that follow from a placement; python_ref/check_formats.py runs the file.
TEST_CASE("config.json says which norms a block has", "[formats]") {
  const auto config = [](const std::string& placement) {
    Config c;
    c.placement = placement, c.n_layer = 4, c.vocab_size = 11;
    json file;
    write_modeling_config(file, resolve(c));
    return file;
  };
  const json in = {"in"}, sum = {"sum"};
  CHECK(config("mix-ln")["norms"] == json({sum, in, in, in}));
  CHECK(config("sub-ln")["norms"][3] == json({"in", "inner"}));
  CHECK(config("sandwich")["norms"][0] == json({"in", "out"}));
  CHECK(config("none")["norms"][0] == json::array());
  CHECK(config("deepnorm")["skip_scale"] == shortest(static_cast<float>(std::pow(8, .25))));
  CHECK(config("lns")["in_scales"] == json({1.0, shortest(std::sqrt(.5f)), shortest(std::sqrt(1 / 3.f)), .5}));
  CHECK(config("layerscale")["learned_gain"] == "channel");
  CHECK(config("rezero")["learned_gain"] == "block");
  CHECK(config("pre")["learned_gain"] == "none");
  CHECK(config("normformer")["norms"][0] == json({"in", "out"}));
  CHECK(config("normformer")["ffn_norms"][0] == json({"in", "inner"}));
  for (const std::string placement : {"pre", "b2t", "normformer", "gpas", "admin"}) {
    CHECK(config(placement)["bypass"] == (placement == "b2t"));
    CHECK(config(placement)["head_scale"] == (placement == "normformer"));
    CHECK(config(placement)["gpas"] == (placement == "gpas"));
    CHECK(config(placement)["skip_gain"] == (placement == "admin"));
  }
  Config sites;
  sites.placement = "sandwich", sites.vocab_size = 11;
  sites.norm_sites[0] = NormChoice{NormKind::rmsnorm, true}, sites.norm_sites[4] = NormChoice{NormKind::dyt};
  json file;
  write_modeling_config(file, resolve(sites));
  CHECK(file["site_norms"] ==
        json({{"norm_in", {{"norm", "rmsnorm"}, {"norm_gain", false}, {"norm_bias", false}}},
              {"final_norm", {{"norm", "dyt"}, {"norm_gain", true}, {"norm_bias", true}}}}));
  CHECK(read_modeling_config(file).norm_sites == sites.norm_sites);
  CHECK(file["gated_norm_rank"] == 16);
  CHECK_FALSE(config("pre").contains("site_norms"));
  CHECK(config("pre")["final_norm"] == true);
  CHECK(config("post")["final_norm"] == false);
}

TEST_CASE("every placement and norm comes back with the same bits", "[formats][long]") {
  const Folder f;
  for (const Placement& placement : placements())
    for (const auto& norm : kNormKinds) {
      INFO(placement.name << " " << norm.name);
      if (placement.streams != StreamRule::single) continue;
      if (placement.qk_norm != QkNormKind::none && !norm_row(norm.value).row_norm) continue;
      Config c;
      c.placement = placement.name, c.norm = norm.value, c.n_layer = 2, c.n_head = 2, c.channels = 8, c.context = 8;
      c.vocab_size = 11, c.logit_cap = 3, c.mix_fraction = .5;
      const Model model = randomized(c);
      write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
      const std::unique_ptr<ForeignModel> from = open_huggingface(f.path("."));
      Model again(from->config(), false);
      from->load(again);
      REQUIRE(again.table.size() == model.table.size());
      CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
      CHECK(*again.config.skip_scale == *model.config.skip_scale);
    }
}

TEST_CASE("no format holds a model with several residual streams, attention residuals or parts of nGPT",
          "[formats][long]") {
  const Corpus f;
  for (const char* placement : {"hyper", "resi-dual", "siamese"}) {
    REQUIRE(f.run(std::string("train --data stories.txt --steps 1 --out r --force --placement ") + placement + kSmall)
                .status == 0);
    for (const char* format : {"hf", "gguf", "llama2c", "llmc"})
      check_refused(f, std::string("export r --out x --to ") + format,
                    std::string("has several residual streams (--placement ") + placement + ")");
  }
  REQUIRE(f.run("train --data stories.txt --steps 1 --out r --force --placement attnres" + kSmall).status == 0);
  for (const char* format : {"hf", "gguf", "llama2c", "llmc"})
    check_refused(f, std::string("export r --out x --to ") + format, "has attention residuals (--placement attnres)");
  for (const std::string part : {"--placement ngpt", "--qk-norm unit", "--up-gain", "--logit-gain"}) {
    REQUIRE(f.run("train --data stories.txt --steps 1 --out r --force " + part + kSmall).status == 0);
    for (const char* format : {"hf", "gguf", "llama2c", "llmc"})
      check_refused(f, std::string("export r --out x --to ") + format, "has this part of nGPT (" + part + ")");
  }
  REQUIRE(f.run("train --data stories.txt --steps 1 --out r --force --normed-weights" + kSmall).status == 0);
  CHECK(f.run("export r --out x --to hf").status == 0);  // it changes training alone
}

TEST_CASE("formats other than Hugging Face refuse a bypass, scaled heads, GPAS and Admin", "[formats][long]") {
  const Corpus f;
  for (const std::string option :
       {"--placement b2t", "--placement normformer", "--placement gpas", "--placement admin", "--head-scale"}) {
    REQUIRE(f.run("train --data stories.txt --steps 1 --out r --force " + option + kSmall).status == 0);
    REQUIRE(f.run("export r --out hf --force --to hf").status == 0);
    check_refused(f, "export r --out x --to llama2c", "has no --");
    for (const char* format : {"gguf", "llmc"})
      check_refused(f, std::string("export r --out x --to ") + format, "has no " + option.substr(0, option.find(' ')));
  }
}

TEST_CASE("a model with FixNorm is exported with the rows that it computes with", "[formats]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 3 --out r --fix-norm --norm scalenorm" + kSmall).status == 0);
  REQUIRE(f.run("export r --out hf --to hf").status == 0);
  CHECK(parse_json(f.read("hf/config.json"))["train_gpt_settings"]["fix-norm"] == false);
  const Outcome ours = f.run("sample r --prompt Lily --length 20 --seed 3"),
                theirs = f.run("sample hf --prompt Lily --length 20 --seed 3");
  CHECK(ours.status == 0);
  CHECK(ours.out == theirs.out);
}

TEST_CASE("a folder holds the tokenizer as transformers reads it", "[formats]") {
  const Folder f;
  const Model model = small("gpt2");
  const std::string text = "The fox \xff\xe9 met a crow.";
  const Tokenizer bytes = Tokenizer::bytes();
  write_huggingface(f.path("."), {model, bytes, "", "f32"});
  CHECK(read_tokenizer(f.path("tokenizer.json")).encode(text) == bytes.encode(text));
  CHECK(parse_json(f.read("generation_config.json"))["eos_token_id"].is_null());

  BpeTables tables;
  tables.tokens = byte_tokens();
  tables.merges.push_back({static_cast<uint32_t>('f' - '!'), static_cast<uint32_t>('o' - '!'), 256});
  tables.tokens.insert(tables.tokens.end(), {"fo", "<|endoftext|>"});
  tables.special.push_back({257, "<|endoftext|>"});
  const Tokenizer bpe = Tokenizer::bpe(Bpe(tables));
  write_huggingface(f.path("."), {model, bpe, "", "f32"});
  CHECK(!parse_json(f.read("config.json")).contains("train_gpt_tokenizer"));
  const std::unique_ptr<ForeignModel> from = open_huggingface(f.path("."));
  CHECK(from->tokenizer().encode(text) == bpe.encode(text));
  CHECK(parse_json(f.read("config.json"))["eos_token_id"] == 257);
  CHECK(parse_json(f.read("generation_config.json"))["eos_token_id"] == 257);
  CHECK(parse_json(f.read("tokenizer_config.json"))["eos_token"] == "<|endoftext|>");
}

TEST_CASE("a tokenizer of characters is written as one that transformers reads", "[formats]") {
  const Folder f;
  const Model model = small("gpt2");
  const std::string text = std::string(1, '\0') + "\t\n \"Füchse\" — 漢字\\🦊";
  const Tokenizer letters = Tokenizer::characters(text);
  write_huggingface(f.path("."), {model, letters, "", "f32"});
  const Tokenizer back = read_tokenizer(f.path("."));
  CHECK(back.kind() == Tokenizer::Kind::character);
  CHECK(back.alphabet() == letters.alphabet());
  CHECK(back.encode(text) == letters.encode(text));
  const json file = parse_json(f.read("tokenizer.json"));
  CHECK(file["model"]["vocab"]["漢"] == letters.encode("漢")[0]);
  CHECK(!file["model"]["vocab"].contains("<unk>"));  // so that an unknown character is an error

  const auto with = [&](const char* pointer, const json& value) {
    json other = file;
    other[json::json_pointer(pointer)] = value;
    f.write("other.json", to_text(other));
    return message_of<std::runtime_error>([&] { read_tokenizer(f.path("other.json")); });
  };
  const std::string refused = "other.json: train_gpt reads only the WordLevel character tokenizers";
  CHECK(contains(with("/model/vocab/word", 99), refused));
  CHECK(contains(with("/model/vocab/ ", 99), refused));
  CHECK(contains(with("/model/vocab", json::object()), refused));
  CHECK(contains(with("/model/vocab", 3), refused));
  CHECK(contains(with("/pre_tokenizer", {{"type", "Whitespace"}}), refused));
  CHECK(contains(with("/normalizer", {{"type", "NFC"}}), refused));
  CHECK(with("/version", "1.0") == "");
}

TEST_CASE("export says that transformers gets no tokenizer of pieces", "[formats]") {
  const Corpus f;
  const std::string pieces = fs::absolute("test/reference/pieces/llama2.model");
  REQUIRE(f.run("train stories.txt --preset llama2 --steps 1 --out run --tokenizer " + pieces + kTiny).status == 0);
  CHECK(contains(f.run("export run --out hf").out, "no tokenizer.json: transformers needs the tokenizer.model"));
  CHECK(!f.has("hf/tokenizer.json"));
}

TEST_CASE("eval writes the logits of the first batch", "[formats]") {
  const Corpus f;
  f.write("short.txt", f.read("stories.txt").substr(0, 3 * 16 + 1));
  REQUIRE(f.run("train stories.txt --steps 3 --logit-cap 5 --out run" + kTiny).status == 0);
  const Outcome done = f.run("eval run --data short.txt --batch 8 --threads 1 --logits logits.npy");
  INFO(done.err);
  REQUIRE(done.status == 0);
  const std::string npy = f.read("logits.npy");
  constexpr size_t kRows = 3 * 16, V = 256;
  REQUIRE(npy.size() == 128 + kRows * V * sizeof(float));
  CHECK(npy.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(contains(npy, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16, 256, ), }"));
  CHECK(npy[127] == '\n');
  std::vector<float> logits(kRows * V);
  std::memcpy(logits.data(), npy.data() + 128, logits.size() * sizeof(float));
  const std::string text = f.read("short.txt");
  double nats = 0;
  for (size_t n = 0; n < kRows; ++n) {
    double sum = 0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(static_cast<double>(logits[n * V + v]));
    nats += std::log(sum) - static_cast<double>(logits[n * V + static_cast<unsigned char>(text[n + 1])]);
  }
  CHECK(contains(done.out, format("loss %.3f", nats / kRows)));
}

TEST_CASE("eval reads rows that are no longer than the text, or than --context", "[formats]") {
  const Corpus f;
  f.write("short.txt", f.read("stories.txt").substr(0, 7));
  f.write("long.txt", f.read("stories.txt").substr(0, 17));
  REQUIRE(f.run("train stories.txt --steps 3 --out run" + kTiny).status == 0);  // its context is 16
  const auto logits = [&](const std::string& words, const std::string& shape) {
    const Outcome o = f.run("eval run --force --logits l.npy --data " + words);
    INFO(o.err);
    CHECK(o.status == 0);
    CHECK(contains(f.read("l.npy"), "'shape': (" + shape + ", 256, )"));
    return f.read("l.npy").substr(128);
  };
  const std::string whole = logits("long.txt", "1, 16"), start = logits("short.txt", "1, 6");
  CHECK(whole.starts_with(start));  // a token sees the ones before it alone
  CHECK(whole.starts_with(logits("long.txt --context 6", "3, 6").substr(0, start.size())));
  check_refused(f, "eval run --data long.txt --context 17", "--context 17 is above the model's, 16");
}

TEST_CASE("a model without biases has zeros for them in GPT-2's class", "[formats]") {
  const Folder f;
  Config c = small("gpt2").config;
  c.bias = false;
  c.qkv_bias.reset(), c.norm_bias.reset();
  Model model(c, false);
  initialize(model, 1);
  write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
  const std::unique_ptr<ForeignModel> from = open_huggingface(f.path("."));
  CHECK(from->config().bias);
  Model again(from->config(), false);
  from->load(again);
  for (const TensorSpec& spec : again.table)
    if (spec.leaf() == "bias") CHECK(norm_of(widen({again.weights.get() + spec.offset, spec.size()})) == 0);
}

TEST_CASE("a model exported in 16 bits has rounded weights, and config.json says so", "[formats]") {
  const Folder f;
  Model model = small("llama");
  const Tokenizer bytes = Tokenizer::bytes();
  for (const FloatType* type : {&kFloat32, &kFloat16, &kBfloat16}) {
    write_huggingface(f.path("."), {model, bytes, "", type->name});
    CHECK(read(f.path("config.json"))["torch_dtype"] == type->torch);
    Model again(model.config, false);
    open_huggingface(f.path("."))->load(again);
    std::vector<float> want(model.weights.get(), model.weights.get() + model.floats);
    for (float& x : want) {
      if (type == &kFloat16) x = float_of_half(half_of_float(x));
      if (type == &kBfloat16) x = float_of_bfloat16(bfloat16_of_float(x));
    }
    CHECK(std::equal(want.begin(), want.end(), again.weights.get()));
  }
  const TensorSpec& last = model.table.back();
  model.weights[last.offset] = 1e5f;
  const auto refusal = [&](const char* type) {
    return message_of<std::invalid_argument>([&] { check_huggingface({model, bytes, "", type}); });
  };
  CHECK(refusal("f16") == "--dtype f16 cannot hold 100000, which is in " + last.name + ": use --dtype f32");
  CHECK(refusal("bf16") == "");
}

TEST_CASE("gpt-oss has one gate, one way to stretch RoPE, and weights in floats", "[formats]") {
  const Folder f;
  const Model model = small("gpt-oss");
  const auto with = [&](const std::string& key, const json& value) {
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    json file = parse_json(f.read("config.json"));
    file.erase("rope_scaling");
    file[key] = value;
    f.write("config.json", to_text(file));
    return refusal_of(f.path("."));
  };
  CHECK(with("swiglu_alpha", 1.702) == "");
  CHECK(open_huggingface(f.path("."))->config().rope_truncate == false);
  CHECK(contains(with("swiglu_limit", 6.), "swiglu_limit is 6.0; train_gpt has 7.0 only"));
  CHECK(contains(with("rope_parameters", nullptr), "rope_parameters is missing"));
  CHECK(contains(with("attention_bias", nullptr), "which the model of config.json does not have"));
  CHECK(contains(with("quantization_config", {{"quant_method", "mxfp4"}}),
                 "its weights are quantized (quantization_config: \"mxfp4\"), and train_gpt reads floats only: load it "
                 "in transformers with quantization_config=Mxfp4Config(dequantize=True) and save it"));
}

TEST_CASE("a folder whose config.json or tensors do not fit is refused", "[formats]") {
  const Folder f;
  const Model model = small("llama");
  const auto with = [&](const std::string& key, const json& value) {
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    json file = parse_json(f.read("config.json"));
    file[key] = value;
    f.write("config.json", to_text(file));
    return refusal_of(f.path("."));
  };
  CHECK(with("bos_token_id", 1) == "");
  CHECK(contains(with("model_type", "mamba"), "config.json cannot be used: model_type is 'mamba', and train_gpt"));
  CHECK(contains(with("model_type", 3), "config.json cannot be used: model_type is 3, and train_gpt reads bart"));
  CHECK(contains(with("hidden_act", "relu"), "hidden_act is \"relu\"; train_gpt has \"silu\" only"));
  CHECK(contains(with("attention_bias", true), "lacks the tensor 'model.layers.0.self_attn."));
  CHECK(contains(with("attention_bias", 1), "attention_bias is not true or false"));
  CHECK(contains(with("rope_parameters", {{"rope_type", "sinusoidal"}}), "rope_type is \"sinusoidal\", which train"));
  CHECK(contains(with("rope_parameters", {{"rope_type", "longrope"}}), "short_factor is not a list of numbers"));
  CHECK(contains(with("rope_parameters", {{"rope_type", "llama3"}}), "factor is missing in rope_parameters"));
  CHECK(contains(with("num_hidden_layers", 1e9), "num_hidden_layers is not a whole number"));
  CHECK(contains(with("num_hidden_layers", 1 << 20), "layers is 1048576"));
  CHECK(contains(with("num_attention_heads", 3), "cannot be used"));
  CHECK(contains(with("num_hidden_layers", nullptr), "num_hidden_layers is missing"));
  CHECK(contains(with("num_hidden_layers", 4), "lacks the tensor 'model.layers.3."));
  CHECK(contains(with("num_hidden_layers", 2), "which the model of config.json does not have"));
  CHECK(contains(with("vocab_size", 12), "has the shape (11, 32), and config.json asks for (12, 32)"));
  f.write("config.json", std::string(100000, '['));
  CHECK(contains(refusal_of(f.path(".")), "nested too deep"));
}

TEST_CASE("numbers of a foreign config.json have their type and their range", "[formats]") {
  const Folder f;
  // with(PRESET, KEY, TEXT): the refusal of a folder whose config.json has this text for the value.
  const auto with = [&](const std::string& preset, const std::string& key, const std::string& value) {
    write_huggingface(f.path("."), {small(preset), Tokenizer::bytes(), "", "f32"});
    json file = parse_json(f.read("config.json"));
    file[key] = "HERE";
    std::string text = to_text(file);
    f.write("config.json", text.replace(text.find("\"HERE\""), 6, value));
    return refusal_of(f.path("."));
  };
  const std::vector<std::string> no_size = {"1e308", "1.7", "-1", "18446744073709551615", "9223372036854775808",
                                            "4294967297", "true", "\"8\"", "[]", "{}"};
  const std::pair<std::string, std::vector<std::string>> whole[] = {
      {"mistral", {"sliding_window", "num_hidden_layers", "num_key_value_heads", "head_dim", "vocab_size"}},
      {"gemma2", {"sliding_window"}}, {"mixtral", {"num_local_experts", "num_experts_per_tok"}},
      {"qwen3-moe", {"moe_intermediate_size"}}, {"gpt2", {"n_inner", "n_positions"}}};
  for (const auto& [preset, keys] : whole)
    for (const std::string& key : keys)
      for (const std::string& value : no_size) {
        INFO(preset << " " << key << " " << value);
        CHECK(contains(with(preset, key, value), "cannot be used: "));
      }
  const std::pair<std::string, std::vector<std::string>> real[] = {
      {"mistral", {"rms_norm_eps", "rope_parameters"}}, {"gpt-neox", {"layer_norm_eps"}},
      {"gemma2", {"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"}}};
  for (const auto& [preset, keys] : real)
    for (const std::string& key : keys)
      for (const std::string value : {"1e308", "-1", "true", "\"1\"", "[]"}) {
        INFO(preset << " " << key << " " << value);
        CHECK(contains(with(preset, key, key == "rope_parameters" ? "{\"rope_theta\": " + value + "}" : value),
                       "cannot be used: "));
      }
  CHECK(contains(with("mistral", "sliding_window", "1.7"), "is not a whole number from 0 to 1073741824: 1.7"));
  CHECK(contains(with("gemma2", "query_pre_attn_scalar", "0"), "query_pre_attn_scalar is not positive"));
}

TEST_CASE("a key that config.json lacks has the default of its class", "[formats]") {
  const auto read_without = [](const std::string& preset, const std::vector<std::string>& keys) {
    Config c = small(preset).config;
    c.rope_theta = 500, c.norm_eps = 1e-4f;
    if (preset == "gemma2") c.attention_cap = 3, c.logit_cap = 4;
    const Expressed as = expressed(resolve(c));
    json file = config_json(as.architecture, as.config);
    for (const std::string& key : keys) file.erase(key);
    return config_of(*find_architecture(file), file);
  };
  const std::vector<std::string> theta = {"rope_theta", "rope_parameters"};
  CHECK(read_without("mixtral", theta).rope_theta == 1e6f);
  CHECK(read_without("mistral", theta).rope_theta == 1e4f);
  CHECK(read_without("mistral", {"sliding_window"}).window == 4096);
  CHECK(read_without("gemma2", {"attn_logit_softcapping"}).attention_cap == 50);
  CHECK(read_without("gemma2", {"final_logit_softcapping"}).logit_cap == 30);
  CHECK(read_without("gemma2", {"head_dim"}).head_dim == 256);
  CHECK(read_without("gemma2", {"query_pre_attn_scalar"}).attention_scale == 1. / 16);
  CHECK(read_without("llama", {"rms_norm_eps"}).norm_eps == 1e-6f);
  CHECK(read_without("mixtral", {"rms_norm_eps"}).norm_eps == 1e-5f);
  CHECK(read_without("chatglm2-6b", {"rms_norm_eps"}).norm_eps == 1.5625e-7f);
  CHECK(read_without("qwen3", {"head_dim"}).head_dim == 128);
}

// Writes a small model of this preset whose config.json has these values, too. Returns that config.json.
json write_small(const Folder& f, const std::string& preset, const json& more) {
  write_huggingface(f.path("."), {small(preset), Tokenizer::bytes(), "", "f32"});
  json file = parse_json(f.read("config.json"));
  file.update(more);
  f.write("config.json", to_text(file));
  return file;
}

TEST_CASE("a folder with code of its own is read as the class that it names, and that is noted", "[formats]") {
  const Folder f;
  const json code = {{"AutoModelForCausalLM", "modeling_other.OtherForCausalLM"}};
  write_small(f, "llama", {{"auto_map", code}});
  CHECK(contains(f.run("info .").err, "NOTE: ./config.json names code of its own (auto_map), which train_gpt does not "
                                      "run: it computes what LlamaForCausalLM does\n"));
  Config own = small("llama").config;
  own.logit_cap = 3;
  const Model model(own, false);
  write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
  CHECK(!contains(f.run("info .").err, "NOTE"));
}

TEST_CASE("a config.json that says two things is refused", "[formats]") {
  const Folder f;
  const auto with = [&](const std::string& preset, const json& more) {
    write_small(f, preset, more);
    return refusal_of(f.path("."));
  };
  const json linear = {{"type", "linear"}, {"factor", 4}};
  CHECK(contains(with("llama", {{"rope_scaling", linear}}), "rope_scaling is another than rope_parameters"));
  CHECK(with("llama", {{"rope_scaling", linear}, {"rope_parameters", nullptr}}) == "");
  CHECK(contains(with("llama", {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}), "differs between"));
  CHECK(contains(with("gpt2", {{"scale_attn_weights", nullptr}}), "scale_attn_weights is null"));
  CHECK(contains(with("llama", {{"rope_theta", 7}}), "rope_theta is 7, and rope_parameters has 10000.0: remove"));
  CHECK(contains(with("gpt-neox", {{"rotary_pct", .5}}), "rotary_pct is 0.5, and rope_parameters has 0.25: remove"));
  const json share = {{"partial_rotary_factor", .4}};
  CHECK(contains(with("phi-2", {{"rope_parameters", share}, {"partial_rotary_factor", nullptr}}), "rotates 3 of 8"));
  const json half = {{"rope_type", "linear"}, {"factor", 4}, {"partial_rotary_factor", .5}};
  CHECK(contains(with("llama", {{"rope_parameters", half}}), "partial_rotary_factor is not 1 in a class"));
  CHECK(contains(with("gpt2", {{"num_attention_heads", 1}}), "num_attention_heads is another than n_head: remove"));
  CHECK(contains(with("mixtral", {{"num_experts", 3}}), "num_experts is another than num_local_experts"));
  CHECK(with("llama", {{"attention_bias", nullptr}, {"rope_scaling", nullptr}}) == "");
}

TEST_CASE("the ways to stretch RoPE are read as transformers reads them, and written", "[formats]") {
  const Folder f;
  const auto read = [&](const std::string& preset, const json& more) {
    const json file = write_small(f, preset, more);
    const Config c = open_huggingface(f.path("."))->config();
    write_huggingface(f.path("."), {Model(c, false), Tokenizer::bytes(), "", "f32"});
    const Config again = open_huggingface(f.path("."))->config();
    CHECK(parse_json(f.read("config.json")).at("model_type") == file.at("model_type"));
    CHECK(RopeTables(c).all.half == RopeTables(again).all.half);
    CHECK(rope_frequencies(c.rope_dims(), RopeAngles(c)) == rope_frequencies(c.rope_dims(), RopeAngles(again)));
    CHECK(again.rope_magnitude == c.rope_magnitude);
    CHECK(again.window_rope_theta == c.window_rope_theta);
    CHECK(again.rope_layers == c.rope_layers);
    CHECK(again.window_layers == c.window_layers);
    return c;
  };
  const auto scaled = [&](const json& values) { return read("llama", {{"rope_parameters", values}}); };

  // As in config.json of Phi-3-mini-128k, whose first version has the name "su".
  for (const char* name : {"longrope", "su"}) {
    const json longrope = {{"type", name}, {"short_factor", {1.0, 1.25, 2, 3}}, {"long_factor", {2, 4, 8.5, 9}}};
    const Config c = read("llama", {{"rope_parameters", nullptr}, {"rope_scaling", longrope},
                                    {"original_max_position_embeddings", 4}, {"max_position_embeddings", 16}});
    CHECK(c.rope_scaling == RopeScaling::longrope);
    CHECK(c.rope_short == "1.0,1.25,2,3");
    CHECK(c.rope_long == "2,4,8.5,9");
    CHECK(c.rope_factor == 4);
    CHECK(*c.rope_magnitude == Approx(std::sqrt(2)));
  }

  // As in Llama 3.2 1B's config.json, which transformers 4 wrote.
  Config c = read("llama", {{"rope_parameters", nullptr}, {"rope_theta", 500000.0},
                            {"rope_scaling", {{"factor", 32.0}, {"high_freq_factor", 4.0}, {"low_freq_factor", 1.0},
                                              {"original_max_position_embeddings", 8192}, {"rope_type", "llama3"}}}});
  CHECK(c.rope_scaling == RopeScaling::llama3);
  CHECK(c.rope_theta == 500000);
  CHECK(c.rope_factor == 32);
  CHECK(c.rope_original == 8192);
  CHECK(c.rope_slow == 1);
  CHECK(c.rope_fast == 4);
  CHECK(c.rope_magnitude == 1);

  c = scaled({{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}});
  CHECK(c.rope_fast == 32);
  CHECK(c.rope_original == 64);
  CHECK(*c.rope_magnitude == .1 * std::log(4.) + 1);
  c = scaled({{"type", "yarn"}, {"factor", 4}, {"mscale", .5}, {"mscale_all_dim", 2}});
  CHECK(c.rope_original == c.context);
  CHECK(*c.rope_magnitude == Approx((.05 * std::log(4.) + 1) / (.2 * std::log(4.) + 1)).epsilon(1e-12));
  CHECK(scaled({{"rope_type", "yarn"}, {"factor", 4}, {"attention_factor", 1.25}}).rope_magnitude == 1.25);
  CHECK(scaled({{"rope_type", "linear"}, {"factor", 4}}).rope_factor == 4);
  CHECK(scaled({{"rope_type", "dynamic"}, {"factor", 4}}).rope_scaling == RopeScaling::dynamic);

  const json part = {{"rope_type", "linear"}, {"factor", 2}, {"partial_rotary_factor", .25}};
  for (const char* preset : {"gpt-neox", "phi-2"})
    CHECK(read(preset, {{"rope_parameters", part}, {"rotary_pct", nullptr}, {"partial_rotary_factor", nullptr},
                        {"hidden_size", 32}}).rope_factor == 2);

  // As transformers 4 wrote Gemma 3, and as version 5 does.
  c = read("gemma3", {{"rope_parameters", nullptr}, {"rope_theta", 5e5}, {"rope_local_base_freq", 2e4},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}}, {"layer_types", nullptr},
                      {"sliding_window_pattern", 2}});
  CHECK(c.rope_theta == 5e5f);
  CHECK(c.window_rope_theta == 2e4);
  CHECK(c.rope_factor == 8);
  CHECK(c.window_layers == "1 of 2");
  c = read("gemma3", {{"rope_parameters", nullptr}});
  CHECK(c.rope_theta == 1e6f);
  CHECK(c.window_rope_theta == 1e4);
}

namespace {

// The model of a small config.json of this class, with more keys.
Config read(const char* type, const json& more) {
  json file = {{"model_type", type},     {"num_hidden_layers", 4}, {"num_layers", 4}, {"num_attention_heads", 2},
               {"num_heads", 2},         {"hidden_size", 8},       {"vocab_size", 11}, {"intermediate_size", 12},
               {"num_key_value_heads", 2}, {"max_position_embeddings", 16}};
  file.update(more);
  return config_of(*find_architecture(file), file);
}
std::string refused(const char* type, const json& more) {
  return message_of<std::runtime_error>([&] { read(type, more); });
}

}  // namespace

TEST_CASE("keys that only some classes read are read, or refused", "[formats]") {
  const json yarn = {{"rope_type", "yarn"}, {"rope_theta", 500.0}, {"factor", 4.0},
                     {"original_max_position_embeddings", 8}};
  CHECK(*read("llama", {{"rope_parameters", yarn}}).rope_magnitude > 1.1);
  CHECK(read("nanochat", {{"rope_parameters", yarn}}).rope_magnitude == 1);  // a norm follows RoPE
  CHECK(contains(refused("phi3", {{"rope_parameters", yarn}}), "rope_type is not longrope"));
  CHECK(contains(refused("gpt_oss", {{"rope_scaling", json::object()}}), "rope_parameters is missing"));
  CHECK(contains(refused("gemma3_text", {{"attn_logit_softcapping", 2.0}}), "attn_logit_softcapping is 2.0"));
  CHECK(read("gemma2", {{"attn_logit_softcapping", 2.0}}).attention_cap == 2);
  const char *full = "full_attention", *sliding = "sliding_attention";
  CHECK(read("mistral", {{"sliding_window", 5}}).window_layers == "all");
  CHECK(read("mistral", {{"sliding_window", 5}, {"layer_types", {sliding, full, sliding, full}}}).window_layers ==
        "1 of 2");
  CHECK(read("hyperclovax", json::object()).placement == "sandwich");
  CHECK(read("hyperclovax", {{"use_post_norm", false}}).placement == "pre");
  CHECK(*read("hyperclovax", {{"attention_multiplier", nullptr}}).attention_scale == .5);  // D^-½
}

TEST_CASE("the lists of layers in SmolLM3's and GPT-Neo's config.json are read, or refused", "[formats]") {
  CHECK(read("smollm3", json::object()).rope_layers == "3 of 4");
  CHECK(read("smollm3", {{"no_rope_layer_interval", 2}}).rope_layers == "1 of 2");
  CHECK(read("smollm3", {{"no_rope_layers", {0, 1, 1, 0, 1}}}).rope_layers == "last 2 of 3");
  CHECK(contains(refused("smollm3", {{"no_rope_layers", {1, 1}}}), "no_rope_layers is not a list of 4 layers"));
  CHECK(contains(refused("smollm3", {{"layer_types", {"sliding_attention"}}}), "layer_types is not full_attention"));

  const auto types = [](const json& list, int times) { return json{{"attention_types", {{list, times}}}}; };
  CHECK(read("gpt_neo", types({"global", "local"}, 2)).window_layers == "last 1 of 2");
  CHECK(read("gpt_neo", types({"global"}, 4)).window_layers == "none");
  CHECK(read("gpt_neo", types({"local", "global", "global", "local"}, 1)).window_layers == "1 of 3");
  CHECK(contains(refused("gpt_neo", json::object()), "attention_types is not a list of 4 layers"));  // 24 by default
  CHECK(contains(refused("gpt_neo", types({"global", "local"}, 1 << 30)), "is not a list of 4 layers"));
  CHECK(contains(refused("gpt_neo", types({"global", "banded"}, 2)), "attention_types has \"banded\""));
  CHECK(contains(refused("gpt_neo", {{"attention_types", {1, 2}}}), "another form"));
  CHECK(contains(refused("gpt_neo", types(json::array(), 1 << 30)), "another form"));  // at once
  json two = types({"global", "local"}, 2);
  two["attention_layers"] = {"global", "global", "local", "local"};
  CHECK(contains(refused("gpt_neo", two), "attention_layers is another list than attention_types"));
}

TEST_CASE("a config.json of a model that sees later tokens is refused", "[formats]") {
  const Folder f;
  for (const Architecture& row : architectures()) {
    json file = {{"model_type", row.model_type}};
    file.update(row.variant);
    for (const auto& [key, value] : {std::pair{"is_causal", false}, {"use_bidirectional_attention", true}}) {
      json other = file;
      other[key] = value;
      CHECK(contains(message_of<std::runtime_error>([&] { config_of(row, other); }), std::string(key) + " is "));
    }
  }
}

TEST_CASE("a config.json may have the names of other versions", "[formats]") {
  const auto renamed = [](const std::string& preset, const std::vector<std::pair<std::string, std::string>>& names) {
    const Expressed as = expressed(small(preset).config);
    const json whole = config_json(as.architecture, as.config);
    json file = whole;
    for (const auto& [name, other] : names) {
      file[other] = file.at(name);
      file.erase(name);
    }
    return config_json(as.architecture, config_of(as.architecture, file)) == whole;
  };
  CHECK(renamed("gpt2", {{"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"},
                         {"n_embd", "hidden_size"}, {"n_positions", "max_position_embeddings"}}));
  CHECK(renamed("bloom", {{"hidden_size", "n_embed"}, {"n_head", "num_attention_heads"}}));
  CHECK(renamed("falcon-7b", {{"hidden_size", "n_embed"}}));
  json gemma = config_json(*find_architecture({{"model_type", "gemma"}}), small("gemma2").config);
  gemma["hidden_act"] = "gelu";  // as it was published; transformers takes the tanh form, too
  CHECK_NOTHROW(config_of(*find_architecture(gemma), gemma));
}

TEST_CASE("a stored head that is not the embedding it is tied to is refused", "[formats]") {
  const Folder f;
  Config c = small("llama").config;
  c.tied = false;
  Model model = randomized(c);
  const auto loads = [&] {
    write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
    json file = parse_json(f.read("config.json"));
    file["tie_word_embeddings"] = true;
    f.write("config.json", to_text(file));
    const std::unique_ptr<ForeignModel> from = open_huggingface(f.path("."));
    Model loaded(from->config(), false);
    return message_of<std::runtime_error>([&] { from->load(loaded); });
  };
  CHECK(contains(loads(), "holds another lm_head.weight than the tensor that it repeats"));
  const auto named = [&](const char* name) {
    return *std::find_if(model.table.begin(), model.table.end(), [&](const auto& t) { return t.name == name; });
  };
  const TensorSpec head = named("head.weight"), embedding = named("embedding.token.weight");
  std::copy_n(model.weights.get() + embedding.offset, embedding.size(), model.weights.get() + head.offset);
  CHECK(loads() == "");
}

TEST_CASE("AutoTokenizer puts the token before a text that sample puts there", "[formats]") {
  const Corpus f;
  BpeTables tables;
  tables.tokens = byte_tokens();
  tables.tokens.push_back("<s>");
  tables.special.push_back({256, "<s>"});
  tables.begin = 256;
  f.write("my.json", to_json(Bpe(tables)));
  const std::string train = "train stories.txt --preset llama2 --tokenizer my.json --steps 1" + kTiny;
  REQUIRE(f.run(train + "--out without").status == 0);
  REQUIRE(f.run(train + "--out with --document-separator <s>").status == 0);
  for (const std::string run : {"with", "without"}) {
    const std::string folder = run + "_folder";
    REQUIRE(f.run("export " + run + " --to hf --out " + folder).status == 0);
    const bool begins = run == "with";
    CHECK(parse_json(f.read(folder + "/tokenizer.json"))["post_processor"].is_object() == begins);
    CHECK(parse_json(f.read(folder + "/tokenizer_config.json")).contains("bos_token") == begins);
    CHECK(parse_json(f.read(folder + "/config.json"))["bos_token_id"] == (begins ? json(256) : json()));
    const std::string sample = " --greedy --length 20 --prompt fox";
    CHECK(f.run("sample " + folder + sample).out == f.run("sample " + run + sample).out);
  }
}

TEST_CASE("an exported model that is imported is the run again", "[formats]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --preset llama2 --steps 2 --out run" + kTiny).status == 0);
  REQUIRE(f.run("export run --to hf --out folder").status == 0);
  const Outcome o = f.run("import folder --out back");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "back: folder of Hugging Face's transformers, llama"));
  CHECK(same_bits(last_weights(f, "back"), last_weights(f, "run")));
  CHECK(f.run("train stories.txt --init-from back --steps 1 --out tuned --quiet").status == 0);
  check_refused(f, "import folder --out back", "back");
  REQUIRE(f.has("folder/tokenizer.json"));
  REQUIRE(f.run("train stories.txt --tokenizer char --preset llama2 --steps 1 --out letters" + kTiny).status == 0);
  REQUIRE(f.run("export letters --out folder --force").status == 0);
  CHECK(f.run("train stories.txt --tokenizer ./folder --preset llama2 --steps 1 --out letters2" + kTiny).status == 0);
  check_refused(f, "import stories.txt --out other", "stories.txt is no model that train_gpt reads");
  check_refused(f, "import nothing --out other", "there is no file or folder nothing");
  CHECK(!f.has("other"));

  const Outcome measured = f.run("eval run --data stories.txt --json --threads 1");
  const json result = parse_json(measured.out);
  CHECK(result["tokens"].get<size_t>() > 59000);
  CHECK(result["nats"].get<double>() == result["loss"].get<double>() * result["tokens"].get<double>());
  CHECK(result["bits_per_byte"].get<double>() == Approx(result["loss"].get<double>() / std::log(2.)));
  CHECK(contains(f.run("eval run --data stories.txt --threads 1").out,
                 "loss " + std::to_string(result["loss"].get<double>()).substr(0, 5)));
}

TEST_CASE("a model without a tokenizer reads token files", "[formats]") {
  const Corpus f;
  f.must("train stories.txt --tokenizer bpe:300 --preset llama2 --steps 1 --out run" + kTiny);
  f.must("export run --to hf --out hf");
  f.must("tokenize stories.txt --tokenizer ./hf --out tokens");
  const auto result = [&](const std::string& of) {
    const Outcome o = f.run("eval " + of + " --data tokens/train_000000.bin --threads 1");
    INFO(o.err);
    REQUIRE(o.status == 0);
    return lines_of(o.out).at(1).substr(0, 20);
  };
  const std::string loss = result("hf"), no_text = ": this model reads token files only, no text";
  const std::string lacks = "hf has no tokenizer (copy a tokenizer.json into it)";
  for (const char* file : {"hf/tokenizer.json", "hf/tokenizer_config.json", "hf/generation_config.json"})
    fs::remove(f.path(file));
  CHECK(result("hf") == loss);
  CHECK(contains(f.run("eval hf --data tokens/train_000000.bin").err,
                 "NOTE: " + lacks + ": the model reads token files only, no text"));
  f.must("train tokens/train_000000.bin --init-from hf --lr 0 --warmup 0 --steps 1 --eval-every 0 --quiet --out tuned");
  f.must("train --resume --out tuned --steps 2");
  f.must("export tuned --to hf --out back");
  CHECK_FALSE(f.has("back/tokenizer.json"));
  CHECK(weights_in(f.path("back")) == weights_in(f.path("hf")));
  for (const char* words : {"eval tuned --data stories.txt", "sample tuned", "export tuned --to gguf --out m.gguf",
                            "train stories.txt --init-from tuned --steps 1 --out x"})
    check_refused(f, words, lacks + no_text);
}

TEST_CASE("a run is exported, and its folder is a checkpoint", "[formats]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --tokenizer char --preset llama2 --steps 3 --out run" + kTiny).status == 0);
  const Outcome exported = f.run("export run --out hf");
  INFO(exported.err);
  REQUIRE(exported.status == 0);
  CHECK(contains(exported.out, "hf: LlamaForCausalLM of transformers, "));
  check_refused(f, "export run --out hf", "hf is not empty: choose another --out, or overwrite it with --force");
  CHECK(same_bits(weights_in(f.path("hf")), last_weights(f, "run")));
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
  json config = parse_json(f.read("hf/config.json"));
  config.erase("train_gpt_tokenizer");
  f.write("hf/config.json", to_text(config));
  CHECK(loss("hf") == loss("run"));  // by tokenizer.json
  fs::remove(f.path("hf/tokenizer.json"));
  CHECK(contains(f.run("eval hf --data stories.txt").err, "train_gpt: hf has no tokenizer (copy a tokenizer.json"));
  REQUIRE(f.run("train stories.txt --placement deepnorm --steps 1 --out deepnorm" + kTiny).status == 0);
  const Outcome own = f.run("export deepnorm --out own");
  CHECK(contains(own.out, "own: TrainGPTForCausalLM of modeling_train_gpt.py"));
  CHECK(loss("own") == loss("deepnorm"));
}
