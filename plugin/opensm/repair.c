/* See repair.h. */
#include "repair.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "certificate.h"
#include "order.h"
#include "packets.h"

enum { GONE = 0, HOST = 2 }; /* of living.dests */

/* How often to begin anew with the destinations first that had no way left. */
enum { ATTEMPTS = 8 };

#define LOST UINT32_MAX /* depth of a switch from which packets do not arrive */

/* What a change of `waits` or `on` was made to. */
struct undo {
	uint16_t *at, before;
};

struct repair {
	struct packets k;
	struct order order;
	const struct living *living;
	uint32_t *load;       /* [channels]: entries of hosts that lead there */
	uint16_t *in_force;   /* `waits` of the tables in force */
	uint32_t *dests;      /* [dests]: all, in the order in which they get their ways */
	size_t failed;        /* the place there of the one that had none left */
	struct undo *undo;
	size_t undo_count, undo_room;
	/* For one destination: */
	unsigned set;
	uint32_t dest, home;
	uint32_t *was, *now;  /* [switches]: the channel in force and another one, or NONE */
	uint8_t *dropped;     /* [switches]: the entry in force goes without another one */
	uint32_t *depth;      /* [switches]: hops to the home; LOST */
	uint16_t *on;         /* [channels * classes]: VLs of packets to it */
};

static bool prepare(struct repair *r, const struct handoff *h, const struct handoff *also, const struct living *living,
		    bool together, char *why)
{
	memset(r, 0, sizeof(*r));
	if (!packets_make(&r->k, h, also, living->cables, together, why))
		return false;
	size_t switches = h->switches, channels = 2 * (size_t)h->cables;
	r->living = living;
	r->k.until = living->until;
	r->load = packets_room(&r->k, channels, sizeof(*r->load));
	r->was = packets_room(&r->k, switches, sizeof(*r->was));
	r->now = packets_room(&r->k, switches, sizeof(*r->now));
	r->dropped = packets_room(&r->k, switches, sizeof(*r->dropped));
	r->depth = packets_room(&r->k, switches, sizeof(*r->depth));
	r->on = packets_room(&r->k, channels * r->k.classes, sizeof(*r->on));
	r->in_force = packets_room(&r->k, r->k.turns * r->k.classes, sizeof(*r->in_force));
	r->dests = packets_room(&r->k, handoff_dests(h), sizeof(*r->dests));
	if (r->k.full)
		return refuse(why, NO_MEMORY);
	for (uint32_t d = 0; d < handoff_dests(h); d++)
		r->dests[d] = d;
	if (!packets_follow(&r->k))
		return false;
	memcpy(r->in_force, r->k.waits, r->k.turns * r->k.classes * sizeof(*r->in_force));
	return order_make(&r->order, &r->k, why);
}

/* Releases all. Returns `good`; what failed for want of time says so. */
static bool repair_end(struct repair *r, bool good, char *why)
{
	if (!good && packets_late(&r->k))
		refuse(why, "it takes too long");
	free(r->undo);
	packets_free(&r->k);
	return good;
}

/*
 * With lanes for one VL each, which costs less; where that shows a circle, with each VL by itself. `also`: see
 * struct packets.
 */
static bool repair_make(struct repair *r, const struct handoff *h, const struct handoff *also,
			const struct living *living, char *why)
{
	memset(r, 0, sizeof(*r));
	if (!certificate_there(h))
		return refuse(why, "its promise is not known");
	if (prepare(r, h, also, living, true, why))
		return true;
	repair_end(r, false, why);
	return prepare(r, h, also, living, false, why);
}

/* Adds VLs, which can be taken back. */
static bool add(struct repair *r, uint16_t *at, unsigned vls)
{
	if (r->undo_count == r->undo_room) {
		size_t room = r->undo_room > 0 ? 2 * r->undo_room : 1024;
		struct undo *more = realloc(r->undo, room * sizeof(*more));
		if (more == NULL)
			return false;
		r->undo = more;
		r->undo_room = room;
	}
	r->undo[r->undo_count++] = (struct undo){at, *at};
	*at |= (uint16_t)vls;
	return true;
}

static void take_back(struct repair *r, size_t count)
{
	while (r->undo_count > count) {
		r->undo_count--;
		*r->undo[r->undo_count].at = r->undo[r->undo_count].before;
	}
}

static bool spread(struct repair *r, uint32_t c, unsigned class, unsigned vls);

