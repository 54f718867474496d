// The rooms of the project: includes point one way, every .cpp has its header, and lines fit the screen.

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

#include "catch.hpp"
#include "tree.hpp"

namespace fs = std::filesystem;

namespace {

using Includes = std::map<std::string, std::set<std::string>>;  // a file → the files of the project it includes

// From the ground up. A room includes rooms below it and on its own floor.
const std::vector<std::vector<std::string>> kFloors = {
    {"layers/kernels"},
    {"layers/config"},
    {"layers/dropout"},
    {"layers/embedding"},
    {"layers/linear"},
    {"layers/norm"},
    {"layers/streams"},
    {"layers/residual"},
    {"layers/sublayer"},
    {"layers/attention"},
    {"layers/moe"},
    {"layers/feed_forward"},
    {"layers/cross_entropy"},
    {"layers/model"},
    {"layers/training"},
    {"layers/textbook"},
    {"data/strings"},
    {"data/files"},
    {"data/host"},
    {"data/ranks"},
    {"data/tokenizer/pipeline"},
    {"data/tokenizer/models"},
    {"data/tokenizer", "data/tokenizer/files", "data/tokenizer/gguf"},
    {"data/corpus"},
    {"data/text/readers"},
    {"data/text"},
    {"data/options"},
    {"data/formats", "data/formats/gguf", "data/formats/huggingface", "data/formats/pytorch"},
    {"data/run_directory"},
    {"data/run"},
    {"data/compare", "data/commands", "data/commands/eval", "data/commands/export", "data/commands/info",
     "data/commands/init_report"},
    {""}};

int floor_of(const std::string& room) {
  for (size_t i = 0; i < kFloors.size(); ++i)
    if (std::find(kFloors[i].begin(), kFloors[i].end(), room) != kFloors[i].end()) return static_cast<int>(i);
  return -1;
}

std::string room_of(const std::string& path) { return fs::path(path).parent_path(); }
std::string pair_of(const std::string& path) { return fs::path(path).replace_extension(); }

bool is_product(const std::string& path) {
  return (path.ends_with(".cpp") || path.ends_with(".hpp")) &&
         (path.starts_with("layers/") || path.starts_with("data/") || path == "train_gpt.cpp");
}

const Includes& includes() {
  static const Includes all = [] {
    Includes found;
    const pages::Tree& tree = pages::read_tree();
    for (const auto& [path, text] : tree.files) {
      if (!is_product(path)) continue;
      found[path];
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#include \"")) continue;
        const std::string name = line.substr(10, line.find('"', 10) - 10);
        for (const std::string& target : {(fs::path(room_of(path)) / name).lexically_normal().string(), name})
          if (tree.files.contains(target)) found[path].insert(target);
      }
    }
    return found;
  }();
  return all;
}

