/* What the chaos harness loads into a node (LD_PRELOAD): the wall clock and fsync do as a small file
 * says, which the harness maps as well. Knows nothing of what the process is. The steady clocks
 * (CLOCK_MONOTONIC, CLOCK_BOOTTIME) are left alone: nobody can set those on a real machine either.
 *
 * The file is named by CHAOS_CONTROL; its layout is chaos/preload.py's. Built by it with:
 *   cc -O2 -shared -fPIC -o faults.so faults.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t wall_offset_ns; /* added to CLOCK_REALTIME */
    int32_t fsync_fails;    /* 1: fsync and fdatasync answer EIO */
    int32_t fsync_delay_ms; /* and take so much longer */
};

static volatile struct control none;
static volatile struct control *control = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("CHAOS_CONTROL");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, at);
    int64_t offset_ns = control->wall_offset_ns;
    if (result == 0 && offset_ns != 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t now_ns = at->tv_sec * 1000000000LL + at->tv_nsec + offset_ns;
        at->tv_sec = now_ns / 1000000000LL;
        at->tv_nsec = now_ns % 1000000000LL;
    }
    return result;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    at->tv_sec = precise.tv_sec;
    at->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (out) *out = at.tv_sec;
    return at.tv_sec;
}

static int disturbed(int (*real)(int), int fd) {
    int32_t delay_ms = control->fsync_delay_ms;
    if (delay_ms > 0) usleep((useconds_t)delay_ms * 1000);
    if (control->fsync_fails) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int fsync(int fd) {
    if (!real_fsync) real_fsync = dlsym(RTLD_NEXT, "fsync");
    return disturbed(real_fsync, fd);
}

int fdatasync(int fd) {
    if (!real_fdatasync) real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    return disturbed(real_fdatasync, fd);
}
