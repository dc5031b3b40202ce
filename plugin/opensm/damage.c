/* See damage.h. */
#include "damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handoff.h"

static uint64_t state;

void damage_seed(uint64_t seed)
{
	state = seed;
}

/* SplitMix64. */
static uint64_t next_random(void)
{
	uint64_t z = state += 0x9E3779B97F4A7C15ull;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

size_t damage_below(size_t n)
{
	return n == 0 ? 0 : next_random() % n;
}

static void put_little_endian(uint8_t *p, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

void damage_reseal(uint8_t *file, size_t size)
{
	if (size < 136)
		return;
	if (damage_below(2) == 0)
		put_little_endian(file + 16, size, 8);
	put_little_endian(file + size - 8, handoff_crc64(file, size - 8), 8);
}

/* Numbers that parsers stumble over. */
static uint64_t odd_number(void)
{
	static const uint64_t odd[] = {0, 1, 2, 127, 128, 254, 255, 256, 49151, 49152, 65535, 1u << 30,
				       0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, UINT64_MAX};
	return odd[damage_below(sizeof(odd) / sizeof(odd[0]))];
}

void damage_once(uint8_t *file, size_t *size)
{
	size_t at = damage_below(*size);
	switch (damage_below(7)) {
	case 0:
		file[at] ^= (uint8_t)(1u << damage_below(8));
		break;
	case 1:
		file[at] = (uint8_t)next_random();
		break;
	case 2: /* fields of the header and its sections are few: aim at them */
		if (*size >= 128 + 7 * 32 + 8)
			put_little_endian(file + 8 + 4 * damage_below(74), odd_number(),
					  damage_below(2) == 0 ? 4 : 8);
		break;
	case 3:
		*size = damage_below(*size + 1);
		break;
	case 4: { /* a piece over another */
		size_t from = damage_below(*size), length = damage_below(*size - (from > at ? from : at) + 1);
		memmove(file + at, file + from, length);
		break;
	}
	case 5:
		for (size_t i = at; i < *size && i < at + 16; i++)
			file[i] = (uint8_t)next_random();
		break;
	default: /* a table entry to another plausible port */
		file[*size - 1 - damage_below(*size / 2 + 1)] = (uint8_t)damage_below(6);
	}
}

uint8_t *damage_read(const char *path, size_t *size)
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

void damage_write(const char *directory, size_t number, const uint8_t *file, size_t size)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%zu.bin", directory, number);
	FILE *out = fopen(path, "wb");
	if (out == NULL || fwrite(file, 1, size, out) != size || fclose(out) != 0) {
		perror(path);
		exit(2);
	}
}
