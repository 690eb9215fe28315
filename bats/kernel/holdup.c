// SPDX-License-Identifier: GPL-2.0
/*
 * holdup: while loaded, a thread repeatedly blocks softirqs. Timers that expire meanwhile are late
 * by the rest of that time.
 */
#include <linux/bottom_half.h>
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/timekeeping.h>

static unsigned int hold_ms = 25;
module_param(hold_ms, uint, 0444);
MODULE_PARM_DESC(hold_ms, "How long softirqs are blocked, in ms");

static unsigned int pause_ms = 30;
module_param(pause_ms, uint, 0444);
MODULE_PARM_DESC(pause_ms, "Pause between two blocks, in ms");

static struct task_struct *thread;

/* mdelay() does nothing but read the TSC, which takes an emulator far longer than other code. */
static void spin(void)
{
	u64 end = ktime_get_mono_fast_ns() + (u64)hold_ms * NSEC_PER_MSEC;
	unsigned int i;

	while (ktime_get_mono_fast_ns() < end)
		for (i = 0; i < 1000; i++)
			barrier();
}

static int hold_up(void *unused)
{
	while (!kthread_should_stop()) {
		local_bh_disable();
		spin();
		local_bh_enable();
		msleep(pause_ms);
	}
	return 0;
}

static int __init holdup_init(void)
{
	thread = kthread_run(hold_up, NULL, "holdup");
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit holdup_exit(void)
{
	kthread_stop(thread);
}

module_init(holdup_init);
module_exit(holdup_exit);

MODULE_DESCRIPTION("Tests: blocks softirqs");
MODULE_LICENSE("GPL");
