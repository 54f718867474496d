#pragma once
// Timing of contestants against each other. On a busy machine, two measurements taken minutes apart are not comparable.
// So contestants take turns in both orders, and the speedup is the median of the rounds' ratios.

#include <functional>
#include <string>
#include <vector>

#include "peer.hpp"

double median(std::vector<double> values);  // NaN if there are none

// Runs one round and returns the median seconds of a repetition, or NaN if it failed.
using Contestant = std::function<double(bool first)>;

struct Times {
  std::vector<double> rounds;

  bool known() const { return !rounds.empty(); }
  double seconds() const { return median(rounds); }
};

// How many times as fast `ours` is.
double speedup(const Times& ours, const Times& theirs);

struct Clockwork {
  int rounds = 5;
  double least = .03;  // seconds of work in a round
  Peer& peer;

  Contestant ours(std::function<void()> work) const;
  Contestant theirs(const std::string& request) const;  // the line without `least`

  // A contestant that fails once is left out and has no times.
  std::vector<Times> race(const std::vector<Contestant>& contestants) const;
  Times alone(std::function<void()> work) const { return race({ours(std::move(work))})[0]; }
};
