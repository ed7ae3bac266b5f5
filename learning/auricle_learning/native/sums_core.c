/* What Python calls: every place is checked against the sizes given, then the widest kernels that the processor has run.
 * All answer 0, or -1 where something lies outside. */
#include "sums.h"

#include <stddef.h>

static const int64_t MOST = (int64_t)1 << 40; /* numbers of an array: products of two sizes below it cannot overflow */

static const sums_table *table_of(int32_t most) {
#ifdef STEP_X86
  int32_t level = step_level();
  if (most < level) level = most;
  if (level >= 1) return level >= 2 ? &sums_avx512 : &sums_avx2;
#else
  (void)most;
#endif
  return &sums_plain;
}

/* Whether columns of so many rows, `stride` apart, lie in an array of so many numbers. */
static int inside(int64_t numbers, int64_t stride, int64_t rows, int64_t first, int64_t last) {
  if (numbers < 0 || numbers > MOST || rows < 1 || first < 0 || last < first || stride < last) return 0;
  return rows == 1 ? last <= numbers : stride <= (numbers - last) / (rows - 1);
}

static int known(const int64_t *rows, int64_t count, int64_t all) {
  if (count < 0 || count > MOST) return 0;
  for (int64_t j = 0; j < count; j++)
    if (rows[j] < 0 || rows[j] >= all) return 0;
  return 1;
}

/* The piece of a table that comes next; each thread that works on the table takes one after the other. */
static int64_t taken(int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

/* Columns of `all` rows in `numbers` float32; `out` has `stride` numbers. A piece has four: the first of its columns and
 * the one after the last, and from where to where its rows stand in `rows` and `share`, which have `listed`. */
int32_t sums_weighted(const float *w, int64_t numbers, int64_t stride, int64_t all, const int64_t *rows,
                      const double *share, int64_t listed, const int64_t *pieces, int64_t count, int64_t *next,
                      double *out, int32_t most) {
  const sums_table *kernels = table_of(most);
  for (int64_t p = taken(next); p >= 0 && p < count; p = taken(next)) {
    int64_t first = pieces[4 * p], last = pieces[4 * p + 1], from = pieces[4 * p + 2], to = pieces[4 * p + 3];
    if (!inside(numbers, stride, all, first, last) || from < 0 || to < from || to > listed) return -1;
    if (!known(rows + from, to - from, all)) return -1;
    kernels->weighted(w, stride, rows + from, share + from, to - from, first, last, out);
  }
  return 0;
}

/* `centre` has `stride` numbers, `squares` one for each row. */
int32_t sums_deviations(const float *w, int64_t numbers, int64_t stride, int64_t all, int64_t first, int64_t last,
                        const double *centre, double *squares, int32_t most) {
  if (!inside(numbers, stride, all, first, last)) return -1;
  table_of(most)->deviations(w, stride, all, first, last, centre, squares);
  return 0;
}

/* `rows` and `share` have `all`, `centre` has `stride`, `lanes` 16 for each row, `squares` one for each row of each piece;
 * a piece has the first of its columns and the one after the last. */
int32_t sums_spread(const float *w, int64_t numbers, int64_t stride, int64_t all, const int64_t *rows,
                    const double *share, const int64_t *pieces, int64_t count, int64_t *next, double *centre,
                    double *lanes, double *squares, int32_t most) {
  const sums_table *kernels = table_of(most);
  for (int64_t p = taken(next); p >= 0 && p < count; p = taken(next)) {
    int64_t first = pieces[2 * p], last = pieces[2 * p + 1];
    if (!inside(numbers, stride, all, first, last) || !known(rows, all, all)) return -1;
    kernels->spread(w, stride, rows, share, all, first, last, centre, lanes, squares + p * all);
  }
  return 0;
}

/* `work` has so many numbers; `out` is square, its sides are `count` in whole panels. */
int32_t sums_products(const float *w, int64_t numbers, int64_t stride, int64_t all, const int64_t *rows, int64_t count,
                      const double *centre, int64_t first, int64_t last, double *work, int64_t worked, double *out,
                      int64_t side, int32_t most) {
  if (!inside(numbers, stride, all, 0, stride) || count < 1 || count > all || !known(rows, count, all)) return -1;
  int64_t panels = (count + SUMS_PANEL - 1) / SUMS_PANEL;
  if (first < 0 || last < first || last > panels || side != panels * SUMS_PANEL) return -1;
  if (worked / SUMS_DEEP < panels * SUMS_PANEL) return -1;
  table_of(most)->products(w, stride, rows, count, stride, centre, first, last, work, out);
  return 0;
}

/* `out` has so many numbers, `from` as many halves, `base` too or is NULL; 1 where a number is not finite. `found` has the
 * size of the largest, as the bits of a half, and the squared distance from the base. */
int32_t sums_halves(const uint16_t *from, int64_t count, const float *base, float *out, double *found, int32_t most) {
  if (count < 0 || count > MOST) return -1;
  int32_t largest = table_of(most)->halves(from, count, base, out, found + 1);
  found[0] = largest;
  return largest >= 0x7c00;
}
