/* See handoff.h. Every number from the file is checked before it is used as a size or an index. */
#include "handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 128, RECORD = 16, NAME_AT = 80, MAX_DESTS = 49151, MAX_LAYERS = 15 };

static const uint8_t magic[8] = {0x89, 'S', 'A', 'R', 'L', 'F', 'T', '\n'};

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, HANDOFF_WHY, format, args);
	va_end(args);
	return false;
}

static uint64_t little_endian(const uint8_t *p, size_t bytes)
{
	uint64_t value = 0;
	while (bytes-- > 0)
		value = value << 8 | p[bytes];
	return value;
}

static bool all_zero(const uint8_t *p, size_t bytes)
{
	while (bytes-- > 0)
		if (p[bytes] != 0)
			return false;
	return true;
}

/* crc_table[k][b]: what byte b, followed by k zero bytes, adds to the remainder. */
static uint64_t crc_table[8][256];

static void crc_init(void)
{
	for (unsigned byte = 0; byte < 256; byte++) {
		uint64_t rest = byte;
		for (int bit = 0; bit < 8; bit++)
			rest = rest >> 1 ^ (rest & 1 ? 0xC96C5795D7870F42ull : 0);
		crc_table[0][byte] = rest;
	}
	for (int k = 1; k < 8; k++)
		for (unsigned byte = 0; byte < 256; byte++) {
			uint64_t before = crc_table[k - 1][byte];
			crc_table[k][byte] = before >> 8 ^ crc_table[0][before & 0xFF];
		}
}

uint64_t handoff_crc64(const uint8_t *bytes, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t rest = UINT64_MAX;

	pthread_once(&once, crc_init);
	for (; size >= 8; size -= 8, bytes += 8) {
		uint64_t sum = 0;
		for (int i = 0; i < 8; i++)
			sum ^= crc_table[7 - i][(bytes[i] ^ rest >> 8 * i) & 0xFF];
		rest = sum;
	}
	for (; size > 0; size--, bytes++)
		rest = rest >> 8 ^ crc_table[0][(*bytes ^ rest) & 0xFF];
	return ~rest;
}

/* Reads the fixed part and checks that the file is as long as it says, and undamaged. */
static bool parse_header(struct handoff *h, const uint8_t *file, size_t size, char *why)
{
	if (size < sizeof(magic) || memcmp(file, magic, sizeof(magic)) != 0)
		return refuse(why, "it does not start with the magic of a hand-off file");
	if (size < HEADER)
		return refuse(why, "it is cut short: %zu bytes", size);
	if (little_endian(file + 8, 4) != 1 || little_endian(file + 12, 4) != HEADER)
		return refuse(why, "it has another version: %u", (unsigned)little_endian(file + 8, 4));
	h->epoch = little_endian(file + 24, 8);
	memcpy(h->fingerprint, file + 32, sizeof(h->fingerprint));
	h->switches = (uint32_t)little_endian(file + 64, 4);
	h->terminals = (uint32_t)little_endian(file + 68, 4);
	h->cables = (uint32_t)little_endian(file + 72, 4);
	h->layers_used = file[76];
	if (h->switches == 0 || h->switches > MAX_DESTS || h->terminals > MAX_DESTS - h->switches ||
	    h->cables > 127 * h->switches)
		return refuse(why, "impossible sizes: %u switches, %u terminals, %u cables", h->switches,
			      h->terminals, h->cables);

	/* No overflow: at most 49151 destinations and 127 * 49151 cables. */
	size_t dests = (size_t)h->terminals + h->switches;
	size_t content = HEADER + RECORD * (dests + h->cables) + 2 * dests * h->switches;
	size_t wanted = (content + 7) / 8 * 8 + 8;
	if (wanted != size || little_endian(file + 16, 8) != size)
		return refuse(why, "it has %zu bytes and should have %zu", size, wanted);
	if (handoff_crc64(file, size - 8) != little_endian(file + size - 8, 8))
		return refuse(why, "its checksum is wrong");
	if (h->epoch == 0 || h->layers_used > MAX_LAYERS)
		return refuse(why, "impossible epoch or number of layers");
	if (!all_zero(file + 77, 3) || !all_zero(file + 112, 16) || !all_zero(file + content, size - 8 - content))
		return refuse(why, "a reserved byte is not zero");

	memcpy(h->engine, file + NAME_AT, 32);
	size_t length = strnlen(h->engine, 32);
	if (length == 0 || !all_zero(file + NAME_AT + length, 32 - length))
		return refuse(why, "the engine has no proper name");
	/* The name goes into logs. */
	for (size_t i = 0; i < length; i++)
		if (h->engine[i] < 0x20 || h->engine[i] > 0x7E)
			return refuse(why, "the engine has no proper name");
	h->ports = file + HEADER + RECORD * (dests + h->cables);
	h->layers = h->ports + dests * h->switches;
	return true;
}

