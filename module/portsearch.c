// SPDX-License-Identifier: GPL-2.0
/*
 * portsearch: how many ports connect() tried before it found one, and for how long.
 *
 * A probe on every port tried would slow the very search it measures. This one sees
 * a search's beginning and its end: from the slot of table_perturb that the kernel
 * is about to start from, and the port that was chosen, follows how many lay between.
 *
 * That holds only if the kernel read from the slot what was read here a moment
 * before. Others who search from the same slot (for the same destination, mostly)
 * write to it, and neither the distance nor the slot's growth would tell: both are
 * off by the same. So a search counts as verified only if no other one from its slot
 * was under way at any time between its beginning and its end, and the slot has
 * grown as this search alone makes it grow.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <net/inet_sock.h>
#include <net/net_namespace.h>

#include "ports.h"
#include "tcplat.h"

/* One bucket a power of two, from a single port to all there are, and one beyond. */
static const u64 iterations_le[] = {
	1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768,
	65536,
};

#define ITERATIONS_BUCKETS	(ARRAY_SIZE(iterations_le) + 1)

enum {
	SEARCHES,
	ITERATIONS,
	ITERATIONS_MAX,
	EXHAUSTED,
	UNVERIFIED,
	TIME_NS,
	TIME_MAX_NS,
	ITERATIONS_HIST,
	TIME_HIST = ITERATIONS_HIST + ITERATIONS_BUCKETS,
	NR_COUNTERS = TIME_HIST + TCPLAT_TIME_BUCKETS,
};

static const struct tcplat_hist iterations_hist = {
	.name = "iterations_hist",
	.unit = "",
	.le = iterations_le,
	.buckets = ITERATIONS_BUCKETS,
	.first = ITERATIONS_HIST,
};

static const struct tcplat_hist time_hist = {
	.name = "time_hist",
	.unit = "_ns",
	.le = tcplat_time_le_ns,
	.buckets = TCPLAT_TIME_BUCKETS,
	.first = TIME_HIST,
};

/* The kernel's table_perturb, of TCPLAT_PERTURB_SLOTS slots; NULL if it was not found. */
static const u32 *perturb;

/*
 * For each slot: searches that ever began (upper half), and those under way. Slots
 * share, so that two searches from different slots may take each other for company
 * and are unverified then.
 */
#define BUSY_SLOTS	4096
#define BUSY_BEGUN	BIT_ULL(32)

static atomic64_t busy[BUSY_SLOTS];

/**
 * struct search - a search under way
 * @sk: the socket, which its owner holds until after the search
 * @ports: what it goes through
 * @slot: index into table_perturb
 * @share: what the destination adds to the slot's value
 * @value: the slot's value
 * @begun: searches begun from the slot, this one included
 * @alone: there was no other
 * @since: when it began, in ns
 */
struct search {
	struct sock *sk;
	struct tcplat_ports ports;
	u32 slot;
	u32 share;
	u32 value;
	u32 begun;
	bool alone;
	u64 since;
};

static __always_inline bool read_slot(u32 slot, u32 *value)
{
	return perturb && !copy_from_kernel_nofault(value, &perturb[slot], sizeof(*value));
}

static __always_inline atomic64_t *busy_slot(const struct search *search)
{
	return &busy[search->slot % BUSY_SLOTS];
}

/* Entry of __inet_hash_connect(death_row, sk, port_offset, ...): socket lock held, may sleep. */
static int search_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct search *search = (struct search *)ri->data;
	struct sock *sk = tcplat_arg(regs, 1);
	u64 port_offset = (u64)tcplat_arg(regs, 2);
	u64 others;

	/* Bound already: there is nothing to search. */
	if (inet_sk(sk)->inet_num)
		return 1;

	search->since = ktime_get_mono_fast_ns();
	search->sk = sk;
	tcplat_sk_ports(sk, &search->ports);
	search->slot = port_offset & (TCPLAT_PERTURB_SLOTS - 1);
	search->share = port_offset >> 32;
	others = atomic64_add_return(BUSY_BEGUN + 1, busy_slot(search));
	search->begun = others >> 32;
	search->alone = (u32)others == 1;
	/* Last, and after the others were looked for: what they wrote is in it. */
	if (!read_slot(search->slot, &search->value))
		search->alone = false;
	return 0;
}

NOKPROBE_SYMBOL(search_entry);

