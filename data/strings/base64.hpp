#pragma once
// Bytes as text (RFC 4648, section 4), in which tokenizer files write bytes that are not UTF-8.

#include <optional>
#include <string>
#include <string_view>

std::string to_base64(std::string_view bytes);

// Returns nothing if the text is not base64 with its padding.
std::optional<std::string> from_base64(std::string_view text);
