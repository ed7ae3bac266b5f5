/* The kernels, compiled once for every level of the processor: -DSTEP_LANES=4, 8 or 16 and -DSTEP_RUN=step_run_...
 * What is summed within a sample is summed in the same order however many samples a batch has. */
#include "step.h"

#include <math.h>
#include <string.h>
#if STEP_LANES > 4
#include <immintrin.h>
#endif

#define W STEP_LANES
typedef int64_t L;
typedef float v __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE v load(const float *p) { v x; memcpy(&x, p, sizeof x); return x; }
INLINE void store(float *p, v x) { memcpy(p, &x, sizeof x); }
INLINE v splat(float x) { return x - (v){0}; }
INLINE v bits(vi x) { v y; memcpy(&y, &x, sizeof y); return y; }
INLINE vi ints(v x) { vi y; memcpy(&y, &x, sizeof y); return y; }
INLINE v choose(vi mask, v a, v b) { return bits((mask & ints(a)) | (~mask & ints(b))); }
INLINE v truth(vi mask) { return bits(mask & ints(splat(1.0f))); }
/* The first n of a vector, 0 < n < W. */
#if STEP_LANES == 16
INLINE void store_some(float *p, v x, L n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x); }
#elif STEP_LANES == 8
INLINE void store_some(float *p, v x, L n) { _mm256_maskstore_ps(p, (__m256i)((vi){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n), (__m256)x); }
#else
INLINE void store_some(float *p, v x, L n) { for (L i = 0; i < n; i++) p[i] = x[i]; }
#endif

/* x, but not under or over a bound, NaN as it is; a where the sign of x is set, else b. */
#if STEP_LANES == 16
INLINE v at_least(float low, v x) { return (v)_mm512_max_ps((__m512)splat(low), (__m512)x); }
INLINE v at_most(float high, v x) { return (v)_mm512_min_ps((__m512)splat(high), (__m512)x); }
INLINE v by_sign(v x, v a, v b) { return (v)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)x), (__m512)b, (__m512)a); }
#elif STEP_LANES == 8
INLINE v at_least(float low, v x) { return (v)_mm256_max_ps((__m256)splat(low), (__m256)x); }
INLINE v at_most(float high, v x) { return (v)_mm256_min_ps((__m256)splat(high), (__m256)x); }
INLINE v by_sign(v x, v a, v b) { return (v)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)x); }
#else
INLINE v at_least(float low, v x) { return choose(x < low, splat(low), x); }
INLINE v at_most(float high, v x) { return choose(x > high, splat(high), x); }
INLINE v by_sign(v x, v a, v b) { return choose(ints(x) < 0, a, b); }
#endif

/* NaN goes through all of these: a training that diverged has to be seen. */
INLINE v larger(v x, v y) { return choose((x > y) | (x != x), x, y); }
INLINE v smaller(v x, v y) { return choose((x < y) | (x != x), x, y); }
INLINE v root(v x) { UNROLL for (int i = 0; i < W; i++) x[i] = sqrtf(x[i]); return x; }
#define EACH(name, expression) static v name(v x) { for (int i = 0; i < W; i++) x[i] = expression; return x; }
EACH(each_log, logf(x[i]))
static v each_pow(v x, v y) { for (int i = 0; i < W; i++) x[i] = powf(x[i], y[i]); return x; }

/* e^x = 2^n e^r with n the integer nearest to x / ln 2; e^r by a polynomial fitted on |r| <= ln 2 / 2 (error 1e-8).
 * 2^n in two factors, so that results under the normal numbers and over the largest are right too. */
