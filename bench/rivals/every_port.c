// SPDX-License-Identifier: GPL-2.0
/*
 * The naive way to count the ports that connect() tries, as cheaply as possible: a kprobe on the
 * function that the kernel calls for each port in use, and a counter.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>

static DEFINE_PER_CPU(u64, tried);

static int count(struct kprobe *kp, struct pt_regs *regs)
{
	this_cpu_inc(tried);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "__inet_check_established",
	.pre_handler = count,
};

static int __init every_port_init(void)
{
	return register_kprobe(&probe);
}

static void __exit every_port_exit(void)
{
	u64 sum = 0;
	int cpu;

	unregister_kprobe(&probe);
	for_each_possible_cpu(cpu)
		sum += per_cpu(tried, cpu);
	pr_info("every_port: %llu\n", sum);
}

module_init(every_port_init);
module_exit(every_port_exit);

MODULE_DESCRIPTION("A kprobe on every port that connect() tries, for comparison");
MODULE_LICENSE("GPL");
