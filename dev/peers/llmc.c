// Runs one batch in llm.c: reads a model and the batch in a debug state, and writes the debug state that llm.c
// computes. Prints the losses of ten steps of AdamW without weight decay, each before its update.
//
//   llmc MODEL STATE OUT        compiled with llm.c's folder in the include path

#define TESTING
#include "train_gpt2.c"

static void save(FILE* file, const void* data, size_t numbers) {
  if (fwrite(data, 4, numbers, file) != numbers) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);

  int header[256];
  FILE* state = fopenCheck(argv[2], "rb");
  freadCheck(header, sizeof(int), 256, state);
  if (header[0] != 20240327 || header[1] != 2) return 2;
  const int B = header[2], T = header[3], V = model.config.vocab_size, P = model.config.padded_vocab_size;
  int* tokens = mallocCheck(B * T * sizeof(int));
  int* targets = mallocCheck(B * T * sizeof(int));
  freadCheck(tokens, sizeof(int), B * T, state);
  freadCheck(targets, sizeof(int), B * T, state);
  fcloseCheck(state);

  for (int step = 0; step < 10; ++step) {
    gpt2_forward(&model, tokens, targets, B, T);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    if (step == 0) {
      FILE* out = fopenCheck(argv[3], "wb");
      save(out, header, 256);
      save(out, tokens, B * T);
      save(out, targets, B * T);
      for (int n = 0; n < B * T; ++n) save(out, model.acts.logits + (size_t)n * P, V);
      save(out, &model.mean_loss, 1);
      save(out, model.grads_memory, model.num_parameters);
      fcloseCheck(out);
    }
    printf("loss %.9g\n", model.mean_loss);
    gpt2_update(&model, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, step + 1);
  }
  return 0;
}
