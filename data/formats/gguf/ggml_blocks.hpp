#pragma once
// Blocks of ggml's number formats become floats, as dequantize_row_NAME does in ggml/src/ggml-quants.c. The layouts are
// the structs in ggml/src/ggml-common.h:
//
//   q4_0, q5_0   d·(q − 8), d·(q − 16)   half d, (u32 fifth bits,) 16 bytes of q
//   q4_1, q5_1   d·q + m                 half d, half m, (u32 fifth bits,) 16 bytes of q
//   q8_0         d·q                     half d, 32 bytes of q
//   q2_k         d·s·q − m·t             16 bytes of s and t, 64 of q, half d, half m
//   q3_k         d·(s − 32)·(q − 4)      32 bytes of third bits, 64 of q, 12 of s, half d
//   q4_k, q5_k   d·s·q − m·t             half d, half m, 12 bytes of s and t, (32 of fifth bits,) 128 of q
//   q6_k         d·s·(q − 32)            128 bytes of q, 64 of its upper bits, 16 of s, half d
//
// A block of q4_0 to q8_0 has 32 numbers. A block of the others has 256, in groups of 16 (q2_k, q3_k, q6_k) or 32, each
// with its own s and t.

void decode_f32(float* to, const unsigned char* block);
void decode_f16(float* to, const unsigned char* block);
void decode_bf16(float* to, const unsigned char* block);
void decode_q4_0(float* to, const unsigned char* block);
void decode_q4_1(float* to, const unsigned char* block);
void decode_q5_0(float* to, const unsigned char* block);
void decode_q5_1(float* to, const unsigned char* block);
void decode_q8_0(float* to, const unsigned char* block);
void decode_q2_k(float* to, const unsigned char* block);
void decode_q3_k(float* to, const unsigned char* block);
void decode_q4_k(float* to, const unsigned char* block);
void decode_q5_k(float* to, const unsigned char* block);
void decode_q6_k(float* to, const unsigned char* block);
