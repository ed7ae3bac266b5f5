/* Sums over the rows of a matrix of float32, in float64 and in one order whatever the processor: the kernels of a level,
 * and what `sums_core.c` lets Python call once it has checked every place against the sizes given. */
#ifndef AURICLE_SUMS_H
#define AURICLE_SUMS_H
#include <stdint.h>

enum { SUMS_PANEL = 16, /* rows of a product side by side */ SUMS_DEEP = 128 /* columns of a product at a time */ };

typedef struct {
  /* out[c] = sum over j of share[j] w[rows[j], c], j ascending, for columns from first to last - 1. */
  void (*weighted)(const float *w, int64_t stride, const int64_t *rows, const double *share, int64_t count,
                   int64_t first, int64_t last, double *out);
  /* squares[k] = sum over c of (w[k, c] - centre[c])^2, for columns from first to last - 1. */
  void (*deviations)(const float *w, int64_t stride, int64_t count, int64_t first, int64_t last, const double *centre,
                     double *squares);
  /* centre[c] = the sum over k of share[k] w[rows[k], c] by count, and squares[k] as above from it; rows are all, in order,
   * and `lanes` has 16 numbers for each. */
  void (*spread)(const float *w, int64_t stride, const int64_t *rows, const double *share, int64_t count, int64_t first,
                 int64_t last, double *centre, double *lanes, double *squares);
  /* out[i, j] = sum over c of (w[rows[i], c] - centre[c]) (w[rows[j], c] - centre[c]), for panels from first to last - 1
   * of i and all j from the panel on; `work` holds the rows of `SUMS_DEEP` columns, in whole panels. */
  void (*products)(const float *w, int64_t stride, const int64_t *rows, int64_t count, int64_t columns,
                   const double *centre, int64_t first, int64_t last, double *work, double *out);
  /* out[i] = from[i], of halves; the bits of the largest without its sign, and the sum over i of (out[i] - base[i])^2. */
  int32_t (*halves)(const uint16_t *from, int64_t count, const float *base, float *out, double *square);
} sums_table;
extern const sums_table sums_plain, sums_avx2, sums_avx512;
int32_t step_level(void);
#endif
