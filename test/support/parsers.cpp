#include "parsers.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "data/compare/result.hpp"
#include "data/corpus/corpus_files.hpp"
#include "data/files/files.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/gguf/gguf_model.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/llama2c.hpp"
#include "data/formats/llmc.hpp"
#include "data/formats/pytorch/pytorch_file.hpp"
#include "data/formats/safetensors.hpp"
#include "data/options/command_line.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/history.hpp"
#include "data/text/load_dataset.hpp"
#include "data/text/readers/json_questions.hpp"
#include "data/text/readers/multiple_choice.hpp"
#include "data/text/token_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"

namespace fs = std::filesystem;

namespace {

std::string folder_of(const std::string& path) { return fs::path(path).parent_path(); }

// The program escapes what a terminal would obey, but prints line ends, so no line end may come from the file. Internal
// names may: a message quotes what is wrong, and "\xff" before "ilesystem error" would spell one.
void check_message(std::string message, std::string_view bytes) {
  if (message.empty() || message.find('\n') != message.npos)
    throw std::logic_error("an error is not one line: " + message);
  for (size_t at = 0; (at = message.find("\\x", at)) != message.npos; ++at) message.replace(at, 4, " ");
  for (const char* internal : kInternalNames)
    if (message.find(internal) != message.npos && bytes.find(internal) == bytes.npos)
      throw std::logic_error("an error has an internal name: " + message);
}

// If a reader accepts a file, its content must also work.
void use(const Tokenizer& tokenizer) {
  const std::string text = "It's 1, 22 or 333?\n  \xc3\xa9\xf0\x9f\x98\x80\xff\n";
  size_t unknown = 0;
  const std::vector<uint32_t> tokens = tokenizer.encode(text, Unknown::skip, &unknown);
  for (const uint32_t token : tokens)
    if (token >= static_cast<uint32_t>(tokenizer.vocabulary())) throw std::logic_error("a token beyond the vocabulary");
  if (!tokenizer.bpe() || unknown > 0) return;
  const auto& parts = tokenizer.bpe()->tables().json;
  if (parts && (!parts->has_split || !parts->first_added.empty())) return;  // they change text
  std::string back = parts ? "" : tokenizer.decode(tokens);
  if (parts)
    for (const uint32_t token : tokens) back += parts->words[token];
  if (back != text) throw std::logic_error("the text does not come back");
}

void use(const ForeignModel& found) {
  Model model(found.config(), false);
  found.load(model);
}

void use(const StoredTensors& tensors) {
  std::vector<float> values;
  for (const StoredTensor& tensor : tensors.all()) {
    if (tensor.type == TensorType::other) continue;
    values.resize(tensor.size());
    tensors.read(values.data(), tensor);
  }
}

void read_token_file(const std::string& path) {
  Tokens tokens;
  for (const std::string& file : find_token_files({path}, true)) append_token_file(tokens, file);
  uint64_t sum = 0;
  tokens.for_each(0, tokens.size(), [&](uint32_t token) { sum += token; });
}

// The number of targets in a text of bytes: the learned bytes, and the end of each document.
size_t targets_of(const Text& text) {
  const std::vector<TextSpan>& spans = text.files.at(0).spans;
  size_t targets = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool is_last = i + 1 == spans.size() || spans[i + 1].is_first;
    if (spans[i].counts) targets += spans[i].end - spans[i].begin + (is_last ? 1 : 0);
  }
  return targets;
}

// Every target must be the next token of the same document, and the targets must be as many as the rows say.
void use(const Dataset& data, const Rows& rows, int T) {
  for (size_t r = 0; r < rows.size(); ++r) {
    const RowBatch row = fill_rows(data, rows, r, 1, T);
    int targets = 0, wanted = 0;
    for (const TokenWindow& window : rows[r]) wanted += window.targets;
    for (int t = 0; t < T; ++t) {
      const bool is_last = t + 1 == T || row.begins.at(t + 1) != row.begins.at(t);
      if (row.targets[t] == kIgnore) continue;
      ++targets;
      if (!is_last && row.targets[t] != row.tokens[t + 1]) throw std::logic_error("a target is not the next token");
    }
    if (targets != wanted) throw std::logic_error("a row has other targets than it says");
  }
}

void read_json_lines(const std::string& path) {
  constexpr int T = 16;
  TextOptions options;
  options.data = {path};
  options.val_fraction = .3;
  for (const char* tokenizer : {"byte", "char"}) {
    options.tokenizer = tokenizer;
    const Dataset data = load_dataset(options, nullptr, T);
    for (const std::string& note : data.notes) check_message(note, note);
    if (data.packing != Packing::documents) throw std::logic_error("JSON lines are read as they are");
    use(data, data.rows, T);
    use(data, data.val, T);
    if (data.tokenizer.kind() == Tokenizer::Kind::byte &&
        data.rows.targets() + data.val.targets() != targets_of(read_text({path}, {})))
      throw std::logic_error("the text has other targets than its rows");
  }
}

// Every place must see a whole source.
void use_sources(const Dataset& data, const Rows& rows, int T) {
  for (size_t r = 0; r < rows.size(); ++r) {
    const EncoderRows encoder = fill_rows(data, rows, r, 1, T).encoder;
    for (int t = 0; t < T; ++t) {
      const int from = encoder.from.at(t), to = encoder.to.at(t);
      if (from >= to || encoder.begins.at(from) != from || encoder.begins.at(to - 1) != from ||
          encoder.tokens.at(to - 1) != data.around.last)
        throw std::logic_error("a place sees no source");
    }
  }
}

