// SPDX-License-Identifier: GPL-2.0
/*
 * Per-CPU counters, histograms and maxima: counting, summing, resetting.
 *
 * Reset cannot write to another CPU's counter, since that CPU may be adding to it. Instead,
 * reset stores each counter's value as its base, and readers subtract the base. So no event
 * that is counted during a reset is lost.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/kernel.h>

#include "jiffies.h"
#include "tcplat.h"

/**
 * tcplat_counters_alloc() - allocate a group's counters, all zero
 * @group: the group
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM
 */
int tcplat_counters_alloc(struct tcplat_group *group)
{
	group->counters = __alloc_percpu(2 * group->nr_counters * sizeof(u64),
					 sizeof(u64));
	return group->counters ? 0 : -ENOMEM;
}

/**
 * tcplat_counters_reset() - make every counter and maximum of a group read zero
 * @group: the group; its probes may be on
 *
 * Context: process, under tcplat_control.
 */
void tcplat_counters_reset(struct tcplat_group *group)
{
	unsigned int i;
	int cpu;

	WRITE_ONCE(group->epoch, group->epoch + 1);
	for_each_possible_cpu(cpu) {
		u64 *counter = per_cpu_ptr(group->counters, cpu);

		for (i = 0; i < group->nr_counters; i++)
			/* Pairs with smp_rmb() in counter_cpu(). */
			smp_store_release(&counter[group->nr_counters + i],
					  READ_ONCE(counter[i]));
	}
}

/* One CPU's part of a counter since the last reset. */
static u64 counter_cpu(const struct tcplat_group *group, unsigned int index, int cpu)
{
	const u64 *counter = per_cpu_ptr(group->counters, cpu);
	u64 base = READ_ONCE(counter[group->nr_counters + index]);

	/*
	 * Read the base first: a reset between the reads must not make the result negative. Pairs
	 * with smp_store_release() in tcplat_counters_reset().
	 */
	smp_rmb();
	return READ_ONCE(counter[index]) - base;
}

/**
 * tcplat_sum() - a counter since the last reset, over all CPUs
 * @group: the group
 * @index: the counter
 *
 * Context: any.
 * Return: the sum, in the counter's unit
 */
u64 tcplat_sum(const struct tcplat_group *group, unsigned int index)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += counter_cpu(group, index, cpu);
	return sum;
}

/**
 * tcplat_jiffies_sum_us() - a counter of jiffies since the last reset, over all CPUs
 * @group: the group
 * @index: the counter
 *
 * Context: any.
 * Return: the sum, in microseconds
 */
u64 tcplat_jiffies_sum_us(const struct tcplat_group *group, unsigned int index)
{
	return tcplat_jiffies_to_us(tcplat_sum(group, index));
}

/**
 * tcplat_max() - a maximum since the last reset, over all CPUs
 * @group: the group
 * @index: the maximum, as stored by tcplat_note_max()
 *
 * Context: any.
 * Return: the maximum, in its own unit
 */
u64 tcplat_max(const struct tcplat_group *group, unsigned int index)
{
	u16 epoch = READ_ONCE(group->epoch);
	u64 max = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		u64 value = READ_ONCE(per_cpu_ptr(group->counters, cpu)[index]);

		if (value >> TCPLAT_MAX_BITS == epoch)
			max = max(max, value & TCPLAT_MAX_MASK);
	}
	return max;
}

/**
 * tcplat_note_max() - raise a maximum to a value, if the value is greater
 * @group: the group
 * @index: the maximum
 * @value: the value, in the maximum's unit; clamped to 48 bits
 *
 * Context: any with preemption off, as probe handlers have it.
 */
void __kprobes tcplat_note_max(const struct tcplat_group *group, unsigned int index, u64 value)
{
	u64 old = this_cpu_read(group->counters[index]);
	u64 epoch, new, seen;

	/*
	 * The epoch is read after the maximum: an interrupt may note its own maximum after a reset
	 * that this event has not seen.
	 */
	for (;; old = seen) {
		epoch = READ_ONCE(group->epoch);
		new = epoch << TCPLAT_MAX_BITS | min(value, TCPLAT_MAX_MASK);
		if (old >> TCPLAT_MAX_BITS == epoch && old >= new)
			break;
		seen = this_cpu_cmpxchg(group->counters[index], old, new);
		if (seen == old)
			break;
	}
}

/**
 * tcplat_bucket() - find the histogram bucket of a value
 * @le: inclusive upper bounds, ascending, @buckets - 1 of them
 * @buckets: number of buckets, the last one without a bound
 * @value: the value, in the unit of the bounds
 *
 * Context: any.
 * Return: 0 to @buckets - 1
 */
unsigned int __kprobes tcplat_bucket(const u64 *le, unsigned int buckets, u64 value)
{
	unsigned int i;

	for (i = 0; i < buckets - 1; i++)
		if (value <= le[i])
			break;
	return i;
}

/**
 * tcplat_bucket_pow2() - find the bucket of a value if the bounds are powers of two
 * @first: the first bound is 2^@first
 * @buckets: number of buckets, the last one without a bound
 * @value: the value, in the unit of the bounds
 *
 * Context: any.
 * Return: 0 to @buckets - 1
 */
unsigned int __kprobes tcplat_bucket_pow2(unsigned int first, unsigned int buckets, u64 value)
{
	unsigned int log2_up = value ? fls64(value - 1) : 0;

	return log2_up <= first ? 0 : min(log2_up - first, buckets - 1);
}

const u64 tcplat_time_le_ns[TCPLAT_TIME_BUCKETS - 1] = {
	1ULL << 10, 1ULL << 11, 1ULL << 12, 1ULL << 13, 1ULL << 14, 1ULL << 15, 1ULL << 16,
	1ULL << 17, 1ULL << 18, 1ULL << 19, 1ULL << 20, 1ULL << 21, 1ULL << 22, 1ULL << 23,
	1ULL << 24, 1ULL << 25, 1ULL << 26, 1ULL << 27, 1ULL << 28, 1ULL << 29, 1ULL << 30,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/counters-kunit.h"
#endif
