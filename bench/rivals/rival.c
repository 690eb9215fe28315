// SPDX-License-Identifier: GPL-2.0
/*
 * Loads rival.bpf.o and shows its counts, under the names of tcplat's files.
 */
#include <stdbool.h>
#include <time.h>

#include "../../bats/oracle/loader.h"
#include "rival.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

typedef unsigned long long u64;

/* The bounds of tcplat's delay_hist_le_us. */
static const u64 delay_le_us[] = {
	1000, 2000, 4000, 8000, 10000, 20000, 30000, 40000, 50000, 60000,
	80000, 100000, 120000, 160000, 200000,
};

static u64 hz;

/* The value of an enumerator of one of the running kernel's unnamed enums. */
static __u32 enumerator(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();

	if (!btf)
		die("this kernel does not tell of its types", errno);
	for (__u32 id = 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);
		const struct btf_enum *e;

		if (!btf_is_enum(t))
			continue;
		e = btf_enum(t);
		for (int i = 0; i < btf_vlen(t); i++)
			if (!strcmp(btf__name_by_offset(btf, e[i].name_off), name)) {
				__u32 value = e[i].val;

				btf__free(btf);
				return value;
			}
	}
	die(name, ENOENT);
}

/* Sets the programs' variables, in their order. */
static void set_variables(void)
{
	__u32 loader[] = { enumerator("LINUX_MIB_DELAYEDACKLOCKED"), hz };
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.loader");

	if (!map || bpf_map__set_initial_value(map, loader, sizeof(loader)))
		die(".rodata.loader", ENOENT);
}

static bool is_max(size_t offset)
{
	size_t timed = offset - offsetof(struct counts, timed);

	return offset == offsetof(struct counts, delack.delay_max) ||
	       offset == offsetof(struct counts, portsearch.iterations_max) ||
	       (timed < sizeof(struct times[TIMED]) &&
		timed % sizeof(struct times) == offsetof(struct times, max));
}

/* Sums the counts of all CPUs; for maxima, takes the maximum. */
static void get_sum(struct counts *sum)
{
	int cpus = libbpf_num_possible_cpus();
	struct counts *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;

	if (!each)
		die("counts", ENOMEM);
	get(each);
	memset(sum, 0, sizeof(*sum));
	for (int cpu = 0; cpu < cpus; cpu++) {
		const __u64 *from = (const __u64 *)&each[cpu];
		__u64 *to = (__u64 *)sum;

		for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			if (!is_max(i * sizeof(*to)))
				to[i] += from[i];
			else if (to[i] < from[i])
				to[i] = from[i];
	}
	free(each);
}

static void value(const char *name, u64 n)
{
	printf("%s %llu\n", name, n);
}

static void values(const char *name, const __u64 *n, size_t many)
{
	printf("%s", name);
	for (size_t i = 0; i < many; i++)
		printf(" %llu", (u64)n[i]);
	putchar('\n');
}

static u64 us(u64 jiffies)
{
	return jiffies / hz * 1000000 + jiffies % hz * 1000000 / hz;
}

static void show_delack(const struct counts *c)
{
	__u64 hist[ARRAY_SIZE(delay_le_us) + 1] = { 0 };

	for (int j = 0; j < DELAY_BUCKETS; j++) {
		size_t b = 0;

		while (b < ARRAY_SIZE(delay_le_us) && us(j) > delay_le_us[b])
			b++;
		hist[b] += c->delack.hist[j];
	}
	value("delack/timeouts", c->delack.timeouts);
	value("delack/timeouts_pingpong", c->delack.timeouts_pingpong);
	value("delack/timeouts_unread", c->delack.timeouts_unread);
	value("delack/deferred", c->delack.deferred);
	value("delack/delay_jiffies", c->delack.delay);
	value("delack/delay_us", us(c->delack.delay));
	value("delack/delay_max_jiffies", c->delack.delay_max);
	value("delack/stalls", c->delack.stalls);
	value("delack/stall_us", us(c->delack.stall));
	values("delack/delay_hist", hist, ARRAY_SIZE(hist));
}

