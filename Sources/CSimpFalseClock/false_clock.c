// A wall clock that can be moved while a program runs, for programs that have this library preloaded (ld.so(8),
// LD_PRELOAD). The machine's own clock stays. So do all other clocks and all timers, as when an administrator sets the
// time: what counts by the monotonic clock must not notice.
#include "simp_false_clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic(int64_t) *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv(SIMP_FALSE_CLOCK_FILE);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) offset = page;
}

static int64_t seconds(void) { return offset ? atomic_load_explicit(offset, memory_order_relaxed) : 0; }

// By the system call: looking up the C library's own function may allocate, and allocators ask for the time.
int clock_gettime(clockid_t id, struct timespec *time) {
    long status = syscall(SYS_clock_gettime, id, time);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += seconds();
    return (int)status;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}
