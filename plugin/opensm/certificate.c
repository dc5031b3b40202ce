/*
 * See certificate.h.
 *
 * A packet that holds a buffer waits for the next one on its way. If each hop leads to a buffer that is later in
 * one order, nothing waits in a circle (Dally and Seitz 1987). One pass over the tables, from the leaves of each
 * tree to its home, notes on which VLs packets come to each turn; then each turn is held against the order once.
 */
#include "certificate.h"

#include <string.h>

#include "bytes.h"
#include "packets.h"

enum { NUMBER = 4 };

#define ABSENT UINT32_MAX /* place of a buffer that the order does not have */

/* The order, turned round: `place` is 16 for each channel, one for each VL. */
static bool read_order(const struct handoff *h, uint32_t *place, char *why)
{
	uint32_t buffers = 2 * h->cables * PACKETS_VLS;
	if (h->order == NULL || h->order_size % NUMBER != 0)
		return refuse(why, "its certificate has no order, or half a buffer: %zu bytes", h->order_size);
	memset(place, 0xFF, (size_t)buffers * sizeof(*place));
	for (size_t i = 0; i < h->order_size / NUMBER; i++) {
		uint32_t buffer = (uint32_t)little_endian(h->order + NUMBER * i, NUMBER);
		if (buffer >= buffers || buffer % PACKETS_VLS > PACKETS_MAX_VL || place[buffer] != ABSENT)
			return refuse(why, "its certificate has no buffer, or one twice, at place %zu", i);
		place[buffer] = (uint32_t)i + 1;
	}
	return true;
}

/* Whether all packets that go from a channel by a port find later buffers there. */
static bool check_turn(const struct packets *k, const uint32_t *place, uint32_t c, unsigned out, char *why)
{
	const struct channel *by = &k->channel[c];
	uint32_t onto = k->by_port[(size_t)by->to * 256 + out];
	for (unsigned class = 0; class < k->classes; class++) {
		unsigned before = k->waits[packets_turn(k, c, out, class)];
		for (; before != 0; before &= before - 1) {
			unsigned vl = (unsigned)__builtin_ctz(before);
			unsigned behind = packets_behind(k, by->to, by->in_port, out, class, 1u << vl);
			unsigned next = (unsigned)__builtin_ctz(behind);
			uint32_t from = place[(size_t)c * PACKETS_VLS + vl], to = place[(size_t)onto * PACKETS_VLS + next];
			if (from >= to || to == ABSENT)
				return refuse(why, "not certified: switch 0x%016llx, from port %u VL %u to port %u VL %u",
					      (unsigned long long)k->h->sw[by->to].guid, by->in_port, vl, out, next);
		}
	}
	return true;
}

bool certificate_check(const struct handoff *h, char why[HANDOFF_WHY])
{
	if (!certificate_there(h))
		return true;
	/* Where nobody sends, every order holds. */
	if ((packets_promise(h) & PROMISE_SENDERS) == 0)
		return refuse(why, "its promise names no sender");
	struct packets k;
	bool good = packets_make(&k, h, NULL, NULL, false, why);
	uint32_t *place = good ? packets_room(&k, (size_t)2 * h->cables * PACKETS_VLS, sizeof(*place)) : NULL;
	if (good && place == NULL)
		good = refuse(why, NO_MEMORY);
	good = good && read_order(h, place, why);
	good = good && packets_follow(&k);
	for (uint32_t c = 0; good && c < 2 * h->cables; c++)
		for (unsigned out = 1; good && out <= h->sw[k.channel[c].to].ports; out++)
			good = check_turn(&k, place, c, out, why);
	packets_free(&k);
	return good;
}
