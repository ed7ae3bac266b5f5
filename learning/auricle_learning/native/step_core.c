/* Takes programs that were checked, and runs them with the widest kernels that the processor has. */
#include "step.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_ARENA = 1 << 30, LONGEST_PROGRAM = 1 << 26 };
static const int64_t MOST_WORK = (int64_t)1 << 36; /* numbers touched by one instruction */

typedef struct {
  int64_t words, arena;
  run_program *run;
  int32_t code[];
} program;

/* Whether a view of so many dimensions lies in the arena. Numbers are below 2^31, so nothing here can overflow. */
static int inside(int64_t offset, int rank, const int64_t *sizes, const int64_t *strides, int64_t arena) {
  int64_t low = offset, high = offset;
  for (int i = 0; i < rank; i++) {
    int64_t reach = (sizes[i] - 1) * strides[i];
    if (reach > arena || reach < -arena) return 0;
    if (reach < 0) low += reach; else high += reach;
  }
  return low >= 0 && high < arena;
}

static int sizes_are_sound(int count, const int64_t *sizes) {
  int64_t work = 1;
  for (int i = 0; i < count; i++) {
    if (sizes[i] < 1 || sizes[i] > MOST_WORK / work) return 0;
    work *= sizes[i];
  }
  return 1;
}

static int elementwise_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length < EW_HEADER) return 0;
  int32_t kind = p[2];
  if (kind < 0 || kind >= K_COUNT) return 0;
  int operands = kind < K_ADD ? 2 : kind < K_WHERE ? 3 : 4;
  if (length != EW_HEADER + operands * EW_OPERAND) return 0;
  int64_t sizes[4] = {p[3], p[4], p[5], p[6]};
  if (!sizes_are_sound(4, sizes)) return 0;
  for (int i = 0; i < operands; i++) {
    const int32_t *o = p + EW_HEADER + i * EW_OPERAND;
    int64_t strides[4] = {o[1], o[2], o[3], o[4]};
    if (!inside(o[0], 4, sizes, strides, arena)) return 0;
  }
  return 1;
}

static int group_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length < G_HEADER) return 0;
  int32_t values = p[G_VALUES], temporary = p[G_TEMPORARY], steps = p[G_STEPS];
  if (values < 1 || values > G_MOST_VALUES || temporary < 0 || temporary > G_MOST_TEMPORARY) return 0;
  if (steps < 1 || steps > G_MOST_STEPS || length != G_HEADER + values * EW_OPERAND + steps * G_STEP) return 0;
  int64_t sizes[4] = {p[G_SIZES], p[G_SIZES + 1], p[G_SIZES + 2], p[G_SIZES + 3]};
  if (!sizes_are_sound(4, sizes)) return 0;
  for (int i = 0; i < values; i++) {
    const int32_t *o = p + G_HEADER + i * EW_OPERAND;
    int64_t strides[4] = {o[1], o[2], o[3], o[4]};
    if ((o[4] != 0 && o[4] != 1) || !inside(o[0], 4, sizes, strides, arena)) return 0;
  }
  for (int i = 0; i < steps; i++) {
    const int32_t *s = p + G_HEADER + values * EW_OPERAND + i * G_STEP;
    if (s[0] < 0 || s[0] >= K_COUNT) return 0;
    for (int k = 1; k < G_STEP; k++) if (s[k] < 0 || s[k] >= values + temporary) return 0;
    if (s[1] < values && p[G_HEADER + s[1] * EW_OPERAND + 4] != 1) return 0;
  }
  return 1;
}

static int product_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length != P_LENGTH) return 0;
  int64_t t = p[P_TIMES], m = p[P_M], n = p[P_N], k = p[P_K], all[4] = {t, m, n, k};
  if (!sizes_are_sound(4, all)) return 0;
  int64_t a[3] = {t, m, k}, as[3] = {p[P_A_TIMES], p[P_A_ROW], p[P_A_COLUMN]};
  int64_t b[3] = {t, k, n}, bs[3] = {p[P_B_TIMES], p[P_B_ROW], 1};
  int64_t c[3] = {t, m, n}, cs[3] = {p[P_C_TIMES], p[P_C_ROW], 1}, c0[3] = {p[P_C0_TIMES], p[P_C0_ROW], 1};
  if (p[P_C0] != -1 && !inside(p[P_C0], 3, c, c0, arena)) return 0;
  return inside(p[P_A], 3, a, as, arena) && inside(p[P_B], 3, b, bs, arena) && inside(p[P_C], 3, c, cs, arena);
}

