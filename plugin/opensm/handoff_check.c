/*
 * Prints what the plugin reads from a hand-off file, every field of it: for people, and for the
 * test that compares it with what was written.
 *
 *   handoff_check FILE
 *   handoff_check --certificate FILE...   a line for each: whether the plugin would take it
 *   handoff_check --repair FILE CABLE... -DEST... =MS  the repair that the plugin writes when these cables, and hosts by
 *                                         number of destination, are gone: both steps, if it takes two; within so many
 *                                         milliseconds, if it says so
 *   handoff_check --follow FILE NEXT CABLE...  whether the epoch of another file may follow that repair, one switch after
 *                                         the other; without cables, the epoch of the first file itself
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "certificate.h"
#include "handoff.h"
#include "repair.h"

static void print_hex(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

static void print_rows(const char *what, const struct handoff *h, const uint8_t *values)
{
	size_t dests = handoff_dests(h);
	for (uint32_t s = 0; s < h->switches; s++) {
		printf("%s %u ", what, s);
		print_hex(values + s * dests, dests);
	}
}

static void print_lanes(const struct handoff *h)
{
	for (uint32_t s = 0; h->lane_rows != NULL && s < h->switches; s++)
		for (unsigned in = 0; in <= h->sw[s].ports; in++)
			for (unsigned out = 0; out <= h->sw[s].ports; out++) {
				printf("lanes %u %u %u ", s, in, out);
				print_hex(handoff_lane_row(h, s, in, out), HANDOFF_SLS);
			}
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One line: `certified`, `no certificate`, `unreadable` or `refused`, the latter two with why. CPU times to standard error. */
static bool print_verdict(const char *path)
{
	char why[HANDOFF_WHY];
	double start = seconds();
	struct handoff *h = handoff_read(path, why);
	if (h == NULL) {
		printf("%s: unreadable: %s\n", path, why);
		return false;
	}
	double middle = seconds();
	bool good = certificate_check(h, why);
	double end = seconds();
	if (good)
		printf("%s: %s\n", path, certificate_there(h) ? "certified" : "no certificate");
	else
		printf("%s: refused: %s\n", path, why);
	fprintf(stderr, "%s: read in %.3f s, certificate in %.3f s\n", path, middle - start, end - middle);
	handoff_free(h);
	return good;
}

/*
 * What is left of a fabric without some cables, and destinations after a minus sign: a switch without any cable is gone,
 * and its hosts with it. After an equals sign, for how many milliseconds to look for ways.
 */
static struct living without(const struct handoff *h, char **gone, int count)
{
	uint8_t *alive = malloc(h->cables + 1u), *sources = calloc(h->switches, 1), *dests = calloc(handoff_dests(h), 1);
	uint8_t *there = calloc(h->switches, 1);
	if (alive == NULL || sources == NULL || dests == NULL || there == NULL)
		exit(1);
	int64_t until = 0;
	memset(alive, 1, h->cables);
	for (int i = 0; i < count; i++)
		if (gone[i][0] == '=')
			until = now_ms() + strtol(gone[i] + 1, NULL, 10);
		else if (gone[i][0] != '-')
			alive[strtoul(gone[i], NULL, 10) % (h->cables + 1u)] = 0;
	for (uint32_t c = 0; c < h->cables; c++)
		if (alive[c])
			there[h->cable[c].a] = there[h->cable[c].b] = 1;
	for (uint32_t d = 0; d < handoff_dests(h); d++) {
		uint32_t home = handoff_home(h, d);
		dests[d] = !there[home] ? 0 : d < h->terminals ? 2 : 1;
	}
	for (int i = 0; i < count; i++)
		if (gone[i][0] == '-')
			dests[strtoul(gone[i] + 1, NULL, 10) % handoff_dests(h)] = 0;
	for (uint32_t d = 0; d < handoff_dests(h); d++)
		sources[handoff_home(h, d)] |= dests[d] == 2;
	free(there);
	return (struct living){alive, sources, dests, until};
}

static void release(const struct living *living)
{
	free((uint8_t *)living->cables);
	free((uint8_t *)living->sources);
	free((uint8_t *)living->dests);
}

/* The file that the plugin would write. */
static bool print_tables(const struct handoff *h, const struct handoff *repaired)
{
	char *text = repair_text(h, repaired);
	if (text != NULL)
		fputs(text, stdout);
	free(text);
	return text != NULL;
}

/* Both steps of a repair that is not safe in one. The tables of the second, or NULL. */
static struct handoff *print_steps(const struct handoff *h, const struct living *living, char why[HANDOFF_WHY])
{
	struct handoff *first, *second = repair_two_steps(h, living, &first, why);
	if (second != NULL && !print_tables(h, first)) {
		repair_free(second);
		second = NULL;
	}
	repair_free(first);
	return second;
}

