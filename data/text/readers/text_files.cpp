#include "text_files.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "data/files/files.hpp"
#include "data/files/foreign_files.hpp"
#include "data/files/paths.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "json_lines.hpp"
#include "pairs.hpp"

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

// Matches a glob with a slash against the path below the folder, any other against the file name.
bool matches(const Names& globs, const fs::path& path, const fs::path& folder) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    const bool whole = glob.find('/') != glob.npos;
    const std::string subject = whole ? path.lexically_relative(folder).string() : path.filename().string();
    return fnmatch(glob.c_str(), subject.c_str(), 0) == 0;
  });
}

// Identifies a file or folder whatever its name.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0) return std::nullopt;
  return FileId(is.st_dev, is.st_ino);
}

struct Found {
  std::string path;
  bool named;  // named by the user, not found in a folder
};

const std::string& path_of(const std::string& path) { return path; }
const std::string& path_of(const Found& found) { return found.path; }

// Removes the files for which `drops` is true, and returns their paths.
template <class File, class Drops>
Names remove_known(std::vector<File>& files, const Drops& drops) {
  Names removed;
  std::erase_if(files, [&](const File& file) {
    const auto id = id_of(path_of(file));
    if (!id || !drops(*id)) return false;
    removed.push_back(path_of(file));
    return true;
  });
  return removed;
}

// Removes the files that are also in `held_out`, and returns their paths.
template <class File>
Names remove_same(std::vector<File>& files, const std::vector<File>& held_out) {
  std::set<FileId> ids;
  for (const File& file : held_out)
    if (const auto id = id_of(path_of(file))) ids.insert(*id);
  return remove_known(files, [&](const FileId& id) { return ids.contains(id); });
}

// Keeps the first name of each file, and returns its other names.
template <class File>
Names remove_second_names(std::vector<File>& files) {
  std::set<FileId> seen;
  return remove_known(files, [&](const FileId& id) { return !seen.insert(id).second; });
}

// The files to read, and those that are left out.
struct Listing {
  std::vector<Found> files;
  Names not_text, own, held_out, repeated;
};

// Lists the files below a folder in alphabetical order. Follows links to folders last, so that a file gets its own path
// rather than a link's. Reads no folder twice, so that loops end.
class FolderList {
 public:
  FolderList(const std::string& root, const TextFiles& filter, Listing& listing)
      : root_(root), filter_(filter), out_(filter.out.empty() ? std::nullopt : id_of(filter.out)), listing_(listing) {
    if (out_ && id_of(root) == out_)
      throw std::runtime_error(root + " is --out, which is never read: choose another --out");
    if (is_own_folder(root)) throw std::runtime_error(root + " holds a run or a comparison, and no text to learn");
    read(root);
    for (size_t i = 0; i < links_.size(); ++i) {
      std::sort(links_.begin() + static_cast<std::ptrdiff_t>(i), links_.end());
      read(links_[i]);
    }
    std::sort(files_.begin(), files_.end());
    for (std::string& file : files_) listing_.files.push_back({std::move(file), false});
  }

 private:
  void read(const std::string& folder) {
    const auto id = id_of(folder);
    if (!id) fail_file("read the folder", folder, errno);
    if (!seen_.insert(*id).second) return;
    if (id == out_ || is_own_folder(folder)) return listing_.own.push_back(folder);
    std::error_code error;
    const fs::directory_iterator end;
    for (fs::directory_iterator entry(folder, error); !error && entry != end; entry.increment(error)) add(*entry);
    if (error) fail_file("read the folder", folder, error.value());
  }

  void add(const fs::directory_entry& entry) {
    const fs::path& path = entry.path();
    if (path.filename().string().starts_with('.') || matches(filter_.exclude, path, root_)) return;
    std::error_code error;
    const fs::file_type type = entry.status(error).type();
    if (type == fs::file_type::none && error != std::errc::too_many_symbolic_link_levels)
      fail_file("read", path.string(), error.value());
    if (type == fs::file_type::directory) {
      if (fs::is_symlink(entry.symlink_status(error))) links_.push_back(path.string());
      else read(path.string());
    } else if (filter_.include.empty() || matches(filter_.include, path, root_)) {
      const bool floor_of_a_corpus = path.extension() == ".nats" && fs::exists(fs::path(path).replace_extension());
      if (out_ && id_of(path.string()) == out_) listing_.own.push_back(path.string());
      else (type == fs::file_type::regular && !floor_of_a_corpus ? files_ : listing_.not_text).push_back(path.string());
    }
  }

