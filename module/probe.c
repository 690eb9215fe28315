// SPDX-License-Identifier: GPL-2.0
/*
 * The probe engine. A group names functions and handlers; where and how these
 * get attached is decided here, once for all groups.
 *
 * Entries are watched by ftrace where the kernel's ftrace hands over arguments.
 * Kprobes would do on every kernel, but a CPU serves one kprobe at a time: when a
 * timer interrupts a handler and TCP's timers hit probes of their own, these hits
 * are lost. A busy host loses one in a hundred delayed-ACK timeouts that way.
 * Ftrace keeps apart what runs in a task, in a softirq and in an interrupt.
 *
 * Where ftrace does not do, a kprobe. On x86-64 one on the ftrace site that opens a
 * function is served by ftrace after all, and one right behind it, where the
 * arguments are still in their registers, can be turned into a jump, which costs a
 * third less. The second is tried first and kept only if the kernel can optimise it:
 * as a breakpoint it would cost more than the first.
 *
 * Returns are watched by kretprobes.
 *
 * There is one ftrace_ops for all groups: the kernel waits for every task when one is
 * unregistered, which takes a tenth of a second each, and where two watch a function it
 * asks each of them at every call.
 *
 * An address is only ever taken from a probe that kprobes themselves accepted.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#ifdef CONFIG_X86_64
#include <asm/text-patching.h>
#endif

#include "tcplat.h"

static bool use_ftrace = true;

static int attach_set(const char *val, const struct kernel_param *kp)
{
	if (!sysfs_streq(val, "ftrace") && !sysfs_streq(val, "kprobe")) {
		pr_err("attach=%s: takes ftrace or kprobe\n", val);
		return -EINVAL;
	}
	use_ftrace = sysfs_streq(val, "ftrace");
	return 0;
}

static int attach_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", use_ftrace ? "ftrace" : "kprobe");
}

static const struct kernel_param_ops attach_ops = {
	.set = attach_set,
	.get = attach_get,
};

module_param_cb(attach, &attach_ops, NULL, 0444);
MODULE_PARM_DESC(attach, "How to watch functions' entries: ftrace (default; kprobes where the kernel's ftrace does not do), or kprobe");

static char *hide[8];
static unsigned int nr_hidden;

module_param_array(hide, charp, &nr_hidden, 0444);
MODULE_PARM_DESC(hide, "For tests: symbols of the kernel to take for missing, up to 8, separated by commas");

static bool hidden(const char *symbol)
{
	unsigned int i;

	for (i = 0; i < nr_hidden; i++)
		if (!strcmp(symbol, hide[i]))
			return true;
	return false;
}

/* Variables of the kernel, if they can be found: bool kprobes_all_disarmed, int ftrace_enabled. */
static const void *all_disarmed;
static const void *ftrace_on;

/* For one grace period per batch: unregister_kprobes() takes an array of pointers. */
static struct kprobe **batch_kps;
static struct kretprobe **batch_rps;

/**
 * struct site - a function that ftrace can watch
 * @addr: its address, as kprobes adjust it
 * @probes: what the groups have there, by @also
 * @filtered: it is in the filter of the ftrace_ops
 */
struct site {
	unsigned long addr;
	struct tcplat_probe *probes;
	bool filtered;
};

/*
 * The busiest first, for a hit looks from the beginning, and one of address 0 behind the
 * last. Fixed once it is filled.
 */
static struct site *sites __read_mostly;
static unsigned int nr_sites;

static bool is_return(const struct tcplat_probe *probe)
{
	return probe->ret;
}

/* Register disabled: tells whether and where, and changes no code. */
static int resolve_symbol(struct tcplat_probe *probe, const char *symbol)
{
	int err;

	if (hidden(symbol))
		return -ENOENT;
	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = symbol;
	probe->kp.flags = KPROBE_FLAG_DISABLED;
	err = register_kprobe(&probe->kp);
	if (err)
		return err;
	probe->found = symbol;
	probe->addr = probe->kp.addr;
	probe->on_ftrace = kprobe_ftrace(&probe->kp);
	return 0;
}

static int resolve(struct tcplat_probe *probe)
{
	int err = resolve_symbol(probe, probe->symbol);

	if (err && err != -ENOMEM && probe->fallback)
		err = resolve_symbol(probe, probe->fallback);
	return err;
}

