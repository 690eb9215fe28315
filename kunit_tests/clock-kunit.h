/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of clock/ and of the conversions between jiffies and microseconds.
 */
#include <linux/math64.h>

#include "tcplat-kunit.h"

/* The values for each HZ, computed by hand, not with the kernel's macros. */
static const struct clock_row {
	const char *name;
	u64 at_100, at_250, at_300, at_1000;
} clock_rows[] = {
	{ "hz", 100, 250, 300, 1000 },
	{ "tick_ns", 10000000, 4000000, 3333333, 1000000 },
	{ "delack_min", 4, 10, 12, 40 },
	{ "delack_min_us", 40000, 40000, 40000, 40000 },
	{ "delack_max", 20, 50, 60, 200 },
	{ "delack_max_us", 200000, 200000, 200000, 200000 },
	{ "ato_min", 4, 10, 12, 40 },
	{ "ato_min_us", 40000, 40000, 40000, 40000 },
	{ "rto_min", 20, 50, 60, 200 },
	{ "rto_min_us", 200000, 200000, 200000, 200000 },
	{ "timewait_len", 6000, 15000, 18000, 60000 },
	{ "timewait_len_us", 60000000, 60000000, 60000000, 60000000 },
};

static u64 clock_expected(const struct clock_row *row)
{
	switch (HZ) {
	case 100:
		return row->at_100;
	case 250:
		return row->at_250;
	case 300:
		return row->at_300;
	case 1000:
		return row->at_1000;
	default:
		return 0;
	}
}

static u64 clock_value(struct kunit *test, const char *name)
{
	return kunit_file(test, &tcplat_clock, name);
}

static void clock_files_show_the_table(struct kunit *test)
{
	int i;

	KUNIT_ASSERT_NE_MSG(test, clock_expected(&clock_rows[0]), 0, "no table for HZ=%d", HZ);
	KUNIT_EXPECT_EQ(test, ARRAY_SIZE(clock_rows), ARRAY_SIZE(clock_files));
	for (i = 0; i < ARRAY_SIZE(clock_rows); i++)
		KUNIT_EXPECT_EQ(test, clock_value(test, clock_rows[i].name),
				clock_expected(&clock_rows[i]));
}

static void clock_constants_are_the_kernels(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, clock_value(test, "hz"), CONFIG_HZ);
	KUNIT_EXPECT_EQ(test, clock_value(test, "tick_ns"), TICK_NSEC);
	KUNIT_EXPECT_EQ(test, clock_value(test, "delack_min"), TCP_DELACK_MIN);
	KUNIT_EXPECT_EQ(test, clock_value(test, "delack_max"), TCP_DELACK_MAX);
	KUNIT_EXPECT_EQ(test, clock_value(test, "ato_min"), TCP_ATO_MIN);
	KUNIT_EXPECT_EQ(test, clock_value(test, "rto_min"), TCP_RTO_MIN);
	KUNIT_EXPECT_EQ(test, clock_value(test, "timewait_len"), TCP_TIMEWAIT_LEN);
}

static void clock_us_is_the_kernels_conversion(struct kunit *test)
{
	unsigned long j;

	/* The result of jiffies_to_usecs() has 32 bits, enough for 71 minutes. */
	for (j = 0; j <= 70UL * 60 * HZ; j++)
		KUNIT_ASSERT_EQ(test, tcplat_jiffies_to_us(j), jiffies_to_usecs(j));
}

/* Any sum is converted exactly, rounded down. */
static void clock_us_is_exact_for_any_sum(struct kunit *test)
{
	/* 584,000 years: the largest number of microseconds in 64 bits. */
	const u64 most = U64_MAX / USEC_PER_SEC * HZ;
	struct rnd_state rnd = kunit_random();
	int i;

	for (i = 0; i < 100000; i++) {
		u64 j = random_size(&rnd) % most;

		KUNIT_ASSERT_EQ(test, tcplat_jiffies_to_us(j),
				mul_u64_u64_div_u64(j, USEC_PER_SEC, HZ));
	}
	KUNIT_EXPECT_EQ(test, tcplat_jiffies_to_us(most),
			mul_u64_u64_div_u64(most, USEC_PER_SEC, HZ));
}

/* The error of converting each delay before adding. */
static void clock_us_tick_by_tick_would_drift(struct kunit *test)
{
	u64 each = 0;
	int i;

	for (i = 0; i < 3 * HZ; i++)
		each += tcplat_jiffies_to_us(1);
	KUNIT_EXPECT_EQ(test, tcplat_jiffies_to_us(3 * HZ), 3 * USEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, 3 * USEC_PER_SEC - each, HZ == 300 ? 300 : 0);
}

