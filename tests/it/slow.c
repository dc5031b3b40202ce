/* A disk that is slow: whoever syncs the table of a node waits as long as the file SAROUTER_TEST_SLOW is there. To be
 * preloaded. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
	const char *gate = getenv("SAROUTER_TEST_SLOW");
	char link[64], path[4096];
	ssize_t length;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	path[length < 0 ? 0 : length] = 0;
	while (gate && strstr(path, "/node-") && access(gate, F_OK) == 0)
		usleep(5000);
	return syscall(SYS_fsync, fd);
}
