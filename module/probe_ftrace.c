// SPDX-License-Identifier: GPL-2.0
/*
 * Watches entries of functions with ftrace. Unlike kprobes, ftrace handles tasks, softirqs and
 * interrupts separately, so it misses no hit.
 *
 * All groups share one ftrace_ops. Unregistering an ftrace_ops waits for every task, which
 * takes a tenth of a second; and if two of them watch the same function, ftrace checks the
 * filter of each at every call.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

#include "hot.h"
#include "tcplat.h"

#ifdef TCPLAT_FTRACE

/**
 * struct site - a function that ftrace can watch
 * @addr: address of the function, as adjusted by kprobes
 * @handler: handler of the only armed probe; NULL if there are several, or none
 * @probes: the probes of this function, linked by @next
 * @filtered: the function is in the filter of the ftrace_ops
 */
struct site {
	unsigned long addr;
	void (*handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	struct tcplat_probe *probes;
	bool filtered;
};

/*
 * After initialization only @handler and @filtered change. Kprobes watch the functions that do
 * not fit.
 */
#define SITES		48

static struct site sites[SITES] __read_mostly;
static unsigned int nr_sites;

/*
 * Hash table of the sites by address, with linear probing. A site takes up to two buckets, so
 * some of the buckets are NULL.
 */
#define SITE_HASH_BITS	7
#define SITE_HASH_SIZE	BIT(SITE_HASH_BITS)

static_assert(2 * SITES < SITE_HASH_SIZE);

static struct site *site_hash[SITE_HASH_SIZE] __read_mostly;

/* Addresses of the functions of hot.h; 0 if ftrace does not watch the function. */
static unsigned long hot[TCPLAT_NR_HOT] __read_mostly;

static __always_inline unsigned int first_bucket(unsigned long ip)
{
	return hash_long(ip >> 4, SITE_HASH_BITS);
}

static bool is_armed_by_ftrace(const struct tcplat_probe *probe)
{
	/* Pairs with tcplat_probes_arm(): the tables of the group are seen, too. */
	return smp_load_acquire(&probe->armed) && probe->by_ftrace;
}

/**
 * tcplat_ftrace_update_calls() - make hits call the handlers of armed probes directly
 *
 * Context: process, under tcplat_control.
 */
void tcplat_ftrace_update_calls(void)
{
	const struct tcplat_probe *probe, *first = NULL;
	struct site *site;
	unsigned int n;

	for (site = sites; site < sites + nr_sites; site++) {
		n = 0;
		for (probe = site->probes; probe; probe = probe->next)
			if (is_armed_by_ftrace(probe) && !n++)
				first = probe;
		/* As for probe->armed. */
		smp_store_release(&site->handler, n == 1 ? first->entry : NULL);
	}
}

/*
 * Call the handlers, with preemption off, as kprobes do. These functions are not inlined, so that
 * a hit that needs no handler saves no registers.
 */
#define CALL	static noinline __noclone notrace void __kprobes

/* Calls the handlers of all armed probes of a function that is not in hot.h. */
CALL call_handlers(unsigned long ip, struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	unsigned int bucket = first_bucket(ip);
	void (*handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	const struct tcplat_probe *probe;
	const struct site *site;

	while ((site = site_hash[bucket]) && !tcplat_ftrace_is_at(ip, site->addr))
		bucket = (bucket + 1) % SITE_HASH_SIZE;
	if (!site)
		return;
	preempt_disable_notrace();
	/* Pairs with tcplat_ftrace_update_calls(). */
	handler = smp_load_acquire(&site->handler);
	if (handler) {
		handler(sk, tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2));
		preempt_enable_notrace();
		return;
	}
	for (probe = site->probes; probe; probe = probe->next) {
		if (!is_armed_by_ftrace(probe))
			continue;
		if (probe->entry5)
			probe->entry5(sk, tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2),
				      tcplat_ftrace_arg(regs, 3), tcplat_ftrace_arg(regs, 4));
		else
			probe->entry(sk, tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2));
	}
	preempt_enable_notrace();
}