  const std::string root_;
  const TextFiles& filter_;
  const std::optional<FileId> out_;
  Listing& listing_;
  Names files_, links_;
  std::set<FileId> seen_;
};

Listing list_files(const Names& paths, const TextFiles& filter, const Names& held_out = {}) {
  Listing listing;
  for (const std::string& path : paths) {
    if (path == "-" || kind_of_path(path) != PathKind::folder) listing.files.push_back({path, true});
    else FolderList(path, filter, listing);
  }
  listing.repeated = remove_second_names(listing.files);
  if (!held_out.empty()) listing.held_out = remove_same(listing.files, list_files(held_out, filter).files);
  return listing;
}

// ---- one file --------------------------------------------------------------------------------------------

// Asks for large pages before the memory is first written, because most of the time of that write goes into small
// pages.
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

// What the first bytes of a file tell.
struct Look {
  std::string_view bytes;
  size_t bad = first_non_text(bytes);  // where the first byte is that is no text; npos: nowhere
  bool is_text = bad == bytes.npos || is_cut_short(bytes.substr(bad));
};

std::string note_of_binary(const std::string& name, const Look& look) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned char>(look.bytes[look.bad]));
  return name + " is not text (byte " + std::to_string(look.bad) + " is " + byte +
         "): leave it out unless its bytes are what to learn" +
         (name.ends_with(".bin") ? ", or add --tokenizer FILE if it holds tokens" : "");
}

// True for nanoGPT's NAME.bin of 16-bit tokens. Most tokens are small numbers, so most bytes at odd positions are
// small.
bool looks_like_tokens(const std::string& path, std::string_view look) {
  if (!path.ends_with(".bin") || look.find_first_not_of('\0') == look.npos) return false;
  size_t small = 0;
  for (size_t i = 1; i < look.size(); i += 2) small += static_cast<unsigned char>(look[i]) < ' ' && look[i] != '\n';
  return small > look.size() / 4;
}

// True if the text begins with "[ {", as most document exports do.
bool is_json_list(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
  if (!text.starts_with('[')) return false;
  const size_t first = text.find_first_not_of(" \t\r\n", 1);
  return first != text.npos && text[first] == '{';
}

// ---- all files -------------------------------------------------------------------------------------------

// The total size of these files, without pipes and devices.
size_t bytes_of(const std::vector<Found>& files) {
  size_t bytes = 0;
  for (const Found& file : files) {
    if (file.path == "-" || kind_of_path(file.path) != PathKind::file) continue;
    std::error_code error;
    bytes += fs::file_size(file.path, error);
    if (error) fail_file("read", file.path, error.value());
  }
  return bytes;
}

// Reads one file after the other, and collects what to tell about them.
class Reader {
 public:
  // `bytes` is the size of all files that have one.
  Reader(const TextFiles& filter, size_t bytes)
      : filter_(filter), megabytes_(megabytes(bytes)), progress_(0, megabytes_, "MB", 10) {
    check_memory(bytes, "give less text");
    text_.bytes.reserve(bytes);
    advise_large_pages(text_.bytes);
  }

  // Returns false if the file is not text, and skips it.
  bool read(const Found& found) {
    const OpenFile file = open_input(found.path);
    const std::string name = found.path == "-" ? "standard input" : found.path;
    const size_t begin = text_.bytes.size();
    read_on(file.get(), begin + kLook, name);
    if (text_.bytes.size() == begin + kLook) refuse_device(file.get(), name);
    const Look look{std::string_view(text_.bytes).substr(begin)};
    if (!accepts(found, name, look)) {
      text_.bytes.resize(begin);
      return false;
    }
    const bool is_text = look.is_text;
    read_on(file.get(), most_, name);  // the bytes may move, from under `look`
    if (text_.bytes.size() >= most_) throw std::runtime_error(name + " has more text than fits into memory");
    if (is_text) normalize(name, begin);
    text_.files.push_back({name, begin});
    filter_.reads_pairs ? split_pairs(begin) : split_json_lines(found, is_text, begin);
    return true;
  }

  Text finish(Listing& listing) {
    set_chat();
    text_.has_answers = json_.prompts || json_.messages;
    text_.held_out = std::move(listing.held_out);
    add_notes(listing);
    text_.name = text_.files.size() == 1 ? one_line(text_.files[0].name) : count_files(text_.files.size());
    for (std::string& note : text_.notes) note = one_line(note);
    return std::move(text_);
  }

 private:
  static constexpr size_t kLook = 1 << 16;

