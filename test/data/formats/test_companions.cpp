// The files that come with a model of Hugging Face: they travel with a run, and export writes them again.

#include "data/formats/huggingface/companions.hpp"

#include <filesystem>

#include "data/files/json.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "message.hpp"
#include "program.hpp"
#include "random_model.hpp"

using nlohmann::json;

namespace {

// Keys that no Config has, in an order and with spaces that nobody else writes.
const std::string kConfig = R"({ "vocab_size": 257,
  "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "eos_token_id": [7, 9], "bos_token_id": 5,
  "pad_token_id": 7, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
  "tie_word_embeddings": true, "max_window_layers": 21, "torch_dtype": "bfloat16", "use_cache": true }
)";
const std::map<std::string, std::string> kOthers = {
    {"generation_config.json", "{\"eos_token_id\": [7, 9], \"temperature\": 0.7}"},
    {"tokenizer_config.json", "{\"chat_template\": \"{{ messages }}\", \"eos_token\": \"x\"}"},
    {"special_tokens_map.json", "{\"pad_token\": \"x\"}"},
    {"chat_template.jinja", "{{ messages }}\n"},
    {"tokenizer.model", std::string("\xff\0\x01 not UTF-8", 13)}};

// A folder with these files, and the weights of a model of this shape.
struct CameIn : Folder {
  CameIn() {
    const json file = parse_json(kConfig);
    Config c = config_of(*find_architecture(file), file);
    write_huggingface(path("."), {random_model(c), Tokenizer::bytes().with_special({"<|end|>"}), "", "bf16"});
    write("config.json", kConfig);
    for (const auto& [name, text] : kOthers) write(name, text);
    std::filesystem::create_directory(path("in"));
    for (const auto& file : std::filesystem::directory_iterator(path(".")))
      if (file.is_regular_file()) std::filesystem::rename(file.path(), path("in/" + file.path().filename().string()));
    std::string text;
    for (int i = 0; i < 400; ++i) text += "a text of words ";
    write("text.txt", text);
  }
};

}  // namespace

TEST_CASE("all files of a model go back as they came, from the folder and from a run", "[companions][program]") {
  const CameIn f;
  const std::string train = "train text.txt --steps 2 --warmup 0 --batch 2 --quiet --init-from ";
  for (const std::string from : {"in", "run"}) {
    INFO(from);
    if (from == "run") f.must(train + "in --out run");
    f.must("export " + from + " --to hf --out back --force");
    CHECK(f.read("back/config.json") == kConfig);
    for (const auto& [name, text] : kOthers) CHECK(f.read("back/" + name) == text);
    CHECK(f.read("back/model.safetensors").find("\"BF16\"") != std::string::npos);
  }
  f.must(train + "run --out again");
  f.must("export again --to hf --out back --force");
  CHECK(f.read("back/config.json") == kConfig);
  CHECK(f.read("back/tokenizer.model") == kOthers.at("tokenizer.model"));
}

TEST_CASE("config.json of a model that came changes where the model has", "[companions][program]") {
  const CameIn f;
  f.must("export in --to hf --dtype f32 --out back");
  json want = parse_json(kConfig);
  want["torch_dtype"] = "float32";
  CHECK(parse_json(f.read("back/config.json")) == want);
  f.must("train text.txt --init-from in --context 16 --steps 1 --warmup 0 --batch 2 --out run --quiet");
  f.must("export run --to hf --out back --force");
  want["torch_dtype"] = "bfloat16";
  want["max_position_embeddings"] = 16;
  CHECK(parse_json(f.read("back/config.json")) == want);

  f.must("train text.txt --init-from in --norm layernorm --steps 1 --warmup 0 --batch 2 --out other --quiet");
  f.must("export other --to hf --out back --force");
  CHECK(parse_json(f.read("back/config.json")).at("model_type") == "train_gpt");
}

TEST_CASE("a model that has learned conversations says how it writes them", "[companions][program]") {
  const CameIn f;
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})" "\n";
  f.write("chat.jsonl", lines);
  f.must("train chat.jsonl --init-from in --chat-template plain --document-separator <|end|> --steps 1 --warmup 0 "
          "--batch 2 --out run --quiet");
  f.must("export run --to hf --out back");
  const auto written = [&](const std::string& name) { return parse_json(f.read("back/" + name)); };
  const json config = written("config.json"), generation = written("generation_config.json");
  CHECK(config.at("bos_token_id") == 5);
  CHECK(config.at("pad_token_id") == 7);
  CHECK(generation.at("temperature") == .7);
  CHECK(generation.at("eos_token_id") == config.at("eos_token_id"));
  CHECK(contains(written("tokenizer_config.json").at("chat_template"), "Assistant:"));
  CHECK_FALSE(std::filesystem::exists(f.path("back/chat_template.jinja")));
}

TEST_CASE("a model goes back as the class that it came as", "[companions][program]") {
  const CameIn f;
  json file = parse_json(kConfig);
  file["model_type"] = "mistral";  // without a window it computes what Llama does
  file["architectures"] = {"MistralForCausalLM"};
  file["sliding_window"] = nullptr;
  Config c = config_of(*find_architecture(file), file);
  std::filesystem::create_directory(f.path("mistral"));
  write_huggingface(f.path("mistral"), {random_model(c), Tokenizer::bytes(), "", "f32"});
  f.write("mistral/config.json", to_text(file));
  f.must("export mistral --to hf --out back");
  CHECK(parse_json(f.read("back/config.json")).at("model_type") == "mistral");
}

TEST_CASE("a checkpoint holds no file that comes with no model", "[companions]") {
  const CameIn f;
  const CheckpointHeader header = read_checkpoint_header(f.path("in"));
  json fields = parse_json(to_text(to_json(header)));
  CHECK(header_of(fields, header.options).companions == header.companions);
  CHECK(header_of(fields, header.options).came_dtype == "bf16");
  fields["companions"]["../evil"] = "";
  CHECK(message_of<std::runtime_error>([&] { header_of(fields, header.options); }) ==
        "it has a file that came with no model: '../evil'");
}
