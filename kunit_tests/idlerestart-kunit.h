/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of restarts after idle times that are too long for other tests.
 */
#include "tcplat-kunit.h"

/* The window is halved once for each timeout but the first that has passed. */
static void idlerestart_windows(struct kunit *test)
{
	static const struct {
		u32 cwnd, initial;
		s32 idle;
		u32 rto, after;
	} rows[] = {
		{ 80, 10, 200, 200, 80 }, { 80, 10, 201, 200, 40 }, { 80, 10, 400, 200, 40 },
		{ 80, 10, 401, 200, 20 }, { 80, 10, 1000, 200, 10 }, { 80, 10, S32_MAX, 200, 10 },
		{ 81, 10, 201, 200, 40 }, { 19, 10, 201, 200, 10 }, { 10, 10, 9999, 200, 10 },
		{ 7, 10, 9999, 200, 7 }, { U32_MAX, 1, S32_MAX, 1, 1 }, { 2, 0, 500, 200, 0 },
	};

	for_each_row()
		KUNIT_EXPECT_ROW(test, tcplat_cwnd_after(row->cwnd, row->initial, row->idle,
							 row->rto), row->after);
}

/* The argument is an s32; the upper 32 bits of the register are undefined. */
static void idlerestart_counts_any_time(struct kunit *test)
{
	static const struct {
		unsigned long arg;
		u32 idle;
	} rows[] = {
		{ HZ / 5 + 1, HZ / 5 + 1 }, { 300 * HZ, 300 * HZ },
		{ 0x7ffffffe, 0x7ffffffe }, { 0x7fffffff, 0x7fffffff },
		{ 0xdeadbeef7fffffff, 0x7fffffff }, { 0xffffffff00000007, 7 },
	};
	struct sock *sk = kunit_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 idle = 0;
	int i;

	tp->snd_cwnd = 10;
	tp->snd_cwnd_clamp = U32_MAX;
	inet_csk(sk)->icsk_rto = HZ / 5;
	for_each_row() {
		for (i = 0; i < 2; i++) {
			KUNIT_HANDLE(restart_entry(sk, row->arg, 0));
			idle += row->idle;
			KUNIT_EXPECT_SUMS(test, { IDLE_JIFFIES, idle });
		}
	}
	KUNIT_EXPECT_GT(test, idle, U32_MAX);
	KUNIT_EXPECT_SUMS(test, { RESTARTS, 2 * ARRAY_SIZE(rows) }, { CWND_LOST, 0 });

	/* The sum of the losses may exceed 32 bits. */
	tp->snd_cwnd = U32_MAX;
	for (i = 0; i < 3; i++)
		KUNIT_HANDLE(restart_entry(sk, HZ / 5 + 1, 0));
	KUNIT_EXPECT_SUMS(test, { CWND_LOST, 3 * (1ULL << 31) });
}

TCPLAT_GROUP_SUITE(idlerestart,
		   KUNIT_CASE(idlerestart_windows),
		   KUNIT_CASE(idlerestart_counts_any_time));
