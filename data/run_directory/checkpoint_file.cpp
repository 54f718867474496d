#include "checkpoint_file.hpp"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/formats/huggingface/companions.hpp"
#include "data/options/options.hpp"
#include "data/options/settings_file.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/model/model.hpp"

using nlohmann::json;

namespace {

json optional_number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

// A finite number, or `otherwise` for null.
double number(const json& j, const char* key, double otherwise) {
  const json& x = j.at(key);
  if (x.is_null()) return otherwise;
  if (!x.is_number() || !std::isfinite(x.get<double>()))
    throw std::runtime_error(std::string(key) + " is not a number");
  return x.get<double>();
}

json to_json(const CompanionFiles& files) {
  json values = json::object();
  for (const auto& [name, text] : files) values[name] = text_to_json(text);
  return values;
}

CompanionFiles companions_of(const json& values) {
  CompanionFiles files;
  const auto& names = companion_names();
  for (const auto& [name, text] : values.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw std::runtime_error("it has a file that came with no model: " + in_quotes(name));
    files[name] = text_from_json(text);
  }
  return files;
}

}  // namespace

uint64_t whole_number(const json& fields, const char* key, uint64_t most) {
  const json& x = fields.at(key);
  if (!x.is_number_unsigned() || x.get<uint64_t>() > most)
    throw std::runtime_error(std::string(key) + " is out of range");
  return x.get<uint64_t>();
}

json to_json(const CheckpointHeader& h) {
  json fields = {{"settings", to_json(h.options)},
          {"optimizer", h.optimizer},
          {"converses", h.converses},
          {"answers", h.answers},
          {"tokenizer", to_json(h.tokenizer)},
          {"step", h.step},
          {"elapsed", h.elapsed > 0 && std::isfinite(h.elapsed) ? h.elapsed : 0},  // a clock may run backwards
          {"val_loss", optional_number(h.val_loss)},
          {"best_loss", optional_number(h.best_loss)},
          {"best_step", h.best_step},
          {"unwritten_row", h.unwritten_row},
          {"data", h.data_fingerprint}};
  if (!h.companions.empty()) fields["companions"] = to_json(h.companions);
  if (!h.came_dtype.empty()) fields["came_dtype"] = h.came_dtype;
  return fields;
}

// The best step is kept even if the best loss is null.
CheckpointHeader header_of(const json& j, const TrainOptions& options) {
  constexpr uint64_t kMostSteps = 1000000000000000, kAny = std::numeric_limits<uint64_t>::max();
  CheckpointHeader h;
  h.options = options;
  h.options.config = resolved(h.options.config);
  h.optimizer = j.at("optimizer");
  h.converses = j.value("converses", false);
  h.answers = j.value("answers", false);
  h.tokenizer = tokenizer_from_json(j.at("tokenizer"));
  if (h.tokenizer.vocabulary() > h.options.config.vocab_size)
    throw std::runtime_error("its tokenizer has more tokens than its model");
  h.step = static_cast<int64_t>(whole_number(j, "step", kMostSteps));
  h.elapsed = number(j, "elapsed", -1);
  h.val_loss = number(j, "val_loss", h.val_loss);
  h.best_loss = number(j, "best_loss", h.best_loss);
  h.best_step = static_cast<int64_t>(whole_number(j, "best_step", static_cast<uint64_t>(h.step)));
  if (h.elapsed < 0) throw std::runtime_error("elapsed is not a time");
  h.unwritten_row = j.value("unwritten_row", "");
  if (h.unwritten_row.find_first_not_of("0123456789+-.e,") != h.unwritten_row.npos)
    throw std::runtime_error("unwritten_row is not a row");
  h.companions = companions_of(j.value("companions", json::object()));
  h.came_dtype = j.value("came_dtype", "");
  h.data_fingerprint = whole_number(j, "data", kAny);
  const double tokens = double(h.step) * h.options.batch * h.options.accumulate * h.options.config.context;
  if (tokens > 4e18) throw std::runtime_error("it has seen more tokens than can be counted");
  return h;
}

uint64_t checksum_in_pieces(uint64_t size,
                            const std::function<void(Checksum& sum, uint64_t begin, uint64_t end)>& add) {
  std::vector<uint64_t> sums(size == 0 ? 1 : (size - 1) / kChecksumPiece + 1);
  std::exception_ptr error;  // no exception may leave a parallel loop
  std::mutex one_at_a_time;
  parallel_tasks(static_cast<int>(sums.size()), [&](int i) {
    try {
      Checksum sum;
      const uint64_t begin = static_cast<uint64_t>(i) * kChecksumPiece;
      add(sum, begin, begin + std::min(kChecksumPiece, size - begin));
      sums[static_cast<size_t>(i)] = sum.value();
    } catch (...) {
      const std::lock_guard lock(one_at_a_time);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  if (sums.size() == 1) return sums[0];
  Checksum all;
  all.add(sums.data(), sums.size() * sizeof(uint64_t));
  return all.value();
}

std::vector<TensorSpec> table_of(const Config& config, size_t listed) {
  if (listed < static_cast<size_t>(config.n_layer))
    throw std::runtime_error("its table has fewer tensors than the model layers");
  Layout layout;
  declare_model(layout, config);
  return layout.table();
}
