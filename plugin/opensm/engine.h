/* What the parts of the engine share: engine.c and candidate.c. All of it with OpenSM's lock held exclusively. */
#ifndef SAROUTER_ENGINE_H
#define SAROUTER_ENGINE_H

#include "plugin.h"

/* Whether packets for every host arrive, from every switch with hosts; if not, why. */
bool covers(const struct fit *fit, char *why);

/*
 * Whether there are routes for as many LIDs of a port as the subnet gives it. One set of routes goes with any
 * number: all LIDs of a port then have the same.
 */
bool has_its_lids(const struct plugin *p, const struct handoff *h, char *why);

/* What there is of the tables' fabric; to be freed, whatever the outcome. False if memory runs out. */
bool living_make(const struct plugin *p, struct living *living, const struct handoff *h, const struct fit *fit);
void living_free(struct living *living);

/*
 * Whether OpenSM routes for the first time since it became master, for the first time or again. Switches may have tables
 * of another one, whatever they answered before; and OpenSM sends them all.
 */
static inline bool is_new_master(const struct plugin *p)
{
	return p->osm->subn.first_time_master_sweep;
}

void drop_repair(struct plugin *p);

/*
 * Takes the candidate into force if there is one and it fits. That nothing in it can wait in a circle was seen when it
 * was read: on a fabric that lacks some of its cables only packets are missing.
 */
void try_candidate(struct plugin *p);

/* After a routing: an epoch that had to wait for it is tried again, once switches have answered. */
void note_waiting(struct plugin *p);

#endif
