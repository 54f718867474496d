#include "text_files.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/host/utf8.hpp"

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// "a.png, b.png and 7 more"
std::string list(const Names& names) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more" : text;
}

std::string count_files(size_t n) { return counted(static_cast<double>(n), "file"); }

// ---- folders ---------------------------------------------------------------------------------------------

// A glob with a slash is compared with the path below the folder, any other with the file name.
bool matches(const Names& globs, const fs::path& path, const fs::path& folder) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    const bool whole = glob.find('/') != glob.npos;
    const std::string subject = whole ? path.lexically_relative(folder).string() : path.filename().string();
    return fnmatch(glob.c_str(), subject.c_str(), 0) == 0;
  });
}

// The files below a folder, in alphabetical order. Adds those that are not text to `skipped`.
Names files_in(const std::string& folder, const TextFiles& filter, Names& skipped) {
  Names files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  if (error) fail_file("read the folder", folder, error.value());
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    const bool hidden = path.filename().string().starts_with('.');
    const bool left_out = hidden || matches(filter.exclude, path, folder);
    if (entry->is_directory(error)) {
      if (left_out) entry.disable_recursion_pending();
      else if (::access(path.c_str(), R_OK | X_OK) != 0) fail_file("read the folder", path.string(), errno);
    } else if (!left_out && (filter.include.empty() || matches(filter.include, path, folder))) {
      const bool floor_of_a_corpus = path.extension() == ".nats" && fs::exists(fs::path(path).replace_extension());
      (entry->is_regular_file(error) && !floor_of_a_corpus ? files : skipped).push_back(path.string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// ---- one file --------------------------------------------------------------------------------------------

struct Close {
  void operator()(std::FILE* f) const {
    if (f != stdin) std::fclose(f);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

// Asks for large pages before memory is written for the first time: most of that time goes into its pages.
void advise_large_pages(std::string& text) {
#if defined(__linux__)
  constexpr size_t kLargePage = 2 << 20;
  char* const begin = text.data();
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kLargePage;
  if (before >= text.capacity()) return;
  ::madvise(begin + before, (text.capacity() - before) / kLargePage * kLargePage, MADV_HUGEPAGE);
#else
  (void)text;
#endif
}

// Throws for a named pipe that has no writer within a second: reading it would never end.
void require_writer(std::FILE* file, const std::string& path) {
  const int handle = fileno(file);
  pollfd wanted{handle, POLLIN, 0};
  if (poll(&wanted, 1, 1000) == 0) {
    char byte;
    const ssize_t n = ::read(handle, &byte, 1);  // -1, EAGAIN: there is a writer, and it is slow
    if (n == 0) throw std::runtime_error(path + " is a pipe that nothing writes to");
    if (n > 0) std::ungetc(static_cast<unsigned char>(byte), file);
  }
}

File open_text(const std::string& path) {
  const int handle = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat is;
  if (handle < 0 || fstat(handle, &is) != 0) fail_file("read", path, errno);
  File file(path == "-" ? stdin : fdopen(handle, "rb"));
  if (!file) fail_file("read", path, errno);
  if (S_ISFIFO(is.st_mode) && path != "-") require_writer(file.get(), path);
  if (path != "-") fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) & ~O_NONBLOCK);
  return file;
}

// Appends to `text` until it has `most` bytes or the file ends. Calls grown() now and then.
template <class Grown>
void read_on(std::string& text, std::FILE* file, size_t most, const std::string& path, const Grown& grown) {
  char buffer[1 << 16];
  size_t n;
  while (text.size() < most && (n = std::fread(buffer, 1, std::min(sizeof buffer, most - text.size()), file)) > 0) {
    text.append(buffer, n);
    grown();
  }
  if (std::ferror(file)) fail_file("read", path, errno);
}

std::string note_of_binary(const std::string& name, std::string_view bytes, size_t at) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned char>(bytes[at]));
  const bool utf16 = bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff");
  return name + " is not text (byte " + std::to_string(at) + " is " + byte + "): " +
         (utf16 ? "convert it from UTF-16 with iconv -t UTF-8" : "leave it out unless its bytes are what to learn");
}

// Removes a byte order mark and carriage returns from text[begin] on, and records the name of a file that had them.
void normalize(std::string& text, size_t begin, const std::string& name, Names& marks, Names& returns) {
  if (std::string_view(text).substr(begin).starts_with("\xef\xbb\xbf")) {
    text.erase(begin, 3);
    marks.push_back(name);
  }
  if (drop_returns(text, begin)) returns.push_back(name);
}

// ---- all files -------------------------------------------------------------------------------------------

struct Found {
  std::string path;
  bool named;  // named by the user, not found in a folder
};

std::vector<Found> find_files(const Names& paths, const TextFiles& filter, Names& skipped) {
  std::vector<Found> found;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path == "-" || !fs::is_directory(path, error)) found.push_back({path, true});
    else
      for (const std::string& file : files_in(path, filter, skipped)) found.push_back({file, false});
  }
  return found;
}

