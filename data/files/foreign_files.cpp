#include "foreign_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "data/strings/format.hpp"

using namespace std::string_view_literals;

namespace {

struct Row {
  size_t at;               // offset of the magic bytes
  std::string_view magic;
  const char* what;        // completes "FILE is "
  const char* before;      // the command that prints the file's text is before + FILE + after; "" if no command helps
  const char* after = "";
};

constexpr Row kTexts[] = {
    {0, "\x1f\x8b"sv, "compressed by gzip", "zcat "},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by Zstandard", "zstdcat "},
    {0, "\xfd\x37zXZ\0"sv, "compressed by xz", "xzcat "},
    {4, "1AY&SY"sv, "compressed by bzip2", "bzcat "},
    {0, "PK\x03\x04"sv, "a zip file", "unzip -p "},
    {0, "PAR1"sv, "a Parquet table",
     "python3 -c 'import pandas, sys; print(*pandas.read_parquet(sys.argv[1]).text, sep=\"\\n\")' "},
    {0, "\xff\xfe\0\0"sv, "UTF-32", "iconv -f UTF-32 -t UTF-8 "},
    {0, "\xff\xfe"sv, "UTF-16", "iconv -f UTF-16 -t UTF-8 "},
    {0, "\xfe\xff"sv, "UTF-16", "iconv -f UTF-16 -t UTF-8 "},
    {0, "%PDF-"sv, "a PDF file", "pdftotext ", " -"},
    {0, "\x93NUMPY"sv,
     "an array of NumPy: if it holds tokens, write them with .astype(\"uint16\").tofile(\"f.bin\") and add --tokenizer",
     ""},
};

constexpr Row kModels[] = {
    {0, "PK\x03\x04"sv, "a PyTorch file, which train_gpt reads only as the pytorch_model.bin of a folder of "
     "transformers with its config.json: save the model there, with save_pretrained(DIR)", ""},
    {0, "\x80\x02"sv, "a PyTorch file of before version 1.6: convert it with python3 -c 'import sys, torch; "
     "f = sys.argv[1]; torch.save(torch.load(f, weights_only=True), f)' FILE", ""},
    {0, "\x89HDF"sv, "an HDF5 file: save the model as safetensors, with save_pretrained(DIR) of transformers", ""},
};

template <size_t N>
const Row* find(const Row (&rows)[N], std::string_view start) {
  for (const Row& row : rows)
    if (start.size() > row.at && start.substr(row.at).starts_with(row.magic)) return &row;
  return nullptr;
}

std::string git_pointer(std::string_view start) {
  return start.starts_with("version https://git-lfs.github.com/spec/")
             ? "is a pointer of Git LFS, not the file itself: fetch it with git lfs pull"
             : "";
}

}  // namespace

std::string foreign_text(std::string_view start, const std::string& path) {
  if (const std::string pointer = git_pointer(start); !pointer.empty()) return pointer;
  const Row* row = find(kTexts, start);
  if (!row) return "";
  const std::string is = std::string("is ") + row->what;
  if (*row->before == '\0') return is;
  return is + ": " + row->before + (path == "-" ? "" : shell_words({path})) + row->after + " | train_gpt train -";
}

std::string foreign_model(std::string_view start) {
  const Row* row = find(kModels, start);
  return row ? std::string("is ") + row->what : git_pointer(start);
}

std::string foreign_tokenizer(std::string_view start) { return git_pointer(start); }

std::string start_of_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";  // reading from a pipe would consume it
  std::string start(kForeignStart, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), std::ssize(start));
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

// Accepts OWNER/NAME and the few models without an owner.
std::string hub_advice(const std::string& name) {
  const size_t slash = name.find('/');
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) || std::string_view("-_./").find(c) < 4; };
  const bool one = slash != name.npos && slash == name.rfind('/');
  const bool owned = one && slash > 0 && slash + 1 < name.size();
  const bool known = name.starts_with("gpt2") || name == "distilgpt2" || name == "openai-gpt";
  const bool file = name.ends_with(".json") || name.ends_with(".model") || name.ends_with(".bin") ||
                    name.ends_with(".safetensors");
  if (!(owned || known) || file || name[0] == '.' || name.starts_with("runs/") ||
      !std::all_of(name.begin(), name.end(), is_of_name))
    return "";
  const std::string folder = owned ? name.substr(slash + 1) : name;
  return "; a model of the Hugging Face hub is fetched first: hf download " + name + " --local-dir " + folder;
}
