/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of waits of senders that do not block.
 */
#include <linux/processor.h>
#include <linux/tcp.h>
#include <linux/timekeeping.h>

#include "tcplat-kunit.h"

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

	sk->sk_prot = &tcp_prot;
	sk->sk_sndbuf = 4096;
	for_each_row() {
		sk->sk_kern_sock = 0;
		sk->sk_err = 0;
		KUNIT_HANDLE(again_begin(sk));
		sk->sk_kern_sock = row->kernel;
		sk->sk_err = row->dead ? ECONNRESET : 0;
		sk->sk_socket = row->orphan ? NULL : (void *)sk;
		sk->sk_wmem_queued = row->writable ? 0 : sk->sk_sndbuf;
		KUNIT_EXPECT_ROW(test, again_begins(sk), row->begins);
		KUNIT_HANDLE(write_space_entry(sk, 0, 0));
		ended += row->ends;
		gave_up += row->ends && row->dead;
		KUNIT_EXPECT_SUMS(test, { AGAIN, ended }, { AGAIN_GAVE_UP, gave_up });
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

	for_each_row() {
		sk->sk_family = row->family;
		sk->sk_protocol = row->protocol;
		KUNIT_EXPECT_ROW(test, again_begins(sk), row->tcp);
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
	KUNIT_EXPECT_SUMS(test, { AGAIN, 0 });
	again_end(sk, slot, TCPLAT_WAIT_AGAIN);
	again_end(sk, slot, TCPLAT_WAIT_AGAIN);
	tcplat_sndwait_gone(sk, 0, 0);
	KUNIT_EXPECT_SUMS(test, { AGAIN, 1 }, { AGAIN_GAVE_UP, 0 });
	time = tcplat_sum(&tcplat_sndwait, AGAIN_TIME);
	KUNIT_EXPECT_GE(test, time, NSEC_PER_MSEC);
	again_begin(sk);
	tcplat_sndwait_gone(sk, 0, 0);
	tcplat_sndwait_gone(sk, 0, 0);
	preempt_enable();
	/* There never was room, so no time is counted. */
	KUNIT_EXPECT_SUMS(test, { AGAIN, 2 }, { AGAIN_GAVE_UP, 1 }, { AGAIN_TIME, time });
	KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
}

/* A wait that finds no room in the table is counted once. */
static void sndwait_counts_what_finds_no_room(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	kunit_fill_sets(&again, sk, true);
	KUNIT_HANDLE(again_begin(sk));
	kunit_fill_sets(&again, sk, false);
	KUNIT_EXPECT_SUMS(test, { AGAIN_UNTRACKED, 1 });
	KUNIT_EXPECT_NULL(test, sndwait_slot(sk));
	KUNIT_HANDLE(again_begin(sk));
	KUNIT_EXPECT_SUMS(test, { AGAIN_UNTRACKED, 1 });
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

TCPLAT_GROUP_SUITE(sndwait,
		   KUNIT_CASE(sndwait_begins_and_ends),
		   KUNIT_CASE(sndwait_sockets_of_tcp),
		   KUNIT_CASE(sndwait_sockets_of_the_kernel),
		   KUNIT_CASE(sndwait_counts_once),
		   KUNIT_CASE(sndwait_counts_what_finds_no_room),
		   KUNIT_CASE(sndwait_needs_all_places));
