#pragma once
// The head of a model: from the end of the stream to the logits.
//
//   h (N,C) → a transform and its norm, if the model has them → a projection to E channels, if its embeddings are
//   narrow → the classifier, whose matrix (V,E) is the token embedding if it is tied

#include "activations.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "model_tensors.hpp"

// Returns the classifier's input (N,E) from the end of the stream h (N,C).
const float* head_input(const ModelTensors& p, const Activations& a, const Config& config, const float* h, int N,
                        bool training = false);

// Returns the classifier's parameters. Call it after the embedding has normalized its rows, if it does.
Head head_of(const ModelTensors& p, const Activations& a, const Config& config);

// Computes the losses of targets (N), and writes the gradient of h. `scale` multiplies each loss.
void head_backward(const ModelTensors& g, const ModelTensors& p, const Activations& a, const Config& config,
                   const float* h, const int* targets, float scale, int N);

// Under fix_norm and logit_gain, layers read other rows than the parameters, and add to the gradients of these rows.
// The first clears them before the backward pass, the second adds them to the parameters' gradients after it.
void clear_unit_gradients(const Activations& a, const Config& config);
void unit_gradients_backward(const ModelTensors& g, const ModelTensors& p, const Activations& a, const Config& config);
