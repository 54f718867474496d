#pragma once
// diagnostics.csv of a run: step,layer,part,what,value (layers/training/diagnostics.hpp says what there is).
//
// The rows of step k belong to the pass whose loss is row k of metrics.csv, on the weights before update k: step 1
// shows the initial weights. With micro-batches, activations and the stream's gradient are those of the last one.

#include <memory>

#include "layers/training/diagnostics.hpp"
#include "data/text/dataset.hpp"
#include "data/host/files.hpp"
#include "data/options/options.hpp"

// In the order of the layers; what is in no layer comes first.
void sort_by_layer(Statistics& rows);

// "0,stream,rms,1.25\n"
std::string csv_row(const Statistic& statistic);

class Diagnostics : public PassStatistics {
 public:
  // Rows beyond `last_step` are dropped. Where it is 0, the model has its initial weights. Keeps references to all
  // but the data.
  Diagnostics(const TrainOptions& options, const Dataset& data, const Model& model, const Activations& activations,
              int64_t last_step);

  // What looks on at this step, counted from 1; null if no look is due.
  StepObserver* observer(int64_t step);
  void before_update() override;
  void after_update() override;

 private:
  bool due(int64_t step) const;

  const TrainOptions& options_;
  const Activations& activations_;
  std::unique_ptr<GrowingFile> file_;  // none where there is nothing to write, and never was
  int64_t step_ = 0;                   // that is looked at
  Buffer before_;                      // the weights before the update
  std::vector<int> tokens_, targets_;  // the fixed batch of `update`: the first of the validation, or of training where there is none
  std::vector<float> start_;           // (N,C) what the classifier read there at the start

  Batch probe() const { return {tokens_.data(), targets_.data(), options_.batch, model_.config.context}; }
};
