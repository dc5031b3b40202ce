/*
 * See certificate.h.
 *
 * A packet that holds a buffer waits for the next one on its way. If each hop leads to a buffer that is later in
 * one order, nothing waits in a circle (Dally and Seitz 1987). One pass over the tables, from the leaves of each
 * tree to its home, notes on which VLs packets come to each turn; then each turn is held against the order once.
 */
#include "certificate.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum { TOLD = 1, UNTOLD = 2, ANY = 4, REPLY = 8 }; /* of the promise; what else it says is not told by one epoch */
enum { NUMBER = 4, VLS = 16, MAX_VL = 14, ALL_SLS = 0xFFFF, ALL_VLS = 0x7FFF };

#define NONE HANDOFF_NO_CABLE /* no channel */
#define ABSENT UINT32_MAX     /* place of a buffer that the order does not have */
#define DONE UINT32_MAX       /* of `waiting` */

/* One direction of a cable. */
struct channel {
	uint32_t to;
	uint8_t out_port, in_port; /* of the switches that it leaves and enters */
	size_t turn;               /* from it by port 0 of that switch; the other ports follow */
};

/*
 * VLs are bits. Packets of a class of SLs are on the same VLs everywhere; without a lane map there is one class, in
 * which each packet stays on its own.
 */
struct checker {
	const struct handoff *h;
	unsigned promise;
	struct channel *channel; /* [2 * cables]: from a to b, and back */
	uint32_t *by_port;       /* [switches * 256]: the channel, or NONE */
	uint32_t *place;         /* [buffers]: 16 for each channel, one for each VL */
	uint8_t *guest;          /* [terminals]: it is no host, and nothing starts there */
	uint8_t *source;         /* [switches]: it has hosts */
	unsigned classes;
	uint16_t sls[HANDOFF_SLS];  /* of each class, as bits */
	uint8_t first[HANDOFF_SLS]; /* SL of each class */
	uint16_t *by_hosts;      /* [channels * classes]: VLs of packets that start at terminals of its switch */
	uint16_t *by_switch;     /* the same for the switch itself */
	uint16_t *back;          /* [switches * switches], or NULL: SLs of routes from terminals of one to those of the other */
	uint16_t *waits;         /* [turns * classes]: VLs before the turn of packets that take it */
	/* For one destination: */
	uint32_t *next;    /* [switches]: the channel, or NONE */
	uint32_t *waiting; /* [switches]: how many that forward to it are not done yet */
	uint16_t *moving;  /* [switches * classes]: VLs on the next channel of the packets that come by */
	void *rooms[12];   /* all these arrays */
	unsigned room_count;
	bool full; /* memory has run out */
};

/* The VLs behind a turn of packets that are on some before it. */
static unsigned vls_behind(const struct checker *k, uint32_t sw, unsigned in, unsigned out, unsigned class, unsigned vls)
{
	return k->h->lane_rows == NULL ? vls : 1u << handoff_lane_row(k->h, sw, in, out)[k->first[class]];
}

/* The order, turned round. */
static bool read_order(struct checker *k, char *why)
{
	const struct handoff *h = k->h;
	uint32_t buffers = 2 * h->cables * VLS;
	if (h->order == NULL || h->order_size % NUMBER != 0)
		return refuse(why, "its certificate has no order, or half a buffer: %zu bytes", h->order_size);
	memset(k->place, 0xFF, (size_t)buffers * sizeof(*k->place));
	for (size_t i = 0; i < h->order_size / NUMBER; i++) {
		uint32_t buffer = (uint32_t)little_endian(h->order + NUMBER * i, NUMBER);
		if (buffer >= buffers || buffer % VLS > MAX_VL || k->place[buffer] != ABSENT)
			return refuse(why, "its certificate has no buffer, or one twice, at place %zu", i);
		k->place[buffer] = (uint32_t)i + 1;
	}
	return true;
}

static bool read_terminals(struct checker *k, char *why)
{
	const struct handoff *h = k->h;
	uint64_t least = 0;
	for (size_t i = 0; NUMBER * i < h->aggregation_size; i++) {
		bool whole = h->aggregation_size - NUMBER * i >= NUMBER;
		uint64_t t = whole ? little_endian(h->aggregation + NUMBER * i, NUMBER) : h->terminals;
		if (t < least || t >= h->terminals)
			return refuse(why, "aggregation node number %zu is not allowed", i);
		k->guest[t] = 1;
		least = t + 1;
	}
	for (uint32_t t = 0; t < h->terminals; t++)
		k->source[h->terminal[t].sw] |= !k->guest[t];
	return true;
}

