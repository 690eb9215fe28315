/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups of counters, and the interfaces that all groups share.
 */
#ifndef _TCPLAT_H
#define _TCPLAT_H

#include <linux/ftrace.h>
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sysfs.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

#include "compat.h"

#define TCPLAT_ABI	1

struct tcplat_group;

/* ---- histograms: consecutive counters and a table of upper bounds ---- */

/**
 * struct tcplat_hist - a histogram within a group's counters
 * @name: file name of the counts; the bounds are in @name plus "_le" plus @unit
 * @unit: "", "_us" or "_ns"
 * @le: upper bounds, inclusive, ascending; one fewer than @buckets
 * @buckets: number of buckets; the bound of the last one is +Inf
 * @first: index of the first bucket among the group's counters
 */
struct tcplat_hist {
	const char *name;
	const char *unit;
	const u64 *le;
	unsigned int buckets;
	unsigned int first;
};

/* ---- files in a group's directory in sysfs ---- */

/**
 * struct tcplat_file - one read-only file of a group
 * @name: file name
 * @show: prints the file
 * @index: index of the counter, for files that show a counter
 * @hist: the histogram, for files that show one
 * @value: returns the value, for files that do not show one of the group's counters
 * @refresh: updates a counter that is a copy of one of the kernel's; process context, may
 *	sleep; NULL if handlers update the counter
 * @available: whether this kernel has what the file needs besides the group's probes; if not,
 *	the file is not created; NULL if it needs nothing else
 */
struct tcplat_file {
	const char *name;
	ssize_t (*show)(const struct tcplat_group *group,
			const struct tcplat_file *file, char *buf);
	unsigned int index;
	const struct tcplat_hist *hist;
	u64 (*value)(const struct tcplat_group *group);
	void (*refresh)(void);
	bool (*available)(void);
};

static inline bool tcplat_file_is_available(const struct tcplat_file *file)
{
	return !file->available || file->available();
}

static inline void tcplat_file_refresh(const struct tcplat_file *file)
{
	if (file->refresh)
		file->refresh();
}

/**
 * struct tcplat_debug - one file in debugfs that belongs to a group
 * @name: file name
 * @fops: file operations, from DEFINE_SHOW_ATTRIBUTE()
 */
struct tcplat_debug {
	const char *name;
	const struct file_operations *fops;
};

#define TCPLAT_SUM(_name, _index) \
	{ .name = _name, .show = tcplat_show_sum, .index = _index }
#define TCPLAT_SUM_REFRESHED(_name, _index, _refresh) \
	{ .name = _name, .show = tcplat_show_sum, .index = _index, .refresh = _refresh }
#define TCPLAT_MAX(_name, _index) \
	{ .name = _name, .show = tcplat_show_max, .index = _index }
#define TCPLAT_JIFFIES_US(_name, _index) \
	{ .name = _name, .show = tcplat_show_jiffies_us, .index = _index }
#define TCPLAT_SUM_IF(_name, _index, _available) \
	{ .name = _name, .show = tcplat_show_sum, .index = _index, .available = _available }
#define TCPLAT_JIFFIES_US_IF(_name, _index, _available) \
	{ .name = _name, .show = tcplat_show_jiffies_us, .index = _index, .available = _available }
#define TCPLAT_VALUE(_name, _value) \
	{ .name = _name, .show = tcplat_show_value, .value = _value }
#define TCPLAT_HIST(_name, _hist) \
	{ .name = _name, .show = tcplat_show_hist, .hist = _hist }
#define TCPLAT_HIST_LE(_name, _hist) \
	{ .name = _name, .show = tcplat_show_hist_le, .hist = _hist }
#define TCPLAT_MAX_IF(_name, _index, _available) \
	{ .name = _name, .show = tcplat_show_max, .index = _index, .available = _available }
#define TCPLAT_HIST_IF(_name, _hist, _available) \
	{ .name = _name, .show = tcplat_show_hist, .hist = _hist, .available = _available }
#define TCPLAT_HIST_LE_IF(_name, _hist, _available) \
	{ .name = _name, .show = tcplat_show_hist_le, .hist = _hist, .available = _available }

/* ---- probes ---- */

#define TCPLAT_NO_HITS	UINT_MAX

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
 * @joint: does the work of @entry and of the @entry of the only other probe of the same
 *	function while both are armed; NULL if the two can be called in turn
 * @entry5: like @entry, called with the first five arguments; a probe has only one of the two
 * @entry_ret: handler at entry of a return probe; if it returns non-zero, @ret is not called
 * @ret: handler at return; set only for return probes
 * @data_size: bytes that @entry_ret passes to @ret
 * @maxactive: maximum number of calls in flight that a return probe can follow; 0 is the
 *	kernel's default, enough for functions that do not sleep
 * @optional: the group is available without this probe
 * @hits: index of the counter of hits, or TCPLAT_NO_HITS if counting them costs too much
 *
 * The remaining members belong to the probe engine (probe.h).
 * @found: @symbol or @fallback, whichever this kernel has; NULL if neither
 * @addr: entry of the function, as adjusted by kprobes
 * @on_ftrace: @addr is an ftrace site
 * @armed: registered, and calling its handlers
 * @kept: still registered because the kernel failed to disable it, but calls no handler
 * @has_site: ftrace can watch the function
 * @next: the probe of another group at the same site
 * @by_ftrace: watched by ftrace, not by a kprobe
 * @missed_before: hits missed during earlier registrations
 * @missed_base: total of missed hits at the last reset
 * @kp: the kprobe
 * @rp: the kretprobe
 */
