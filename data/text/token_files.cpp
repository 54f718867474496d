#include "token_files.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>

#include <glob.h>
#include <unistd.h>

#include "data/files/files.hpp"
#include "data/files/mapped_file.hpp"
#include "data/strings/format.hpp"
#include "layers/kernels/random.hpp"

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

constexpr size_t kHeaderNumbers = 256;  // int32
struct Kind {
  int32_t magic, version;
  int width;  // bytes of a token
};
constexpr Kind kNarrow = {20240520, 1, 2}, kWide = {20240801, 7, 4}, kRaw = {0, 0, 2};

// ---- finding ---------------------------------------------------------------------------------------------

bool is_token_file(const std::string& path, bool raw) {
  const bool tokenizer = path.ends_with("tokenizer.bin");
  return has_token_header(path) ||
         (raw && path.ends_with(".bin") && !tokenizer && kind_of_path(path) == PathKind::file);
}

// True if val, valid or validation is a word of the name: val_000001.bin, but not medieval.bin.
bool is_for_validation(const std::string& path) {
  std::string word;
  for (const char c : fs::path(path).filename().string() + '.') {
    if (std::isalpha(static_cast<unsigned char>(c))) word += static_cast<char>(std::tolower(c));
    else if (word == "val" || word == "valid" || word == "validation") return true;
    else word.clear();
  }
  return false;
}

