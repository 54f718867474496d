#include "errors.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

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
