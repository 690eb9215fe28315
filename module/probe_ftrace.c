// SPDX-License-Identifier: GPL-2.0
/*
 * Entries of functions, watched by ftrace where that hands over arguments. Unlike kprobes,
 * ftrace keeps apart what runs in a task, in a softirq and in an interrupt, and so loses
 * no hit.
 *
 * All groups share one ftrace_ops: the kernel waits for every task when one is
 * unregistered, which takes a tenth of a second each, and where two watch the same
 * function it asks each of them at every call.
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
 * @addr: its address, as kprobes adjust it
 * @handler: what a hit calls; NULL if that depends on the probe
 * @probes: the groups' probes there, linked by @next
 * @filtered: the ftrace_ops has it in its filter
 */
struct site {
	unsigned long addr;
	void (*handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	struct tcplat_probe *probes;
	bool filtered;
};

/* The busiest come first. Once filled, only the handlers change. Kprobes watch what has no room. */
#define SITES		32

static struct site sites[SITES] __read_mostly;
static unsigned int nr_sites;

/*
 * The sites by their hashed address: a hit looks from its address's place on. A site takes up to
 * two places, so that half of them are NULL.
 */
#define PLACES_BITS	7
#define PLACES		BIT(PLACES_BITS)

static_assert(4 * SITES <= PLACES);

static struct site *places[PLACES] __read_mostly;

/*
 * Each segment hits the first two sites. These have static calls, to the handler while it is
 * armed: looking the site up would be a third of what a hit costs.
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

/* A site with one probe has one handler; with two, one handler may do the work of both. */
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
 * tcplat_ftrace_update_calls() - direct hits to the handlers that are armed
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

static __always_inline unsigned int first_place(unsigned long ip)
{
	return hash_long(ip >> 4, PLACES_BITS);
}

/* Calls the handlers of all the site's probes that are armed. */
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
 * Not inlined, so that on_ftrace() saves no registers for it on its other branches. It takes the
 * arguments of on_ftrace(), so that they stay in their registers.
 */
static noinline notrace void on_other_site(unsigned long ip, unsigned long parent_ip,
					   struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	void (*handler)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	unsigned int place = first_place(ip);
	const struct site *site;

	while ((site = places[place]) && !tcplat_ftrace_is_at(ip, site->addr))
		place = (place + 1) % PLACES;
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
 * Called for the functions in the filter. It cannot recurse: no handler calls a function of
 * TCP. Preemption is off so that a grace period waits for the handlers, as with kprobes.
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
 * ftrace shuts itself down for good when it meets code that it does not expect: every call
 * returns -ENODEV from then on, and patched sites stay patched. If that happens half-way, some
 * sites may be patched though registering failed, or though unregistering succeeded.
 */
static bool ftrace_gave_up;

/* The filter has sites that no probe watches: removing them has failed. */
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
		pr_err_once("ftrace cannot be unregistered: error %d\n", err);
	return err;
}

/* Where kprobes sit on ftrace they know its sites; elsewhere, try. */
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

/* Its hits are too many to be counted. */
static bool is_hot(const struct tcplat_probe *probe)
{
	return probe->hits == TCPLAT_NO_HITS;
}

static void place_at(struct site *site, unsigned int place)
{
	while (places[place] && places[place] != site)
		place = (place + 1) % PLACES;
	places[place] = site;
}

/* So that each @ip for which tcplat_ftrace_is_at(@ip, site->addr) finds the site. */
static void place_site(struct site *site)
{
	place_at(site, first_place(site->addr));
	if (!IS_ENABLED(CONFIG_KPROBES_ON_FTRACE))
		place_at(site, first_place(site->addr + TCPLAT_FTRACE_REACH - 1));
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
 * tcplat_ftrace_is_stuck() - whether ftrace calls the module against its will
 *
 * Context: process, under tcplat_control or with every group off.
 * Return: true if ftrace calls the module for no probe, or would not stop when told to
 */
bool tcplat_ftrace_is_stuck(void)
{
	return ops_registered && (ftrace_gave_up || !any_site_is_watched());
}

/*
 * Makes ftrace watch the functions of the probes that are by_ftrace, and no others. The ops are
 * never registered with an empty filter, which would be all functions.
 */
static int update_filter(void)
{
	struct site *site, *end = sites + nr_sites;
	bool any = any_site_is_watched();
	bool stopping = !any && ops_registered;
	int err = 0;

	if (stopping) {
		err = unregister_ops();
		/* The sites stay in the filter: without any it would be all functions. */
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

/* Leaves the entries of @group's functions to kprobes. Does not wait for running handlers. */
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
 * tcplat_ftrace_arm() - have ftrace call the module at the entries that groups watch
 * @groups: the groups, all disarmed; unavailable ones may be among them
 * @n: how many
 *
 * Handlers are not called before tcplat_ftrace_update_calls(). If ftrace fails, no probe of
 * @groups is by_ftrace, and kprobes have to do.
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
 * tcplat_ftrace_disarm() - stop ftrace from calling the module for groups
 * @groups: the groups, whose probes by ftrace are not armed any more
 * @n: how many
 *
 * On return no handler of @groups runs that ftrace called. If ftrace fails, it goes on calling
 * the module, which calls no handler then: tcplat_ftrace_is_stuck().
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
	/* Unregistering has waited already. */
	if (ops_registered)
		synchronize_rcu();
}

/**
 * tcplat_ftrace_init() - find out which of the probes' functions ftrace can watch
 *
 * Context: process, may sleep; the functions have been looked for.
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
		place_site(&sites[i]);

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
 * tcplat_ftrace_exit() - free what ftrace took
 *
 * Context: process, may sleep; every group must be off, and tcplat_ftrace_is_stuck() false.
 */
void tcplat_ftrace_exit(void)
{
	tcplat_ftrace_free_filter(&ops);
}

#endif /* TCPLAT_FTRACE */
