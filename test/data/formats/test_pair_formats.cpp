// Models with an encoder and a decoder in folders of Hugging Face: T5, Marian, BART and their relatives, and our own
// class for all others; the tokens that T5's tokenizers put around texts, and their sentinels.

#include <cstring>
#include <filesystem>
#include <regex>

#include "check.hpp"
#include "data/files/json.hpp"
#include "data/formats/foreign_tensors.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/huggingface/modeling.hpp"
#include "data/formats/safetensors.hpp"
#include "data/text/readers/pairs.hpp"
#include "data/text/spans.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/model/presets.hpp"
#include "message.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

using nlohmann::json;

namespace {

// A tiny model of a preset.
Config tiny(const std::string& preset) {
  Config c = preset_config(preset, "nano");
  c.encoder_layers = 2, c.n_layer = 1, c.n_head = 2, c.channels = 8, c.hidden = 12, c.context = 16, c.vocab_size = 11;
  if (preset == "transformer") c.head_bias = true;
  return resolve(c);
}

Config config_with(json file, const json& more) {
  file.update(more);
  return config_of(*find_architecture(file), file);
}

std::string refusal(const json& file, const json& more) {
  return message_of<std::runtime_error>([&] { config_with(file, more); });
}

json written(const std::string& preset) {
  const Expressed as = expressed(tiny(preset));
  return config_json(as.architecture, as.config);
}

// T5's tokenizer in small: nothing begins a text, and </s> ends one.
Tokenizer t5_pieces() {
  PieceTables tables;
  tables.pieces = {{"<pad>", 0, PieceType::control}, {"</s>", 0, PieceType::control}, {"<unk>", 0, PieceType::unknown}};
  for (const char* text : {"▁", "a", "b", "▁a", "▁b", "ab"}) tables.pieces.push_back({text, -2, PieceType::normal});
  tables.unigram = tables.removes_spaces = true;
  tables.byte_fallback = false;
  tables.begin = -1;
  tables.end = 1;
  return Tokenizer::pieces(Pieces(std::move(tables)));
}

}  // namespace

TEST_CASE("the config.json of T5's published models is read", "[formats]") {
  // t5-small, t5-v1_1-small and flan-t5-small, without the keys that no layer reads
  const json small = {{"model_type", "t5"}, {"d_ff", 2048}, {"d_kv", 64}, {"d_model", 512}, {"n_positions", 512},
                      {"num_heads", 8}, {"num_layers", 6}, {"decoder_start_token_id", 0},
                      {"relative_attention_num_buckets", 32}, {"vocab_size", 32128}};
  const Config c = config_with(small, json::object());
  CHECK(c.encoder_layers == 6);
  CHECK(c.n_layer == 6);
  CHECK(c.activation == Activation::relu);
  CHECK(c.logit_scale == Approx(1 / std::sqrt(512)));
  CHECK(c.tied);
  CHECK(c.relative_distance == 128);
  CHECK(c.objective == Objective::pairs);
  const json later = {{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}, {"d_ff", 1024},
                      {"num_decoder_layers", 8}};
  const Config v1 = config_with(small, later);
  CHECK(v1.encoder_layers == 6);
  CHECK(v1.n_layer == 8);
  CHECK(v1.activation == Activation::geglu_tanh);
  CHECK(*v1.logit_scale == 1);
  CHECK_FALSE(v1.tied);

  const auto with = [&](const json& more) { return config_with(small, more); };
  CHECK(with({{"scale_decoder_outputs", false}}).logit_scale == 1);
  CHECK(with({{"scale_decoder_outputs", true}, {"tie_word_embeddings", false}}).logit_scale < 1);
  CHECK(with({{"feed_forward_proj", "gated-silu"}}).activation == Activation::swiglu);
  CHECK(with({{"feed_forward_proj", "gelu"}}).activation == Activation::gelu);
  CHECK(with({{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "gelu"}}).activation == Activation::geglu);
  CHECK(with({{"is_gated_act", true}, {"dense_act_fn", "silu"}}).activation == Activation::swiglu);
  CHECK(with({{"model_type", "mt5"}}).activation == Activation::geglu_tanh);
  CHECK(with({{"model_type", "mt5"}}).logit_scale == 1);
  CHECK(contains(refusal(small, {{"feed_forward_proj", "gated-relu"}}), "\"gated-relu\", which train_gpt lacks"));
  CHECK(contains(refusal(small, {{"feed_forward_proj", 3}}), "feed_forward_proj is 3, which train_gpt lacks"));
  CHECK(contains(refusal(small, {{"dense_act_fn", "tanh"}}), "dense_act_fn is \"tanh\", which train_gpt lacks"));
  CHECK(contains(refusal(small, {{"num_hidden_layers", 3}}), "num_hidden_layers is another than num_layers"));
  CHECK(contains(refusal(small, {{"is_encoder_decoder", false}}), "is_encoder_decoder is false"));
}

