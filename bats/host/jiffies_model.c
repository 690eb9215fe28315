// SPDX-License-Identifier: GPL-2.0
/*
 * Checks module/jiffies.h, compiled for one HZ, against arithmetic in 128 bits.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t u32;
typedef uint64_t u64;

/* What the kernel's headers define. */
#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L
#define USEC_PER_SEC	1000000L

static u64 div_u64_rem(u64 dividend, u32 divisor, u32 *rest)
{
	*rest = dividend % divisor;
	return dividend / divisor;
}

static u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

#include "../../module/jiffies.h"

static int checks;

static void expect(bool right, const char *what, u64 n)
{
	checks++;
	if (right)
		return;
	printf("HZ=%d: %s of %" PRIu64 "\n", HZ, what, n);
	exit(1);
}

static void expect_us(u64 j)
{
	expect(tcplat_jiffies_to_us(j) == (__uint128_t)j * USEC_PER_SEC / HZ, "us", j);
}

int main(void)
{
	/* 584,000 years: the largest number of microseconds in 64 bits. */
	const u64 most = UINT64_MAX / USEC_PER_SEC * HZ;
	u64 j, begin;
	int i;

	for (j = 0; j < 20000; j++)
		expect_us(j);
	/* Numbers of all sizes. */
	for (i = 0, j = 1; i < 100000; i++) {
		j = j * 6364136223846793005 + 1442695040888963407;
		expect_us((j >> (i % 63)) % (most + 1));
	}
	expect_us(most);
	/* Wherever between two ticks a late wait begins, it may be late by the ticks counted. */
	for (begin = 0; begin < NSEC_PER_SEC / HZ; begin += 1000)
		expect(tcplat_may_be_late((begin + TCPLAT_LATE_NS) * HZ / NSEC_PER_SEC),
		       "late", begin);
	for (j = 0; j < HZ / 100; j++)
		expect(!tcplat_may_be_late(j), "not late", j);
	expect(tcplat_may_be_late(UINT32_MAX), "late", UINT32_MAX);
	printf("%d checks\n", checks);
}
