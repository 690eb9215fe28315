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
 * write to it when they find a port. Had one done so in that moment, the distance and
 * the slot's growth would be off by the same, and neither would tell. So a search
 * counts as verified only if the slot has grown as this search alone makes it grow,
 * no other one returned with a port meanwhile, and none that is under way has got one.
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
#include "trace.h"

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
	ITERATIONS_HIST,
	TIME = ITERATIONS_HIST + ITERATIONS_BUCKETS,
	NR_COUNTERS = TIME + TCPLAT_TIME_COUNTERS,
};

static const struct tcplat_hist iterations_hist = {
	.name = "iterations_hist",
	.unit = "",
	.le = iterations_le,
	.buckets = ITERATIONS_BUCKETS,
	.first = ITERATIONS_HIST,
};

static const struct tcplat_hist time_hist = TCPLAT_TIMES(TIME);

/* The kernel's table_perturb, of TCPLAT_PERTURB_SLOTS slots; NULL if it was not found. */
static const u32 *perturb;

/**
 * struct company - searches from the same slot
 * @state: those that ever found a port (upper half); those under way that are not in @sk
 * @sk: sockets of those under way
 *
 * Several slots share one: searches from two of them may take each other for company,
 * and are unverified then.
 */
struct company {
	atomic64_t state;
	struct sock *sk[7];
};

#define COMPANIES	1024
#define FOUND		BIT_ULL(32)
#define NO_PLACE	ARRAY_SIZE(((struct company *)NULL)->sk)

static struct company companies[COMPANIES] __aligned(sizeof(struct company));

/**
 * struct search - a search under way
 * @sk: the socket, which its owner holds until after the search
 * @ports: what it goes through
 * @slot: index into table_perturb
 * @share: what the destination adds to the slot's value
 * @value: the slot's value
 * @place: where it is in its company
 * @found: searches of its company that had found a port before
 * @readable: the slot could be read
 * @since: when it began, in ns
 */
struct search {
	struct sock *sk;
	struct tcplat_ports ports;
	u32 slot;
	u32 share;
	u32 value;
	u32 place;
	u32 found;
	bool readable;
	u64 since;
};

static __always_inline bool read_slot(u32 slot, u32 *value)
{
	return perturb && !copy_from_kernel_nofault(value, &perturb[slot], sizeof(*value));
}

static __always_inline struct company *company_of(const struct search *search)
{
	return &companies[search->slot % COMPANIES];
}

static __always_inline void join(struct search *search)
{
	struct company *company = company_of(search);
	u32 i;

	for (i = 0; i < NO_PLACE; i++)
		if (!READ_ONCE(company->sk[i]) &&
		    !cmpxchg(&company->sk[i], NULL, search->sk))
			break;
	if (i == NO_PLACE)
		atomic64_inc(&company->state);
	search->place = i;
	/* Whoever is counted here has written to the slot before it is read. */
	search->found = atomic64_read_acquire(&company->state) >> 32;
}

/*
 * Whether no other search can have written to the slot between join() and now. One
 * that is still under way notes its port right after it writes, with a lock held. Its
 * socket may be gone by now, and is read accordingly; then it is counted in @state.
 */
static __always_inline bool leave(const struct search *search, bool found)
{
	struct company *company = company_of(search);
	u64 change = found ? FOUND : 0;
	bool alone = true;
	u64 state;
	u32 i;

	for (i = 0; i < NO_PLACE; i++) {
		const struct sock *other = READ_ONCE(company->sk[i]);
		u16 port;

		if (i != search->place && other &&
		    (copy_from_kernel_nofault(&port, &inet_sk(other)->inet_num,
					      sizeof(port)) || port))
			alone = false;
	}

	/* First counted, then gone: who does not see the one sees the other. */
	if (search->place == NO_PLACE)
		change--;
	state = atomic64_add_return(change, &company->state);
	if (search->place < NO_PLACE)
		WRITE_ONCE(company->sk[search->place], NULL);
	return alone && !(u32)state && (u32)(state >> 32) == search->found + found;
}

/* Entry of __inet_hash_connect(death_row, sk, port_offset, ...): socket lock held, may sleep. */
static int search_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct search *search = (struct search *)ri->data;
	struct sock *sk = tcplat_arg(regs, 1);
	u64 port_offset = (u64)tcplat_arg(regs, 2);

	/* Bound already: there is nothing to search. */
	if (inet_sk(sk)->inet_num)
		return 1;

	search->since = ktime_get_mono_fast_ns();
	search->sk = sk;
	tcplat_sk_ports(sk, &search->ports);
	search->slot = port_offset & (TCPLAT_PERTURB_SLOTS - 1);
	search->share = port_offset >> 32;
	join(search);
	/* Last, as close to the kernel's own reading as can be. */
	search->readable = read_slot(search->slot, &search->value);
	return 0;
}

NOKPROBE_SYMBOL(search_entry);

/* Ports tried by a search that ended with @err; 0 if that cannot be told for sure. */
static __always_inline u32 ports_tried(const struct search *search, int err)
{
	struct tcplat_ports now;
	bool alone;
	u32 value;

	/* The slot before the company: who joins it from now on writes later. */
	alone = read_slot(search->slot, &value) && search->readable;
	alone = leave(search, !err) && alone;

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
	tcplat_add_time(group, TIME, ns);
	trace_port_search(search->sk, tried, ns, err);
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
	TCPLAT_SUM("time_ns", TIME),
	TCPLAT_MAX("time_max_ns", TIME + TCPLAT_TIME_MAX),
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

	for (i = 0; i < COMPANIES; i++)
		companies[i] = (struct company){};
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
