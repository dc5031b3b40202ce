/*
 * Reads lft.bin, the tables that the service hands to OpenSM.
 *
 * The format is specified in plugin/README.md. This part knows nothing of OpenSM, so that it can
 * be run on damaged files by itself.
 */
#ifndef SAROUTER_HANDOFF_H
#define SAROUTER_HANDOFF_H

#include <stddef.h>
#include <stdint.h>

#define HANDOFF_UNREACHABLE 255 /* port: this switch cannot reach this destination */
#define HANDOFF_NO_LAYER 255    /* layer: no route starts here */
#define HANDOFF_NO_CABLE UINT32_MAX
#define HANDOFF_SLS 16          /* VLs in a lane row */
#define HANDOFF_SETS 2          /* sets of routes, at most: one for each of a port's LIDs */
#define HANDOFF_MAX_FILE (1ull << 30)

struct handoff_switch {
	uint64_t guid; /* first, here and below: searched by it */
	uint8_t ports;
};

struct handoff_terminal {
	uint64_t guid; /* of the port */
	uint32_t sw;
	uint8_t port; /* of the switch */
};

/* a is the switch with the lower number. */
struct handoff_cable {
	uint32_t a, b;
	uint8_t a_port, b_port;
};

/*
 * A file that was found to be whole and free of loops. Never changes afterwards.
 *
 * Destinations are the terminals, then the switches.
 */
struct handoff {
	uint64_t epoch;
	uint8_t fingerprint[32];
	char engine[33];
	uint8_t layers_used;
	uint32_t switches, terminals, cables;
	struct handoff_switch *sw;         /* [switches], by GUID */
	struct handoff_terminal *terminal; /* [terminals], by GUID */
	struct handoff_cable *cable;       /* [cables] */
	uint32_t *cable_at;                /* [switches * 256]: the cable at a port, or NO_CABLE */
	unsigned sets;                     /* 1: all LIDs of a port have the same routes */
	const uint8_t *ports[HANDOFF_SETS];  /* [switches * dests], raw; by LID minus base LID */
	const uint8_t *layers[HANDOFF_SETS]; /* [switches * dests], raw */
	uint8_t lanes;                     /* VLs that the lane map needs; 0: there is none */
	const uint8_t *lane_rows;          /* [rows * SLS], raw; NULL: there is no lane map */
	size_t lane_row_count;
	const uint8_t *lane_index;         /* row of each pair of ports, raw */
	size_t *lane_start;                /* [switches]: its first pair */
	const uint8_t *order, *aggregation, *promise; /* raw, for certificate.h; NULL: not there */
	size_t order_size, aggregation_size;          /* bytes */
	uint8_t *file;                     /* what all that is raw lies in */
};

/* Room for a reason, in words. */
#define HANDOFF_WHY 200

/*
 * Parses a whole file. Takes over `file`, which must come from malloc, whatever the outcome.
 * Returns NULL and says why if the file is not exactly as specified. O(switches * dests).
 */
struct handoff *handoff_parse(uint8_t *file, size_t size, char why[HANDOFF_WHY]);

/* Reads a file whole, to be freed. NULL, with the reason, if the system refuses it. */
uint8_t *handoff_load(const char *path, size_t *size, char why[HANDOFF_WHY]);

/* Reads and parses. As handoff_parse. */
struct handoff *handoff_read(const char *path, char why[HANDOFF_WHY]);

void handoff_free(struct handoff *h);

static inline uint32_t handoff_dests(const struct handoff *h)
{
	return h->terminals + h->switches;
}

static inline uint8_t handoff_port(const struct handoff *h, unsigned set, uint32_t sw, uint32_t dest)
{
	return h->ports[set][(size_t)sw * handoff_dests(h) + dest];
}

static inline uint8_t handoff_layer(const struct handoff *h, unsigned set, uint32_t sw, uint32_t dest)
{
	return h->layers[set][(size_t)sw * handoff_dests(h) + dest];
}

/* The switch at which routes to a destination end. */
static inline uint32_t handoff_home(const struct handoff *h, uint32_t dest)
{
	return dest < h->terminals ? h->terminal[dest].sw : dest - h->terminals;
}

/* VLs a cable must have: those of the lane map, or the layers. */
static inline uint8_t handoff_vls(const struct handoff *h)
{
	return h->lane_rows != NULL ? h->lanes : h->layers_used;
}

/*
 * The VLs by SL of packets that come by `in`, 0 for those of the switch itself, and go by `out`.
 * Only if there is a lane map. Ports that the tables do not know have the first row.
 */
const uint8_t *handoff_lane_row(const struct handoff *h, uint32_t sw, unsigned in, unsigned out);

/* Index of the switch or terminal with this GUID, or -1. O(log n). */
int64_t handoff_find_switch(const struct handoff *h, uint64_t guid);
int64_t handoff_find_terminal(const struct handoff *h, uint64_t guid);

/* CRC-64/XZ. */
uint64_t handoff_crc64(const uint8_t *bytes, size_t size);

#endif