#ifdef TCPLAT_FTRACE
/*
 * The first two sites, which each segment meets, have calls of their own, patched into
 * the code, to the handler while it is armed: a third of what a hit costs otherwise goes
 * into finding it.
 */
static void nothing(struct sock *sk, unsigned long arg1, unsigned long arg2)
{
}

NOKPROBE_SYMBOL(nothing);

static void nothing5(struct sock *sk, unsigned long arg1, unsigned long arg2,
		     unsigned long arg3, unsigned long arg4)
{
}

NOKPROBE_SYMBOL(nothing5);

DEFINE_STATIC_CALL(tcplat_busiest, nothing);
DEFINE_STATIC_CALL(tcplat_busy, nothing);
DEFINE_STATIC_CALL(tcplat_busy5, nothing5);

static struct {
	unsigned long addr;
	const struct tcplat_probe *probes;
} calls[2] __read_mostly;

/* The first site whose handler takes five arguments. */
static struct {
	unsigned long addr;
	const struct tcplat_probe *probe;
} call5 __read_mostly;

static typeof(nothing) *joint_of(const struct tcplat_probe *probes)
{
	return probes->joint ?: probes->also->joint;
}

/* One probe has a handler; two have the one that does the work of both. */
static bool fits_call(const struct tcplat_probe *probes)
{
	return !probes->also || (!probes->also->also && joint_of(probes));
}

static bool is_armed_by_ftrace(const struct tcplat_probe *probe)
{
	return READ_ONCE(probe->armed) && probe->by_ftrace;
}

static typeof(nothing) *handler_of(const struct tcplat_probe *probes)
{
	const struct tcplat_probe *probe;
	typeof(nothing) *handler = NULL;

	for (probe = probes; probe; probe = probe->also)
		if (is_armed_by_ftrace(probe))
			handler = handler ? joint_of(probes) : probe->entry;
	return handler ?: nothing;
}

static void update_calls(void)
{
	static_call_update(tcplat_busiest, handler_of(calls[0].probes));
	static_call_update(tcplat_busy, handler_of(calls[1].probes));
	static_call_update(tcplat_busy5, call5.probe && is_armed_by_ftrace(call5.probe) ?
			   call5.probe->entry5 : nothing5);
}

/*
 * Apart, so that the others need not save registers for it; with the arguments of its
 * caller, so that they stay in their registers.
 */
