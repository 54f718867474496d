#include <cmath>
#include <map>

#include "check.hpp"
#include "message.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/model.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"
#include "program.hpp"
#include "sources.hpp"

namespace {

Config resolved(Config config) {
  if (config.vocab_size == 0) config.vocab_size = 256;
  return resolve(config);
}

size_t parameters_of(const Config& config) {
  Layout layout;
  declare_model(layout, resolved(config));
  return count_parameters(layout.table());
}

std::string complaint(const char* preset, const char* size) {
  return message_of<std::invalid_argument>([&] { preset_config(preset, size); });
}

}  // namespace

// A wrong number in a row or an extra bias would change the sum.
TEST_CASE("presets have the published numbers of parameters", "[presets]") {
  const std::map<std::pair<std::string, std::string>, size_t> published = {
      {{"transformer", "65M"}, 63082496},  // table 3 has 65 and 213 millions, for about 37,000 tokens
      {{"transformer", "213M"}, 214245376},
      {{"t5", "60M"}, 60506624},
      {{"t5", "220M"}, 222903552},
      {{"t5-v1.1", "77M"}, 76961152},
      {{"t5-v1.1", "248M"}, 247577856},
      {{"gpt1", "117M"}, 116534784},
      {{"gpt2", "124M"}, 124439808},
      {{"gpt2", "355M"}, 354823168},
      {{"gpt2", "774M"}, 774030080},
      {{"gpt2", "1558M"}, 1557611200},
      {{"gpt3", "125M"}, 125226240},
      {{"gpt3", "175B"}, 174604259328},  // "175.0B"
      {{"opt-350m", "350M"}, 331196416 - 2 * 1024},  // without two positions that are never read
      {{"llama", "7B"}, 6738415616},
      {{"llama2", "15M"}, 15191712},
      {{"llama2", "42M"}, 41689600},
      {{"llama2", "110M"}, 109529856},
      {{"llama2", "7B"}, 6738415616},
      {{"llama2", "70B"}, 68976648192},
      {{"llama3", "8B"}, 8030261248},
      {{"llama3", "70B"}, 70553706496},
      {{"mistral", "7B"}, 7241732096},
      {{"mixtral", "8x7B"}, 46702792704},
      {{"qwen", "7B"}, 7721324544},
      {{"qwen2", "0.5B"}, 494032768},
      {{"qwen2", "7B"}, 7615616512},
      {{"qwen3", "0.6B"}, 596049920},
      {{"qwen3", "8B"}, 8190735360},
      {{"qwen3-moe", "30B"}, 30532122624},
      {{"qwen3-moe", "235B"}, 235093634560},
      {{"baichuan-7b", "7B"}, 7000559616},
      {{"baichuan-13b", "13B"}, 13264901120},
      {{"chatglm-6b", "6B"}, 6173286400},
      {{"chatglm2-6b", "6B"}, 6243584000},
      {{"bloom", "560M"}, 559214592},
      {{"bloom", "176B"}, 176247271424},
      {{"falcon-7b", "7B"}, 7217189760 - 65024 * 4544},  // the file has the tied matrix twice
      {{"falcon-40b", "40B"}, 41303293952},
      {{"gpt-neox", "20B"}, 20554567680},
      {{"phi-2", "2.7B"}, 2779683840},
      {{"gemma2", "2B"}, 2614341888},
      {{"gemma2", "9B"}, 9241705984},
      {{"gemma2", "27B"}, 27227128320},
      {{"bert", "110M"}, 109514298},
      {{"bert", "335M"}, 335174458},
      {{"roberta", "125M"}, 124697433 - 2 * 768},  // two positions are never read
      {{"roberta", "355M"}, 355412057 - 2 * 1024},
      {{"gemma3", "270M"}, 268098176},
      {{"gemma3", "1B"}, 999885952},
      {{"olmoe", "7B"}, 6919161856},
      {{"gpt-oss", "20B"}, 20914757184},
      {{"gpt-oss", "120B"}, 116829156672},
      {{"olmo", "1B"}, 1176764416},
      {{"olmo", "7B"}, 6888095744},
      {{"olmo2", "7B"}, 7298617344},
      {{"olmo2", "13B"}, 13716198400},
      {{"ngpt", "506M"}, 505996416},  // of the authors' code
  };
  size_t compared = 0;
  for (const Preset& row : presets()) {
    INFO(row.name << " " << row.size);
    const auto known = published.find({row.name, row.size});
    if (known == published.end()) {
      CHECK(row.size == std::string("nano"));
      CHECK(parameters_of(row.config) < 1500000);
    } else {
      CHECK(parameters_of(row.config) == known->second);
      ++compared;
    }
  }
  CHECK(compared == published.size());
  CHECK(preset_names().size() == 34);
}

