// SPDX-License-Identifier: GPL-2.0
/*
 * nested: calls three functions that tcplat watches from within the handler of a kprobe. A CPU
 * handles only one kprobe at a time, so the kernel cannot deliver these hits to kprobes, and
 * counts them as missed. The parameter calls is the number of times. Loading always fails, so
 * that it can be repeated at once.
 */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/random.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <asm/text-patching.h>

static unsigned int calls = 1;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "Number of times (default 1)");

#ifdef OPTVAL_USER
#define NO_VALUE NULL
#else
#define NO_VALUE KERNEL_SOCKPTR(NULL)
#endif

static struct socket *sock;
static unsigned int done;

/* Not exported: a kprobe gives its address. */
static void (*cwnd_restart)(struct sock *sk, s32 delta);

/*
 * notrace, so that ftrace cannot handle the kprobe: it is a breakpoint, or soon a jump that the
 * kernel puts there instead.
 */
static noinline notrace void place(void)
{
	barrier();
}

/* These calls do not sleep: one has a timeout of 0, the other an option without a value. */
static int on_place(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = sock->sk;
	long timeo = 0;

	cwnd_restart(sk, 1);
	if (sk_stream_wait_memory(sk, &timeo) == -EAGAIN &&
	    sk->sk_prot->setsockopt(sk, SOL_TCP, TCP_QUICKACK, NO_VALUE, 0) == -EINVAL)
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

/* Lockdep takes a breakpoint's handler for an NMI, which may not take locks. */
static void wait_for_jump(void)
{
	unsigned int i;

	for (i = 0; i < 50 && *(u8 *)kp.addr == INT3_INSN_OPCODE; i++)
		msleep(20);
}

static int __init nested_init(void)
{
	unsigned int i;
	u8 random;
	int err;

	err = find_cwnd_restart();
	if (err)
		return err;
	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	err = register_kprobe(&kp);
	if (!err) {
		wait_for_jump();
		/* The kernel must not have to reseed within a breakpoint's handler. */
		get_random_bytes(&random, sizeof(random));
		lock_sock(sock->sk);
		for (i = 0; i < calls; i++)
			place();
		release_sock(sock->sk);
		unregister_kprobe(&kp);
		err = done == calls ? -EAGAIN : -EIO;
	}
	sock_release(sock);
	return err;
}

module_init(nested_init);

MODULE_DESCRIPTION("Tests: calls watched functions from within a kprobe's handler");
MODULE_LICENSE("GPL");
