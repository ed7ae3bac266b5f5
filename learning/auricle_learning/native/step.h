/* The program of a step, as `program.py` writes it and `step_core.c` checks it: int32 words, one instruction after
 * another. Every instruction begins with its operation and its length in words. Offsets and strides count float32
 * numbers of one arena; a stride may be 0 (a number repeated) or negative (a reversed axis). */
#ifndef AURICLE_STEP_H
#define AURICLE_STEP_H
#include <stdint.h>

#define STEP_FORMAT 3 /* of programs; `library.py` asks for it */
#define STEP_PAD 64   /* floats after the arena that kernels may read, never write */

enum { OP_ELEMENTWISE = 1, OP_PRODUCT, OP_REDUCE, OP_SOFTMAX, OP_ARGMAX, OP_GROUP, OP_DEPTHWISE };

/* Elementwise: op, length, kind, n[4], then out, a, b, c as far as the kind has them: offset, stride[4]. */
enum { EW_HEADER = 7, EW_OPERAND = 5 };
enum { /* the order of `program.KINDS`: one input, then two, then three */
  K_COPY, K_NEG, K_ABS, K_SQRT, K_EXP, K_LOG, K_SIGMOID, K_TANH, K_RELU, K_RECIPROCAL, K_ERF, K_NOT, K_TRUTH,
  K_ADD, K_SUB, K_MUL, K_DIV, K_MAX, K_MIN, K_GREATER, K_GREATER_EQUAL, K_LESS, K_LESS_EQUAL, K_EQUAL, K_POW, K_OR,
  K_WHERE,
  K_COUNT
};
/* Product: C[i, j] = C0[i, j] + sum over k of A[i, k] B[k, j], so many times; B, C0 and C have columns side by side. */
enum { P_TIMES = 2, P_M, P_N, P_K, P_A, P_A_TIMES, P_A_ROW, P_A_COLUMN, P_B, P_B_TIMES, P_B_ROW, P_C0, P_C0_TIMES,
       P_C0_ROW, P_C, P_C_TIMES, P_C_ROW, P_LENGTH };
/* Reduction: out[o, i] = scale * (over k) in[o, k, i]; the scale is a float's bits. */
enum { R_KIND = 2, R_O, R_K, R_I, R_IN, R_IN_O, R_IN_K, R_IN_I, R_OUT, R_OUT_O, R_OUT_I, R_SCALE, R_LENGTH };
enum { R_SUM, R_SQUARES, R_MAX, R_MIN, R_COUNT };
/* Softmax of rows, or its logarithm; columns side by side. Index of the first largest of each row, as a number. */
enum { S_LOG = 2, S_ROWS, S_COLUMNS, S_IN, S_IN_ROW, S_OUT, S_OUT_ROW, S_LENGTH };
enum { X_ROWS = 2, X_COLUMNS, X_IN, X_IN_ROW, X_IN_COLUMN, X_OUT, X_OUT_ROW, X_LENGTH };

/* Group: sizes of four axes; how many values lie in the arena, how many only in the kernels' own memory, how many steps;
 * each value of the arena as an operand above, its last stride 0 or 1; each step: kind, then places of out, a, b, c among
 * the values, those of the arena first. All steps are done for a piece of the numbers before the next one. */
enum { G_SIZES = 2, G_VALUES = 6, G_TEMPORARY, G_STEPS, G_HEADER, G_STEP = 5 };
enum { G_MOST_VALUES = 24, G_MOST_TEMPORARY = 10, G_MOST_STEPS = 40 };

/* Depthwise convolution: places of a window, each with a weight a channel, over outputs [n0, n1, rows, channels], channels
 * side by side. A place sees, of every axis' outputs `first`, `first + step`, ..., so many, an input each; whatever it does
 * not see counts as 0. Weighted: out = sum over places of in * weight. Else each place's weights = sum over what it sees of
 * in * out, as for a gradient. After the header each place: its first input, its weights, first and count of both axes. */
enum { D_WEIGHTED = 2, D_SIZES, D_STEP_0 = 7, D_STEP_1, D_IN_0, D_IN_1, D_IN_ROW, D_OUT, D_OUT_0, D_OUT_1, D_OUT_ROW,
       D_HEADER, D_PLACE = 6, D_MOST_PLACES = 64 };

typedef void run_program(const int32_t *program, const int32_t *end, float *arena);
run_program step_run_plain, step_run_avx2, step_run_avx512;
#endif
