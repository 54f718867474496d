#pragma once
// Limits of control groups (cgroups), with which Linux holds a container or a batch job.

#include <cstdint>
#include <limits>
#include <string>

struct CgroupLimits {
  double processors = std::numeric_limits<double>::infinity();         // processor time per second
  uint64_t memory = std::numeric_limits<uint64_t>::max();              // bytes
  uint64_t memory_free = std::numeric_limits<uint64_t>::max();         // bytes of it that are left
};

// The smallest limits of this process's groups and of the groups that contain them, in version 1 and 2. A limit that
// the system does not tell is no limit. `root` replaces / in tests.
CgroupLimits cgroup_limits(const std::string& root = "");

// No more processors than a quota of processor time, rounded. Threads that wait for each other at every step gain
// nothing from a small part of a processor.
int within_quota(int processors, double quota);