INLINE v exponential(v x) {
  v held = at_most(89.0f, at_least(-104.0f, x));
  v shifted = held * 1.442695041f + 12582912.0f; /* 1.5 * 2^23: the fraction is rounded away */
  v n = shifted - 12582912.0f;
  v r = (held - n * 0.693359375f) + n * 2.12194440e-4f;
  v q = r * 1.393454452e-03f + 8.363776467e-03f;
  q = q * r + 4.166645678e-02f;
  q = q * r + 1.666657336e-01f;
  q = q * r + 5.000000014e-01f;
  v p = q * (r * r) + r + 1.0f;
#if STEP_LANES == 16
  return (v)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  vi e = ints(shifted) - 0x4B400000, half = e >> 1;
  return p * bits((half + 127) << 23) * bits((e - half + 127) << 23);
#endif
}
/* a / b for b between 1 and 2. */
INLINE v ratio(v a, v b) {
#if STEP_LANES == 16 /* from an estimate of 14 bits: a division of so many takes as long as 32 products */
  v y = (v)_mm512_rcp14_ps((__m512)b);
  y += y * (1.0f - b * y);
  v q = a * y;
  return q + y * (a - b * q);
#else
  return a / b;
#endif
}
INLINE v sigmoid(v x) {
  v e = exponential(bits(ints(x) | (int32_t)0x80000000)), s = ratio(splat(1.0f), 1.0f + e);
  return by_sign(x, e * s, s);
}
/* An odd polynomial fitted on |x| <= 0.625 (error 2e-8), else (1 - e) / (1 + e) with e = exp(-2 |x|). */
INLINE v hyperbolic(v x) {
  v a = bits(ints(x) & 0x7FFFFFFF), s = x * x;
  v q = s * -6.104945331e-03f + 2.100363886e-02f;
  q = q * s - 5.385249678e-02f;
  q = q * s + 1.333278226e-01f;
  q = q * s - 3.333332910e-01f;
  v small = x + x * s * q, e = exponential(a * -2.0f), large = ratio(1.0f - e, 1.0f + e);
  large = bits(ints(large) | (ints(x) & (int32_t)0x80000000));
  return by_sign(a - 0.625f, small, large);
}

/* An odd polynomial fitted on |x| <= 1 (error 2e-8), else 1 - e^q with q fitted to log erfc to |x| = 4, where it is 1. */
INLINE v error_function(v x) {
  v a = bits(ints(x) & 0x7FFFFFFF), s = x * x, t = at_most(4.0f, a);
  v p = s * -5.463974735e-04f + 4.870976053e-03f;
  p = p * s - 2.666406673e-02f;
  p = p * s + 1.127807468e-01f;
  p = p * s - 3.761194075e-01f;
  p = p * s + 1.128378923e+00f;
  v q = t * -1.150045683e-03f + 1.477510060e-02f;
  q = q * t - 8.862473127e-02f;
  q = q * t - 6.545033563e-01f;
  q = q * t - 1.117427741e+00f;
  q = q * t - 2.674835942e-03f;
  v large = bits(ints(1.0f - exponential(q)) | (ints(x) & (int32_t)0x80000000));
  return by_sign(a - 1.0f, x * p, large);
}

/* ---- elementwise: rows of n numbers, d side by side. An operand's stride is 0 or 1 here, see `strided`. */
typedef struct { const float *p; L row, column; } operand;
typedef void row_kernel(float *d, L dr, operand a, operand b, operand c, L rows, L n);
#define AT(i) { x = load(a.p + a.column * (i)); y = load(b.p + b.column * (i)); z = load(c.p + c.column * (i)); (void)y; (void)z; }
#define ROW(name, expression) \
  static void row_##name(float *d, L dr, operand A, operand B, operand C, L rows, L n) { \
    operand a = A, b = B, c = C; \
    for (L r = 0; r < rows; r++, d += dr, A.p += A.row, B.p += B.row, C.p += C.row) { \
      v x, y, z, sa, sb, sc; \
      if (A.column) a.p = A.p; else { sa = splat(*A.p); a.p = (const float *)&sa; } \
      if (B.column) b.p = B.p; else { sb = splat(*B.p); b.p = (const float *)&sb; } \
      if (C.column) c.p = C.p; else { sc = splat(*C.p); c.p = (const float *)&sc; } \
      L i = 0; \
      for (; i + W <= n; i += W) { AT(i) store(d + i, expression); } \
      if (i < n) { AT(i) store_some(d + i, expression, n - i); } /* it reads past the row's end, and uses none of that */ \
    } \
  }
