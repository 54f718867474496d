#pragma once
// Rank 0 leads the other ranks of a run. Only rank 0 reads and writes files, prints and decides. The others carry out
// its orders, which contain everything they need: settings, weights, and the tokens of every batch. With one rank, each
// function does all the work.

#include <memory>
#include <vector>

#include "data/options/options.hpp"
#include "data/ranks/mpi_group.hpp"
#include "data/text/dataset.hpp"
#include "layers/training/step.hpp"

// Ends the other ranks when rank 0 ends.
struct Leading {
  std::shared_ptr<Group> group;
  ~Leading();
};

// Carries out rank 0's orders until it ends. `threads` is the number of threads if the settings leave it open.
void follow(const std::shared_ptr<Group>& group, int threads);

// Sets the number of lanes to the number of ranks rounded up to a power of two, unless it is given. Throws
// std::invalid_argument if the ranks cannot share a step.
void share_steps(TrainOptions& options, bool lanes_are_given, int ranks);

// The functions of a run's steps.
StepFunctions step_functions(const TrainOptions& options);

// ---- orders of rank 0 ------------------------------------------------------------------------------------

// Makes the other ranks build the run's model.
void order_model(Group& group, const TrainOptions& options);

// Copies the weights and the whole optimizer state (null for zeros) to the ranks that update them.
void order_state(TrainingState& state, const float* whole);

// Collects the optimizer's state of all ranks.
Buffer order_whole_state(TrainingState& state);

// Runs training_step() on all ranks.
StepResult order_step(TrainingState& state, const MicroBatches& batches, const StepOptions& options, int64_t step,
                      double lr, StepObserver* observer);

// Returns the losses of batches of B rows, at most one per rank.
std::vector<double> order_losses(Group& group, const Model& model, const Activations& activations, RowBatch& inputs,
                                 int B);
