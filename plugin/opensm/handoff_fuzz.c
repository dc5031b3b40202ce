/*
 * Feeds damaged copies of a good hand-off file to the parser and to the check of certificates. Built with the sanitizers, so that
 * any access out of bounds ends it.
 *
 *   handoff_fuzz FILE COUNT SEED [KEEP_DIR KEEP]
 *
 * Half of the copies get a fresh checksum: otherwise nothing beyond it would ever be tried. Writes
 * the first KEEP copies that were refused to KEEP_DIR, for use on a live OpenSM, and prints how many
 * were refused and accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certificate.h"
#include "damage.h"
#include "handoff.h"

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: handoff_fuzz FILE COUNT SEED [KEEP_DIR KEEP]\n");
		return 2;
	}
	size_t good_size;
	uint8_t *good = damage_read(argv[1], &good_size);
	unsigned long count = strtoul(argv[2], NULL, 10), wanted = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
	unsigned long refused = 0, accepted = 0;
	unsigned kept = 0;
	damage_seed(strtoull(argv[3], NULL, 10));
	for (unsigned long i = 0; i < count; i++) {
		size_t size = good_size;
		/* Exactly as large as the file, so that the sanitizer sees the first byte beyond. */
		uint8_t *file = malloc(size > 0 ? size : 1), *exact;
		if (file == NULL)
			return 2;
		memcpy(file, good, good_size);
		for (size_t n = 1 + damage_below(4); n > 0 && size > 0; n--)
			damage_once(file, &size);
		if (damage_below(2) == 0)
			damage_reseal(file, size);
		exact = malloc(size > 0 ? size : 1);
		if (exact == NULL)
			return 2;
		memcpy(exact, file, size);
		char why[HANDOFF_WHY];
		struct handoff *h = handoff_parse(exact, size, why);
		if (h == NULL || !certificate_check(h, why)) {
			refused++;
			if (kept < wanted)
				damage_write(argv[4], kept++, file, size);
		} else {
			accepted++;
		}
		handoff_free(h);
		free(file);
	}
	free(good);
	printf("refused %lu accepted %lu\n", refused, accepted);
	return 0;
}
