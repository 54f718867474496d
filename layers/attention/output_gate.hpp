#pragma once
// The sigmoid gate on attention's output, before o (Qiu et al. 2025, arXiv 2505.06708: gate G1, as in the authors'
// modeling_qwen3.py, 49645df).
//
//   h (N,H·D): the mixed values   z (N,G): u times the gate's matrix   G = H (headwise) or H·D (elementwise)
//   forward   y  = σ(z) ⊙ h
//   backward  dh = σ(z) ⊙ dy      dz = dy ⊙ h ⊙ σ(1 − σ), summed over a head's D numbers if headwise
//   saves     nothing: the caller still holds h and z

void output_gate_forward(float* y, const float* h, const float* z, int N, int H, int D, bool headwise);

// d holds dy before the call and dh after it.
void output_gate_backward(float* d, float* dz, const float* h, const float* z, int N, int H, int D, bool headwise);
