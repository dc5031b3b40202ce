/* See layout.h. Every number from the file is checked before it is used as a size or an index. */
#include "layout.h"

#include <string.h>

#include "bytes.h"

enum { HEADER = 128, SECTION = 32, MAX_SECTIONS = 64, NAME_AT = 80, MAX_DESTS = 49151, MAX_LAYERS = 15 };

enum { PROMISE_BYTES = 4 };

/* Of a section: a reader that does not know it may go on without. */
enum { OPTIONAL = 1 };

static const uint8_t magic[8] = {0x89, 'S', 'A', 'R', 'L', 'F', 'T', '\n'};

/* How long each part must be; those behind are free. No overflow: see the bounds of the numbers. */
static void wanted_sizes(const struct handoff *h, size_t size[LAYOUT_KINDS])
{
	size_t dests = (size_t)h->terminals + h->switches;
	memset(size, 0, LAYOUT_KINDS * sizeof(size[0]));
	size[LAYOUT_SWITCHES] = (size_t)LAYOUT_RECORD * h->switches;
	size[LAYOUT_TERMINALS] = (size_t)LAYOUT_RECORD * h->terminals;
	size[LAYOUT_CABLES] = (size_t)LAYOUT_RECORD * h->cables;
	size[LAYOUT_PORTS] = dests * h->switches;
	size[LAYOUT_LAYERS] = dests * h->switches;
	size[LAYOUT_HIGH_PORTS] = size[LAYOUT_PORTS];
	size[LAYOUT_HIGH_LAYERS] = size[LAYOUT_LAYERS];
	size[LAYOUT_PROMISE] = PROMISE_BYTES;
}

/* Whether those parts are as long as they must be. One that is not there has no bytes, and goes if `optional`. */
static bool check_sizes(const struct layout *layout, const struct handoff *h, int first, int last, bool optional,
			char *why)
{
	size_t wanted[LAYOUT_KINDS];
	wanted_sizes(h, wanted);
	for (int kind = first; kind <= last; kind++) {
		bool there = layout->at[kind] != NULL;
		if (there ? layout->size[kind] != wanted[kind] : !optional)
			return refuse(why, "section %d has %zu bytes and should have %zu", kind, layout->size[kind],
				      wanted[kind]);
	}
	return true;
}

/* What all versions have. */
static bool parse_fixed(struct handoff *h, const uint8_t *file, char *why)
{
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
	return true;
}

/* The same, once the checksum is known to be right. */
static bool check_fixed(struct handoff *h, const uint8_t *file, char *why)
{
	if (h->epoch == 0 || h->layers_used > MAX_LAYERS)
		return refuse(why, "impossible epoch or number of layers");
	if (!all_zero(file + 77, 3) || !all_zero(file + 112, 16))
		return refuse(why, "a reserved byte is not zero");
	memcpy(h->engine, file + NAME_AT, 32);
	size_t length = strnlen(h->engine, 32);
	if (length == 0 || !all_zero(file + NAME_AT + length, 32 - length))
		return refuse(why, "the engine has no proper name");
	/* The name goes into logs. */
	for (size_t i = 0; i < length; i++)
		if (h->engine[i] < 0x20 || h->engine[i] > 0x7E)
			return refuse(why, "the engine has no proper name");
	return true;
}

static bool check_seal(const uint8_t *file, size_t size, size_t wanted, char *why)
{
	if (wanted != size || little_endian(file + 16, 8) != size)
		return refuse(why, "it has %zu bytes and should have %zu", size, wanted);
	if (handoff_crc64(file, size - 8) != little_endian(file + size - 8, 8))
		return refuse(why, "its checksum is wrong");
	return true;
}