ROW(copy, x) ROW(neg, -x) ROW(abs, bits(ints(x) & 0x7FFFFFFF)) ROW(sqrt, root(x)) ROW(exp, exponential(x))
ROW(log, each_log(x)) ROW(sigmoid, sigmoid(x)) ROW(tanh, hyperbolic(x)) ROW(relu, at_least(0.0f, x))
ROW(reciprocal, 1.0f / x) ROW(erf, error_function(x)) ROW(not, truth(x == 0.0f)) ROW(truth, truth(x != 0.0f))
ROW(add, x + y) ROW(sub, x - y) ROW(mul, x * y) ROW(div, x / y) ROW(max, larger(x, y)) ROW(min, smaller(x, y))
ROW(greater, truth(x > y)) ROW(greater_equal, truth(x >= y)) ROW(less, truth(x < y)) ROW(less_equal, truth(x <= y))
ROW(equal, truth(x == y)) ROW(pow, each_pow(x, y)) ROW(or, truth((x != 0.0f) | (y != 0.0f)))
ROW(where, choose(x != 0.0f, y, z))
static row_kernel *const ROWS[K_COUNT] = {
    row_copy, row_neg, row_abs, row_sqrt, row_exp, row_log, row_sigmoid, row_tanh, row_relu, row_reciprocal, row_erf,
    row_not, row_truth, row_add, row_sub, row_mul, row_div, row_max, row_min, row_greater, row_greater_equal, row_less,
    row_less_equal, row_equal, row_pow, row_or, row_where};

/* A row with any strides, gathered and scattered in pieces. */
static void strided(row_kernel *row, float *d, L ds, const float *a, L as, const float *b, L bs, const float *c, L cs, L n) {
  enum { PIECE = 256 };
  float ta[PIECE + W], tb[PIECE + W], tc[PIECE + W], td[PIECE + W];
  memset(ta, 0, sizeof ta);
  memset(tb, 0, sizeof tb);
  memset(tc, 0, sizeof tc);
  for (L at = 0; at < n; at += PIECE) {
    L m = n - at < PIECE ? n - at : PIECE;
    for (L i = 0; i < m; i++) ta[i] = a[(at + i) * as];
    for (L i = 0; i < m; i++) tb[i] = b[(at + i) * bs];
    for (L i = 0; i < m; i++) tc[i] = c[(at + i) * cs];
    row(td, 0, (operand){ta, 0, 1}, (operand){tb, 0, 1}, (operand){tc, 0, 1}, 1, m);
    for (L i = 0; i < m; i++) d[(at + i) * ds] = td[i];
  }
}

/* d[i, j] = a[i, j] where a's rows, not its columns, lie side by side. */
static void transposed(float *d, L dr, const float *a, L ac, L rows, L columns) {
  enum { BLOCK = 16 };
  for (L i = 0; i < rows; i += BLOCK)
    for (L j = 0; j < columns; j += BLOCK) {
      L high = rows - i < BLOCK ? rows - i : BLOCK, wide = columns - j < BLOCK ? columns - j : BLOCK;
      for (L r = 0; r < high; r++)
        for (L k = 0; k < wide; k++) d[(i + r) * dr + j + k] = a[(j + k) * ac + i + r];
    }
}

