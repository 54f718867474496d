#include "gguf_model.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "data/files/foreign_files.hpp"
#include "data/files/json.hpp"
#include "data/formats/foreign_tensors.hpp"
#include "data/formats/foreign_tokenizer.hpp"
#include "data/tokenizer/gguf/gguf_vocabulary.hpp"
#include "gguf_architectures.hpp"
#include "gguf_file.hpp"
#include "gguf_rope.hpp"

using nlohmann::json;

namespace {

constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";

// Larger models come in several files.
void require_whole(const GgufFile& file) {
  const json parts = file.keys().value("split.count", json(1));
  if (parts != 1 && parts != 0)
    throw std::runtime_error(file.path() + " is one of several files of a model: join them with llama-gguf-split "
                                           "--merge, which is a part of llama.cpp");
}

HeldTensors held_in(const std::shared_ptr<const GgufFile>& file) {
  HeldTensors held;
  for (const GgufTensor& t : file->tensors())
    held[t.name] = {file->path(), t.shape, [file, &t](float* to) { file->read(to, t); }};
  return held;
}

bool same_numbers(const HeldTensors& held, const char* a, const char* b) {
  const auto x = held.find(a), y = held.find(b);
  if (x == held.end() || y == held.end() || x->second.shape != y->second.shape) return false;
  std::vector<float> of_x(x->second.size()), of_y(y->second.size());
  x->second.read(of_x.data());
  y->second.read(of_y.data());
  return of_x == of_y;
}

// Returns the numbers of the tensors that say how RoPE is stretched.
std::map<std::string, std::vector<float>> rope_tensors_in(const HeldTensors& held) {
  std::map<std::string, std::vector<float>> all;
  for (const char* name : kRopeTensors) {
    const auto found = held.find(name);
    if (found == held.end()) continue;
    if (found->second.shape.size() != 1) throw std::runtime_error(std::string(name) + " is a matrix");
    std::vector<float> numbers(found->second.size());
    found->second.read(numbers.data());
    all[name] = numbers;
  }
  return all;
}

// The files of transformers that say how an instruct model writes conversations and ends its answers. None without a
// chat template, and for other tokenizers than byte-pair encodings, which export writes with settings of its own.
CompanionFiles companions_of(const json& keys, int context) {
  const std::string prefix = "tokenizer.ggml.";
  const json chat = keys.value("tokenizer.chat_template", json()), merges = keys.value(prefix + "merges", json());
  if (!chat.is_string() || !merges.is_array() || merges.size() < 2) return {};
  json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"clean_up_tokenization_spaces", false},
                   {"model_max_length", context},
                   {"chat_template", chat}};
  json generation = json::object();
  const json tokens = keys.value(prefix + "tokens", json::array());
  for (const auto& [ours, theirs] : {std::pair("bos", "bos"), {"eos", "eos"}, {"pad", "padding"}, {"unk", "unknown"}}) {
    const json number = keys.value(prefix + theirs + "_token_id", json());
    const auto token = integer_between(number, 0, static_cast<int64_t>(tokens.size()) - 1);
    if (!token) continue;
    settings[std::string(ours) + "_token"] = tokens[*token];
    if (std::string_view(ours) != "unk") generation[std::string(ours) + "_token_id"] = *token;
  }
  return {{"tokenizer_config.json", to_text(settings, 2) + "\n"},
          {"generation_config.json", to_text(generation, 2) + "\n"}};
}

class GgufModel : public ForeignModel {
 public:
  explicit GgufModel(const std::string& path) : file_(std::make_shared<const GgufFile>(path)), held_(held_in(file_)) {
    require_whole(*file_);
    expressed_ = std::make_unique<const Expressed>(expressed());
    if (needs_own_head(*expressed_) && same_numbers(held_, kEmbedding, kOutput)) {
      held_.erase(kOutput);  // tied, which olmo2 and olmoe cannot say
      expressed_ = std::make_unique<const Expressed>(expressed());
    }
    for (const char* name : kRopeTensors)
      if (may_have_rope_tensor(*expressed_, name)) held_.erase(name);
    wanted_ = foreign_tensors(expressed_->architecture, expressed_->config);
    require_tensors(path, "its header", held_, wanted_);
  }

  const Config& config() const override { return expressed_->config; }
  const char* preset() const override { return expressed_->architecture.preset; }

  Tokenizer tokenizer() const override {
    const auto read = [&] { return tokenizer_in_gguf(file_->path(), file_->keys()); };
    return read_or_keep(read, config().vocab_size, "").finding_special(true);
  }

  CompanionFiles companions() const override { return companions_of(file_->keys(), config().context); }

  std::string chat_template() const override {
    const json chat = file_->keys().value("tokenizer.chat_template", json());
    return chat.is_string() ? chat.get<std::string>() : "";
  }

  // The file holds the gains that llama.cpp multiplies by.
  void load(const TensorPlaces& to) const override {
    load_tensors(to, file_->path(), held_, wanted_, config());
    for (const auto& [name, place] : to)
      if (config().norm_unit_offset && place.spec.role == Role::norm_gain)
        for (size_t i = 0; i < place.spec.size(); ++i) place.buffer[place.spec.offset + i] -= 1;
  }

 private:
  Expressed expressed() const {
    json keys = file_->keys();
    std::set<std::string> names;
    for (const auto& [name, tensor] : held_) names.insert(name);
    return explained(file_->path() + " cannot be used: ", [&] {
      const auto embedding = held_.find(kEmbedding);
      const json architecture = keys.value("general.architecture", json(""));
      if (embedding != held_.end() && architecture.is_string())
        keys.emplace(architecture.get<std::string>() + ".vocab_size", embedding->second.shape[0]);
      return expressed_by_gguf(keys, names, rope_tensors_in(held_));
    });
  }

  std::shared_ptr<const GgufFile> file_;
  HeldTensors held_;
  std::unique_ptr<const Expressed> expressed_;
  ForeignTensors wanted_;
};

}  // namespace

std::unique_ptr<ForeignModel> open_gguf(const std::string& path) { return std::make_unique<GgufModel>(path); }
