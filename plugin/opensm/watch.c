/* Our thread: reads what the service publishes, asks OpenSM to route, writes the status file. */
#include "plugin.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "bytes.h"
#include "certificate.h"

/*
 * How often to look without being notified, and when to repeat a request that OpenSM lost, or what failed. A request waits
 * twice as long each time: where other engines come first OpenSM never asks ours, and writes all tables for each request.
 */
enum { LOOK_MS = 1000, REPEAT_S = 5, LAST_REPEAT_S = 640 };

time_t seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

void wake_thread(struct plugin *p)
{
	uint64_t one = 1;
	/* Can only fail if the counter is full, and then the thread is awake. */
	if (write(p->wake, &one, sizeof(one)) < 0)
		return;
}

/*
 * Whether OpenSM's log is there. When OpenSM ends it does not wait for ever for our thread, which may wait for a disk, and
 * closes the log.
 */
static bool has_log(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool has = !p->stop;
	pthread_mutex_unlock(&p->mutex);
	return has;
}

#define COMPLAIN(p, ...)                                                         \
	do {                                                                     \
		if (has_log(p))                                                  \
			OSM_LOG(&(p)->osm->log, OSM_LOG_ERROR, __VA_ARGS__);     \
	} while (0)

/*
 * Reads the current epoch if it is another than last time, or could not be read then. Returns whether it is a new
 * candidate.
 */