static void elementwise(const int32_t *p, float *arena) {
  int kind = p[2], operands = (p[1] - EW_HEADER) / EW_OPERAND;
  row_kernel *row = ROWS[kind];
  const int32_t *n = p + 3, *o = p + EW_HEADER, *ao = o + EW_OPERAND;
  const int32_t *bo = operands > 2 ? ao + EW_OPERAND : ao, *co = operands > 3 ? bo + EW_OPERAND : ao;
  L ds = o[4], as = ao[4], bs = bo[4], cs = co[4];
  int plain = ds == 1 && (as == 0 || as == 1) && (bs == 0 || bs == 1) && (cs == 0 || cs == 1);
  int turn = kind == K_COPY && ds == 1 && ao[3] == 1 && as > 1 && n[2] > 1;
  for (L i = 0; i < n[0]; i++)
    for (L j = 0; j < n[1]; j++) {
      float *d = arena + o[0] + i * o[1] + j * o[2];
      const float *a = arena + ao[0] + i * ao[1] + j * ao[2], *b = arena + bo[0] + i * bo[1] + j * bo[2];
      const float *c = arena + co[0] + i * co[1] + j * co[2];
      if (turn) { transposed(d, o[3], a, as, n[2], n[3]); continue; }
      L dr = o[3], ar = ao[3], br = bo[3], cr = co[3];
      if (plain) row(d, dr, (operand){a, ar, as}, (operand){b, br, bs}, (operand){c, cr, cs}, n[2], n[3]);
      else for (L r = 0; r < n[2]; r++) strided(row, d + r * dr, ds, a + r * ar, as, b + r * br, bs, c + r * cr, cs, n[3]);
    }
}

/* A piece of rows at a time, so that what a step makes is still near when the next one takes it. */
static void group(const int32_t *p, float *arena) {
  enum { PIECE = 1024 };
  float own[G_MOST_TEMPORARY][PIECE + 5 * 16] __attribute__((aligned(64)));
  operand value[G_MOST_VALUES + G_MOST_TEMPORARY];
  const int32_t *n = p + G_SIZES, *o = p + G_HEADER, *code = o + p[G_VALUES] * EW_OPERAND;
  L values = p[G_VALUES], most = n[3] < PIECE ? n[3] : PIECE, high = PIECE / most < n[2] ? PIECE / most : n[2];
  for (L i = 0; i < values; i++) { value[i].row = o[i * EW_OPERAND + 3]; value[i].column = o[i * EW_OPERAND + 4]; }
  for (L i = 0; i < p[G_TEMPORARY]; i++) { value[values + i].p = own[i]; value[values + i].row = most; value[values + i].column = 1; }
  for (L i = 0; i < n[0]; i++)
    for (L j = 0; j < n[1]; j++)
      for (L r = 0; r < n[2]; r += high)
        for (L c = 0; c < n[3]; c += most) {
          L rows = n[2] - r < high ? n[2] - r : high, wide = n[3] - c < most ? n[3] - c : most;
          for (L k = 0; k < values; k++) {
            const int32_t *at = o + k * EW_OPERAND;
            value[k].p = arena + at[0] + i * at[1] + j * at[2] + r * at[3] + c * at[4];
          }
          const int32_t *s = code;
          for (L k = 0; k < p[G_STEPS]; k++, s += G_STEP) {
            operand d = value[s[1]];
            ROWS[s[0]]((float *)d.p, d.row, value[s[2]], value[s[3]], value[s[4]], rows, wide);
          }
        }
}

