// SPDX-License-Identifier: GPL-2.0
/*
 * holdup: while loaded, a thread on the first CPU repeatedly blocks softirqs. Timers that expire
 * meanwhile are late by the rest of that time.
 */
#include <linux/bottom_half.h>
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#define HOLD_MS		25
#define PAUSE_MS	30

static struct task_struct *thread;

/* mdelay() does nothing but read the TSC, which takes an emulator far longer than other code. */
static void spin(void)
{
	u64 end = ktime_get_mono_fast_ns() + (u64)HOLD_MS * NSEC_PER_MSEC;
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
		msleep(PAUSE_MS);
	}
	return 0;
}

static int __init holdup_init(void)
{
	thread = kthread_create(hold_up, NULL, "holdup");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, 0);
	wake_up_process(thread);
	return 0;
}

static void __exit holdup_exit(void)
{
	kthread_stop(thread);
}

module_init(holdup_init);
module_exit(holdup_exit);

MODULE_DESCRIPTION("Tests: blocks softirqs");
MODULE_LICENSE("GPL");
