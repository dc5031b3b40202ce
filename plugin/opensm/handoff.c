/* See handoff.h. Every number from the file is checked before it is used as a size or an index. */
#include "handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "layout.h"

enum { RECORD = LAYOUT_RECORD, MAX_VL = 14 };

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

static bool check_layers(const struct handoff *h, unsigned set, char *why)
{
	size_t entries = (size_t)h->switches * handoff_dests(h);
	const uint8_t *layers = h->layers[set];
	for (size_t i = 0; i < entries; i++)
		if (layers[i] != HANDOFF_NO_LAYER && layers[i] >= h->layers_used)
			return refuse(why, "switch number %zu uses layer %u, the header says there are %u",
				      i / handoff_dests(h), layers[i], h->layers_used);
	return true;
}

/*
 * Where a packet for `dest` goes from `sw`: another switch, `sw` itself if it has arrived or if
 * there is no way, or -1 if the port is none that could be there.
 */
static int64_t next_switch(const struct handoff *h, unsigned set, uint32_t sw, uint32_t dest)
{
	uint8_t port = handoff_port(h, set, sw, dest);
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
static bool check_tree(const struct handoff *h, unsigned set, uint32_t dest, uint32_t *seen, char *why)
{
	uint32_t walking = 2 * dest + 1, good = walking + 1, home = handoff_home(h, dest);
	for (uint32_t start = 0; start < h->switches; start++) {
		if (start != home && handoff_port(h, set, start, dest) == HANDOFF_UNREACHABLE)
			continue;
		uint32_t at = start;
		while (at != home && seen[at] != good) {
			if (seen[at] == walking)
				return refuse(why, "a loop: switch 0x%016llx, destination number %u",
					      (unsigned long long)h->sw[at].guid, dest);
			seen[at] = walking;
			int64_t next = next_switch(h, set, at, dest);
			if (next < 0 || next == (int64_t)at)
				return refuse(why, "a dead end: switch 0x%016llx, port %u, destination number %u",
					      (unsigned long long)h->sw[at].guid, handoff_port(h, set, at, dest),
					      dest);
			at = (uint32_t)next;
		}
		if (at == home && next_switch(h, set, home, dest) < 0)
			return refuse(why, "a wrong last port: switch 0x%016llx, port %u, destination number %u",
				      (unsigned long long)h->sw[home].guid, handoff_port(h, set, home, dest),
				      dest);
		for (at = start; at != home && seen[at] != good; at = (uint32_t)next_switch(h, set, at, dest))
			seen[at] = good;
	}
	return true;
}

static bool check_trees(const struct handoff *h, unsigned set, char *why)
{
	uint32_t *seen = calloc(h->switches, sizeof(*seen));
	bool good = seen != NULL || refuse(why, NO_MEMORY);
	for (uint32_t d = 0; good && d < handoff_dests(h); d++)
		good = check_tree(h, set, d, seen, why);
	free(seen);
	return good;
}

/* The rows, and for each switch which of them each pair of its ports has. */
static bool parse_lanes(struct handoff *h, const struct layout *layout, char *why)
{
	if (layout->at[LAYOUT_LANE_ROWS] == NULL)
		return true;
	size_t rows = layout->size[LAYOUT_LANE_ROWS] / HANDOFF_SLS, turns = 0;
	if (rows == 0 || rows > 65535 || layout->size[LAYOUT_LANE_ROWS] % HANDOFF_SLS != 0)
		return refuse(why, "%zu bytes of lane rows", layout->size[LAYOUT_LANE_ROWS]);
	h->lane_start = calloc(h->switches, sizeof(*h->lane_start));
	if (h->lane_start == NULL)
		return refuse(why, NO_MEMORY);
	for (uint32_t s = 0; s < h->switches; s++) {
		h->lane_start[s] = turns;
		turns += (h->sw[s].ports + 1u) * (h->sw[s].ports + 1u);
	}
	if (layout->size[LAYOUT_LANE_INDEX] != 2 * turns)
		return refuse(why, "lanes of %zu pairs of ports, there are %zu",
			      layout->size[LAYOUT_LANE_INDEX] / 2, turns);
	h->lane_rows = layout->at[LAYOUT_LANE_ROWS];
	h->lane_row_count = rows;
	h->lane_index = layout->at[LAYOUT_LANE_INDEX];
	for (size_t i = 0; i < rows * HANDOFF_SLS; i++) {
		if (h->lane_rows[i] > MAX_VL)
			return refuse(why, "lane row number %zu has VL %u", i / HANDOFF_SLS, h->lane_rows[i]);
		if (h->lane_rows[i] >= h->lanes)
			h->lanes = (uint8_t)(h->lane_rows[i] + 1);
	}
	for (size_t i = 0; i < turns; i++)
		if (little_endian(h->lane_index + 2 * i, 2) >= rows)
			return refuse(why, "lane row number %u, there are %zu",
				      (unsigned)little_endian(h->lane_index + 2 * i, 2), rows);
	return true;
}

static bool parse_rest(struct handoff *h, const struct layout *layout, uint8_t *taken, char *why)
{
	h->ports[0] = layout->at[LAYOUT_PORTS];
	h->layers[0] = layout->at[LAYOUT_LAYERS];
	h->ports[1] = layout->at[LAYOUT_HIGH_PORTS];
	h->layers[1] = layout->at[LAYOUT_HIGH_LAYERS];
	h->sets = h->ports[1] != NULL ? 2 : 1;
	h->order = layout->at[LAYOUT_ORDER];
	h->order_size = layout->size[LAYOUT_ORDER];
	h->aggregation = layout->at[LAYOUT_AGGREGATION];
	h->aggregation_size = layout->size[LAYOUT_AGGREGATION];
	h->promise = layout->at[LAYOUT_PROMISE];
	bool good = parse_switches(h, layout->at[LAYOUT_SWITCHES], why) &&
	       parse_terminals(h, layout->at[LAYOUT_TERMINALS], taken, why) &&
	       parse_cables(h, layout->at[LAYOUT_CABLES], taken, why);
	for (unsigned set = 0; good && set < h->sets; set++)
		good = check_layers(h, set, why) && check_trees(h, set, why);
	return good && parse_lanes(h, layout, why);
}

struct handoff *handoff_parse(uint8_t *file, size_t size, char why[HANDOFF_WHY])
{
	struct handoff *h = calloc(1, sizeof(*h));
	if (h == NULL) {
		refuse(why, NO_MEMORY);
		free(file);
		return NULL;
	}
	h->file = file;
	struct layout layout;
	bool good = layout_parse(&layout, h, file, size, why);
	if (good) {
		uint8_t *taken = zeroed((size_t)h->switches * 256, 1);
		h->sw = zeroed(h->switches, sizeof(*h->sw));
		h->terminal = zeroed(h->terminals, sizeof(*h->terminal));
		h->cable = zeroed(h->cables, sizeof(*h->cable));
		h->cable_at = zeroed((size_t)h->switches * 256, sizeof(*h->cable_at));
		good = taken != NULL && h->sw != NULL && h->terminal != NULL && h->cable != NULL &&
		       h->cable_at != NULL;
		good = good ? parse_rest(h, &layout, taken, why) : refuse(why, NO_MEMORY);
		free(taken);
	}
	if (good)
		return h;
	handoff_free(h);
	return NULL;
}

const uint8_t *handoff_lane_row(const struct handoff *h, uint32_t sw, unsigned in, unsigned out)
{
	unsigned ports = h->sw[sw].ports;
	if (in > ports || out > ports)
		return h->lane_rows;
	size_t turn = h->lane_start[sw] + (size_t)in * (ports + 1) + out;
	return h->lane_rows + HANDOFF_SLS * little_endian(h->lane_index + 2 * turn, 2);
}

/* Read, not mapped: a mapped file that is cut short while we look at it would end OpenSM. */
uint8_t *handoff_load(const char *path, size_t *size, char why[HANDOFF_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		refuse(why, "%s: %s", path, strerror(errno));
		return NULL;
	}
	struct stat st;
	uint8_t *file = NULL;
	size_t filled = 0;
	bool good = true;
	*size = 0;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > HANDOFF_MAX_FILE)
		good = refuse(why, "%s: not a regular file of at most 1 GiB", path);
	if (good) {
		*size = (size_t)st.st_size;
		file = zeroed(*size, 1);
		good = file != NULL || refuse(why, NO_MEMORY);
	}
	while (good && filled < *size) {
		ssize_t n = read(fd, file + filled, *size - filled);
		if (n > 0)
			filled += (size_t)n;
		else if (n == 0 || errno != EINTR)
			good = refuse(why, "%s: %s", path, n == 0 ? "it became shorter" : strerror(errno));
	}
	close(fd);
	if (good)
		return file;
	free(file);
	return NULL;
}

struct handoff *handoff_read(const char *path, char why[HANDOFF_WHY])
{
	size_t size;
	uint8_t *file = handoff_load(path, &size, why);
	return file != NULL ? handoff_parse(file, size, why) : NULL;
}

void handoff_free(struct handoff *h)
{
	if (h == NULL)
		return;
	free(h->sw);
	free(h->terminal);
	free(h->cable);
	free(h->cable_at);
	free(h->lane_start);
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
