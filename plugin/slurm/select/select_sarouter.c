/*
 * The shadow of select/cons_tres: the same plugin, except that a tagged job is offered the nodes that
 * the routing service prefers, if all it needs of them are on offer.
 *
 * It needs the real select_cons_tres.so, which the dynamic linker loads beside it; all functions but
 * select_p_job_test() are found there. Its own plugin_version makes slurmctld refuse a build for
 * another version of Slurm, and look further down PluginDir, where the real plugin is.
 *
 * select_p_job_test() runs under slurmctld's locks, thousands of times an hour. Nearly all calls pass
 * through untouched: jobs without a tag, jobs that name their nodes, tests whether a job could ever
 * run. The rest asks once, within a credit of time (ask.h). What is on offer is only ever made smaller.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "slurm/slurm_errno.h"
#include "src/common/slurm_xlator.h"
#include "src/common/bitstring.h"
#include "src/common/node_conf.h"
#include "src/slurmctld/slurmctld.h"

#include "prefer.h"

/*
 * What select_p_job_test() is told behind the mode: whom it may preempt and, as REST, what reservations
 * exclude and what a test of the future is about. All of it is only passed on.
 */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(22, 5, 0) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#include "src/interfaces/select.h"
#endif
typedef List jobs_t;
#define REST_TYPES bitstr_t *
#define REST_PARAMETERS bitstr_t *excluded
#define REST excluded
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 6, 0)
#include "src/interfaces/select.h"
typedef List jobs_t;
#define REST_TYPES resv_exc_t *
#define REST_PARAMETERS resv_exc_t *excluded
#define REST excluded
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 0) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 6, 0)
#include "src/interfaces/select.h"
typedef list_t *jobs_t;
#define REST_TYPES resv_exc_t *, will_run_data_t *
#define REST_PARAMETERS resv_exc_t *excluded, will_run_data_t *future
#define REST excluded, future
#else
#error "the signature of select_p_job_test() is known for Slurm 22.05 to 26.05"
#endif

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const uint32_t plugin_version = SLURM_VERSION_NUMBER;
/* For whoever reads the file: `sarouter doctor`. */
__attribute__((used)) static const char built_for[] = "sarouter-select for Slurm " SLURM_VERSION_STRING;

typedef int (*job_test_t)(job_record_t *, bitstr_t *, uint32_t, uint32_t, uint32_t, uint16_t, jobs_t, jobs_t *,
			  REST_TYPES);

static job_test_t real_job_test;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	real_job_test = (job_test_t)dlsym(RTLD_NEXT, "select_p_job_test");
}

EXPORTED extern int select_p_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap, uint32_t min_nodes,
			     uint32_t max_nodes, uint32_t req_nodes, uint16_t mode,
			     jobs_t preemptee_candidates, jobs_t *preemptee_job_list, REST_PARAMETERS)
{
	uint32_t nodes = req_nodes > min_nodes ? req_nodes : min_nodes;
	bitstr_t *wanted, *set;
	bool silent;
	char how;
	int rc;

	pthread_once(&once, prepare);
	if (!real_job_test)
		return EINVAL;
	how = mode == SELECT_MODE_RUN_NOW ? prefer_tag(job_ptr->admin_comment) : 0;
	if (!how || nodes < 2 || !job_ptr->details || job_ptr->details->req_node_bitmap ||
	    (uint32_t)bit_set_count(node_bitmap) <= nodes)
		goto unchanged;
	wanted = prefer_ask(job_ptr->job_id, nodes, how == 'r', &silent);
	set = prefer_within(wanted, node_bitmap, nodes);
	FREE_NULL_BITMAP(wanted);
	if (set) {
		/* Without preemption: nobody has to go for the sake of better routes. */
		rc = real_job_test(job_ptr, set, min_nodes, max_nodes, req_nodes, mode, NULL, NULL, REST);
		if (rc == SLURM_SUCCESS)
			bit_and(node_bitmap, set);
		FREE_NULL_BITMAP(set);
		if (rc == SLURM_SUCCESS || how == 'r')
			return rc;
	} else if (how == 'r' && !silent) {
		/* It rather waits. */
		return EINVAL;
	}
unchanged:
	return real_job_test(job_ptr, node_bitmap, min_nodes, max_nodes, req_nodes, mode,
			     preemptee_candidates, preemptee_job_list, REST);
}