/* Number of changes from @from to @to by @cause; MODES and CAUSES mean any. */
static void changes(const char *name, const struct counts *c, int from, int to, int cause)
{
	u64 sum = 0;

	for (int f = 0; f < MODES; f++)
		for (int t = 0; t < MODES; t++)
			for (int a = 0; a < CAUSES; a++)
				if ((from == f || from == MODES) && (to == t || to == MODES) &&
				    (cause == a || cause == CAUSES))
					sum += c->ackmode.changes[f][t][a];
	value(name, sum);
}

static void show_ackmode(const struct counts *c)
{
	changes("ackmode/quickack_enters", c, MODES, QUICKACK, CAUSES);
	changes("ackmode/quickack_exits", c, QUICKACK, MODES, CAUSES);
	changes("ackmode/pingpong_enters", c, MODES, PINGPONG, CAUSES);
	changes("ackmode/pingpong_exits", c, PINGPONG, MODES, CAUSES);
	changes("ackmode/route_enters", c, MODES, ROUTE, CAUSES);
	changes("ackmode/route_exits", c, ROUTE, MODES, CAUSES);
	value("ackmode/setsockopt", c->ackmode.setsockopt);
	value("ackmode/errors", c->ackmode.errors);
}

/* Names of tcplat's files: of the count, and what those of the times begin with. */
static const char *const names[TIMED][2] = {
	[PORTSEARCH] = { "portsearch/searches", "portsearch/" },
	[SNDWAIT] = { "sndwait/waits", "sndwait/" },
	[NAGLE] = { "sndhold/nagle", "sndhold/nagle_" },
	[CORK] = { "sndhold/cork", "sndhold/cork_" },
	[ACCEPT] = { "listen/accept", "listen/accept_" },
	[WINDOW] = { "peerwnd/wait", "peerwnd/wait_" },
	[OWN] = { "answer/own", "answer/own_" },
	[PEER] = { "answer/peer", "answer/peer_" },
};

static void show_times(enum timed which, const struct times *times)
{
	const char *prefix = names[which][1];
	char name[64];

	value(names[which][0], times->n);
	snprintf(name, sizeof(name), "%stime_ns", prefix);
	value(name, times->sum);
	snprintf(name, sizeof(name), "%stime_max_ns", prefix);
	value(name, times->max);
	snprintf(name, sizeof(name), "%s%s", prefix,
		 prefix[strlen(prefix) - 1] == '/' ? "time_hist" : "hist");
	values(name, times->hist, TIME_BUCKETS);
}

static void show(void)
{
	struct counts c;

	get_sum(&c);
	show_delack(&c);
	show_ackmode(&c);
	for (int which = 0; which < TIMED; which++)
		show_times(which, &c.timed[which]);
	value("portsearch/iterations", c.portsearch.iterations);
	value("portsearch/iterations_max", c.portsearch.iterations_max);
	value("portsearch/exhausted", c.portsearch.exhausted);
	value("portsearch/unverified", c.portsearch.unverified);
	values("portsearch/iterations_hist", c.portsearch.hist, PORT_BUCKETS);
	value("sndwait/timeouts", c.sndwait.timeouts);
	value("sndhold/peer_delays", c.sndhold.peer_delays);
	value("sndhold/peer_delay_ns", c.sndhold.peer_delay);
	value("sndhold/cork_timeouts", c.sndhold.cork_timeouts);
	value("sndhold/autocork", c.sndhold.autocork);
	value("listen/overflows", c.listen.overflows);
	value("peerwnd/probes", c.peerwnd.probes);
}

int main(int argc, char **argv)
{
	struct timespec tick;

	open_programs(argc, argv);
	/* The coarse clock's resolution is a jiffy. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) || tick.tv_nsec <= 0)
		die("CLOCK_MONOTONIC_COARSE", errno);
	hz = (1000000000 + tick.tv_nsec / 2) / tick.tv_nsec;
	set_variables();
	load("counts", 0);
	return answer(show);
}