static bool parse_switches(struct handoff *h, const uint8_t *p, char *why)
{
	for (uint32_t s = 0; s < h->switches; s++, p += RECORD) {
		h->sw[s].guid = little_endian(p, 8);
		h->sw[s].ports = p[8];
		uint64_t before = s > 0 ? h->sw[s - 1].guid : 0;
		if (h->sw[s].guid <= before || p[8] == 255 || !all_zero(p + 9, 7))
			return refuse(why, "switch number %u is not allowed", s);
	}
	return true;
}

/* Whether the switch has that port and nothing was attached to it yet; takes it. */
static bool take_port(const struct handoff *h, uint8_t *taken, uint32_t sw, uint8_t port)
{
	if (sw >= h->switches || port == 0 || port > h->sw[sw].ports)
		return false;
	uint8_t *slot = &taken[(size_t)sw * 256 + port];
	return (*slot)++ == 0;
}

static bool parse_terminals(struct handoff *h, const uint8_t *p, uint8_t *taken, char *why)
{
	for (uint32_t t = 0; t < h->terminals; t++, p += RECORD) {
		struct handoff_terminal *terminal = &h->terminal[t];
		terminal->guid = little_endian(p, 8);
		terminal->sw = (uint32_t)little_endian(p + 8, 4);
		terminal->port = p[12];
		uint64_t before = t > 0 ? h->terminal[t - 1].guid : 0;
		if (terminal->guid <= before || !all_zero(p + 14, 2) ||
		    !take_port(h, taken, terminal->sw, terminal->port))
			return refuse(why, "terminal number %u is not allowed", t);
	}
	return true;
}

static bool parse_cables(struct handoff *h, const uint8_t *p, uint8_t *taken, char *why)
{
	for (size_t i = 0; i < (size_t)h->switches * 256; i++)
		h->cable_at[i] = HANDOFF_NO_CABLE;
	uint64_t before = 0;
	for (uint32_t c = 0; c < h->cables; c++, p += RECORD) {
		struct handoff_cable *cable = &h->cable[c];
		cable->a = (uint32_t)little_endian(p, 4);
		cable->b = (uint32_t)little_endian(p + 4, 4);
		cable->a_port = p[8];
		cable->b_port = p[9];
		/* Ports start at 1, so this is never 0. */
		uint64_t position = (uint64_t)cable->a << 8 | cable->a_port;
		if (cable->a >= cable->b || position <= before || !all_zero(p + 10, 6) ||
		    !take_port(h, taken, cable->a, cable->a_port) ||
		    !take_port(h, taken, cable->b, cable->b_port))
			return refuse(why, "cable number %u is not allowed", c);
		h->cable_at[(size_t)cable->a * 256 + cable->a_port] = c;
		h->cable_at[(size_t)cable->b * 256 + cable->b_port] = c;
		before = position;
	}
	return true;
}

static bool check_layers(const struct handoff *h, char *why)
{
	size_t entries = (size_t)h->switches * handoff_dests(h);
	for (size_t i = 0; i < entries; i++)
		if (h->layers[i] != HANDOFF_NO_LAYER && h->layers[i] >= h->layers_used)
			return refuse(why, "switch number %zu uses layer %u, the header says there are %u",
				      i / handoff_dests(h), h->layers[i], h->layers_used);
	return true;
}

/*
 * Where a packet for `dest` goes from `sw`: another switch, `sw` itself if it has arrived or if
 * there is no way, or -1 if the port is none that could be there.
 */
static int64_t next_switch(const struct handoff *h, uint32_t sw, uint32_t dest)
{
	uint8_t port = handoff_port(h, sw, dest);
	if (sw == handoff_home(h, dest)) {
		uint8_t last = dest < h->terminals ? h->terminal[dest].port : 0;
		return port == last ? (int64_t)sw : -1;
	}
	if (port == HANDOFF_UNREACHABLE)
		return sw;
	uint32_t c = h->cable_at[(size_t)sw * 256 + port];
	if (c == HANDOFF_NO_CABLE)
		return -1;
	return h->cable[c].a == sw ? h->cable[c].b : h->cable[c].a;
}

/*
 * Checks that whoever has a port towards `dest` arrives: the routes form a tree. `seen[s]` is
 * 2 * dest + 1 while the walk that found s is under way and 2 * dest + 2 once s is known to be
 * good; it need not be cleared between destinations. Each switch is looked at twice at most.
 */
