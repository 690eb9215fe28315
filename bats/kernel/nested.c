// SPDX-License-Identifier: GPL-2.0
/*
 * nested: reaches three functions that tcplat watches from within the handler of a kprobe,
 * where a CPU serves no second one: the kernel cannot deliver these hits to kprobes, and
 * counts them as missed. As often as "calls" says, while it is loaded. Loading fails, so
 * that it can be done again at once.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>

static unsigned int calls = 1;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "How often (default 1)");

static struct socket *sock;
static unsigned int done;

/* No module may call it: where it is, kprobes tell. */
static void (*cwnd_restart)(struct sock *sk, s32 delta);

/* Not where ftrace could serve the kprobe: this one is a breakpoint, or a jump. */
static noinline notrace void place(void)
{
	barrier();
}

/* Neither sleeps: a sender without time is told so, and an option without a value. */
static int on_place(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = sock->sk;
	long timeo = 0;

	cwnd_restart(sk, 1);
	if (sk_stream_wait_memory(sk, &timeo) == -EAGAIN &&
	    sk->sk_prot->setsockopt(sk, SOL_TCP, TCP_QUICKACK, KERNEL_SOCKPTR(NULL), 0) == -EINVAL)
		done++;
	return 0;
}

static struct kprobe kp = {
	.addr = (kprobe_opcode_t *)place,
	.pre_handler = on_place,
};

static int find_cwnd_restart(void)
{
	struct kprobe there = {
		.symbol_name = "tcp_cwnd_restart",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int err = register_kprobe(&there);

	if (!err) {
		cwnd_restart = (void *)there.addr;
		unregister_kprobe(&there);
	}
	return err;
}

static int __init nested_init(void)
{
	unsigned int i;
	int err;

	err = find_cwnd_restart();
	if (err)
		return err;
	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	err = register_kprobe(&kp);
	if (!err) {
		for (i = 0; i < calls; i++)
			place();
		unregister_kprobe(&kp);
		err = done == calls ? -EAGAIN : -EIO;
	}
	sock_release(sock);
	return err;
}

module_init(nested_init);

MODULE_DESCRIPTION("Reaches watched functions from within a kprobe's handler");
MODULE_LICENSE("GPL");
