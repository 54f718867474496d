#include "history.hpp"

#include <filesystem>
#include <new>
#include <sstream>

#include "data/files/files.hpp"
#include "data/files/json.hpp"

namespace {

constexpr size_t kLargest = 16 << 20;  // bytes

std::string path_in(const std::string& directory) { return directory + "/" + kHistory; }

std::string text_in(const std::string& directory) {
  const std::string path = path_in(directory);
  return std::filesystem::is_regular_file(path) ? read_file(path, kLargest) : "";
}

}  // namespace

void keep_history(const std::string& directory, int64_t from_step) {
  const ProgramRecord& program = this_program();
  const nlohmann::ordered_json line = {{"date", date_now()}, {"version", program.version},
                                       {"compiler", program.compiler}, {"simd", program.simd},
                                       {"from_step", from_step}};
  const std::string before = text_in(directory);
  write_file(path_in(directory), before + to_ascii(line) + "\n");
}

std::vector<HistoryLine> read_history(const std::string& directory) {
  std::vector<HistoryLine> lines;
  std::istringstream text(text_in(directory));
  for (std::string line; std::getline(text, line);) try {
      const auto json = parse_json(line);
      lines.push_back({json.at("date"),
                       {json.at("version"), json.at("compiler"), json.at("simd")},
                       json.at("from_step").get<int64_t>()});
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // a damaged line is left out
    }
  return lines;
}
