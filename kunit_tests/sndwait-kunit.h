/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of waits of senders that do not block.
 */
#include <linux/processor.h>
#include <linux/tcp.h>
#include <linux/timekeeping.h>

#include "tcplat-kunit.h"

static u64 sndwait_count(unsigned int index)
{
	return tcplat_sum(&tcplat_sndwait, index);
}

/* Each combination of inputs, with the expected results. */
static void sndwait_begins_and_ends(struct kunit *test)
{
	static const struct {
		bool kernel, dead, orphan, writable;
		bool begins, ends;
	} rows[] = {
		{ .begins = true },
		{ .writable = true, .begins = true, .ends = true },
		{ .kernel = true, .writable = true, .ends = true },
		{ .dead = true, .writable = true, .ends = true },
		{ .dead = true },
		{ .orphan = true, .writable = true, .begins = true },
	};
	struct sock *sk = kunit_sock(test);
	u64 ended = 0, gave_up = 0;
	int i;

	sk->sk_prot = &tcp_prot;
	sk->sk_sndbuf = 4096;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		sk->sk_kern_sock = 0;
		sk->sk_err = 0;
		KUNIT_HANDLE(again_begin(sk));
		sk->sk_kern_sock = rows[i].kernel;
		sk->sk_err = rows[i].dead ? ECONNRESET : 0;
		sk->sk_socket = rows[i].orphan ? NULL : (void *)sk;
		sk->sk_wmem_queued = rows[i].writable ? 0 : sk->sk_sndbuf;
		KUNIT_EXPECT_ROW(test, i, again_begins(sk), rows[i].begins);
		KUNIT_HANDLE(write_space_entry(sk, 0, 0));
		ended += rows[i].ends;
		gave_up += rows[i].ends && rows[i].dead;
		KUNIT_EXPECT_ROW(test, i, sndwait_count(AGAIN), ended);
		KUNIT_EXPECT_ROW(test, i, sndwait_count(AGAIN_GAVE_UP), gave_up);
	}
	KUNIT_HANDLE(tcplat_sndwait_gone(sk, 0, 0));
}

/* tcp_v4_destroy_sock() destroys TCP sockets of both families and no others. */
static void sndwait_sockets_of_tcp(struct kunit *test)
{
	static const struct {
		int family, protocol;
		bool tcp;
	} rows[] = {
		{ AF_INET, IPPROTO_TCP, true }, { AF_INET6, IPPROTO_TCP, true },
		{ AF_UNIX, IPPROTO_TCP, false }, { AF_INET, IPPROTO_UDP, false },
		{ AF_INET6, IPPROTO_MPTCP, false }, { AF_SMC, 0, false },
	};
	struct sock *sk = kunit_sock(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		sk->sk_family = rows[i].family;
		sk->sk_protocol = rows[i].protocol;
		KUNIT_EXPECT_ROW(test, i, again_begins(sk), rows[i].tcp);
	}
}

/* What is stored in sk_user_data tells whether a part of the kernel uses the socket. */
static void sndwait_sockets_of_the_kernel(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	KUNIT_EXPECT_FALSE(test, is_kernels(sk));
	sk->sk_user_data = test;
	KUNIT_EXPECT_TRUE(test, is_kernels(sk));
	sk->sk_user_data = (void *)((unsigned long)test | SK_USER_DATA_NOCOPY);
	KUNIT_EXPECT_FALSE(test, is_kernels(sk));
	sk->sk_user_data = NULL;
	sk->sk_kern_sock = 1;
	KUNIT_EXPECT_TRUE(test, is_kernels(sk));
}

/* The socket's slot, whatever the counts by hash say. */
static u64 *sndwait_slot(const struct sock *sk)
{
	u64 word;

	return tcplat_socktab_find(&again, (unsigned long)sk, &word);
}

/* The first refusal begins a wait; the first event that ends it counts it, once. */
static void sndwait_counts_once(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);
	u64 since, time;
	u64 *slot;

	preempt_disable();
	again_begin(sk);
	slot = sndwait_slot(sk);
	since = slot ? *again_since(slot) : 0;
	/* Use the handlers' clock, since that of mdelay() may be a little faster. */
	while (ktime_get_mono_fast_ns() < since + NSEC_PER_MSEC)
		cpu_relax();
	again_begin(sk);
	KUNIT_EXPECT_TRUE(test, slot && since && *again_since(slot) == since);
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN), 0);
	again_end(sk, slot, TCPLAT_WAIT_AGAIN);
	again_end(sk, slot, TCPLAT_WAIT_AGAIN);
	tcplat_sndwait_gone(sk, 0, 0);
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN), 1);
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN_GAVE_UP), 0);
	time = sndwait_count(AGAIN_TIME);
	KUNIT_EXPECT_GE(test, time, NSEC_PER_MSEC);
	again_begin(sk);
	tcplat_sndwait_gone(sk, 0, 0);
	tcplat_sndwait_gone(sk, 0, 0);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN), 2);
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN_GAVE_UP), 1);
	/* There never was room, so no time is counted. */
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN_TIME), time);
	KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
}

/* A wait that finds no room in the table is counted once. */
static void sndwait_counts_what_finds_no_room(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	kunit_fill_sets(&again, sk, true);
	KUNIT_HANDLE(again_begin(sk));
	kunit_fill_sets(&again, sk, false);
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN_UNTRACKED), 1);
	KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
	KUNIT_HANDLE(again_begin(sk));
	KUNIT_EXPECT_EQ(test, sndwait_count(AGAIN_UNTRACKED), 1);
	KUNIT_EXPECT_NOT_NULL(test, sndwait_slot(sk));
	KUNIT_EXPECT_EQ(test, tcplat_socktab_count(&again, NULL), 1);
	sndwait_stop(&tcplat_sndwait);
	KUNIT_EXPECT_FALSE(test, tcplat_socktab_may_have(tcplat_sndwait_held, sk));
	KUNIT_ASSERT_EQ(test, sndwait_alloc(&tcplat_sndwait), 0);
	KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
}

/* If one of the probed functions is missing, no waits are counted. */
static void sndwait_needs_all_places(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);
	const char *found;
	int i;

	for (i = 0; i < ARRAY_SIZE(sndwait_probes); i++) {
		found = sndwait_probes[i].found;
		sndwait_probes[i].found = NULL;
		KUNIT_EXPECT_FALSE(test, again_is_available());
		KUNIT_HANDLE(again_begin(sk));
		KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
		sndwait_probes[i].found = found;
	}
	KUNIT_EXPECT_TRUE(test, again_is_available());
}

static struct kunit_case sndwait_cases[] = {
	KUNIT_CASE(sndwait_begins_and_ends),
	KUNIT_CASE(sndwait_sockets_of_tcp),
	KUNIT_CASE(sndwait_sockets_of_the_kernel),
	KUNIT_CASE(sndwait_counts_once),
	KUNIT_CASE(sndwait_counts_what_finds_no_room),
	KUNIT_CASE(sndwait_needs_all_places),
	{}
};

TCPLAT_GROUP_SUITE(sndwait);
