/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of counters, maxima and histograms.
 */
#include "tcplat-kunit.h"

/* ---- summing ---- */

static void counters_sum_since_the_reset(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 2);
	u64 all = 0;
	int cpu;

	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), 0);
	for_each_possible_cpu(cpu) {
		kunit_count(group, 0, cpu, 100 + cpu);
		KUNIT_EXPECT_EQ(test, counter_cpu(group, 0, cpu), 100 + cpu);
		all += 100 + cpu;
	}
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), all);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 1), 0);
	tcplat_counters_reset(group);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), 0);

	tcplat_add(group, 0, 3);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), 3);
	for_each_possible_cpu(cpu)
		KUNIT_EXPECT_LE(test, counter_cpu(group, 0, cpu), 3);

	/* Over 64 bits. */
	group = kunit_group(test, 1);
	kunit_count(group, 0, 0, U64_MAX - 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), U64_MAX - 1);
	tcplat_counters_reset(group);
	kunit_count(group, 0, 0, 3);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), 5);
}

/* ---- maxima ---- */

static void counters_max_is_the_greatest(struct kunit *test)
{
	/* Clamped to 48 bits. */
	const u64 most = (1ULL << 48) - 1;
	const u64 rows[] = { 0, 5, 3, 5, 6, 1, most - 1, most, most + 1, U64_MAX, 1 };
	struct tcplat_group *group = kunit_group(test, 3);
	u64 max = 0;
	int cpu;

	/* An epoch with many bits set. */
	group->epoch = 0xa5a5;
	for_each_row() {
		kunit_note_max(group, 1, *row);
		max = max(max, min(*row, most));
		KUNIT_EXPECT_ROW(test, tcplat_max(group, 1), max);
		KUNIT_EXPECT_ROW(test, tcplat_max(group, 0), 0);
	}

	kunit_note_max(group, 2, most + 1);
	KUNIT_EXPECT_EQ(test, tcplat_max(group, 2), most);

	/* On any CPU. */
	group->epoch = 0;
	for_each_possible_cpu(cpu) {
		kunit_count(group, 0, cpu, 10 + cpu);
		KUNIT_EXPECT_EQ(test, tcplat_max(group, 0), 10 + cpu);
	}
}

/* The epoch has 16 bits and wraps. */
static void counters_max_of_an_earlier_epoch(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, 1);
	int i;

	group->epoch = U16_MAX - 500;
	for (i = 0; i < 1000; i++) {
		kunit_note_max(group, 0, 1000 - i);
		KUNIT_ASSERT_EQ(test, tcplat_max(group, 0), 1000 - i);
		tcplat_counters_reset(group);
		KUNIT_ASSERT_EQ(test, tcplat_max(group, 0), 0);
	}
	KUNIT_EXPECT_EQ(test, group->epoch, 499);
}

TCPLAT_SUITE(counters,
	     KUNIT_CASE(counters_sum_since_the_reset),
	     KUNIT_CASE(counters_max_is_the_greatest),
	     KUNIT_CASE(counters_max_of_an_earlier_epoch));

/* ---- buckets ---- */

/* For all histograms: values at, one below and one above each bound. */
static void hist_edges_of_every_group(struct kunit *test)
{
	struct tcplat_group *group;
	unsigned int i, j, k, hists = 0;

	tcplat_for_each_group(group, i) {
		for (j = 0; j < group->nr_files; j++) {
			const struct tcplat_file *hist = &group->files[j];
			unsigned int n = hist->buckets;

			if (!n)
				continue;
			hists++;
			KUNIT_ASSERT_LE(test, hist->index + n, group->nr_counters);
			for (k = 0; k < n - 1; k++) {
				u64 le = hist->le[k];
				unsigned int below = k && hist->le[k - 1] == le - 1 ? k - 1 : k;

				KUNIT_ASSERT_TRUE(test, !k || hist->le[k - 1] < le);
				KUNIT_EXPECT_EQ(test, tcplat_bucket(hist->le, n, le - 1), below);
				KUNIT_EXPECT_EQ(test, tcplat_bucket(hist->le, n, le), k);
				KUNIT_EXPECT_EQ(test, tcplat_bucket(hist->le, n, le + 1), k + 1);
			}
			KUNIT_EXPECT_EQ(test, tcplat_bucket(hist->le, n, 0), 0);
			KUNIT_EXPECT_EQ(test, tcplat_bucket(hist->le, n, U64_MAX), n - 1);
		}
	}
	KUNIT_EXPECT_GE(test, hists, 1);
}

static void hist_powers_of_two(struct kunit *test)
{
	struct rnd_state rnd = kunit_random();
	u64 le[20];
	unsigned int first, i;

	for (first = 0; first < 40; first++) {
		for (i = 0; i < ARRAY_SIZE(le); i++)
			le[i] = 1ULL << (first + i);
		for (i = 0; i < ARRAY_SIZE(le); i++) {
			int below = !first && i == 1 ? 0 : i;

			KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, le[i] - 1), below);
			KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, le[i]), i);
			KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, le[i] + 1), i + 1);
		}
		KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, 0), 0);
		KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, U64_MAX), 20);
		for (i = 0; i < 2000; i++) {
			u64 value = random_size(&rnd);

			KUNIT_ASSERT_EQ(test, tcplat_bucket_pow2(first, 21, value),
					tcplat_bucket(le, 21, value));
		}
	}
}

/* A clock that stepped back does not give a time of centuries; long times have a bucket. */
static void hist_times(struct kunit *test)
{
	struct tcplat_group *group = kunit_group(test, TCPLAT_TIME_COUNTERS);
	int i;

	KUNIT_EXPECT_EQ(test, tcplat_ns_since(U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, tcplat_ns_since(ktime_get_mono_fast_ns() + NSEC_PER_SEC), 0);
	KUNIT_EXPECT_GE(test, tcplat_ns_since(0), 1);
	KUNIT_EXPECT_EQ(test, tcplat_time_le_ns[0], 1024);
	KUNIT_EXPECT_EQ(test, tcplat_time_le_ns[TCPLAT_TIME_BUCKETS - 2], 1073741824);
	for (i = 0; i < TCPLAT_TIME_BUCKETS - 1; i++) {
		KUNIT_EXPECT_EQ(test, tcplat_time_bucket(tcplat_time_le_ns[i]), i);
		KUNIT_EXPECT_EQ(test, tcplat_time_bucket(tcplat_time_le_ns[i] + 1), i + 1);
	}
	preempt_disable();
	for (i = 0; i < 3; i++)
		tcplat_add_time(group, 0, 1ULL << 62);
	tcplat_add_time(group, 0, 0);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, 0), 3ULL << 62);
	KUNIT_EXPECT_EQ(test, tcplat_max(group, TCPLAT_TIME_MAX), (1ULL << 48) - 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, TCPLAT_TIME_HIST), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, TCPLAT_TIME_COUNTERS - 1), 3);
}

TCPLAT_SUITE(hist,
	     KUNIT_CASE(hist_edges_of_every_group),
	     KUNIT_CASE(hist_powers_of_two),
	     KUNIT_CASE(hist_times));
