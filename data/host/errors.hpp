#pragma once
// Two ways to give up. Both messages reach the user.

#include <stdexcept>
#include <string>

// For options and settings.
[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

// For the content of files.
[[noreturn]] inline void reject(const std::string& why) { throw std::runtime_error(why); }
