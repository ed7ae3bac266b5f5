/* The kernels of `sums.h`, compiled once for every level: -DSUMS_TABLE=sums_... and -ffp-contract=off, since a product
 * that is not rounded before it is added would be another number on processors that can do so. */
#include "sums.h"

#include <string.h>

typedef int64_t L;
typedef double v8 __attribute__((vector_size(64)));
typedef float f8 __attribute__((vector_size(32)));
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

#ifdef __AVX512F__ /* compilers take two halves otherwise */
#include <immintrin.h>
INLINE v8 widened(const float *p) { return (v8)_mm512_cvtps_pd(_mm256_loadu_ps(p)); }
#else
INLINE v8 widened(const float *p) { f8 x; memcpy(&x, p, sizeof x); return __builtin_convertvector(x, v8); }
#endif
INLINE v8 load(const double *p) { v8 x; memcpy(&x, p, sizeof x); return x; }
INLINE void store(double *p, v8 x) { memcpy(p, &x, sizeof x); }

/* Some rows onto sums of n columns; what comes next is fetched meanwhile. */
INLINE void add_rows(const float *const *w, const float *const *next, const double *share, int rows, L n, double *out) {
  L i = 0;
  for (; i + 32 <= n; i += 32) {
    v8 a = load(out + i), b = load(out + i + 8), c = load(out + i + 16), d = load(out + i + 24);
    UNROLL for (int r = 0; r < rows; r++) {
      const float *x = w[r] + i;
      __builtin_prefetch(next[r] + i);
      __builtin_prefetch(next[r] + i + 16);
      a += widened(x) * share[r];
      b += widened(x + 8) * share[r];
      c += widened(x + 16) * share[r];
      d += widened(x + 24) * share[r];
    }
    store(out + i, a);
    store(out + i + 8, b);
    store(out + i + 16, c);
    store(out + i + 24, d);
  }
  for (; i < n; i++)
    for (int r = 0; r < rows; r++) out[i] += (double)w[r][i] * share[r];
}

static void weighted(const float *w, L stride, const L *rows, const double *share, L count, L first, L last, double *out) {
  enum { TOGETHER = 8, WIDE = 8192 /* columns: their sums stay near the core */ };
  const float *here[TOGETHER], *next[TOGETHER];
  memset(out + first, 0, (size_t)(last - first) * sizeof *out);
  for (L at = first; at < last; at += WIDE) {
    L n = last - at < WIDE ? last - at : WIDE, j = 0;
    for (; j + TOGETHER <= count; j += TOGETHER) {
      for (int r = 0; r < TOGETHER; r++) {
        here[r] = w + rows[j + r] * stride + at;
        next[r] = j + TOGETHER + r < count ? w + rows[j + TOGETHER + r] * stride + at : here[r];
      }
      add_rows(here, next, share + j, TOGETHER, n, out + at);
    }
    for (; j < count; j++) {
      here[0] = next[0] = w + rows[j] * stride + at;
      add_rows(here, next, share + j, 1, n, out + at);
    }
  }
}

/* Sixteen sums a row, of every sixteenth column; then these in one order, and the columns that are left. */
INLINE void square_rows(const float *w, const float *next, L stride, int rows, L n, const double *centre, double *squares) {
  v8 even[4], odd[4];
  L i = 0;
  UNROLL for (int r = 0; r < rows; r++) even[r] = odd[r] = (v8){0};
  for (; i + 16 <= n; i += 16) {
    v8 x = load(centre + i), y = load(centre + i + 8);
    UNROLL for (int r = 0; r < rows; r++) {
      __builtin_prefetch(next + r * stride + i);
      v8 d = widened(w + r * stride + i) - x, e = widened(w + r * stride + i + 8) - y;
      even[r] += d * d;
      odd[r] += e * e;
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    v8 s = even[r] + odd[r];
    double rest = 0;
    for (L c = i; c < n; c++) { double d = w[r * stride + c] - centre[c]; rest += d * d; }
    squares[r] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
  }
}

static void deviations(const float *w, L stride, L count, L first, L last, const double *centre, double *squares) {
  enum { TOGETHER = 4 };
  L k = 0;
  for (; k + TOGETHER <= count; k += TOGETHER) {
    const float *here = w + k * stride + first;
    const float *next = k + 2 * TOGETHER <= count ? here + TOGETHER * stride : here;
    square_rows(here, next, stride, TOGETHER, last - first, centre + first, squares + k);
  }
  for (; k < count; k++) {
    const float *here = w + k * stride + first;
    square_rows(here, here, stride, 1, last - first, centre + first, squares + k);
  }
}

#ifdef __AVX512F__
enum { HIGH = 8 }; /* rows of a tile, whose sums are all kept in registers */
#else
enum { HIGH = 4 };
#endif

static void products(const float *w, L stride, const L *rows, L count, L columns, const double *centre, L first, L last,
                     double *work, double *out) {
  L panels = (count + SUMS_PANEL - 1) / SUMS_PANEL, wide = panels * SUMS_PANEL;
  for (L at = 0; at < columns; at += SUMS_DEEP) {
    L n = columns - at < SUMS_DEEP ? columns - at : SUMS_DEEP;
    for (L p = first; p < panels; p++) { /* a column's rows side by side, panel by panel */
      double *to = work + p * SUMS_PANEL * SUMS_DEEP;
      const float *from[SUMS_PANEL];
      L k = p * SUMS_PANEL, here = count - k < SUMS_PANEL ? count - k : SUMS_PANEL;
      for (L r = 0; r < SUMS_PANEL; r++) from[r] = w + rows[r < here ? k + r : k] * stride + at;
      for (L c = 0; c < n; c++)
        for (L r = 0; r < SUMS_PANEL; r++) to[c * SUMS_PANEL + r] = from[r][c] - centre[at + c];
      for (L r = here; r < SUMS_PANEL; r++)
        for (L c = 0; c < n; c++) to[c * SUMS_PANEL + r] = 0;
    }
    for (L j = first; j < panels; j++) {
      const double *right = work + j * SUMS_PANEL * SUMS_DEEP;
      for (L i = first * SUMS_PANEL; i < last * SUMS_PANEL && i / SUMS_PANEL <= j; i += HIGH) {
        const double *left = work + i / SUMS_PANEL * SUMS_PANEL * SUMS_DEEP + i % SUMS_PANEL;
        double *to = out + i * wide + j * SUMS_PANEL;
        v8 x[HIGH], y[HIGH];
        UNROLL for (int r = 0; r < HIGH; r++) { x[r] = load(to + r * wide); y[r] = load(to + r * wide + 8); }
        for (L c = 0; c < n; c++) {
          v8 a = load(right + c * SUMS_PANEL), b = load(right + c * SUMS_PANEL + 8);
          UNROLL for (int r = 0; r < HIGH; r++) {
            double s = left[c * SUMS_PANEL + r];
            x[r] += a * s;
            y[r] += b * s;
          }
        }
        UNROLL for (int r = 0; r < HIGH; r++) { store(to + r * wide, x[r]); store(to + r * wide + 8, y[r]); }
      }
    }
  }
}

const sums_table SUMS_TABLE = {weighted, deviations, products};
