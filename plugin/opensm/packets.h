/*
 * Which packets of a promise come by where, on which VLs: what each of them holds while it waits for what is next.
 *
 * Knows nothing of OpenSM, so that it can be run on files by itself.
 */
#ifndef SAROUTER_PACKETS_H
#define SAROUTER_PACKETS_H

#include <stdbool.h>
#include <string.h>

#include "handoff.h"

enum { PACKETS_VLS = 16, PACKETS_MAX_VL = 14 };

/* Of the promise. `PROMISE_MIXED`: the service proved the change from what it took to be in the switches. */
enum { PROMISE_TOLD = 1, PROMISE_UNTOLD = 2, PROMISE_ANY = 4, PROMISE_REPLY = 8, PROMISE_MIXED = 32 };
enum { PROMISE_SENDERS = PROMISE_TOLD | PROMISE_UNTOLD | PROMISE_ANY };

#define PACKETS_NONE HANDOFF_NO_CABLE /* no channel */

/* One direction of a cable: 2 * cable from a to b, and one more back. */
struct channel {
	uint32_t to;
	uint8_t out_port, in_port; /* of the switches that it leaves and enters */
	size_t turn;               /* from it by port 0 of that switch; the other ports follow */
};

/*
 * VLs are bits. Packets of a class of SLs are on the same VLs everywhere; without a lane map there is one class, in
 * which each packet stays on its own.
 */
struct packets {
	const struct handoff *h;
	const struct handoff *also; /* tables that take their place: programs may be told the SLs of both; NULL: none */
	const uint8_t *alive; /* [cables]; NULL: all are */
	int64_t until;        /* when to give up, as now_ms; 0: never */
	unsigned promise;
	struct channel *channel; /* [2 * cables] */
	uint32_t *by_port;       /* [switches * 256]: the channel, or NONE */
	uint8_t *guest;          /* [terminals]: it is no host, and nothing starts there */
	uint8_t *source;         /* [switches]: it has hosts */
	uint8_t as_one[PACKETS_VLS]; /* by VL, the lowest of those that are taken for one with it */
	bool alike;              /* all VLs have the same packets: the first one stands for them */
	unsigned classes;
	uint16_t sls[HANDOFF_SLS];  /* of each class, as bits */
	uint8_t first[HANDOFF_SLS]; /* SL of each class */
	uint16_t *by_hosts;      /* [channels * classes]: VLs of packets that start at terminals of its switch */
	uint16_t *by_switch;     /* the same for the switch itself */
	uint16_t *back;          /* [switches * switches], or NULL: SLs of routes from terminals of one to those of the other */
	size_t turns;
	uint16_t *waits;         /* [turns * classes]: VLs before the turn of packets that take it */
	/* For one destination: */
	uint32_t *next;    /* [switches]: the channel, or NONE */
	uint32_t *waiting; /* [switches]: how many that forward to it are not done yet */
	uint16_t *moving;  /* [switches * classes]: VLs on the next channel of the packets that come by */
	void *rooms[32];   /* all these arrays, and the user's own */
	unsigned room_count;
	bool full; /* memory has run out */
};

/*
 * Of tables with a promise; `also` and `alive` as in the struct, they must stay. `together`: VLs that only SLs tell apart behind some
 * turn are taken for one, the lane that they are of. What waits in no circle then, does not with each VL by itself. Without
 * lanes, where any packet may have any SL, one VL stands for all, which have the same packets. To be released by
 * packets_free, whatever the outcome. False, with the reason, if memory runs out or the list of aggregation nodes is
 * damaged.
 */
bool packets_make(struct packets *k, const struct handoff *h, const struct handoff *also, const uint8_t *alive,
		  bool together, char *why);

/* The bits of the promise; 0 if the tables have none. */
unsigned packets_promise(const struct handoff *h);

/* An array of zeros that packets_free releases. NULL, and `full`, if memory runs out. */
void *packets_room(struct packets *k, size_t count, size_t size);

/*
 * Fills `waits` with all packets of the promise. The tables are trees, as the parser wants them. False if the time is up.
 * O(switches * dests * classes).
 */
bool packets_follow(struct packets *k);

/* For a set of routes: the SLs that answers have. Before `packets_starting` for destinations of that set. */
void packets_set(struct packets *k, unsigned set);

/* The channel behind a switch's port, or NONE: a host, nothing, or its cable is gone. */
uint32_t packets_channel(const struct packets *k, uint32_t sw, unsigned port);

/* VLs on a channel of packets of a class to a destination that start at the switch before it, its hosts included. */
unsigned packets_starting(const struct packets *k, uint32_t c, unsigned class, unsigned set, uint32_t dest);

/* The VLs behind a turn of packets that are on some before it. */
static inline unsigned packets_behind(const struct packets *k, uint32_t sw, unsigned in, unsigned out, unsigned class,
				      unsigned vls)
{
	return k->h->lane_rows == NULL ? vls : 1u << k->as_one[handoff_lane_row(k->h, sw, in, out)[k->first[class]]];
}

/* The place in `waits` of the turn from one channel to the next. */
static inline size_t packets_turn(const struct packets *k, uint32_t c, unsigned out, unsigned class)
{
	return (k->channel[c].turn + out) * k->classes + class;
}

/* Whether the time is up. */
bool packets_late(const struct packets *k);

void packets_free(struct packets *k);

#endif