TEST_CASE("T5's head is tied unless its file has another one", "[formats]") {
  const Folder f;
  Config c = tiny("t5-v1.1");
  const auto opened_with = [&](const json& more) {
    write_huggingface(f.path("."), {random_model(c), Tokenizer::bytes(), "", "f32"});
    json file = parse_json(f.read("config.json"));
    file.update(more);
    f.write("config.json", to_text(file));
    return open_huggingface(f.path("."))->config();
  };
  CHECK_FALSE(opened_with(json::object()).tied);
  CHECK_FALSE(opened_with({{"tie_word_embeddings", true}}).tied);
  c.tied = true;
  CHECK(opened_with(json::object()).tied);
  CHECK(opened_with({{"tie_word_embeddings", false}}).tied);
}

TEST_CASE("a file may hold an embedding that two stacks share several times", "[formats]") {
  const Folder f;
  const Model model = random_model(tiny("t5"));
  const Architecture& t5 = expressed(model.config).architecture;
  write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"});
  // Writes the tensors, the embedding under these names; the last one has another number.
  const auto loads = [&](const std::vector<std::string>& names, bool differs) {
    std::vector<NewTensor> rows;
    for (const auto& [name, tensor] : foreign_tensors(t5, model.config)) {
      const std::vector<float> values = values_of(tensor, model.config, model);
      const std::vector<std::string> all = name == "shared.weight" ? names : std::vector{name};
      for (const std::string& each : all) {
        std::vector<float> own = values;
        if (differs && name == "shared.weight" && each == names.back()) own[3] += 1;
        rows.push_back({each, tensor.shape(), [own] { return own; }});
      }
    }
    write_safetensors(f.path("model.safetensors"), rows, {});
    return message_of<std::runtime_error>([&] {
      const auto from = open_huggingface(f.path("."));
      CHECK(from->config().tied);
      Model again(from->config(), false);
      from->load(again);
      CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
    });
  };
  CHECK(loads({"shared.weight", "lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
              false) == "");
  CHECK(loads({"encoder.embed_tokens.weight"}, false) == "");
  CHECK(contains(loads({"shared.weight", "encoder.embed_tokens.weight"}, true),
                 "holds another encoder.embed_tokens.weight than the tensor that it repeats, and train_gpt has one"));
}

TEST_CASE("what BART's relatives cannot have in train_gpt is refused by its key", "[formats]") {
  const json marian = written("transformer");
  REQUIRE(marian.at("model_type") == "marian");
  CHECK(contains(refusal(marian, {{"decoder_ffn_dim", 16}}), "decoder_ffn_dim is 16; train_gpt has 12 in both stacks"));
  CHECK(contains(refusal(marian, {{"decoder_attention_heads", 4}}), "decoder_attention_heads is 4"));
  CHECK(contains(refusal(marian, {{"decoder_vocab_size", 12}}), "decoder_vocab_size is 12"));
  CHECK(contains(refusal(marian, {{"share_encoder_decoder_embeddings", false}}), "share_encoder_decoder_embeddings"));
  CHECK(contains(refusal(marian, {{"tie_word_embeddings", false}}), "tie_word_embeddings is false"));
  CHECK(config_with(marian, {{"decoder_vocab_size", nullptr}}).vocab_size == 11);
  CHECK(config_with(marian, {{"scale_embedding", false}}).embedding_scale == 1);
  CHECK(config_with(marian, json::object()).label_smoothing == 0);
  CHECK(config_with(marian, {{"model_type", "bart"}}).position == Position::learned);
  CHECK(config_with(marian, {{"model_type", "mbart"}}).placement == "pre");
  CHECK_FALSE(config_with(marian, {{"model_type", "pegasus"}}).embedding_norm);
}

TEST_CASE("BART's files may lack the bias of the head", "[formats]") {
  const Folder f;
  Config c = tiny("transformer");
  write_huggingface(f.path("."), {random_model(c), Tokenizer::bytes(), "", "f32"});
  CHECK(open_huggingface(f.path("."))->config().head_bias);
  const Architecture& marian = expressed(c).architecture;
  c.head_bias = false;
  const Model without = random_model(c);
  std::vector<NewTensor> rows;
  for (const auto& [name, tensor] : foreign_tensors(marian, c))
    rows.push_back({name, tensor.shape(), [values = values_of(tensor, c, without)] { return values; }});
  write_safetensors(f.path("model.safetensors"), rows, {});
  CHECK_FALSE(open_huggingface(f.path("."))->config().head_bias);
}

TEST_CASE("a model with an encoder that no class has comes with its own", "[formats]") {
  const Folder f;
  for (const Objective objective : {Objective::pairs, Objective::span}) {
    Config c = tiny("t5");
    c.objective = objective, c.encoder_placement = "post", c.placement = "normformer", c.position = Position::rope;
    c.encoder_norm = NormKind::dyt, c.final_norm.reset(), c.head_scale.reset(), c.norm_bias.reset();
    const Model model = random_model(resolve(c));
    CHECK(contains(write_huggingface(f.path("."), {model, Tokenizer::bytes(), "", "f32"}), "TrainGPTForSeq2SeqLM"));
    const json file = parse_json(f.read("config.json"));
    CHECK(file["auto_map"]["AutoModelForSeq2SeqLM"] == "modeling_train_gpt.TrainGPTForSeq2SeqLM");
    CHECK(file["is_encoder_decoder"] == true);
    CHECK(file["cross_norms"] == json::array({json::array({"in", "out"})}));
    CHECK(file["encoder_stack"]["norms"] == json::array({json::array({"sum"}), json::array({"sum"})}));
    CHECK(file["encoder_stack"]["norm"] == "dyt");
    CHECK(file["encoder_stack"]["attention"] == "bidirectional");
    CHECK_FALSE(file["encoder_stack"].contains("is_encoder_decoder"));
    const auto from = open_huggingface(f.path("."));
    CHECK(from->config().objective == objective);
    Model again(from->config(), false);
    from->load(again);
    CHECK(same_bits({again.weights.get(), again.floats}, {model.weights.get(), model.floats}));
  }
}

TEST_CASE("a run on spans stays one when it is exported and read again", "[formats]") {
  const Folder f;
  Config c = tiny("t5");
  for (const Objective objective : {Objective::pairs, Objective::span}) {
    c.objective = objective;
    write_huggingface(f.path("."), {random_model(c), Tokenizer::bytes(), "", "f32"});
    CHECK(open_huggingface(f.path("."))->config().objective == objective);
  }
}

TEST_CASE("T5's tokenizers end a text, and the decoder begins with padding", "[formats][tokens]") {
  const Tokenizer t5 = t5_pieces();
  for (const char* separator : {"", "<pad>"}) {
    const DocumentTokens around = tokens_around_pairs(t5, separator);
    CHECK(around.first == 0);
    CHECK(around.last == 1);
  }
  CHECK(tokens_around_pairs(t5, "</s>").first == 1);
  CHECK(tokens_around_pairs(Tokenizer::bytes().with_special({"<e>"}), "<e>").first == 256);
}

TEST_CASE("the tokenizer of an exported model puts around a source what it was trained with", "[formats][program]") {
  const Folder f;
  f.write("pairs.tsv", "a b\tb a\nab\tba\nb b a\ta b b\n");
  const std::string train = "train pairs.tsv --objective pairs --encoder-layers 1 --layers 1 --heads 1 --channels 8 "
                            "--context 16 --steps 2 --batch 2 --val-fraction 0 --eval-every 0 --quiet --threads 1 ";
  for (const std::string tokenizer : {"byte", "char", "bpe:260"}) {
    INFO(tokenizer);
    f.must(train + "--out r --force --tokenizer " + tokenizer);
    f.must("export r --out hf --force");
    const json file = parse_json(f.read("hf/tokenizer.json")), config = parse_json(f.read("hf/config.json"));
    const json& parts = file.at("post_processor").at("single");
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].at("Sequence").at("id") == "A");
    const std::string end = parts[1].at("SpecialToken").at("id");
    CHECK(file.at("post_processor").at("special_tokens").at(end).at("ids")[0] == config.at("eos_token_id"));
    CHECK(parse_json(f.read("hf/tokenizer_config.json")).at("pad_token") == end);
    const std::string eval = "eval --data pairs.tsv --json --threads 1 ";
    CHECK(parse_json(f.run(eval + "hf").out).at("loss") == parse_json(f.run(eval + "r").out).at("loss"));
    f.write("hf/config.json", std::regex_replace(f.read("hf/config.json"), std::regex("decoder_start_token_id\": \\d+"),
                                                 "decoder_start_token_id\": 1"));
    check_refused(f, "eval hf --data pairs.tsv", "hf: its decoder begins with token 1, which is not a special token");
    f.must("export r --out hf --force");
    f.must("train pairs.tsv --init-from hf --steps 1 --batch 2 --val-fraction 0 --eval-every 0 --out again --force");
    f.must("export again --out back --force");
    CHECK(parse_json(f.read("back/tokenizer.json")).at("post_processor") == file.at("post_processor"));
  }
}