/* Packets go from one channel to the next. False if something may wait in a circle then. */
static bool turn(struct repair *r, uint32_t c, uint32_t onto, unsigned class, unsigned vls)
{
	struct packets *k = &r->k;
	const struct channel *by = &k->channel[c];
	unsigned out = k->channel[onto].out_port, behind = packets_behind(k, by->to, by->in_port, out, class, vls);
	uint16_t *waits = &k->waits[packets_turn(k, c, out, class)];
	for (unsigned fresh = vls & ~(unsigned)*waits; fresh != 0; fresh &= fresh - 1) {
		unsigned vl = (unsigned)__builtin_ctz(fresh);
		unsigned next = (unsigned)__builtin_ctz(packets_behind(k, by->to, by->in_port, out, class, 1u << vl));
		if (!order_before(&r->order, c * PACKETS_VLS + vl, onto * PACKETS_VLS + next) || !add(r, waits, 1u << vl))
			return false;
	}
	return spread(r, onto, class, behind);
}

/* Packets of a class come to a channel: they go on by all entries that its end may have. */
static bool spread(struct repair *r, uint32_t c, unsigned class, unsigned vls)
{
	uint16_t *on = &r->on[(size_t)c * r->k.classes + class];
	vls &= ~(unsigned)*on;
	if (vls == 0)
		return true;
	if (!add(r, on, vls))
		return false;
	uint32_t sw = r->k.channel[c].to, was = r->was[sw], now = r->now[sw];
	return (was == PACKETS_NONE || turn(r, c, was, class, vls)) &&
	       (now == PACKETS_NONE || now == was || turn(r, c, now, class, vls));
}

/* Lets the packets of a switch, and those that come by, go by a channel. */
static bool open_way(struct repair *r, uint32_t sw, uint32_t onto)
{
	const struct packets *k = &r->k;
	for (unsigned class = 0; class < k->classes; class++) {
		for (unsigned port = 1; port <= k->h->sw[sw].ports; port++) {
			uint32_t out = k->by_port[(size_t)sw * 256 + port], c = out ^ 1;
			unsigned vls = out == PACKETS_NONE ? 0 : r->on[(size_t)c * k->classes + class];
			if (vls != 0 && !turn(r, c, onto, class, vls))
				return false;
		}
		if (!spread(r, onto, class, packets_starting(k, onto, class, r->set, r->dest)))
			return false;
	}
	return true;
}

/* The entry that a switch is to have. */
static uint32_t chosen(const struct repair *r, uint32_t sw)
{
	return r->now[sw] != PACKETS_NONE || r->dropped[sw] ? r->now[sw] : r->was[sw];
}

/* Notes how far switches are from the home by the chosen entries, and which are cut off. */
static void measure(struct repair *r)
{
	for (uint32_t s = 0; s < r->k.h->switches; s++)
		r->depth[s] = LOST;
	r->depth[r->home] = 0;
	for (uint32_t start = 0; start < r->k.h->switches; start++) {
		uint32_t hops = 0, at = start;
		for (; r->depth[at] == LOST && chosen(r, at) != PACKETS_NONE; hops++)
			at = r->k.channel[chosen(r, at)].to;
		if (r->depth[at] == LOST)
			continue;
		hops += r->depth[at];
		for (at = start; r->depth[at] == LOST; at = r->k.channel[chosen(r, at)].to)
			r->depth[at] = hops--;
	}
}

/* Begins with a destination: the entries in force, and those chosen so far. */
static void begin(struct repair *r, unsigned set, uint32_t dest, const struct handoff *to)
{
	const struct handoff *h = r->k.h;
	r->set = set;
	r->dest = dest;
	r->home = handoff_home(h, dest);
	for (uint32_t s = 0; s < h->switches; s++) {
		uint8_t was = handoff_port(h, set, s, dest), now = handoff_port(to, set, s, dest);
		r->was[s] = s == r->home ? PACKETS_NONE : packets_channel(&r->k, s, was);
		r->now[s] = s == r->home || was == now ? PACKETS_NONE : packets_channel(&r->k, s, now);
		r->dropped[s] = was != now && r->now[s] == PACKETS_NONE;
	}
	measure(r);
}

/* All packets by entries of a kind. */
static bool start(struct repair *r, const uint32_t *by)
{
	for (uint32_t s = 0; s < r->k.h->switches; s++)
		for (unsigned class = 0; by[s] != PACKETS_NONE && class < r->k.classes; class++)
			if (!spread(r, by[s], class, packets_starting(&r->k, by[s], class, r->set, r->dest)))
				return false;
	return true;
}

/*
 * All packets by the entries in force, the chosen ones, and any mixture. False if they may wait in a circle, or memory
 * runs out.
 */
