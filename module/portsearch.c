// SPDX-License-Identifier: GPL-2.0
/*
 * portsearch: how many ports connect() tried before it found one, and how long that took.
 *
 * A probe on every port tried would slow down the search. Instead, the number of ports is
 * computed from a slot of table_perturb: a search starts at an offset that depends on the slot,
 * and adds its distance to the slot. The slot is read at entry, right before the kernel writes
 * it, and at return. The value at entry and the chosen port give the distance. The growth
 * between the other two readings also gives the distance, if it is eight steps or more.
 *
 * Other searches for the same destination use the same slot. Each search announces in the
 * slot's bucket that it is about to write. So a search knows whether another one may have
 * written between the last two readings, and which values the kernel may have read from the
 * slot at the start. The number is verified only if all of these values give the same number.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/rcupdate.h>
#include <linux/uaccess.h>
#include <net/inet_connection_sock.h>
#include <net/inet_sock.h>

#include "ports.h"
#include "tcplat.h"
#include "trace.h"

/* One bucket per power of two up to the number of all ports, and one beyond. */
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
	BOUND_IN_USE,
	UNVERIFIED,
	UNVERIFIED_TIME,
	UNVERIFIED_LOWER,
	UNVERIFIED_UPPER,
	WRITES,
	ITERATIONS_HIST,
	TIME = ITERATIONS_HIST + ITERATIONS_BUCKETS,
	NR_COUNTERS = TIME + TCPLAT_TIME_COUNTERS,
};

/* The kernel's table_perturb, with TCPLAT_PERTURB_SLOTS slots; NULL if it was not found. */
static const u32 *perturb;

/* Number of values that a bucket stores. */
#define VALUES		8

/**
 * struct perturb_bucket - writes to the slots of table_perturb that share this bucket
 * @writes: upper half: sequence number of the last write announced; lower half: number of
 *	writes in flight
 * @writer: socket of one of the writes in flight
 * @overlap: sequence number of the last write announced while another one was in flight
 * @noted: sequence number of the last write in @values
 * @values: for each of the last writes, the value of its slot before the write
 * @tags: for each of @values, which of the bucket's slots it belongs to
 *
 * Slots that share a bucket only cost verification: a write to another slot counts as a write
 * to this one.
 */
struct perturb_bucket {
	atomic64_t writes;
	struct sock *writer;
	u32 overlap;
	u32 noted;
	u32 values[VALUES];
	u8 tags[VALUES];
} ____cacheline_aligned;

/*
 * With 64 concurrent searches, one in 65 shares its bucket with a search of another slot. That
 * matters only if one of them writes, which takes some hundred instructions, while the other
 * one writes or makes a short search. The table takes 256 KiB, a sixteenth of the size of a
 * table with a bucket for each slot.
 */
#define BUCKETS		4096
#define ANNOUNCED	BIT_ULL(32)

static_assert(TCPLAT_PERTURB_SLOTS / BUCKETS <= U8_MAX + 1);

static struct perturb_bucket *buckets __read_mostly;

/**
 * struct search - a search in flight
 * @sk: the socket, which the caller holds until after the search
 * @ports: the ports that the search goes through
 * @slot: index into table_perturb
 * @dst_offset: the destination's offset, which is added to the slot's value
 * @slot_idx: index into searching[], or NO_SLOT
 * @unknown_writes: value of unknown_writes.count at the start of the search
 * @begun: sequence number of the bucket's last write announced before the search
 * @active: number of writes in flight at the start of the search
 * @number: sequence number of the search's own write
 * @first: the slot's value at entry
 * @before: the slot's value right before the write
 * @verifiable: nothing has happened yet that rules out verification
 * @announced: the write was announced
 * @bound: no search: the socket has been bound, and only its port is tried
 * @is_writer: the search is, or was, the bucket's writer
 * @since: when the search began, in ns
 */
