/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a group of counters is made of, and the machinery that all groups share.
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

/* ---- histograms: counters in a row, with a table of upper bounds ---- */

/**
 * struct tcplat_hist - a histogram within a group's counters
 * @name: file name of the counts; the bounds are in @name plus "_le" plus @unit
 * @unit: "", "_us" or "_ns"
 * @le: upper bounds, inclusive, ascending; one fewer than @buckets
 * @buckets: number of buckets, the last one being +Inf
 * @first: index of the first bucket among the group's counters
 */
struct tcplat_hist {
	const char *name;
	const char *unit;
	const u64 *le;
	unsigned int buckets;
	unsigned int first;
};

/* ---- files: what a group shows in its folder ---- */

/**
 * struct tcplat_file - one read-only file of a group
 * @name: its name
 * @show: prints it
 * @index: a counter's index, for those that show a counter
 * @hist: the histogram, for those that show one
 * @value: the figure, for those that are not in the group's counters
 * @refresh: brings the counter up to date where the group copies a count of the kernel's;
 *	process context, may sleep; NULL for what handlers count
 * @available: whether this kernel has what the figure needs besides the group's own probes; if
 *	not, the file is not made; NULL if the figure needs nothing else
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
 * struct tcplat_debug - one file of a group's own in debugfs
 * @name: its name
 * @fops: reads it, by DEFINE_SHOW_ATTRIBUTE()
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
 * Port searches that can be in flight at the same time without a miss. They sleep between one
 * port and the next, so the number of CPUs is no upper bound. Each takes about 100 bytes. Newer
 * kernels also allocate, for each CPU, the next power of two of pointers: 8 KiB.
 */
#define TCPLAT_SEARCHES_AT_ONCE	1023

/**
 * struct tcplat_probe - one place in the kernel that a group watches
 * @symbol: the function
 * @fallback: another function that will do where @symbol is missing, or NULL
 * @entry: handler at entry, called with the function's first three arguments, the
 *	first of them the socket; preemption may be on
 * @joint: does the work of @entry and of the @entry of the only other probe at the same
 *	function, while both are armed; NULL where calling the two in turn will do
 * @entry5: as @entry, but called with the first five arguments; a probe has only one of them
 * @entry_ret: handler at entry of a return probe; non-zero skips the return
 * @ret: handler at return, which makes this a return probe
 * @data_size: bytes that @entry_ret hands over to @ret
 * @maxactive: calls in flight at once that a return probe can follow; 0 is the
 *	kernel's default, enough for functions that do not sleep
 * @optional: the group is available without it
 * @hits: index of the counter of hits, or TCPLAT_NO_HITS where counting them
 *	would cost more than the probe should
 *
 * The rest belongs to the probe engine (probe.h).
 * @found: @symbol or @fallback, whichever this kernel has; NULL if neither
 * @addr: its entry, as kprobes adjust it
 * @on_ftrace: @addr is an ftrace site
 * @armed: registered, and calling its handlers
 * @kept: registered, but calls no handler: the kernel failed to disable it
 * @has_site: ftrace can watch it
 * @next: the probe of another group at the same site
 * @by_ftrace: watched by ftrace, not by a kprobe
 * @missed_before: hits missed while registered earlier
 * @missed_base: value of the sum that reset made zero
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
 * @name: folder in sysfs
 * @probes: what it watches, the busiest first
 * @nr_probes: how many
 * @nr_counters: how many counters each CPU keeps
 * @files: what it shows in sysfs besides enabled, status and missed
 * @nr_files: how many
 * @hists: its histograms
 * @nr_hists: how many
 * @debug: its own files in debugfs
 * @nr_debug: how many
 * @init: allocates what lasts as long as the module; NULL if nothing
 * @exit: frees it; called with the probes off
 * @start: called when the probes are on; NULL if nothing to do
 * @pause: called before the probes are disarmed; NULL if nothing to do
 * @stop: called when the probes have been disarmed; NULL if nothing to do
 *
 * The rest is the core's.
 * @counters: per CPU @nr_counters u64, and as many that hold what reset made zero
 * @epoch: generation of maxima: those of an earlier one do not count
 * @missing_symbol: symbol that this kernel lacks; non-NULL means the group is unavailable
 * @armed: its probes are on
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

/* Serialises arming, disarming and reset; readers do not take it. */
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

/* The function's @n-th argument, counted from 0; for return probes, at entry only. */
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
 * Counting, for handlers: any context, no lock. this_cpu operations are safe
 * against interrupts, and a counter is only ever written by its own CPU.
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

/* A maximum has its epoch above the value, so that reset need not write to other CPUs' maxima. */
#define TCPLAT_MAX_BITS	48
#define TCPLAT_MAX_MASK	((1ULL << TCPLAT_MAX_BITS) - 1)

void tcplat_note_max(const struct tcplat_group *group, unsigned int index, u64 value);

/* Times in histograms: powers of two, from about 1 us to about 1 s. */
#define TCPLAT_TIME_FIRST	10
#define TCPLAT_TIME_LAST	30
#define TCPLAT_TIME_BUCKETS	(TCPLAT_TIME_LAST - TCPLAT_TIME_FIRST + 2)

extern const u64 tcplat_time_le_ns[TCPLAT_TIME_BUCKETS - 1];

/* The counters of a group that measures times, from its TIME on: the sum is the first. */
#define TCPLAT_TIME_MAX		1
#define TCPLAT_TIME_HIST	2
#define TCPLAT_TIME_COUNTERS	(TCPLAT_TIME_HIST + TCPLAT_TIME_BUCKETS)

/* Their histogram; @_time: TIME */
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
 * Time since @since, of ktime_get_mono_fast_ns(): it takes no lock, so that it may be
 * read in any context, and unlike a CPU's own clock it goes on when a call that slept
 * wakes up elsewhere. In return it may step back by a little when the clock's rate is
 * adjusted.
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
