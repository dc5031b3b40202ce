/*
 * Asks the service which nodes a job should get. Knows nothing of Slurm.
 *
 * The caller may hold locks that everybody waits for: a question takes at most BUDGET_MS together,
 * and after one that was not answered nobody is asked for QUIET_MS.
 */
#ifndef SAROUTER_ASK_H
#define SAROUTER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUDGET_MS = 50, QUIET_MS = 5000 };

/* Bytes of the longest answer: 8,000 nodes with names of 31 bytes. */
enum { ANSWER_BYTES = 256 * 1024 };

enum answer {
	ANSWER_SILENT, /* no service, too late, not understood, or still quiet after such a thing */
	ANSWER_NONE,   /* the service recommends nothing */
	ANSWER_NODES,  /* it recommends nodes */
};

struct asker {
	const char *path;
	int fd;             /* -1 if there is no connection */
	int64_t quiet_until; /* milliseconds of the monotonic clock */
	uint64_t asked, silent;
	char buffer[ANSWER_BYTES];
};

/* path must outlive the asker. */
void asker_init(struct asker *asker, const char *path);

/*
 * Asks for `nodes` nodes for a job. On ANSWER_NODES *list is a comma-separated list of names in the
 * asker's buffer, valid until the next question.
 */
enum answer asker_ask(struct asker *asker, uint32_t job, uint32_t nodes, bool require, char **list);

void asker_close(struct asker *asker);

#endif
