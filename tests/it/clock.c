/* A clock that a test can set: the time of day is so many seconds ahead as the file SAROUTER_TEST_CLOCK says, an 8-byte
 * integer of this machine. To be preloaded; other clocks go on as they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *ahead;

__attribute__((constructor)) static void open_clock(void)
{
	const char *path = getenv("SAROUTER_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);

	if (at != MAP_FAILED)
		ahead = at;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int failed;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	failed = real(id, now);
	if (!failed && ahead && id == CLOCK_REALTIME)
		now->tv_sec += *ahead;
	return failed;
}
