/* What the plugin reports to the service: opensm-status.json, specified in plugin/README.md. */
#ifndef SAROUTER_STATUS_H
#define SAROUTER_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "handoff.h"

#define PLUGIN_VERSION "0.1.0"

/* What a set of tables amounts to on the fabric as it is. */
struct status_tables {
	uint64_t generation;
	uint8_t fingerprint[32];
	unsigned layers, lanes; /* lanes: 0 without a lane map */
	unsigned lid_sets;
	bool certified; /* they came with a certificate, and it holds */
	uint64_t lost_entries, missing_switches, stranded_pairs, uncovered_lids, guest_lids;
	uint64_t repaired_entries; /* 0: they are those of the epoch */
};

struct status_refusal {
	bool refused;
	uint64_t generation; /* 0 if it could not be read */
	char reason[HANDOFF_WHY];
};

struct status {
	const char *opensm;           /* its version */
	uint64_t port;                /* GUID of the port that OpenSM works by */
	const char *state;            /* what OpenSM is among those of its subnet */
	const char *warning;          /* or NULL */
	bool running;
	unsigned heartbeat;
	uint64_t routings;
	char engine[64];              /* whose tables are in force; empty before the first routing */
	bool ours;                    /* whether `tables` are in force */
	struct status_tables tables;
	struct timespec asked;        /* to look at an epoch at which it has not looked yet; 0: nothing */
	struct timespec acknowledged; /* of the last routing */
	struct status_refusal refusal;
};

void status_refuse(struct status_refusal *refusal, uint64_t generation, const char *reason);

/* Replaces the file by rename. Returns 0, or an errno: see file_replace. */
int status_write(const struct status *status, const char *path);

#endif
