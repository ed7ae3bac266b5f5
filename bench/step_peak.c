/* What one core does at most in float32: fused multiply-adds on registers alone, in twelve chains. */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define CHAINS 12
typedef float vector __attribute__((vector_size(4 * LANES)));

/* Operations done in so many rounds; the sum goes to `out`, so that no compiler leaves the work out. */
double peak(long rounds, float *out) {
  vector sums[CHAINS], x, y;
  for (int l = 0; l < LANES; l++) { x[l] = 0.999f; y[l] = 0.001f; }
  for (int i = 0; i < CHAINS; i++) sums[i] = y * (float)i;
  for (long k = 0; k < rounds; k++) {
#if defined(__x86_64__)
    __asm__ volatile("" : "+v"(x), "+v"(y));
#else
    __asm__ volatile("" : "+w"(x), "+w"(y));
#endif
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * x + y;
  }
  for (int i = 0; i < CHAINS; i++) for (int l = 0; l < LANES; l++) *out += sums[i][l];
  return 2.0 * CHAINS * LANES * (double)rounds;
}
