#pragma once
// diagnostics.csv of a run: step,layer,part,what,value (layers/training/diagnostics.hpp lists the values).
//
// The rows of step k belong to the pass whose loss is row k of metrics.csv, on the weights before update k. So step 1
// shows the initial weights. Activations and the stream's gradient come from the last micro-batch.

#include <memory>

#include "layers/training/diagnostics.hpp"
#include "data/text/dataset.hpp"
#include "data/files/files.hpp"
#include "data/options/options.hpp"

// Sorts rows by layer. Rows that belong to no layer come first.
void sort_by_layer(Statistics& rows);

// "0,stream,rms,1.25\n"
std::string csv_row(const Statistic& statistic);

class Diagnostics : public PassStatistics {
 public:
  // Drops the rows after `last_step`. If that is 0, the model must have its initial weights. Keeps references to all
  // arguments but the data.
  Diagnostics(const TrainOptions& options, const Dataset& data, const Model& model, const Activations& activations,
              int64_t last_step);

  // Returns the observer for this step, counted from 1; null if no diagnostics are due.
  StepObserver* observer(int64_t step);
  void before_update() override;
  void after_update() override;

 private:
  const TrainOptions& options_;
  const Activations& activations_;
  std::unique_ptr<GrowingFile> file_;  // null if this call writes no rows and no earlier one did
  int64_t step_ = 0;                   // the observed step
  Buffer before_;                      // the weights before the update
  RowBatch probed_;  // a fixed batch for `update`: the first validation batch, or else a training one
  std::vector<float> start_;           // (N,C) the classifier's input for that batch at the start of the run
};