CALL call_sent(struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	unsigned long skb = tcplat_ftrace_arg(regs, 1);

	preempt_disable_notrace();
	if (static_branch_likely(&tcplat_sndhold.on) &&
	    tcplat_socktab_may_have(tcplat_sndhold_held, sk))
		tcplat_sndhold_sent(sk, skb, tcplat_ftrace_arg(regs, 2));
	if (static_branch_likely(&tcplat_peerwnd.on) && tcplat_peerwnd_looks_at_sent(sk))
		tcplat_peerwnd_sent(sk, skb, 0);
	if (static_branch_likely(&tcplat_ackmode.on))
		tcplat_ackmode_sent(sk, skb, 0);
	preempt_enable_notrace();
}

CALL call_received(struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	unsigned long skb = tcplat_ftrace_arg(regs, 1);

	preempt_disable_notrace();
	if (static_branch_likely(&tcplat_delack.on) && tcplat_delack_looks(sk))
		tcplat_delack_received(sk, skb, 0);
	if (static_branch_likely(&tcplat_answer.on))
		tcplat_answer_received(sk, skb, 0);
	if (static_branch_likely(&tcplat_ackmode.on))
		tcplat_ackmode_received(sk, skb, 0);
	preempt_enable_notrace();
}

CALL call_push(struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	preempt_disable_notrace();
	if (static_branch_likely(&tcplat_answer.on))
		tcplat_answer_push(sk, 0, 0);
	if (static_branch_likely(&tcplat_sndhold.on))
		tcplat_sndhold_push(sk, tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2),
				    tcplat_ftrace_arg(regs, 3), tcplat_ftrace_arg(regs, 4));
	preempt_enable_notrace();
}

CALL call_queue(struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	preempt_disable_notrace();
	if (static_branch_likely(&tcplat_ackmode.on))
		tcplat_ackmode_queue(sk, tcplat_ftrace_arg(regs, 1), 0);
	preempt_enable_notrace();
}

CALL call_destroy(struct sock *sk, TCPLAT_FTRACE_REGS *regs)
{
	preempt_disable_notrace();
	if (static_branch_likely(&tcplat_ackmode.on))
		tcplat_ackmode_destroy(sk, 0, 0);
	if (static_branch_likely(&tcplat_sndhold.on) &&
	    tcplat_socktab_may_have(tcplat_sndhold_held, sk))
		tcplat_sndhold_gone(sk, 0, 0);
	if (static_branch_likely(&tcplat_sndwait.on) &&
	    tcplat_socktab_may_have(tcplat_sndwait_held, sk))
		tcplat_sndwait_gone(sk, 0, 0);
	preempt_enable_notrace();
}

/*
 * Called for the functions in the filter. It cannot recurse, since no handler calls a function
 * in the filter. Preemption stays on, which saves three of some twenty instructions, so groups
 * must not free what hot.h reads before tcplat_ftrace_disarm() has returned.
 */
static void notrace __kprobes on_ftrace(unsigned long ip, unsigned long parent_ip,
					struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	struct sock *sk = (struct sock *)tcplat_ftrace_arg(regs, 0);

	if (tcplat_ftrace_is_at(ip, hot[TCPLAT_HOT_SENT])) {
		if (unlikely(tcplat_hot_sent(sk)))
			call_sent(sk, regs);
	} else if (tcplat_ftrace_is_at(ip, hot[TCPLAT_HOT_RECEIVED])) {
		if (unlikely(tcplat_hot_received(sk, (void *)tcplat_ftrace_arg(regs, 1))))
			call_received(sk, regs);
	} else if (tcplat_ftrace_is_at(ip, hot[TCPLAT_HOT_PUSH])) {
		if (unlikely(tcplat_hot_push(sk, tcplat_ftrace_arg(regs, 1),
					     tcplat_ftrace_arg(regs, 3))))
			call_push(sk, regs);
	} else if (tcplat_ftrace_is_at(ip, hot[TCPLAT_HOT_QUEUE])) {
		if (tcplat_hot_queue(sk, (void *)tcplat_ftrace_arg(regs, 1)))
			call_queue(sk, regs);
	} else if (tcplat_ftrace_is_at(ip, hot[TCPLAT_HOT_DESTROY])) {
		if (tcplat_hot_destroy(sk))
			call_destroy(sk, regs);
	} else {
		call_handlers(ip, sk, regs);
	}
}