  static int64_t megabytes(size_t bytes) { return static_cast<int64_t>(bytes / 1'000'000); }
  static size_t memory() {
    const size_t all = detect_machine().memory;
    return all > 0 ? all : size_t(-1);
  }

  // Appends to the text until it has `most` bytes or the file ends.
  void read_on(std::FILE* file, size_t most, const std::string& path) {
    std::string& text = text_.bytes;
    char buffer[1 << 16];
    size_t n;
    while (text.size() < most && (n = std::fread(buffer, 1, std::min(sizeof buffer, most - text.size()), file)) > 0) {
      text.append(buffer, n);
      const int64_t done = megabytes(text.size());
      if (done < megabytes_) progress_.update(done, [] { return "read"; });  // the size of a pipe is unknown
    }
    if (std::ferror(file)) fail_file("read", path, errno);
  }

  // Returns false if a file in a folder is no text. Throws for a file that another option reads.
  bool accepts(const Found& found, const std::string& name, const Look& look) {
    const std::string foreign = foreign_text(look.bytes, found.path);
    if (!foreign.empty()) {
      if (found.named) throw std::runtime_error(name + " " + foreign);
      if (text_.notes.empty()) text_.notes.push_back(name + " " + foreign);  // it tells how to read the others, too
    }
    if (!found.named && !(look.is_text && foreign.empty())) return false;
    if (!look.is_text && looks_like_tokens(found.path, look.bytes))
      throw std::runtime_error(name + " looks like tokens: add --tokenizer FILE, the tokenizer that made them");
    if (!look.is_text && !is_json_lines_name(found.path)) text_.notes.push_back(note_of_binary(name, look));
    if (look.is_text && is_json_list(look.bytes)) json_lists_.push_back(name);
    return true;
  }

  // Removes a byte order mark and carriage returns from text[begin] on.
  void normalize(const std::string& name, size_t begin) {
    if (std::string_view(text_.bytes).substr(begin).starts_with("\xef\xbb\xbf")) {
      text_.bytes.erase(begin, 3);
      marks_.push_back(name);
    }
    if (drop_returns(text_.bytes, begin)) returns_.push_back(name);
  }

  // Removes text[begin] and all after it, and returns that.
  std::string cut_off(size_t begin) {
    std::string end = text_.bytes.substr(begin);
    text_.bytes.resize(begin);
    return end;
  }

  void split_pairs(size_t begin) {
    const std::string lines = cut_off(begin);
    Text::File& file = text_.files.back();
    file.spans = append_pairs(text_.bytes, lines, file.name, filter_);
  }

  // Replaces the last file by its documents if it consists of JSON lines.
  void split_json_lines(const Found& found, bool is_text, size_t begin) {
    Text::File& file = text_.files.back();
    if (found.path.ends_with(".tsv")) tabs_.push_back(file.name);
    const bool by_name = is_json_lines_name(found.path);
    if (!by_name && !(is_text && is_json_lines(std::string_view(text_.bytes).substr(begin)))) return;
    if (!by_name && !found.named) return logs_.push_back(file.name);
    const std::string lines = cut_off(begin);
    JsonLines read = append_json_lines(text_.bytes, lines, file.name, filter_);
    json_.prompts |= read.prompts;
    json_.messages |= read.messages;
    file.spans = std::move(read.spans);
  }

  // Decides the template of the conversations.
  void set_chat() {
    const ChatTemplate* usual = filter_.usual_chat ? filter_.usual_chat : &usual_chat_template(nullptr);
    if (json_.messages || json_.prompts) text_.chat = filter_.chat;
    if (json_.messages && !filter_.chat) text_.chat = usual;
    if (json_.messages && json_.prompts && !filter_.chat)
      throw std::runtime_error("there are prompts next to conversations: name a --chat-template for both");
  }

  void add_notes(const Listing& listing) {
    const auto say = [&](const Names& names, const std::string& before, const std::string& after = "") {
      if (!names.empty()) text_.notes.push_back(before + list(names) + after);
    };
    if (!listing.repeated.empty()) text_.notes.push_back(note_of_repeated(listing.repeated));
    say(listing.own, "left out the output of train_gpt: ");
    const size_t skipped = listing.not_text.size();
    say(listing.not_text,
        "skipped " + count_files(skipped) + (skipped == 1 ? " that is" : " that are") + " not text: ");
    say(marks_, "left out the byte order mark of ");
    say(returns_, "read CRLF line ends as LF: ");
    say(logs_, "JSON lines are learned as they are: ", "; for their texts alone, name them .jsonl");
    say(tabs_, "columns are learned as text: ", "; --objective pairs learns the second from the first");
    if (json_lists_.empty()) return;
    say(json_lists_, "JSON is learned as it is: ", "; for its texts alone: jq -r '.[].text' " +
                                                       shell_words({json_lists_[0]}) + " | train_gpt train -");
  }

