#include "outcome.hpp"

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "data/host/files.hpp"

namespace fs = std::filesystem;

void write_outcome(const std::string& directory, const RunOutcome& o) {
  const nlohmann::ordered_json json = {
      {"state", o.finished ? "finished" : "diverged"}, {"step", o.step}, {"what", o.what}, {"tensor", o.tensor},
      {"parameters", o.parameters}, {"unigram", o.unigram}, {"floor", o.floor}, {"data", o.data_fingerprint},
      {"val_loss_full", std::isfinite(o.val_loss_full) ? nlohmann::ordered_json(o.val_loss_full) : nullptr},
      {"measured", o.measured}};
  WholeFile file(directory + "/" + kOutcome);
  file.write(json.dump(2) + "\n");
  file.finish();
  file.publish();
}

std::optional<RunOutcome> read_outcome(const std::string& directory) {
  const std::string path = directory + "/" + kOutcome;
  if (!fs::exists(path)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_file(path));
    RunOutcome o{json.at("state") == "finished", json.at("step"), json.at("what"), json.at("tensor"),
                 json.at("parameters"), json.at("unigram"), json.at("floor"), json.at("data")};
    if (json.contains("val_loss_full") && !json["val_loss_full"].is_null()) o.val_loss_full = json["val_loss_full"];
    o.measured = json.value("measured", true);
    return o;
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error(path + " is not an outcome: remove the run's directory and train it again");
  }
}

void remove_outcome(const std::string& directory) {
  std::error_code not_there;
  fs::remove(directory + "/" + kOutcome, not_there);
}
