/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reproducible random numbers, and parsing of the options that seed and bound them.
 */
#ifndef TCPLAT_FUZZ_RANDOM_H
#define TCPLAT_FUZZ_RANDOM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static inline uint64_t draw_from(uint64_t *rng)
{
	*rng += 0x9e3779b97f4a7c15ULL;
	return mix(*rng);
}

static inline bool number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value >= least && *value <= most;
}

#endif
