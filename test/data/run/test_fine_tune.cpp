// Fine-tuning: frozen tensors, learning rates of norms, and weights of a model with other norms.

#include "data/run/fine_tune.hpp"
#include "data/run/step_inputs.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "catch.hpp"
#include "check.hpp"
#include "data/files/files.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"
#include "layers/textbook/step.hpp"
#include "layers/training/step.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace {

Config tiny(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.n_layer = 2, c.channels = 8, c.n_head = 2, c.hidden = 16, c.context = 16, c.vocab_size = 256;
  return resolve(c);
}

std::vector<std::string> trained_names(const std::vector<TensorSpec>& table) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : table)
    if (spec.trained) names.push_back(spec.name);
  return names;
}

// The tensors of a checkpoint, by name.
std::map<std::string, std::vector<float>> tensors_of(const std::string& path) {
  const TrainedModel trained = load_trained_model(path);
  std::map<std::string, std::vector<float>> tensors;
  for (const TensorSpec& spec : trained.model.table) {
    const float* at = trained.model.weights.get() + spec.offset;
    tensors[spec.name].assign(at, at + spec.size());
  }
  return tensors;
}

}  // namespace

TEST_CASE("tensors are chosen for training by their names", "[tune]") {
  const Model model(tiny("gpt2"), false);
  TrainOptions o;
  const auto chosen = [&] {
    std::vector<TensorSpec> table = model.table;
    choose_trained(table, o);
    return trained_names(table);
  };
  CHECK(chosen().size() == model.table.size());
  o.train_only = "norm";
  for (const std::string& name : chosen()) CHECK(contains(name, "norm"));
  CHECK(chosen().size() == 2 * 2 * 2 + 2);
  o.freeze = "block\\.0";
  CHECK(chosen().size() == 2 * 2 + 2);
  o.train_only = "";
  for (const std::string& name : chosen()) CHECK(!contains(name, "block.0."));
  const auto refusal = [&] { return message_of<std::invalid_argument>([&] { chosen(); }); };
  o.freeze = "(";
  CHECK(contains(refusal(), "--freeze '(' is not a regular expression: "));
  CHECK(contains(refusal(), " after character 1"));
  o.freeze = "nothing";
  CHECK(contains(refusal(), "--freeze nothing matches no tensor"));
  o.freeze = ".";
  CHECK(contains(refusal(), "leaves nothing to train"));
}

TEST_CASE("sinks and the projections of a narrow embedding are chosen by their names", "[tune]") {
  Config c = tiny("gpt2");
  c.attention_sinks = true;
  c.embedding_channels = 3;
  const Model model(c, false);
  TrainOptions o;
  const auto chosen = [&] {
    std::vector<TensorSpec> table = model.table;
    choose_trained(table, o);
    return trained_names(table);
  };
  const auto names = [&](const std::string& pattern) {
    o.train_only = pattern;
    return chosen();
  };
  CHECK(names("sinks") == std::vector<std::string>{"block.0.attention.sinks", "block.1.attention.sinks"});
  CHECK(names("project") == std::vector<std::string>{"embedding.project.weight", "head.project.weight"});
  o.train_only = "";
  o.freeze = "embedding|head";
  for (const std::string& name : chosen()) CHECK(!contains(name, "project"));
}

TEST_CASE("patterns of ECMAScript choose what they say", "[tune]") {
  const Model model(tiny("gpt2"), false);
  const auto count = [&](const std::string& pattern) {
    std::vector<TensorSpec> table = model.table;
    TrainOptions o;
    o.train_only = pattern;
    choose_trained(table, o);
    return trained_names(table).size();
  };
  const size_t all = model.table.size(), block = count("^block\\.0\\.");
  CHECK(block == (all - count("^(?!block)")) / 2);
  CHECK(count("^block.1.(?=attention|ffn|norm)") == block);
  CHECK(count("^[^]*\\u002e[\\d][.](\\w|[[:punct:]])*$") == 2 * block);  // [^] is any character
  CHECK(count("([])|^block\\x2e[0-0]") == block);                          // [] is none
  CHECK(count("^(x)?\\1block\\.\\d\\b") == 2 * block);                      // a group that matched nothing
  CHECK(count("^(?:block){1,2}?\\W1\\W(.*)") == block);
  CHECK(count("embedding|_norm") == count("(embedding)|(_norm)"));
}

