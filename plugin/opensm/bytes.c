/* See bytes.h. */
#include "bytes.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "handoff.h"

bool refuse(char *why, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, HANDOFF_WHY, format, args);
	va_end(args);
	return false;
}

uint64_t little_endian(const uint8_t *p, size_t bytes)
{
	uint64_t value = 0;
	while (bytes-- > 0)
		value = value << 8 | p[bytes];
	return value;
}

int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void *zeroed(size_t count, size_t size)
{
	return calloc(count > 0 ? count : 1, size);
}

bool all_zero(const uint8_t *p, size_t bytes)
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
