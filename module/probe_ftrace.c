// SPDX-License-Identifier: GPL-2.0
/*
 * Watches entries of functions with ftrace, if ftrace passes their arguments. Unlike kprobes,
 * ftrace handles tasks, softirqs and interrupts separately, so it misses no hit.
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
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/static_call.h>

#include "probe.h"

#ifdef TCPLAT_FTRACE

/**
 * struct site - a function that ftrace can watch
 * @addr: address of the function, as adjusted by kprobes
 * @handler: function that a hit calls; NULL if a hit calls the handler of each armed probe
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
 * The busiest sites come first. After initialization only @handler and @filtered change. Kprobes
 * watch the functions that do not fit.
 */
#define SITES		32

static struct site sites[SITES] __read_mostly;
static unsigned int nr_sites;

/*
 * Hash table of the sites by address, with linear probing. A site takes up to two buckets, so at
 * least half of the buckets are NULL.
 */
#define SITE_HASH_BITS	7
#define SITE_HASH_SIZE	BIT(SITE_HASH_BITS)

static_assert(4 * SITES <= SITE_HASH_SIZE);

static struct site *site_hash[SITE_HASH_SIZE] __read_mostly;

/*
 * Each segment hits the first two sites. Their handlers are static calls: looking up the site
 * would be a third of the cost of a hit.
 */
static void ignore_entry(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
}

NOKPROBE_SYMBOL(ignore_entry);

static void ignore_entry5(struct sock *sk, unsigned long arg1, unsigned long arg2,
			  unsigned long arg3, unsigned long arg4)
{
}

NOKPROBE_SYMBOL(ignore_entry5);

DEFINE_STATIC_CALL(tcplat_busiest, ignore_entry);
DEFINE_STATIC_CALL(tcplat_busy, ignore_entry);
DEFINE_STATIC_CALL(tcplat_busy5, ignore_entry5);

static struct {
	unsigned long addr;
	const struct tcplat_probe *probes;
} busy_sites[2] __read_mostly;

/* The first site whose handler takes five arguments. */
static struct {
	unsigned long addr;
	const struct tcplat_probe *probe;
} busy_site5 __read_mostly;

static typeof(ignore_entry) *joint_of(const struct tcplat_probe *probes)
{
	return probes->joint ?: probes->next->joint;
}

/* Whether a hit calls one handler: the site has one probe, or two with a joint handler. */
static bool has_one_handler(const struct tcplat_probe *probes)
{
	return !probes->next || (!probes->next->next && joint_of(probes));
}

static bool is_armed_by_ftrace(const struct tcplat_probe *probe)
{
	return READ_ONCE(probe->armed) && probe->by_ftrace;
}

static typeof(ignore_entry) *handler_of(const struct tcplat_probe *probes)
{
	const struct tcplat_probe *probe;
	typeof(ignore_entry) *handler = NULL;

	for (probe = probes; probe; probe = probe->next)
		if (is_armed_by_ftrace(probe))
			handler = handler ? joint_of(probes) : probe->entry;
	return handler ?: ignore_entry;
}

static bool has_entry5(const struct site *site)
{
	const struct tcplat_probe *probe;

	for (probe = site->probes; probe; probe = probe->next)
		if (probe->entry5)
			return true;
	return false;
}

/**
 * tcplat_ftrace_update_calls() - make hits call the handlers of armed probes only
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_ftrace_update_calls(void)
{
	struct site *site;

	for (site = sites; site < sites + nr_sites; site++)
		if (!has_entry5(site) && has_one_handler(site->probes))
			WRITE_ONCE(site->handler, handler_of(site->probes));
	static_call_update(tcplat_busiest, handler_of(busy_sites[0].probes));
	static_call_update(tcplat_busy, handler_of(busy_sites[1].probes));
	static_call_update(tcplat_busy5, busy_site5.probe && is_armed_by_ftrace(busy_site5.probe) ?
			   busy_site5.probe->entry5 : ignore_entry5);
}

static __always_inline unsigned int first_bucket(unsigned long ip)
{
	return hash_long(ip >> 4, SITE_HASH_BITS);
}

/* Calls the handlers of all armed probes of the site. */
static noinline notrace void call_handlers(const struct site *site, TCPLAT_FTRACE_REGS *regs)
{
	const struct tcplat_probe *probe;

	for (probe = site->probes; probe; probe = probe->next) {
		if (!is_armed_by_ftrace(probe))
			continue;
		if (probe->entry5)
			probe->entry5((struct sock *)tcplat_ftrace_arg(regs, 0),
				      tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2),
				      tcplat_ftrace_arg(regs, 3), tcplat_ftrace_arg(regs, 4));
		else
			probe->entry((struct sock *)tcplat_ftrace_arg(regs, 0),
				     tcplat_ftrace_arg(regs, 1), tcplat_ftrace_arg(regs, 2));
	}
}

NOKPROBE_SYMBOL(call_handlers);

