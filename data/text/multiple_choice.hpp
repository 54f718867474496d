#pragma once
// Multiple-choice questions such as HellaSwag (Zellers et al. 2019, arXiv 1905.07830): one text and several
// completions, one of which is right. Reads llm.c's files (write_evalfile in dev/data/data_common.py), which hold GPT-2
// tokens. Little-endian:
//
//   int32[256]   20240522, version 1, number of questions, bytes of the longest one; the rest is 0
//   u16 ...      for each question: 65535, its total bytes, its index, the index of the right completion, the number of
//                completions; then the text and each completion, each as the number of tokens and the tokens

#include <string>
#include <vector>

struct Question {
  std::vector<int> text;
  std::vector<std::vector<int>> completions;  // two or more, none empty
  int right = 0;
};

// Throws std::runtime_error in one line that names the file.
std::vector<Question> read_questions(const std::string& path);
