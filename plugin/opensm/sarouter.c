/*
 * A routing engine for OpenSM: serves the tables that the sarouter service publishes.
 *
 * It computes no routes. The service hands over finished tables in STATE/current/lft.bin
 * (plugin/README.md); a thread of ours reads and checks the file and asks OpenSM to route again;
 * OpenSM calls the engine; the engine lays the tables over the fabric as it is and takes or leaves
 * them. When OpenSM waits for no answer any more it says so, and if every switch has answered we write the status file.
 *
 * This file: birth, death, and what OpenSM reports. engine.c: the engine. watch.c: our thread.
 */
#include "plugin.h"

#include "answers.h"

#include <inttypes.h>
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_version.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <syslog.h>
#include <unistd.h>

#define ENGINE_NAME "sarouter"

/* Seconds before OpenSM is to sweep for answers that are missing: twice as many each time, since it may be in vain. */
enum { FIRST_RESWEEP = 10, LAST_RESWEEP = 640 };

/* How long our thread is waited for: until it has looked for an epoch once, and until it has ended. */
enum { FIRST_LOOK_S = 30, END_S = 10 };

/* Whether every switch has answered with our tables; OpenSM reports a routing as done in any case. */
static bool have_all_answered(struct plugin *p)
{
	uint64_t guid = 0, epoch = 0;
	const char *what = NULL;
	cl_plock_acquire(&p->osm->lock);
	bool all = p->tables == NULL || answers_are_there(p->tables, &p->osm->subn, &guid, &what);
	if (p->tables != NULL)
		epoch = p->tables->epoch;
	cl_plock_release(&p->osm->lock);
	if (!all && (p->mute.guid != guid || p->mute.epoch != epoch))
		OSM_LOG(&p->osm->log, OSM_LOG_ERROR,
			"sarouter: epoch %" PRIu64 " is not acknowledged: switch 0x%016" PRIx64 " has not taken %s\n", epoch, guid,
			what);
	p->mute.guid = guid;
	p->mute.epoch = all ? 0 : epoch;
	return all;
}

/*
 * Answers to our tables are missing: what is acknowledged stays so, and nothing else is, until OpenSM has sent them again.
 * The service then takes switches to have one or the other. How the epoch in force lies over the fabric is told at once.
 */
static void note_missing(struct plugin *p)
{
	struct status *status = &p->status;
	if (status->ours && status->tables.generation == p->built.generation &&
	    memcmp(status->tables.fingerprint, p->built.fingerprint, sizeof(p->built.fingerprint)) == 0)
		status->tables = p->built;
	/* Epochs that come meanwhile do not put it off. */
	if (p->resweep > 0 && !p->swept_for)
		return;
	unsigned longer = 2 * p->resweep < LAST_RESWEEP ? 2 * p->resweep : LAST_RESWEEP;
	p->resweep = p->resweep == 0 ? FIRST_RESWEEP : longer;
	p->swept_for = false;
	p->missed = seconds_now();
}

static void acknowledge(struct plugin *p, const char *engine, bool ours)
{
	struct status *status = &p->status;
	status->routings++;
	clock_gettime(CLOCK_REALTIME, &status->acknowledged);
	snprintf(status->engine, sizeof(status->engine), "%s", engine);
	status->ours = ours;
	if (ours)
		status->tables = p->built;
	p->resweep = 0;
	p->candidate_tried = p->candidate_tried && !p->try_again;
	p->try_again = false;
}

/* OpenSM reports from the thread that routes, so routing_engine_used does not change under us. */
static void note_routing(struct plugin *p)
{
	const osm_routing_engine_t *used = p->osm->routing_engine_used;
	bool ours = used != NULL && used->context == p, all = !ours || have_all_answered(p);
	pthread_mutex_lock(&p->mutex);
	p->answered = all;
	if (all)
		acknowledge(p, used != NULL ? used->name : "none", ours);
	else
		note_missing(p);
	p->status_due = true;
	pthread_mutex_unlock(&p->mutex);
}

static void note_subnet_up(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	if (p->bring_up == NOT_UP)
		p->bring_up = UP_ONCE;
	pthread_mutex_unlock(&p->mutex);
}

static void note_sweep(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	p->swept = true;
	pthread_mutex_unlock(&p->mutex);
}