TEST_CASE("a nano preset has the structure of its family", "[presets]") {
  for (const Preset& row : presets()) {
    INFO(row.name << " " << row.size);
    const Config nano = resolved(preset_config(row.name, "nano")), full = resolved(row.config);
    CHECK(nano.encoder_layers + nano.n_layer == 4);
    CHECK((nano.encoder_layers > 0) == (full.encoder_layers > 0));
    CHECK(nano.channels == 128);
    CHECK(nano.n_head * nano.head_dim == 128);
    CHECK(nano.context == 256);
    CHECK((nano.window > 0) == (full.window > 0));
    CHECK(nano.window < nano.context);
    if (row.name != std::string("llama2"))  // only its largest size has fewer key heads
      CHECK((nano.kv_heads < nano.n_head) == (full.kv_heads < full.n_head));
  }
}

TEST_CASE("every nano preset takes a step", "[presets]") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    Model model(resolved(preset_config(name, "nano")));
    initialize(model, 7);
    const std::vector<int> tokens = random_ints(48, 1, 256), targets = random_ints(48, 2, 256);
    const Activations activations = allocate_activations(model.config, 1, 48, true);
    const Sources sources = random_sources(1, 48, 40, 256);
    Batch batch{tokens.data(), targets.data(), 1, 48};
    if (model.config.crosses()) batch.encoder = sources.input();
    const double loss = model_loss_and_gradients(model, activations, batch, 1.f / 48, {}) / 48;
    CHECK(loss == Approx(std::log(256)).epsilon(.1));  // at the start all tokens are about equally likely
    CHECK(first_non_finite(model.table, model.gradients.get()) == nullptr);
  }
}

TEST_CASE("info names the missing parts of a preset and the source of its numbers", "[presets][program]") {
  const Folder f;
  const Outcome gpt3 = f.run("info --preset gpt3"), llama = f.run("info --preset llama");
  CHECK(contains(gpt3.out, "not implemented of gpt3: the banded attention"));
  CHECK(contains(llama.out, "preset llama: Touvron et al. 2023"));
  CHECK_FALSE(contains(llama.out, "not implemented"));
}

TEST_CASE("a misspelled preset suggests the nearest", "[presets]") {
  CHECK(complaint("gtp-neox", "nano").find("unknown preset 'gtp-neox': did you mean 'gpt-neox'?") == 0);
  CHECK(complaint("gpt2", "125M").find("unknown size of preset gpt2 '125M': did you mean '124M'?") == 0);
}

TEST_CASE("sizes by depth scale the nano of a family", "[presets][scaling]") {
  const auto numbers = [](const Config& c) { return std::vector{c.n_layer, c.channels, c.n_head, c.head_dim}; };
  CHECK(numbers(resolved(preset_config("gpt2", "d1"))) == std::vector{1, 32, 1, 32});
  CHECK(numbers(resolved(preset_config("gpt2", "d2.5"))) == std::vector{3, 80, 2, 40});
  CHECK(numbers(resolved(preset_config("gpt2", "d3.5"))) == std::vector{4, 112, 4, 28});
  CHECK(numbers(resolved(preset_config("gpt2", "d12"))) == std::vector{12, 384, 12, 32});
  CHECK(preset_config("qwen3", "d8").kv_heads == 4);
  CHECK(preset_config("qwen3", "d5").kv_heads == 1);  // two do not divide five
  CHECK(preset_config("falcon-7b", "d8").kv_heads == 1);
  CHECK(preset_config("ngpt", "d6").hidden == 4 * 192);
  CHECK(preset_config("t5", "d3").encoder_layers == 3);
  CHECK(preset_config("opt-350m", "d6").embedding_channels == 96);
  CHECK(sizes_by_depth().size() == 127);
  for (const std::string& name : preset_names()) {
    size_t before = 0;
    for (const char* size : {"d1", "d1.5", "d2", "d2.5", "d3", "d3.5", "d4", "d5", "d5.5", "d8"}) {
      INFO(name << " " << size);
      const size_t parameters = parameters_of(preset_config(name, size));
      CHECK(parameters > before);
      before = parameters;
    }
    if (preset_config(name, "nano").encoder_layers == 0)
      CHECK(parameters_of(preset_config(name, "d4")) == parameters_of(preset_config(name, "nano")));
  }
  for (const char* size : {"d", "d0", "d0.5", "d3.2", "d65", "d4x", "D4", "d+4", "d04", "d4."})
    CHECK(contains(complaint("gpt2", size), "one of nano 124M 355M 774M 1558M d1...d64"));
}
