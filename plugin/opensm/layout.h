/* Where the parts of a hand-off file are, in both versions of the format. */
#ifndef SAROUTER_LAYOUT_H
#define SAROUTER_LAYOUT_H

#include "handoff.h"

#include <stdbool.h>

enum { LAYOUT_RECORD = 16 };

/* Kinds of sections. */
enum layout_kind {
	LAYOUT_SWITCHES = 1,
	LAYOUT_TERMINALS,
	LAYOUT_CABLES,
	LAYOUT_PORTS,
	LAYOUT_LAYERS,
	LAYOUT_LANE_ROWS,
	LAYOUT_LANE_INDEX,
	LAYOUT_NEXT_HOPS, /* for others than us */
	LAYOUT_ORDER,
	LAYOUT_AGGREGATION,
	LAYOUT_HIGH_PORTS,
	LAYOUT_HIGH_LAYERS,
	LAYOUT_PROMISE,
	LAYOUT_KINDS
};

/* By kind; a part that is not there is NULL, and has 0 bytes. */
struct layout {
	const uint8_t *at[LAYOUT_KINDS];
	size_t size[LAYOUT_KINDS];
};

/*
 * Fills what the header says into `h`, and finds the parts. Those up to the layers are there; they, those of
 * high LIDs and the promise, if there are any, are as long as they should be. Returns false and says why if the
 * file is damaged.
 */
bool layout_parse(struct layout *layout, struct handoff *h, const uint8_t *file, size_t size, char *why);

#endif