static int print_repair(const struct handoff *h, char **gone, int count)
{
	char why[HANDOFF_WHY] = "no memory";
	struct living living = without(h, gone, count);
	double start = seconds();
	struct handoff *mended = repair_tables(h, &living, why);
	if (mended == NULL)
		mended = print_steps(h, &living, why);
	fprintf(stderr, "repaired in %.3f s\n", seconds() - start);
	bool good = mended != NULL && print_tables(h, mended);
	if (!good)
		printf("refused: %s\n", why);
	/* And back, when the cables are there again. */
	uint8_t *alive = (uint8_t *)living.cables;
	memset(alive, 1, h->cables);
	if (good && !repair_may_change(mended, h, &living, why))
		printf("back refused: %s\n", why);
	repair_free(mended);
	release(&living);
	return good ? 0 : 1;
}

/* One line: `follows`, `not alike`, or `refused` with why. */
static int print_change(const struct handoff *h, const struct handoff *next, char **gone, int count)
{
	char why[HANDOFF_WHY] = "no memory";
	struct living living = without(h, gone, count);
	struct handoff *mended = count > 0 ? repair_tables(h, &living, why) : repair_copy(h);
	bool alike = mended != NULL && repair_is_alike(mended, next);
	double start = seconds();
	bool good = alike && repair_may_change(mended, next, &living, why);
	fprintf(stderr, "compared in %.3f s\n", seconds() - start);
	if (good)
		printf("follows\n");
	else if (mended != NULL && !alike)
		printf("not alike\n");
	else
		printf("refused: %s\n", why);
	repair_free(mended);
	release(&living);
	return good ? 0 : 1;
}

static int check_change(int argc, char **argv)
{
	char why[HANDOFF_WHY];
	struct handoff *h = handoff_read(argv[2], why), *next = h != NULL ? handoff_read(argv[3], why) : NULL;
	if (next == NULL)
		fprintf(stderr, "handoff_check: %s\n", why);
	int answer = next != NULL ? print_change(h, next, argv + 4, argc - 4) : 1;
	handoff_free(h);
	handoff_free(next);
	return answer;
}

static int print_all(const struct handoff *h)
{
	printf("epoch %" PRIu64 "\nengine %s\nlayers %u\nfingerprint ", h->epoch, h->engine, h->layers_used);
	print_hex(h->fingerprint, sizeof(h->fingerprint));
	for (uint32_t s = 0; s < h->switches; s++)
		printf("switch 0x%016" PRIx64 " %u\n", h->sw[s].guid, h->sw[s].ports);
	for (uint32_t t = 0; t < h->terminals; t++)
		printf("terminal 0x%016" PRIx64 " %u %u\n", h->terminal[t].guid, h->terminal[t].sw,
		       h->terminal[t].port);
	for (uint32_t c = 0; c < h->cables; c++)
		printf("cable %u %u %u %u\n", h->cable[c].a, h->cable[c].a_port, h->cable[c].b,
		       h->cable[c].b_port);
	print_rows("ports", h, h->ports[0]);
	print_rows("layers", h, h->layers[0]);
	if (h->sets > 1) {
		print_rows("high ports", h, h->ports[1]);
		print_rows("high layers", h, h->layers[1]);
	}
	print_lanes(h);
	return 0;
}

int main(int argc, char **argv)
{
	char why[HANDOFF_WHY];
	if (argc > 2 && strcmp(argv[1], "--certificate") == 0) {
		bool good = true;
		for (int i = 2; i < argc; i++)
			good = print_verdict(argv[i]) && good;
		return good ? 0 : 1;
	}
	if (argc > 3 && strcmp(argv[1], "--follow") == 0)
		return check_change(argc, argv);
	bool repair = argc > 2 && strcmp(argv[1], "--repair") == 0;
	if (argc != 2 && !repair) {
		fprintf(stderr, "usage: handoff_check FILE | handoff_check --certificate FILE... | "
				"handoff_check --repair FILE CABLE... -DEST... =MS | "
				"handoff_check --follow FILE NEXT CABLE...\n");
		return 2;
	}
	struct handoff *h = handoff_read(argv[repair ? 2 : 1], why);
	if (h == NULL) {
		fprintf(stderr, "handoff_check: %s\n", why);
		return 1;
	}
	int answer = repair ? print_repair(h, argv + 3, argc - 3) : print_all(h);
	handoff_free(h);
	return answer;
}
