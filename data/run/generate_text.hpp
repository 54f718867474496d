#pragma once
// Generates text from a trained model.

#include <functional>
#include <string>
#include <vector>

#include "data/text/spans.hpp"
#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/generate.hpp"

struct Generation {
  int length = 500;  // tokens
  std::string stop = {};  // the text ends before this; "" for none
  Sampling sampling;
  uint64_t number = 0;  // samples with different numbers are drawn independently
  DocumentTokens around = {};  // a document. The first replaces an empty prompt; either ends a text
  std::function<bool()> stopped = {};  // called after every token; true ends the text
  const Activations* activations = nullptr;  // for a whole context; null: the generator's own
  bool within_context = false;  // the text ends when the context is full
  bool at_first = false;  // the prompt begins a document: the model has seen no other beginning of a context
  int turn_end = -1;      // a token that ends the text, too: the end of an answer
  std::string begin = {};  // is left out where the text begins with it
  std::vector<int> source = {};  // what a model with an encoder reads
  int beams = 0;                 // of beam search in the place of draws, within the context; 0: none
};

// Why a text ended, and its tokens without the prompt's.
struct Generated {
  const char* end = "length";  // or "stop", "document", "turn", "context", "interrupted"
  std::vector<int> tokens;
};

// Receives the texts of samples while they grow. Samples are numbered from 0.
struct Listener {
  std::function<void(int sample, const std::string& piece)> write;  // called once the piece cannot be part of `stop`
  std::function<void(int sample, const Generated& result)> end;
};

// Returns the tokens that an encoder reads for a text, as in training. With spans, names of sentinels stand for these.
// Throws std::runtime_error if the text is empty, or longer than the context, and NoToken as Tokenizer::encode() does.
std::vector<int> source_tokens(const Tokenizer& tokenizer, const std::string& text, const DocumentTokens& around,
                               int context, const Spans& spans = {}, Unknown unknown = Unknown::error);

// Returns the tokens of a prompt. Without a separator, an empty prompt becomes a newline, or the first character of a
// vocabulary without newline. If the separator is the tokenizer's begin(), it comes before the prompt, and the text
// also ends before the tokenizer's end().
std::vector<int> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt, const Generation& how);

// Feeds the prompt, then draws tokens, for `count` samples numbered from how.number on. As many samples as memory
// allows advance together, so that a step reads the weights once; each sample has the same text as alone.
void generate_texts(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                    const Generation& how, int count, const Listener& listener);

// Generates one sample.
Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write);

// Do the same with the tokens of a text as the prompt.
void generate_texts(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                    int count, const Listener& listener);
Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write);