static struct ftrace_ops ops = {
	.func = on_ftrace,
	.flags = TCPLAT_FTRACE_FLAGS,
};

static bool ops_registered;

/*
 * ftrace disables itself for good when it finds code that it does not expect: from then on every
 * call returns -ENODEV, and patched sites stay patched. If that happens during a call, some
 * sites may be patched although registering failed or unregistering succeeded.
 */
static bool ftrace_gave_up;

/* The filter may differ from the sites that probes watch: changing it has failed. */
static bool filter_is_stale;

static int note_ftrace_error(int err)
{
	if (!err || err == -ENODEV)
		ftrace_gave_up = err;
	return err;
}

static int set_filter(unsigned long addr, bool in)
{
	return note_ftrace_error(ftrace_set_filter_ip(&ops, addr, !in, 0));
}

/* Kprobes on ftrace know the sites; without them, try to set the filter. */
static bool has_ftrace_site(const struct tcplat_probe *probe)
{
	if (IS_ENABLED(CONFIG_KPROBES_ON_FTRACE))
		return probe->on_ftrace;
	return !set_filter((unsigned long)probe->addr, true) &&
	       !set_filter((unsigned long)probe->addr, false);
}

static void add_site(struct tcplat_probe *probe)
{
	struct site *site;

	if (!probe->found || probe->ret || !has_ftrace_site(probe))
		return;
	for (site = sites; site < sites + nr_sites; site++)
		if (site->addr == (unsigned long)probe->addr)
			break;
	if (site == sites + nr_sites) {
		if (nr_sites == SITES)
			return;
		site->addr = (unsigned long)probe->addr;
		nr_sites++;
	}
	probe->next = site->probes;
	site->probes = probe;
	probe->has_site = true;
	if (probe->hot)
		hot[probe->hot] = site->addr;
}

static void hash_site_from(struct site *site, unsigned int bucket)
{
	while (site_hash[bucket] && site_hash[bucket] != site)
		bucket = (bucket + 1) % SITE_HASH_SIZE;
	site_hash[bucket] = site;
}

/* A lookup of any @ip with tcplat_ftrace_is_at(@ip, site->addr) must find the site. */
static void hash_site(struct site *site)
{
	hash_site_from(site, first_bucket(site->addr));
	if (!IS_ENABLED(CONFIG_KPROBES_ON_FTRACE))
		hash_site_from(site, first_bucket(site->addr + TCPLAT_FTRACE_REACH - 1));
}

static bool site_is_watched(const struct site *site)
{
	const struct tcplat_probe *probe;

	for (probe = site->probes; probe; probe = probe->next)
		if (probe->by_ftrace)
			return true;
	return false;
}

static bool any_site_is_watched(void)
{
	const struct site *site;

	for (site = sites; site < sites + nr_sites; site++)
		if (site_is_watched(site))
			return true;
	return false;
}

/**
 * tcplat_ftrace_is_stuck() - whether ftrace calls the module and cannot be stopped
 *
 * Context: process, under tcplat_control or with every group off.
 * Return: true if ftrace calls the module and has disabled itself, or no probe needs the calls
 */
bool tcplat_ftrace_is_stuck(void)
{
	return ops_registered && (ftrace_gave_up || !any_site_is_watched());
}

/*
 * Makes ftrace watch exactly the functions of probes that are by_ftrace. The ops are never
 * registered with an empty filter, which would match all functions.
 */