/* Returns how many turns there are. */
static size_t note_channels(struct checker *k)
{
	const struct handoff *h = k->h;
	size_t turns = 0;
	for (size_t at = 0; at < (size_t)h->switches * 256; at++) {
		k->by_port[at] = h->cable_at[at];
		if (h->cable_at[at] == NONE)
			continue;
		const struct handoff_cable *cable = &h->cable[h->cable_at[at]];
		bool back = cable->a != at / 256;
		k->by_port[at] = 2 * h->cable_at[at] + back;
		uint32_t to = back ? cable->a : cable->b;
		uint8_t in = back ? cable->a_port : cable->b_port;
		k->channel[k->by_port[at]] = (struct channel){to, (uint8_t)(at % 256), in, turns};
		turns += h->sw[to].ports + 1u;
	}
	return turns;
}

/* Whether no turn tells two SLs apart. */
static bool same_lanes(const struct handoff *h, unsigned a, unsigned b)
{
	for (size_t i = 0; i < h->lane_row_count; i++)
		if (h->lane_rows[i * HANDOFF_SLS + a] != h->lane_rows[i * HANDOFF_SLS + b])
			return false;
	return true;
}

static void find_classes(struct checker *k)
{
	for (unsigned sl = 0; sl < HANDOFF_SLS; sl++) {
		unsigned class = 0;
		while (class < k->classes && !same_lanes(k->h, k->first[class], sl))
			class++;
		if (class == k->classes)
			k->first[k->classes++] = (uint8_t)sl;
		k->sls[class] |= (uint16_t)(1u << sl);
	}
}

/* Notes the VLs on which packets start that come to a switch by `in`, 0 for its own. */
static void note_start(const struct checker *k, uint16_t *vls, uint32_t sw, unsigned in)
{
	for (unsigned out = 1; out <= k->h->sw[sw].ports; out++) {
		uint32_t c = k->by_port[(size_t)sw * 256 + out];
		for (unsigned class = 0; c != NONE && class < k->classes; class++)
			vls[(size_t)c * k->classes + class] |= (uint16_t)vls_behind(k, sw, in, out, class, 0);
	}
}

/* The SLs that routes back have: answers may be on those. */
static void note_back(struct checker *k, unsigned set)
{
	const struct handoff *h = k->h;
	memset(k->back, 0, (size_t)h->switches * h->switches * sizeof(*k->back));
	for (uint32_t s = 0; s < h->switches; s++)
		for (uint32_t t = 0; t < h->terminals; t++) {
			uint8_t layer = handoff_layer(h, set, s, t);
			if (layer != HANDOFF_NO_LAYER)
				k->back[(size_t)s * h->switches + h->terminal[t].sw] |= (uint16_t)(1u << layer);
		}
}

/* SLs of what starts at the terminals of a switch, and at the switch itself, as bits. */
static unsigned starting(const struct checker *k, uint32_t sw, uint32_t dest, uint8_t layer, unsigned *own)
{
	bool to_host = dest < k->h->terminals && !k->guest[dest];
	unsigned fixed = k->promise & ANY ? ALL_SLS : k->promise & UNTOLD ? 1 : 0;
	*own = to_host ? fixed : 0;
	if (!k->source[sw])
		return 0;
	if (k->promise & TOLD && layer != HANDOFF_NO_LAYER)
		fixed |= 1u << layer;
	if (k->back != NULL && to_host)
		fixed |= k->back[(size_t)handoff_home(k->h, dest) * k->h->switches + sw];
	return fixed;
}

/* VLs on the next channel of a switch of packets of a class that start there. */
static unsigned starting_vls(const struct checker *k, uint32_t c, unsigned class, unsigned hosts, unsigned own)
{
	size_t at = (size_t)c * k->classes + class;
	if (k->h->lane_rows == NULL)
		return (hosts | own) & ALL_VLS;
	return (k->sls[class] & hosts ? k->by_hosts[at] : 0u) | (k->sls[class] & own ? k->by_switch[at] : 0u);
}

/* Hands the packets of a switch on to the next one. */
static void hand_on(struct checker *k, uint32_t sw, uint32_t dest, uint8_t layer)
{
	const struct channel *by = &k->channel[k->next[sw]];
	uint32_t onto = k->next[by->to];
	unsigned own, hosts = starting(k, sw, dest, layer, &own);
	for (unsigned class = 0; class < k->classes; class++) {
		uint16_t *moving = &k->moving[(size_t)sw * k->classes + class];
		unsigned vls = *moving | starting_vls(k, k->next[sw], class, hosts, own);
		*moving = 0;
		if (onto == NONE || vls == 0)
			continue;
		unsigned out = k->channel[onto].out_port;
		k->waits[(by->turn + out) * k->classes + class] |= (uint16_t)vls;
		k->moving[(size_t)by->to * k->classes + class] |=
			(uint16_t)vls_behind(k, by->to, by->in_port, out, class, vls);
	}
}

