/* See file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

struct file_id file_identify(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return (struct file_id){.there = false};
	return (struct file_id){true, st.st_dev, st.st_ino, st.st_size, st.st_ctim};
}

bool file_same(const struct file_id *a, const struct file_id *b)
{
	return a->there == b->there && a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* A file of ours alone beside `path`. */
static int open_beside(const char *path, char beside[PATH_MAX])
{
	if (snprintf(beside, PATH_MAX, "%s.%ld.tmp", path, (long)getpid()) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* OpenSM is root and the directory may be the service's: use nothing that lies there. */
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = open(beside, flags, 0644);
	/* Left by a process that had our number. */
	if (fd < 0 && errno == EEXIST && unlink(beside) == 0)
		fd = open(beside, flags, 0644);
	return fd;
}

int file_replace(const char *path, void (*put)(FILE *out, const void *what), const void *what)
{
	struct stat st;
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return EINVAL;
	char beside[PATH_MAX];
	int fd = open_beside(path, beside);
	if (fd < 0)
		return errno;
	FILE *out = fdopen(fd, "w");
	int error = out == NULL ? errno : 0;
	if (out == NULL) {
		close(fd);
	} else {
		put(out, what);
		/* A full disk shows here; a half-written file must not replace a whole one. */
		if (fflush(out) != 0 || ferror(out) != 0)
			error = errno;
		if (fclose(out) != 0 && error == 0)
			error = errno;
	}
	if (error == 0 && rename(beside, path) != 0)
		error = errno;
	if (error != 0)
		unlink(beside);
	return error;
}
