/* The fabric as OpenSM sees it, as a file for the service: the form of ibnetdiscover. */
#ifndef SAROUTER_FABRIC_H
#define SAROUTER_FABRIC_H

/* First: see fit.h. */
#include <opensm/osm_config.h>

#include <opensm/osm_opensm.h>

/*
 * The text, to be freed; NULL if memory runs out. OpenSM's lock must be held. Nodes by GUID, only
 * cables that are up at both ends, so the same fabric gives the same text. O(ports).
 */
char *fabric_text(const osm_subn_t *subn);

#endif