void read_sources(const std::string& path) {
  constexpr int T = 16;
  TextOptions options;
  options.data = {path};
  options.reads_pairs = true;
  options.val_fraction = .3;
  const Dataset data = load_dataset(options, nullptr, T);
  for (const std::string& note : data.notes) check_message(note, note);
  for (const Rows* rows : {&data.rows, &data.val}) {
    use(data, *rows, T);
    use_sources(data, *rows, T);
  }
}

// Reads config.json in a folder whose weights lack every tensor.
void read_class(const std::string& path) {
  const std::string folder = folder_of(path);
  if (!fs::exists(folder + "/model.safetensors")) write_safetensors(folder + "/model.safetensors", {}, {});
  try {
    open_huggingface(folder);
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).find("lacks the tensor") == std::string::npos) throw;
  }
}

void read_pytorch(const std::string& path) {
  std::vector<float> values;
  for (const auto& [name, tensor] : read_pytorch_file(path)) {
    values.resize(tensor.size());
    tensor.read(values.data());
  }
}

// Writes adapters of rank 2 on a base, and what describes them.
void write_adapters_of(const std::string& base, const std::string& folder) {
  Config c = open_huggingface(base)->config();
  c.lora_rank = 2, c.lora_alpha = 4, c.lora_on = "q,v,down";
  const Model model(resolve(c), false);
  write_huggingface(folder, {.model = model, .tokenizer = Tokenizer::bytes(), .name = "", .dtype = "f32"});
}

// Reads one file of adapters. The other one and the base do not change.
void read_adapters(const std::string& path) {
  const std::string folder = folder_of(path), base = "test/huggingface/llama";
  if (!fs::exists(folder + "/adapter_config.json") || !fs::exists(folder + "/adapter_model.safetensors")) {
    fs::rename(path, path + ".read");
    write_adapters_of(base, folder);
    fs::rename(path + ".read", path);
  }
  use(*open_adapted(folder, base));
}

void read_gguf(const std::string& path) {
  const std::unique_ptr<ForeignModel> found = open_gguf(path);
  use(*found);
  if (const Tokenizer tokenizer = found->tokenizer(); !tokenizer.unread()) use(tokenizer);
}

}  // namespace

const std::vector<Parser> kParsers = {
    {"tokenizer.json", "tokenizer.json", [](const std::string& path) { use(read_tokenizer(path)); }},
    {"sentencepiece", "tokenizer.model", [](const std::string& path) { use(read_tokenizer(path)); }},
    {"bert", "vocab.txt", [](const std::string& path) { use(read_tokenizer(path)); }},
    {"bert-settings", "tokenizer_config.json",
     [](const std::string& path) {
       write_file(folder_of(path) + "/vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##a\n");
       use(read_tokenizer(folder_of(path)));
     }},
    {"llama2c-tokenizer", "tokenizer.bin", [](const std::string& path) { use(read_tokenizer(path)); }},
    {"llmc-tokenizer", "gpt2_tokenizer.bin", [](const std::string& path) { use(read_tokenizer(path)); }},
    {"token-file", "tokens.bin", read_token_file},
    {"text", "text.txt", [](const std::string& path) { read_text({path}, {}); }},
    {"json-lines", "text.jsonl", read_json_lines},
    {"sources", "sources.tsv", read_sources},
    {"questions", "questions.bin", [](const std::string& path) { read_questions(path); }},
    {"pairs", "pairs.jsonl", [](const std::string& path) { read_pairs(path, {Tokenizer::bytes()}); }},
    {"choices", "choices.jsonl", [](const std::string& path) { read_choices(path, {Tokenizer::bytes()}); }},
    {"nats", "text.txt.nats",
     [](const std::string& path) { read_nats(path.substr(0, path.size() - 5), "one two\n\n"); }},
    {"stories", "stories.txt", [](const std::string& path) { check_stories(read_file(path), ""); }},
    {"safetensors", "model.safetensors", [](const std::string& path) { use(StoredTensors(path)); }},
    {"safetensors-index", "model.safetensors.index.json",
     [](const std::string& path) { use(StoredTensors(folder_of(path))); }},
    {"config.json", "config.json", read_class},
    {"llmc", "model.bin", [](const std::string& path) { use(*open_llmc(path)); }},
    {"llama2c", "model.bin", [](const std::string& path) { use(*open_llama2c(path)); }},
    {"checkpoint", "checkpoint.safetensors", [](const std::string& path) { load_trained_model(path); }},
    {"gguf", "model.gguf", read_gguf},
    {"pytorch", "pytorch_model.bin", read_pytorch},
    {"adapter-settings", "adapter_config.json", read_adapters},
    {"adapters", "adapter_model.safetensors", read_adapters},
    {"config.toml", "config.toml", [](const std::string& path) { from_toml(read_file(path), path); }},
    {"metrics.csv", "metrics.csv", [](const std::string& path) { read_metrics(folder_of(path)); }},
    {"history", "history.jsonl", [](const std::string& path) { read_history(folder_of(path)); }},
    {"outcome.json", "outcome.json", [](const std::string& path) { read_outcome(folder_of(path)); }},
};

bool accepts(const Parser& parser, const std::string& folder, std::string_view bytes) {
  const std::string path = folder + "/" + parser.file;
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    parser.read(path);
    return true;
  } catch (const std::invalid_argument& error) {
    check_message(error.what(), bytes);
  } catch (const std::runtime_error& error) {
    check_message(error.what(), bytes);
  }
  return false;
}
