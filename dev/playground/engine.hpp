#pragma once
// The playground's engine: one model, its text and its training. worker.js calls it as WebAssembly; native.cpp calls
// the same functions to compare both.
//
// Returned texts are JSON unless a comment says otherwise, and valid until the next call. Bad settings and bad text
// throw exceptions. WebAssembly has no handlers for them, so wasm.cpp hands their messages to JavaScript.

#include <cstdint>

extern "C" {
// Returns this many bytes of memory for a text that the caller writes. Free it with engine_free().
char* engine_allocate(uint32_t bytes);
void engine_free(char* text);

// The options: name, group, help, choices, default.
const char* engine_options();

// Sets an option of `train`, or the stories' `grammar`, `bytes` or `corpus-seed`. Set `preset` and `size` first.
void engine_set(const char* name, const char* value);

// Makes the dataset and the model. `text` is the training text, or null for generated stories. Returns what is known
// before the first step.
const char* engine_start(const char* text);

// Takes a step. Writes its loss, the norm of its gradient and its learning rate. `observed` collects statistics.
void engine_step(double* loss_norm_lr, bool observed);
int64_t engine_steps_done();
int engine_tokens_per_step();

// The statistics of the last observed step: rows of layer (null outside of the blocks), part, what, value.
const char* engine_statistics();

// Loss on validation batches, in nats per token.
double engine_validate();

// The attention weights of a layer: tokens, and for each head T rows of T numbers.
const char* engine_attention(const char* text, int layer);

// The stream after the embedding and after each block: its RMS at each token, and the likeliest next token if the
// stream went into the final norm and the classifier there (the logit lens: nostalgebraist 2020).
const char* engine_trace(const char* text);

// Log-probabilities of the tokens after each token, in nats. If `training`, BatchNorm takes its statistics from this
// text.
const char* engine_logits(const char* text, bool training);

// A continuation of the prompt.
const char* engine_sample(const char* prompt, int length, double temperature, uint32_t seed);

// The hashes of kernels.hpp, as plain text.
const char* engine_hashes();
}
