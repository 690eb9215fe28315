/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of clock/ and of times on clocks that wrap. bats/host/jiffies.bats tests the conversions.
 */
#include <linux/math64.h>

#include "tcplat-kunit.h"

/* The values for each HZ, computed by hand, not with the kernel's macros. */
static void clock_files_show_the_table(struct kunit *test)
{
	static const struct {
		const char *name;
		/* At 100, 250, 300 and 1000 Hz. */
		u64 value[4];
	} rows[] = {
		{ "hz", { 100, 250, 300, 1000 } },
		{ "tick_ns", { 10000000, 4000000, 3333333, 1000000 } },
		{ "delack_min", { 4, 10, 12, 40 } },
		{ "delack_min_us", { 40000, 40000, 40000, 40000 } },
		{ "delack_max", { 20, 50, 60, 200 } },
		{ "delack_max_us", { 200000, 200000, 200000, 200000 } },
		{ "ato_min", { 4, 10, 12, 40 } },
		{ "ato_min_us", { 40000, 40000, 40000, 40000 } },
		{ "rto_min", { 20, 50, 60, 200 } },
		{ "rto_min_us", { 200000, 200000, 200000, 200000 } },
		{ "timewait_len", { 6000, 15000, 18000, 60000 } },
		{ "timewait_len_us", { 60000000, 60000000, 60000000, 60000000 } },
	};
	const int column = HZ == 100 ? 0 : HZ == 250 ? 1 : HZ == 300 ? 2 : 3;

	KUNIT_EXPECT_EQ(test, ARRAY_SIZE(rows), ARRAY_SIZE(clock_files));
	for_each_row()
		KUNIT_EXPECT_EQ_MSG(test, kunit_file(test, &tcplat_clock, row->name),
				    row->value[column], "%s", row->name);
}

static void clock_since_counts_over_the_wrap(struct kunit *test)
{
	static const u32 rows[] = { 0, 1, 2, HZ / 25, HZ / 5, 60 * HZ, INT_MAX, U32_MAX };
	u32 now;

	for (now = -1000; now != 1000; now++)
		for_each_row()
			KUNIT_ASSERT_EQ(test, tcplat_jiffies32_since(now, now - *row), *row);
}

static void clock_times_in_us(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(7, 7), 0);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(8, 7), 1000);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(7, 8), 0);
	KUNIT_EXPECT_EQ(test, tcplat_us_to_ns_since(1ULL << 40, 0), 1000ULL << 40);
}

TCPLAT_SUITE(clock,
	     KUNIT_CASE(clock_files_show_the_table),
	     KUNIT_CASE(clock_since_counts_over_the_wrap),
	     KUNIT_CASE(clock_times_in_us));