static bool note_packets(struct repair *r)
{
	/* Not for all destinations: most lose nothing, and OpenSM stands still meanwhile. */
	memset(r->on, 0, 2 * (size_t)r->k.h->cables * r->k.classes * sizeof(*r->on));
	r->undo_count = 0;
	return start(r, r->was) && start(r, r->now);
}

/* Whether switches are cut off, with hosts or at all. */
static bool is_cut_off(const struct repair *r, bool with_hosts)
{
	for (uint32_t s = 0; s < r->k.h->switches; s++)
		if (r->depth[s] == LOST && (r->living->sources[s] || !with_hosts))
			return true;
	return false;
}

/*
 * The best channel of a switch to neighbours so many hops from the home that was not tried yet: the one in force, then the
 * one that fewest destinations use. NONE if there is none left.
 */
static uint32_t best_way(const struct repair *r, uint32_t sw, uint32_t hops, const uint8_t *tried)
{
	const struct packets *k = &r->k;
	uint32_t best = PACKETS_NONE;
	for (unsigned port = 1; port <= k->h->sw[sw].ports; port++) {
		uint32_t c = packets_channel(k, sw, port);
		if (tried[port] || c == PACKETS_NONE || r->depth[k->channel[c].to] != hops)
			continue;
		if (c == r->was[sw])
			return c;
		if (best == PACKETS_NONE || r->load[c] < r->load[best])
			best = c;
	}
	return best;
}

/* Connects a switch by one that is so many hops from the home, if any such way is safe. */
static void connect(struct repair *r, uint32_t sw, uint32_t hops)
{
	uint8_t tried[256] = {0};
	uint32_t c;
	while (!packets_late(&r->k) && (c = best_way(r, sw, hops, tried)) != PACKETS_NONE) {
		size_t before = r->undo_count;
		r->now[sw] = c;
		if (c == r->was[sw] || open_way(r, sw, c)) {
			r->depth[sw] = hops + 1;
			return;
		}
		take_back(r, before);
		r->now[sw] = PACKETS_NONE;
		tried[r->k.channel[c].out_port] = 1;
	}
}

static void count(struct repair *r, uint32_t c, uint32_t by)
{
	if (c != PACKETS_NONE && r->living->dests[r->dest] == HOST)
		r->load[c] += by;
}

/* Writes the new entries. Those that lead nowhere any more are taken away. */
static void write_entries(struct repair *r, uint8_t *ports)
{
	const struct handoff *h = r->k.h;
	for (uint32_t s = 0; s < h->switches; s++) {
		if (s == r->home || (r->depth[s] != LOST && r->now[s] == PACKETS_NONE))
			continue;
		uint8_t *port = &ports[(size_t)s * handoff_dests(h) + r->dest];
		count(r, packets_channel(&r->k, s, *port), UINT32_MAX);
		count(r, r->now[s], 1);
		*port = r->now[s] == PACKETS_NONE ? HANDOFF_UNREACHABLE : r->k.channel[r->now[s]].out_port;
	}
}

/* Hops of the farthest switch that is connected. */
static uint32_t farthest(const struct repair *r)
{
	uint32_t hops = 0;
	for (uint32_t s = 0; s < r->k.h->switches; s++)
		hops = r->depth[s] != LOST && r->depth[s] > hops ? r->depth[s] : hops;
	return hops;
}

/*
 * Other ways to a destination, where they are needed: first for switches with hosts, to which hosts need them, later
 * for the others, as far as that is safe.
 */
static bool mend(struct repair *r, unsigned set, uint32_t dest, struct handoff *new, bool with_hosts, char *why)
{
	begin(r, set, dest, new);
	if (!is_cut_off(r, with_hosts))
		return true;
	if (!note_packets(r))
		return refuse(why, "packets wait in a circle, or no memory");
	for (uint32_t hops = 0; hops <= farthest(r) && is_cut_off(r, with_hosts); hops++)
		for (uint32_t s = 0; s < r->k.h->switches; s++)
			if (r->depth[s] == LOST)
				connect(r, s, hops);
	if (is_cut_off(r, true) && r->living->dests[dest] == HOST)
		return refuse(why, "no way to the host with port 0x%016llx is safe",
			      (unsigned long long)(dest < r->k.h->terminals ? r->k.h->terminal[dest].guid : 0));
	write_entries(r, (uint8_t *)new->ports[set]);
	return true;
}

/*
 * Takes away entries that lead nowhere any more. Those to what is gone are not tried against what is made now: they may
 * not lead over a cable again that comes back before the epoch does.
 */