static noinline notrace void on_other(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	const struct tcplat_probe *probe;
	const struct site *site = sites;

	while (!tcplat_ftrace_is_at(ip, site->addr))
		if (!(++site)->addr)
			break;
	for (probe = site->probes; probe; probe = probe->also) {
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

NOKPROBE_SYMBOL(on_other);

/*
 * Called for the functions in the filter. What the handlers call never comes back here:
 * they are no part of TCP. Preemption is off so that a grace period ends all that began
 * before a probe was disarmed, as it does for kprobes.
 */
static void notrace on_ftrace(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, TCPLAT_FTRACE_REGS *regs)
{
	preempt_disable_notrace();
	if (tcplat_ftrace_is_at(ip, calls[0].addr))
		static_call(tcplat_busiest)((struct sock *)tcplat_ftrace_arg(regs, 0),
					    tcplat_ftrace_arg(regs, 1),
					    tcplat_ftrace_arg(regs, 2));
	else if (tcplat_ftrace_is_at(ip, calls[1].addr))
		static_call(tcplat_busy)((struct sock *)tcplat_ftrace_arg(regs, 0),
					 tcplat_ftrace_arg(regs, 1),
					 tcplat_ftrace_arg(regs, 2));
	else if (tcplat_ftrace_is_at(ip, call5.addr))
		static_call(tcplat_busy5)((struct sock *)tcplat_ftrace_arg(regs, 0),
					  tcplat_ftrace_arg(regs, 1),
					  tcplat_ftrace_arg(regs, 2),
					  tcplat_ftrace_arg(regs, 3),
					  tcplat_ftrace_arg(regs, 4));
	else
		on_other(ip, parent_ip, ops, regs);
	preempt_enable_notrace();
}

NOKPROBE_SYMBOL(on_ftrace);

static struct ftrace_ops ops = {
	.func = on_ftrace,
	.flags = TCPLAT_FTRACE_FLAGS,
};

static bool ops_registered;

/*
 * ftrace gives up on itself for good when it meets code that it does not expect: every call
 * returns -ENODEV from then on, and what is patched stays so. Some sites may be patched even
 * if registering failed, or unregistering did not, when it gave up half-way.
 */
static bool ftrace_gave_up;

/* The filter has sites that nobody watches any more: taking them out has failed. */
static bool filter_is_stale;

static int note_ftrace(int err)
{
	if (!err || err == -ENODEV)
		ftrace_gave_up = err;
	return err;
}

static int set_filter(unsigned long addr, bool in)
{
	return note_ftrace(ftrace_set_filter_ip(&ops, addr, !in, 0));
}

static int register_ops(void)
{
	int err = note_ftrace(register_ftrace_function(&ops));

	ops_registered = !err || ftrace_gave_up;
	return err;
}

static int unregister_ops(void)
{
	int err = note_ftrace(unregister_ftrace_function(&ops));

	ops_registered = err;
	if (err)
		pr_err_once("ftrace cannot be unregistered: error %d\n", err);
	return err;
}

/* Kprobes tell, where they go by ftrace themselves; else ftrace does by taking it. */
static bool takes_ftrace(const struct tcplat_probe *probe)
{
	if (IS_ENABLED(CONFIG_KPROBES_ON_FTRACE))
		return probe->on_ftrace;
	return !set_filter((unsigned long)probe->addr, true) &&
	       !set_filter((unsigned long)probe->addr, false);
}

static void add_site(struct tcplat_probe *probe)
{
	struct site *site;

	if (!probe->found || is_return(probe) || !takes_ftrace(probe))
		return;
	for (site = sites; site < sites + nr_sites; site++)
		if (site->addr == (unsigned long)probe->addr)
			break;
	if (site == sites + nr_sites) {
		site->addr = (unsigned long)probe->addr;
		nr_sites++;
	}
	probe->also = site->probes;
	site->probes = probe;
	probe->has_site = true;
}

/* So that its hits are not even counted. */
static bool is_hot(const struct tcplat_probe *probe)
{
	return probe->hits == TCPLAT_NO_HITS;
}

static bool has_entry5(const struct site *site)
{
	const struct tcplat_probe *probe;

	for (probe = site->probes; probe; probe = probe->also)
		if (probe->entry5)
			return true;
	return false;
}

static void find_sites(void)
{
	struct tcplat_group *group;
	unsigned int hot, i, j;

	for (hot = 2; hot--; )
		tcplat_for_each_group(group, i)
			for (j = 0; j < group->nr_probes; j++)
				if (is_hot(&group->probes[j]) == hot)
					add_site(&group->probes[j]);

	for (i = 0; i < ARRAY_SIZE(calls) && i < nr_sites; i++) {
		if (has_entry5(&sites[i]) || !fits_call(sites[i].probes))
			continue;
		calls[i].addr = sites[i].addr;
		calls[i].probes = sites[i].probes;
	}
	for (i = 0; i < nr_sites && !call5.probe; i++) {
		if (!has_entry5(&sites[i]) || sites[i].probes->also)
			continue;
		call5.addr = sites[i].addr;
		call5.probe = sites[i].probes;
	}
}

static bool is_watched(const struct site *site)
{
	const struct tcplat_probe *probe;

	for (probe = site->probes; probe; probe = probe->also)
		if (probe->by_ftrace)
			return true;
	return false;
}

static bool any_watched(void)
{
	const struct site *site;

	for (site = sites; site < sites + nr_sites; site++)
		if (is_watched(site))
			return true;
	return false;
}

/* ftrace calls the module's code, and should not, or will not stop when it is asked to. */
static bool is_stuck(void)
{
	return ops_registered && (ftrace_gave_up || !any_watched());
}

/*
 * Makes the kernel watch what probes are by_ftrace, and no more. Never with an empty
 * filter, which would be all functions.
 */
static int update_ftrace(void)
{
	struct site *site, *end = sites + nr_sites;
	bool any = any_watched();
	bool leaving = !any && ops_registered;
	int err = 0;

	if (leaving) {
		err = unregister_ops();
		/* The sites stay in the filter: without any it would be all functions. */
		if (err)
			return err;
	}
	for (site = sites; site < end; site++) {
		int site_err;

		if (site->filtered == is_watched(site))
			continue;
		site_err = set_filter(site->addr, !site->filtered);
		if (site_err)
			err = site_err;
		else
			site->filtered = !site->filtered;
	}
	filter_is_stale = err;
	if (leaving && ftrace_gave_up)
		ops_registered = true;
	if (any && !ops_registered && !err)
		err = register_ops();
	return err;
}

/* Leaves a group's entries to the kernel's other means, and waits for no handler. */
static bool drop_ftrace(struct tcplat_group *group)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < group->nr_probes; i++) {
		any |= group->probes[i].by_ftrace;
		group->probes[i].by_ftrace = false;
	}
	return any;
}