struct search {
	struct sock *sk;
	struct tcplat_ports ports;
	u32 slot;
	u32 dst_offset;
	u32 slot_idx;
	u32 unknown_writes;
	u32 begun;
	u32 active;
	u32 number;
	u32 first;
	u32 before;
	bool verifiable;
	bool announced;
	bool bound;
	bool is_writer;
	u64 since;
};

/*
 * Searches in flight, by socket. A slot is only used by the task that searches for its socket.
 * There are twice as many slots as searches that a kretprobe can follow, so that few searches
 * find no slot.
 */
#define SEARCHING_BITS	11
#define SEARCHING	BIT(SEARCHING_BITS)
#define SEARCHING_TRIES	8
#define NO_SLOT		SEARCHING

static_assert(SEARCHING > TCPLAT_SEARCHES_AT_ONCE);

static struct searching {
	struct sock *sk;
	struct search *search;
	bool whole;	/* the search counts as a write from its beginning on */
} *searching __read_mostly;

/* Number of searches in flight that found no slot. */
static atomic_t unlisted;

/* A probe shows when a search is about to write; else a whole search counts as a write. */
static bool sees_writes;

/* Whether that probe has shown a write, and whether it turned out to show none. */
static bool saw_write, is_blind;

/*
 * SETTLED: no write was missed, and all writes in flight when the probes were armed have ended.
 * SWITCHING: a search that began while sees_writes was set may still write unseen.
 */
static enum {
	UNSETTLED,
	SWITCHING,
	SETTLED,
} settled;

/*
 * Writes of searches that began before the group was armed, or that the return probe could
 * not follow. Their slot is unknown, so each of them disturbs all searches. It has ended a
 * grace period after @cookie, since a search writes with bottom halves off.
 */
static struct {
	atomic_t count;
	unsigned long cookie;
} unknown_writes;

static __always_inline bool read_slot(u32 slot, u32 *value)
{
	return tcplat_read_u32(&perturb[slot], value);
}

static __always_inline struct perturb_bucket *bucket_of(const struct search *search)
{
	return &buckets[search->slot % BUCKETS];
}

static __always_inline bool add_searching(struct search *search)
{
	u32 i, first = hash_ptr(search->sk, SEARCHING_BITS);

	for (i = 0; i < SEARCHING_TRIES; i++) {
		u32 slot_idx = (first + i) % SEARCHING;

		if (READ_ONCE(searching[slot_idx].sk) ||
		    cmpxchg(&searching[slot_idx].sk, NULL, search->sk))
			continue;
		searching[slot_idx].search = search;
		search->slot_idx = slot_idx;
		return true;
	}
	search->slot_idx = NO_SLOT;
	atomic_inc_return(&unlisted);
	return false;
}

static __always_inline struct search *find_searching(const struct sock *sk)
{
	u32 i, first = hash_ptr(sk, SEARCHING_BITS);

	for (i = 0; i < SEARCHING_TRIES; i++) {
		u32 slot_idx = (first + i) % SEARCHING;

		if (READ_ONCE(searching[slot_idx].sk) == sk)
			return searching[slot_idx].search;
	}
	return NULL;
}

static __always_inline void remove_searching(const struct search *search)
{
	if (search->slot_idx == NO_SLOT) {
		atomic_dec(&unlisted);
		return;
	}
	WRITE_ONCE(searching[search->slot_idx].whole, false);
	/* Pairs with settle(): it does not take the flag of this search for that of the next. */
	smp_store_release(&searching[search->slot_idx].sk, NULL);
}

/*
 * The compiler may inline the function that the probe on writes watches into the search, but not
 * into bind(): the probe is armed then, and silent. From now on, a whole search counts as a write.
 */
static noinline void __kprobes stop_seeing_writes(void)
{
	if (cmpxchg(&settled, SETTLED, SWITCHING) != SETTLED)
		return;
	WRITE_ONCE(sees_writes, false);
	if (!xchg(&is_blind, true))
		pr_notice("portsearch: __inet_hash_connect() does not call inet_bind2_bucket_find(), which may be inlined: fewer concurrent searches are verified\n");
}

