#pragma once
// Which files a command may read and write.

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

// Opens a file to read, or standard input for "-". Throws std::runtime_error for a folder, and for a named pipe that
// nothing writes to within a second: reading it would never end.
OpenFile open_input(const std::string& path);

// True if anything has this name, also a link that leads nowhere, and if the system does not say.
bool is_there(const std::string& path);

// How the config.toml of a run and the comparison.toml of a comparison begin.
inline constexpr std::string_view kRunStart = "# Every option in force";
inline constexpr std::string_view kComparisonStart = "# The options of this comparison";

// True for the folder of a run or a comparison, by the beginning of that file. Nothing in it is text to learn from.
bool is_own_folder(const std::string& folder);

// Throws std::runtime_error unless the command may write a file of this name: nothing is there, or with `force` a
// regular file that open_input() has not opened, outside the folders of runs and comparisons. Links are not followed;
// a hard link to an input is that input.
void check_output(const std::string& path, bool force);

// The same for a file that a new run or comparison replaces in its own folder.
void check_replaced(const std::string& path);

// The same for a file of our own records, such as a checkpoint: it may be there, and may have been read.
void check_own_output(const std::string& path);

// Throws std::runtime_error if a new run or comparison in this folder would be among the user's files. Hidden files
// and logs may be there, as the shell makes them before the program starts. With a file `allowed` in it, anything may
// be there.
void check_new_folder(const std::string& folder, const std::string& allowed = "");

// Makes check_output() refuse a file that is read later, or all files of a folder but those below `out`.
void will_read(const std::string& path, const std::string& out);

// Opens a file of our own records to append to, and makes it if it is not there. Throws std::runtime_error.
int open_to_append(const std::string& path);
