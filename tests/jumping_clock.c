/* The wall clock of the processes that load this (LD_PRELOAD) jumps by CLOCK_JUMP seconds once the file CLOCK_FILE is
   there. For Linux on x86-64: gcc -shared -fPIC -o jumping_clock.so jumping_clock.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) { return access(getenv("CLOCK_FILE"), F_OK) == 0 ? atol(getenv("CLOCK_JUMP")) : 0; }

int clock_gettime(clockid_t id, struct timespec *at) {
    int code = syscall(SYS_clock_gettime, id, at);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) at->tv_sec += ahead();
    return code;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* The kernel waits by its own clock. Only a time since 1970 is of the wall clock. */
static const struct timespec *kernels(const struct timespec *until, struct timespec *shifted) {
    if (until == NULL || until->tv_sec < 1000000000) return until;
    *shifted = *until;
    shifted->tv_sec -= ahead();
    return shifted;
}
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec shifted;
    return real(c, m, kernels(until, &shifted));
}
int sem_timedwait(sem_t *s, const struct timespec *until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec shifted;
    return real(s, kernels(until, &shifted));
}
long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) real = dlsym(RTLD_NEXT, "syscall");
    __builtin_va_list list;
    __builtin_va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = __builtin_va_arg(list, long);
    __builtin_va_end(list);
    struct timespec shifted;
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME))
        a[3] = (long)kernels((const struct timespec *)a[3], &shifted);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