/* Ports tried by a search that ended with @err; 0 if that cannot be told for sure. */
static __always_inline u32 ports_tried(const struct search *search, int err)
{
	struct tcplat_ports now;
	u32 value;
	bool alone;
	u64 others;

	/* The slot before the others: whoever comes now writes after it was read. */
	alone = read_slot(search->slot, &value) && search->alone;
	others = atomic64_dec_return(busy_slot(search));
	alone = alone && others >> 32 == search->begun;

	/* The kernel reads the range once, right after it was read at entry. */
	tcplat_sk_ports(search->sk, &now);
	if (!perturb || !tcplat_ports_same(&now, &search->ports))
		return 0;
	switch (err) {
	case 0:
		if (!alone)
			return 0;
		return tcplat_ports_tried(&now, search->value + search->share,
					  value - search->value,
					  inet_sk(search->sk)->inet_num);
	case -EADDRNOTAVAIL:
		return tcplat_ports_all(&now);
	default:
		return 0;
	}
}

static int search_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_portsearch;
	const struct search *search = (struct search *)ri->data;
	int err = regs_return_value(regs);
	u64 ns = tcplat_ns_since(search->since);
	u32 tried = ports_tried(search, err);

	tcplat_inc(group, SEARCHES);
	if (err == -EADDRNOTAVAIL)
		tcplat_inc(group, EXHAUSTED);
	if (tried) {
		tcplat_add(group, ITERATIONS, tried);
		tcplat_note_max(group, ITERATIONS_MAX, tried);
		tcplat_inc(group, ITERATIONS_HIST +
			   tcplat_bucket_pow2(0, ITERATIONS_BUCKETS, tried));
	} else {
		tcplat_inc(group, UNVERIFIED);
	}
	tcplat_add(group, TIME_NS, ns);
	tcplat_note_max(group, TIME_MAX_NS, ns);
	tcplat_inc(group, TIME_HIST + tcplat_time_bucket(ns));
	return 0;
}

NOKPROBE_SYMBOL(search_return);

static struct tcplat_probe portsearch_probes[] = {
	{
		.symbol = "__inet_hash_connect",
		.entry_ret = search_entry,
		.ret = search_return,
		.data_size = sizeof(struct search),
		.maxactive = TCPLAT_SEARCHES_AT_ONCE,
		.hits = SEARCHES,
	},
};

static const struct tcplat_file portsearch_files[] = {
	TCPLAT_SUM("searches", SEARCHES),
	TCPLAT_SUM("iterations", ITERATIONS),
	TCPLAT_MAX("iterations_max", ITERATIONS_MAX),
	TCPLAT_SUM("exhausted", EXHAUSTED),
	TCPLAT_SUM("unverified", UNVERIFIED),
	TCPLAT_SUM("time_ns", TIME_NS),
	TCPLAT_MAX("time_max_ns", TIME_MAX_NS),
	TCPLAT_HIST("iterations_hist", &iterations_hist),
	TCPLAT_HIST_LE("iterations_hist_le", &iterations_hist),
	TCPLAT_HIST("time_hist", &time_hist),
	TCPLAT_HIST_LE("time_hist_le_ns", &time_hist),
};

static const struct tcplat_hist * const portsearch_hists[] = {
	&iterations_hist,
	&time_hist,
};

/* Find table_perturb, a pointer to as many u32 as the kernel's configuration says. */
static void find_perturb(void)
{
	const void *symbol = tcplat_data_symbol("table_perturb");
	const u32 *table;
	u32 value;

	perturb = NULL;
	if (!TCPLAT_PERTURB_SLOTS || !symbol ||
	    copy_from_kernel_nofault(&table, symbol, sizeof(table)))
		return;
	if (!IS_ALIGNED((unsigned long)table, sizeof(*table)) ||
	    copy_from_kernel_nofault(&value, table, sizeof(value)) ||
	    copy_from_kernel_nofault(&value, &table[TCPLAT_PERTURB_SLOTS - 1], sizeof(value)))
		return;
	perturb = table;
}

static int portsearch_init(struct tcplat_group *group)
{
	find_perturb();
	if (!perturb)
		pr_warn("portsearch: this kernel's table_perturb was not found: searches are counted and timed, but how many ports they tried stays unverified\n");
	return 0;
}

/* Those that were under way when the probes were taken off have not come back. */
static void portsearch_stop(struct tcplat_group *group)
{
	unsigned int i;

	for (i = 0; i < BUSY_SLOTS; i++)
		atomic64_set(&busy[i], 0);
}

struct tcplat_group tcplat_portsearch = {
	.name = "portsearch",
	.probes = portsearch_probes,
	.nr_probes = ARRAY_SIZE(portsearch_probes),
	.nr_counters = NR_COUNTERS,
	.files = portsearch_files,
	.nr_files = ARRAY_SIZE(portsearch_files),
	.hists = portsearch_hists,
	.nr_hists = ARRAY_SIZE(portsearch_hists),
	.init = portsearch_init,
	.stop = portsearch_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/ports-kunit.h"
#endif