TEST_CASE("a pattern that takes too long is refused, wherever it comes from", "[tune][program][long]") {
  const Folder f;
  f.write("t.txt", std::string(3000, 'a') + "\n");
  const std::string deep = std::string(20000, '(') + "x" + std::string(20000, ')');
  const std::string nested = std::string(300, '(') + "x" + std::string(300, ')');
  const std::string command = "train t.txt --dry-run --steps 2" + kTiny;
  for (const char* option : {"freeze", "train-only"})
    for (const auto& [pattern, message] :
         {std::pair<std::string, const char*>{deep, "' has 40001 characters: write at most 10000"},
          {nested, "' is not a regular expression: "},
          {"(.*.*)*.*.*.*.*.*.*.*[yz]$", "; write a simpler pattern"},
          {"((.?)*)*[yz]", "; write a simpler pattern"},
          {"(.+)+(.+)+[yz]", "; write a simpler pattern"},
          {"(((((a{1000}){1000}){1000}){1000}){1000})", "' is not a regular expression: "}}) {
      check_refused(f, command + " --" + option + " " + pattern, message);
      f.write("c.toml", std::string(option) + " = \"" + pattern + "\"\n");
      check_refused(f, command + " --config c.toml", message);
    }
}

TEST_CASE("the learning rate of norms is a factor on the others'", "[tune]") {
  Model model(tiny("gpt2"), false);
  TrainOptions o;
  o.rate.lr = .5;
  o.lr_norm = .125;
  choose_trained(model.table, o);
  for (const TensorSpec& spec : model.table) CHECK(spec.rate == (contains(spec.name, "norm") ? .25f : 1));

  o.lr_vector = .25, o.lr_embedding = 1;
  choose_trained(model.table, o);
  for (const TensorSpec& spec : model.table)
    CHECK(spec.rate == (contains(spec.name, "norm") ? .25f : contains(spec.name, "bias") ? .5f
                        : contains(spec.name, "embedding") ? 2 : 1));
  Config untied = tiny("gpt2");
  untied.tied = false;
  Model other(untied, false);
  TrainOptions head;
  head.rate.lr = .5, head.lr_head = .125;
  choose_trained(other.table, head);
  for (const TensorSpec& spec : other.table)
    CHECK(spec.rate == (spec.role == Role::classifier && spec.shape.size() == 2 ? .25f : 1));
  o.lr_vector.reset(), o.lr_embedding.reset();
  for (TensorSpec& spec : model.table) spec.rate = 1;
  choose_trained(model.table, o);

  // Decay has the inverse of a parametrization's factor on the rate, and a rate that is given has none.
  TrainOptions wide;
  wide.config = tiny("gpt2");
  wide.config.parametrization = Parametrization::mup, wide.config.base_channels = 4;
  wide.config = resolve(wide.config);
  wide.optimizer = &run_optimizer("sgd"), wide.rate.lr = .5;
  const auto decay_of_embedding = [&] {
    std::vector<TensorSpec> table = Model(wide.config, false).table;
    choose_trained(table, wide);
    return std::pair(table[0].rate, table[0].decay_factor);
  };
  CHECK(decay_of_embedding() == std::pair(2.f, .5f));
  wide.lr_embedding = .5;
  CHECK(decay_of_embedding() == std::pair(1.f, 1.f));

  // The first step of AdamW moves a weight by its learning rate.
  std::vector<float> w(model.floats), state(state_floats(model.table)), g(w.size(), 1.f);
  kAdamW.update({w.data(), state.data(), g.data()}, model.table, {.eps = 0, .weight_decay = 0}, {.5f, 1, 1});
  for (const TensorSpec& spec : model.table)
    CHECK(w[spec.offset] == Approx(contains(spec.name, "norm") ? -.125 : -.5));
}

