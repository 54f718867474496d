#include "inputs.hpp"

#include <algorithm>
#include <filesystem>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"

namespace fs = std::filesystem;

namespace {

uint64_t hash_file(const std::string& path) {
  const InputFile file(path);
  std::vector<char> block(1 << 20);
  uint64_t hash = file.size();
  for (uint64_t at = 0; at < file.size(); at += block.size()) {
    const size_t bytes = std::min<uint64_t>(block.size(), file.size() - at);
    file.read(block.data(), bytes, at);
    hash = hash_bytes(hash, block.data(), bytes);
  }
  return hash;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_in(const std::string& hash) { return hash.substr(hash.find(' ') + 1); }

void require_same(const InputHashes& expected, const InputHashes& found) {
  const std::string changed = changed_input(expected, found);
  if (!changed.empty()) throw OtherInputs("the " + changed + " has changed");
}

}  // namespace

InputHashes hash_text(const TrainOptions& o, const Dataset& data) {
  uint64_t text = data.fingerprint, pairs = 0;
  for (const auto& hash : data.token_files) text = rng::key({text, hash()});
  InputHashes hashes = {format_hash(text) + " text",
                        format_hash(rng::word(to_text(to_json(data.tokenizer)))) + " tokenizer"};
  for (const std::string& file : o.eval_pairs) pairs = rng::key({pairs, hash_file(file)});
  if (!o.eval_pairs.empty()) hashes.push_back(format_hash(pairs) + " file of --eval-pairs");
  return hashes;
}

std::string hash_weights(const std::string& init_from) {
  const std::string found = find_checkpoint(init_from);
  std::vector<std::string> files = {found};
  if (fs::is_directory(found)) {
    files = files_in(found);
    const std::string base = whole_model_of(found);
    if (!base.empty() && base != absolute_path(found))
      for (const std::string& file : files_in(base)) files.push_back(file);
  }
  uint64_t hash = 0;
  for (const std::string& file : files)
    hash = rng::key({hash, rng::word(fs::path(file).filename().string()), hash_file(file)});
  return format_hash(hash) + " " + absolute_path(init_from);
}

std::string changed_input(const InputHashes& then, const InputHashes& now) {
  for (const std::string& before : then)
    for (const std::string& after : now) {
      const std::string name = name_in(after);
      if (name_in(before) == name && before != after)
        return (name[0] == '/' ? "checkpoint " : "") + name;
    }
  return "";
}

void require_same_text(const TrainOptions& o, const Dataset& data) {
  if (!o.input_hashes.empty()) require_same(o.input_hashes, hash_text(o, data));
}

void require_same_weights(const TrainOptions& o) {
  if (!o.input_hashes.empty() && !o.init_from.empty()) require_same(o.input_hashes, {hash_weights(o.init_from)});
}

InputHashes inputs_read(const TrainOptions& o, const Dataset& data) {
  if (o.input_hashes.empty()) return {};
  InputHashes read = hash_text(o, data);
  for (const std::string& hash : o.input_hashes)
    if (!o.init_from.empty() && name_in(hash) == absolute_path(o.init_from)) read.push_back(hash);
  return read;
}
