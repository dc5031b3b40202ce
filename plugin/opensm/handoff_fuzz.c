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
#include "handoff.h"

static uint64_t state;

/* SplitMix64. */
static uint64_t next_random(void)
{
	uint64_t z = state += 0x9E3779B97F4A7C15ull;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n == 0 ? 0 : next_random() % n;
}

static void put_little_endian(uint8_t *p, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

/* A checksum and a length that are right, if there is room for them. */
static void reseal(uint8_t *file, size_t size)
{
	if (size < 136)
		return;
	if (below(2) == 0)
		put_little_endian(file + 16, size, 8);
	put_little_endian(file + size - 8, handoff_crc64(file, size - 8), 8);
}

/* Numbers that parsers stumble over. */
static uint64_t odd_number(void)
{
	static const uint64_t odd[] = {0, 1, 2, 127, 128, 254, 255, 256, 49151, 49152, 65535, 1u << 30,
				       0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, UINT64_MAX};
	return odd[below(sizeof(odd) / sizeof(odd[0]))];
}

static void mutate(uint8_t *file, size_t *size)
{
	size_t at = below(*size);
	switch (below(7)) {
	case 0:
		file[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		file[at] = (uint8_t)next_random();
		break;
	case 2: /* fields of the header and its sections are few: aim at them */
		if (*size >= 128 + 7 * 32 + 8)
			put_little_endian(file + 8 + 4 * below(74), odd_number(),
					  below(2) == 0 ? 4 : 8);
		break;
	case 3:
		*size = below(*size + 1);
		break;
	case 4: { /* a piece over another */
		size_t from = below(*size), length = below(*size - (from > at ? from : at) + 1);
		memmove(file + at, file + from, length);
		break;
	}
	case 5:
		for (size_t i = at; i < *size && i < at + 16; i++)
			file[i] = (uint8_t)next_random();
		break;
	default: /* a table entry to another plausible port */
		file[*size - 1 - below(*size / 2 + 1)] = (uint8_t)below(6);
	}
}

static void keep(const char *directory, unsigned number, const uint8_t *file, size_t size)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%u.bin", directory, number);
	FILE *out = fopen(path, "wb");
	if (out == NULL || fwrite(file, 1, size, out) != size || fclose(out) != 0) {
		perror(path);
		exit(2);
	}
}

static uint8_t *slurp(const char *path, size_t *size)
{
	FILE *in = fopen(path, "rb");
	uint8_t *file = malloc(HANDOFF_MAX_FILE / 64);
	if (in == NULL || file == NULL) {
		perror(path);
		exit(2);
	}
	*size = fread(file, 1, HANDOFF_MAX_FILE / 64, in);
	fclose(in);
	return file;
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: handoff_fuzz FILE COUNT SEED [KEEP_DIR KEEP]\n");
		return 2;
	}
	size_t good_size;
	uint8_t *good = slurp(argv[1], &good_size);
	unsigned long count = strtoul(argv[2], NULL, 10), wanted = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
	unsigned long refused = 0, accepted = 0;
	unsigned kept = 0;
	state = strtoull(argv[3], NULL, 10);
	for (unsigned long i = 0; i < count; i++) {
		size_t size = good_size;
		/* Exactly as large as the file, so that the sanitizer sees the first byte beyond. */
		uint8_t *file = malloc(size > 0 ? size : 1), *exact;
		if (file == NULL)
			return 2;
		memcpy(file, good, good_size);
		for (size_t n = 1 + below(4); n > 0 && size > 0; n--)
			mutate(file, &size);
		if (below(2) == 0)
			reseal(file, size);
		exact = malloc(size > 0 ? size : 1);
		if (exact == NULL)
			return 2;
		memcpy(exact, file, size);
		char why[HANDOFF_WHY];
		struct handoff *h = handoff_parse(exact, size, why);
		if (h == NULL || !certificate_check(h, why)) {
			refused++;
			if (kept < wanted)
				keep(argv[4], kept++, file, size);
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