static void report(void *context, osm_epi_event_id_t event, void *data)
{
	struct plugin *p = context;
	(void)data;
	if (event == OSM_EVENT_ID_UCAST_ROUTING_DONE)
		note_routing(p);
	else if (event == OSM_EVENT_ID_SUBNET_UP)
		note_subnet_up(p);
	else if (event == OSM_EVENT_ID_HEAVY_SWEEP_DONE)
		note_sweep(p);
	else
		return;
	wake_thread(p);
}

/*
 * Whether OpenSM's structures lie where our headers say. OpenSM compares version strings only, and
 * a build with other options has other offsets; these pointers lead back to where they are.
 */
static bool layout_is_ours(const osm_opensm_t *osm)
{
	return osm->subn.p_osm == osm && osm->sm.p_subn == &osm->subn && osm->sm.p_log == &osm->log &&
	       osm->sm.p_lock == &osm->lock && osm->sm.p_vl15 == &osm->vl15;
}

static void release(struct plugin *p)
{
	if (p->wake >= 0)
		close(p->wake);
	if (p->notify >= 0)
		close(p->notify);
	handoff_free(p->candidate);
	repair_free(p->repaired);
	handoff_free(p->tables);
	pthread_mutex_destroy(&p->mutex);
	struct told *files[] = {&p->repair, &p->fabric};
	for (int i = 0; i < 2; i++) {
		free(files[i]->due);
		free(files[i]->written);
	}
	free(p->lids);
	free(p);
}

static bool start_thread(struct plugin *p)
{
	sigset_t all, before;
	/* OpenSM's own threads answer its signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&p->thread, NULL, watch, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error == 0;
}

/* Whether our thread has come so far; waits for it, but not for ever, as it may wait for a disk. */
static bool await_thread(struct plugin *p, int so_far, int seconds)
{
	bool there = false;
	for (int ms = 0; !there && ms < 1000 * seconds; ms++) {
		pthread_mutex_lock(&p->mutex);
		there = (int)p->thread_has >= so_far;
		pthread_mutex_unlock(&p->mutex);
		usleep(there ? 0 : 1000);
	}
	return there;
}

/* Whether it has ended; if not, all that is its own must stay. */
static bool stop_thread(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	p->stop = true;
	pthread_mutex_unlock(&p->mutex);
	wake_thread(p);
	return await_thread(p, ENDED, END_S) && pthread_join(p->thread, NULL) == 0;
}

static void *create(osm_opensm_t *osm)
{
	if (!layout_is_ours(osm)) {
		/* Not to OpenSM's log: we do not know where it is. */
		syslog(LOG_DAEMON | LOG_ERR, "sarouter: built for an OpenSM with other options than this one");
		return NULL;
	}
	struct plugin *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return NULL;
	p->osm = osm;
	pthread_mutex_init(&p->mutex, NULL);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	p->lids = calloc(IB_LID_UCAST_END_HO + 1, sizeof(*p->lids));
	char wrong[PATH_MAX];
	bool good = options_parse(&p->options, osm->subn.opt.event_plugin_options, wrong);
	if (!good)
		OSM_LOG(&osm->log, OSM_LOG_ERROR, "sarouter: event_plugin_options: cannot use '%s'\n", wrong);
	if (!good || p->wake < 0 || p->lids == NULL) {
		release(p);
		return NULL;
	}
	p->status.running = true;
	p->status.heartbeat = p->options.heartbeat;
	if (!start_thread(p)) {
		release(p);
		return NULL;
	}
	/* An epoch that is there is to be ready for the first routing. */
	if (!await_thread(p, LOOKED, FIRST_LOOK_S))
		OSM_LOG(&osm->log, OSM_LOG_ERROR, "sarouter: %s is not read yet, OpenSM starts without an epoch\n",
			p->options.state);
	/* Last, because OpenSM has no way to unregister. */
	static const external_routing_engine_module_t module = {.name = ENGINE_NAME, .setup = engine_setup};
	if (osm_register_external_routing_engine(osm, &module, p) != CL_SUCCESS) {
		if (stop_thread(p))
			release(p);
		return NULL;
	}
	return p;
}

/* OpenSM has stopped its threads and destroyed its engines when it calls this. */
static void destroy(void *context)
{
	struct plugin *p = context;
	if (stop_thread(p))
		release(p);
}

/* The name OpenSM looks for. It skips us silently unless the version is its own, letter by letter. */
__attribute__((visibility("default"))) osm_event_plugin_t osm_event_plugin = {
	.osm_version = OSM_VERSION,
	.create = create,
	.delete = destroy,
	.report = report,
};