// Returns the weights after three steps, with or without gradients of frozen matrices.
std::vector<float> trained_weights(const StepFunctions& functions, const std::string& train_only,
                                   bool frozen_gradients) {
  const Config config = tiny("gpt2");
  Model model(config, frozen_gradients);
  initialize(model, 1);
  TrainOptions o;
  o.train_only = train_only;
  choose_trained(model.table, o);
  if (!frozen_gradients) allocate_gradients(model);
  TrainingState s(std::move(model), 2, 16, functions);
  const std::vector<int> tokens = random_ints(4 * 2 * 16, 1, 256), targets = random_ints(4 * 2 * 16, 2, 256);
  for (int step = 0; step < 3; ++step)
    training_step(s, micro_batches({tokens.data(), targets.data(), 8, 16}, 4), {}, step, .01);
  return {s.model.weights.get(), s.model.weights.get() + s.model.floats};
}

TEST_CASE("a frozen classifier leaves the gradient of the token embedding as it is", "[tune]") {
  const std::vector<int> tokens = random_ints(32, 1, 256), targets = random_ints(32, 2, 256);
  for (const bool fix_norm : {false, true}) {
    Config config = tiny("gpt2");
    config.tied = false, config.fix_norm = fix_norm;
    const auto gradient_of_token = [&](const std::string& frozen) {
      Model model(config);
      initialize(model, 7);
      TrainOptions o;
      o.freeze = frozen;
      choose_trained(model.table, o);
      allocate_gradients(model);
      const Activations activations = allocate_activations(model.config, 2, 16, true);
      model_loss_and_gradients(model, activations, {tokens.data(), targets.data(), 2, 16}, 1.f, {});
      return std::vector<float>(model.g.token.data, model.g.token.data + 256 * 8);
    };
    CHECK(same_bits(gradient_of_token("^head.weight"), gradient_of_token("")));
  }
}

TEST_CASE("matrices that do not train have neither gradients nor optimizer state", "[tune]") {
  Model model(tiny("gpt2"), false);
  TrainOptions o;
  o.train_only = "norm|attention.q.weight";
  choose_trained(model.table, o);
  allocate_gradients(model);
  CHECK(model.g.token == nullptr);
  CHECK(model.g.blocks[1].ffn.up.weight == nullptr);
  CHECK(model.g.blocks[1].attention.qkv.weight != nullptr);  // q, k and v are one product
  CHECK(model.gradient_floats < model.floats / 2);
  const MemoryNeed need =
      memory_of_training(model.config, 2, model.table, state_floats(model.table), scratch_floats(model.table));
  CHECK(need.gradients == model.gradient_floats * sizeof(float));
  size_t trained = 0;
  for (const TensorSpec& spec : model.table) trained += spec.trained ? round_up(spec.size(), 16) : 0;
  CHECK(need.moments == 2 * trained * sizeof(float));
  const TrainingState s(std::move(model), 2, 16);
  for (const TensorSpec& spec : s.model.table) {
    const bool joined = contains(spec.name, "attention.k.") || contains(spec.name, "attention.v.");
    CHECK((spec.gradient == kNoGradient) == (!spec.trained && spec.shape.size() == 2 && !joined));
  }

  for (const char* what : {"norm", "ffn", "attention.o", "embedding"})
    CHECK(same_bits(trained_weights(kFastStep, what, false), trained_weights(kFastStep, what, true)));
  CHECK(same_bits(trained_weights(kTextbookStep, "norm|up", false), trained_weights(kTextbookStep, "norm|up", true)));
}

