#pragma once
// Reads minimal pairs and multiple-choice questions from JSON lines. Lengths are numbers of characters.
//
//   {"sentence_good": ..., "sentence_bad": ..., "UID": ...}   a pair, as in BLiMP
//   {"ctx": ..., "endings": [...], "label": 3}                a question, as in HellaSwag
// Tables in json_questions.cpp list the names of other data sets. All other fields are ignored. UID or category has the
// category; without them, it is the name of the file.

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"
#include "multiple_choice.hpp"

// How the texts of questions become tokens.
struct QuestionTokens {
  const Tokenizer& tokenizer;
  int first = -1;         // the token that begins a document; -1: none
  bool at_first = false;  // it also begins a question that has a text
  Unknown unknown = Unknown::error;
};

// A space comes between a text and its completion. Without a token before it, the first token of a sentence has no
// context and does not count. Throw std::runtime_error that names the line: "q.jsonl, line 7: ...".
std::vector<Question> read_pairs(const std::string& path, const QuestionTokens& how);
std::vector<Question> read_choices(const std::string& path, const QuestionTokens& how);