static void arm_ftrace(struct tcplat_group * const *groups, unsigned int n)
{
	unsigned int i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < groups[i]->nr_probes && !groups[i]->lost; j++)
			groups[i]->probes[j].by_ftrace = use_ftrace &&
							 groups[i]->probes[j].has_site;
	if (update_ftrace()) {
		for (i = 0; i < n; i++)
			drop_ftrace(groups[i]);
		update_ftrace();
	}
}

static void disarm_ftrace(struct tcplat_group * const *groups, unsigned int n)
{
	bool any = filter_is_stale || is_stuck();
	unsigned int i;

	for (i = 0; i < n; i++)
		any |= drop_ftrace(groups[i]);
	if (!any)
		return;
	update_calls();
	update_ftrace();
	/* Unregistering has waited already. */
	if (ops_registered)
		synchronize_rcu();
}

static void free_filter(void)
{
	tcplat_ftrace_free_filter(&ops);
}
#else
static void find_sites(void)
{
}

static void update_calls(void)
{
}

static void arm_ftrace(struct tcplat_group * const *groups, unsigned int n)
{
}

static void disarm_ftrace(struct tcplat_group * const *groups, unsigned int n)
{
}

static bool is_stuck(void)
{
	return false;
}

static void free_filter(void)
{
}
#endif

/* Whether the kernel has a hold on the module's code that it may not let go of. */
static bool is_held(void)
{
	struct tcplat_group *group;
	unsigned int i, j;

	if (is_stuck())
		return true;
	tcplat_for_each_group(group, i)
		for (j = 0; j < group->nr_probes; j++)
			if (group->probes[j].kept)
				return true;
	return false;
}

/*
 * Keeps the module from being unloaded as long as that is so. In vain once unloading has begun:
 * tcplat_probes_exit() is for that.
 */
static void hold_module(void)
{
	static bool holding;

	if (is_held() == holding)
		return;
	holding = !holding;
	if (holding) {
		__module_get(THIS_MODULE);
		pr_err("the kernel still calls the module, which stays in memory for that\n");
	} else {
		pr_notice("the kernel no longer calls the module, which can be unloaded again\n");
		module_put(THIS_MODULE);
	}
}

/**
 * tcplat_probes_init() - find the functions that all groups' probes name
 *
 * A group whose symbol is missing, or cannot be probed, gets it in @lost.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM, or -EOPNOTSUPP on a kernel whose kprobes are unusable
 */
int tcplat_probes_init(void)
{
	struct tcplat_group *group;
	unsigned int i, j, n = 0;
	int err = 0;

	tcplat_for_each_group(group, i)
		n += group->nr_probes;
	batch_kps = kcalloc(n, sizeof(*batch_kps), GFP_KERNEL);
	batch_rps = kcalloc(n, sizeof(*batch_rps), GFP_KERNEL);
	sites = kcalloc(n + 1, sizeof(*sites), GFP_KERNEL);
	if (!batch_kps || !batch_rps || !sites) {
		err = -ENOMEM;
		goto out;
	}

	all_disarmed = tcplat_data_symbol("kprobes_all_disarmed");
	ftrace_on = tcplat_data_symbol("ftrace_enabled");
	n = 0;
	tcplat_for_each_group(group, i) {
		for (j = 0; j < group->nr_probes; j++) {
			struct tcplat_probe *probe = &group->probes[j];

			err = resolve(probe);
			if (err == -ENOMEM || err == -EOPNOTSUPP)
				goto unregister;
			if (!err)
				batch_kps[n++] = &probe->kp;
			else if (!probe->optional && !group->lost)
				group->lost = probe->symbol;
		}
	}
	err = 0;

unregister:
	unregister_kprobes(batch_kps, n);
	if (!err)
		find_sites();
out:
	if (err)
		tcplat_probes_exit();
	return err;
}

