/*
 * The shadow of a topology plugin (topology/tree, block, default or flat): the same plugin, except that
 * a tagged job is offered the nodes that the routing service prefers, if all it needs of them are on
 * offer. Which of them it gets, with which cores, is the stock plugin's affair as before.
 *
 * It needs the real plugin, which the dynamic linker loads beside it; all symbols but plugin_version and
 * topology_p_eval_nodes() are found there. Its own plugin_version makes Slurm refuse a build for another
 * version, with a line in the log, and look further down PluginDir, where the real plugin is.
 *
 * slurmd, slurmstepd and clients load it too, and have none of slurmctld's symbols. Functions are looked
 * up when they are called, data when the file is loaded: so none of slurmctld's data is named here.
 *
 * topology_p_eval_nodes() runs under slurmctld's locks, and is not told whether a job is to start or is
 * only tested whether it could ever run. A smaller offer is harmless in both; a job that requires a set
 * is kept from starting in a way that counts for starts only (refuse()). Plans of backfill pass through
 * untouched: when one comes due, the job is tested again, on all that is on offer then.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "slurm/slurm_errno.h"
#include "src/common/slurm_xlator.h"
#include "src/common/bitstring.h"
#include "src/common/core_array.h"
#include "src/common/node_conf.h"
#include "src/common/xmalloc.h"
#include "src/interfaces/topology.h"
#include "src/slurmctld/slurmctld.h"

#include "prefer.h"

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 5, 0)
#error "topology plugins choose nodes from Slurm 24.05 on: before, use plugin/slurm/select"
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 6, 0)
#error "topology_p_eval_nodes() is known up to Slurm 26.05: read what it is told now"
#endif

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const uint32_t plugin_version = SLURM_VERSION_NUMBER;
/* For whoever reads the file: `sarouter doctor`. */
__attribute__((used)) static const char built_for[] = "sarouter-topology for Slurm " SLURM_VERSION_STRING;

/*
 * For how many milliseconds an answer counts for further tests of the same job: whether it could ever
 * run is tested right after it could not start. For how long a job whose set did not do is not asked
 * for again. For how long one is refused without being asked for, while its tests follow each other.
 */
enum { FRESH_MS = 100, REFUSED_MS = 10000, UNFIT_MS = 60000, UNFIT_JOBS = 64 };

static int (*real_eval_nodes)(topology_eval_t *);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	uint32_t job, nodes;
	int64_t until;
	bool silent;
	bitstr_t *set;
} last;

/* The last job that was refused, with so many nodes: since when, and when again. */
static struct {
	uint32_t job, nodes;
	int64_t since, last;
} refused;

/* Jobs whose set did not do, and until when; a ring. */
static struct {
	uint32_t job;
	int64_t until;
} unfit[UNFIT_JOBS];
static unsigned next_unfit;

static void prepare(void)
{
	real_eval_nodes = (int (*)(topology_eval_t *))dlsym(RTLD_NEXT, "topology_p_eval_nodes");
}

/* Milliseconds of a clock that nobody sets. */
static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The nodes that the service prefers and the offer has, to be freed by the caller; else NULL. */
static bitstr_t *preferred(topology_eval_t *eval, uint32_t nodes, bool require, bool *silent)
{
	uint32_t job = eval->job_ptr->job_id;
	bitstr_t *set;

	pthread_mutex_lock(&lock);
	if (last.job != job || last.nodes != nodes || now() >= last.until) {
		FREE_NULL_BITMAP(last.set);
		last.set = prefer_ask(job, nodes, require, &last.silent);
		last.job = job;
		last.nodes = nodes;
		last.until = now() + FRESH_MS;
	}
	*silent = last.silent;
	set = prefer_within(last.set, eval->node_map, nodes);
	pthread_mutex_unlock(&lock);
	return set;
}

static bool is_unfit(uint32_t job)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < UNFIT_JOBS; i++)
		found |= unfit[i].job == job && now() < unfit[i].until;
	pthread_mutex_unlock(&lock);
	return found;
}

static void remember_unfit(uint32_t job)
{
	pthread_mutex_lock(&lock);
	unfit[next_unfit].job = job;
	unfit[next_unfit].until = now() + UNFIT_MS;
	next_unfit = (next_unfit + 1) % UNFIT_JOBS;
	pthread_mutex_unlock(&lock);
}

/*
 * Whether a job that requires its set was refused in the same question of the scheduler, as far as can be told: just now,
 * and no other job was tested since. Where there is preemption the same question goes on with others' nodes on offer, and
 * nobody has to go for the sake of better routes. A question asked anew soon after is refused too, but not for ever.
 */