TEST_CASE("a tokenizer of pieces takes more special tokens", "[formats][tokens]") {
  const Tokenizer t5 = t5_pieces();
  Tokenizer more = t5.with_special({"<extra_id_1>", "<extra_id_0>"});
  for (int i = 0; i < 2; ++i) {
    CHECK(more.vocabulary() == 11);
    CHECK(more.special("<extra_id_0>") == 10);
    CHECK(more.special("</s>") == 1);
    CHECK(more.name_of_special(9) == "<extra_id_1>");
    CHECK(more.name_of_special(1) == "</s>");
    CHECK(more.name_of_special(4) == "");
    CHECK(spans_with(more).sentinels == std::vector{10, 9});
    CHECK(more.encode("a b") == t5.encode("a b"));
    CHECK(more.decode(std::vector<uint32_t>{10, 6, 4, 9, 7}) == "<extra_id_0> aa<extra_id_1> b");
    CHECK(more.decode(std::vector<uint32_t>{6, 4, 9}) == "aa<extra_id_1>");
    more = tokenizer_from_json(to_json(more));
  }
  CHECK(more.with_begin(1).special("<extra_id_1>") == 9);
}

namespace {

// A field of a protobuf message that holds these bytes.
std::string field(int number, const std::string& bytes) {
  REQUIRE(bytes.size() < 128);
  return std::string{char(number << 3 | 2), char(bytes.size())} + bytes;
}

// The text of a SentencePiece model with these tables: unigram, begin -1 and end 1.
std::string spiece_model(const PieceTables& tables) {
  std::string model;
  for (const Piece& piece : tables.pieces) {
    std::string score(4, 0);
    std::memcpy(score.data(), &piece.score, 4);
    const int type = piece.type == PieceType::normal ? 1 : piece.type == PieceType::unknown ? 2 : 3;
    model += field(1, field(1, piece.text) + "\x15" + score + std::string{3 << 3, char(type)});
  }
  const std::string minus_one = "\xff\xff\xff\xff\x0f";
  model += field(2, std::string{3 << 3, 1} + "\xc8\x02" + minus_one + "\xd0\x02\x01");
  return model + field(3, std::string{3 << 3, 1, 4 << 3, 1});
}

}  // namespace