TEST_CASE("a checkpoint holds optimizer state for what trains, and a run resumes only with all of it", "[tune]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 2 --train-only norm --out r" + kTiny).status == 0);
  const std::string path = f.path("r/checkpoint.safetensors");
  CHECK(contains(read_file(path), "\"optimizer.exp_avg.final_norm.gain\""));
  CHECK(!contains(read_file(path), "\"optimizer.exp_avg.embedding.token.weight\""));
  Model whole(read_checkpoint_header(path).options.config);
  assign_optimizers(whole.table, kAdamWAlone);
  Buffer state = allocate(state_floats(whole.table));
  CHECK(message_of<std::runtime_error>([&] { load_checkpoint(path, whole, &state); }) ==
        path + " lacks the optimizer state of tensors that train");
}

TEST_CASE("tensors match by name, and only norms may differ", "[tune]") {
  const auto table_of = [](const Config& c) { return Model(resolve(c), false).table; };
  const std::vector<TensorSpec> stored = table_of(tiny("gpt2"));
  const auto match = [&](const Config& c) { return match_tensors(table_of(c), stored, "there"); };
  Config c = tiny("gpt2");
  c.norm = NormKind::rmsnorm;
  c.norm_bias.reset();
  const Match rms = match(c);
  CHECK(rms.note == "dropped 5 tensors of norms (block.0.attention.norm_in.bias, ...)");
  CHECK(rms.equal.size() == stored.size() - 5);
  CHECK(rms.lacking.empty());

  c.placement = "sandwich";
  const Match sandwich = match(c);
  CHECK(contains(sandwich.note, "; 4 tensors of norms ("));
  CHECK(sandwich.lacking.size() == 4);
  CHECK(sandwich.equal.size() == rms.equal.size());
  CHECK(match(tiny("gpt2")).note == "");
  const auto refusal = [&](const Config& config) {
    return message_of<std::runtime_error>([&] { match(config); });
  };
  Config wide = tiny("gpt2"), no_positions = tiny("gpt2"), deep = tiny("gpt2"), longer = tiny("gpt2");
  wide.hidden = 32, no_positions.position = Position::none, deep.n_layer = 3, longer.context = 32;
  CHECK(contains(refusal(wide), "expected block.0.ffn.up.weight (32, 8), found block.0.ffn.up.weight (16, 8)"));
  CHECK(refusal(no_positions) ==
        "there does not fit this model: expected no further tensor, found embedding.position.weight (16, 8)");
  CHECK(contains(refusal(deep), "found no such tensor"));
  CHECK(contains(refusal(longer), "embedding.position.weight (32, 8), found embedding.position.weight (16, 8)"));

  Config shorter = tiny("gpt2");
  shorter.context = 4;
  const Match cut = match(shorter);
  CHECK(cut.note == "");
  REQUIRE(cut.cut.size() == 1);
  CHECK(cut.cut[0].name == "embedding.position.weight");
  CHECK(cut.equal.size() == stored.size() - 1);
}

TEST_CASE("the context of --init-from is the longest that takes half of the memory", "[tune]") {
  TrainOptions o;
  o.config = tiny("gpt2");
  o.config.context = 1000;
  const size_t need = memory_of_run(o).total();
  CHECK(fitting_context(o, 2 * need) == 1000);
  CHECK(fitting_context(o, 2 * need - 2) == 500);
  o.config.context = 500;
  const size_t half = memory_of_run(o).total();
  o.config.context = 1000;
  CHECK(fitting_context(o, 2 * half) == 500);
  CHECK(fitting_context(o, 2 * half - 2) == 250);
  CHECK(fitting_context(o, 1) == 62);
  CHECK(fitting_context(o, 0) == 1000);  // nobody knows how much there is
}

