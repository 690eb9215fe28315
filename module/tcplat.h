/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups of counters, and the interfaces that all groups share.
 */
#ifndef _TCPLAT_H
#define _TCPLAT_H

#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>
#include <linux/time64.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

#include "compat.h"

#define TCPLAT_ABI	2

struct tcplat_group;

/* ---- files in a group's directory in sysfs ---- */

/**
 * struct tcplat_mib - a count of the kernel's, and its difference to a counter of the group
 * @item: LINUX_MIB_...
 *
 * The remaining members belong to mib.c.
 * @counting: the group is armed
 * @gone: the kernel's count in network namespaces that were removed
 * @last: the difference when it was last read, from which @value grows on
 * @value: growth of the difference while the group was armed, since the last reset
 */
struct tcplat_mib {
	unsigned int item;

	bool counting;
	s64 gone;
	s64 last;
	s64 value;
};

enum tcplat_mib_action {
	TCPLAT_MIB_START,
	TCPLAT_MIB_STOP,
	TCPLAT_MIB_RESET,
};

#define TCPLAT_NO_COUNTER	UINT_MAX

/**
 * struct tcplat_file - one read-only file of a group
 * @attr: name, mode and tcplat_file_show()
 * @read: returns the number to show, or that of a histogram's bucket; NULL for a histogram's
 *	bounds, and for files with @mib
 * @index: passed to @read: index of the counter, or of the histogram's first one. With @mib, the
 *	counter to subtract, or TCPLAT_NO_COUNTER to show the kernel's count as it is
 * @buckets: number of buckets of a histogram; the bound of the last one is +Inf
 * @le: a histogram's upper bounds, inclusive, ascending; one fewer than @buckets
 * @mib: the kernel's count, for files that show one
 * @available: whether this kernel has what the file needs besides the group's probes; if not,
 *	the file is not created; NULL if it needs nothing else
 */
struct tcplat_file {
	struct kobj_attribute attr;
	u64 (*read)(const struct tcplat_group *group, unsigned int index);
	unsigned int index;
	unsigned int buckets;
	const u64 *le;
	struct tcplat_mib *mib;
	bool (*available)(void);
};

