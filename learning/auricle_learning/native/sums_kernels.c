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

/* Onto sixteen sums a row, of every sixteenth column, the squares of n columns, whole sixteens of them. */
INLINE void square_rows(const float *w, const float *next, L stride, int rows, L n, const double *centre, double *lanes) {
  v8 even[4], odd[4];
  UNROLL for (int r = 0; r < rows; r++) { even[r] = load(lanes + 16 * r); odd[r] = load(lanes + 16 * r + 8); }
  for (L i = 0; i < n; i += 16) {
    v8 x = load(centre + i), y = load(centre + i + 8);
    UNROLL for (int r = 0; r < rows; r++) {
      __builtin_prefetch(next + r * stride + i);
      v8 d = widened(w + r * stride + i) - x, e = widened(w + r * stride + i + 8) - y;
      even[r] += d * d;
      odd[r] += e * e;
    }
  }
  UNROLL for (int r = 0; r < rows; r++) { store(lanes + 16 * r, even[r]); store(lanes + 16 * r + 8, odd[r]); }
}

/* The sums of a row in one order, and then the columns that are left. */
INLINE double squares_of(const double *lanes, const float *w, L n, const double *centre) {
  v8 s = load(lanes) + load(lanes + 8);
  double rest = 0;
  for (L c = 0; c < n; c++) { double d = w[c] - centre[c]; rest += d * d; }
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}

static void deviations(const float *w, L stride, L count, L first, L last, const double *centre, double *squares) {
  enum { TOGETHER = 4 };
  L whole = (last - first) / 16 * 16, k = 0;
  for (; k < count; k += TOGETHER) {
    double lanes[16 * TOGETHER] = {0};
    const float *here = w + k * stride + first;
    L rows = count - k < TOGETHER ? count - k : TOGETHER;
    if (rows == TOGETHER)
      square_rows(here, k + 2 * TOGETHER <= count ? here + TOGETHER * stride : here, stride, TOGETHER, whole,
                  centre + first, lanes);
    else
      for (L r = 0; r < rows; r++) square_rows(here + r * stride, here, stride, 1, whole, centre + first, lanes + 16 * r);
    for (L r = 0; r < rows; r++)
      squares[k + r] = squares_of(lanes + 16 * r, here + r * stride + whole, last - first - whole, centre + first + whole);
  }
}

/* Columns by as many as all rows of them stay near the core for: they are added up, and are there for the squares. */
static void spread(const float *w, L stride, const L *rows, const double *share, L count, L first, L last, double *centre,
                   double *lanes, double *squares) {
  enum { TOGETHER = 4, NEAR = 1 << 17 /* numbers */, LEAST = 128 };
  L step = NEAR / count / 16 * 16, whole = first + (last - first) / 16 * 16;
  if (step < LEAST) step = last - first;
  memset(lanes, 0, (size_t)count * 16 * sizeof *lanes);
  for (L at = first; at < last; at += step) {
    L to = last - at < step ? last : at + step, n = (to < whole ? to : whole) - at, k = 0;
    weighted(w, stride, rows, share, count, at, to, centre);
    for (L c = at; c < to; c++) centre[c] /= (double)count;
    for (; k + TOGETHER <= count; k += TOGETHER) {
      const float *here = w + k * stride + at;
      square_rows(here, k + 2 * TOGETHER <= count ? here + TOGETHER * stride : here, stride, TOGETHER, n, centre + at,
                  lanes + 16 * k);
    }
    for (; k < count; k++) square_rows(w + k * stride + at, w + k * stride + at, stride, 1, n, centre + at, lanes + 16 * k);
  }
  for (L k = 0; k < count; k++)
    squares[k] = squares_of(lanes + 16 * k, w + k * stride + whole, last - whole, centre + whole);
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

typedef uint16_t h16 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef struct { i8 largest; v8 square; } reading;

/* Normal numbers have the same mantissa at another place and another bias of the exponent; of others the mantissa counts
 * in units of 2^-24. */
INLINE void read_eight(i8 word, const float *base, float *out, reading *so_far) {
  i8 size = word & 0x7fff, normal = size >= 0x400, larger = size > so_far->largest;
  so_far->largest = (size & larger) | (so_far->largest & ~larger);
  f8 few = __builtin_convertvector(size & 0x3ff, f8) * 0x1p-24f;
  f8 number = (f8)((((size << 13) + ((127 - 15) << 23)) & normal) | ((i8)few & ~normal) | ((word & 0x8000) << 16)), begun;
  memcpy(out, &number, sizeof number);
  memcpy(&begun, base, sizeof begun);
  v8 moved = __builtin_convertvector(number - begun, v8);
  so_far->square += moved * moved;
}

INLINE i8 words(const uint16_t *from) {
  i8 word;
  for (int j = 0; j < 8; j++) word[j] = from[j];
  return word;
}

static int32_t halves(const uint16_t *from, L count, const float *base, float *out, double *square) {
  static const float none[16];
  uint16_t last[16] = {0};
  float begun[16] = {0}, made[16];
  reading a = {0}, b = {0};
  L i = 0;
  for (; i + 16 <= count; i += 16) {
    const float *was = base ? base + i : none;
    read_eight(words(from + i), was, out + i, &a);
    read_eight(words(from + i + 8), was + 8, out + i + 8, &b);
  }
  memcpy(last, from + i, (size_t)(count - i) * sizeof *from);
  if (base) memcpy(begun, base + i, (size_t)(count - i) * sizeof *base);
  read_eight(words(last), begun, made, &a);
  read_eight(words(last + 8), begun + 8, made + 8, &b);
  memcpy(out + i, made, (size_t)(count - i) * sizeof *out);
  v8 s = a.square + b.square;
  *square = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  int32_t largest = 0;
  for (int j = 0; j < 8; j++) {
    if (a.largest[j] > largest) largest = a.largest[j];
    if (b.largest[j] > largest) largest = b.largest[j];
  }
  return largest;
}

const sums_table SUMS_TABLE = {weighted, deviations, spread, products, halves};