// Returns a folder's token files, sorted by name. Throws if token files and unreadable files are in one folder, because
// those may be token files, too.
Names files_of(const std::string& folder, bool raw, bool validation) {
  Names files, closed;
  for (const std::string& name : names_in(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    const bool readable = ::access(path.c_str(), R_OK) == 0, leads_nowhere = errno == ENOENT || errno == ELOOP;
    if (!readable && (!leads_nowhere || path.ends_with(".bin"))) closed.push_back(path);
    else if (is_token_file(path, raw)) files.push_back(path);
  }
  if (!files.empty() && !closed.empty()) fail_file("read", closed[0], ::access(closed[0].c_str(), R_OK) ? errno : 0);
  std::erase_if(files, [validation](const std::string& path) { return is_for_validation(path) != validation; });
  return files;
}

// Returns the files that match a pattern, sorted by name.
Names matching(const std::string& pattern) {
  glob_t found{};
  Names files;
  static int why;  // errno of a folder that cannot be read
  const auto stop = [](const char*, int error) -> int {
    why = error == ENOENT || error == ENOTDIR ? 0 : error;
    return why;
  };
  const int result = ::glob(pattern.c_str(), 0, stop, &found);
  if (result == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (result == GLOB_ABORTED) fail_file("read the folder of", pattern, why);
  return files;
}

// Names of files NAME123.bin that are missing between others. If most are missing, the numbers mean something else.
Names missing_between(const Names& files) {
  std::map<std::string, std::map<long, std::string>> numbered;  // the name before its number; number and digits
  for (const std::string& file : files) {
    const std::string stem = fs::path(file).replace_extension().string();
    const size_t begin = stem.find_last_not_of("0123456789") + 1, digits = stem.size() - begin;
    if (digits > 0 && digits < 10) numbered[stem.substr(0, begin)][std::stol(stem.substr(begin))] = stem.substr(begin);
  }
  Names all;
  for (const auto& [name, there] : numbered) {
    const long first = there.begin()->first, last = there.rbegin()->first;
    if (static_cast<size_t>(last - first) >= 2 * there.size()) continue;
    for (long number = first; number < last; ++number) {
      std::string digits = std::to_string(number);
      digits.insert(0, there.begin()->second.size() - std::min(there.begin()->second.size(), digits.size()), '0');
      if (!there.contains(number)) all.push_back(name + digits + ".bin");
    }
  }
  return all;
}

// ---- one file --------------------------------------------------------------------------------------------

// True if a file of 16-bit numbers looks like 32-bit tokens: every other number is 0. Checks the first 4 MB.
bool looks_wide(const MappedFile& file) {
  constexpr size_t kFew = 32, kMost = 1 << 21;
  if (file.size() % 4 != 0 || file.size() < kFew * sizeof(uint16_t)) return false;
  const auto* numbers = static_cast<const uint16_t*>(file.data());
  bool any = false;
  for (size_t i = 0; i < std::min(kMost, file.size() / sizeof(uint16_t)); i += 2) {
    if (numbers[i + 1] != 0) return false;
    any = any || numbers[i] != 0;
  }
  return any;
}

// Returns the kind of a file, after checking it against the file's size.
Kind kind_of(const std::string& path, const MappedFile& file) {
  const auto fail = [&](const std::string& why) { throw std::runtime_error(path + why); };
  const auto* header = static_cast<const int32_t*>(file.data());
  const bool known = file.size() >= 4 && (header[0] == kNarrow.magic || header[0] == kWide.magic);
  if (!known) {
    if (file.size() % 2 != 0) fail(" has an odd number of bytes, so it does not hold 16-bit tokens");
    if (looks_wide(file))
      fail(" looks like 32-bit tokens, and train_gpt reads them only after llm.c's header: write 16-bit tokens "
           "(uint16), or the header");
    return kRaw;
  }
  const Kind kind = header[0] == kNarrow.magic ? kNarrow : kWide;
  if (file.size() < kHeaderNumbers * sizeof(int32_t)) fail(" is truncated");
  if (header[1] != kind.version)
    fail(" is a token file of version " + std::to_string(header[1]) + "; train_gpt reads version " +
         std::to_string(kind.version));
  const uint64_t expected = kHeaderNumbers * sizeof(int32_t) + uint64_t(uint32_t(header[2])) * uint64_t(kind.width);
  if (header[2] < 0 || file.size() != expected)
    fail(" has " + std::to_string(file.size()) + " bytes, and its header asks for " + std::to_string(expected));
  return kind;
}

// Hashes the size and up to 64 samples, so that a large file need not be read.
uint64_t sampled_hash(const MappedFile& file) {
  constexpr size_t kSamples = 64, kBytes = 4096;
  uint64_t hash = rng::key({file.size()});
  const size_t samples = std::min(kSamples, (file.size() + kBytes - 1) / kBytes);
  for (size_t i = 0; i < samples; ++i) {
    const size_t begin = samples == kSamples ? (file.size() - kBytes) / (kSamples - 1) * i : i * kBytes;
    const size_t bytes = std::min(kBytes, file.size() - begin);
    hash = rng::key({hash, rng::word({static_cast<const char*>(file.data()) + begin, bytes})});
  }
  return hash;
}

// ---- masks -----------------------------------------------------------------------------------------------

std::string mask_of(const std::string& path) { return fs::path(path).replace_extension(".mask").string(); }

// Appends the mask of tokens [before, after), if there is one or others have one. Returns a hash of it; 0 without one.
uint64_t append_mask(Tokens& counted, const std::string& path, size_t before, size_t after) {
  const std::string mask = mask_of(path);
  const bool found = has_mask(path);
  if (!found && counted.size() == 0) return 0;
  if (counted.size() < before) counted.append(std::vector<uint8_t>(before - counted.size(), 1));
  if (!found) return 0;
  std::string bytes = read_file(mask);
  if (bytes.size() != after - before)
    throw std::runtime_error(mask + " has " + std::to_string(bytes.size()) + " bytes, and " + path + " " +
                             std::to_string(after - before) + " tokens: `tokenize` writes one byte for each");
  if (bytes.find_first_not_of(std::string_view("\0\1", 2)) != bytes.npos)
    throw std::runtime_error(mask + " has a byte that is neither 0 nor 1");
  const uint64_t hash = hash_bytes(1, bytes.data(), bytes.size());
  counted.append_bytes(std::move(bytes));
  return hash;
}

}  // namespace

bool has_token_header(const std::string& path) {
  int32_t magic = 0;
  if (kind_of_path(path) != PathKind::file) return false;  // reading from a pipe would consume it
  const InputFile file(path);
  if (file.size() >= sizeof magic) file.read(&magic, sizeof magic, 0);
  return magic == kNarrow.magic || magic == kWide.magic;
}

Names find_token_files(const Names& paths, bool raw, bool validation) {
  Names files;
  size_t others = 0;
  for (const std::string& path : paths) {
    const PathKind kind = path == "-" ? PathKind::other : kind_of_path(path);
    Names found{path};
    if (kind == PathKind::folder) found = files_of(path, raw, validation);
    if (kind == PathKind::absent) found = matching(path);
    std::erase_if(found, [&](const std::string& file) { return !is_token_file(file, raw); });
    others += found.empty();
    files.insert(files.end(), found.begin(), found.end());
  }
  if (!files.empty() && others > 0)
    throw std::runtime_error(files[0] + " holds tokens, and another file does not: give all as text or all as tokens");
  return files;
}

Names notes_on_token_files(const Names& paths, const Names& files) {
  Names notes, of_folders, masked, unmasked;
  for (const std::string& file : files) {
    const bool listed = std::ranges::any_of(paths, [&](const std::string& path) {
      return kind_of_path(path) == PathKind::folder && file == fs::path(path) / fs::path(file).filename();
    });
    if (listed) of_folders.push_back(file);
    (has_mask(file) ? masked : unmasked).push_back(file);
  }
  const auto more = [](const Names& names) {
    return names.size() > 1 ? " and " + counted(static_cast<double>(names.size() - 1), "more file") : "";
  };
  if (const Names missing = missing_between(of_folders); !missing.empty())
    notes.push_back("there is no " + missing[0] + more(missing) + ", though files before and after are there");
  if (!masked.empty() && !unmasked.empty())
    notes.push_back(unmasked[0] + more(unmasked) + " without a mask: all tokens count there, unlike in " + masked[0]);
  return notes;
}

bool has_mask(const std::string& path) { return kind_of_path(mask_of(path)) == PathKind::file; }

bool is_mask(const std::string& path) {
  return path.ends_with(".mask") && kind_of_path(fs::path(path).replace_extension(".bin").string()) == PathKind::file;
}

TokenFileHash append_token_file(Tokens& tokens, const std::string& path, Tokens* counted) {
  const auto file = std::make_shared<const MappedFile>(path);
  const Kind kind = kind_of(path, *file);
  const size_t header = kind.magic ? kHeaderNumbers * sizeof(int32_t) : 0;
  const size_t before = tokens.size();
  tokens.append_mapped(file, static_cast<const char*>(file->data()) + header, kind.width,
                       (file->size() - header) / static_cast<size_t>(kind.width));
  const uint64_t mask = counted ? append_mask(*counted, path, before, tokens.size()) : 0;
  const uint64_t sampled = sampled_hash(*file);
  return {mask == 0 ? sampled : rng::key({sampled, mask}), [file] {
            file->read_in_order(true);
            const uint64_t hash = hash_bytes(file->size(), file->data(), file->size());
            file->read_in_order(false);
            return hash;
          }};
}

void write_mask(const std::string& path, const std::vector<uint8_t>& counted) {
  write_file(mask_of(path), {reinterpret_cast<const char*>(counted.data()), counted.size()});
}

void write_token_file(const std::string& path, const std::vector<uint32_t>& tokens, bool wide) {
  const Kind kind = wide ? kWide : kNarrow;
  int32_t header[kHeaderNumbers] = {kind.magic, kind.version, static_cast<int32_t>(tokens.size())};
  WholeFile file(path);
  file.write(header, sizeof header);
  if (wide) {
    file.write(tokens.data(), tokens.size() * sizeof tokens[0]);
  } else {
    const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
    file.write(narrow.data(), narrow.size() * sizeof narrow[0]);
  }
  file.publish();
}