/*
 * Not inlined, so that the other branches of on_ftrace() need not save registers. It takes the
 * same arguments as on_ftrace(), so that they stay in their registers.
 */
static noinline notrace void on_other_site(unsigned long ip, unsigned long parent_ip,
					   struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	void (*handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	unsigned int bucket = first_bucket(ip);
	const struct site *site;

	while ((site = site_hash[bucket]) && !tcplat_ftrace_is_at(ip, site->addr))
		bucket = (bucket + 1) % SITE_HASH_SIZE;
	if (!site)
		return;
	handler = READ_ONCE(site->handler);
	if (handler)
		handler((struct sock *)tcplat_ftrace_arg(regs, 0), tcplat_ftrace_arg(regs, 1),
			tcplat_ftrace_arg(regs, 2));
	else
		call_handlers(site, regs);
}

NOKPROBE_SYMBOL(on_other_site);

/*
 * Called for the functions in the filter. It cannot recurse, since no handler calls a function
 * in the filter. Preemption is off so that a grace period waits for the handlers, as with
 * kprobes.
 */
static void notrace on_ftrace(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	preempt_disable_notrace();
	if (likely(tcplat_ftrace_is_at(ip, busy_sites[0].addr)))
		static_call(tcplat_busiest)((struct sock *)tcplat_ftrace_arg(regs, 0),
					    tcplat_ftrace_arg(regs, 1),
					    tcplat_ftrace_arg(regs, 2));
	else if (tcplat_ftrace_is_at(ip, busy_sites[1].addr))
		static_call(tcplat_busy)((struct sock *)tcplat_ftrace_arg(regs, 0),
					 tcplat_ftrace_arg(regs, 1),
					 tcplat_ftrace_arg(regs, 2));
	else if (tcplat_ftrace_is_at(ip, busy_site5.addr))
		static_call(tcplat_busy5)((struct sock *)tcplat_ftrace_arg(regs, 0),
					  tcplat_ftrace_arg(regs, 1),
					  tcplat_ftrace_arg(regs, 2),
					  tcplat_ftrace_arg(regs, 3),
					  tcplat_ftrace_arg(regs, 4));
	else
		on_other_site(ip, parent_ip, ops, regs);
	preempt_enable_notrace();
}

NOKPROBE_SYMBOL(on_ftrace);

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

static int register_ops(void)
{
	int err = note_ftrace_error(register_ftrace_function(&ops));

	ops_registered = !err || ftrace_gave_up;
	return err;
}

static int unregister_ops(void)
{
	int err = note_ftrace_error(unregister_ftrace_function(&ops));

	ops_registered = err;
	if (err)
		pr_err_once("cannot unregister from ftrace: error %d\n", err);
	return err;
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

	if (!probe->found || tcplat_probe_is_return(probe) || !has_ftrace_site(probe))
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
}

/* The probe has too many hits to count them. */
static bool is_hot(const struct tcplat_probe *probe)
{
	return probe->hits == TCPLAT_NO_HITS;
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
		err = unregister_ops();
		/* Keep the sites in the filter: an empty filter would match all functions. */
		if (err)
			return err;
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
	if (any && !ops_registered && !err)
		err = register_ops();
	return err;
}

/* Stops using ftrace for @group. Does not wait for running handlers. */
static bool release_entries(struct tcplat_group *group)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < group->nr_probes; i++) {
		any |= group->probes[i].by_ftrace;
		group->probes[i].by_ftrace = false;
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
	unsigned int i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < groups[i]->nr_probes && !groups[i]->missing_symbol; j++)
			groups[i]->probes[j].by_ftrace = groups[i]->probes[j].has_site;
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
	if (ops_registered)
		synchronize_rcu();
}

/**
 * tcplat_ftrace_init() - find out which probes' functions ftrace can watch
 *
 * Context: process, may sleep, after tcplat_symbols_find().
 */
void tcplat_ftrace_init(void)
{
	struct tcplat_group *group;
	unsigned int hot, i, j;

	for (hot = 2; hot--; )
		tcplat_for_each_group(group, i)
			for (j = 0; j < group->nr_probes; j++)
				if (is_hot(&group->probes[j]) == hot)
					add_site(&group->probes[j]);
	for (i = 0; i < nr_sites; i++)
		hash_site(&sites[i]);

	for (i = 0; i < ARRAY_SIZE(busy_sites) && i < nr_sites; i++) {
		if (has_entry5(&sites[i]) || !has_one_handler(sites[i].probes))
			continue;
		busy_sites[i].addr = sites[i].addr;
		busy_sites[i].probes = sites[i].probes;
	}
	for (i = 0; i < nr_sites && !busy_site5.probe; i++) {
		if (!has_entry5(&sites[i]) || sites[i].probes->next)
			continue;
		busy_site5.addr = sites[i].addr;
		busy_site5.probe = sites[i].probes;
	}
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
