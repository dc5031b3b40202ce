/* Numbers and checks in files that somebody else wrote, and the time. */
#ifndef SAROUTER_BYTES_H
#define SAROUTER_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes a reason, of HANDOFF_WHY bytes at most. Returns false. */
__attribute__((format(printf, 2, 3))) bool refuse(char *why, const char *format, ...);

/* The reason where memory ran out: whoever tries again may get it. */
#define NO_MEMORY "no memory"

/* Monotonic milliseconds. */
int64_t now_ms(void);

uint64_t little_endian(const uint8_t *p, size_t bytes);
/* An array of zeros, which may have no elements; NULL if memory runs out. */
void *zeroed(size_t count, size_t size);

bool all_zero(const uint8_t *p, size_t bytes);

#endif
