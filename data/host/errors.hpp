#pragma once
// Ways to give up. Their messages reach the user.

#include <exception>
#include <stdexcept>
#include <string>

// For options and settings.
[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

// For the content of files.
[[noreturn]] inline void reject(const std::string& why) { throw std::runtime_error(why); }

// The message of an exception for the user. Those of the C++ library and of the JSON parser lose their internal names.
std::string plain_text(const std::exception& error);

// Throws std::runtime_error "cannot WHAT WHERE: reason; advice" for the errno value `error`.
[[noreturn]] void fail_file(const std::string& what, const std::string& where, int error);

void say_out_of_memory();

// Allocations that fail beyond the reach of a catch end the program with this message: in an OpenMP thread, or in a
// function that the C++ library declares noexcept (directory_iterator).
void end_clearly_without_memory();
