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