/**
 * tcplat_probes_exit() - give back what tcplat_probes_init() took
 *
 * Does not return while the kernel still calls the module's code. The caller's next step is
 * module_exit() or a failed module_init() returning, and nothing keeps the kernel from freeing
 * the code then: it looked at the references before, and takes no error from module_exit().
 * If ftrace gave up, the task sleeps until the machine reboots, and cannot be killed.
 *
 * Context: process, may sleep; every group must be off.
 */
void tcplat_probes_exit(void)
{
	if (is_held())
		pr_err("unloading waits until the kernel no longer calls the module\n");
	while (is_held()) {
		schedule_timeout_idle(HZ);
		mutex_lock(&tcplat_control);
		tcplat_probes_disarm(tcplat_groups, tcplat_nr_groups);
		mutex_unlock(&tcplat_control);
	}
	free_filter();
	kfree(sites);
	kfree(batch_rps);
	kfree(batch_kps);
	nr_sites = 0;
	sites = NULL;
	batch_rps = NULL;
	batch_kps = NULL;
}

static int ignore_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	return 0;
}

NOKPROBE_SYMBOL(ignore_kprobe);

static int ignore_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 1;
}

NOKPROBE_SYMBOL(ignore_entry);

static int ignore_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

NOKPROBE_SYMBOL(ignore_return);

static int on_kprobe(struct kprobe *kp, struct pt_regs *regs);

/* Connects a registered probe to the group's handlers, or to none. */
static void set_handlers(struct tcplat_probe *probe, bool on)
{
	if (is_return(probe)) {
		WRITE_ONCE(probe->rp.entry_handler, on ? probe->entry_ret : ignore_entry);
		WRITE_ONCE(probe->rp.handler, on ? probe->ret : ignore_return);
	} else {
		WRITE_ONCE(probe->kp.pre_handler, on ? on_kprobe : ignore_kprobe);
	}
}

/*
 * Takes a kprobe's hits away before it is unregistered. Unregistering one that cannot be
 * disabled, as where ftrace fails, would leave the kernel with pointers to freed memory:
 * such a probe stays registered and calls nobody.
 */
static bool disable_or_keep(struct tcplat_probe *probe)
{
	/* A return probe begins with its kprobe. */
	int err = disable_kprobe(&probe->kp);

	probe->kept = err;
	if (err) {
		pr_err_once("%s: its probe cannot be disabled: error %d\n", probe->found, err);
		set_handlers(probe, false);
	}
	return !err;
}

static int arm_return(struct tcplat_probe *probe)
{
	memset(&probe->rp, 0, sizeof(probe->rp));
	probe->rp.kp.symbol_name = probe->found;
	probe->rp.entry_handler = probe->entry_ret;
	probe->rp.handler = probe->ret;
	probe->rp.data_size = probe->data_size;
	probe->rp.maxactive = probe->maxactive;
	return register_kretprobe(&probe->rp);
}

static int on_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	const struct tcplat_probe *probe = container_of(kp, struct tcplat_probe, kp);

	if (probe->entry5)
		probe->entry5(tcplat_arg(regs, 0), (unsigned long)tcplat_arg(regs, 1),
			      (unsigned long)tcplat_arg(regs, 2),
			      (unsigned long)tcplat_arg(regs, 3),
			      (unsigned long)tcplat_arg(regs, 4));
	else
		probe->entry(tcplat_arg(regs, 0), (unsigned long)tcplat_arg(regs, 1),
			     (unsigned long)tcplat_arg(regs, 2));
	return 0;
}

NOKPROBE_SYMBOL(on_kprobe);

#if defined(CONFIG_X86_64) && defined(CONFIG_OPTPROBES)
static bool arm_behind(struct tcplat_probe *probe)
{
	if (!probe->on_ftrace)
		return false;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.addr = probe->addr + MCOUNT_INSN_SIZE;
	probe->kp.pre_handler = on_kprobe;
	if (register_kprobe(&probe->kp))
		return false;

	/* A probe that can be optimised hangs below one that kprobes made for it. */
	if (!list_empty(&probe->kp.list))
		return true;

	unregister_kprobe(&probe->kp);
	return false;
}
#else
static bool arm_behind(struct tcplat_probe *probe)
{
	return false;
}
#endif

