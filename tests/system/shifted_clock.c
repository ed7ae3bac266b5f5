/* A wall clock that is off by the seconds in the file $SHIFTED_CLOCK, for everything in a process: Python, OpenSSL.
 * For LD_PRELOAD. The monotonic clock stays right. The file is mapped, so that a test can set the clock of a process that
 * runs; it holds eight bytes, a signed integer in the machine's order. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t none = 0;
static volatile int64_t *off = &none;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    off = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*right)(clockid_t, struct timespec *);
    if (right == NULL) right = dlsym(RTLD_NEXT, "clock_gettime");
    int done = right(clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *off;
    return done;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into != NULL) *into = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
