/*
 * An order of buffers that packets climb, which is kept while packets take new turns.
 *
 * Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006: a turn that goes down
 * moves only the buffers between its ends.
 */
#ifndef SAROUTER_ORDER_H
#define SAROUTER_ORDER_H

#include "packets.h"

/* A buffer: 16 times its channel, plus its VL. */
struct order {
	struct packets *k;
	uint32_t buffers;
	uint32_t *place;  /* [buffers] */
	uint32_t *seen;   /* [buffers]: the round in which a search came by */
	uint32_t round;
	struct order_place {
		uint32_t place, buffer;
	} *moved;         /* [buffers]: of those that go before, then of those that go after */
	uint32_t *queue;  /* [buffers] */
	uint32_t *beside; /* [256 ports * classes * VLs]: the buffers found beside one */
};

/* Of what `k->waits` says. False, with the reason, if memory runs out or packets wait in a circle. O(buffers * ports). */
bool order_make(struct order *order, struct packets *k, char *why);

/*
 * Puts one buffer before another one. False, and nothing is changed, if a packet in the second one waits for the first by
 * `k->waits`, to which the caller adds the turn afterwards, or the time is up.
 */
bool order_before(struct order *order, uint32_t first, uint32_t second);

#endif
