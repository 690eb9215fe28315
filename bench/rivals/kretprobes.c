// SPDX-License-Identifier: GPL-2.0
/*
 * The obvious way to count changes of the ACK mode: compare the mode before and after each
 * function that may change it. It misses changes made elsewhere, but that does not matter here:
 * the probes are the cost.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <net/inet_connection_sock.h>

enum mode {
	DELAYED,
	QUICKACK,
	PINGPONG,
	MODES,
};

struct before {
	struct sock *sk;
	enum mode mode;
};

static DEFINE_PER_CPU(u64 [MODES][MODES], changes);

static enum mode mode_of(struct sock *sk)
{
	if (inet_csk_in_pingpong_mode(sk))
		return PINGPONG;
	return inet_csk(sk)->icsk_ack.quick ? QUICKACK : DELAYED;
}

static int entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct before *before = (struct before *)ri->data;

	before->sk = (struct sock *)regs_get_kernel_argument(regs, 0);
	before->mode = mode_of(before->sk);
	return 0;
}

NOKPROBE_SYMBOL(entry);

static int ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct before *before = (struct before *)ri->data;
	enum mode mode = mode_of(before->sk);

	if (mode != before->mode)
		this_cpu_inc(changes[before->mode][mode]);
	return 0;
}

NOKPROBE_SYMBOL(ret);

/* The socket outlives all of these calls, which do not include its destruction. */
#define AROUND(symbol)				\
{						\
	.kp.symbol_name = symbol,		\
	.entry_handler = entry,			\
	.handler = ret,				\
	.data_size = sizeof(struct before),	\
	.maxactive = 256,			\
}

static struct kretprobe probes[] = {
	AROUND("__tcp_transmit_skb"),
	AROUND("tcp_event_data_recv"),
	AROUND("tcp_delack_timer_handler"),
	AROUND("do_tcp_setsockopt"),
	AROUND("tcp_sock_set_quickack"),
	AROUND("tcp_init_transfer"),
};

static struct kretprobe *pointers[ARRAY_SIZE(probes)];

static int __init kretprobes_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		pointers[i] = &probes[i];
	return register_kretprobes(pointers, ARRAY_SIZE(pointers));
}

static void __exit kretprobes_exit(void)
{
	unsigned int from, to, i;
	int cpu, missed = 0;
	u64 sum;

	unregister_kretprobes(pointers, ARRAY_SIZE(pointers));
	for (from = 0; from < MODES; from++)
		for (to = 0; to < MODES; to++) {
			if (from == to)
				continue;
			sum = 0;
			for_each_possible_cpu(cpu)
				sum += per_cpu(changes[from][to], cpu);
			pr_info("kretprobes: %u %u %llu\n", from, to, sum);
		}
	for (i = 0; i < ARRAY_SIZE(probes); i++)
		missed += probes[i].nmissed;
	pr_info("kretprobes: missed %d\n", missed);
}

module_init(kretprobes_init);
module_exit(kretprobes_exit);

MODULE_DESCRIPTION("kretprobes around what changes the ACK mode, for comparison");
MODULE_LICENSE("GPL");
