#include "errors.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

std::string plain_text(const std::exception& error) {
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return "cannot use " + of_file->path1().string() + ": " + of_file->code().message() + "; is the path right?";
  if (dynamic_cast<const std::length_error*>(&error)) return "it says a size that no memory can hold";
  const std::string text = error.what();
  if (!text.starts_with("[json.exception.")) return text;
  const std::string plain = text.substr(text.find("] ") + 2);
  return plain.find("()") == plain.npos ? plain : "a value is of another kind than expected";
}

static const char* advice_for(int error, bool writing) {
  switch (error) {
    case ENOSPC: case EDQUOT: case EFBIG: return "; free some space or choose another place";
    case ENOENT: case ENOTDIR: return writing ? "; make the folder or choose another place" : "; is the path right?";
    case EACCES: case EROFS: return "; choose a place you may use";
    default: return "";
  }
}

void fail_file(const std::string& what, const std::string& where, int error) {
  throw std::runtime_error("cannot " + what + " " + where + ": " + std::strerror(error) +
                           advice_for(error, what == "write"));
}

void say_out_of_memory() {
  std::fprintf(stderr, "train_gpt: not enough memory: lower --batch, --context or the size of the model\n");
}

namespace {

// If the exception left a noexcept function, there may be none to rethrow.
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
