// Makes one call of the program fail (LD_PRELOAD, glibc).
//
//   FAULT=fsync:3       the third fsync fails. Kinds: write, short (half is written), fsync, rename, open, malloc,
//                       thread (is created), list (the next name in a folder)
//   FAULT=stop:3        the process pauses before the third write, as with Ctrl-Z
//   FAULT_COUNT=FILE    append the number of calls to FILE when the process ends
//
// glibc calls write() for its buffers in a way that no library can intercept, so a write here is fwrite or fflush.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static char kind[16];
static long fails_at, calls;
static int (*real_main)(int, char**, char**);

static int begin(int argc, char** argv, char** environment) {
  const char *fault = getenv("FAULT"), *colon = fault ? strchr(fault, ':') : NULL;
  if (colon && (size_t)(colon - fault) < sizeof kind) {
    fails_at = atol(colon + 1);
    memcpy(kind, fault, (size_t)(colon - fault));
  }
  return real_main(argc, argv, environment);
}

// Counts calls from the start of main.
int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack_end) {
  real_main = main;
  __typeof__(&__libc_start_main) next = (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  return next(begin, argc, argv, init, fini, loader_fini, stack_end);
}

__attribute__((destructor)) static void end(void) {
  const char* file = getenv("FAULT_COUNT");
  const long counted = calls;
  if (!file) return;
  kind[0] = 0;
  FILE* out = fopen(file, "a");
  if (out) fprintf(out, "%ld\n", counted), fclose(out);
}

static int fails(const char* what, int error) {
  if (strcmp(kind, what) != 0 || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != fails_at) return 0;
  errno = error;
  return 1;
}

// Opening the system's own files never fails: the program may ignore that.
static int is_system(const char* path) {
  return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/dev/", 5) == 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

size_t fwrite(const void* data, size_t size, size_t n, FILE* file) {
  if (fileno(file) > 2 && fails("write", ENOSPC)) return 0;
  if (fileno(file) > 2 && fails("stop", 0)) raise(SIGSTOP);
  if (fileno(file) > 2 && fails("short", ENOSPC)) {
    const size_t half = NEXT(fwrite)(data, size, n / 2, file);
    errno = ENOSPC;
    return half;
  }
  return NEXT(fwrite)(data, size, n, file);
}

int fflush(FILE* file) {
  const int own = file && fileno(file) > 2;
  if (own && fails("write", ENOSPC)) return EOF;
  const int result = NEXT(fflush)(file);
  return own && fails("short", ENOSPC) ? EOF : result;
}

int fsync(int handle) { return fails("fsync", EIO) ? -1 : NEXT(fsync)(handle); }

int rename(const char* from, const char* to) { return fails("rename", EIO) ? -1 : NEXT(rename)(from, to); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
  va_end(list);
  return !is_system(path) && fails("open", EMFILE) ? -1 : NEXT(open)(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  return !is_system(path) && fails("open", EMFILE) ? NULL : NEXT(fopen)(path, mode);
}

FILE* fdopen(int handle, const char* mode) { return fails("open", EMFILE) ? NULL : NEXT(fdopen)(handle, mode); }

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  return fails("thread", EAGAIN) ? EAGAIN : NEXT(pthread_create)(thread, attributes, function, argument);
}

struct dirent* readdir(DIR* folder) { return fails("list", EIO) ? NULL : NEXT(readdir)(folder); }
struct dirent64* readdir64(DIR* folder) { return fails("list", EIO) ? NULL : NEXT(readdir64)(folder); }

void* malloc(size_t size) { return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return fails("malloc", ENOMEM) ? NULL : __libc_calloc(n, size); }
void* realloc(void* old, size_t size) { return fails("malloc", ENOMEM) ? NULL : __libc_realloc(old, size); }
void* aligned_alloc(size_t align, size_t size) { return fails("malloc", ENOMEM) ? NULL : __libc_memalign(align, size); }