/* Version 1: one part after the other, no lanes. */
static bool parse_first(struct layout *layout, struct handoff *h, const uint8_t *file, size_t size, char *why)
{
	if (little_endian(file + 12, 4) != HEADER)
		return refuse(why, "its header has %u bytes", (unsigned)little_endian(file + 12, 4));
	wanted_sizes(h, layout->size);
	size_t content = HEADER;
	for (int kind = LAYOUT_SWITCHES; kind <= LAYOUT_LAYERS; kind++)
		content += layout->size[kind];
	if (!check_seal(file, size, (content + 7) / 8 * 8 + 8, why) || !check_fixed(h, file, why))
		return false;
	if (!all_zero(file + content, size - 8 - content))
		return refuse(why, "a reserved byte is not zero");
	const uint8_t *at = file + HEADER;
	for (int kind = LAYOUT_SWITCHES; kind <= LAYOUT_LAYERS; kind++) {
		layout->at[kind] = at;
		at += layout->size[kind];
	}
	return true;
}

/* Notes a section if its kind is known; says why if the reader cannot go on. */
static bool take_section(struct layout *layout, const uint8_t *file, const uint8_t *section, char *why)
{
	uint32_t kind = (uint32_t)little_endian(section, 4), flags = (uint32_t)little_endian(section + 4, 4);
	if (flags > OPTIONAL || !all_zero(section + 24, 8))
		return refuse(why, "section %u has flags of another version", kind);
	if (kind >= LAYOUT_KINDS)
		return flags == OPTIONAL || refuse(why, "it has section %u, which this plugin does not know", kind);
	layout->at[kind] = file + little_endian(section + 8, 8);
	layout->size[kind] = (size_t)little_endian(section + 16, 8);
	return true;
}

/* Version 2: sections by ascending kind, each from the next multiple of 8 bytes. */
static bool parse_sections(struct layout *layout, struct handoff *h, const uint8_t *file, size_t size, char *why)
{
	size_t header = (size_t)little_endian(file + 12, 4);
	if (header < HEADER || header > HEADER + MAX_SECTIONS * SECTION || (header - HEADER) % SECTION != 0 ||
	    header + 8 > size)
		return refuse(why, "its header has %zu bytes", header);
	if (!check_seal(file, size, (size_t)little_endian(file + 16, 8), why) || !check_fixed(h, file, why))
		return false;
	size_t end = header, content = size - 8;
	uint64_t before = 0;
	for (const uint8_t *section = file + HEADER; section < file + header; section += SECTION) {
		uint64_t kind = little_endian(section, 4), from = little_endian(section + 8, 8);
		uint64_t length = little_endian(section + 16, 8);
		size_t start = (end + 7) / 8 * 8;
		if (kind <= before || from != start || start > content || length > content - start ||
		    !all_zero(file + end, start - end))
			return refuse(why, "section %u is not where it should be", (unsigned)kind);
		if (!take_section(layout, file, section, why))
			return false;
		end = start + (size_t)length;
		before = kind;
	}
	if ((end + 7) / 8 * 8 != content || !all_zero(file + end, content - end))
		return refuse(why, "there is something behind the last section");
	if ((layout->at[LAYOUT_LANE_ROWS] == NULL) != (layout->at[LAYOUT_LANE_INDEX] == NULL))
		return refuse(why, "it has half a lane map");
	if ((layout->at[LAYOUT_HIGH_PORTS] == NULL) != (layout->at[LAYOUT_HIGH_LAYERS] == NULL))
		return refuse(why, "it has half of the routes to high LIDs");
	return check_sizes(layout, h, LAYOUT_SWITCHES, LAYOUT_LAYERS, false, why) &&
	       check_sizes(layout, h, LAYOUT_HIGH_PORTS, LAYOUT_PROMISE, true, why);
}

bool layout_parse(struct layout *layout, struct handoff *h, const uint8_t *file, size_t size, char *why)
{
	memset(layout, 0, sizeof(*layout));
	if (size < sizeof(magic) || memcmp(file, magic, sizeof(magic)) != 0)
		return refuse(why, "it does not start with the magic of a hand-off file");
	if (size < HEADER + 8)
		return refuse(why, "it is cut short: %zu bytes", size);
	uint64_t version = little_endian(file + 8, 4);
	if (version != 1 && version != 2)
		return refuse(why, "it has another version: %u", (unsigned)version);
	if (!parse_fixed(h, file, why))
		return false;
	return version == 1 ? parse_first(layout, h, file, size, why) : parse_sections(layout, h, file, size, why);
}
