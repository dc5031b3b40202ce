/*
 * Asks the service which nodes a job should get. Knows nothing of Slurm.
 *
 * The caller may hold locks that everybody waits for, so what waiting may cost is bounded by a credit:
 * at most CREDIT_US, growing by 1 us in GROWTH. A question waits no longer than the credit, and what it
 * waited is taken off, unless it was answered within PROMPT_US. A question without an answer takes all
 * of it, and nobody is asked until it is whole again; otherwise half of it is needed to ask.
 *
 * So whatever the other side does, at most CREDIT_US + T / GROWTH of any span T is spent waiting, not
 * counting answers within PROMPT_US; and a service that answers again is asked after CREDIT_US * GROWTH.
 */
#ifndef SAROUTER_ASK_H
#define SAROUTER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CREDIT_US = 20000, GROWTH = 100, PROMPT_US = 1000 };

/* Bytes of the longest answer: 8,000 nodes with names of 31 bytes. */
enum { ANSWER_BYTES = 256 * 1024 };

enum answer {
	ANSWER_SILENT, /* no service, too late, not understood, or not asked for want of credit */
	ANSWER_NONE,   /* the service recommends nothing */
	ANSWER_NODES,  /* it recommends nodes */
};

struct asker {
	const char *path;
	int fd;             /* -1 if there is no connection */
	bool failing;       /* the last question had no answer */
	int64_t credit;     /* microseconds, as of `counted` on the monotonic clock */
	int64_t counted;
	uint64_t asked, silent, waited; /* questions, those without an answer, microseconds spent on all */
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
