/* See order.h. */
#include "order.h"

#include <stdlib.h>

#include "bytes.h"

/* Buffers beside one: those that packets in it wait for, or those whose packets wait for it. One may come twice. */
struct beside {
	const struct packets *k;
	uint32_t buffer, sw;
	unsigned port, class; /* of `sw`, the next to look at */
	unsigned vls;         /* of the channel before, not looked at yet */
	bool after;
};

static struct beside beside(const struct packets *k, uint32_t buffer, bool after)
{
	uint32_t c = buffer / PACKETS_VLS;
	return (struct beside){.k = k, .buffer = buffer, .sw = k->channel[after ? c : c ^ 1].to, .port = 1, .after = after};
}

/* The VLs before a turn, those alone that lead to or from the buffer. */
static unsigned vls_of(const struct beside *b, uint32_t before, uint32_t behind)
{
	const struct packets *k = b->k;
	unsigned in = k->channel[before].in_port, out = k->channel[behind].out_port, vl = b->buffer % PACKETS_VLS;
	unsigned vls = k->waits[packets_turn(k, before, out, b->class)];
	if (vls == 0 || b->after)
		return vls & 1u << vl;
	if (k->h->lane_rows == NULL)
		return vls & 1u << vl;
	return packets_behind(k, b->sw, in, out, b->class, vls) == 1u << vl ? vls : 0;
}

/* The next one, or NONE. */
static uint32_t next_beside(struct beside *b)
{
	const struct packets *k = b->k;
	uint32_t own = b->buffer / PACKETS_VLS;
	for (; b->port <= k->h->sw[b->sw].ports; b->port++, b->class = 0) {
		uint32_t other = k->by_port[(size_t)b->sw * 256 + b->port];
		uint32_t before = b->after ? own : other ^ 1, behind = b->after ? other : own;
		for (; other != PACKETS_NONE && b->class < k->classes; b->class++) {
			b->vls = b->vls != 0 ? b->vls : vls_of(b, before, behind);
			if (b->vls == 0)
				continue;
			unsigned vl = (unsigned)__builtin_ctz(b->vls), class = b->class;
			b->vls &= b->vls - 1;
			b->class += b->vls == 0;
			if (!b->after)
				return before * PACKETS_VLS + vl;
			unsigned in = k->channel[before].in_port, out = k->channel[behind].out_port;
			vl = (unsigned)__builtin_ctz(packets_behind(k, b->sw, in, out, class, 1u << vl));
			return behind * PACKETS_VLS + vl;
		}
	}
	return PACKETS_NONE;
}

/* Fills `place` by taking away what nothing waits for (Kahn). */
static bool sort(struct order *o)
{
	uint32_t *left = o->seen, placed = 0, after;
	for (uint32_t buffer = 0; buffer < o->buffers; buffer++)
		for (struct beside b = beside(o->k, buffer, true); (after = next_beside(&b)) != PACKETS_NONE;)
			left[after]++;
	uint32_t ends = 0;
	for (uint32_t buffer = 0; buffer < o->buffers; buffer++)
		if (left[buffer] == 0)
			o->queue[ends++] = buffer;
	for (; placed < ends; placed++) {
		uint32_t buffer = o->queue[placed];
		o->place[buffer] = placed;
		for (struct beside b = beside(o->k, buffer, true); (after = next_beside(&b)) != PACKETS_NONE;)
			if (--left[after] == 0)
				o->queue[ends++] = after;
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
	if (k->full)
		return refuse(why, "no memory");
	/* Whoever sorts leaves zeros in `seen` if there is no circle. */
	return sort(o) || refuse(why, "packets wait in a circle");
}

/*
 * Notes a buffer and all that come after it, up to a place, or before it, down to a place, behind the first `count` of
 * `moved`. Returns how many there are then; 0 if it comes by `forbidden`.
 */
static uint32_t collect(struct order *o, uint32_t count, uint32_t buffer, bool after, uint32_t limit, uint32_t forbidden)
{
	uint32_t at = 0, ends = 0, other;
	o->seen[buffer] = o->round;
	o->queue[ends++] = buffer;
	for (; at < ends; at++) {
		o->moved[count++] = (struct order_place){o->place[o->queue[at]], o->queue[at]};
		for (struct beside b = beside(o->k, o->queue[at], after); (other = next_beside(&b)) != PACKETS_NONE;) {
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