TEST_CASE("a run with --init-from says by which options its model is another one", "[tune][program]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2 --lora 2 --out adapted" + kSmall).status == 0);
  const auto note_on = [&](const std::string& more) {
    const Outcome o = f.run("train stories.txt --init-from adapted --steps 2 --dry-run --lr 0.1 --context 16 " + more);
    INFO(more << o.err);
    REQUIRE(o.status == 0);
    const std::string begin = "NOTE     these options change what the weights compute: ";
    const size_t at = o.out.find(begin);
    return at == std::string::npos ? "" : o.out.substr(at + begin.size(), o.out.find('\n', at) - at - begin.size());
  };
  CHECK(note_on("") == "");
  CHECK(note_on("--dropout 0.5 --z-loss 0.1 --norm-decay 0.1") == "");
  CHECK(note_on("--norm-unit-offset") == "--norm-unit-offset is false there and true here");
  CHECK(note_on("--lora-alpha 64") == "--lora-alpha is 16 there and 64 here");
  CHECK(note_on("--lora 0") == "");  // merges
  CHECK(note_on("--lora 0 --parametrization mup --base-channels 16") == "");  // factors stay as they came
  CHECK(note_on("--lora 0 --norm-eps 0.1 --logit-scale 2") ==
        "--logit-scale is 1 there and 2 here; --norm-eps is 1e-05 there and 0.1 here");
}

TEST_CASE("the rate of --init-from follows from the width, unless the user says one", "[tune][program][long]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2 --out first" + kSmall).status == 0);
  const std::string tune = "train stories.txt --init-from first --steps 1 --warmup 0 --quiet --eval-every 0 --force ";
  const std::string note = "NOTE     --lr is ", context = "NOTE     --context is 32, the model's\n";
  const auto rate_of = [&](const std::string& more) {
    const Outcome o = f.run(tune + "--out tuned " + more);
    INFO(more << o.err);
    REQUIRE(o.status == 0);
    CHECK(contains(o.out, note) == !contains(more, "--lr"));
    CHECK(contains(o.out, context) == !contains(more, "--context"));
    return read_checkpoint_header(f.path("tuned/checkpoint.safetensors")).options.rate.lr;
  };
  CHECK(rate_of("") == .00094);  // 0.03 / 32
  CHECK(rate_of("--lora 2") == .0094);
  CHECK(rate_of("--lr 0.003") == .003);
  CHECK(rate_of("--context 16") == .00094);
  const Outcome plan = f.run(tune + "--dry-run --lora 2");
  CHECK(contains(plan.out, note + "0.0094, for fine-tuning adapters: 0.3 / channels\n"));
  CHECK(contains(f.run(tune + "--dry-run").out, note + "0.00094, for fine-tuning a whole model: 0.03 / channels\n"));
  const Outcome more = f.run("train --out tuned --resume --steps 2");
  CHECK(more.status == 0);
  CHECK_FALSE(contains(more.out, "NOTE     --"));
  CHECK(contains(f.run("train --config tuned/config.toml --out again").out, "rate     0.00094,"));
  CHECK_FALSE(contains(f.run("train stories.txt --dry-run").out, note));
  const Outcome compared = f.run("compare stories.txt --init-from first --steps 2 --batch 2 --eval-batches 1 --out c "
                                 "--grid lora=0,2");
  INFO(compared.err);
  CHECK(compared.status == 0);
  CHECK(contains(compared.out, "NOTE: --lr is 0.00094, "));
  CHECK(contains(compared.out, "NOTE: --lr is 0.0094, "));
  CHECK_FALSE(contains(f.run("compare stories.txt --init-from first --grid lr=1e-3,1e-2 --dry-run").out, "--lr is "));
}

