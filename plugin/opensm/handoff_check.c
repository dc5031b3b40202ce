/*
 * Prints what the plugin reads from a hand-off file, every field of it: for people, and for the
 * test that compares it with what was written.
 *
 *   handoff_check FILE
 *   handoff_check --certificate FILE...   a line for each: whether the plugin would take it
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "certificate.h"
#include "handoff.h"

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

int main(int argc, char **argv)
{
	char why[HANDOFF_WHY];
	if (argc > 2 && strcmp(argv[1], "--certificate") == 0) {
		bool good = true;
		for (int i = 2; i < argc; i++)
			good = print_verdict(argv[i]) && good;
		return good ? 0 : 1;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: handoff_check FILE | handoff_check --certificate FILE...\n");
		return 2;
	}
	struct handoff *h = handoff_read(argv[1], why);
	if (h == NULL) {
		fprintf(stderr, "handoff_check: %s\n", why);
		return 1;
	}
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
	handoff_free(h);
	return 0;
}
