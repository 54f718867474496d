#include "process.hpp"

#include <cstring>
#include <initializer_list>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
#endif

#if defined(_OPENMP) && defined(__GLIBC__)

namespace {

char **place = nullptr, *lent = nullptr;  // an entry of the environment, and its original text

bool sets(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

char** find(char** environment, const char* name) {
  for (; *environment; ++environment)
    if (sets(*environment, name)) return environment;
  return nullptr;
}

// True if this is the only running thread: "0.20 0.18 0.12 1/80 11206" means 1 of 80 runs.
bool machine_is_idle() {
  char text[128];
  const int file = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t n = ::read(file, text, sizeof text - 1);
  ::close(file);
  text[n > 0 ? n : 0] = '\0';
  const char* slash = std::strchr(text, '/');
  return slash && slash - text >= 2 && slash[-1] == '1' && slash[-2] == ' ';
}

// Runs before any library is initialized, even the C library, so setenv() does not work yet. Instead, the setting
// replaces a variable that no library reads while it loads.
__attribute__((no_sanitize("address", "undefined"))) void limit_spinning(int, char**, char** environment) {
  static char few[] = "GOMP_SPINCOUNT=1000", more[] = "GOMP_SPINCOUNT=20000";
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (find(environment, name)) return;
  for (const char* name : {"_", "SHLVL", "OLDPWD", "PWD", "TERM", "HOME", "PATH"})
    if (!place) place = find(environment, name);
  if (!place) return;
  lent = *place;
  *place = machine_is_idle() ? more : few;
}

__attribute__((section(".preinit_array"), used)) void (*const before_libraries)(int, char**, char**) = limit_spinning;

void take_back() {
  if (place) *place = lent;
}

}  // namespace

#else

namespace {
void take_back() {}
}  // namespace

#endif

void begin_process(const char* typed) {
  take_back();
#if defined(__linux__)
  const char* slash = std::strrchr(typed, '/');  // std::filesystem would allocate, and memory may be short
  prctl(PR_SET_NAME, slash ? slash + 1 : typed);
#endif
  (void)typed;
}