TEST_CASE("a run trains only what it was told to, and goes on so when resumed", "[tune]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2 --out first" + kTiny).status == 0);
  const std::string tune = "train stories.txt --init-from first --train-only norm --lr-norm 0.01 --steps 3 --warmup 0 "
                           "--out tuned --quiet --threads 1 --eval-every 0";
  const Outcome tuned = f.run(tune);
  INFO(tuned.err);
  REQUIRE(tuned.status == 0);
  CHECK(contains(tuned.out, "trains   48 of "));
  REQUIRE(f.run("train --out tuned --resume --steps 4").status == 0);
  const auto before = tensors_of(f.path("first/checkpoint.safetensors"));
  const auto after = tensors_of(f.path("tuned/checkpoint.safetensors"));
  for (const auto& [name, values] : before) {
    INFO(name);
    CHECK((values == after.at(name)) == !contains(name, "norm"));
  }
  check_refused(f, "train stories.txt --train-only wheel --steps 1 --out r" + kTiny,
                "--train-only wheel matches no tensor");
  check_refused(f, "train stories.txt --train-only norm --freeze embedding --steps 1 --out r" + kTiny,
                "--freeze embedding matches only tensors that do not train; ");
}

TEST_CASE("the selection bias of experts stays as it is where the router is frozen", "[tune][moe][lora]") {
  const Corpus f;
  f.must("train stories.txt --experts 3 --router-bias 0.03 --steps 3 --out first" + kTiny);
  const auto biases_of = [&](const std::string& run) {
    std::map<std::string, std::vector<float>> biases = tensors_of(f.path(run + "/checkpoint.safetensors"));
    std::erase_if(biases, [](const auto& tensor) { return !contains(tensor.first, "selection_bias"); });
    return biases;
  };
  REQUIRE(!biases_of("first").empty());
  for (const std::string how : {"--lora 2", "--freeze router", "--freeze norm"}) {
    INFO(how);
    f.must("train stories.txt --init-from first --steps 3 --quiet --force --out tuned " + how);  // odd: ups and downs
    CHECK((biases_of("tuned") == biases_of("first")) == (how != "--freeze norm"));
  }
}

TEST_CASE("--init-from warns of options that the user gave, not of those that the model has", "[tune][long]") {
  const Corpus f;
  const std::string tune = "train stories.txt --init-from first --steps 1 --warmup 0 --dry-run --out tuned --quiet ";
  for (const char* model : {"", "--placement layerscale --layer-scale-init .2", "--norm dyt --dyt-alpha .7",
                            "--norm gatednorm --gated-norm-rank 4",
                            "--preset llama2 --rope-theta 500", "--window 5 --window-every 2"}) {
    REQUIRE(f.run("train stories.txt --steps 1 --force --out first " + (model + kTiny)).status == 0);
    for (const char* other : {"", "--placement post", "--norm rmsnorm", "--window 0"}) {
      INFO(model << " and then " << other);
      CHECK(!contains(f.run(tune + other).out, "has no effect"));
    }
  }
  f.must("train stories.txt --parametrization mup --base-channels 4 --steps 1 --force --out first" + kTiny);
  const Outcome scaled = f.run(tune);
  REQUIRE(scaled.status == 0);
  CHECK(!contains(scaled.out, "takes the place of the parametrization's factor"));
  f.must("train stories.txt --steps 1 --force --out first" + kTiny);
  CHECK(contains(f.run(tune + "--layer-scale-init .3").out, "--layer-scale-init has no effect with --placement pre"));
  CHECK(contains(f.run(tune + "--init xavier --init-gain 2").out, "--init-gain has no effect with --init-from"));
}

TEST_CASE("a trained model goes on with another norm", "[tune]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2 --out first" + kTiny).status == 0);
  const std::string tune = "train stories.txt --init-from first --steps 1 --quiet --threads 1 --eval-every 0 --norm ";
  const Outcome rms = f.run(tune + "rmsnorm --out rms");
  INFO(rms.err);
  REQUIRE(rms.status == 0);
  CHECK(contains(rms.out, "WARNING  first: dropped 3 tensors of norms (block.0.attention.norm_in.bias, ...)"));
  const Outcome dyt = f.run(tune + "dyt --out dyt");
  CHECK(dyt.status == 0);
  CHECK(contains(dyt.out, " tensors of norms (block.0.attention.norm_in.alpha, ...) start new"));
  const Outcome gated = f.run(tune + "gatednorm --gated-norm-rank 2 --out gated");
  CHECK(contains(gated.out, " tensors of norms (block.0.attention.norm_in.down, ...) start new"));
  CHECK(!contains(f.run(tune + "layernorm --out same").out, "WARNING  first"));
}