/* Ends SWITCHING once no search that began before is in flight. */
static noinline void __kprobes settle(void)
{
	u32 i;

	/*
	 * Pairs with add_searching(): a search that still saw sees_writes set is in searching[] or
	 * counted in unlisted.
	 */
	smp_mb();
	if (atomic_read(&unlisted))
		return;
	for (i = 0; i < SEARCHING; i++) {
		/* Pairs with remove_searching(). */
		if (smp_load_acquire(&searching[i].sk) && !READ_ONCE(searching[i].whole))
			return;
	}
	cmpxchg(&settled, SWITCHING, SETTLED);
}

static void __kprobes count_unknown_write(void)
{
	unsigned long old;

	/* Retry, so that the latest cookie is the one that stays. */
	do {
		old = READ_ONCE(unknown_writes.cookie);
	} while (cmpxchg(&unknown_writes.cookie, old, get_state_synchronize_rcu()) != old);
	/* Pairs with no_unknown_write(): a CPU that sees the count sees the cookie. */
	atomic_inc_return(&unknown_writes.count);
}

/* Whether no unknown write can be in flight now. */
static __always_inline bool no_unknown_write(struct search *search)
{
	search->unknown_writes = atomic_read(&unknown_writes.count);
	if (likely(!search->unknown_writes))
		return true;
	/* Read the count before the cookie: count_unknown_write() writes the cookie first. */
	smp_rmb();
	return tcplat_grace_over(READ_ONCE(unknown_writes.cookie));
}

/*
 * Whether @sk's search has written to its slot: it binds the socket right after the write. The
 * socket may have been freed; the caller detects that.
 */
static __always_inline bool has_written(const struct sock *sk)
{
	struct inet_bind_bucket *bound;

	/* Only valid if other CPUs see the stores of a CPU in program order. */
	return IS_ENABLED(CONFIG_X86) &&
	       !copy_from_kernel_nofault(&bound, &inet_csk(sk)->icsk_bind_hash, sizeof(bound)) &&
	       bound;
}

/*
 * Ends the write of a search that was preempted after the write. Either the search itself or
 * another one clears @writer, and then counts the write as ended.
 */
static noinline void __kprobes end_other_write(struct perturb_bucket *bucket)
{
	struct sock *other = READ_ONCE(bucket->writer);

	if (other && has_written(other) && cmpxchg(&bucket->writer, other, NULL) == other)
		atomic64_dec(&bucket->writes);
}

/* Announces a write before the kernel makes it: a CPU that sees the write sees this. */
static __always_inline void announce_write(struct search *search)
{
	struct perturb_bucket *bucket = bucket_of(search);
	u64 writes = atomic64_add_return(ANNOUNCED + 1, &bucket->writes);
	u32 i;

	search->number = writes >> 32;
	search->announced = true;
	if ((u32)writes != 1) {
		end_other_write(bucket);
		if ((u32)atomic64_read(&bucket->writes) != 1) {
			WRITE_ONCE(bucket->overlap, search->number);
			search->verifiable = false;
		}
	}
	search->is_writer = !cmpxchg(&bucket->writer, NULL, search->sk);
	if (!read_slot(search->slot, &search->before))
		search->verifiable = false;
	i = search->number % VALUES;
	WRITE_ONCE(bucket->values[i], search->before);
	WRITE_ONCE(bucket->tags[i], search->slot / BUCKETS);
	/* Pairs with value_after_write(): a CPU that sees the number sees the value and tag. */
	smp_store_release(&bucket->noted, search->number);
}

/*
 * Sets @value to the slot's value after the search's own write: the value before the next
 * write, or @value unchanged if there was none. Returns false if the value is not known.
 */