/* ---- matrix products: tiles of up to MOST[vectors] rows and so many vectors of columns, sums kept in registers */
#if STEP_LANES == 16
static const int MOST[9] = {0, 8, 8, 8, 6, 0, 0, 0, 1};
#else
static const int MOST[9] = {0, 6, 6, 4, 2, 0, 0, 0, 1};
#endif
typedef void tile_kernel(L K, const float *A, L rs, L cs, const float *B, L ldb, const float *C0, L c0, float *C, L ldc, L last);
/* The last vector of a row has `last` columns. C0 and B are read past a row's end, C is not written there. */
#define TILE(rows, vectors) \
  static void tile_##rows##_##vectors(L K, const float *A, L rs, L cs, const float *B, L ldb, const float *C0, L c0, float *C, L ldc, L last) { \
    v x[rows][vectors]; \
    const float *a[rows]; \
    UNROLL for (int i = 0; i < rows; i++) a[i] = A + i * rs; \
    if (C0) { UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) x[i][j] = load(C0 + i * c0 + j * W); } \
    else { UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) x[i][j] = splat(0); } \
    for (L k = 0, at = 0; k < K; k++, at += cs, B += ldb) { \
      v b[vectors]; \
      UNROLL for (int j = 0; j < vectors; j++) b[j] = load(B + j * W); \
      UNROLL for (int i = 0; i < rows; i++) { v s = splat(a[i][at]); UNROLL for (int j = 0; j < vectors; j++) x[i][j] += s * b[j]; } \
    } \
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors - 1; j++) store(C + i * ldc + j * W, x[i][j]); \
    C += (vectors - 1) * W; \
    if (last == W) { UNROLL for (int i = 0; i < rows; i++) store(C + i * ldc, x[i][vectors - 1]); } \
    else { UNROLL for (int i = 0; i < rows; i++) store_some(C + i * ldc, x[i][vectors - 1], last); } \
  }
#define TO_2(vectors) TILE(1, vectors) TILE(2, vectors)
#define TO_4(vectors) TO_2(vectors) TILE(3, vectors) TILE(4, vectors)
#define TO_6(vectors) TO_4(vectors) TILE(5, vectors) TILE(6, vectors)
#define TO_8(vectors) TO_6(vectors) TILE(7, vectors) TILE(8, vectors)
#if STEP_LANES == 16
TO_8(1) TO_8(2) TO_8(3) TO_6(4) TILE(1, 8)
static tile_kernel *const TILES[9][9] = {
    {0}, {0, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1},
    {0, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2},
    {0, tile_1_3, tile_2_3, tile_3_3, tile_4_3, tile_5_3, tile_6_3, tile_7_3, tile_8_3},
    {0, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4}, {0}, {0}, {0}, {0, tile_1_8}};
#else
TO_6(1) TO_6(2) TO_4(3) TO_2(4) TILE(1, 8)
static tile_kernel *const TILES[9][9] = {
    {0}, {0, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1},
    {0, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2},
    {0, tile_1_3, tile_2_3, tile_3_3, tile_4_3}, {0, tile_1_4, tile_2_4}, {0}, {0}, {0}, {0, tile_1_8}};
#endif

/* How many vectors wide the next tiles are: few rows leave room for more sums side by side. */
static int width_of(L M, L left) {
  if (left <= 2) return (int)left;
  if (M == 1 && left >= 8) return 8;
#if STEP_LANES == 16
  return left == 3 || left == 5 || left == 6 ? 3 : 4;
#else
  return M <= 2 ? (left < 4 ? 3 : 4) : M <= 4 || (left == 3 && M % 6 && M % 4 == 0) ? 3 : 2;
#endif
}

