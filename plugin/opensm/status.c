/* See status.h. */
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void status_refuse(struct status_refusal *refusal, uint64_t generation, const char *reason)
{
	refusal->refused = true;
	refusal->generation = generation;
	snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
}

static void put_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		/* Reasons contain paths, which may contain anything. */
		fputc(*text >= 0x20 && *text <= 0x7E ? *text : '?', out);
	}
	fputc('"', out);
}

static void put_time(FILE *out, const struct timespec *when)
{
	struct tm tm;
	char text[32];
	if (gmtime_r(&when->tv_sec, &tm) == NULL ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		fputs("null", out);
		return;
	}
	fprintf(out, "\"%s.%06ldZ\"", text, when->tv_nsec / 1000);
}

/* The number, or null. */
static void put_number(FILE *out, const char *key, bool known, uint64_t number)
{
	if (known)
		fprintf(out, " \"%s\": %" PRIu64 ",\n", key, number);
	else
		fprintf(out, " \"%s\": null,\n", key);
}

static void put_fingerprint(FILE *out, const struct status *s)
{
	fputs(" \"fingerprint\": ", out);
	if (!s->ours) {
		fputs("null,\n", out);
		return;
	}
	fputc('"', out);
	for (size_t i = 0; i < sizeof(s->tables.fingerprint); i++)
		fprintf(out, "%02x", s->tables.fingerprint[i]);
	fputs("\",\n", out);
}

static void put(FILE *out, const struct status *s, const char *opensm)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "{\n \"format\": 1,\n \"plugin\": \"%s\",\n \"opensm\": ", PLUGIN_VERSION);
	put_string(out, opensm);
	fprintf(out, ",\n \"pid\": %ld,\n \"running\": %s,\n \"written\": ", (long)getpid(),
		s->running ? "true" : "false");
	put_time(out, &now);
	fprintf(out, ",\n \"heartbeat\": %u,\n \"engine\": ", s->heartbeat);
	if (s->engine[0] != '\0')
		put_string(out, s->engine);
	else
		fputs("null", out);
	fputs(",\n", out);
	put_number(out, "generation", s->ours, s->tables.generation);
	put_fingerprint(out, s);
	put_number(out, "layers", s->ours, s->tables.layers);
	fputs(" \"acknowledged\": ", out);
	if (s->routings > 0)
		put_time(out, &s->acknowledged);
	else
		fputs("null", out);
	fputs(",\n", out);
	put_number(out, "routings", true, s->routings);
	put_number(out, "lost_entries", true, s->ours ? s->tables.lost_entries : 0);
	put_number(out, "uncovered_lids", true, s->ours ? s->tables.uncovered_lids : 0);
	put_number(out, "guest_lids", true, s->ours ? s->tables.guest_lids : 0);
	put_number(out, "refused_generation", s->refusal.refused && s->refusal.generation > 0,
		   s->refusal.generation);
	fputs(" \"refused_reason\": ", out);
	if (s->refusal.refused)
		put_string(out, s->refusal.reason);
	else
		fputs("null", out);
	fputs("\n}\n", out);
}

int status_write(const struct status *status, const char *opensm, const char *path)
{
	char beside[PATH_MAX];
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return ENAMETOOLONG;
	/* OpenSM is root and the directory may be the service's: follow no link out of it. */
	int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	if (out == NULL) {
		int error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	put(out, status, opensm);
	/* A full disk shows here; a half-written file must not replace a whole one. */
	bool failed = fflush(out) != 0 || ferror(out) != 0;
	int error = failed ? errno : 0;
	if (fclose(out) != 0 && error == 0)
		error = errno;
	if (error == 0 && rename(beside, path) != 0)
		error = errno;
	if (error != 0)
		unlink(beside);
	return error;
}
