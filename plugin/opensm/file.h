/* Files that others read while we write them. */
#ifndef SAROUTER_FILE_H
#define SAROUTER_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

/* Which file a path led to when we looked. */
struct file_id {
	bool there;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct file_id file_identify(const char *path);
bool file_same(const struct file_id *a, const struct file_id *b);

/*
 * Replaces a regular file, or makes it, by rename: readers see the old one or the new one. Never
 * waits for anybody, whatever lies at the path. Returns 0, or an errno; EINVAL if something else
 * than a regular file is there, which stays.
 */
int file_replace(const char *path, void (*put)(FILE *out, const void *what), const void *what);

#endif