/* Ticks in microseconds, computed by hand; at HZ=300 a tick is 3333 1/3. */
static const struct {
	u64 ticks;
	u64 us_at_100, us_at_250, us_at_300, us_at_1000;
} clock_ticks[] = {
	{ 0, 0, 0, 0, 0 },
	{ 1, 10000, 4000, 3333, 1000 },
	{ 2, 20000, 8000, 6666, 2000 },
	{ 3, 30000, 12000, 10000, 3000 },
	{ 4, 40000, 16000, 13333, 4000 },
	{ 12, 120000, 48000, 40000, 12000 },
	{ 13, 130000, 52000, 43333, 13000 },
	{ 299, 2990000, 1196000, 996666, 299000 },
	{ 300, 3000000, 1200000, 1000000, 300000 },
	{ 301, 3010000, 1204000, 1003333, 301000 },
	{ 4294967295, 42949672950000, 17179869180000, 14316557650000, 4294967295000 },
	{ 3000000000001, 30000000000010000, 12000000000004000, 10000000000003333,
	  3000000000001000 },
};

static void clock_ticks_by_hand(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(clock_ticks); i++) {
		u64 us = HZ == 100 ? clock_ticks[i].us_at_100 :
			 HZ == 250 ? clock_ticks[i].us_at_250 :
			 HZ == 300 ? clock_ticks[i].us_at_300 : clock_ticks[i].us_at_1000;

		KUNIT_EXPECT_EQ(test, tcplat_jiffies_to_us(clock_ticks[i].ticks), us);
	}
}

static void clock_since_counts_over_the_wrap(struct kunit *test)
{
	static const u32 ages[] = { 0, 1, 2, HZ / 25, HZ / 5, 60 * HZ, INT_MAX, U32_MAX };
	u32 now;
	int i;

	for (now = -1000; now != 1000; now++)
		for (i = 0; i < ARRAY_SIZE(ages); i++)
			KUNIT_ASSERT_EQ(test, tcplat_jiffies32_since(now, now - ages[i]),
					ages[i]);

	KUNIT_EXPECT_EQ(test, tcplat_jiffies32_since(0, U32_MAX), 1);
	KUNIT_EXPECT_EQ(test, tcplat_jiffies32_since(5, 0xfffffffb), 10);
	KUNIT_EXPECT_EQ(test, tcplat_jiffies32_since(0x80000000, 0x7fffffff), 1);
}

/* The clock that TCP reads wraps five minutes after the kernel's start. */
static void clock_kernel_starts_before_the_wrap(struct kunit *test)
{
	u32 start = INITIAL_JIFFIES;
	u32 uptime = get_jiffies_64() - INITIAL_JIFFIES;
	u32 before = tcp_jiffies32;

	KUNIT_EXPECT_EQ(test, (u32)(start + 300 * HZ), 0);
	KUNIT_EXPECT_GE(test, tcplat_jiffies32_since(before, start), uptime);
	KUNIT_EXPECT_LT(test, tcplat_jiffies32_since(before, start), uptime + HZ);
	KUNIT_EXPECT_EQ(test, tcplat_jiffies32_since(start + 305 * HZ, start + 299 * HZ), 6 * HZ);
}

static void clock_times_in_us(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(7, 7), 0);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(8, 7), 1000);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(7, 8), 0);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(1ULL << 40, 0), 1000ULL << 40);
}

/* Wherever between two ticks a late wait begins, at least HZ / 100 ticks are counted. */
static void clock_late_waits_are_never_ruled_out(struct kunit *test)
{
	u64 begin, end;

	for (begin = 0; begin < NSEC_PER_SEC / HZ; begin += 1000) {
		end = begin + TCPLAT_LATE_NS;
		KUNIT_ASSERT_TRUE(test, tcplat_may_be_late(end * HZ / NSEC_PER_SEC));
	}
	KUNIT_EXPECT_FALSE(test, tcplat_may_be_late(0));
	KUNIT_EXPECT_FALSE(test, tcplat_may_be_late(HZ / 100 - 1));
	KUNIT_EXPECT_TRUE(test, tcplat_may_be_late(HZ / 100));
	KUNIT_EXPECT_TRUE(test, tcplat_may_be_late(U32_MAX));
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(clock_files_show_the_table),
	KUNIT_CASE(clock_constants_are_the_kernels),
	KUNIT_CASE(clock_us_is_the_kernels_conversion),
	KUNIT_CASE(clock_us_is_exact_for_any_sum),
	KUNIT_CASE(clock_us_tick_by_tick_would_drift),
	KUNIT_CASE(clock_ticks_by_hand),
	KUNIT_CASE(clock_since_counts_over_the_wrap),
	KUNIT_CASE(clock_kernel_starts_before_the_wrap),
	KUNIT_CASE(clock_times_in_us),
	KUNIT_CASE(clock_late_waits_are_never_ruled_out),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "tcplat_clock",
	.test_cases = clock_cases,
};

kunit_test_suite(clock_suite);