TEST_CASE("a start takes what the file has, and draws the rest as a new run does", "[tune]") {
  const Corpus f;
  f.must("train stories.txt --steps 2 --out first" + kTiny);
  const std::string tune = " stories.txt --steps 1 --lr 0 --warmup 0 --quiet --threads 1 --eval-every 0 --seed 5 ";
  const std::string other = "--norm dyt --placement sandwich --context 8 ";
  const auto start = [&](const std::string& from, const std::string& more, const std::string& out) {
    f.must("train" + tune + "--init-from " + from + " " + more + " --out " + out);
    return tensors_of(f.path(out + "/checkpoint.safetensors"));
  };
  f.must("train" + tune + other + "--layers 1 --heads 1 --channels 8 --batch 2 --documents file --out new");
  const auto first = tensors_of(f.path("first/checkpoint.safetensors"));
  auto fresh = tensors_of(f.path("new/checkpoint.safetensors"));
  int drawn = 0;
  for (const auto& [name, values] : start("first", other, "dyt")) {
    INFO(name);
    const bool is_drawn = contains(name, "norm") && (!first.contains(name) || contains(name, "alpha"));
    drawn += is_drawn;
    const std::vector<float>& from = is_drawn ? fresh.at(name) : first.at(name);
    CHECK(values == std::vector<float>(from.begin(), from.begin() + static_cast<long>(values.size())));
  }
  CHECK(drawn > 5);

  const auto adapted = start("first", "--lora 2", "adapted");
  Model model(read_checkpoint_header(f.path("adapted/checkpoint.safetensors")).options.config, false);
  initialize(model, 5);
  const TensorSpec& a = *std::ranges::find(model.table, "block.0.attention.qkv.lora_a", &TensorSpec::name);
  CHECK(adapted.at(a.name) == read_floats(a, model.weights.get()));
}

TEST_CASE("adapters are added to floats, whatever numbers the model has", "[tune][lora]") {
  const Corpus f;
  f.must("train stories.txt --steps 2 --out first" + kTiny);
  const std::string tune = "train stories.txt --steps 1 --warmup 0 --quiet --threads 1 --eval-every 0 ";
  f.must(tune + "--init-from first --lora 2 --lora-on q,v,up --lr 0.1 --out adapted");
  f.must(tune + "--init-from adapted --lora 0 --lr 0 --out whole");
  f.must(tune + "--init-from adapted --lora 0 --lr 0 --train-only norm --frozen-weights bf16 --out small");
  const auto first = tensors_of(f.path("first/checkpoint.safetensors"));
  const auto whole = tensors_of(f.path("whole/checkpoint.safetensors"));
  for (const auto& [name, values] : tensors_of(f.path("small/checkpoint.safetensors"))) {
    INFO(name);
    std::vector<float> want = whole.at(name);
    const std::string matrix = name.substr(name.find('.', 6) + 1);
    const bool is_adapted = matrix.starts_with("ffn.up.w") || (matrix.starts_with("attention.") &&
                            matrix.ends_with(".weight") && matrix != "attention.o.weight");  // q, k and v share one
    CHECK((want != first.at(name)) == is_adapted);
    if (contains(name, "attention") || contains(name, "ffn") || contains(name, "token"))
      if (name.ends_with("weight"))
        for (float& x : want) x = widened(rounded<Bfloat16>(x));
    CHECK(values == want);
  }
}