static void product(const int32_t *p, float *arena) {
  enum { NEAR = 8192 }; /* numbers of B that stay near while all of A passes over them */
  L M = p[P_M], N = p[P_N], K = p[P_K], rs = p[P_A_ROW], cs = p[P_A_COLUMN], ldb = p[P_B_ROW], ldc = p[P_C_ROW];
  for (L t = 0; t < p[P_TIMES]; t++) {
    const float *A = arena + p[P_A] + t * p[P_A_TIMES], *B = arena + p[P_B] + t * p[P_B_TIMES];
    float *C = arena + p[P_C] + t * p[P_C_TIMES];
    const float *first = p[P_C0] < 0 ? 0 : arena + p[P_C0] + t * p[P_C0_TIMES];
    for (L j = 0, wide; j < N; j += wide) {
      int vectors = width_of(M, (N - j + W - 1) / W), most = MOST[vectors];
      wide = N - j < vectors * W ? N - j : vectors * W;
      L last = wide - (vectors - 1) * W, deepest = M > most ? NEAR / (vectors * W) : K;
      for (L k = 0, deep; k < K; k += deep) {
        deep = K - k <= deepest + deepest / 2 ? K - k : deepest;
        L c0 = k ? ldc : p[P_C0_ROW];
        const float *C0 = k ? C + j : first ? first + j : 0;
        for (L i = 0, rows; i < M; i += rows) {
          L left = M - i, tiles = (left + most - 1) / most;
          rows = (left + tiles - 1) / tiles;
          TILES[vectors][rows](deep, A + i * rs + k * cs, rs, cs, B + k * ldb + j, ldb, C0 ? C0 + i * c0 : 0, c0, C + i * ldc + j, ldc, last);
        }
      }
    }
  }
}

/* ---- reductions: of numbers in a row, blocks in float32 and all blocks in float64; of columns, chains in float32 */
enum { BLOCK = 1024 };
static double sum_of(const float *a, L s, L n, int squares) {
  double total = 0;
  for (L at = 0; at < n; at += BLOCK) {
    L m = n - at < BLOCK ? n - at : BLOCK, i = 0;
    float block = 0;
    if (s == 1) {
      v s0 = splat(0), s1 = s0;
      for (; i + 2 * W <= m; i += 2 * W) {
        v x = load(a + at + i), y = load(a + at + i + W);
        s0 += squares ? x * x : x; s1 += squares ? y * y : y;
      }
      s0 += s1;
      for (int l = 0; l < W; l++) block += s0[l];
    }
    for (; i < m; i++) { float x = a[(at + i) * s]; block += squares ? x * x : x; }
    total += block;
  }
  return total;
}

static float extreme_of(const float *a, L s, L n, int smallest) {
  float best = a[0];
  for (L i = 1; i < n; i++) { float x = a[i * s]; if (smallest ? x < best : x > best) best = x; if (x != x) best = x; }
  return best;
}

/* Sums of columns beside one another, in the same order whatever lies beside them: two chains of rows, so many at a time. */
INLINE void columns(int vectors, const float *a, L stride, L K, float scale, float *z, L last) {
  enum { DEEP = 256 };
  v total[4] = {splat(0), splat(0), splat(0), splat(0)};
  for (L k = 0; k < K;) {
    v s[4] = {splat(0), splat(0), splat(0), splat(0)}, t[4] = {splat(0), splat(0), splat(0), splat(0)};
    L end = K - k < DEEP ? K : k + DEEP;
    for (; k + 2 <= end; k += 2)
      UNROLL for (int j = 0; j < vectors; j++) { s[j] += load(a + k * stride + j * W); t[j] += load(a + (k + 1) * stride + j * W); }
    for (; k < end; k++) UNROLL for (int j = 0; j < vectors; j++) s[j] += load(a + k * stride + j * W);
    UNROLL for (int j = 0; j < vectors; j++) total[j] += s[j] + t[j];
  }
  UNROLL for (int j = 0; j < vectors - 1; j++) store(z + j * W, total[j] * scale);
  z += (vectors - 1) * W;
  if (last == W) store(z, total[vectors - 1] * scale); else store_some(z, total[vectors - 1] * scale, last);
}

