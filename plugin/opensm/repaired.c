/* See repair.h: tables whose ports are not all those of their epoch. */
#include "repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handoff *repair_copy(const struct handoff *h)
{
	struct handoff *new = malloc(sizeof(*new));
	if (new == NULL)
		return NULL;
	*new = *h;
	new->file = NULL;
	size_t size = (size_t)h->switches * handoff_dests(h);
	bool good = true;
	for (unsigned set = 0; set < h->sets; set++) {
		uint8_t *ports = malloc(size);
		if (ports != NULL)
			memcpy(ports, h->ports[set], size);
		new->ports[set] = ports;
		good = good && ports != NULL;
	}
	if (good)
		return new;
	repair_free(new);
	return NULL;
}

/* Whether two parts of files are the same. */
static bool same_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

/* The fingerprint says the same, but who goes by numbers of one in the other must not have to believe it. */
static bool same_fabric(const struct handoff *a, const struct handoff *b)
{
	if (memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) != 0 || a->switches != b->switches ||
	    a->terminals != b->terminals || a->cables != b->cables)
		return false;
	for (uint32_t s = 0; s < a->switches; s++)
		if (a->sw[s].guid != b->sw[s].guid || a->sw[s].ports != b->sw[s].ports)
			return false;
	for (uint32_t t = 0; t < a->terminals; t++)
		if (a->terminal[t].guid != b->terminal[t].guid || a->terminal[t].sw != b->terminal[t].sw ||
		    a->terminal[t].port != b->terminal[t].port)
			return false;
	for (uint32_t c = 0; c < a->cables; c++)
		if (a->cable[c].a != b->cable[c].a || a->cable[c].a_port != b->cable[c].a_port ||
		    a->cable[c].b != b->cable[c].b || a->cable[c].b_port != b->cable[c].b_port)
			return false;
	return same_bytes(a->aggregation, a->aggregation_size, b->aggregation, b->aggregation_size);
}

static bool same_lanes(const struct handoff *a, const struct handoff *b)
{
	size_t turns = 0;
	for (uint32_t s = 0; a->lane_rows != NULL && s < a->switches; s++)
		turns += (a->sw[s].ports + 1u) * (a->sw[s].ports + 1u);
	return same_bytes(a->lane_rows, a->lane_row_count * HANDOFF_SLS, b->lane_rows, b->lane_row_count * HANDOFF_SLS) &&
	       same_bytes(a->lane_index, 2 * turns, b->lane_index, 2 * turns);
}

bool repair_is_alike(const struct handoff *a, const struct handoff *b)
{
	return a->sets == b->sets && same_fabric(a, b) && same_lanes(a, b);
}

uint64_t repair_entries(const struct handoff *a, const struct handoff *b)
{
	uint64_t entries = 0;
	for (unsigned set = 0; set < a->sets && a->ports[set] != b->ports[set]; set++)
		for (size_t i = 0; i < (size_t)a->switches * handoff_dests(a); i++)
			entries += a->ports[set][i] != b->ports[set][i];
	return entries;
}

char *repair_text(const struct handoff *h, const struct handoff *repaired)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (out == NULL)
		return NULL;
	fprintf(out, "epoch %" PRIu64 "\nentries %" PRIu64 "\n", h != NULL ? h->epoch : 0,
		repaired != NULL ? repair_entries(h, repaired) : 0);
	for (unsigned set = 0; repaired != NULL && set < h->sets; set++)
		for (uint32_t s = 0; s < h->switches; s++)
			for (uint32_t d = 0; d < handoff_dests(h); d++)
				if (handoff_port(h, set, s, d) != handoff_port(repaired, set, s, d))
					fprintf(out, "%u %u %u %u\n", set, s, d, handoff_port(repaired, set, s, d));
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

void repair_free(struct handoff *repaired)
{
	if (repaired == NULL)
		return;
	for (unsigned set = 0; set < repaired->sets; set++)
		free((uint8_t *)repaired->ports[set]);
	free(repaired);
}
