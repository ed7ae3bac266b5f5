/* The kernel of `clips.h`, compiled once for every level: -DSTEP_LANES=4, 8 or 16, -DCLIPS_RUN=clips_... */
#include "clips.h"

#include <string.h>

#define W STEP_LANES
typedef int64_t L;
typedef float v __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
#define INLINE static inline __attribute__((always_inline))

INLINE v load(const float *p) { v x; memcpy(&x, p, sizeof x); return x; }
INLINE void store(float *p, v x) { memcpy(p, &x, sizeof x); }
INLINE v bits(vi x) { v y; memcpy(&y, &x, sizeof y); return y; }
INLINE vi ints(v x) { vi y; memcpy(&y, &x, sizeof y); return y; }
INLINE v splat(float x) { return x - (v){0}; }

INLINE v choose(vi mask, v a, v b) { return bits((mask & ints(a)) | (~mask & ints(b))); }

/* ln x of numbers from the smallest normal one on, infinity and NaN as they are: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = r - r^2/2 + r^3 q(r), r = m - 1, by
 * a polynomial fitted on that range (error of ln m 6e-8). */
INLINE v logarithm(v x) {
  vi shifted = ints(x) - 0x3F3504F3, e = shifted >> 23;
  v r = bits((shifted & 0x007FFFFF) + 0x3F3504F3) - 1.0f, n = __builtin_convertvector(e, v), s = r * r;
  v q = r * 6.917643773e-02f + -1.177964435e-01f;
  q = q * r + 1.186618417e-01f;
  q = q * r + -1.238581106e-01f;
  q = q * r + 1.421989796e-01f;
  q = q * r + -1.666919608e-01f;
  q = q * r + 2.000215254e-01f;
  q = q * r + -2.499998692e-01f;
  q = q * r + 3.333331181e-01f;
  v y = (r + (s * r * q + (n * -2.12194440e-4f - 0.5f * s))) + n * 0.693359375f;
  return choose(x <= 3.40282347e+38f, y, x);
}

static double mean_of(const float *x, L n) {
  double sums[8] = {0}, rest = 0;
  L i = 0;
  for (; i + 8 <= n; i += 8) for (int l = 0; l < 8; l++) sums[l] += x[i + l];
  for (; i < n; i++) rest += x[i];
  for (int l = 0; l < 8; l++) rest += sums[l];
  return rest / (double)n;
}

/* Mean energy of the loudest frames that hold the active share of all, as few as do. */
static float word_level(const float *clip, const clips_sizes *z) {
  double level[CLIPS_LONGEST], sum = 0, all = 0;
  for (L t = 0; t < z->frames; t++) { /* into its place among those before, the loudest first */
    double one = mean_of(clip + t * z->mels, z->mels);
    L at = t;
    for (; at > 0 && level[at - 1] < one; at--) level[at] = level[at - 1];
    level[at] = one;
  }
  for (L t = 0; t < z->frames; t++) all += level[t];
  for (L t = 0; t < z->frames; t++) {
    sum += level[t];
    if (sum >= z->active * all) return (float)(sum / (double)(t + 1));
  }
  return (float)(sum / (double)z->frames);
}

/* A band hears what was between two bands: the clip's frames, moved, onto `out`. */
static void stretched(const clips_sizes *z, const float *clip, const L *source, double stretch, float gain, float *out) {
  int32_t low[CLIPS_WIDEST], high[CLIPS_WIDEST];
  float below[CLIPS_WIDEST], above[CLIPS_WIDEST];
  L M = z->mels;
  for (L m = 0; m < M; m++) {
    double at = (double)m * stretch, last = (double)(M - 1);
    at = at < 0 ? 0 : at > last ? last : at;
    L first = (L)at;
    low[m] = (int32_t)first;
    high[m] = (int32_t)(first + 1 < M ? first + 1 : first);
    below[m] = (float)(1.0 - (at - (double)first));
    above[m] = first + 1 < M ? (float)(1.0 - ((double)(first + 1) - at)) : 0.0f;
  }
  for (L t = 0; t < z->frames; t++) {
    const float *from = clip + source[t] * M;
    for (L m = 0; m < M; m++) out[t * M + m] = (from[low[m]] * below[m] + from[high[m]] * above[m]) * gain;
  }
}

static void add_noise(const float *noise, float factor, L n, float *out) {
  for (L i = 0; i < n; i++) out[i] += noise[i] * factor;
}

static void logarithms(const clips_sizes *z, float *out) {
  L n = z->frames * z->mels, i = 0;
  for (; i + W <= n; i += W) store(out + i, logarithm(load(out + i) + z->floor));
  if (i < n) {
    float some[W] = {0};
    memcpy(some, out + i, (size_t)(n - i) * sizeof *some);
    store(some, logarithm(load(some) + z->floor));
    memcpy(out + i, some, (size_t)(n - i) * sizeof *some);
  }
  float mean = (float)mean_of(out, n);
  for (i = 0; i < n; i++) out[i] = (out[i] - mean) * z->scale;
}

static void masked(const clips_sizes *z, const L *mask, float *out) {
  for (L k = 0; k < z->masks; k++, mask += 3) {
    L first = mask[1], many = mask[2];
    if (mask[0] == 1) {
      memset(out + first * z->mels, 0, (size_t)(many * z->mels) * sizeof *out);
    } else {
      for (L t = 0; t < z->frames; t++) memset(out + t * z->mels + first, 0, (size_t)many * sizeof *out);
    }
  }
}

void CLIPS_RUN(const clips_sizes *z, const float *energies, const L *source, const double *stretch, const float *gain,
               const float *noise, const L *start, const double *ratio, const L *mask, float *out) {
  L size = z->frames * z->mels;
  for (L b = 0; b < z->count; b++, energies += size, source += z->frames, mask += 3 * z->masks, out += size) {
    stretched(z, energies, source, stretch[b], gain[b], out);
    if (ratio[b] != 0) {
      const float *sound = noise + start[b] * z->mels;
      add_noise(sound, (float)(word_level(out, z) / (mean_of(sound, size) + 1e-12) * ratio[b]), size, out);
    }
    logarithms(z, out);
    masked(z, mask, out);
  }
}