static bool was_refused(uint32_t job, uint32_t nodes)
{
	int64_t at = now();
	bool was;

	pthread_mutex_lock(&lock);
	if (refused.job != job)
		refused.job = 0;
	was = refused.job == job && refused.nodes == nodes && at < refused.last + FRESH_MS &&
	      at < refused.since + REFUSED_MS;
	if (was)
		refused.last = at;
	pthread_mutex_unlock(&lock);
	return was;
}

/* What the real function changes of one node's resources; the list of its GRES it may keep. */
static void restore(avail_res_t *to, const avail_res_t *from, const uint16_t *cores)
{
	avail_res_t kept = *to;

	*to = *from;
	to->sock_gres_list = kept.sock_gres_list;
	to->avail_cores_per_sock = kept.avail_cores_per_sock;
	if (cores && kept.avail_cores_per_sock)
		memcpy(kept.avail_cores_per_sock, cores, sizeof(*cores) * from->sock_cnt);
}

/*
 * Lets the real plugin decide on the nodes of a set, a part of the offer. Unless that succeeds
 * everything is as it was before.
 */
static bool decide_within(topology_eval_t *eval, bitstr_t *set)
{
	topology_eval_t before = *eval;
	int size = bit_set_count(set), n = 0;
	bitstr_t *map = bit_copy(eval->node_map);
	bitstr_t **core = copy_core_array(eval->avail_core);
	avail_res_t *res = xcalloc(size, sizeof(*res));
	uint16_t **cores = xcalloc(size, sizeof(*cores));
	bool done;

	for (int i = bit_ffs(set); i >= 0; i = bit_ffs_from_bit(set, i + 1), n++) {
		avail_res_t *of = eval->avail_res_array[i];

		res[n] = *of;
		if (!of->avail_cores_per_sock)
			continue;
		cores[n] = xcalloc(of->sock_cnt + 1, sizeof(**cores));
		memcpy(cores[n], of->avail_cores_per_sock, sizeof(**cores) * of->sock_cnt);
	}
	bit_and(eval->node_map, set);
	done = real_eval_nodes(eval) == SLURM_SUCCESS;
	if (!done) {
		*eval = before;
		bit_copybits(eval->node_map, map);
		core_array_or(eval->avail_core, core);
	}
	n = 0;
	for (int i = bit_ffs(set); i >= 0; i = bit_ffs_from_bit(set, i + 1), n++) {
		if (!done)
			restore(eval->avail_res_array[i], &res[n], cores[n]);
		xfree(cores[n]);
	}
	xfree(cores);
	xfree(res);
	free_core_array(&core);
	FREE_NULL_BITMAP(map);
	return done;
}

/* Whether choosing is ours: a tagged job that leaves the choice open and could get more than it wants. */
static bool has_choice(topology_eval_t *eval, uint32_t nodes)
{
	job_details_t *details = eval->job_ptr->details;

	return nodes > 1 && details && !details->req_node_bitmap && !details->contiguous &&
	       !details->segment_size && !eval->job_ptr->req_switch &&
	       (uint32_t)bit_set_count(eval->node_map) > nodes;
}

/*
 * Keeps a job that requires its set from starting, as Slurm does with one that waits for fewer switches:
 * such a job may run, only not now.
 */
static void refuse(job_record_t *job, uint32_t nodes)
{
	job->best_switch = false;
	pthread_mutex_lock(&lock);
	refused.job = job->job_id;
	refused.nodes = nodes;
	refused.since = refused.last = now();
	pthread_mutex_unlock(&lock);
}

EXPORTED extern int topology_p_eval_nodes(topology_eval_t *eval)
{
	job_record_t *job = eval->job_ptr;
	uint32_t nodes = eval->req_nodes > eval->min_nodes ? eval->req_nodes : eval->min_nodes;
	bool silent, done;
	bitstr_t *set;
	char how;
	int rc;

	pthread_once(&once, prepare);
	if (!real_eval_nodes)
		return SLURM_ERROR;
	/* Nobody else sets it where no number of switches is asked for: a refusal is for one test. */
	if (!job->req_switch)
		job->best_switch = true;
	how = job->bit_flags & BACKFILL_TEST ? 0 : prefer_tag(job->admin_comment);
	if (was_refused(job->job_id, nodes) && how == 'r') {
		job->best_switch = false;
		return real_eval_nodes(eval);
	}
	if (!how || !has_choice(eval, nodes) || (how == 'p' && is_unfit(job->job_id)))
		return real_eval_nodes(eval);
	set = preferred(eval, nodes, how == 'r', &silent);
	done = set && decide_within(eval, set);
	if (set && !done)
		remember_unfit(job->job_id);
	FREE_NULL_BITMAP(set);
	if (done)
		return SLURM_SUCCESS;
	rc = real_eval_nodes(eval);
	if (rc == SLURM_SUCCESS && how == 'r' && !silent)
		refuse(job, nodes);
	return rc;
}
