/*
 * Other ways for what a cable or a switch that is gone has cut off.
 *
 * Only destinations that some switch with hosts does not reach any more get new entries, and only at switches that
 * do not reach them. Each new entry is tried against everything that may be in flight: packets of the promise by
 * the entries in force, by the new ones, and by any mixture, as switches change one after the other.
 *
 * Where no such way is safe, two steps may find one: first all switches lose the entries that lead nowhere any more,
 * and when every one of them has, new ones are found on top of what is left (`repair_two_steps`). Packets by the entries
 * that were dropped are in nobody's way then.
 *
 * Knows nothing of OpenSM, so that it can be run on files by itself.
 */
#ifndef SAROUTER_REPAIR_H
#define SAROUTER_REPAIR_H

#include "handoff.h"

#include <stdbool.h>

/* What there is of the fabric, by number in the tables, and how long to look for ways on it. */
struct living {
	const uint8_t *cables;  /* [cables] */
	const uint8_t *sources; /* [switches]: switches with hosts: they must reach all hosts */
	const uint8_t *dests;   /* [dests]: 0 not there, 1 there, 2 hosts */
	int64_t until;          /* as now_ms: whoever has found none by then gives up; 0: never */
};

/*
 * Tables with other ways; they share all but the ports with `h`, which must stay. NULL, with the reason, if there
 * are none, packets might wait in a circle, or the time is up. To be released by repair_free. O(switches * dests * classes of SLs) for
 * what is in flight, and O(switches * ports) and the searches of an order for each destination that lost something.
 */
struct handoff *repair_tables(const struct handoff *h, const struct living *living, char why[HANDOFF_WHY]);

/*
 * Both steps: the tables of the second, and in `first` those of the first, without the entries that lead nowhere. NULL
 * twice, with the reason, if the second finds nothing or no entry leads nowhere. As repair_tables.
 */
struct handoff *repair_two_steps(const struct handoff *h, const struct living *living, struct handoff **first,
				 char why[HANDOFF_WHY]);

/*
 * Whether switches may go from one to the other of two tables that are alike, in any order, while programs use the layers
 * of both. O(switches * dests * classes of SLs), and the searches of an order.
 */
bool repair_may_change(const struct handoff *from, const struct handoff *to, const struct living *living,
		       char why[HANDOFF_WHY]);

/* Whether two tables are of one fabric and have the same lanes: they differ in their ports, layers and promises alone. */
bool repair_is_alike(const struct handoff *a, const struct handoff *b);

/* The same tables with ports of their own, or NULL if memory runs out. */
struct handoff *repair_copy(const struct handoff *h);

/* At how many (switch, destination) two tables that differ in their ports alone are not the same. */
uint64_t repair_entries(const struct handoff *a, const struct handoff *b);

/*
 * The entries of tables that were repaired, as a file, to be freed: see plugin/README.md, "The repair". Both may be NULL:
 * without a repair it has no entries, without tables it is of no epoch. NULL if memory runs out.
 */
char *repair_text(const struct handoff *h, const struct handoff *repaired);

void repair_free(struct handoff *repaired);

#endif
