/* See status.h. */
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

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

static void put_text(FILE *out, const char *key, const char *text, const char *after)
{
	fprintf(out, " \"%s\": ", key);
	if (text != NULL && text[0] != '\0')
		put_string(out, text);
	else
		fputs("null", out);
	fputs(after, out);
}

static void put(FILE *out, const void *what)
{
	const struct status *s = what;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "{\n \"format\": 1,\n \"plugin\": \"%s\",\n", PLUGIN_VERSION);
	put_text(out, "opensm", s->opensm, ",\n");
	fprintf(out, " \"port\": \"0x%016" PRIx64 "\",\n", s->port);
	put_text(out, "state", s->state, ",\n");
	fprintf(out, " \"pid\": %ld,\n \"running\": %s,\n \"written\": ", (long)getpid(),
		s->running ? "true" : "false");
	put_time(out, &now);
	fprintf(out, ",\n \"heartbeat\": %u,\n", s->heartbeat);
	put_text(out, "engine", s->engine, ",\n");
	put_number(out, "generation", s->ours, s->tables.generation);
	put_fingerprint(out, s);
	put_number(out, "layers", s->ours, s->tables.layers);
	put_number(out, "lanes", s->ours && s->tables.lanes > 0, s->tables.lanes);
	put_number(out, "lid_sets", s->ours, s->tables.lid_sets);
	fprintf(out, " \"certified\": %s,\n", !s->ours ? "null" : s->tables.certified ? "true" : "false");
	fputs(" \"acknowledged\": ", out);
	if (s->routings > 0)
		put_time(out, &s->acknowledged);
	else
		fputs("null", out);
	fputs(",\n", out);
	fputs(" \"asked\": ", out);
	if (s->asked.tv_sec > 0)
		put_time(out, &s->asked);
	else
		fputs("null", out);
	fputs(",\n", out);
	put_number(out, "routings", true, s->routings);
	put_number(out, "lost_entries", true, s->ours ? s->tables.lost_entries : 0);
	put_number(out, "missing_switches", true, s->ours ? s->tables.missing_switches : 0);
	put_number(out, "stranded_pairs", true, s->ours ? s->tables.stranded_pairs : 0);
	put_number(out, "uncovered_lids", true, s->ours ? s->tables.uncovered_lids : 0);
	put_number(out, "guest_lids", true, s->ours ? s->tables.guest_lids : 0);
	put_number(out, "repaired_entries", true, s->ours ? s->tables.repaired_entries : 0);
	put_number(out, "refused_generation", s->refusal.refused && s->refusal.generation > 0,
		   s->refusal.generation);
	put_text(out, "refused_reason", s->refusal.refused ? s->refusal.reason : NULL, ",\n");
	put_text(out, "warning", s->warning, "\n}\n");
}

int status_write(const struct status *status, const char *path)
{
	return file_replace(path, put, status);
}
