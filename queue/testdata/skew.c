/* Put before a program by LD_PRELOAD, it moves the program's clock by SKEW seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew(void) {
	const char *text = getenv("SKEW");
	return text ? atol(text) : 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
	int rc = real(tv, tz);
	tv->tv_sec += skew();
	return rc;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int rc = real(id, ts);
	if (id == CLOCK_REALTIME) ts->tv_sec += skew();
	return rc;
}

time_t time(time_t *t) {
	struct timeval tv;
	gettimeofday(&tv, 0);
	if (t) *t = tv.tv_sec;
	return tv.tv_sec;
}