TEST_CASE("T5's spiece.model gets the sentinels that transformers adds to it", "[formats][tokens]") {
  const Folder f;
  Config c = tiny("t5");
  c.vocab_size = 128;
  write_huggingface(f.path("."), {random_model(c), Tokenizer::bytes(), "", "f32", 1, 0});
  std::filesystem::remove(f.path("tokenizer.json"));
  json file = parse_json(f.read("config.json"));
  file.erase("train_gpt_tokenizer");
  f.write("config.json", to_text(file));
  f.write("spiece.model", spiece_model(t5_pieces().pieces()->tables()));
  const auto tokenizer = [&](const char* text) {
    f.write("tokenizer_config.json", text);
    return open_huggingface(f.path("."))->tokenizer();
  };
  CHECK(tokenizer("{}").vocabulary() == 109);
  CHECK(tokenizer("{}").special("<extra_id_99>") == 9);
  CHECK(tokenizer("{}").special("<extra_id_0>") == 108);
  CHECK(tokenizer("{}").encode("a b") == t5_pieces().encode("a b"));
  CHECK(tokenizer("{}").end() == 1);
  CHECK(tokenizer("{\"extra_ids\": 3}").special("<extra_id_0>") == 11);
  CHECK(tokenizer("{\"extra_ids\": 0}").vocabulary() == 9);
  f.write("text.txt", "a b ab b a a b ab a b b a ab ab a b\n");
  const std::string train = "train text.txt --init-from . --objective span --context 16 --steps 1 --batch 1 --out run";
  f.must(train + " --warmup 0 --documents line --val-fraction 0 --eval-every 0 --quiet");
  f.must("export run --out back");
  CHECK(f.read("back/spiece.model") == f.read("spiece.model"));
  const Outcome sampled = f.run("sample run --prompt - --greedy --json", "a <extra_id_0> b");
  CHECK(contains(sampled.out, "\"prompt\":\"a <extra_id_0> b\""));
}

