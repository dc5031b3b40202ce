/*
 * One plugin in one OpenSM: what its parts share.
 *
 * Who may touch what:
 *  - `tables`, `repaired`, `halfway`, `deaf`, `waits`, `until`, `slow`, `narrow_cables`, `uncovered`, `lids`: only with
 *    OpenSM's own lock. OpenSM calls the engine with it held exclusively, and asks for the SL of a path with it held at
 *    least shared. So tables can be replaced inside the engine without a lock of our own.
 *  - everything marked (m): with `mutex`, held for moments only, by any thread.
 *  - files: only our thread, so that a slow disk never stops OpenSM.
 */
#ifndef SAROUTER_PLUGIN_H
#define SAROUTER_PLUGIN_H

#include "fit.h"

#include <pthread.h>
#include <stdbool.h>

#include "fabric.h"
#include "file.h"
#include "options.h"
#include "repair.h"
#include "status.h"

/* A file that our thread writes beside the status when its text is another one. */
struct told {
	char *due;     /* (m) until it is written; or NULL */
	char *written; /* or NULL */
	int error;     /* of the last writing, told already */
	time_t tried;  /* when that was, if it failed; monotonic */
};

struct plugin {
	osm_opensm_t *osm;
	struct options options;

	struct handoff *tables;   /* in force, or NULL */
	struct handoff *repaired; /* the same with other ways around what is gone, which are in force then; or NULL */
	unsigned halfway;         /* how often `repaired` was written as the first of two steps; 0: it is none */
	bool deaf;                /* switches did not take such a step: no other until the epoch fits, or another comes */
	enum { NOTHING, FOR_ANSWERS, FOR_RETURN } waits; /* for what a candidate does that may not follow `repaired` */
	int64_t until;          /* when a repair gives up that has found nothing, as now_ms */
	bool slow;              /* it did: no other until the epoch fits, or another comes */
	unsigned narrow_cables; /* of the last routing: see struct fit */
	uint64_t uncovered;     /* LIDs they did not reach when they were last laid over the fabric */
	struct fit_lid *lids;   /* [IB_LID_UCAST_END_HO + 1] */

	pthread_mutex_t mutex;
	struct handoff *candidate;           /* (m) read and whole, not yet taken */
	bool candidate_tried;                /* (m) the engine has looked at it */
	bool try_again;                      /* (m) the candidate, when switches have answered */
	bool answered;                       /* (m) every switch has, to what the engine wrote last */
	struct status_tables built;          /* (m) what the engine wrote last */
	struct status_refusal file_refusal;  /* (m) by our thread: the newest file is broken */
	struct status_refusal fit_refusal;   /* (m) by the engine: it does not fit */
	struct status status;                /* (m) */
	bool status_due;                     /* (m) */
	enum { NOT_UP, UP_ONCE, SETTLED } bring_up; /* (m) */
	enum { NO_SECOND, SECOND_DUE, SECOND_ASKED } second; /* (m) the second step of a repair: OpenSM is to route for it */
	bool swept;                          /* (m) OpenSM has discovered the fabric since we looked at it */
	unsigned resweep;                    /* (m) seconds to wait before OpenSM is to sweep for missing answers; 0: none are */
	bool swept_for;                      /* (m) OpenSM was asked to, since the last time they were missing */
	time_t missed;                       /* (m) since when; monotonic */
	bool stop;                           /* (m) */
	enum { BEGUN, LOOKED, ENDED } thread_has; /* (m) LOOKED: for an epoch, once */

	struct {
		uint64_t guid, epoch;
	} mute;           /* a switch that has not answered, told already; only where OpenSM reports */
	pthread_t thread;
	int wake, notify; /* eventfd, inotify (or -1) */
	struct file_id seen;
	time_t again;     /* when to read once more what could not be read; monotonic; 0: there is none */
	struct told repair, fabric; /* the entries of `repaired`; what OpenSM discovered */
	struct file_id status_seen; /* as we wrote it last */
	bool rival;                 /* somebody else writes it, too */
	int status_error;           /* of the last writing, told already */
};

/* Registered with OpenSM: the engine's functions. */
int engine_setup(struct osm_routing_engine *engine, osm_opensm_t *osm);

/* Our thread, until `stop`. */
void *watch(void *plugin);

/* Monotonic. */
time_t seconds_now(void);

/* Has our thread go round once more, soon. */
void wake_thread(struct plugin *p);

/* Has our thread write a text, which it takes over; NULL changes nothing. */
void tell(struct plugin *p, struct told *told, char *text);

#endif
