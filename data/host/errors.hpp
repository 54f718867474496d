#pragma once
// Functions that give up with a message for the user.

#include <exception>
#include <stdexcept>
#include <string>

// Rejects options and settings.
[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

// Rejects the content of a file.
[[noreturn]] inline void reject(const std::string& why) { throw std::runtime_error(why); }

// Returns an exception's message for the user, without the internal names that the C++ library and the JSON parser add.
std::string plain_text(const std::exception& error);

// Throws std::runtime_error "cannot WHAT WHERE: reason; advice" for the errno value `error`.
[[noreturn]] void fail_file(const std::string& what, const std::string& where, int error);

void say_out_of_memory();

// From now on, an allocation that fails where no catch can reach ends the program with this message. Examples are an
// OpenMP thread and functions that the C++ library declares noexcept (directory_iterator).
void end_clearly_without_memory();