static int arm_entry(struct tcplat_probe *probe)
{
	probe->behind = arm_behind(probe);
	if (probe->behind)
		return 0;

	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = probe->found;
	probe->kp.pre_handler = on_kprobe;
	return register_kprobe(&probe->kp);
}

static u64 missed_while_armed(const struct tcplat_probe *probe)
{
	u64 missed;

	if (probe->by_ftrace)
		return 0;
	missed = READ_ONCE(probe->kp.nmissed);
	if (is_return(probe))
		missed += READ_ONCE(probe->rp.nmissed);
	return missed;
}

static int arm(struct tcplat_probe *probe)
{
	if (probe->by_ftrace)
		return 0;
	if (probe->kept) {
		/* The kernel's own count went on. */
		probe->missed_before -= missed_while_armed(probe);
		probe->kept = false;
		set_handlers(probe, true);
		return 0;
	}
	return is_return(probe) ? arm_return(probe) : arm_entry(probe);
}

/**
 * tcplat_probes_prepare() - have the kernel watch what groups are about to arm
 * @groups: the groups, all disarmed; unavailable ones may be among them
 * @n: how many
 *
 * Not needed, but each time that the kernel is told of another function it goes through
 * all that it could watch, tens of thousands: this does it once for all groups.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_probes_prepare(struct tcplat_group * const *groups, unsigned int n)
{
	arm_ftrace(groups, n);
}

/**
 * tcplat_probes_arm() - put a group's probes on, all or none
 * @group: the group, available and disarmed
 * @symbol: where to say, on error, which function could not be probed
 *
 * Context: process, may sleep, under tcplat_control.
 * Return: 0, or the error of the first probe that could not be registered
 */
int tcplat_probes_arm(struct tcplat_group *group, const char **symbol)
{
	unsigned int i;
	int err;

	arm_ftrace(&group, 1);
	/* The busiest last: who watches sockets come must not miss that they go. */
	for (i = group->nr_probes; i--; ) {
		struct tcplat_probe *probe = &group->probes[i];

		if (!probe->found)
			continue;
		err = arm(probe);
		if (err) {
			*symbol = probe->found;
			tcplat_probes_disarm(&group, 1);
			return err;
		}
		WRITE_ONCE(probe->armed, true);
	}
	update_calls();
	hold_module();
	return 0;
}

/* Kprobes that are about to go, of batch_kps and batch_rps. */
struct leaving {
	struct work_struct work;
	unsigned int kps;
	unsigned int rps;
};

static void unregister_batch(struct work_struct *work)
{
	const struct leaving *leaving = container_of(work, struct leaving, work);

	if (leaving->kps)
		unregister_kprobes(batch_kps, leaving->kps);
	if (leaving->rps)
		unregister_kretprobes(batch_rps, leaving->rps);
}

/**
 * tcplat_probes_disarm() - take groups' probes off, waiting once for all of them
 * @groups: the groups; those that are off already may be among them
 * @n: how many
 *
 * On return no handler runs any more and none will. Kprobes and ftrace both wait for
 * grace periods: beside each other.
 *
 * Context: process, may sleep, under tcplat_control.
 */
void tcplat_probes_disarm(struct tcplat_group * const *groups, unsigned int n)
{
	struct leaving leaving = {};
	bool any_kept = false;
	unsigned int i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed && !probe->kept)
				continue;
			/* Disabled here, for the work would have to wait for ftrace's lock. */
			if (probe->by_ftrace)
				WRITE_ONCE(probe->armed, false);
			else if (!disable_or_keep(probe))
				any_kept = true;
			else if (is_return(probe))
				batch_rps[leaving.rps++] = &probe->rp;
			else
				batch_kps[leaving.kps++] = &probe->kp;
		}
	}
	INIT_WORK_ONSTACK(&leaving.work, unregister_batch);
	schedule_work(&leaving.work);
	disarm_ftrace(groups, n);
	flush_work(&leaving.work);
	destroy_work_on_stack(&leaving.work);
	/* Handlers that a kept probe was calling when it lost them. */
	if (any_kept)
		synchronize_rcu();
	hold_module();

	for (i = 0; i < n; i++) {
		for (j = 0; j < groups[i]->nr_probes; j++) {
			struct tcplat_probe *probe = &groups[i]->probes[j];

			if (!probe->armed)
				continue;
			/* Registering again starts the kernel's own count at zero. */
			probe->missed_before += missed_while_armed(probe);
			WRITE_ONCE(probe->armed, false);
		}
	}
}

