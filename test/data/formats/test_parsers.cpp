// Files that fuzzing found: each must be accepted, or rejected in one line.

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "message.hpp"
#include "parsers.hpp"
#include "program.hpp"

namespace fs = std::filesystem;

TEST_CASE("inputs that fuzzing kept are accepted, or refused in one line", "[parsers]") {
  int refused = 0;
  for (const Parser& parser : kParsers) {
    const Folder f;
    int accepted = 0;
    for (const auto& entry : fs::directory_iterator(fs::path("test/fuzz") / parser.name)) {
      INFO(entry.path());
      ++(accepts(parser, f.path("."), read_file(entry.path())) ? accepted : refused);
    }
    INFO(parser.name);
    CHECK(accepted > 0);
  }
  CHECK(refused > 10);
}

namespace {

using nlohmann::json;

void collect(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& places) {
  if (!at.empty()) places.push_back(at);
  if (value.is_object())
    for (const auto& [key, inner] : value.items()) collect(inner, at / key, places);
  if (value.is_array())
    for (size_t i = 0; i < std::min<size_t>(value.size(), 3); ++i) collect(value[i], at / i, places);
}

// Returns copies of the JSON, each with one value removed or replaced by a value of another kind, in at most `most`
// places.
std::vector<std::string> forgeries(const std::string& text, size_t most) {
  const json before = json::parse(text, nullptr, false);
  if (before.is_discarded()) return {};
  std::vector<json::json_pointer> places;
  collect(before, json::json_pointer(), places);
  std::vector<std::string> texts;
  for (size_t i = 0; i < places.size(); i += one_of(5) * (1 + places.size() / most)) {
    for (const json& other :
         {json(nullptr), json(true), json(-1), json(1e300), json("x"), json::array({{}}), json::object()}) {
      json forged = before;
      forged[places[i]] = other;
      texts.push_back(forged.dump());
    }
    json forged = before;
    json& parent = forged[places[i].parent_pointer()];
    if (parent.is_object()) parent.erase(places[i].back()), texts.push_back(forged.dump());
  }
  return texts;
}

// A checkpoint of version 4 with another header. Its checksum is wrong, but the header is read first.
std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

}  // namespace

TEST_CASE("JSON with values of another kind is accepted, or refused without names of the C++ library", "[parsers]") {
  int read = 0;
  for (const Parser& parser : kParsers) {
    const Folder f;
    INFO(parser.name);
    const auto check = [&](const std::string& bytes) {
      ++read;
      INFO(bytes.substr(0, 3000));
      CHECK_NOTHROW(accepts(parser, f.path("."), bytes));
    };
    const std::string name = parser.name;
    for (const auto& entry : fs::directory_iterator(fs::path("test/fuzz") / name)) {
      const std::string file = read_file(entry.path());
      if (name == "history" || std::string(parser.file).ends_with(".json"))
        for (const std::string& forged : forgeries(file, 30)) check(forged);
      if (entry.path().filename() != "version-4") continue;
      uint64_t length = 0;
      std::memcpy(&length, file.data(), sizeof length);
      json header = json::parse(file.substr(8, length));
      const std::string fields = header["__metadata__"]["train_gpt"], data = file.substr(8 + length);
      for (const std::string& forged : forgeries(header.dump(), 20)) check(with_header(forged, data));
      for (const std::string& forged : forgeries(fields, 150)) {
        header["__metadata__"]["train_gpt"] = forged;
        check(with_header(header.dump(), data));
      }
    }
  }
  CHECK(read > 1000 / static_cast<int>(one_of(5)));
}

TEST_CASE("a path that no system takes is refused without names of the C++ library", "[parsers][program]") {
  const Folder f;
  f.write("t.txt", std::string(3000, 'a') + "\n");
  const std::string path = std::string(5000, 'x');
  for (const char* words :
       {"train @", "train t.txt --val-data @", "train t.txt --out @", "train t.txt --init-from @",
        "train t.txt --config @", "train t.txt --tokenizer ./@", "train --out @ --resume", "sample @", "info @",
        "eval @ --data t.txt", "export @ --out x", "import @ --out x", "compare @ --grid seed=1",
        "compare t.txt --grid seed=1 --out @", "corpus --check @", "tokenizer @ --out x", "tokenize @ --out x",
        "tokenizer t.txt --out @", "tokenize t.txt --out @", "corpus @", "@"}) {
    std::string typed = words;
    typed.replace(typed.find('@'), 1, path);
    const Outcome o = f.run(typed);
    INFO(words << "\n" << o.err);
    CHECK(o.status == 1);
    CHECK(count_lines(o.err) == 1);
    for (const char* internal : kInternalNames) CHECK_FALSE(contains(o.err, internal));
  }
}