static void reduce(const int32_t *p, float *arena) {
  float scale; memcpy(&scale, p + R_SCALE, sizeof scale);
  L K = p[R_K], I = p[R_I], sk = p[R_IN_K], si = p[R_IN_I], oi = p[R_OUT_I];
  int kind = p[R_KIND];
  for (L o = 0; o < p[R_O]; o++) {
    const float *a = arena + p[R_IN] + o * p[R_IN_O];
    float *z = arena + p[R_OUT] + o * p[R_OUT_O];
    L i = 0;
    if (kind == R_SUM && si == 1 && oi == 1 && (I > 1 || sk != 1)) {
      for (; i + 4 * W <= I; i += 4 * W) columns(4, a + i, sk, K, scale, z + i, W);
      for (; i < I; i += W) columns(1, a + i, sk, K, scale, z + i, I - i < W ? I - i : W);
    }
    for (; i < I; i++)
      z[i * oi] = kind >= R_MAX ? extreme_of(a + i * si, sk, K, kind == R_MIN) * scale
                                : (float)(sum_of(a + i * si, sk, K, kind == R_SQUARES) * (double)scale);
  }
}

static void softmax(const int32_t *p, float *arena) {
  L C = p[S_COLUMNS];
  for (L r = 0; r < p[S_ROWS]; r++) {
    const float *x = arena + p[S_IN] + r * p[S_IN_ROW];
    float *y = arena + p[S_OUT] + r * p[S_OUT_ROW], top = extreme_of(x, 1, C, 0), sum = 0;
    for (L c = 0; c < C; c += W) {
      L n = C - c < W ? C - c : W;
      float e[W]; v all = exponential(load(x + c) - top);
      memcpy(e, &all, sizeof e);
      for (L i = 0; i < n; i++) { sum += e[i]; if (!p[S_LOG]) y[c + i] = e[i]; }
    }
    float low = logf(sum);
    for (L c = 0; c < C; c++) y[c] = p[S_LOG] ? x[c] - top - low : y[c] / sum;
  }
}

static void argmax(const int32_t *p, float *arena) {
  for (L r = 0; r < p[X_ROWS]; r++) {
    const float *x = arena + p[X_IN] + r * p[X_IN_ROW];
    L best = 0;
    for (L c = 1; c < p[X_COLUMNS]; c++) if (x[c * p[X_IN_COLUMN]] > x[best * p[X_IN_COLUMN]]) best = c;
    arena[p[X_OUT] + r * p[X_OUT_ROW]] = (float)best;
  }
}

/* ---- depthwise convolutions: a run of outputs whose windows see the same places, with the weights of up to AT_ONCE places,
 * or their sums, in registers */
enum { AT_ONCE = 9, RUN = 512 };
typedef struct { L count, rows, in_next, in_row, out_next, out_row; } stretch;

INLINE void weigh(int places, const float *const *in, float *const *weights, float *out, const stretch *s, int more, L last) {
  v w[AT_ONCE];
  UNROLL for (int k = 0; k < places; k++) w[k] = load(weights[k]);
  for (L i = 0; i < s->count; i++)
    for (L r = 0; r < s->rows; r++) {
      L at = i * s->in_next + r * s->in_row;
      float *z = out + i * s->out_next + r * s->out_row;
      v x = more ? load(z) : splat(0);
      UNROLL for (int k = 0; k < places; k++) x += load(in[k] + at) * w[k];
      if (last == W) store(z, x); else store_some(z, x, last);
    }
}

INLINE void correlate(int places, const float *const *in, float *const *weights, const float *out, const stretch *s, L last) {
  v sum[AT_ONCE];
  UNROLL for (int k = 0; k < places; k++) sum[k] = splat(0);
  for (L i = 0; i < s->count; i++)
    for (L r = 0; r < s->rows; r++) {
      L at = i * s->in_next + r * s->in_row;
      v y = load(out + i * s->out_next + r * s->out_row);
      UNROLL for (int k = 0; k < places; k++) sum[k] += load(in[k] + at) * y;
    }
  UNROLL for (int k = 0; k < places; k++) {
    sum[k] += load(weights[k]);
    if (last == W) store(weights[k], sum[k]); else store_some(weights[k], sum[k], last);
  }
}

