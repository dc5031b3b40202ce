/* Lays tables over the fabric as OpenSM sees it: what is there, what is missing, what to write. */
#ifndef SAROUTER_FIT_H
#define SAROUTER_FIT_H

/* First: without it osm_opensm_t has other offsets, and no compiler says so. */
#include <opensm/osm_config.h>

#include <opensm/osm_opensm.h>
#include <stdbool.h>

#include "handoff.h"

/* LIDs of a port that is there, with the same routes. */
struct fit_target {
	uint16_t first_lid, last_lid;
	uint8_t set;       /* whose tables they get */
	uint32_t dest;     /* whose column of the tables it gets */
	bool host;
	uint8_t last_port; /* of the home switch */
};

struct fit {
	osm_switch_t **sw;          /* [switches], NULL if it is not there */
	uint8_t *alive;             /* [cables] */
	struct fit_target *target;  /* [targets] */
	size_t targets;
	unsigned data_vls;          /* of the weakest cable that is up */
	unsigned narrow_cables;     /* that are up and do not count, because they have fewer VLs than the tables need */
	uint64_t narrow_guid;       /* if there are any: where one of them begins */
	uint8_t narrow_port;
	uint64_t lost_entries;      /* see plugin/README.md, "The status file" */
	uint64_t missing_switches;  /* of the tables, that OpenSM does not see */
	uint64_t uncovered_lids, guest_lids;
	uint64_t uncovered_hosts;   /* of the uncovered LIDs */
	uint64_t uncovered_guid;    /* if there are any: the port of one of them */
	uint64_t stranded_pairs;    /* switch with hosts, LID of a host: no way from one to the other */
	uint64_t stranded_guid;     /* if there are any: the switch of one of them */
	uint16_t stranded_lid;
	uint64_t lost_guid;         /* if there are lost entries: where one of them is */
	uint8_t lost_port;
};

/* What a LID is to the tables in force. */
struct fit_lid {
	int32_t dest; /* -1: nothing */
	int32_t sw;   /* number of the switch its packets start at; -1: none */
	uint8_t set;  /* whose tables it has */
};

/*
 * Compares. Changes nothing of OpenSM's; its lock must be held. Returns false if memory runs out.
 * To be released by fit_free, whatever the outcome. O(switches * ports).
 */
bool fit_make(struct fit *fit, const struct handoff *h, osm_subn_t *subn);

/* The same with switches and cables alone. O(switches + cables). */
bool fit_cables(struct fit *fit, const struct handoff *h, osm_subn_t *subn);

/*
 * Fills every switch's new_lft and lids[0..IB_LID_UCAST_END_HO]. OpenSM's lock must be held
 * exclusively. O(switches * ports).
 */
void fit_write(const struct fit *fit, const struct handoff *h, osm_subn_t *subn, struct fit_lid *lids);

/*
 * Whether all switches have these tables, as they answered: what is not there yet may be on its way. OpenSM's lock must be
 * held. O(switches * ports).
 */
bool fit_is_written(const struct fit *fit, const struct handoff *h);

void fit_free(struct fit *fit);

#endif
