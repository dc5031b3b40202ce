/* What switches have answered to what OpenSM sent them. */
#ifndef SAROUTER_ANSWERS_H
#define SAROUTER_ANSWERS_H

#include "fit.h"

/*
 * Whether all switches of the tables have answered with what OpenSM sent last: the forwarding tables, and what matters of
 * SL2VL. If not, `guid` is one that has not, and `what` says what it did not take. False with `guid` 0 if memory runs
 * out. OpenSM's lock must be held. O(switches * (LIDs + ports^2)).
 */
bool answers_are_there(const struct handoff *h, osm_subn_t *subn, uint64_t *guid, const char **what);

#endif