static __always_inline bool value_after_write(const struct search *search, u32 *value)
{
	struct perturb_bucket *bucket = bucket_of(search);
	u32 i = (search->number + 1) % VALUES;
	/* Pairs with announce_write(). */
	u32 noted = smp_load_acquire(&bucket->noted);
	u32 next = READ_ONCE(bucket->values[i]);
	u8 tag = READ_ONCE(bucket->tags[i]);
	u32 overlap = READ_ONCE(bucket->overlap);
	u32 last, later;

	/* Order all reads above before this one: a write announced later is made later. */
	smp_mb();
	last = atomic64_read(&bucket->writes) >> 32;
	later = last - search->number;
	if (!later)
		return true;
	/* Some values since the search began have been overwritten. */
	if (last - search->begun > VALUES)
		return false;
	*value = next;
	return noted - search->number - 1 < later && tag == search->slot / BUCKETS &&
	       overlap - search->number - 1 >= later;
}

static __always_inline void begin_search(struct search *search, u64 port_offset)
{
	bool whole;
	u64 writes;

	search->slot = port_offset & (TCPLAT_PERTURB_SLOTS - 1);
	search->dst_offset = port_offset >> 32;
	search->announced = false;
	search->verifiable = add_searching(search);
	/* add_searching() is a full barrier: settle() sees the search, or it sees the switch. */
	whole = !READ_ONCE(sees_writes);
	if (whole) {
		if (search->slot_idx != NO_SLOT)
			WRITE_ONCE(searching[search->slot_idx].whole, true);
		if (unlikely(READ_ONCE(settled) == SWITCHING))
			settle();
	}
	if (READ_ONCE(settled) != SETTLED || !no_unknown_write(search))
		search->verifiable = false;
	/* Acquire: a write that is not counted here is not made before the slot is read. */
	writes = atomic64_read_acquire(&bucket_of(search)->writes);
	search->begun = writes >> 32;
	search->active = writes;
	if (whole) {
		announce_write(search);
		search->first = search->before;
	} else if (!read_slot(search->slot, &search->first)) {
		/* The slot is read last, as close to the kernel's own read as possible. */
		search->verifiable = false;
	}
}

/* Entry of __inet_hash_connect(death_row, sk, port_offset, ...): socket lock held, may sleep. */
static int __kprobes search_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct search *search = (struct search *)ri->data;
	struct sock *sk = (struct sock *)tcplat_arg(regs, 1);

	search->since = ktime_get_mono_fast_ns();
	search->sk = sk;
	search->bound = inet_sk(sk)->inet_num;
	if (search->bound)
		return 0;
	tcplat_sk_ports(sk, &search->ports);
	if (perturb)
		begin_search(search, tcplat_arg(regs, 2));
	return 0;
}

/*
 * Entry of inet_bind2_bucket_find(head, net, port, l3mdev, sk), bottom halves off. Called by a
 * search that has found a port, and also by bind().
 */
static void __kprobes write_entry(struct sock *head, unsigned long net, unsigned long port,
				  unsigned long l3mdev, unsigned long arg4)
{
	const struct sock *sk = (const struct sock *)arg4;
	struct search *search;

	if (sk->sk_state != TCP_SYN_SENT || inet_csk(sk)->icsk_bind_hash)
		return;
	tcplat_inc(&tcplat_portsearch, WRITES);
	/* Without the table no search is verified, and all would write to unknown_writes. */
	if (!perturb)
		return;
	if (!READ_ONCE(saw_write))
		WRITE_ONCE(saw_write, true);
	search = find_searching(sk);
	if (!search)
		count_unknown_write();
	else if (!search->announced)
		announce_write(search);
	else if (READ_ONCE(sees_writes))
		search->verifiable = false;
}

/*
 * Stores each value that the kernel may have read from the slot, plus the destination's offset.
 * Returns the number of values, 0 if they are not all known. value_after_write() checks whether
 * later writes have overwritten a value that is needed.
 */
static __always_inline u32 possible_starts(const struct search *search, u32 *starts)
{
	const struct perturb_bucket *bucket = bucket_of(search);
	u32 others = search->number - search->begun;
	u32 i;

	/* If two writes overlapped, the value between them is unknown. */
	if (search->active > 1 || others > VALUES ||
	    READ_ONCE(bucket->overlap) - search->begun - 1 < others)
		return 0;
	starts[0] = search->first + search->dst_offset;
	for (i = 1; i <= others; i++)
		starts[i] = READ_ONCE(bucket->values[(search->begun + i) % VALUES]) +
			    search->dst_offset;
	return others + 1;
}

