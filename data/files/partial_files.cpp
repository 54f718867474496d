#include "partial_files.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/strings/errors.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;

// ---- signals ---------------------------------------------------------------------------------------------

namespace {

// A list that a signal's handler can read at any moment: entries are added in front, and never change or go.
struct Entry {
  const std::string name;
  Entry* const next;
  std::atomic<bool> is_there = true;
};
std::atomic<Entry*> entries = nullptr;
std::atomic<bool> publishing = false;
std::atomic<int> postponed = 0;  // the signal that arrived meanwhile
std::atomic<bool> ending = false;
std::atomic<int> creating = 0;  // threads that create a file

// While this object lives, a signal waits for it, unless it interrupts this thread. No file begins after the signal.
struct WhileCreating {
  WhileCreating() {
    ++creating;
    if (!ending) return;
    --creating;
    while (true) ::pause();
  }
  ~WhileCreating() { --creating; }
};

Entry* entry_of(const std::string& partial) {
  Entry* entry = entries;
  while (entry && entry->name != partial) entry = entry->next;
  return entry;
}

void list_partial(const std::string& partial) {
  static std::mutex alone;
  const std::lock_guard guard(alone);
  if (Entry* known = entry_of(partial)) known->is_there = true;
  else entries = new Entry{partial, entries};
}

void unlist_partial(const std::string& partial) {
  if (Entry* entry = entry_of(partial)) entry->is_there = false;
}

void remove_files_and_end(int signal) {
  if (publishing) {
    postponed = signal;
    return;
  }
  ending = true;
  for (int ms = 0; ms < 50 && creating > 0; ++ms) ::poll(nullptr, 0, 1);
  bool removed = false;
  for (const Entry* entry = entries; entry; entry = entry->next)
    if (entry->is_there) removed |= ::unlink(entry->name.c_str()) == 0;
  constexpr std::string_view kText = "\ntrain_gpt: stopped by a signal; unfinished files are removed\n";
  std::signal(SIGPIPE, signal == SIGPIPE ? SIG_DFL : SIG_IGN);  // standard error may be closed, too
  [[maybe_unused]] const ssize_t said = removed ? ::write(STDERR_FILENO, kText.data(), kText.size()) : 0;
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Leaves signals alone that the process ignores, or that train catches to save its run.
void remove_files_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1}) {
    struct sigaction now {}, remove {};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) continue;
    remove.sa_handler = remove_files_and_end;
    ::sigaction(signal, &remove, nullptr);
  }
}

// ---- names -----------------------------------------------------------------------------------------------

constexpr std::string_view kPartial = ".partial";

void give_name(const std::string& partial, const std::string& path) {
  if (std::rename(partial.c_str(), path.c_str()) != 0) fail_file("write", path, errno);
  unlist_partial(partial);
}

}  // namespace

std::FILE* create_partial(const std::string& path, std::string& partial) {
  remove_files_on_signals();
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string again = attempt == 0 ? "" : "-" + std::to_string(attempt);
    partial = path + "." + std::to_string(::getpid()) + again + std::string(kPartial);
    const WhileCreating guard;
    list_partial(partial);  // first, so that a signal at any moment finds it
    const int handle = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (handle < 0) {
      unlist_partial(partial);
      if (errno == EEXIST) continue;  // from a process with the same PID, perhaps on another machine
      break;
    }
    ::flock(handle, LOCK_EX | LOCK_NB);
    struct stat status {};
    const bool known = ::fstat(handle, &status) == 0, removed = known && status.st_nlink == 0;
    std::FILE* file = known && !removed ? ::fdopen(handle, "wb") : nullptr;
    if (file) return file;
    const int error = errno;
    ::close(handle);
    if (removed) continue;  // another process took it for a leftover before it was locked
    remove_partial(partial);
    errno = error;
    break;
  }
  fail_file("write", path, errno);
}

void remove_partial(const std::string& partial) {
  ::unlink(partial.c_str());
  unlist_partial(partial);
}

void remove_leftovers(const std::string& path) {
  const fs::path file(path);
  const std::string start = file.filename().string() + ".";
  std::error_code error;
  fs::directory_iterator entry(file.has_parent_path() ? file.parent_path() : fs::path("."), error);
  std::vector<std::string> names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  for (const std::string& name : names) {
    if (!name.starts_with(start) || !name.ends_with(kPartial) || name.size() < start.size() + kPartial.size()) continue;
    const std::string number = name.substr(start.size(), name.size() - start.size() - kPartial.size());
    if (number.find_first_not_of("0123456789-") != number.npos) continue;
    const std::string partial = (file.parent_path() / name).string();
    const int handle = ::open(partial.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (handle < 0) continue;
    if (::flock(handle, LOCK_EX | LOCK_NB) == 0) ::unlink(partial.c_str());
    ::close(handle);
  }
}

// ---- several files ---------------------------------------------------------------------------------------

namespace {

PublishTogether* together = nullptr;

// While this object lives, a signal waits.
struct WhilePublishing {
  WhilePublishing() { publishing = true; }
  ~WhilePublishing() {
    publishing = false;
    if (const int signal = postponed.exchange(0)) ::raise(signal);
  }
};

}  // namespace

void publish_partial(const std::string& partial, const std::string& path) {
  if (together) together->hold(partial, path);
  else give_name(partial, path);
}

PublishTogether::PublishTogether(std::vector<std::string> replaced) : replaced_(std::move(replaced)) {
  together = this;
}

PublishTogether::~PublishTogether() {
  together = nullptr;
  for (const auto& [partial, path] : held_) remove_partial(partial);
}

// The second file of a name removed the first as a leftover, because a file that is held is not locked.
void PublishTogether::hold(const std::string& partial, const std::string& path) {
  std::erase_if(held_, [&](const auto& file) { return file.second == path; });
  held_.emplace_back(partial, path);
}

void PublishTogether::publish() {
  for (const auto& [partial, path] : held_)
    if (!is_there(partial)) fail_file("write", path, ENOENT);
  const WhilePublishing guard;
  for (const std::string& path : replaced_) {
    const bool is_held = std::ranges::any_of(held_, [&](const auto& file) { return file.second == path; });
    if (!is_held) remove_leftovers(path);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_file("replace", path, errno);
  }
  for (const auto& [partial, path] : held_) give_name(partial, path);
  held_.clear();
}