// The parts between the commas of the list in parentheses that opens at `open`.
std::vector<std::string> arguments(const std::string& code, size_t open) {
  std::vector<std::string> parts(1);
  int depth = 1;
  for (size_t i = open + 1; i < code.size(); ++i) {
    const char c = code[i];
    if (std::string_view("([{<").find(c) != std::string_view::npos) ++depth;
    if (std::string_view(")]}>").find(c) != std::string_view::npos && --depth == 0) break;
    if (c == ',' && depth == 1) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

}  // namespace

TEST_CASE("a room includes no room above it", "[rooms]") {
  for (const auto& [path, targets] : includes()) {
    INFO(path);
    REQUIRE(floor_of(room_of(path)) >= 0);
    for (const std::string& target : targets) {
      INFO("includes " << target);
      CHECK(floor_of(room_of(target)) <= floor_of(room_of(path)));
    }
  }
}

TEST_CASE("file pairs do not include each other in a circle", "[rooms]") {
  Includes below;
  for (const auto& [path, targets] : includes())
    for (const std::string& target : targets)
      if (pair_of(path) != pair_of(target)) below[pair_of(path)].insert(pair_of(target));
  // Remove pairs that include no remaining pair, until only circles and the pairs above them are left.
  for (bool found = true; found;) {
    found = false;
    for (auto pair = below.begin(); pair != below.end();) {
      std::erase_if(pair->second, [&](const std::string& target) { return !below.contains(target); });
      found = found || pair->second.empty();
      pair = pair->second.empty() ? below.erase(pair) : std::next(pair);
    }
  }
  std::string left;
  for (const auto& [pair, targets] : below) left += pair + " ";
  CHECK(left == "");
}

TEST_CASE("every .cpp has its header", "[rooms]") {
  for (const auto& [path, targets] : includes()) {
    INFO(path);
    if (path.ends_with(".cpp") && path != "train_gpt.cpp") CHECK(includes().contains(pair_of(path) + ".hpp"));
  }
}

TEST_CASE("one file compiles the parser and the writer of JSON", "[rooms]") {
  std::string others;
  for (const auto& [path, text] : pages::read_tree().files)
    if (is_product(path) && path != "data/files/json.cpp")
      for (const char* call : {"json::parse(", ".dump("})
        if (text.find(call) != text.npos) others += path + " ";
  CHECK(others == "");
}

TEST_CASE("a function of layers/ takes at most eight arguments", "[rooms]") {
  constexpr size_t kMost = 8;
  // Arguments of a call are values, and this is a type and a name: const Linear& p, size_t n, Matrix (*f)
  const std::regex parameter(R"(\s*(const\s+)?[A-Za-z_][\w:]*(<.*>)?(\s*[&*]+\s*|\s+)\w+(\s*=.*)?)");
  const std::regex comment("//[^\n]*");
  std::string long_lists;
  for (const auto& [path, text] : pages::read_tree().files) {
    if (!path.starts_with("layers/") || !is_product(path)) continue;
    const std::string code = std::regex_replace(text, comment, "");
    for (size_t open = code.find('('); open != std::string::npos; open = code.find('(', open + 1)) {
      const std::vector<std::string> list = arguments(code, open);
      const auto named = std::ranges::count_if(list, [&](const auto& one) { return std::regex_match(one, parameter); });
      if (static_cast<size_t>(named) > kMost)
        long_lists += path + ":" + std::to_string(1 + std::count(code.begin(), code.begin() + open, '\n')) + " ";
    }
  }
  CHECK(long_lists == "");
}

TEST_CASE("a statement of the product does one thing", "[rooms]") {
  // Comma statements, as in "a = b, c = d;" and "return save(...), true;", and "return void(...)".
  const std::string begin = R"(([;{})]\n| (if|for|while) \(.*\)) +)", assign = R"([^ \n,;(){}]+ [-+*/|]?= )";
  const std::regex joined(R"(return void\(|return .*\), (true|false|0\.?);|)" + begin + assign +
                          R"([^\[,;(){}"][^,;(){}"]*, )" + assign);
  std::string found;
  for (const auto& [path, text] : pages::read_tree().files) {
    if (!is_product(path)) continue;
    for (auto match = std::sregex_iterator(text.begin(), text.end(), joined); match != std::sregex_iterator(); ++match)
      found += path + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + match->position(), '\n')) + " ";
  }
  CHECK(found == "");
}

TEST_CASE("code has at most 120 columns, and no line ends in a space", "[rooms]") {
  const pages::Tree& tree = pages::read_tree();
  const auto begins_character = [](unsigned char c) { return c < 0x80 || c >= 0xC0; };  // in UTF-8
  std::string wide, spaced;
  for (const auto& [path, text] : tree.files) {
    if (!std::set<std::string>{".cpp", ".hpp", ".py", ".sh"}.contains(fs::path(path).extension())) continue;
    std::istringstream lines(text);
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number) {
      const std::string place = path + ":" + std::to_string(number) + " ";
      if (std::count_if(line.begin(), line.end(), begins_character) > 120) wide += place;
      if (line.ends_with(' ')) spaced += place;
    }
  }
  CHECK(wide == "");
  CHECK(spaced == "");
}