/* Bounds of the ports tried by a search that ended with @err or @port, from the slot. */
static __always_inline struct tcplat_tried end_search(const struct search *search, int err,
						      u32 port)
{
	const struct tcplat_ports *ports = &search->ports;
	u32 all = tcplat_ports_all(ports);
	bool verifiable = search->verifiable && search->announced;
	u32 starts[VALUES + 1];
	u32 value, n = 0;

	if (verifiable) {
		n = possible_starts(search, starts);
		verifiable = read_slot(search->slot, &value) && value_after_write(search, &value);
	}
	if (search->announced &&
	    (!search->is_writer ||
	     cmpxchg(&bucket_of(search)->writer, search->sk, NULL) == search->sk))
		atomic64_dec(&bucket_of(search)->writes);
	/*
	 * Pairs with count_unknown_write() and portsearch_pause(): a write that is counted later
	 * is made later.
	 */
	smp_mb__after_atomic();
	if (READ_ONCE(settled) != SETTLED ||
	    atomic_read(&unknown_writes.count) != search->unknown_writes)
		verifiable = false;
	/* The write was missed, so it may have disturbed searches in flight. */
	if (!err && !search->announced) {
		count_unknown_write();
		if (!READ_ONCE(saw_write))
			stop_seeing_writes();
	}
	remove_searching(search);

	if (err == -EADDRNOTAVAIL)
		return (struct tcplat_tried){ all, all };
	if (err)
		return (struct tcplat_tried){ 1, all };
	if (!verifiable)
		return tcplat_ports_by_port(ports, port);
	if (!n)
		return tcplat_ports_by_growth(ports, value - search->before, port);
	return tcplat_ports_by_starts(ports, starts, n, value - search->before, port);
}

/* Bounds of the number of ports tried by a search that ended with @err. */
static __always_inline struct tcplat_tried ports_tried(const struct search *search, int err)
{
	struct tcplat_tried tried = { 1, TCPLAT_PORTS_MOST };
	struct tcplat_ports now;

	if (!perturb)
		return tried;
	tried = end_search(search, err, inet_sk(search->sk)->inet_num);
	/* The kernel reads the range once, right after search_entry() read it. */
	tcplat_sk_ports(search->sk, &now);
	if (!tcplat_ports_same(&now, &search->ports) || !tcplat_ports_all(&now))
		return (struct tcplat_tried){ 1, TCPLAT_PORTS_MOST };
	return tried;
}

static int __kprobes search_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct tcplat_group *group = &tcplat_portsearch;
	const struct search *search = (struct search *)ri->data;
	int err = regs_return_value(regs);
	u64 ns = tcplat_ns_since(search->since);
	struct tcplat_tried tried;
	u32 number;

	if (search->bound) {
		if (err == -EADDRNOTAVAIL) {
			tcplat_inc(group, BOUND_IN_USE);
			trace_port_search(search->sk, 1, ns, err, true);
		}
		return 0;
	}
	tried = ports_tried(search, err);
	number = tried.min == tried.max ? tried.min : 0;
	tcplat_inc(group, SEARCHES);
	if (err == -EADDRNOTAVAIL)
		tcplat_inc(group, EXHAUSTED);
	if (number) {
		tcplat_add(group, ITERATIONS, number);
		tcplat_note_max(group, ITERATIONS_MAX, number);
		tcplat_inc(group, ITERATIONS_HIST +
			   tcplat_bucket_pow2(0, ITERATIONS_BUCKETS, number));
	} else {
		tcplat_inc(group, UNVERIFIED);
		tcplat_add(group, UNVERIFIED_TIME, ns);
		tcplat_add(group, UNVERIFIED_LOWER, tried.min);
		tcplat_add(group, UNVERIFIED_UPPER, tried.max);
	}
	tcplat_add_time(group, TIME, ns);
	trace_port_search(search->sk, number, ns, err, false);
	return 0;
}