struct tcplat_probe {
	const char *symbol;
	const char *fallback;
	void (*entry)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	void (*joint)(struct sock *sk, unsigned long arg1, unsigned long arg2);
	void (*entry5)(struct sock *sk, unsigned long arg1, unsigned long arg2,
		       unsigned long arg3, unsigned long arg4);
	kretprobe_handler_t entry_ret;
	kretprobe_handler_t ret;
	size_t data_size;
	int maxactive;
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
	u64 missed_base;
	union {
		struct kprobe kp;
		struct kretprobe rp;
	};
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
 * @hists: histograms
 * @nr_hists: number of @hists
 * @debug: files in debugfs
 * @nr_debug: number of @debug
 * @init: called at load, to allocate memory; NULL if nothing to do
 * @exit: called at unload, with the probes disarmed, to free it; NULL if nothing to do
 * @start: called after the probes were armed; NULL if nothing to do
 * @pause: called before the probes are disarmed; NULL if nothing to do
 * @stop: called after the probes were disarmed; NULL if nothing to do
 *
 * The remaining members belong to the core.
 * @counters: for each CPU @nr_counters u64, then their values at the last reset
 * @epoch: generation of the maxima; maxima of earlier generations read 0
 * @missing_symbol: symbol that this kernel lacks; non-NULL means the group is unavailable
 * @armed: the probes are armed
 */
struct tcplat_group {
	const char *name;
	struct tcplat_probe *probes;
	unsigned int nr_probes;
	unsigned int nr_counters;
	const struct tcplat_file *files;
	unsigned int nr_files;
	const struct tcplat_hist * const *hists;
	unsigned int nr_hists;
	const struct tcplat_debug *debug;
	unsigned int nr_debug;
	int (*init)(struct tcplat_group *group);
	void (*exit)(struct tcplat_group *group);
	void (*start)(struct tcplat_group *group);
	void (*pause)(struct tcplat_group *group);
	void (*stop)(struct tcplat_group *group);

	u64 __percpu *counters;
	u16 epoch;
	const char *missing_symbol;
	bool armed;
};

extern struct tcplat_group * const tcplat_groups[];
extern const unsigned int tcplat_nr_groups;

/* Serialises arming, disarming and reset; readers of counters do not take it. */
extern struct mutex tcplat_control;

#define tcplat_for_each_group(group, i)					\
	for ((i) = 0; (i) < tcplat_nr_groups &&				\
	     ((group) = tcplat_groups[i], true); (i)++)

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

/* symbols.c */
const void *tcplat_data_symbol(const char *name);

/* Argument @n of the probed function, counted from 0. In a return probe, valid at entry only. */
static __always_inline void *tcplat_arg(struct pt_regs *regs, unsigned int n)
{
	return (void *)regs_get_kernel_argument(regs, n);
}

/* counters.c */
int tcplat_counters_alloc(struct tcplat_group *group);
void tcplat_counters_free(struct tcplat_group *group);
void tcplat_counters_reset(struct tcplat_group *group);
u64 tcplat_sum(const struct tcplat_group *group, unsigned int index);
u64 tcplat_max(const struct tcplat_group *group, unsigned int index);
u64 tcplat_counter_cpu(const struct tcplat_group *group, unsigned int index, int cpu);
u64 tcplat_missed(const struct tcplat_group *group);
unsigned int tcplat_bucket(const u64 *le, unsigned int buckets, u64 value);
unsigned int tcplat_bucket_pow2(unsigned int first, unsigned int buckets, u64 value);
int tcplat_parse_bool(const char *buf, size_t count, bool *value);
ssize_t tcplat_show_sum(const struct tcplat_group *group,
			const struct tcplat_file *file, char *buf);
ssize_t tcplat_show_max(const struct tcplat_group *group,
			const struct tcplat_file *file, char *buf);
ssize_t tcplat_show_jiffies_us(const struct tcplat_group *group,
			       const struct tcplat_file *file, char *buf);
ssize_t tcplat_show_value(const struct tcplat_group *group,
			  const struct tcplat_file *file, char *buf);
ssize_t tcplat_show_hist(const struct tcplat_group *group,
			 const struct tcplat_file *file, char *buf);
ssize_t tcplat_show_hist_le(const struct tcplat_group *group,
			    const struct tcplat_file *file, char *buf);

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

/* Initializes the struct tcplat_hist of such a time; @_time: index of its sum. */
#define TCPLAT_TIMES_NAMED(_name, _time) \
	{ .name = _name, .unit = "_ns", .le = tcplat_time_le_ns, \
	  .buckets = TCPLAT_TIME_BUCKETS, .first = (_time) + TCPLAT_TIME_HIST }
#define TCPLAT_TIMES(_time)	TCPLAT_TIMES_NAMED("time_hist", _time)

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

/* sysfs.c */
int tcplat_sysfs_create(void);
void tcplat_sysfs_remove(void);

/* clock.c */
extern const struct attribute_group tcplat_clock_attrs;

/* debugfs.c */
void tcplat_debugfs_create(void);
void tcplat_debugfs_remove(void);

#endif /* _TCPLAT_H */