static int reduction_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length != R_LENGTH || p[R_KIND] < 0 || p[R_KIND] >= R_COUNT) return 0;
  int64_t in[3] = {p[R_O], p[R_K], p[R_I]}, is[3] = {p[R_IN_O], p[R_IN_K], p[R_IN_I]};
  int64_t out[2] = {p[R_O], p[R_I]}, os[2] = {p[R_OUT_O], p[R_OUT_I]};
  return sizes_are_sound(3, in) && inside(p[R_IN], 3, in, is, arena) && inside(p[R_OUT], 2, out, os, arena);
}

static int softmax_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length != S_LENGTH) return 0;
  int64_t sizes[2] = {p[S_ROWS], p[S_COLUMNS]}, is[2] = {p[S_IN_ROW], 1}, os[2] = {p[S_OUT_ROW], 1};
  return sizes_are_sound(2, sizes) && inside(p[S_IN], 2, sizes, is, arena) && inside(p[S_OUT], 2, sizes, os, arena);
}

static int argmax_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length != X_LENGTH) return 0;
  int64_t sizes[2] = {p[X_ROWS], p[X_COLUMNS]}, is[2] = {p[X_IN_ROW], p[X_IN_COLUMN]}, os[1] = {p[X_OUT_ROW]};
  return sizes_are_sound(2, sizes) && inside(p[X_IN], 2, sizes, is, arena) && inside(p[X_OUT], 1, sizes, os, arena);
}

static int depthwise_is_sound(const int32_t *p, int32_t length, int64_t arena) {
  if (length < D_HEADER + D_PLACE || (length - D_HEADER) % D_PLACE || (p[D_WEIGHTED] != 0 && p[D_WEIGHTED] != 1)) return 0;
  const int32_t *n = p + D_SIZES;
  int64_t places = (length - D_HEADER) / D_PLACE, work[5] = {n[0], n[1], n[2], n[3], places}, weights[1] = {n[3]};
  int64_t outs[4] = {p[D_OUT_0], p[D_OUT_1], p[D_OUT_ROW], 1}, ins[4] = {p[D_IN_0], p[D_IN_1], p[D_IN_ROW], 1}, one[1] = {1};
  if (places > D_MOST_PLACES || p[D_STEP_0] < 1 || p[D_STEP_1] < 1 || !sizes_are_sound(5, work)) return 0;
  if (!inside(p[D_OUT], 4, work, outs, arena)) return 0;
  for (const int32_t *at = p + D_HEADER; at < p + length; at += D_PLACE) {
    int64_t seen[4] = {at[3], at[5], n[2], n[3]};
    for (int axis = 0; axis < 2; axis++) {
      int64_t first = at[2 + 2 * axis], count = seen[axis];
      if (first < 0 || count < 1 || first + (count - 1) * p[D_STEP_0 + axis] >= n[axis]) return 0;
    }
    if (!inside(at[0], 4, seen, ins, arena) || !inside(at[1], 1, weights, one, arena)) return 0;
  }
  return 1;
}

static int is_sound(const int32_t *p, const int32_t *end, int64_t arena) {
  while (p < end) {
    if (end - p < 2 || p[1] < 2 || p[1] > end - p) return 0;
    int sound = 0;
    switch (p[0]) {
    case OP_ELEMENTWISE: sound = elementwise_is_sound(p, p[1], arena); break;
    case OP_GROUP: sound = group_is_sound(p, p[1], arena); break;
    case OP_PRODUCT: sound = product_is_sound(p, p[1], arena); break;
    case OP_REDUCE: sound = reduction_is_sound(p, p[1], arena); break;
    case OP_SOFTMAX: sound = softmax_is_sound(p, p[1], arena); break;
    case OP_ARGMAX: sound = argmax_is_sound(p, p[1], arena); break;
    case OP_DEPTHWISE: sound = depthwise_is_sound(p, p[1], arena); break;
    }
    if (!sound) return 0;
    p += p[1];
  }
  return 1;
}

int32_t step_format(void) { return STEP_FORMAT; }
int32_t step_pad(void) { return STEP_PAD; }

