/* Clips of mel energies to log-mels, moved, stretched, louder, noisy and masked by draws that Python made. */
#ifndef AURICLE_CLIPS_H
#define AURICLE_CLIPS_H
#include <stdint.h>

enum { CLIPS_LONGEST = 4096, /* frames of a clip */ CLIPS_WIDEST = 512 /* bands */ };

typedef struct {
  int64_t count, frames, mels, noise_frames, masks;
  float floor, scale;
  double active; /* share of a clip's energy that is in the frames of its word */
} clips_sizes;

/* For each of `count` clips: `source` names the frame that each frame is taken from, `stretch` and `gain` are one number,
 * `start` is where its noise begins and `ratio` by what noise is multiplied beside the word's level by the noise's, 0 for
 * none; `masks` triples of axis (1 or 2), first and number. `out` may not be `energies`. */
typedef void clips_kernel(const clips_sizes *sizes, const float *energies, const int64_t *source, const double *stretch,
                          const float *gain, const float *noise, const int64_t *start, const double *ratio,
                          const int64_t *mask, float *out);
clips_kernel clips_plain, clips_avx2, clips_avx512;
int32_t step_level(void);
#endif
