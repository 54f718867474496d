#include "cgroup.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// ---- files of one group ----------------------------------------------------------------------------------

// Returns the number in a file; kNone for "max", for -1, and if the file has no number.
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = kNone;
  return file >> number ? number : kNone;
}

// Adds up the wanted lines of memory.stat, such as "inactive_file 4096".
uint64_t sum_in(const std::string& path, const std::vector<std::string>& wanted) {
  std::ifstream file(path);
  uint64_t sum = 0, number = 0;
  for (std::string name; file >> name >> number;)
    if (std::ranges::find(wanted, name) != wanted.end()) sum += number;
  return sum;
}

void add_memory(CgroupLimits& limits, uint64_t most, uint64_t used, uint64_t cached) {
  limits.memory = std::min(limits.memory, most);
  if (most == kNone || used == kNone) return;
  const uint64_t kept = used - std::min(used, cached);  // the system frees its file cache when needed
  limits.memory_free = std::min(limits.memory_free, most - std::min(most, kept));
}

void add_quota(CgroupLimits& limits, double quota, double period) {
  if (quota > 0 && period > 0) limits.processors = std::min(limits.processors, quota / period);
}

// Above memory.high the system slows a group down until it stands still.
void read_version_2(CgroupLimits& limits, const std::string& group) {
  const uint64_t most = std::min(number_in(group + "/memory.max"), number_in(group + "/memory.high"));
  add_memory(limits, most, number_in(group + "/memory.current"),
             sum_in(group + "/memory.stat", {"inactive_file", "active_file"}));
  std::ifstream file(group + "/cpu.max");  // "50000 100000" or "max 100000"
  double quota = 0, period = 0;
  if (file >> quota >> period) add_quota(limits, quota, period);
}

// hierarchical_memory_limit counts groups that a container does not see. "No limit" is a large number.
void read_version_1(CgroupLimits& limits, const std::string& group) {
  uint64_t most = number_in(group + "/memory.limit_in_bytes");
  if (const uint64_t above = sum_in(group + "/memory.stat", {"hierarchical_memory_limit"}); above > 0)
    most = std::min(most, above);
  add_memory(limits, most, number_in(group + "/memory.usage_in_bytes"),
             sum_in(group + "/memory.stat", {"total_inactive_file", "total_active_file"}));
  double quota = 0, period = 0;
  std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(group + "/cpu.cfs_period_us") >> period;
  add_quota(limits, quota, period);
}

// ---- the groups of this process --------------------------------------------------------------------------

// One line of /proc/self/mountinfo:
//   35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
struct Mount {
  std::string root, point, type, options;
};

// "\040" is a space.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size();
    plain += escape ? static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8)) : text[i];
    if (escape) i += 3;
  }
  return plain;
}

Mount mount_of(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  Mount mount;
  words >> word >> word >> word >> mount.root >> mount.point;
  while (words >> word && word != "-") {
  }
  words >> mount.type >> word >> mount.options;
  mount.root = without_escapes(mount.root);
  mount.point = without_escapes(mount.point);
  return mount;
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Returns the path of this process's group: "/docker/4f" for the line "4:memory:/docker/4f". Version 2 names no
// controller: "0::/".
std::string group_of(const std::string& list, const std::string& controller) {
  std::ifstream file(list);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : has_word(controllers, controller)) return line.substr(second + 1);
  }
  return "/";
}

// Returns the part of `group` below the mounted folder `root`, or "" if `group` is not below it. That happens in a
// container that sees its group at the mount point, but the group's path as on the host.
std::string below(const std::string& group, std::string root) {
  if (root == "/") root.clear();
  const bool inside = (group + "/").starts_with(root + "/") && group.find("/..") == group.npos;
  return !inside || group == "/" ? "" : group.substr(root.size());
}

// Calls read(limits, folder) for a group and the mounted groups above it.
template <class Read>
void climb(CgroupLimits& limits, const std::string& mounted, std::string path, Read read) {
  while (true) {
    read(limits, mounted + path);
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  const std::string list = root + "/proc/self/cgroup";
  CgroupLimits limits;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const Mount mount = mount_of(line);
    const auto path = [&](const char* controller) { return below(group_of(list, controller), mount.root); };
    if (mount.type == "cgroup2") climb(limits, root + mount.point, path(""), read_version_2);
    if (mount.type != "cgroup") continue;
    for (const char* controller : {"memory", "cpu"})
      if (has_word(mount.options, controller)) climb(limits, root + mount.point, path(controller), read_version_1);
  }
  return limits;
}

int within_quota(int processors, double quota) {
  return quota < processors ? std::max(1, static_cast<int>(std::lround(quota))) : processors;
}