// The bytes of these files, without pipes and devices.
size_t bytes_of(const std::vector<Found>& files) {
  size_t bytes = 0;
  for (const Found& file : files) {
    std::error_code error;
    if (file.path != "-" && fs::is_regular_file(file.path, error)) bytes += fs::file_size(file.path, error);
  }
  return bytes;
}

}  // namespace

std::string_view Text::part(size_t i) const {
  const size_t begin = parts[i].begin, end = i + 1 < parts.size() ? parts[i + 1].begin : bytes.size();
  return std::string_view(bytes).substr(begin, end - begin);
}

std::string Text::place(size_t at) const {
  const Part* part = &parts.front();
  for (const Part& p : parts)
    if (p.begin <= at) part = &p;
  const std::string_view before = std::string_view(bytes).substr(part->begin, at - part->begin);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1, start = before.rfind('\n') + 1;
  return part->name + ", line " + std::to_string(line) + ", byte " + std::to_string(before.size() - start + 1);
}

bool drop_returns(std::string& text, size_t begin) {
  size_t to = text.find("\r\n", begin);
  if (to == text.npos) return false;
  for (size_t from = to; from < text.size(); ++from)
    if (text[from] != '\r' || from + 1 == text.size() || text[from + 1] != '\n') text[to++] = text[from];
  text.resize(to);
  return true;
}

Text read_text(const std::vector<std::string>& paths, const TextFiles& filter) {
  constexpr size_t kLook = 1 << 16;
  Text text;
  Names skipped, marks, returns;
  const std::vector<Found> files = find_files(paths, filter, skipped);
  const size_t total = bytes_of(files), memory = detect_machine().memory, most = memory > 0 ? memory : size_t(-1);
  check_memory(total, "give less text");
  text.bytes.reserve(total);
  advise_large_pages(text.bytes);
  const auto megabytes = [](size_t bytes) { return static_cast<int64_t>(bytes / 1'000'000); };
  Progress progress(0, megabytes(total), "MB", 10);
  const auto show = [&] {
    const int64_t done = megabytes(text.bytes.size());
    if (done < megabytes(total)) progress.update(done, [] { return "read"; });  // the end of a pipe is unknown
  };
  for (const Found& found : files) {
    const File file = open_text(found.path);
    const std::string name = found.path == "-" ? "standard input" : found.path;
    const size_t begin = text.bytes.size();
    read_on(text.bytes, file.get(), begin + kLook, name, show);
    const std::string_view look = std::string_view(text.bytes).substr(begin);
    if (look.size() == kLook) refuse_device(file.get(), name);
    const size_t bad = first_non_text(look);
    const bool is_text = bad == look.npos || is_cut_short(look.substr(bad));
    if (!is_text && !found.named) {
      skipped.push_back(name);
      text.bytes.resize(begin);
      continue;
    }
    if (!is_text) text.notes.push_back(note_of_binary(name, look, bad));
    read_on(text.bytes, file.get(), most, name, show);
    if (text.bytes.size() >= most) throw std::runtime_error(name + " has more text than fits into memory");
    if (is_text) normalize(text.bytes, begin, name, marks, returns);
    text.parts.push_back({name, begin});
  }
  if (!skipped.empty())
    text.notes.push_back("skipped " + count_files(skipped.size()) +
                         (skipped.size() == 1 ? " that is" : " that are") + " not text: " + list(skipped));
  if (!marks.empty()) text.notes.push_back("left out the byte order mark of " + list(marks));
  if (!returns.empty()) text.notes.push_back("read CRLF line ends as LF: " + list(returns));
  text.name = text.parts.size() == 1 ? text.parts[0].name : count_files(text.parts.size());
  if (text.parts.empty())
    throw std::runtime_error("there is no text in " + list(paths) +
                             (skipped.empty() ? "" : " (" + text.notes.back() + ")"));
  if (text.bytes.empty()) throw std::runtime_error("there is no text in " + text.name + ": it is empty");
  return text;
}
