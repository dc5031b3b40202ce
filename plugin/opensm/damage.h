/* Damage to hand-off files, for the programs that try the readers. */
#ifndef SAROUTER_DAMAGE_H
#define SAROUTER_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

void damage_seed(uint64_t seed);

/* A number below n, 0 for 0. The same ones again after the same seed. */
size_t damage_below(size_t n);

/* One damage; the file never becomes longer. `size` is not 0. */
void damage_once(uint8_t *file, size_t *size);

/* A checksum that is right, and sometimes a length that is, if there is room for them. */
void damage_reseal(uint8_t *file, size_t size);

/* A whole file, from malloc. Ends the program if it cannot be read. */
uint8_t *damage_read(const char *path, size_t *size);

/* Into directory/number.bin. Ends the program if it cannot be written. */
void damage_write(const char *directory, size_t number, const uint8_t *file, size_t size);

#endif
