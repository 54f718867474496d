#pragma once
// The options of `train`, and the groups of them that other commands share.

#include <vector>

#include "settings.hpp"

// The options of `train` that decide what is trained, which config.toml holds. The model's come first.
const std::vector<TrainSetting>& train_settings();

template <class Options>
class SettingTable;
using TrainTable = SettingTable<TrainOptions>;

void describe_model(TrainTable& t);
void describe_data(TrainTable& t);
void describe_batch(TrainTable& t);
void describe_lanes(TrainTable& t);
void describe_seeds(TrainTable& t);
void describe_trained(TrainTable& t);
void describe_optimizer(TrainTable& t);
void describe_step(TrainTable& t);  // learning rates, optimizer and clipping
void describe_machine(TrainTable& t);