/* All packets to a destination: each switch after all that forward to it. The parser has seen that it is a tree. */
static void follow(struct checker *k, unsigned set, uint32_t dest)
{
	uint32_t switches = k->h->switches;
	memset(k->waiting, 0, switches * sizeof(*k->waiting));
	for (uint32_t s = 0; s < switches; s++) {
		k->next[s] = k->by_port[(size_t)s * 256 + handoff_port(k->h, set, s, dest)];
		if (k->next[s] != NONE)
			k->waiting[k->channel[k->next[s]].to]++;
	}
	for (uint32_t s = 0; s < switches; s++)
		for (uint32_t at = s; k->waiting[at] == 0 && k->next[at] != NONE;) {
			k->waiting[at] = DONE;
			hand_on(k, at, dest, handoff_layer(k->h, set, at, dest));
			at = k->channel[k->next[at]].to;
			k->waiting[at]--;
		}
}

static void follow_all(struct checker *k, unsigned set)
{
	if (k->back != NULL)
		note_back(k, set);
	for (uint32_t d = 0; d < handoff_dests(k->h); d++)
		follow(k, set, d);
}

/* Whether all packets that go from a channel by a port find later buffers there. */
static bool check_turn(const struct checker *k, uint32_t c, unsigned out, char *why)
{
	const struct channel *by = &k->channel[c];
	uint32_t onto = k->by_port[(size_t)by->to * 256 + out];
	for (unsigned class = 0; class < k->classes; class++) {
		unsigned before = k->waits[(by->turn + out) * k->classes + class];
		for (; before != 0; before &= before - 1) {
			unsigned vl = (unsigned)__builtin_ctz(before);
			unsigned behind = vls_behind(k, by->to, by->in_port, out, class, 1u << vl);
			unsigned next = (unsigned)__builtin_ctz(behind);
			uint32_t from = k->place[(size_t)c * VLS + vl], to = k->place[(size_t)onto * VLS + next];
			if (from >= to || to == ABSENT)
				return refuse(why, "not certified: switch 0x%016llx, from port %u VL %u to port %u VL %u",
					      (unsigned long long)k->h->sw[by->to].guid, by->in_port, vl, out, next);
		}
	}
	return true;
}

static void *room(struct checker *k, size_t count, size_t size)
{
	void *new = zeroed(count, size);
	k->full |= new == NULL;
	return k->rooms[k->room_count++] = new;
}

/* False if memory runs out. */
static bool get_rooms(struct checker *k)
{
	size_t switches = k->h->switches, channels = 2 * (size_t)k->h->cables;
	k->channel = room(k, channels, sizeof(*k->channel));
	k->by_port = room(k, switches * 256, sizeof(*k->by_port));
	k->place = room(k, channels * VLS, sizeof(*k->place));
	k->guest = room(k, k->h->terminals, sizeof(*k->guest));
	k->source = room(k, switches, sizeof(*k->source));
	k->by_hosts = room(k, channels * k->classes, sizeof(*k->by_hosts));
	k->by_switch = room(k, channels * k->classes, sizeof(*k->by_switch));
	k->next = room(k, switches, sizeof(*k->next));
	k->waiting = room(k, switches, sizeof(*k->waiting));
	k->moving = room(k, switches * k->classes, sizeof(*k->moving));
	if ((k->promise & (TOLD | ANY | REPLY)) == (TOLD | REPLY))
		k->back = room(k, switches * switches, sizeof(*k->back));
	k->waits = k->full ? NULL : room(k, note_channels(k) * k->classes, sizeof(*k->waits));
	return !k->full;
}

bool certificate_check(const struct handoff *h, char why[HANDOFF_WHY])
{
	if (!certificate_there(h))
		return true;
	struct checker k = {.h = h, .promise = (unsigned)little_endian(h->promise, 4)};
	find_classes(&k);
	bool good = get_rooms(&k) || refuse(why, "no memory");
	good = good && read_order(&k, why) && read_terminals(&k, why);
	for (uint32_t t = 0; good && t < h->terminals; t++)
		note_start(&k, k.by_hosts, h->terminal[t].sw, h->terminal[t].port);
	for (uint32_t s = 0; good && s < h->switches; s++)
		note_start(&k, k.by_switch, s, 0);
	for (unsigned set = 0; good && set < h->sets; set++)
		follow_all(&k, set);
	for (uint32_t c = 0; good && c < 2 * h->cables; c++)
		for (unsigned out = 1; good && out <= h->sw[k.channel[c].to].ports; out++)
			good = check_turn(&k, c, out, why);
	while (k.room_count > 0)
		free(k.rooms[--k.room_count]);
	return good;
}
