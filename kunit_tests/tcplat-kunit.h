/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for all suites. Each suite is included at the end of the file that it tests, so that
 * it can access static functions, and only in a build of tcplat_kunit.ko.
 */
#ifndef _TCPLAT_KUNIT_H
#define _TCPLAT_KUNIT_H

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/ptrace.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "../module/socktab.h"
#include "../module/tcplat.h"

/* A loop over the array rows[]; row points to an element of it. */
#define for_each_row() \
	for (const typeof(rows[0]) *row = rows; row < rows + ARRAY_SIZE(rows); row++)

/* Like KUNIT_EXPECT_EQ() in such a loop; a failure names the row. */
#define KUNIT_EXPECT_ROW(test, left, right)				\
	KUNIT_EXPECT_EQ_MSG(test, left, right, "row %d", (int)(row - rows))

/* Zeroed memory, which is freed at the end of the test. */
static inline void *kunit_new(struct kunit *test, size_t size)
{
	void *new = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, new);
	return new;
}

/* An established socket of TCP that exists only in memory. */
static inline struct sock *kunit_sock(struct kunit *test)
{
	/* Memory of a power-of-two size is aligned to it, as sockets in slabs are to 64. */
	struct sock *sk = kunit_new(test, roundup_pow_of_two(sizeof(struct tcp_sock)));

	KUNIT_ASSERT_EQ(test, tcplat_sock_key(sk) & TCPLAT_STATE_MASK, 0);
	sock_net_set(sk, &init_net);
	sk->sk_family = AF_INET;
	sk->sk_protocol = IPPROTO_TCP;
	sk->sk_state = TCP_ESTABLISHED;
	return sk;
}

/* The time in jiffies to which the timer for retransmissions and probes is set. */
static inline void kunit_set_rto_timeout(struct sock *sk, unsigned long expiry)
{
#ifdef TCPLAT_HAVE_TCP_TIMEOUT_EXPIRES
	sk->tcp_retransmit_timer.expires = expiry;
#else
	inet_csk(sk)->icsk_retransmit_timer.expires = expiry;
#endif
}

static inline struct seq_file *kunit_seq(struct kunit *test)
{
	struct seq_file *seq = kunit_new(test, sizeof(*seq));

	seq->size = 16 * PAGE_SIZE;
	seq->buf = kunit_new(test, seq->size);
	return seq;
}

/* Frees the counters of a test's group at the end of the test. */
static inline void kunit_group_free(void *group)
{
	free_percpu(((struct tcplat_group *)group)->counters);
}

static inline struct tcplat_group *kunit_group(struct kunit *test, unsigned int n)
{
	struct tcplat_group *group = kunit_new(test, sizeof(*group));

	group->name = "test";
	group->nr_counters = n;
	KUNIT_ASSERT_EQ(test, tcplat_counters_alloc(group), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, kunit_group_free, group), 0);
	return group;
}

static inline void kunit_count(struct tcplat_group *group, unsigned int index, int cpu,
			       u64 value)
{
	per_cpu_ptr(group->counters, cpu)[index] = value;
}

/* Calls a handler as probes do: with preemption off. */
#define KUNIT_HANDLE(call)						\
do {									\
	preempt_disable();						\
	call;								\
	preempt_enable();						\
} while (0)

static inline void kunit_note_max(struct tcplat_group *group, unsigned int index, u64 value)
{
	KUNIT_HANDLE(tcplat_note_max(group, index, value));
}

/* Registers the suite tcplat_NAME, which consists of the cases. */
#define TCPLAT_SUITE(_name, ...)					\
static struct kunit_case _name##_cases[] = { __VA_ARGS__, {} };		\
									\
static struct kunit_suite _name##_suite = {				\
	.name = "tcplat_" #_name,					\
	.test_cases = _name##_cases,					\
};									\
kunit_test_suite(_name##_suite)

/* The group of a suite that calls its handlers. */
static struct tcplat_group *suite_group;
static bool suite_group_was_armed;

static inline int suite_group_begin(struct tcplat_group *group)
{
	suite_group = group;
	mutex_lock(&tcplat_control);
	suite_group_was_armed = group->armed;
	tcplat_group_disable(group);
	mutex_unlock(&tcplat_control);
	return group->alloc ? group->alloc(group) : 0;
}

static inline void suite_group_end(struct kunit_suite *suite)
{
	if (suite_group->stop)
		suite_group->stop(suite_group);
	tcplat_counters_reset(suite_group);
	mutex_lock(&tcplat_control);
	if (suite_group_was_armed)
		WARN_ON(tcplat_group_enable(suite_group));
	mutex_unlock(&tcplat_control);
}

static inline int suite_group_reset(struct kunit *test)
{
	tcplat_counters_reset(suite_group);
	return 0;
}

/*
 * The same for cases that call the handlers of the group tcplat_NAME: its probes are off, so that
 * nothing else is counted, and its counters are 0 when a case begins.
 */
#define TCPLAT_GROUP_SUITE(_name, ...)					\
static struct kunit_case _name##_cases[] = { __VA_ARGS__, {} };		\
									\
static int _name##_suite_init(struct kunit_suite *suite)		\
{									\
	return suite_group_begin(&tcplat_##_name);			\
}									\
									\
static struct kunit_suite _name##_suite = {				\
	.name = "tcplat_" #_name,					\
	.suite_init = _name##_suite_init,				\
	.suite_exit = suite_group_end,					\
	.init = suite_group_reset,					\
	.test_cases = _name##_cases,					\
};									\
kunit_test_suite(_name##_suite)

/* Expects sums of the group's counters, each as { index, sum }. */
#define KUNIT_EXPECT_SUMS(test, ...)					\
do {									\
	const u64 _sums[][2] = { __VA_ARGS__ };				\
	unsigned int _i;						\
									\
	for (_i = 0; _i < ARRAY_SIZE(_sums); _i++)			\
		KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(suite_group, _sums[_i][0]), _sums[_i][1], \
				    "counter %llu", _sums[_i][0]);	\
} while (0)

/* The number that this file of the group shows. */
static inline u64 kunit_file(struct kunit *test, const struct tcplat_group *group, const char *name)
{
	unsigned int i;

	for (i = 0; i < group->nr_files; i++)
		if (!strcmp(group->files[i].attr.attr.name, name))
			return group->files[i].read(group, group->files[i].index);
	KUNIT_FAIL(test, "no file %s/%s", group->name, name);
	return 0;
}

/* Fills the free slots of both sets of the socket with other sockets, or empties all slots. */
static inline void kunit_fill_sets(struct tcplat_socktab *tab, const void *sk, bool full)
{
	u64 *sets[] = {
		tcplat_socktab_home(tab, (unsigned long)sk),
		tcplat_socktab_second(tab, (unsigned long)sk),
	};
	int i;

	for (i = 0; i < 2 * TCPLAT_SET_SLOTS; i++) {
		u64 *slot = tcplat_socktab_nth(sets[i % 2], i / 2);

		if (!full)
			*slot = 0;
		else if (!*slot)
			*slot = 0xffff000000001000 + 64 * i;
	}
}

/* The same numbers in each run, so that failures are reproducible. */
static inline struct rnd_state kunit_random(void)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 20240229);
	return rnd;
}

/* The magnitude is random, too, so that small values are as frequent as large ones. */
static inline u64 random_size(struct rnd_state *rnd)
{
	u64 high = prandom_u32_state(rnd), low = prandom_u32_state(rnd);

	return (high << 32 | low) >> (prandom_u32_state(rnd) % 64);
}

#endif /* _TCPLAT_KUNIT_H */
