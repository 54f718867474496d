// Settings that a preset derives from its sizes follow the sizes that a user changes.

#include <cmath>
#include <iterator>
#include <sstream>

#include "check.hpp"
#include "data/options/options.hpp"
#include "data/options/settings_file.hpp"
#include "layers/model/presets.hpp"
#include "parse.hpp"

namespace {

// The resolved config of `train_gpt info OPTIONS`.
Config config_of(const std::string& options) {
  std::istringstream in("train_gpt info " + options);
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  Config c = parse_program_words(words).train.config;
  if (c.vocab_size == 0) c.vocab_size = 256;
  return resolve(c);
}

}  // namespace

TEST_CASE("gemma2 multiplies its embedding by the square root of the channels", "[presets]") {
  CHECK(config_of("--preset gemma2").embedding_scale == std::sqrt(128.));
  CHECK(config_of("--preset gemma2 --channels 48").embedding_scale == std::sqrt(48.));
  CHECK(config_of("--preset gemma2 --size 2B").embedding_scale == std::sqrt(2304.));
  CHECK(config_of("--preset gemma2 --channels 48 --embedding-scale 3").embedding_scale == 3);
  CHECK(config_of("--preset llama --channels 48").embedding_scale == 1);
}

TEST_CASE("the widths of a preset stay in proportion to the channels, unless they are given", "[presets]") {
  CHECK(config_of("--preset llama3").hidden == 448);
  CHECK(config_of("--preset llama3 --channels 256").hidden == 896);
  CHECK(config_of("--preset llama3 --channels 256 --hidden 448").hidden == 448);
  CHECK(config_of("--preset llama3 --size 8B --channels 1024 --heads 8").hidden == 3584);
  CHECK(config_of("--preset qwen3 --size 0.6B --channels 512").head_dim == 64);
  CHECK(config_of("--preset qwen3 --size 0.6B --channels 512 --heads 8").head_dim == 128);
  CHECK(config_of("--preset olmoe --channels 64").hidden == 16);
  CHECK(config_of("--preset opt-350m --channels 64").embedding_channels == 32);
  CHECK(config_of("--preset opt-350m --channels 64 --embedding-channels 64").embedding_channels == 64);
  CHECK(config_of("--preset llama --channels 48").hidden == 128);  // 8/3 C
}

TEST_CASE("the base model of a size by depth is a size by depth, too", "[presets][parametrization]") {
  const std::string mup = " --parametrization mup --base-channels 64 ";
  CHECK(config_of("--size d8" + mup).base_heads == 2);
  CHECK(*config_of("--size d8" + mup).attention_scale == Approx(1 / std::sqrt(32)));
  CHECK(config_of("--size d8 --base-heads 1" + mup).base_heads == 1);
  CHECK(config_of("--size d8 --heads 4" + mup).base_heads == 4);
  CHECK(config_of("--channels 256 --heads 8" + mup).base_heads == 8);
  CHECK(config_of("--size d8 --channels 64" + mup).base_heads == 8);
  CHECK(config_of("--size d8 --parametrization mup --base-channels 63").base_heads == 8);  // no size has 63
  CHECK(config_of("--size d8 --base-channels 64").base_heads == 0);
  for (const std::string size : {"d1.5", "d2.5", "d3.5", "d6"}) {  // models of the base sizes
    const Config c = config_of("--size " + size);
    const Config same = config_of("--size " + size + " --parametrization mup --base-channels " +
                                  std::to_string(c.channels));
    INFO(size);
    CHECK(same.base_heads == c.n_head);
    CHECK(same.attention_scale == c.attention_scale);
  }
}

TEST_CASE("factors that contain the width take the base model's", "[presets][parametrization]") {
  const std::string mup = " --channels 256 --parametrization mup --base-channels 64 ";
  CHECK(config_of("--preset gemma2" + mup).embedding_scale == 8);
  CHECK(*config_of("--preset t5 --encoder-layers 0 --objective lm" + mup).logit_scale == .125 * .25);
}

TEST_CASE("presets with a window have it in the layers that their sources name", "[presets]") {
  const auto layers = [](const std::string& preset) { return config_of("--preset " + preset).window_layers; };
  CHECK(layers("gemma2") == "1 of 2");
  CHECK(layers("gpt-oss") == "1 of 2");
  CHECK(layers("gemma3") == "3 of 4");  // nano's four layers
  CHECK(layers("gemma3 --size 1B") == "5 of 6");
  CHECK(layers("mistral") == "all");
}

// Hugging Face rotates int(0.4 * head_dim) numbers of each head of Phi-2, and fails if that is odd. We leave out the
// last.
TEST_CASE("phi-2 rotates .4 of a head of any size", "[presets]") {
  CHECK(config_of("--preset phi-2 --size 2.7B").rope_dims() == 32);
  CHECK(config_of("--preset phi-2").rope_fraction == .4f);
  for (const auto& [D, R] : {std::pair{32, 12}, {10, 4}, {16, 6}, {20, 8}, {24, 8}, {64, 24}, {80, 32}, {96, 38}})
    CHECK(config_of("--preset phi-2 --head-dim " + std::to_string(D)).rope_dims() == R);
}

TEST_CASE("presets rotate the share of a head that their sources name", "[presets]") {
  const auto share = [](const std::string& preset) { return config_of("--preset " + preset).rope_fraction; };
  CHECK(share("gpt-neox") == .25f);
  CHECK(share("chatglm2-6b") == .5f);
  CHECK(share("llama") == 1);
}

TEST_CASE("a nano preset differs from its family only in sizes", "[presets]") {
  const auto wiring = [](const Preset& row) {
    Config c = row.config;
    const Config gpt2;
    c.n_layer = gpt2.n_layer, c.n_head = gpt2.n_head, c.kv_heads = c.head_dim = c.hidden = c.vocab_size = 0;
    c.channels = gpt2.channels, c.context = gpt2.context, c.window = c.window > 0, c.embedding_channels = 0;
    c.rope_original = 0, c.rope_factor = c.rope_factor > 1 ? 2 : 1;  // of their contexts
    if (c.window_layers != "all") c.window_layers = "1 of 2";  // fewer layers have another period
    c.encoder_layers = c.encoder_layers > 0 ? 2 : 0;
    c.experts = c.experts > 0, c.experts_per_token = 1;
    if (row.size == std::string("27B")) c.attention_scale.reset();  // the only size of Gemma 2 with its own
    TrainOptions options;
    options.config = c;
    return model_to_toml(with_vocabulary(options));
  };
  for (const Preset& nano : presets()) {
    if (nano.size != std::string("nano")) continue;
    const Preset* largest = &nano;
    for (const Preset& row : presets())
      if (row.name == std::string(nano.name)) largest = &row;  // sizes are in ascending order
    INFO(nano.name << " " << largest->size);
    CHECK(wiring(nano) == wiring(*largest));
  }
}

TEST_CASE("version 0.1.0's window-every is a set of layers", "[config]") {
  const auto layers = [](const std::string& options) {
    return config_of("--window 5 --layers 6 " + options).window_layers;
  };
  CHECK(layers("--window-every 3") == "1 of 3");
  CHECK(layers("--window-every 1") == "all");
}
