/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of clock/ and of the conversions between jiffies and microseconds.
 */
#include <linux/math64.h>

#include "tcplat-kunit.h"

/* The values for each HZ, computed by hand, not with the kernel's macros. */
static const struct clock_row {
	const char *name;
	const char *at_100, *at_250, *at_300, *at_1000;
} clock_rows[] = {
	{ "hz", "100\n", "250\n", "300\n", "1000\n" },
	{ "tick_ns", "10000000\n", "4000000\n", "3333333\n", "1000000\n" },
	{ "delack_min", "4\n", "10\n", "12\n", "40\n" },
	{ "delack_min_us", "40000\n", "40000\n", "40000\n", "40000\n" },
	{ "delack_max", "20\n", "50\n", "60\n", "200\n" },
	{ "delack_max_us", "200000\n", "200000\n", "200000\n", "200000\n" },
	{ "ato_min", "4\n", "10\n", "12\n", "40\n" },
	{ "ato_min_us", "40000\n", "40000\n", "40000\n", "40000\n" },
	{ "rto_min", "20\n", "50\n", "60\n", "200\n" },
	{ "rto_min_us", "200000\n", "200000\n", "200000\n", "200000\n" },
	{ "timewait_len", "6000\n", "15000\n", "18000\n", "60000\n" },
	{ "timewait_len_us", "60000000\n", "60000000\n", "60000000\n", "60000000\n" },
};

static const char *clock_expected(const struct clock_row *row)
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
		return NULL;
	}
}

static struct kobj_attribute *clock_attribute(const char *name)
{
	struct attribute **attr;

	for (attr = clock_attrs; *attr; attr++)
		if (!strcmp((*attr)->name, name))
			return container_of(*attr, struct kobj_attribute, attr);
	return NULL;
}

static void clock_files_show_the_table(struct kunit *test)
{
	char *page = kunit_page(test);
	struct kobj_attribute *attr;
	int i;

	KUNIT_ASSERT_NOT_NULL_MSG(test, clock_expected(&clock_rows[0]), "no table for HZ=%d", HZ);
	KUNIT_EXPECT_EQ(test, ARRAY_SIZE(clock_rows), ARRAY_SIZE(clock_attrs) - 1);
	for (i = 0; i < ARRAY_SIZE(clock_rows); i++) {
		attr = clock_attribute(clock_rows[i].name);
		KUNIT_ASSERT_NOT_NULL_MSG(test, attr, "no file %s", clock_rows[i].name);
		KUNIT_EXPECT_SHOWS(test, attr->show(NULL, attr, page), page,
				   clock_expected(&clock_rows[i]));
		KUNIT_EXPECT_NULL(test, attr->store);
		KUNIT_EXPECT_EQ(test, attr->attr.mode, 0444);
	}
}

static void clock_constants_are_the_kernels(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, clock_hz.value, CONFIG_HZ);
	KUNIT_EXPECT_EQ(test, clock_tick_ns.value, TICK_NSEC);
	KUNIT_EXPECT_EQ(test, clock_delack_min.value, TCP_DELACK_MIN);
	KUNIT_EXPECT_EQ(test, clock_delack_max.value, TCP_DELACK_MAX);
	KUNIT_EXPECT_EQ(test, clock_ato_min.value, TCP_ATO_MIN);
	KUNIT_EXPECT_EQ(test, clock_rto_min.value, TCP_RTO_MIN);
	KUNIT_EXPECT_EQ(test, clock_timewait_len.value, TCP_TIMEWAIT_LEN);
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

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(clock_files_show_the_table),
	KUNIT_CASE(clock_constants_are_the_kernels),
	KUNIT_CASE(clock_us_is_the_kernels_conversion),
	KUNIT_CASE(clock_us_is_exact_for_any_sum),
	KUNIT_CASE(clock_us_tick_by_tick_would_drift),
	KUNIT_CASE(clock_ticks_by_hand),
	KUNIT_CASE(clock_since_counts_over_the_wrap),
	KUNIT_CASE(clock_kernel_starts_before_the_wrap),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "tcplat_clock",
	.test_cases = clock_cases,
};

kunit_test_suite(clock_suite);