static void forget(struct repair *r, unsigned set, uint32_t dest, struct handoff *new)
{
	begin(r, set, dest, new);
	write_entries(r, (uint8_t *)new->ports[set]);
}

static bool mend_all(struct repair *r, struct handoff *new, bool with_hosts, char *why)
{
	for (unsigned set = 0; set < new->sets; set++) {
		packets_set(&r->k, set);
		for (r->failed = 0; r->failed < handoff_dests(new); r->failed++) {
			uint32_t d = r->dests[r->failed];
			if (packets_late(&r->k))
				return false;
			if (r->living->dests[d] == GONE)
				forget(r, set, d, new);
			else if (!mend(r, set, d, new, with_hosts, why))
				return false;
		}
	}
	return true;
}

/* Notes how many destinations use each channel. */
static void note_load(struct repair *r)
{
	const struct handoff *h = r->k.h;
	memset(r->load, 0, 2 * (size_t)h->cables * sizeof(*r->load));
	for (unsigned set = 0; set < h->sets; set++)
		for (r->dest = 0; r->dest < handoff_dests(h); r->dest++)
			for (uint32_t s = 0; s < h->switches; s++)
				count(r, packets_channel(&r->k, s, handoff_port(h, set, s, r->dest)), 1);
}

/* Begins anew: with the tables in force, and with the destination first that had no way left. */
static void begin_anew(struct repair *r, struct handoff *new)
{
	const struct handoff *h = r->k.h;
	for (unsigned set = 0; set < h->sets; set++)
		memcpy((uint8_t *)new->ports[set], h->ports[set], (size_t)h->switches * handoff_dests(h));
	memcpy(r->k.waits, r->in_force, r->k.turns * r->k.classes * sizeof(*r->in_force));
	uint32_t dest = r->dests[r->failed];
	memmove(r->dests + 1, r->dests, r->failed * sizeof(*r->dests));
	r->dests[0] = dest;
	note_load(r);
}

struct handoff *repair_tables(const struct handoff *h, const struct living *living, char why[HANDOFF_WHY])
{
	struct repair r;
	struct handoff *new = repair_copy(h);
	bool made = repair_make(&r, h, NULL, living, why) && (new != NULL || refuse(why, NO_MEMORY)), good = false;
	for (int attempt = 0; made && !good && attempt < ATTEMPTS && !packets_late(&r.k); attempt++) {
		begin_anew(&r, new);
		good = mend_all(&r, new, true, why) && mend_all(&r, new, false, why);
	}
	if (repair_end(&r, good, why))
		return new;
	repair_free(new);
	return NULL;
}

/*
 * The same tables without entries from which packets do not arrive any more. They may be mixed with those of before. NULL
 * also if no entry leads nowhere.
 */
static struct handoff *drop(const struct handoff *h, const struct living *living, char why[HANDOFF_WHY])
{
	struct repair r;
	struct handoff *new = repair_copy(h);
	bool good = repair_make(&r, h, NULL, living, why) && (new != NULL || refuse(why, NO_MEMORY));
	for (unsigned set = 0; good && set < h->sets; set++)
		for (uint32_t d = 0; good && d < handoff_dests(h); d++) {
			forget(&r, set, d, new);
			good = !packets_late(&r.k);
		}
	if (repair_end(&r, good, why) && (repair_entries(h, new) > 0 || refuse(why, "no entry leads nowhere")))
		return new;
	repair_free(new);
	return NULL;
}

struct handoff *repair_two_steps(const struct handoff *h, const struct living *living, struct handoff **first,
				 char why[HANDOFF_WHY])
{
	char none[HANDOFF_WHY];
	*first = drop(h, living, none);
	struct handoff *second = *first != NULL ? repair_tables(*first, living, why) : NULL;
	if (second == NULL) {
		repair_free(*first);
		*first = NULL;
	}
	return second;
}

bool repair_may_change(const struct handoff *from, const struct handoff *to, const struct living *living,
		       char why[HANDOFF_WHY])
{
	struct repair r;
	bool good = repair_make(&r, from, to, living, why);
	for (unsigned set = 0; good && set < from->sets; set++) {
		packets_set(&r.k, set);
		for (uint32_t d = 0; good && d < handoff_dests(from); d++) {
			begin(&r, set, d, to);
			good = (note_packets(&r) && !packets_late(&r.k)) || refuse(why, "packets might wait in a circle while switches change");
		}
	}
	return repair_end(&r, good, why);
}