static bool check_tree(const struct handoff *h, uint32_t dest, uint32_t *seen, char *why)
{
	uint32_t walking = 2 * dest + 1, good = walking + 1, home = handoff_home(h, dest);
	for (uint32_t start = 0; start < h->switches; start++) {
		if (start != home && handoff_port(h, start, dest) == HANDOFF_UNREACHABLE)
			continue;
		uint32_t at = start;
		while (at != home && seen[at] != good) {
			if (seen[at] == walking)
				return refuse(why, "a loop: switch 0x%016llx, destination number %u",
					      (unsigned long long)h->sw[at].guid, dest);
			seen[at] = walking;
			int64_t next = next_switch(h, at, dest);
			if (next < 0 || next == (int64_t)at)
				return refuse(why, "a dead end: switch 0x%016llx, port %u, destination number %u",
					      (unsigned long long)h->sw[at].guid, handoff_port(h, at, dest), dest);
			at = (uint32_t)next;
		}
		if (at == home && next_switch(h, home, dest) < 0)
			return refuse(why, "a wrong last port: switch 0x%016llx, port %u, destination number %u",
				      (unsigned long long)h->sw[home].guid, handoff_port(h, home, dest), dest);
		for (at = start; at != home && seen[at] != good; at = (uint32_t)next_switch(h, at, dest))
			seen[at] = good;
	}
	return true;
}

static bool check_trees(const struct handoff *h, char *why)
{
	uint32_t *seen = calloc(h->switches, sizeof(*seen));
	bool good = seen != NULL || refuse(why, "no memory");
	for (uint32_t d = 0; good && d < handoff_dests(h); d++)
		good = check_tree(h, d, seen, why);
	free(seen);
	return good;
}

static bool parse_rest(struct handoff *h, const uint8_t *file, uint8_t *taken, char *why)
{
	const uint8_t *switches = file + HEADER;
	const uint8_t *terminals = switches + (size_t)RECORD * h->switches;
	const uint8_t *cables = terminals + (size_t)RECORD * h->terminals;
	return parse_switches(h, switches, why) && parse_terminals(h, terminals, taken, why) &&
	       parse_cables(h, cables, taken, why) && check_layers(h, why) && check_trees(h, why);
}

/* An array that may have no elements. */
static void *array(size_t count, size_t size)
{
	return calloc(count > 0 ? count : 1, size);
}

struct handoff *handoff_parse(uint8_t *file, size_t size, char why[HANDOFF_WHY])
{
	struct handoff *h = calloc(1, sizeof(*h));
	if (h == NULL) {
		refuse(why, "no memory");
		free(file);
		return NULL;
	}
	h->file = file;
	bool good = parse_header(h, file, size, why);
	if (good) {
		uint8_t *taken = array((size_t)h->switches * 256, 1);
		h->sw = array(h->switches, sizeof(*h->sw));
		h->terminal = array(h->terminals, sizeof(*h->terminal));
		h->cable = array(h->cables, sizeof(*h->cable));
		h->cable_at = array((size_t)h->switches * 256, sizeof(*h->cable_at));
		good = taken != NULL && h->sw != NULL && h->terminal != NULL && h->cable != NULL &&
		       h->cable_at != NULL;
		good = good ? parse_rest(h, file, taken, why) : refuse(why, "no memory");
		free(taken);
	}
	if (good)
		return h;
	handoff_free(h);
	return NULL;
}

/* Read, not mapped: a mapped file that is cut short while we look at it would end OpenSM. */
struct handoff *handoff_read(const char *path, char why[HANDOFF_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		refuse(why, "%s: %s", path, strerror(errno));
		return NULL;
	}
	struct stat st;
	uint8_t *file = NULL;
	size_t size = 0, filled = 0;
	bool good = true;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > HANDOFF_MAX_FILE)
		good = refuse(why, "%s: not a regular file of at most 1 GiB", path);
	if (good) {
		size = (size_t)st.st_size;
		file = array(size, 1);
		good = file != NULL || refuse(why, "no memory");
	}
	while (good && filled < size) {
		ssize_t n = read(fd, file + filled, size - filled);
		if (n > 0)
			filled += (size_t)n;
		else if (n == 0 || errno != EINTR)
			good = refuse(why, "%s: %s", path, n == 0 ? "it became shorter" : strerror(errno));
	}
	close(fd);
	if (good)
		return handoff_parse(file, size, why);
	free(file);
	return NULL;
}

void handoff_free(struct handoff *h)
{
	if (h == NULL)
		return;
	free(h->sw);
	free(h->terminal);
	free(h->cable);
	free(h->cable_at);
	free(h->file);
	free(h);
}

/* Binary search in records that begin with their GUID. */
static int64_t find(const void *records, size_t record, uint32_t count, uint64_t guid)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		uint64_t found;
		memcpy(&found, (const uint8_t *)records + middle * record, sizeof(found));
		if (found == guid)
			return middle;
		if (found < guid)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

int64_t handoff_find_switch(const struct handoff *h, uint64_t guid)
{
	return find(h->sw, sizeof(*h->sw), h->switches, guid);
}

int64_t handoff_find_terminal(const struct handoff *h, uint64_t guid)
{
	return find(h->terminal, sizeof(*h->terminal), h->terminals, guid);
}