TEST_CASE("a model of T5 with its tokenizer is trained on pairs and on spans, and goes back", "[formats][program]") {
  const Corpus f;
  std::filesystem::create_directory(f.path("in"));
  Config c = tiny("t5");
  c.vocab_size = 130;
  write_huggingface(f.path("in"), {random_model(c), t5_pieces(), "", "f32", 1, 0});
  const json file = parse_json(f.read("in/config.json"));
  CHECK(file.at("decoder_start_token_id") == 0);
  CHECK(file.at("pad_token_id") == 0);
  CHECK(file.at("eos_token_id") == 1);
  f.write("pairs.tsv", "a b\tb a\nab\tba\nb b a\ta b b\n");
  const std::string train = " --init-from in --steps 2 --batch 2 --warmup 0 --val-fraction 0 --eval-every 0 --quiet ";
  f.must("train pairs.tsv --out pairs" + train);
  CHECK(contains(f.read("pairs/config.toml"), "document-separator = \"<pad>\""));
  f.must("export pairs --out back");
  const json back = parse_json(f.read("back/config.json"));
  CHECK(back.at("model_type") == "t5");
  CHECK(back.at("decoder_start_token_id") == 0);
  const auto tokens = [&](const std::string& model) {
    return parse_json(f.run("sample " + model + " --prompt - --greedy --json", "a b").out).at("tokens");
  };
  CHECK(!tokens("back").empty());
  CHECK(tokens("back") == tokens("pairs"));
  f.must("train pairs.tsv --out adapted --lora 2" + train);
  check_refused(f, "export adapted --out x", "writes no adapters of a model with an encoder: add --lora-merge");
  f.must("export adapted --lora-merge --out x");
}
