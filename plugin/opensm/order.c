/* See order.h. */
#include "order.h"

#include <stdlib.h>

#include "bytes.h"

/* Fills `beside` with the buffers that packets in one wait for. One may come twice. Returns how many. */
static uint32_t list_after(struct order *o, uint32_t buffer)
{
	const struct packets *k = o->k;
	uint32_t own = buffer / PACKETS_VLS, sw = k->channel[own].to, count = 0;
	unsigned in = k->channel[own].in_port, vl = 1u << buffer % PACKETS_VLS, ports = k->h->sw[sw].ports;
	const uint32_t *by_port = &k->by_port[(size_t)sw * 256];
	for (unsigned port = 1; port <= ports; port++) {
		const uint16_t *waits = &k->waits[packets_turn(k, own, port, 0)];
		for (unsigned class = 0; class < k->classes && by_port[port] != PACKETS_NONE; class++)
			if (waits[class] & vl)
				o->beside[count++] = by_port[port] * PACKETS_VLS +
					(unsigned)__builtin_ctz(packets_behind(k, sw, in, port, class, vl));
	}
	return count;
}

/* The same with those whose packets wait for it. */
static uint32_t list_before(struct order *o, uint32_t buffer)
{
	const struct packets *k = o->k;
	uint32_t own = buffer / PACKETS_VLS, sw = k->channel[own ^ 1].to, count = 0;
	unsigned out = k->channel[own].out_port, vl = 1u << buffer % PACKETS_VLS, ports = k->h->sw[sw].ports;
	const uint32_t *by_port = &k->by_port[(size_t)sw * 256];
	for (unsigned port = 1; port <= ports; port++) {
		uint32_t before = by_port[port] ^ 1;
		if (by_port[port] == PACKETS_NONE)
			continue;
		const uint16_t *waits = &k->waits[packets_turn(k, before, out, 0)];
		for (unsigned class = 0; class < k->classes; class++) {
			unsigned vls = waits[class];
			if (vls == 0)
				continue;
			if (k->h->lane_rows == NULL)
				vls &= vl;
			else if (packets_behind(k, sw, k->channel[before].in_port, out, class, vls) != vl)
				continue;
			for (; vls != 0; vls &= vls - 1)
				o->beside[count++] = before * PACKETS_VLS + (unsigned)__builtin_ctz(vls);
		}
	}
	return count;
}

/* Fills `place` by taking away what nothing waits for (Kahn). */
static bool sort(struct order *o)
{
	uint32_t *left = o->seen, placed = 0;
	for (uint32_t buffer = 0; buffer < o->buffers; buffer++)
		for (uint32_t count = list_after(o, buffer); count > 0; count--)
			left[o->beside[count - 1]]++;
	uint32_t ends = 0;
	for (uint32_t buffer = 0; buffer < o->buffers; buffer++)
		if (left[buffer] == 0)
			o->queue[ends++] = buffer;
	for (; placed < ends; placed++) {
		uint32_t buffer = o->queue[placed];
		o->place[buffer] = placed;
		uint32_t count = list_after(o, buffer);
		for (uint32_t i = 0; i < count; i++)
			if (--left[o->beside[i]] == 0)
				o->queue[ends++] = o->beside[i];
	}
	return placed == o->buffers;
}

bool order_make(struct order *o, struct packets *k, char *why)
{
	*o = (struct order){.k = k, .buffers = 2 * k->h->cables * PACKETS_VLS};
	o->place = packets_room(k, o->buffers, sizeof(*o->place));
	o->seen = packets_room(k, o->buffers, sizeof(*o->seen));
	o->moved = packets_room(k, o->buffers, sizeof(*o->moved));
	o->queue = packets_room(k, o->buffers, sizeof(*o->queue));
	o->beside = packets_room(k, (size_t)256 * k->classes * PACKETS_VLS, sizeof(*o->beside));
	if (k->full)
		return refuse(why, NO_MEMORY);
	/* Whoever sorts leaves zeros in `seen` if there is no circle. */
	return sort(o) || refuse(why, "packets wait in a circle");
}

/*
 * Notes a buffer and all that come after it, up to a place, or before it, down to a place, behind the first `count` of
 * `moved`. Returns how many there are then; 0 if it comes by `forbidden`.
 */
static uint32_t collect(struct order *o, uint32_t count, uint32_t buffer, bool after, uint32_t limit, uint32_t forbidden)
{
	uint32_t at = 0, ends = 0;
	o->seen[buffer] = o->round;
	o->queue[ends++] = buffer;
	for (; at < ends; at++) {
		o->moved[count++] = (struct order_place){o->place[o->queue[at]], o->queue[at]};
		uint32_t found = after ? list_after(o, o->queue[at]) : list_before(o, o->queue[at]);
		for (uint32_t i = 0; i < found; i++) {
			uint32_t other = o->beside[i];
			if (other == forbidden)
				return 0;
			bool outside = after ? o->place[other] > limit : o->place[other] < limit;
			if (outside || o->seen[other] == o->round)
				continue;
			o->seen[other] = o->round;
			o->queue[ends++] = other;
		}
	}
	return count;
}

static int by_place(const void *a, const void *b)
{
	uint32_t x = ((const struct order_place *)a)->place, y = ((const struct order_place *)b)->place;
	return (x > y) - (x < y);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

bool order_before(struct order *o, uint32_t first, uint32_t second)
{
	uint32_t low = o->place[second], high = o->place[first];
	if (first == second)
		return false;
	if (high < low)
		return true;
	if (packets_late(o->k))
		return false;
	o->round++;
	uint32_t count = collect(o, 0, second, true, high, first);
	if (count == 0)
		return false;
	/* What comes before goes first; both keep their own order. */
	uint32_t after = count;
	count = collect(o, after, first, false, low, PACKETS_NONE);
	qsort(o->moved, after, sizeof(*o->moved), by_place);
	qsort(o->moved + after, count - after, sizeof(*o->moved), by_place);
	for (uint32_t i = 0; i < count; i++)
		o->queue[i] = o->moved[i].place;
	qsort(o->queue, count, sizeof(*o->queue), by_number);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t from = i < count - after ? after + i : i - (count - after);
		o->place[o->moved[from].buffer] = o->queue[i];
	}
	return true;
}
