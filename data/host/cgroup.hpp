#pragma once
// Limits of control groups (cgroups): how Linux bounds the processors and memory of a container or a batch job.

#include <cstdint>
#include <limits>
#include <string>

struct CgroupLimits {
  double processors = std::numeric_limits<double>::infinity();         // processor time per second
  uint64_t memory = std::numeric_limits<uint64_t>::max();              // bytes
  uint64_t memory_free = std::numeric_limits<uint64_t>::max();         // bytes that the limit leaves free
};

// Returns the smallest limits of this process's groups and of the groups that contain them, in cgroup versions 1 and 2.
// A limit that cannot be read counts as none. Tests replace / by `root`.
CgroupLimits cgroup_limits(const std::string& root = "");

// Returns `processors`, or the rounded quota if that is smaller. Threads wait for each other at every step, so a small
// part of a processor would gain nothing.
int within_quota(int processors, double quota);