static struct tcplat_probe portsearch_probes[] = {
	{
		.symbol = "__inet_hash_connect",
		.entry_ret = search_entry,
		.ret = search_return,
		.data_size = sizeof(struct search),
		.maxactive = TCPLAT_SEARCHES_AT_ONCE,
		.hits = SEARCHES,
	},
	/* Armed before the probe on searches, so that no search misses the writes of others. */
	{
		.symbol = "inet_bind2_bucket_find",
		.entry5 = write_entry,
		.optional = true,
		.hits = WRITES,
	},
};

#define WRITE_PROBE	(&portsearch_probes[1])

static const struct tcplat_file portsearch_files[] = {
	TCPLAT_SUM("searches", SEARCHES),
	TCPLAT_SUM("iterations", ITERATIONS),
	TCPLAT_MAX("iterations_max", ITERATIONS_MAX),
	TCPLAT_SUM("exhausted", EXHAUSTED),
	TCPLAT_SUM("bound_in_use", BOUND_IN_USE),
	TCPLAT_SUM("unverified", UNVERIFIED),
	TCPLAT_SUM("unverified_time_ns", UNVERIFIED_TIME),
	TCPLAT_SUM("unverified_iterations_lower", UNVERIFIED_LOWER),
	TCPLAT_SUM("unverified_iterations_upper", UNVERIFIED_UPPER),
	TCPLAT_HIST("iterations_hist", "", iterations_le, ITERATIONS_HIST),
	TCPLAT_TIME_FILES("time", "time_hist", TIME),
};

/* Finds table_perturb, a pointer to an array of TCPLAT_PERTURB_SLOTS u32. */
static const u32 *find_perturb(void)
{
	const void *symbol = tcplat_data_symbol("table_perturb");
	const u32 *table;
	u32 value;

	if (!TCPLAT_PERTURB_SLOTS || !symbol ||
	    copy_from_kernel_nofault(&table, symbol, sizeof(table)) ||
	    !IS_ALIGNED((unsigned long)table, sizeof(*table)) ||
	    copy_from_kernel_nofault(&value, table, sizeof(value)) ||
	    copy_from_kernel_nofault(&value, &table[TCPLAT_PERTURB_SLOTS - 1], sizeof(value)))
		return NULL;
	return table;
}

static int portsearch_alloc(struct tcplat_group *group)
{
	if (!perturb)
		perturb = find_perturb();
	if (!perturb)
		pr_warn_once("portsearch: table_perturb was not found: searches are counted and timed, but the number of ports tried is unverified\n");
	buckets = tcplat_table_alloc(BUCKETS, sizeof(*buckets));
	searching = tcplat_table_alloc(SEARCHING, sizeof(*searching));
	return buckets && searching ? 0 : -ENOMEM;
}

/*
 * A search that found its port before the probe on writes was armed has made its write at the
 * end of the grace period.
 */
static void portsearch_start(struct tcplat_group *group)
{
	WRITE_ONCE(sees_writes, WRITE_PROBE->found && !is_blind);
	synchronize_rcu();
	WRITE_ONCE(settled, SETTLED);
}

static void portsearch_pause(struct tcplat_group *group)
{
	WRITE_ONCE(settled, UNSETTLED);
	/* Writes that the probe no longer sees are made after this. */
	smp_mb();
}

/* Searches that were in flight when the probes were disarmed call no handler when they end. */
static void portsearch_stop(struct tcplat_group *group)
{
	WRITE_ONCE(settled, UNSETTLED);
	atomic_set(&unlisted, 0);
	atomic_set(&unknown_writes.count, 0);
	vfree(searching);
	vfree(buckets);
	searching = NULL;
	buckets = NULL;
}

struct tcplat_group tcplat_portsearch = {
	TCPLAT_TABLES(portsearch),
	.alloc = portsearch_alloc,
	.start = portsearch_start,
	.pause = portsearch_pause,
	.stop = portsearch_stop,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/ports-kunit.h"
#endif
