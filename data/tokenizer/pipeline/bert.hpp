#pragma once
// What BERT's tokenizers do to a text (BertNormalizer of `tokenizers`), and related normalizers. All take UTF-8.

#include <string>
#include <string_view>

struct BertNormalizer {
  bool cleans = true;         // leaves out control characters, and writes all white space as ' '
  bool splits_cjk = true;     // puts spaces around Chinese characters
  bool strips_accents = true;
  bool lowers_case = true;

  std::string operator()(std::string_view text) const;
};

// Leaves out all marks (Unicode's category M).
std::string without_marks(std::string_view text);

// The normalizer Nmt: leaves out most control characters of ASCII, and writes line ends and invisible characters
// as ' '.
std::string nmt_cleaned(std::string_view text);
