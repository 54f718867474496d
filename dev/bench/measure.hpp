#pragma once
// Timing, one contestant beside another. On a machine that does other things too, two numbers taken minutes apart
// compare two minutes; so contestants take turns, in both orders, and what is reported of two of them is the median of
// the rounds' ratios.

#include <functional>
#include <string>
#include <vector>

#include "peer.hpp"

double median(std::vector<double> values);  // NaN of none

// One round of one contestant: the median seconds of a repetition, or NaN where it failed. The first is told so.
using Contestant = std::function<double(bool first)>;

struct Times {
  std::vector<double> rounds;

  bool known() const { return !rounds.empty(); }
  double seconds() const { return median(rounds); }
};

// How many times as fast as `theirs`.
double speedup(const Times& ours, const Times& theirs);

struct Clockwork {
  int rounds = 5;
  double least = .03;  // seconds of work in a round
  Peer& peer;

  Contestant ours(std::function<void()> work) const;
  Contestant theirs(const std::string& request) const;  // the line without `least`

  // A contestant that fails once is out, and its times are none.
  std::vector<Times> race(const std::vector<Contestant>& contestants) const;
  Times alone(std::function<void()> work) const { return race({ours(std::move(work))})[0]; }
};
