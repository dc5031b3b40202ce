/*
 * Checks the order of buffers that comes with tables: whether packets can wait for each other in a circle is
 * seen without a search.
 *
 * The order is specified in plugin/README.md. This part knows nothing of OpenSM, so that it can be run on
 * damaged files by itself.
 */
#ifndef SAROUTER_CERTIFICATE_H
#define SAROUTER_CERTIFICATE_H

#include <stdbool.h>

#include "handoff.h"

/* Whether the tables have a certificate that says which packets it is about. Earlier services wrote none. */
static inline bool certificate_there(const struct handoff *h)
{
	return h->promise != NULL;
}

/*
 * Whether all packets that the promise lets loose go from earlier buffers to later ones: true also if there
 * is no promise, false if it lets none loose. Says why not. O(switches * dests * classes of SLs), which is the size of the tables where
 * all SLs share their lanes.
 */
bool certificate_check(const struct handoff *h, char why[HANDOFF_WHY]);

#endif