  const TextFiles& filter_;
  const size_t most_ = memory();  // bytes
  const int64_t megabytes_;
  Progress progress_;
  Text text_;
  JsonLines json_;  // of all files, without the spans
  Names marks_, returns_, tabs_, json_lists_;
  Names logs_;  // JSON lines in a folder that are not named so
};

}  // namespace

std::string_view Text::bytes_of(size_t i) const {
  const size_t begin = files[i].begin, end = i + 1 < files.size() ? files[i + 1].begin : bytes.size();
  return std::string_view(bytes).substr(begin, end - begin);
}

std::string Text::place(size_t at) const {
  const File* file = &files.front();
  for (const File& f : files)
    if (f.begin <= at) file = &f;
  for (const TextSpan& span : file->spans)
    if (span.begin <= at && at < span.end) return one_line(file->name) + ", line " + std::to_string(span.line);
  const std::string_view before = std::string_view(bytes).substr(file->begin, at - file->begin);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1, start = before.rfind('\n') + 1;
  return one_line(file->name) + ", line " + std::to_string(line) + ", byte " +
         std::to_string(before.size() - start + 1);
}

Names remove_held_out(Names& files, const Names& held_out) { return remove_same(files, held_out); }

std::string note_of_held_out(const Names& files) {
  return "left out what is in --val-data: " + one_line(list(files));
}

Names remove_repeated(Names& files) { return remove_second_names(files); }

std::string note_of_repeated(const Names& files) { return "named twice, and read once: " + one_line(list(files)); }

std::string note_of_texts_beside(const Names& paths, const TextFiles& filter, const Names& tokens) {
  Names folders, texts;
  for (const std::string& path : paths)
    if (kind_of_path(path) == PathKind::folder) folders.push_back(path);
  for (const Found& file : list_files(folders, filter, tokens).files) {
    const std::string start = start_of_file(file.path);
    const bool of_tokenizer = fs::path(file.path).filename().string().starts_with("tokenizer");
    if (!start.empty() && Look{start}.is_text && !of_tokenizer) texts.push_back(file.path);
  }
  return texts.empty() ? "" : "only the tokens are read, not the texts next to them: " + one_line(list(texts));
}

void Copies::add(const Text& text) {
  for (size_t i = 0; i < text.files.size(); ++i) {
    const std::string_view bytes = text.bytes_of(i);
    if (!bytes.empty() && !seen_.insert(hash_bytes(bytes.size(), bytes.data(), bytes.size())).second)
      names_.push_back(text.files[i].name);
  }
}

std::string Copies::note() const {
  if (names_.empty()) return "";
  return "the same text as another file: " + one_line(list(names_)) +
         "; validation may be of text that the model trains on";
}

void note_special_tokens(Text& text, const Tokenizer& tokenizer) {
  if (const std::string note = tokenizer.note_on_special(text.name, text.bytes); !note.empty())
    text.notes.push_back(note + "; where it separates documents, name it: --documents '" + kEndOfText + "'");
  else if (text.bytes.find(kEndOfText) != text.bytes.npos)
    text.notes.push_back("there is " + std::string(kEndOfText) + " in " + text.name +
                         ", read as ordinary text; where it separates documents, name it: --documents '" + kEndOfText +
                         "'");
}

bool drop_returns(std::string& text, size_t begin) {
  size_t to = text.find("\r\n", begin);
  if (to == text.npos) return false;
  for (size_t from = to; from < text.size(); ++from)
    if (text[from] != '\r' || from + 1 == text.size() || text[from + 1] != '\n') text[to++] = text[from];
  text.resize(to);
  return true;
}

Text read_text(const Names& paths, const TextFiles& filter, const Names& held_out) {
  Listing listing = list_files(paths, filter, held_out);
  Reader reader(filter, bytes_of(listing.files));
  for (const Found& found : listing.files)
    if (!reader.read(found)) listing.not_text.push_back(found.path);
  Text text = reader.finish(listing);
  if (text.files.empty() && !text.held_out.empty()) return text;
  if (text.files.empty())
    throw std::runtime_error("there is no text in " + list(paths) +
                             (text.notes.empty() ? "" : " (" + text.notes.back() + ")"));
  if (text.bytes.empty()) throw std::runtime_error("there is no text in " + text.name + ": it is empty");
  return text;
}