#define SEEN(n) case n: if (weighted) weigh(n, in, weights, out, s, more, last); else correlate(n, in, weights, out, s, last); break;
static void see(int weighted, int places, const float *const *in, float *const *weights, float *out, const stretch *s, int more, L last) {
  switch (places) { SEEN(1) SEEN(2) SEEN(3) SEEN(4) SEEN(5) SEEN(6) SEEN(7) SEEN(8) SEEN(9) }
}

/* A stretch of outputs and all places that see it. */
static void depthwise_stretch(int weighted, L places, const float *const *in, float *const *weights, float *out, const stretch *s, L channels) {
  for (L c = 0; c < channels; c += W) {
    L last = channels - c < W ? channels - c : W, parts = (places + AT_ONCE - 1) / AT_ONCE;
    if (weighted && places == 0)
      for (L i = 0; i < s->count; i++)
        for (L r = 0; r < s->rows; r++) memset(out + i * s->out_next + r * s->out_row + c, 0, (size_t)last * sizeof *out);
    for (L k = 0, n; k < places; k += n, parts--) {
      const float *from[AT_ONCE];
      float *with[AT_ONCE];
      n = (places - k + parts - 1) / parts;
      for (L i = 0; i < n; i++) { from[i] = in[k + i] + c; with[i] = weights[k + i] + c; }
      see(weighted, (int)n, from, with, out + c, s, k > 0, last);
    }
  }
}

static void depthwise(const int32_t *p, float *arena) {
  const int32_t *end = p + p[1], *n = p + D_SIZES, *near[D_MOST_PLACES];
  int weighted = p[D_WEIGHTED];
  L step0 = p[D_STEP_0], step1 = p[D_STEP_1], most = RUN / n[2] + 1;
  if (!weighted) for (const int32_t *at = p + D_HEADER; at < end; at += D_PLACE) memset(arena + at[1], 0, (size_t)n[3] * sizeof *arena);
  for (L i = 0; i < n[0]; i++) {
    L rows = 0;
    for (const int32_t *at = p + D_HEADER; at < end; at += D_PLACE)
      if (i >= at[2] && (i - at[2]) % step0 == 0 && (i - at[2]) / step0 < at[3]) near[rows++] = at;
    for (L first = 0; first < step1 && first < n[1]; first++)
      for (L j = first; j < n[1];) {
        const float *in[D_MOST_PLACES];
        float *weights[D_MOST_PLACES];
        L places = 0, next = n[1];
        for (L k = 0; k < rows; k++) { /* which see this output, and from where on others do */
          const int32_t *at = near[k];
          L low = at[4], high = low + at[5] * step1;
          if ((j - low) % step1) continue;
          if (j < low) { if (low < next) next = low; continue; }
          if (j >= high) continue;
          if (high < next) next = high;
          in[places] = arena + at[0] + (i - at[2]) / step0 * p[D_IN_0] + (j - low) / step1 * p[D_IN_1];
          weights[places++] = arena + at[1];
        }
        L count = (next - j + step1 - 1) / step1;
        if (count > most) count = most;
        stretch s = {count, n[2], p[D_IN_1], p[D_IN_ROW], step1 * p[D_OUT_1], p[D_OUT_ROW]};
        depthwise_stretch(weighted, places, in, weights, arena + p[D_OUT] + i * p[D_OUT_0] + j * p[D_OUT_1], &s, n[3]);
        j += count * step1;
      }
  }
}

void STEP_RUN(const int32_t *p, const int32_t *end, float *arena) {
  for (; p < end; p += p[1])
    switch (p[0]) {
    case OP_ELEMENTWISE: elementwise(p, arena); break;
    case OP_GROUP: group(p, arena); break;
    case OP_PRODUCT: product(p, arena); break;
    case OP_REDUCE: reduce(p, arena); break;
    case OP_SOFTMAX: softmax(p, arena); break;
    case OP_ARGMAX: argmax(p, arena); break;
    case OP_DEPTHWISE: depthwise(p, arena); break;
    }
}