/* More members may follow: TCPLAT_SUM("stalls", STALLS, .available = sees_data). */
#define TCPLAT_FILE(_name, _read, _index, ...) \
	{ .attr = { .attr = { .name = _name, .mode = 0444 }, .show = tcplat_file_show }, \
	  .read = _read, .index = _index, ##__VA_ARGS__ }
#define TCPLAT_SUM(_name, _index, ...)	TCPLAT_FILE(_name, tcplat_sum, _index, ##__VA_ARGS__)
#define TCPLAT_MAX(_name, _index, ...)	TCPLAT_FILE(_name, tcplat_max, _index, ##__VA_ARGS__)
#define TCPLAT_JIFFIES_US(_name, _index, ...) \
	TCPLAT_FILE(_name, tcplat_jiffies_sum_us, _index, ##__VA_ARGS__)
/* The counts and the bounds of a histogram whose counters begin at index _first. */
#define TCPLAT_HIST(_name, _unit, _le, _first, ...) \
	TCPLAT_SUM(_name, _first, .le = _le, .buckets = ARRAY_SIZE(_le) + 1, ##__VA_ARGS__), \
	TCPLAT_FILE(_name "_le" _unit, NULL, 0, .le = _le, .buckets = ARRAY_SIZE(_le) + 1, \
		    ##__VA_ARGS__)
/* The growth of one of the kernel's counts, and how much more it has grown than a counter. */
#define TCPLAT_UNSEEN(_name, _index, _item) \
	TCPLAT_FILE(_name, NULL, _index, .mib = &(struct tcplat_mib){ .item = _item })
#define TCPLAT_MIB(_name, _item)	TCPLAT_UNSEEN(_name, TCPLAT_NO_COUNTER, _item)

/* The four files of a time: its sum, maximum and histogram, and the histogram's bounds. */
#define TCPLAT_TIME_FILES(_name, _hist, _time, ...) \
	TCPLAT_SUM(_name "_ns", _time, ##__VA_ARGS__), \
	TCPLAT_MAX(_name "_max_ns", (_time) + TCPLAT_TIME_MAX, ##__VA_ARGS__), \
	TCPLAT_HIST(_hist, "_ns", tcplat_time_le_ns, (_time) + TCPLAT_TIME_HIST, ##__VA_ARGS__)

/* The files of events that take time, whose counters begin at index _count. */
#define TCPLAT_TIMED_FILES(_name, _count, ...) \
	TCPLAT_SUM(_name, _count, ##__VA_ARGS__), \
	TCPLAT_TIME_FILES(_name "_time", _name "_hist", (_count) + 1, ##__VA_ARGS__)

/* ---- probes ---- */

#define TCPLAT_NO_HITS	UINT_MAX

/* The busiest functions. hot.h tells whether a hit needs a handler. */
enum tcplat_hot {
	TCPLAT_NOT_HOT,
	TCPLAT_HOT_SENT,
	TCPLAT_HOT_RECEIVED,
	TCPLAT_HOT_PUSH,
	TCPLAT_HOT_QUEUE,
	TCPLAT_HOT_DESTROY,
	TCPLAT_NR_HOT,
};

/*
 * Maximum number of port searches in flight without a miss. A search may sleep between two
 * ports, so the number of CPUs is not an upper bound. Each search takes about 100 bytes. Newer
 * kernels also allocate an array of pointers for each CPU, rounded up to a power of two: 8 KiB.
 */
#define TCPLAT_SEARCHES_AT_ONCE	1023

/**
 * struct tcplat_probe - one kernel function that a group watches
 * @symbol: name of the function
 * @fallback: function to watch if @symbol is missing, or NULL
 * @entry: handler at entry, called with the function's first three arguments, the
 *	first of them the socket; preemption is off
 * @entry5: like @entry, called with the first five arguments; a probe has only one of the two
 * @entry_ret: handler at entry of a return probe; if it returns non-zero, @ret is not called
 * @ret: handler at return; set only for return probes
 * @data_size: bytes that @entry_ret passes to @ret
 * @maxactive: maximum number of calls in flight that a return probe can follow; 0 is the
 *	kernel's default, enough for functions that do not sleep
 * @hot: which of the functions of hot.h this is, if any
 * @optional: the group is available without this probe
 * @hits: index of the counter of hits, or TCPLAT_NO_HITS if counting them costs too much; unused
 *	if the probe is @hot
 *
 * The remaining members belong to the probe engine.
 * @found: @symbol or @fallback, whichever this kernel has; NULL if neither
 * @addr: entry of the function, as adjusted by kprobes
 * @on_ftrace: @addr is an ftrace site
 * @armed: registered, and calling its handlers
 * @kept: still registered because the kernel failed to disable it, but calls no handler
 * @has_site: ftrace can watch the function
 * @next: the probe of another group at the same site
 * @by_ftrace: watched by ftrace, not by a kprobe
 * @missed_before: hits missed during earlier registrations, less all hits missed before the last
 *	reset; below 0, and wrapped, if the kernel's count of this registration began earlier
 * @kp: the kprobe
 * @rp: the kretprobe
 */
struct tcplat_probe {
	const char *symbol;
	const char *fallback;
	void (*entry)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	void (*entry5)(struct sock *sk, unsigned long arg1, unsigned long arg2,
		       unsigned long arg3, unsigned long arg4);
	kretprobe_handler_t entry_ret;
	kretprobe_handler_t ret;
	size_t data_size;
	int maxactive;
	enum tcplat_hot hot;
	bool optional;
	unsigned int hits;

	const char *found;
	kprobe_opcode_t *addr;
	bool on_ftrace;
	bool has_site;
	bool by_ftrace;
	bool armed;
	bool kept;
	struct tcplat_probe *next;
	u64 missed_before;
	union {
		struct kprobe kp;
		struct kretprobe rp;
	};
};

/**
 * struct tcplat_call - a call that a return probe follows
 * @sk: the socket, which the caller holds until after the call
 * @since: when the call began, in ns
 */
struct tcplat_call {
	struct sock *sk;
	u64 since;
};

/* ---- groups ---- */

/**
 * struct tcplat_group - counters that answer one question, with their probes
 * @name: name of the directory in sysfs
 * @probes: the probes, in the reverse of the order in which they are armed
 * @nr_probes: number of @probes
 * @nr_counters: number of counters on each CPU
 * @files: files in sysfs besides enabled, status and missed
 * @nr_files: number of @files
 * @debug: name of a file in debugfs; NULL if there is none
 * @debug_show: prints that file
 * @alloc: called before the probes are armed, to allocate memory; NULL if nothing to do
 * @start: called after the probes were armed; NULL if nothing to do
 * @pause: called before the probes are disarmed; NULL if nothing to do
 * @stop: called after the probes were disarmed, or if @alloc or arming has failed, to free what
 *	@alloc has allocated; NULL if nothing to do
 *
 * The remaining members belong to the core.
 * @counters: for each CPU @nr_counters u64, then their values at the last reset
 * @epoch: generation of the maxima; maxima of earlier generations read 0
 * @missing_symbol: symbol that this kernel lacks; non-NULL means the group is unavailable
 * @armed: the probes are armed
 * @on: for hot.h: a @hot probe is armed, and ftrace watches it
 * @kobj: the directory in sysfs
 */
struct tcplat_group {
	const char *name;
	struct tcplat_probe *probes;
	unsigned int nr_probes;
	unsigned int nr_counters;
	const struct tcplat_file *files;
	unsigned int nr_files;
	const char *debug;
	void (*debug_show)(struct seq_file *seq);
	int (*alloc)(struct tcplat_group *group);
	void (*start)(struct tcplat_group *group);
	void (*pause)(struct tcplat_group *group);
	void (*stop)(struct tcplat_group *group);

	u64 __percpu *counters;
	u16 epoch;
	const char *missing_symbol;
	bool armed;
	struct static_key_false on;
	struct kobject kobj;
};

/* The members of struct tcplat_group that every group has. */
#define TCPLAT_TABLES(_name)						\
	.name = #_name,							\
	.probes = _name##_probes,					\
	.nr_probes = ARRAY_SIZE(_name##_probes),			\
	.nr_counters = NR_COUNTERS,					\
	.files = _name##_files,						\
	.nr_files = ARRAY_SIZE(_name##_files),				\
	.on = STATIC_KEY_FALSE_INIT

extern struct tcplat_group * const tcplat_groups[];
extern const unsigned int tcplat_nr_groups;

/*
 * Serialises arming, disarming and reset. Files that sum counters do not take it; those that walk
 * a table do.
 */
extern struct mutex tcplat_control;

#define tcplat_for_each_group(group, i)					\
	for ((i) = 0; (i) < tcplat_nr_groups &&				\
	     ((group) = tcplat_groups[i], true); (i)++)

#define tcplat_for_each_probe(group, probe)				\
	for ((probe) = (group)->probes; (probe) < (group)->probes + (group)->nr_probes; (probe)++)

#include "groups.h"

/* main.c */
int tcplat_group_enable(struct tcplat_group *group);
void tcplat_group_disable(struct tcplat_group *group);
bool tcplat_group_counts(const struct tcplat_group *group);
void tcplat_reset(void);

/* probe.c */
int tcplat_probes_init(void);
void tcplat_probes_exit(void);
void tcplat_probes_prepare(struct tcplat_group * const *groups, unsigned int n);
int tcplat_probes_arm(struct tcplat_group *group, const char **symbol);
void tcplat_probes_disarm(struct tcplat_group * const *groups, unsigned int n);
u64 tcplat_probe_missed(const struct tcplat_probe *probe);
void tcplat_probe_missed_reset(struct tcplat_probe *probe);
const char *tcplat_probe_kind(const struct tcplat_probe *probe);
bool tcplat_probe_is_live(const struct tcplat_probe *probe);

/* For the rest of the probe engine; without TCPLAT_FTRACE, the compiler removes the calls. */
void tcplat_ftrace_init(void);
void tcplat_ftrace_exit(void);
void tcplat_ftrace_arm(struct tcplat_group * const *groups, unsigned int n);
void tcplat_ftrace_disarm(struct tcplat_group * const *groups, unsigned int n);
void tcplat_ftrace_update_calls(void);
bool tcplat_ftrace_is_stuck(void);

/* symbols.c */
int tcplat_symbols_find(struct kprobe **kps);
const void *tcplat_data_symbol(const char *name);

/* counters.c */
int tcplat_counters_alloc(struct tcplat_group *group);
void tcplat_counters_reset(struct tcplat_group *group);
u64 tcplat_sum(const struct tcplat_group *group, unsigned int index);
u64 tcplat_max(const struct tcplat_group *group, unsigned int index);
u64 tcplat_jiffies_sum_us(const struct tcplat_group *group, unsigned int index);
unsigned int tcplat_bucket(const u64 *le, unsigned int buckets, u64 value);
unsigned int tcplat_bucket_pow2(unsigned int first, unsigned int buckets, u64 value);

/*
 * Handlers count with these, in any context and without a lock. this_cpu operations are safe
 * against interrupts, and only its own CPU adds to a counter.
 */
static __always_inline void tcplat_add(const struct tcplat_group *group,
				       unsigned int index, u64 value)
{
	this_cpu_add(group->counters[index], value);
}

static __always_inline void tcplat_inc(const struct tcplat_group *group,
				       unsigned int index)
{
	this_cpu_inc(group->counters[index]);
}

/* The same for an event that the kernel counts soon afterwards, for mib.c to compare. */
static __always_inline void tcplat_inc_before_mib(const struct tcplat_group *group,
						  unsigned int index)
{
	tcplat_inc(group, index);
	/* Pairs with smp_rmb() in sample(). */
	smp_wmb();
}

/* The upper bits of a maximum hold its epoch, so reset need not write to other CPUs' maxima. */
#define TCPLAT_MAX_BITS	48
#define TCPLAT_MAX_MASK	((1ULL << TCPLAT_MAX_BITS) - 1)

void tcplat_note_max(const struct tcplat_group *group, unsigned int index, u64 value);

/* Bounds of histograms of times: powers of two in ns, from about 1 us to about 1 s. */
#define TCPLAT_TIME_FIRST	10
#define TCPLAT_TIME_LAST	30
#define TCPLAT_TIME_BUCKETS	(TCPLAT_TIME_LAST - TCPLAT_TIME_FIRST + 2)

extern const u64 tcplat_time_le_ns[TCPLAT_TIME_BUCKETS - 1];

/* Counters of a time, relative to the group's index TIME, which is the sum. */
#define TCPLAT_TIME_MAX		1
#define TCPLAT_TIME_HIST	2
#define TCPLAT_TIME_COUNTERS	(TCPLAT_TIME_HIST + TCPLAT_TIME_BUCKETS)

/* Number of counters of events that take time: their count, then those of the time. */
#define TCPLAT_TIMED_COUNTERS	(1 + TCPLAT_TIME_COUNTERS)

static __always_inline unsigned int tcplat_time_bucket(u64 ns)
{
	return tcplat_bucket_pow2(TCPLAT_TIME_FIRST, TCPLAT_TIME_BUCKETS, ns);
}

static __always_inline void tcplat_add_time(const struct tcplat_group *group,
					    unsigned int time, u64 ns)
{
	tcplat_add(group, time, ns);
	tcplat_note_max(group, time + TCPLAT_TIME_MAX, ns);
	tcplat_inc(group, time + TCPLAT_TIME_HIST + tcplat_time_bucket(ns));
}

/* Counts an event that took @ns; @count: index of the first of its TCPLAT_TIMED_COUNTERS. */
static __always_inline void tcplat_count_timed(const struct tcplat_group *group,
					       unsigned int count, u64 ns)
{
	tcplat_inc(group, count);
	tcplat_add_time(group, count + 1, ns);
}

/*
 * Nanoseconds since @since, which was read from ktime_get_mono_fast_ns(). This clock takes no
 * lock, so it can be read in any context, and it is the same on all CPUs, so a call can sleep
 * and wake up on another CPU. It may step back a little when the clock's rate is adjusted.
 */
static __always_inline u64 tcplat_ns_since(u64 since)
{
	u64 now = ktime_get_mono_fast_ns();

	return now > since ? now - since : 0;
}

/* The same clock in us, which is that of tcp_mstamp. */
static __always_inline u64 tcplat_now_us(void)
{
	return div_u64(ktime_get_mono_fast_ns(), NSEC_PER_USEC);
}

/* mib.c */
extern struct pernet_operations tcplat_mib_net_ops;
void tcplat_mib_update(const struct tcplat_group *group, enum tcplat_mib_action action);
s64 tcplat_mib_read(const struct tcplat_group *group, const struct tcplat_file *file);

/* sysfs.c */
ssize_t tcplat_file_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
int tcplat_sysfs_create(void);
void tcplat_sysfs_remove(void);

/* clock.c */
extern struct tcplat_group tcplat_clock;

/* debugfs.c */
void tcplat_debugfs_create(void);
void tcplat_debugfs_remove(void);

#endif /* _TCPLAT_H */
