#pragma once
// Multiple-choice questions such as HellaSwag (Zellers et al. 2019, arXiv 1905.07830): one text and several
// completions, one of which is right. A minimal pair such as BLiMP's (Warstadt et al. 2020, arXiv 1912.00582) is a
// question without a text: two sentences, of which the first is right.

#include <string>
#include <vector>

// A text with one of its completions.
struct Choice {
  std::vector<int> tokens;
  size_t from;    // tokens [from, end) are the completion, whose losses count; at least 1
  double length;  // of the completion, by which acc_norm divides its loss
};

struct Question {
  std::string place;            // for messages: "q.jsonl, line 7"
  std::string category;
  std::vector<Choice> choices;  // two or more
  int right = 0;
};

// Reads llm.c's files (write_evalfile in dev/data/data_common.py), which hold GPT-2 tokens. Lengths are numbers of
// tokens. Little-endian:
//
//   int32[256]   20240522, version 1, number of questions, bytes of the longest one; the rest is 0
//   u16 ...      for each question: 65535, its total bytes, its index, the index of the right completion, the number of
//                completions; then the text and each completion, each as the number of tokens and the tokens
//
// Throws std::runtime_error in one line that names the file.
std::vector<Question> read_questions(const std::string& path);