static bool look(struct plugin *p)
{
	char path[PATH_MAX + 32], why[HANDOFF_WHY];
	snprintf(path, sizeof(path), "%s/current/lft.bin", p->options.state);
	struct file_id now = file_identify(path);
	bool again = p->again != 0 && seconds_now() >= p->again;
	if (file_same(&now, &p->seen) && !again)
		return false;
	p->seen = now;
	size_t size;
	uint8_t *file = handoff_load(path, &size, why);
	bool loaded = file != NULL;
	struct handoff *h = loaded ? handoff_parse(file, size, why) : NULL;
	uint64_t epoch = h != NULL ? h->epoch : 0;
	if (h != NULL && !certificate_check(h, why)) {
		handoff_free(h);
		h = NULL;
	}
	/* A file that breaks the specification stays as it is; what the system refuses it may grant later. */
	bool later = h == NULL && now.there && (!loaded || strcmp(why, NO_MEMORY) == 0);
	p->again = later ? seconds_now() + REPEAT_S : 0;
	pthread_mutex_lock(&p->mutex);
	bool known = again && p->file_refusal.refused && strcmp(p->file_refusal.reason, why) == 0;
	if (h != NULL) {
		handoff_free(p->candidate);
		p->candidate = h;
		p->candidate_tried = false;
		p->file_refusal.refused = false;
	} else {
		status_refuse(&p->file_refusal, epoch, why);
		p->status_due = true;
	}
	pthread_mutex_unlock(&p->mutex);
	if (h == NULL && !known)
		COMPLAIN(p, "sarouter: epoch refused: %s\n", why);
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

/* As OpenSM does itself after errors. */
static void ask_to_discover(osm_opensm_t *osm)
{
	osm->subn.force_heavy_sweep = TRUE;
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
	ask_to_discover(p->osm);
}

/*
 * OpenSM sends again what a switch did not take when it discovers the fabric. It does so by itself where that was a
 * forwarding table and it sweeps at all, and never for SL2VL.
 */
static void ask_for_answers(struct plugin *p)
{
	bool master = p->osm->subn.sm_state == IB_SMINFO_STATE_MASTER;
	pthread_mutex_lock(&p->mutex);
	bool due = master && p->resweep > 0 && seconds_now() - p->missed >= (time_t)p->resweep;
	if (due) {
		p->missed = seconds_now();
		p->swept_for = true;
	}
	pthread_mutex_unlock(&p->mutex);
	if (due)
		ask_to_discover(p->osm);
}

static bool untried_candidate(struct plugin *p)
{
	bool master = p->osm->subn.sm_state == IB_SMINFO_STATE_MASTER;
	pthread_mutex_lock(&p->mutex);
	bool untried = p->candidate != NULL && !p->candidate_tried;
	if (!untried || !master)
		p->status.asked = (struct timespec){0};
	else if (p->status.asked.tv_sec == 0)
		clock_gettime(CLOCK_REALTIME, &p->status.asked);
	pthread_mutex_unlock(&p->mutex);
	return untried;
}

/* Whether OpenSM is to route at once for the second step of a repair; `waits`: whether it was to, and has not yet. */
static bool second_step_due(struct plugin *p, bool *waits)
{
	pthread_mutex_lock(&p->mutex);
	bool due = p->second == SECOND_DUE;
	*waits = p->second == SECOND_ASKED;
	p->second = due ? SECOND_ASKED : p->second;
	pthread_mutex_unlock(&p->mutex);
	return due;
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

/* Where to: the configured file, or one of this OpenSM alone. False before OpenSM knows its port. */
static bool status_path(const struct plugin *p, uint64_t port, char path[PATH_MAX])
{
	if (p->options.status[0] != '\0')
		return port != 0 && snprintf(path, PATH_MAX, "%s", p->options.status) < PATH_MAX;
	return port != 0 &&
	       snprintf(path, PATH_MAX, "%s/opensm-status.%016" PRIx64 ".json", p->options.state, port) < PATH_MAX;
}

static const char *sm_state(const osm_opensm_t *osm)
{
	switch (osm->subn.sm_state) {
	case IB_SMINFO_STATE_MASTER:
		return "master";
	case IB_SMINFO_STATE_STANDBY:
		return "standby";
	case IB_SMINFO_STATE_DISCOVERING:
		return "discovering";
	default:
		return "not active";
	}
}

/* Whether the file is another one than we left there. */
static void look_for_rivals(struct plugin *p, const char *path)
{
	struct file_id now = file_identify(path);
	bool rival = p->status_seen.there && now.there && !file_same(&now, &p->status_seen);
	if (rival && !p->rival)
		COMPLAIN(p,
			 "sarouter: another process writes %s: give each OpenSM a status file of its own\n", path);
	p->rival = rival;
}

/* Writes the status file if there is news or it is time. Returns the time of the last writing. */
static time_t write_status(struct plugin *p, time_t last)
{
	char path[PATH_MAX];
	time_t now = seconds_now();
	uint64_t port = cl_ntoh64(p->osm->subn.sm_port_guid);
	bool known = status_path(p, port, path);
	pthread_mutex_lock(&p->mutex);
	bool due = known && (p->status_due || now - last >= (time_t)p->options.heartbeat);
	p->status_due = p->status_due && !due;
	p->status.refusal = p->file_refusal.refused ? p->file_refusal : p->fit_refusal;
	struct status status = p->status;
	pthread_mutex_unlock(&p->mutex);
	if (!due)
		return last;
	look_for_rivals(p, path);
	status.opensm = p->osm->osm_version;
	status.port = port;
	status.state = sm_state(p->osm);
	status.warning = p->rival ? "another process writes this file, too" : NULL;
	int error = status_write(&status, path);
	p->status_seen = file_identify(path);
	if (error != 0 && error != p->status_error)
		COMPLAIN(p, "sarouter: cannot write %s: %s\n", path,
			error == EINVAL ? "not a regular file" : strerror(error));
	p->status_error = error;
	return now;
}

void tell(struct plugin *p, struct told *told, char *text)
{
	if (text == NULL)
		return;
	pthread_mutex_lock(&p->mutex);
	free(told->due);
	told->due = text;
	pthread_mutex_unlock(&p->mutex);
	wake_thread(p);
}

static void put_text(FILE *out, const void *text)
{
	fputs(text, out);
}

/* Writes a text if it is another than in the file, and the last one again if somebody removed the file. */
static void write_told(struct plugin *p, struct told *told, const char *name, const char *end)
{
	char path[PATH_MAX];
	uint64_t port = cl_ntoh64(p->osm->subn.sm_port_guid);
	if (port == 0 ||
	    snprintf(path, PATH_MAX, "%s/opensm-%s.%016" PRIx64 ".%s", p->options.state, name, port, end) >= PATH_MAX)
		return;
	/* Not at once: on a full disk the attempt itself is a notification. */
	if (told->error != 0 && seconds_now() - told->tried < REPEAT_S)
		return;
	pthread_mutex_lock(&p->mutex);
	char *text = told->due;
	told->due = NULL;
	pthread_mutex_unlock(&p->mutex);
	if (text == NULL && told->written != NULL && !file_identify(path).there) {
		text = told->written;
		told->written = NULL;
	}
	if (text == NULL)
		return;
	if (told->written != NULL && strcmp(text, told->written) == 0 && file_identify(path).there) {
		free(text);
		return;
	}
	int error = file_replace(path, put_text, text);
	if (error != 0 && error != told->error)
		COMPLAIN(p, "sarouter: cannot write %s: %s\n", path,
			error == EINVAL ? "not a regular file" : strerror(error));
	told->error = error;
	told->tried = seconds_now();
	free(told->written);
	told->written = error == 0 ? text : NULL;
	if (error == 0)
		return;
	/* Again when there is room, unless there is a newer one. */
	pthread_mutex_lock(&p->mutex);
	if (told->due == NULL) {
		told->due = text;
		text = NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	free(text);
}

/* Whether the thread is to end, after it has looked for an epoch. */
static bool stopping(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool stop = p->stop;
	p->thread_has = LOOKED;
	pthread_mutex_unlock(&p->mutex);
	return stop;
}

/* Says that OpenSM has ended. OpenSM's own thread does not: it would wait for a disk that hangs. */
static void *end(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	p->status.running = false;
	p->status_due = true;
	pthread_mutex_unlock(&p->mutex);
	write_status(p, 0);
	pthread_mutex_lock(&p->mutex);
	p->thread_has = ENDED;
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

void *watch(void *context)
{
	struct plugin *p = context;
	time_t written = seconds_now() - p->options.heartbeat, asked = seconds_now(), wait = REPEAT_S;
	for (;;) {
		watch_state(p);
		bool fresh = look(p);
		if (stopping(p))
			return end(p);
		settle(p);
		ask_for_answers(p);
		bool untried = untried_candidate(p), halfway, due = second_step_due(p, &halfway);
		bool first = fresh || due, waits = untried || halfway;
		if (first || (waits && seconds_now() - asked >= wait)) {
			ask_to_route(p->osm);
			asked = seconds_now();
			wait = first ? REPEAT_S : 2 * wait < LAST_REPEAT_S ? 2 * wait : LAST_REPEAT_S;
		} else if (!waits) {
			wait = REPEAT_S;
		}
		/* First the repair: who sees a new fabric looks at what was changed for it. */
		write_told(p, &p->repair, "repair", "txt");
		write_told(p, &p->fabric, "fabric", "ibnetdiscover");
		written = write_status(p, written);
		wait_for_news(p);
	}
}
