// SPDX-License-Identifier: GPL-2.0
/*
 * holdup: while loaded, a thread on the first CPU repeatedly blocks softirqs. Timers that expire
 * meanwhile are late by the rest of that time. With in_kprobe=1 the thread spins in a kprobe's
 * handler instead: timers run there on time, but the kernel calls no kprobe of theirs and counts it
 * as missed.
 */
#include <linux/bottom_half.h>
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/timekeeping.h>

#define HOLD_MS		25
#define PAUSE_MS	30

static bool in_kprobe;
module_param(in_kprobe, bool, 0444);
MODULE_PARM_DESC(in_kprobe, "Spin in the handler of a kprobe");

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

/*
 * notrace, so that the kprobe is a breakpoint at first, and then a jump, for which there must be
 * room.
 */
static noinline notrace void place(void)
{
	asm volatile(".fill 16, 1, 0x90");
}

static int on_place(struct kprobe *kp, struct pt_regs *regs)
{
	/* Interrupts are off in a breakpoint's handler. */
	if (!irqs_disabled())
		spin();
	return 0;
}

static struct kprobe kp = {
	.addr = (kprobe_opcode_t *)place,
	.pre_handler = on_place,
};

static int hold_up(void *unused)
{
	while (!kthread_should_stop()) {
		if (in_kprobe) {
			place();
		} else {
			local_bh_disable();
			spin();
			local_bh_enable();
		}
		msleep(PAUSE_MS);
	}
	return 0;
}

static int __init holdup_init(void)
{
	int err = in_kprobe ? register_kprobe(&kp) : 0;

	if (err)
		return err;
	thread = kthread_create(hold_up, NULL, "holdup");
	if (IS_ERR(thread)) {
		if (in_kprobe)
			unregister_kprobe(&kp);
		return PTR_ERR(thread);
	}
	kthread_bind(thread, 0);
	wake_up_process(thread);
	return 0;
}

static void __exit holdup_exit(void)
{
	kthread_stop(thread);
	if (in_kprobe)
		unregister_kprobe(&kp);
}

module_init(holdup_init);
module_exit(holdup_exit);

MODULE_DESCRIPTION("Tests: blocks softirqs, or kprobes");
MODULE_LICENSE("GPL");
