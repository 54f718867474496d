#include "metrics.hpp"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "csv.hpp"

std::string csv_line(const MetricsRow& r) {
  char line[512];
  std::snprintf(line, sizeof line, "%lld,%lld,%.3f,%s,%s,%s,%s,%s,%d,%.3f,%.0f,%s", static_cast<long long>(r.step),
                static_cast<long long>(r.tokens), r.elapsed_s, csv_number(r.train_loss).c_str(),
                csv_number(r.val_loss).c_str(), csv_number(r.val_bpb).c_str(), csv_number(r.lr).c_str(),
                csv_number(r.grad_norm).c_str(), r.clipped ? 1 : 0, r.step_ms, r.tokens_per_second,
                csv_number(r.val_loss_full).c_str());
  return line;
}

namespace {

MetricsRow last_row_of(const std::string& text) {
  const size_t end = text.size() - 1, begin = text.rfind('\n', end - 1) + 1;
  const std::vector<std::string> fields = csv_fields(text.substr(begin, end - begin));
  const auto number = [&](metrics::Column column) {
    const std::string& field = fields[column];
    return field.empty() ? std::numeric_limits<double>::quiet_NaN() : std::strtod(field.c_str(), nullptr);
  };
  if (fields[0] == "step") return {};
  return {std::atoll(fields[metrics::step].c_str()), std::atoll(fields[metrics::tokens].c_str()),
          number(metrics::elapsed_s), number(metrics::train_loss), number(metrics::val_loss), number(metrics::val_bpb),
          number(metrics::lr),
          number(metrics::grad_norm), fields[metrics::clipped] == "1", number(metrics::step_ms),
          number(metrics::tokens_per_second), number(metrics::val_loss_full)};
}

}  // namespace

Metrics::Metrics(const std::string& directory, int64_t last_step, const std::string& unwritten)
    : path_(directory + "/metrics.csv"),
      file_(path_, csv_up_to(path_, {std::begin(metrics::names), std::end(metrics::names)}, last_step, {}, true)) {
  last_ = last_row_of(read_file(path_));
  const std::vector<std::string> fields = csv_fields(unwritten);
  if (last_.step >= last_step || fields.size() != metrics::columns || fields[0] != std::to_string(last_step)) return;
  file_.write(unwritten + "\n");
  last_ = last_row_of(unwritten + "\n");
}

void Metrics::write(const MetricsRow& row) {
  file_.write(csv_line(row) + "\n");
  last_ = row;
}

void Metrics::replace_last(const MetricsRow& row) {
  std::string text = read_file(path_);
  text.resize(text.rfind('\n', text.size() - 2) + 1);
  file_ = GrowingFile(path_, text + csv_line(row) + "\n");
  last_ = row;
}
