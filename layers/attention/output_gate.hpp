#pragma once
// The sigmoid gate of attention's output, before o (Qiu et al. 2025, arXiv 2505.06708: gate G1, as the authors'
// modeling_qwen3.py has it, 49645df).
//
//   h (N,H·D): the mixed values   z (N,G): u times a matrix of its own   G = H (headwise) or H·D (elementwise)
//   forward   y  = σ(z) ⊙ h
//   backward  dh = σ(z) ⊙ dy      dz = dy ⊙ h ⊙ σ(1 − σ), headwise summed over the D numbers of a head
//   saves     nothing: the caller still holds h and z

void output_gate_forward(float* y, const float* h, const float* z, int N, int H, int D, bool headwise);

// d holds dy and then dh.
void output_gate_backward(float* d, float* dz, const float* h, const float* z, int N, int H, int D, bool headwise);
