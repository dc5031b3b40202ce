#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/slurm_errno.h"
#include "src/common/slurm_xlator.h"
#include "src/common/bitstring.h"
#include "src/common/node_conf.h"

#include "prefer.h"

#ifndef SOCKET
#define SOCKET "/run/sarouter/select.sock"
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 0)
#define nodes_of(list, set) node_name2bitmap(list, true, set, NULL)
#else
#define nodes_of(list, set) node_name2bitmap(list, true, set)
#endif

static struct asker asker;
static bool was_failing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	const char *path = getenv("SAROUTER_SELECT_SOCKET");

	asker_init(&asker, path && *path ? path : SOCKET);
}

char prefer_tag(const char *comment)
{
	static const char word[] = "sarouter:";

	for (const char *at = comment; at && (at = strstr(at, word)); at++) {
		const char *value = at + sizeof(word) - 1;

		if (at != comment && at[-1] != ' ' && at[-1] != ';')
			continue;
		if (strncmp(value, "prefer", 6) == 0 && strchr(" ;", value[6]))
			return 'p';
		if (strncmp(value, "require", 7) == 0 && strchr(" ;", value[7]))
			return 'r';
	}
	return 0;
}

bitstr_t *prefer_ask(uint32_t job, uint32_t nodes, bool require, bool *silent)
{
	bitstr_t *set = NULL;
	char *list = NULL;
	enum answer answer;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
	answer = asker_ask(&asker, job, nodes, require, &list);
	*silent = answer == ANSWER_SILENT;
	if (asker.failing != was_failing) {
		was_failing = asker.failing;
		info("sarouter: %s; %" PRIu64 " questions, %" PRIu64 " without an answer, %" PRIu64
		     " us spent on them",
		     was_failing ? "no answer: jobs are placed as without it" : "answers again",
		     asker.asked, asker.silent, asker.waited);
	}
	/* Under the mutex: the list is in the asker's buffer. */
	if (answer == ANSWER_NODES && nodes_of(list, &set) != SLURM_SUCCESS)
		FREE_NULL_BITMAP(set);
	pthread_mutex_unlock(&lock);
	return set;
}

bitstr_t *prefer_within(bitstr_t *set, bitstr_t *offer, uint32_t nodes)
{
	bitstr_t *both;

	/* A set of an earlier moment may be of another number of nodes. */
	if (!set || bit_size(set) != bit_size(offer))
		return NULL;
	both = bit_copy(set);
	bit_and(both, offer);
	if ((uint32_t)bit_set_count(both) < nodes)
		FREE_NULL_BITMAP(both);
	return both;
}
