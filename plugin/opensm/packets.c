/* See packets.h. */
#include "packets.h"

#include <stdlib.h>

#include "bytes.h"

enum { NUMBER = 4, ALL_SLS = 0xFFFF, ALL_VLS = 0x7FFF };

#define DONE UINT32_MAX /* of `waiting` */

static bool read_terminals(struct packets *k, char *why)
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
static size_t note_channels(struct packets *k)
{
	const struct handoff *h = k->h;
	size_t turns = 0;
	for (size_t at = 0; at < (size_t)h->switches * 256; at++) {
		k->by_port[at] = h->cable_at[at];
		if (h->cable_at[at] == PACKETS_NONE)
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

/* Takes for one all VLs of each row, if they are to be. */
static void find_lanes(struct packets *k, bool together)
{
	for (unsigned vl = 0; vl < PACKETS_VLS; vl++)
		k->as_one[vl] = (uint8_t)vl;
	for (size_t i = 0; together && i < k->h->lane_row_count * HANDOFF_SLS; i++) {
		uint8_t a = k->as_one[k->h->lane_rows[i - i % HANDOFF_SLS]], b = k->as_one[k->h->lane_rows[i]];
		for (unsigned vl = 0; a != b && vl < PACKETS_VLS; vl++)
			if (k->as_one[vl] == (a > b ? a : b))
				k->as_one[vl] = a < b ? a : b;
	}
}

/* Whether no turn tells two SLs apart. */
static bool same_lanes(const struct packets *k, unsigned a, unsigned b)
{
	for (size_t i = 0; i < k->h->lane_row_count; i++) {
		const uint8_t *row = k->h->lane_rows + i * HANDOFF_SLS;
		if (k->as_one[row[a]] != k->as_one[row[b]])
			return false;
	}
	return true;
}

static void find_classes(struct packets *k)
{
	for (unsigned sl = 0; sl < HANDOFF_SLS; sl++) {
		unsigned class = 0;
		while (class < k->classes && !same_lanes(k, k->first[class], sl))
			class++;
		if (class == k->classes)
			k->first[k->classes++] = (uint8_t)sl;
		k->sls[class] |= (uint16_t)(1u << sl);
	}
}

/* Notes the VLs on which packets start that come to a switch by `in`, 0 for its own. */
static void note_start(const struct packets *k, uint16_t *vls, uint32_t sw, unsigned in)
{
	for (unsigned out = 1; out <= k->h->sw[sw].ports; out++) {
		uint32_t c = k->by_port[(size_t)sw * 256 + out];
		for (unsigned class = 0; c != PACKETS_NONE && class < k->classes; class++)
			vls[(size_t)c * k->classes + class] |= (uint16_t)packets_behind(k, sw, in, out, class, 0);
	}
}

/* SLs that programs at the terminals of a switch are told for a destination, as bits. */
static unsigned told(const struct packets *k, unsigned set, uint32_t sw, uint32_t dest)
{
	unsigned sls = 0;
	const struct handoff *tables[] = {k->h, k->also};
	for (int i = 0; i < 2; i++) {
		uint8_t layer = tables[i] != NULL ? handoff_layer(tables[i], set, sw, dest) : HANDOFF_NO_LAYER;
		sls |= layer != HANDOFF_NO_LAYER ? 1u << layer : 0;
	}
	return sls;
}

void packets_set(struct packets *k, unsigned set)
{
	const struct handoff *h = k->h;
	if (k->back == NULL)
		return;
	memset(k->back, 0, (size_t)h->switches * h->switches * sizeof(*k->back));
	for (uint32_t s = 0; s < h->switches; s++)
		for (uint32_t t = 0; t < h->terminals; t++)
			k->back[(size_t)s * h->switches + h->terminal[t].sw] |= (uint16_t)told(k, set, s, t);
}

uint32_t packets_channel(const struct packets *k, uint32_t sw, unsigned port)
{
	uint32_t c = k->by_port[(size_t)sw * 256 + port];
	return c == PACKETS_NONE || k->alive == NULL || k->alive[c / 2] ? c : PACKETS_NONE;
}

/* SLs of what starts at the terminals of a switch, and at the switch itself, as bits. */
static unsigned starting(const struct packets *k, unsigned set, uint32_t sw, uint32_t dest, unsigned *own)
{
	bool to_host = dest < k->h->terminals && !k->guest[dest];
	unsigned fixed = k->promise & PROMISE_ANY ? ALL_SLS : k->promise & PROMISE_UNTOLD ? 1 : 0;
	*own = to_host ? fixed : 0;
	if (!k->source[sw])
		return 0;
	if (k->promise & PROMISE_TOLD)
		fixed |= told(k, set, sw, dest);
	if (k->back != NULL && to_host)
		fixed |= k->back[(size_t)handoff_home(k->h, dest) * k->h->switches + sw];
	return fixed;
}

/* VLs on a channel of packets of a class that start at the switch before it. */
static unsigned starting_vls(const struct packets *k, uint32_t c, unsigned class, unsigned hosts, unsigned own)
{
	size_t at = (size_t)c * k->classes + class;
	if (k->h->lane_rows == NULL)
		return k->alike ? (hosts | own) != 0 : (hosts | own) & ALL_VLS;
	return (k->sls[class] & hosts ? k->by_hosts[at] : 0u) | (k->sls[class] & own ? k->by_switch[at] : 0u);
}

unsigned packets_starting(const struct packets *k, uint32_t c, unsigned class, unsigned set, uint32_t dest)
{
	uint32_t sw = k->channel[c ^ 1].to;
	unsigned own, hosts = starting(k, set, sw, dest, &own);
	return starting_vls(k, c, class, hosts, own);
}

/* Hands the packets of a switch on to the next one. */
static void hand_on(struct packets *k, unsigned set, uint32_t sw, uint32_t dest)
{
	const struct channel *by = &k->channel[k->next[sw]];
	uint32_t onto = k->next[by->to];
	unsigned own, hosts = starting(k, set, sw, dest, &own);
	for (unsigned class = 0; class < k->classes; class++) {
		uint16_t *moving = &k->moving[(size_t)sw * k->classes + class];
		unsigned vls = *moving | starting_vls(k, k->next[sw], class, hosts, own);
		*moving = 0;
		if (onto == PACKETS_NONE || vls == 0)
			continue;
		unsigned out = k->channel[onto].out_port;
		k->waits[packets_turn(k, k->next[sw], out, class)] |= (uint16_t)vls;
		k->moving[(size_t)by->to * k->classes + class] |=
			(uint16_t)packets_behind(k, by->to, by->in_port, out, class, vls);
	}
}

/* All packets to a destination: each switch after all that forward to it. The parser has seen that it is a tree. */
static void follow(struct packets *k, unsigned set, uint32_t dest)
{
	uint32_t switches = k->h->switches;
	memset(k->waiting, 0, switches * sizeof(*k->waiting));
	for (uint32_t s = 0; s < switches; s++) {
		k->next[s] = packets_channel(k, s, handoff_port(k->h, set, s, dest));
		if (k->next[s] != PACKETS_NONE)
			k->waiting[k->channel[k->next[s]].to]++;
	}
	for (uint32_t s = 0; s < switches; s++)
		for (uint32_t at = s; k->waiting[at] == 0 && k->next[at] != PACKETS_NONE;) {
			k->waiting[at] = DONE;
			hand_on(k, set, at, dest);
			at = k->channel[k->next[at]].to;
			k->waiting[at]--;
		}
}

bool packets_late(const struct packets *k)
{
	return k->until != 0 && now_ms() >= k->until;
}

bool packets_follow(struct packets *k)
{
	for (unsigned set = 0; set < k->h->sets; set++) {
		packets_set(k, set);
		for (uint32_t d = 0; d < handoff_dests(k->h); d++) {
			if (packets_late(k))
				return false;
			follow(k, set, d);
		}
	}
	return true;
}

void *packets_room(struct packets *k, size_t count, size_t size)
{
	void *new = zeroed(count, size);
	k->full |= new == NULL;
	return k->rooms[k->room_count++] = new;
}

/* False if memory runs out. */
static bool get_rooms(struct packets *k)
{
	size_t switches = k->h->switches, channels = 2 * (size_t)k->h->cables;
	k->channel = packets_room(k, channels, sizeof(*k->channel));
	k->by_port = packets_room(k, switches * 256, sizeof(*k->by_port));
	k->guest = packets_room(k, k->h->terminals, sizeof(*k->guest));
	k->source = packets_room(k, switches, sizeof(*k->source));
	k->by_hosts = packets_room(k, channels * k->classes, sizeof(*k->by_hosts));
	k->by_switch = packets_room(k, channels * k->classes, sizeof(*k->by_switch));
	k->next = packets_room(k, switches, sizeof(*k->next));
	k->waiting = packets_room(k, switches, sizeof(*k->waiting));
	k->moving = packets_room(k, switches * k->classes, sizeof(*k->moving));
	if ((k->promise & (PROMISE_TOLD | PROMISE_ANY | PROMISE_REPLY)) == (PROMISE_TOLD | PROMISE_REPLY))
		k->back = packets_room(k, switches * switches, sizeof(*k->back));
	k->turns = k->full ? 0 : note_channels(k);
	k->waits = packets_room(k, k->turns * k->classes, sizeof(*k->waits));
	return !k->full;
}

unsigned packets_promise(const struct handoff *h)
{
	return h->promise != NULL ? (unsigned)little_endian(h->promise, 4) : 0;
}

bool packets_make(struct packets *k, const struct handoff *h, const struct handoff *also, const uint8_t *alive,
		  bool together, char *why)
{
	*k = (struct packets){.h = h, .also = also, .alive = alive, .promise = packets_promise(h)};
	k->promise |= also != NULL ? packets_promise(also) : 0;
	k->alike = together && h->lane_rows == NULL && k->promise & PROMISE_ANY;
	find_lanes(k, together);
	find_classes(k);
	if (!get_rooms(k))
		return refuse(why, NO_MEMORY);
	for (uint32_t t = 0; t < h->terminals; t++)
		note_start(k, k->by_hosts, h->terminal[t].sw, h->terminal[t].port);
	for (uint32_t s = 0; s < h->switches; s++)
		note_start(k, k->by_switch, s, 0);
	return read_terminals(k, why);
}

void packets_free(struct packets *k)
{
	while (k->room_count > 0)
		free(k->rooms[--k->room_count]);
}
