/* What Python calls: every draw is checked against the sizes given, then the widest kernel that the processor has runs. */
#include "clips.h"

#include <stddef.h>

static int sound(const clips_sizes *z, const int64_t *source, const double *stretch, const int64_t *start,
                 const double *ratio, const int64_t *mask) {
  if (z->count < 0 || z->frames < 1 || z->frames > CLIPS_LONGEST || z->mels < 1 || z->mels > CLIPS_WIDEST) return 0;
  if (!(z->floor >= 1.17549435e-38f)) return 0; /* logarithms are of normal numbers */
  if (z->masks < 0 || z->masks > CLIPS_LONGEST || z->noise_frames < 0 || z->count > (int64_t)1 << 32) return 0;
  for (int64_t i = 0; i < z->count * z->frames; i++)
    if (source[i] < 0 || source[i] >= z->frames) return 0;
  for (int64_t b = 0; b < z->count; b++)
    if (!(stretch[b] >= 0 && stretch[b] <= CLIPS_LONGEST)) return 0;
  for (int64_t b = 0; b < z->count; b++)
    if (ratio[b] != 0 && (start[b] < 0 || start[b] > z->noise_frames - z->frames)) return 0;
  for (int64_t i = 0; i < z->count * z->masks; i++) {
    const int64_t *one = mask + 3 * i;
    int64_t size = one[0] == 1 ? z->frames : one[0] == 2 ? z->mels : -1;
    if (one[1] < 0 || one[1] > size || one[2] < 0 || one[2] > size - one[1]) return 0;
  }
  return 1;
}

/* 0, or -1 where a draw lies outside; the arrays have the sizes that `clips.h` says. */
int32_t clips_augment(const clips_sizes *sizes, const float *energies, const int64_t *source, const double *stretch,
                      const float *gain, const float *noise, const int64_t *start, const double *ratio,
                      const int64_t *mask, float *out, int32_t most) {
  if (!sound(sizes, source, stretch, start, ratio, mask)) return -1;
  clips_kernel *run = clips_plain;
#ifdef STEP_X86
  int32_t level = step_level();
  if (most < level) level = most;
  if (level >= 1) run = level >= 2 ? clips_avx512 : clips_avx2;
#else
  (void)most;
#endif
  run(sizes, energies, source, stretch, gain, noise, start, ratio, mask, out);
  return 0;
}
