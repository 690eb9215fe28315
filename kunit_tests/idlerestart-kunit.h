/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of restarts after idle times that are too long for other tests.
 */
#include <linux/kprobes.h>

#include "tcplat-kunit.h"

#ifdef CONFIG_X86_64
/**
 * struct fake_call - a simulated call of tcp_cwnd_restart()
 * @tp: the socket
 * @regs: registers at entry
 * @ri: the instance that kretprobes pass to the handlers, followed by @data
 * @data: the data of the entry handler
 */
struct fake_call {
	struct tcp_sock tp;
	struct pt_regs regs;
	struct kretprobe_instance ri;
	struct restart data;
};

static void fake_restart(struct fake_call *call, unsigned long idle, u32 cwnd, u32 after)
{
	call->regs.di = (unsigned long)&call->tp;
	call->regs.si = idle;
	call->tp.snd_cwnd = cwnd;
	preempt_disable();
	restart_entry(&call->ri, &call->regs);
	call->tp.snd_cwnd = after;
	restart_return(&call->ri, &call->regs);
	preempt_enable();
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
	const struct tcplat_group *group = &tcplat_idlerestart;
	struct fake_call *call;
	u64 idle = 0;
	int i, j;

	call = kunit_kzalloc(test, sizeof(*call), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, call);
	KUNIT_ASSERT_PTR_EQ(test, (void *)call->ri.data, (void *)&call->data);
	sock_net_set((struct sock *)&call->tp, &init_net);
	tcplat_counters_reset(&tcplat_idlerestart);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (j = 0; j < 2; j++) {
			fake_restart(call, rows[i].arg, 10, 10);
			idle += rows[i].idle;
			KUNIT_EXPECT_EQ(test, tcplat_sum(group, IDLE_JIFFIES), idle);
		}
	}
	KUNIT_EXPECT_GT(test, idle, U32_MAX);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, RESTARTS), 2 * ARRAY_SIZE(rows));
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, CWND_LOST), 0);

	/* The sum of the losses may exceed 32 bits; growth of the window is not a loss. */
	fake_restart(call, HZ, U32_MAX, 10);
	fake_restart(call, HZ, U32_MAX, 10);
	fake_restart(call, HZ, 10, U32_MAX);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, CWND_LOST), 2 * (U32_MAX - 10ULL));
	tcplat_counters_reset(&tcplat_idlerestart);
}

static struct kunit_case idlerestart_cases[] = {
	KUNIT_CASE(idlerestart_counts_any_time),
	{}
};

static struct kunit_suite idlerestart_suite = {
	.name = "tcplat_idlerestart",
	.test_cases = idlerestart_cases,
};

kunit_test_suite(idlerestart_suite);
#endif