static int update_filter(void)
{
	struct site *site, *end = sites + nr_sites;
	bool any = any_site_is_watched();
	bool stopping = !any && ops_registered;
	int err = 0;

	if (stopping) {
		err = note_ftrace_error(unregister_ftrace_function(&ops));
		ops_registered = err;
		/* Keep the sites in the filter: an empty filter would match all functions. */
		if (err) {
			pr_err_once("cannot unregister from ftrace: error %d\n", err);
			return err;
		}
	}
	for (site = sites; site < end; site++) {
		int site_err;

		if (site->filtered == site_is_watched(site))
			continue;
		site_err = set_filter(site->addr, !site->filtered);
		if (site_err)
			err = site_err;
		else
			site->filtered = !site->filtered;
	}
	filter_is_stale = err;
	if (stopping && ftrace_gave_up)
		ops_registered = true;
	if (any && !ops_registered && !err) {
		err = note_ftrace_error(register_ftrace_function(&ops));
		ops_registered = !err || ftrace_gave_up;
	}
	return err;
}

/* Stops using ftrace for @group. Does not wait for running handlers. */
static bool release_entries(struct tcplat_group *group)
{
	struct tcplat_probe *probe;
	bool any = false;

	tcplat_for_each_probe(group, probe) {
		any |= probe->by_ftrace;
		probe->by_ftrace = false;
	}
	return any;
}

/**
 * tcplat_ftrace_arm() - add the functions of several groups to ftrace's filter
 * @groups: the groups, all disarmed; unavailable ones may be among them
 * @n: number of @groups
 *
 * Handlers are not called before tcplat_ftrace_update_calls(). If ftrace fails, no probe of
 * @groups is by_ftrace, and the caller must use kprobes.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_ftrace_arm(struct tcplat_group * const *groups, unsigned int n)
{
	struct tcplat_probe *probe;
	unsigned int i;

	for (i = 0; i < n; i++)
		tcplat_for_each_probe(groups[i], probe)
			probe->by_ftrace = probe->has_site && !probe->kept &&
					   !groups[i]->missing_symbol;
	if (update_filter()) {
		for (i = 0; i < n; i++)
			release_entries(groups[i]);
		update_filter();
	}
}

/**
 * tcplat_ftrace_disarm() - remove the functions of several groups from ftrace's filter
 * @groups: the groups; their probes by ftrace must be disarmed
 * @n: number of @groups
 *
 * On return no handler of @groups that ftrace called is running. If ftrace fails, it continues
 * to call the module, which then calls no handler: see tcplat_ftrace_is_stuck().
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_ftrace_disarm(struct tcplat_group * const *groups, unsigned int n)
{
	bool any = filter_is_stale || tcplat_ftrace_is_stuck();
	unsigned int i;

	for (i = 0; i < n; i++)
		any |= release_entries(groups[i]);
	if (!any)
		return;
	tcplat_ftrace_update_calls();
	update_filter();
	/* Unregistering waits by itself. */
	if (!ops_registered)
		return;
	/* For handlers, and for hits in softirqs of idle CPUs. */
	synchronize_rcu();
	/* For hits of tasks, which may be preempted. */
	synchronize_rcu_tasks();
}

/**
 * tcplat_ftrace_init() - find out which probes' functions ftrace can watch
 *
 * Context: process, may sleep, after tcplat_symbols_find().
 */
void tcplat_ftrace_init(void)
{
	struct tcplat_group *group;
	struct tcplat_probe *probe;
	unsigned int i;

	tcplat_for_each_group(group, i)
		tcplat_for_each_probe(group, probe)
			add_site(probe);
	for (i = 0; i < nr_sites; i++)
		hash_site(&sites[i]);
}

/**
 * tcplat_ftrace_exit() - free the ftrace filter
 *
 * Context: process, may sleep; every group must be off, and tcplat_ftrace_is_stuck() false.
 */
void tcplat_ftrace_exit(void)
{
	tcplat_ftrace_free_filter(&ops);
}

#endif /* TCPLAT_FTRACE */
