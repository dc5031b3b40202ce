/*
 * A routing engine for OpenSM: serves the tables that the sarouter service publishes.
 *
 * It computes no routes. The service hands over finished tables in STATE/current/lft.bin
 * (plugin/README.md); a thread of ours reads and checks the file and asks OpenSM to route again;
 * OpenSM calls the engine; the engine lays the tables over the fabric as it is and takes or leaves
 * them. When every switch has answered, OpenSM says so and we write the status file.
 *
 * Who may touch what:
 *  - `tables`, `tables_fit`, `lids`: only with OpenSM's own lock. OpenSM calls the engine with it
 *    held exclusively, and asks for the SL of a path with it held at least shared. So tables can
 *    be replaced inside the engine without a lock of our own.
 *  - everything marked (m): with `mutex`, held for moments only, by any thread.
 *  - files: only our thread, so that a slow disk never stops OpenSM.
 */
#include "fit.h"

#include <opensm/osm_event_plugin.h>
#include <opensm/osm_version.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "options.h"
#include "status.h"

#define ENGINE_NAME "sarouter"
/* How often to look without being notified, and when to repeat a request that OpenSM lost. */
enum { LOOK_MS = 1000, REPEAT_S = 5 };

/* Which file the path led to when we looked. */
struct file_id {
	bool there;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct plugin {
	osm_opensm_t *osm;
	struct options options;

	struct handoff *tables; /* in force, or NULL */
	uint64_t uncovered;     /* LIDs they did not reach when they were last laid over the fabric */
	struct fit_lid *lids;   /* [IB_LID_UCAST_END_HO + 1] */

	pthread_mutex_t mutex;
	struct handoff *candidate;           /* (m) read and whole, not yet taken */
	bool candidate_tried;                /* (m) the engine has looked at it */
	struct status_tables built;          /* (m) what the engine wrote last */
	struct status_refusal file_refusal;  /* (m) by our thread: the newest file is broken */
	struct status_refusal fit_refusal;   /* (m) by the engine: it does not fit */
	struct status status;                /* (m) */
	bool status_due;                     /* (m) */
	enum { NOT_UP, UP_ONCE, SETTLED } bring_up; /* (m) */
	bool stop;                           /* (m) */

	pthread_t thread;
	int wake, notify; /* eventfd, inotify (or -1) */
	struct file_id seen;
};

/* The engine. */

static void note_refusal(struct status_refusal *refusal, uint64_t generation, const char *reason)
{
	refusal->refused = true;
	refusal->generation = generation;
	snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
}

static void wake_thread(struct plugin *p)
{
	uint64_t one = 1;
	/* Can only fail if the counter is full, and then the thread is awake. */
	if (write(p->wake, &one, sizeof(one)) < 0)
		return;
}

/* Whether an epoch may come into force on the fabric as it is. */
static bool may_take(const struct plugin *p, const struct handoff *h, const struct fit *fit, char *why)
{
	const osm_subn_opt_t *opt = &p->osm->subn.opt;
	bool lossless = p->tables != NULL || p->options.decline_on_loss;
	why[0] = '\0';
	if (h->layers_used > 1 && !opt->qos)
		snprintf(why, HANDOFF_WHY, "it needs %u layers and opensm.conf does not say qos TRUE", h->layers_used);
	else if (h->layers_used > fit->data_vls)
		snprintf(why, HANDOFF_WHY, "it needs %u layers and a cable has %u VLs", h->layers_used, fit->data_vls);
	else if (lossless && fit->lost_entries > 0)
		snprintf(why, HANDOFF_WHY,
			 "%llu entries rely on cables or switches that are not there, such as at switch 0x%016llx port %u",
			 (unsigned long long)fit->lost_entries, (unsigned long long)fit->lost_guid, fit->lost_port);
	else if (p->tables != NULL && fit->uncovered_lids > p->uncovered)
		snprintf(why, HANDOFF_WHY, "it does not know the switches of %llu LIDs, the epoch in force misses %llu",
			 (unsigned long long)fit->uncovered_lids, (unsigned long long)p->uncovered);
	return why[0] == '\0';
}

/* Gives a candidate back that was not taken, unless a newer one has come meanwhile. */
static void put_back(struct plugin *p, struct handoff *candidate, const char *why)
{
	OSM_LOG(&p->osm->log, OSM_LOG_ERROR, "sarouter: epoch %llu refused: %s\n",
		(unsigned long long)candidate->epoch, why);
	pthread_mutex_lock(&p->mutex);
	note_refusal(&p->fit_refusal, candidate->epoch, why);
	p->status_due = true;
	if (p->candidate == NULL) {
		p->candidate = candidate;
		p->candidate_tried = true;
		candidate = NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	handoff_free(candidate);
	wake_thread(p);
}

/* Takes the candidate into force if there is one and it fits. */
static void try_candidate(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	struct handoff *candidate = p->candidate;
	p->candidate = NULL;
	p->fit_refusal.refused = false;
	pthread_mutex_unlock(&p->mutex);
	if (candidate == NULL)
		return;
	struct fit fit;
	char why[HANDOFF_WHY] = "no memory";
	if (fit_make(&fit, candidate, &p->osm->subn) && may_take(p, candidate, &fit, why)) {
		OSM_LOG(&p->osm->log, OSM_LOG_INFO, "sarouter: epoch %llu taken\n",
			(unsigned long long)candidate->epoch);
		handoff_free(p->tables);
		p->tables = candidate;
	} else {
		put_back(p, candidate, why);
	}
	fit_free(&fit);
}

/* Writes the tables in force. Returns 0, or -1 to let OpenSM's next engine route. */
static int serve(struct plugin *p)
{
	const struct handoff *h = p->tables;
	if (h == NULL)
		return -1;
	struct fit fit;
	bool made = fit_make(&fit, h, &p->osm->subn);
	bool declined = !made || (p->options.decline_on_loss && fit.lost_entries > 0);
	if (made)
		p->uncovered = fit.uncovered_lids;
	pthread_mutex_lock(&p->mutex);
	if (declined) {
		note_refusal(&p->fit_refusal, h->epoch,
			     made ? "a cable or switch in use is gone" : "no memory");
		p->status_due = true;
	} else {
		p->built = (struct status_tables){.generation = h->epoch,
						  .layers = h->layers_used,
						  .lost_entries = fit.lost_entries,
						  .uncovered_lids = fit.uncovered_lids,
						  .guest_lids = fit.guest_lids};
		memcpy(p->built.fingerprint, h->fingerprint, sizeof(h->fingerprint));
	}
	pthread_mutex_unlock(&p->mutex);
	if (declined)
		wake_thread(p);
	else
		fit_write(&fit, h, &p->osm->subn, p->lids);
	fit_free(&fit);
	return declined ? -1 : 0;
}

/* Never positive: OpenSM would then write its own tables under our name. */
static int build_fwd_tables(void *context)
{
	struct plugin *p = context;
	try_candidate(p);
	return serve(p);
}

static uint8_t path_sl(void *context, uint8_t hint, const ib_net16_t slid, const ib_net16_t dlid)
{
	const struct plugin *p = context;
	uint16_t from = cl_ntoh16(slid), to = cl_ntoh16(dlid);
	if (p->tables == NULL || from > IB_LID_UCAST_END_HO || to > IB_LID_UCAST_END_HO ||
	    p->lids[from].sw < 0 || p->lids[to].dest < 0)
		return hint;
	uint8_t layer = handoff_layer(p->tables, (uint32_t)p->lids[from].sw, (uint32_t)p->lids[to].dest);
	return layer == HANDOFF_NO_LAYER ? hint : layer;
}

/* The layer is the SL is the VL, whatever the site configured for the SLs that we use. */
static void update_sl2vl(void *context, osm_physp_t *port, uint8_t in, uint8_t out, ib_slvl_table_t *t)
{
	const struct plugin *p = context;
	(void)port, (void)in, (void)out;
	for (uint8_t sl = 0; p->tables != NULL && sl < p->tables->layers_used; sl++)
		ib_slvl_table_set(t, sl, sl);
}

static int setup(struct osm_routing_engine *engine, osm_opensm_t *osm)
{
	(void)osm;
	/* build_lid_matrices stays NULL: multicast needs the hop counts of OpenSM's own. */
	engine->ucast_build_fwd_tables = build_fwd_tables;
	engine->path_sl = path_sl;
	engine->update_sl2vl = update_sl2vl;
	return 0;
}

/* OpenSM reports from the thread that routes, so routing_engine_used does not change under us. */
static void note_routing(struct plugin *p)
{
	const osm_routing_engine_t *used = p->osm->routing_engine_used;
	pthread_mutex_lock(&p->mutex);
	struct status *status = &p->status;
	status->routings++;
	clock_gettime(CLOCK_REALTIME, &status->acknowledged);
	snprintf(status->engine, sizeof(status->engine), "%s", used != NULL ? used->name : "none");
	status->ours = used != NULL && used->context == p;
	if (status->ours)
		status->tables = p->built;
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

static void report(void *context, osm_epi_event_id_t event, void *data)
{
	struct plugin *p = context;
	(void)data;
	if (event == OSM_EVENT_ID_UCAST_ROUTING_DONE)
		note_routing(p);
	else if (event == OSM_EVENT_ID_SUBNET_UP)
		note_subnet_up(p);
	else
		return;
	wake_thread(p);
}

/* Our thread. */

static struct file_id identify(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return (struct file_id){.there = false};
	return (struct file_id){true, st.st_dev, st.st_ino, st.st_size, st.st_ctim};
}

static bool same_file(const struct file_id *a, const struct file_id *b)
{
	return a->there == b->there && a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Reads the current epoch if it is another than last time. Returns whether it is a new candidate. */
static bool look(struct plugin *p)
{
	char path[PATH_MAX + 32], why[HANDOFF_WHY];
	snprintf(path, sizeof(path), "%s/current/lft.bin", p->options.state);
	struct file_id now = identify(path);
	if (same_file(&now, &p->seen))
		return false;
	p->seen = now;
	struct handoff *h = handoff_read(path, why);
	pthread_mutex_lock(&p->mutex);
	if (h != NULL) {
		handoff_free(p->candidate);
		p->candidate = h;
		p->candidate_tried = false;
		p->file_refusal.refused = false;
	} else {
		note_refusal(&p->file_refusal, 0, why);
		p->status_due = true;
	}
	pthread_mutex_unlock(&p->mutex);
	if (h == NULL)
		OSM_LOG(&p->osm->log, OSM_LOG_ERROR, "sarouter: epoch refused: %s\n", why);
	return h != NULL;
}

/* As OpenSM does itself on SIGHUP and on its console's `reroute`. */
static void ask_to_route(osm_opensm_t *osm)
{
	/* A standby keeps the candidate until it is master, and routes then anyway. */
	if (osm->subn.sm_state != IB_SMINFO_STATE_MASTER)
		return;
	osm->subn.force_reroute = TRUE;
	osm_sm_sweep(&osm->sm);
}

/*
 * After the first bring-up OpenSM takes every port for new and sends all SL2VL and VL arbitration
 * tables with each reroute, a hundred times as much as the forwarding tables, until it discovers the
 * fabric once more. We want that to be over before the first epoch comes.
 */
static void settle(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool due = p->bring_up == UP_ONCE;
	p->bring_up = due ? SETTLED : p->bring_up;
	pthread_mutex_unlock(&p->mutex);
	if (!due)
		return;
	p->osm->subn.force_heavy_sweep = TRUE;
	osm_sm_sweep(&p->osm->sm);
}

static bool untried_candidate(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool untried = p->candidate != NULL && !p->candidate_tried;
	pthread_mutex_unlock(&p->mutex);
	return untried;
}

/* Waits for a notification, a wake-up or the time to look, and forgets what exactly it was. */
static void wait_for_news(struct plugin *p)
{
	struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN}, {.fd = p->notify, .events = POLLIN}};
	char events[4096];
	if (poll(fds, 2, LOOK_MS) <= 0)
		return;
	for (int i = 0; i < 2; i++)
		while ((fds[i].revents & POLLIN) && read(fds[i].fd, events, sizeof(events)) > 0)
			continue;
}

static void watch_state(const struct plugin *p)
{
	/* Watching what is watched already changes nothing; a new directory of that name is caught. */
	if (p->notify >= 0)
		(void)inotify_add_watch(p->notify, p->options.state, IN_MOVED_TO | IN_CREATE | IN_ONLYDIR);
}

static time_t seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Writes the status file if there is news or it is time. Returns the time of the last writing. */
static time_t write_status(struct plugin *p, time_t last)
{
	time_t now = seconds_now();
	pthread_mutex_lock(&p->mutex);
	bool due = p->status_due || now - last >= (time_t)p->options.heartbeat;
	p->status_due = false;
	p->status.refusal = p->file_refusal.refused ? p->file_refusal : p->fit_refusal;
	struct status status = p->status;
	pthread_mutex_unlock(&p->mutex);
	if (!due)
		return last;
	int error = status_write(&status, p->osm->osm_version, p->options.status);
	if (error != 0)
		OSM_LOG(&p->osm->log, OSM_LOG_ERROR, "sarouter: cannot write %s: %s\n", p->options.status,
			strerror(error));
	return now;
}

static bool stopping(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool stop = p->stop;
	pthread_mutex_unlock(&p->mutex);
	return stop;
}

static void *watch(void *context)
{
	struct plugin *p = context;
	time_t written = seconds_now() - p->options.heartbeat, asked = seconds_now();
	while (!stopping(p)) {
		watch_state(p);
		settle(p);
		bool fresh = look(p);
		if (fresh || (untried_candidate(p) && seconds_now() - asked >= REPEAT_S)) {
			ask_to_route(p->osm);
			asked = seconds_now();
		}
		written = write_status(p, written);
		wait_for_news(p);
	}
	return NULL;
}

/* Birth and death. */

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
	handoff_free(p->tables);
	pthread_mutex_destroy(&p->mutex);
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

static void stop_thread(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	p->stop = true;
	pthread_mutex_unlock(&p->mutex);
	wake_thread(p);
	pthread_join(p->thread, NULL);
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
	/* An absent file is no news; one that is there is ready for the first routing. */
	look(p);
	if (!start_thread(p)) {
		release(p);
		return NULL;
	}
	/* Last, because OpenSM has no way to unregister. */
	static const external_routing_engine_module_t module = {.name = ENGINE_NAME, .setup = setup};
	if (osm_register_external_routing_engine(osm, &module, p) != CL_SUCCESS) {
		stop_thread(p);
		release(p);
		return NULL;
	}
	return p;
}

/* OpenSM has stopped its threads and destroyed its engines when it calls this. */
static void destroy(void *context)
{
	struct plugin *p = context;
	stop_thread(p);
	p->status.running = false;
	p->status_due = true;
	write_status(p, seconds_now());
	release(p);
}

/* The name OpenSM looks for. It skips us silently unless the version is its own, letter by letter. */
__attribute__((visibility("default"))) osm_event_plugin_t osm_event_plugin = {
	.osm_version = OSM_VERSION,
	.create = create,
	.delete = destroy,
	.report = report,
};