/* The widest level of kernels here: 0 plain vectors, 1 AVX2 with FMA, 2 AVX-512. The processor is asked itself, and the
 * system whether it keeps wide registers: not every compiler's library fills in what __builtin_cpu_supports reads. */
#ifdef STEP_X86
#include <cpuid.h>
static int32_t level_of_processor(void) {
  const unsigned FMA = 1u << 12, OSXSAVE = 1u << 27, AVX2 = 1u << 5, WIDE = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  unsigned a, b, c, d, known, kept;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (FMA | OSXSAVE)) != (FMA | OSXSAVE)) return 0;
  __asm__("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
  if ((kept & 6) != 6 || !__get_cpuid_count(7, 0, &a, &known, &c, &d) || !(known & AVX2)) return 0;
  return (kept & 0xe0) == 0xe0 && (known & WIDE) == WIDE ? 2 : 1;
}

/* Asked once: in a virtual machine each of these questions takes 5 to 10 microseconds. Threads would all find the same. */
int32_t step_level(void) {
  static int32_t found = -1;
  int32_t level = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (level < 0) __atomic_store_n(&found, level = level_of_processor(), __ATOMIC_RELAXED);
  return level;
}
#else
int32_t step_level(void) { return 0; }
#endif

/* A copy of a program of so many words that was checked against an arena of so many floats, to run at most at a level;
 * NULL where it is not sound. What was checked is what runs: nobody else holds the copy. */
void *step_load(const int32_t *words, int64_t count, int64_t arena, int32_t most) {
  if (count < 0 || count > LONGEST_PROGRAM || arena < 1 || arena > LARGEST_ARENA) return NULL;
  program *made = malloc(sizeof *made + (size_t)count * sizeof *words);
  if (made == NULL) return NULL;
  made->words = count;
  made->arena = arena;
  made->run = step_run_plain;
#ifdef STEP_X86
  int level = step_level();
  if (most < level) level = most;
  if (level >= 1) made->run = step_run_avx2;
  if (level >= 2) made->run = step_run_avx512;
#else
  (void)most;
#endif
  if (count > 0) memcpy(made->code, words, (size_t)count * sizeof *words);
  if (!is_sound(made->code, made->code + count, arena)) {
    free(made);
    return NULL;
  }
  return made;
}

/* Run a loaded program in an arena of so many floats, `STEP_PAD` counted; 0, or -1 where the arena is too small. */
int32_t step_run(const void *loaded, float *arena, int64_t floats) {
  const program *p = loaded;
  if (p == NULL || arena == NULL || floats < p->arena + STEP_PAD) return -1;
  p->run(p->code, p->code + p->words, arena);
  return 0;
}

/* Run a loaded program for one batch after the other. The numbers of a batch lie one value behind the other, in the order
 * of `places`: offset in the arena and size of each. After each run the numbers at the offsets `results` are kept in
 * `found`. Another thread may set `stop` (or it is NULL): it is looked at before each batch but the first. Returns how many
 * batches were run; -1 where something lies outside of the arena, and nothing was run. */
int64_t step_batches(const void *loaded, float *arena, int64_t floats, int64_t batches, const float *numbers,
                     const int64_t *places, int64_t values, const int64_t *results, int64_t wanted, float *found,
                     const volatile int32_t *stop) {
  const program *p = loaded;
  if (p == NULL || arena == NULL || floats < p->arena + STEP_PAD || batches < 0 || values < 0 || wanted < 0) return -1;
  for (int64_t i = 0; i < values; i++) {
    int64_t offset = places[2 * i], size = places[2 * i + 1];
    if (offset < 0 || size < 0 || size > p->arena || offset > p->arena - size) return -1;
  }
  for (int64_t i = 0; i < wanted; i++) if (results[i] < 0 || results[i] >= p->arena) return -1;
  for (int64_t done = 0; done < batches; done++) {
    if (done > 0 && stop != NULL && *stop) return done;
    for (int64_t i = 0; i < values; i++) {
      memcpy(arena + places[2 * i], numbers, (size_t)places[2 * i + 1] * sizeof *numbers);
      numbers += places[2 * i + 1];
    }
    p->run(p->code, p->code + p->words, arena);
    for (int64_t i = 0; i < wanted; i++) *found++ = arena[results[i]];
  }
  return batches;
}

void step_free(void *loaded) { free(loaded); }
