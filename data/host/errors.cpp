#include "errors.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

std::string plain_text(const std::exception& error) {
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return "cannot use " + of_file->path1().string() + ": " + of_file->code().message() + "; is the path right?";
  if (dynamic_cast<const std::length_error*>(&error)) return "it says a size that no memory can hold";
  const std::string text = error.what();
  constexpr const char* kJson = "[json.exception.";
  return text.starts_with(kJson) ? text.substr(text.find("] ") + 2) : text;
}

void say_out_of_memory() {
  std::fprintf(stderr, "train_gpt: not enough memory: lower --batch, --context or the size of the model\n");
}

namespace {

// A function that is noexcept leaves no exception to look at.
[[noreturn]] void end_program() {
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
  } catch (...) {
    std::abort();
  }
  say_out_of_memory();
  std::_Exit(1);
}

}  // namespace

void end_clearly_without_memory() { std::set_terminate(end_program); }