static u64 missed_in_all(const struct tcplat_probe *probe)
{
	u64 missed = probe->missed_before;

	if (probe->armed)
		missed += missed_while_armed(probe);
	return missed;
}

/**
 * tcplat_probe_missed() - hits of a probe that the kernel could not deliver
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 * Return: how many since the last reset
 */
u64 tcplat_probe_missed(const struct tcplat_probe *probe)
{
	return missed_in_all(probe) - probe->missed_base;
}

/**
 * tcplat_probe_missed_reset() - make a probe's missed hits read zero
 * @probe: the probe
 *
 * Context: process, under tcplat_control.
 */
void tcplat_probe_missed_reset(struct tcplat_probe *probe)
{
	probe->missed_base = missed_in_all(probe);
}

/**
 * tcplat_probe_kind() - how a probe is attached, read off the kernel's code
 * @probe: the probe
 *
 * Optimising is the kernel's own business and happens a little after arming; it
 * can also be switched off and on, so look at what is there now.
 *
 * Context: process.
 * Return: "ftrace", "kprobe:jump", "kprobe:ftrace", "kprobe:breakpoint", or "-" while
 * the probe is off
 */
const char *tcplat_probe_kind(const struct tcplat_probe *probe)
{
	if (!probe->armed)
		return "-";
	if (probe->by_ftrace)
		return "ftrace";
	if (kprobe_ftrace((struct kprobe *)&probe->kp))
		return "kprobe:ftrace";
#ifdef CONFIG_X86_64
	{
		u8 opcode;

		if (!copy_from_kernel_nofault(&opcode, probe->kp.addr, 1) &&
		    opcode == JMP32_INSN_OPCODE)
			return "kprobe:jump";
	}
#endif
	return "kprobe:breakpoint";
}

/* A variable's value, or what it is taken for where it cannot be read. */
static bool is_set(const void *variable, size_t size, bool otherwise)
{
	unsigned int value = 0;

	if (!variable || copy_from_kernel_nofault(&value, variable, size))
		return otherwise;
	return value;
}

/**
 * tcplat_probe_is_live() - whether an armed probe gets its hits
 * @probe: the probe
 *
 * The kernel's debugfs file kprobes/enabled silences every kprobe, and the sysctl
 * kernel.ftrace_enabled those that sit on ftrace; neither tells those who have one.
 * The sysctl cannot be set while a probe is by ftrace itself. A kernel whose variables
 * for that cannot be found is taken to have all of them on.
 *
 * Context: any.
 * Return: false for one that is not armed, too
 */
bool tcplat_probe_is_live(const struct tcplat_probe *probe)
{
	if (!READ_ONCE(probe->armed) || probe->by_ftrace)
		return READ_ONCE(probe->armed);
	if (is_set(all_disarmed, sizeof(bool), false))
		return false;
	return !kprobe_ftrace((struct kprobe *)&probe->kp) || is_set(ftrace_on, sizeof(int), true);
}

/**
 * tcplat_data_symbol() - where the kernel keeps a variable that it does not export
 * @name: the variable's name
 *
 * register_kprobe() looks the name up, leaves the address behind, and then refuses it
 * because it is not code. A function's address is not given away: calling what was
 * found this way would crash kernels that check the targets of indirect calls.
 *
 * The variable is only to be read, with copy_from_kernel_nofault(), and what is read
 * to be doubted: that the name means today what it meant yesterday is not certain.
 *
 * Context: process, may sleep.
 * Return: the address, or NULL if the kernel knows no such variable
 */
const void *tcplat_data_symbol(const char *name)
{
	struct kprobe kp = {
		.symbol_name = name,
		.flags = KPROBE_FLAG_DISABLED,
	};
	char found[KSYM_SYMBOL_LEN];
	size_t len = strlen(name);
	int err;

	if (hidden(name))
		return NULL;
	err = register_kprobe(&kp);
	if (!err)
		unregister_kprobe(&kp);
	if (err != -EINVAL || IS_ERR_OR_NULL(kp.addr))
		return NULL;

	/* Kprobes may have moved the address, as they do for functions. */
	sprint_symbol(found, (unsigned long)kp.addr);
	if (strncmp(found, name, len) || strncmp(found + len, "+0x0/", 5))
		return NULL;
	return kp.addr;
}
