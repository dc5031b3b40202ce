/*
 * Feeds damaged hand-off files to the parser and to the check of certificates, and goes on from those that led
 * somewhere new in them. Built with the sanitizers and with -fsanitize-coverage=trace-pc, so that any access out of
 * bounds ends it, and each branch taken is seen.
 *
 *   handoff_guided SECONDS SEED [-k KEEP_DIR] FILE...
 *
 * Writes those that led somewhere new and are refused to KEEP_DIR, for use on a live OpenSM. Prints how many files were tried, were refused, were kept to go on from, and how many pairs of branches were seen.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "certificate.h"
#include "damage.h"
#include "handoff.h"

enum { MAP = 1 << 13, MOST = 4096 };

#define UNSEEN __attribute__((no_sanitize_coverage))

struct input {
	uint8_t *bytes;
	size_t size;
};

static uint8_t hits[MAP], seen[MAP];
static struct input kept[MOST];
static size_t kept_count;

/* GCC calls it at each branch. */
void __sanitizer_cov_trace_pc(void);

UNSEEN void __sanitizer_cov_trace_pc(void)
{
	static uint64_t before;
	uint64_t here = (uint64_t)__builtin_return_address(0) * 0x9E3779B97F4A7C15ull >> 51;
	uint8_t *slot = &hits[(here ^ before) % MAP];
	before = here >> 1;
	if (*slot < 255)
		(*slot)++;
}

/* How often, roughly: each power of two is a bit. */
UNSEEN static uint8_t bucket(uint8_t count)
{
	return (uint8_t)(count == 0 ? 0 : 1u << (31 - __builtin_clz(count)));
}

/* Whether what was just tried led somewhere new. */
UNSEEN static bool is_news(void)
{
	bool news = false;
	for (size_t i = 0; i < MAP; i++) {
		news |= (bucket(hits[i]) & ~seen[i]) != 0;
		seen[i] |= bucket(hits[i]);
	}
	return news;
}

UNSEEN static void *copy(const uint8_t *bytes, size_t size)
{
	uint8_t *copied = malloc(size > 0 ? size : 1);
	if (copied == NULL)
		exit(2);
	memcpy(copied, bytes, size);
	return copied;
}

/* Whether the plugin would refuse it. Of exactly its size, so that the sanitizer sees the first byte beyond. */
UNSEEN static bool refused(const uint8_t *bytes, size_t size)
{
	char why[HANDOFF_WHY];
	uint8_t *file = copy(bytes, size);
	memset(hits, 0, sizeof(hits));
	struct handoff *h = handoff_parse(file, size, why);
	bool bad = h == NULL || !certificate_check(h, why);
	handoff_free(h);
	return bad;
}

UNSEEN static void keep(const uint8_t *bytes, size_t size)
{
	if (kept_count < MOST)
		kept[kept_count++] = (struct input){copy(bytes, size), size};
}

/* A part of a kept file over the same part of another. */
UNSEEN static void splice(uint8_t *bytes, size_t size)
{
	const struct input *other = &kept[damage_below(kept_count)];
	size_t both = size < other->size ? size : other->size, from = damage_below(both);
	memcpy(bytes + from, other->bytes + from, damage_below(both - from + 1));
}

UNSEEN int main(int argc, char **argv)
{
	unsigned long tried = 0, bad = 0;
	bool writes = argc > 5 && strcmp(argv[3], "-k") == 0;
	int first = writes ? 5 : 3;
	if (argc <= first) {
		fprintf(stderr, "usage: handoff_guided SECONDS SEED [-k KEEP_DIR] FILE...\n");
		return 2;
	}
	size_t good = (size_t)(argc - first), written = 0;
	time_t end = time(NULL) + (time_t)strtol(argv[1], NULL, 10);
	damage_seed(strtoull(argv[2], NULL, 10));
	for (int i = first; i < argc; i++) {
		size_t size;
		uint8_t *file = damage_read(argv[i], &size);
		refused(file, size);
		is_news();
		keep(file, size);
		free(file);
	}
	for (; time(NULL) < end; tried++) {
		/* Half of the time from a good file: most others are refused early. */
		const struct input *from = &kept[damage_below(damage_below(2) == 0 ? good : kept_count)];
		size_t size = from->size;
		uint8_t *file = copy(from->bytes, size);
		if (damage_below(8) == 0 && size > 0)
			splice(file, size);
		for (size_t n = 1 + damage_below(4); n > 0 && size > 0; n--)
			damage_once(file, &size);
		if (damage_below(16) != 0)
			damage_reseal(file, size);
		bool is_bad = refused(file, size);
		bad += is_bad;
		if (is_news()) {
			keep(file, size);
			if (writes && is_bad)
				damage_write(argv[4], written++, file, size);
		}
		free(file);
	}
	size_t pairs = 0;
	for (size_t i = 0; i < MAP; i++)
		pairs += seen[i] != 0;
	printf("tried %lu refused %lu kept %zu pairs %zu\n", tried, bad, kept_count, pairs);
	while (kept_count > 0)
		free(kept[--kept_count].bytes);
	return 0;
}
