#pragma once
// Errors that the user reads. Code throws them where it finds them: std::invalid_argument for options and settings,
// std::runtime_error for files and the machine. The message is one line: what is wrong, then what to do.

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

// Returns an exception's message for the user, without the internal names that the C++ library and the JSON parser add.
std::string plain_text(const std::exception& error);

// Throws std::runtime_error "cannot WHAT WHERE: reason; advice" for the errno value `error`.
[[noreturn]] void fail_file(const std::string& what, const std::string& where, int error);

// Returns f(). Puts `start` before the message of what f throws. An exception of type Kept keeps its type, and any
// other becomes a std::runtime_error.
template <class Kept = std::runtime_error, class F>
auto explained(const std::string& start, const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Kept& error) {
    throw Kept(start + plain_text(error));
  } catch (const std::exception& error) {
    throw std::runtime_error(start + plain_text(error));
  }
}

void say_out_of_memory();

// From now on, an allocation that fails where no catch can reach ends the program with this message. Examples are an
// OpenMP thread and functions that the C++ library declares noexcept (directory_iterator).
void end_clearly_without_memory();
