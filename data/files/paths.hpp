#pragma once
// Decides which files a command may read and write.

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};
using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

// Opens a file to read, or standard input for "-". Throws std::runtime_error for a folder, and for a named pipe without
// a writer within a second, which would block forever.
OpenFile open_input(const std::string& path);

// True if anything has this name, even a broken link. Throws std::runtime_error if the system cannot tell.
bool is_there(const std::string& path);

// The options of a run, and the first words of that file and of a comparison's comparison.toml.
inline constexpr const char* kRunConfig = "config.toml";
inline constexpr std::string_view kRunStart = "# Every option in force";
inline constexpr std::string_view kComparisonStart = "# The options of this comparison";

// True if a folder belongs to a run or a comparison, judged by those words. Its files are never training text.
bool is_own_folder(const std::string& folder);

// Throws std::runtime_error unless the command may write a file of this name. It may if nothing has the name. With
// `force` it may also replace a regular file, unless open_input() has opened it or it is in the folder of a run or a
// comparison. Does not follow links; a hard link to an input counts as that input.
void check_output(const std::string& path, bool force);

// Checks the same for a file that a new run or comparison replaces in its own folder.
void check_replaced(const std::string& path);

// Checks the same for one of our records, such as a checkpoint, which may exist and may have been read.
void check_own_output(const std::string& path);

// Throws std::runtime_error if the folder holds files of the user, which a new run or comparison must not mix with.
// Hidden files and logs do not count, because the shell creates them before the program starts. A folder that contains
// the file `allowed` may hold anything.
void check_new_folder(const std::string& folder, const std::string& allowed = "");

// Makes check_output() refuse a file that will be read later, or all files in a folder except those below `out`.
void will_read(const std::string& path, const std::string& out);

// Opens one of our records for appending, and creates it if necessary. Throws std::runtime_error.
int open_to_append(const std::string& path);
