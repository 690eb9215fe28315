// SPDX-License-Identifier: GPL-2.0
/*
 * Checks module/ports.h against a model: a transcription of the loop in the kernel's
 * __inet_hash_connect() that counts every port it tries.
 *
 * For small ranges the model tries all values that the kernel draws at random. A search's
 * result depends only on the first free port, so "only this port is free" for each port
 * covers every possible state of the ports.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/cdefs.h>

typedef uint32_t u32;

#include "../../module/ports.h"

#define PORTS	65536

static uint64_t checks;

#define CHECK(condition, ...)						\
	do {								\
		checks++;						\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: failed: %s: ",		\
				__func__, __LINE__, #condition);	\
			fprintf(stderr, __VA_ARGS__);			\
			fprintf(stderr, "\n");				\
			exit(1);					\
		}							\
	} while (0)

/* ---- the model ---- */

struct model {
	int low, high;		/* the range, both ends included */
	bool local_ports;	/* the socket has a range of its own */
	int width;		/* ip_local_port_step_width */
	u32 perturb;		/* the slot of table_perturb */
	u32 share;		/* port_offset >> 32 */
	int drawn_stride;	/* what get_random_u32_inclusive() returns */
	int drawn_jitter;	/* what get_random_u32_below(8) returns */
	bool busy[PORTS];	/* not available, for any reason */
	bool reserved[PORTS];
};

struct result {
	int port;		/* 0: -EADDRNOTAVAIL */
	u32 tried;
	int i;			/* the kernel's i in the pass that found the port */
};

static int gcd(int a, int b)
{
	while (b) {
		int rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static int step_of(const struct model *m)
{
	return m->local_ports ? 1 : 2;
}

/* The length of a pass: half of the ports of both parities, if there are two. */
static u32 length_of(const struct model *m)
{
	u32 size = (u32)(m->high - m->low + 1);

	return !m->local_ports && size > 1 ? size & ~1U : size;
}

/* The largest stride that may be drawn; 1 if none is. */
static int stride_bound(const struct model *m)
{
	int range = (int)length_of(m) / step_of(m);

	if (!m->width || length_of(m) < 2)
		return 1;
	return range < m->width ? range : m->width;
}

static struct result search(struct model *m)
{
	int step = step_of(m), scan_step = step;
	int low = m->low, high = m->high + 1;
	u32 remaining = length_of(m), offset;
	struct result r = { 0 };
	int port, i;

	offset = m->perturb + m->share;
	offset %= remaining;
	if (!m->local_ports)
		offset &= ~1U;
	if (m->width && remaining > 1) {
		int range = (int)remaining / step;

		scan_step = m->drawn_stride;
		while (gcd(scan_step, range) != 1) {
			scan_step++;
			if (!(scan_step & 1) && !(range & 1))
				scan_step++;
			if (scan_step > stride_bound(m)) {
				scan_step = 1;
				break;
			}
		}
		scan_step *= step;
	}
other_parity_scan:
	port = low + (int)offset;
	for (i = 0; i < (int)remaining; i += step, port += scan_step) {
		if (port >= high)
			port -= (int)remaining;
		r.tried++;
		if (m->reserved[port] || m->busy[port])
			continue;
		r.port = port;
		r.i = i;
		if (i < m->drawn_jitter * step)
			i = m->drawn_jitter * step;
		m->perturb += (u32)(i + step);
		return r;
	}
	if (!m->local_ports) {
		offset++;
		if ((offset & 1) && remaining > 1)
			goto other_parity_scan;
	}
	return r;
}

/* ---- one search, compared with the module's result ---- */

static struct tcplat_ports seen_ports(const struct model *m)
{
	return (struct tcplat_ports){
		.low = (u32)m->low,
		.high = (u32)m->high,
		.step = (u32)step_of(m),
		.scattered = m->width > 0,
	};
}

/* Checks the bounds that remain if the start is unknown, or one of several. */
static void check_bounds(const struct tcplat_ports *ports, struct result r, u32 offset, u32 growth)
{
	struct tcplat_tried tried = tcplat_ports_by_port(ports, (u32)r.port);
	u32 starts[] = { offset - growth, offset, offset + 6 * ports->step };

	/* A random stride does not make a pass longer. */
	CHECK(tried.min <= r.tried && r.tried <= tried.max,
	      "%u-%u: port %d after %u, not %u to %u", ports->low, ports->high, r.port,
	      r.tried, tried.min, tried.max);
	tried = tcplat_ports_by_growth(ports, growth, (u32)r.port);
	CHECK(tried.min <= r.tried && r.tried <= tried.max && tried.max - tried.min < 8,
	      "%u-%u: port %d after %u, growth %u, not %u to %u", ports->low, ports->high,
	      r.port, r.tried, growth, tried.min, tried.max);
	CHECK(growth <= 8 * ports->step || tried.min == tried.max, "growth %u", growth);
	tried = tcplat_ports_by_starts(ports, starts, 3, growth, (u32)r.port);
	CHECK(tried.min <= r.tried && r.tried <= tried.max,
	      "%u-%u: port %d after %u, from one of three: %u to %u", ports->low,
	      ports->high, r.port, r.tried, tried.min, tried.max);
}

static void check_search(struct model *m)
{
	struct tcplat_ports ports = seen_ports(m);
	u32 before = m->perturb, growth, tried, most;
	struct result r = search(m);
	int step = (int)ports.step;

	growth = m->perturb - before;
	if (!r.port) {
		CHECK(tcplat_ports_all(&ports) == r.tried,
		      "%d-%d: %u tried", m->low, m->high, r.tried);
		CHECK(!growth, "grew by %u", growth);
		return;
	}
	tried = tcplat_ports_tried(&ports, before + m->share, growth, (u32)r.port);

	/* A random stride leaves 1 to 7 steps undetermined, but never gives a wrong number. */
	if (m->width && !tried)
		CHECK(r.i > 0 && r.i < 8 * step && growth != (u32)(2 * step),
		      "%d-%d: port %d after %u, growth %u", m->low, m->high, r.port,
		      r.tried, growth);
	else
		CHECK(tried == r.tried, "%d-%d%s from %u: port %d after %u, not %u",
		      m->low, m->high, m->local_ports ? " own" : "",
		      (before + m->share), r.port, r.tried, tried);

	/* Another search has written to the slot as well, or it grew by half a step. */
	most = r.i >= 8 * step && !m->width ? 39 : ports.step - 1;
	for (u32 more = 1; more <= most; more++) {
		CHECK(!tcplat_ports_tried(&ports, before + m->share, growth + more,
					  (u32)r.port), "growth %u", growth + more);
		CHECK(!tcplat_ports_tried(&ports, before + m->share, growth - more,
					  (u32)r.port), "growth %u", growth - more);
	}
	/* The slot was not written, or the table was filled meanwhile. */
	CHECK(!tcplat_ports_tried(&ports, before + m->share, 0, (u32)r.port), "growth 0");
	CHECK(!tcplat_ports_tried(&ports, before + m->share, growth + 0x12345678,
				  (u32)r.port), "a wild growth");
	/* A port outside of the range: the kernel used another range. */
	CHECK(!tcplat_ports_tried(&ports, before, growth, ports.low - 1), "below");
	CHECK(!tcplat_ports_tried(&ports, before, growth, ports.high + 1), "above");
	check_bounds(&ports, r, before + m->share, growth);
}

/* ---- exhaustive checks of small ranges ---- */

static void every_stride(struct model *m, u32 perturb)
{
	for (m->drawn_stride = 1; m->drawn_stride <= stride_bound(m); m->drawn_stride++) {
		for (m->drawn_jitter = 0; m->drawn_jitter < 8; m->drawn_jitter++) {
			m->perturb = perturb;
			check_search(m);
		}
	}
}

static void every_start_and_port(struct model *m, int low, int size)
{
	m->low = low;
	m->high = low + size - 1;
	for (int only = m->low; only <= m->high + 1; only++) {
		for (int port = m->low; port <= m->high; port++)
			m->busy[port] = port != only;
		for (u32 perturb = 0; perturb < (u32)size; perturb++)
			every_stride(m, perturb);
	}
	memset(m->busy, 0, sizeof(m->busy));
}

static void small_ranges(struct model *m)
{
	static const int lows[] = { 1, 2, 1023, 1024, 32768, 32769 };

	m->share = 0xfffffff0;
	for (int size = 1; size <= 40; size++) {
		for (int kind = 0; kind < 2; kind++) {
			m->local_ports = kind;
			for (size_t n = 0; n < sizeof(lows) / sizeof(lows[0]); n++)
				every_start_and_port(m, lows[n], size);
			/* At the upper end of all ports. */
			every_start_and_port(m, PORTS - size, size);
		}
	}
}

static void small_ranges_with_strides(struct model *m)
{
	static const int widths[] = { 1, 2, 7, 1000 };

	for (int size = 1; size <= 25; size++) {
		for (int kind = 0; kind < 4; kind++) {
			m->local_ports = kind & 1;
			for (size_t n = 0; n < sizeof(widths) / sizeof(widths[0]); n++) {
				m->width = widths[n];
				every_start_and_port(m, 1000 + (kind >> 1), size);
			}
		}
	}
}

/* ---- large ranges, filled by the searches themselves ---- */

static u32 next(void)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (u32)(state >> 16);
}

static void fill_until_exhausted(struct model *m)
{
	static struct model copy;
	u32 remaining = length_of(m);
	struct result r;

	do {
		m->drawn_jitter = (int)(next() % 8);
		m->drawn_stride = (int)(next() % (u32)stride_bound(m)) + 1;
		copy = *m;
		check_search(&copy);
		r = search(m);
		m->busy[r.port] = true;
		/* Sometimes a port is closed, or bound, by others. */
		if (next() % 4 == 0)
			m->busy[m->low + (int)(next() % remaining)] = false;
		if (next() % 3 == 0)
			m->busy[m->low + (int)(next() % remaining)] = true;
	} while (r.port);
}

static void large_ranges(struct model *m)
{
	static const struct { int low, high; } ranges[] = {
		{ 32768, 60999 }, { 1024, 65535 }, { 1, 65535 }, { 40000, 40999 },
		{ 40000, 40998 }, { 40001, 41000 }, { 40001, 40999 }, { 64535, 65535 },
	};

	for (size_t n = 0; n < sizeof(ranges) / sizeof(ranges[0]); n++) {
		for (int kind = 0; kind < 8; kind++) {
			int size = ranges[n].high - ranges[n].low + 1;

			memset(m, 0, sizeof(*m));
			m->low = ranges[n].low;
			m->high = ranges[n].high;
			m->local_ports = kind & 1;
			m->width = kind & 2 ? 300 : 0;
			m->perturb = 0xffffff00;
			m->share = next();
			for (int i = 0; i < size; i++) {
				m->busy[m->low + i] = next() % 100 < 95;
				m->reserved[m->low + i] = (kind & 4) && next() % 10 == 0;
			}
			fill_until_exhausted(m);
		}
	}
}

/* ---- the range of a socket ---- */

/* inet_sk_get_local_port_range() of Linux 6.12, with values as arguments. */
static void kernels_own_range(int *low, int *high, u32 sk_range)
{
	int lo = *low, hi = *high;

	if (sk_range) {
		int sk_lo = sk_range & 0xffff, sk_hi = (int)(sk_range >> 16);

		if (lo <= sk_lo && sk_lo <= hi)
			lo = sk_lo;
		if (lo <= sk_hi && sk_hi <= hi)
			hi = sk_hi;
	}
	*low = lo;
	*high = hi;
}

static void ranges_of_sockets(void)
{
	for (u32 low = 0; low < 14; low++) {
		for (u32 high = 0; high < 14; high++) {
			for (int lo = 1; lo < 12; lo++) {
				for (int hi = lo; hi < 12; hi++) {
					struct tcplat_ports ports = {
						.low = (u32)lo, .high = (u32)hi,
					};
					int l = lo, h = hi;

					kernels_own_range(&l, &h, high << 16 | low);
					tcplat_ports_narrow(&ports, low, high);
					CHECK(ports.low == (u32)l && ports.high == (u32)h,
					      "%u-%u in %d-%d", low, high, lo, hi);
				}
			}
		}
	}
}

/* The two ends of a range, read while they change, may be the wrong way round. */
static void torn_ranges(void)
{
	for (u32 step = 1; step <= 2; step++) {
		struct tcplat_ports ports = { .low = 50000, .high = 40000, .step = step };

		CHECK(!tcplat_ports_all(&ports), "torn");
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 45000), "torn");
		ports.high = 49999;
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 49999), "torn");
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 50000), "torn");
	}
}

static void same_ranges(void)
{
	/* The first and the second differ in nothing, and each other one in one member. */
	static const struct tcplat_ports all[] = {
		{ 1, 2, 2, false }, { 1, 2, 2, false }, { 2, 2, 2, false }, { 1, 3, 2, false },
		{ 1, 2, 1, false }, { 1, 2, 2, true },
	};

	for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++)
		CHECK(tcplat_ports_same(&all[0], &all[n]) == (n < 2), "number %zu", n);
}

int main(int argc, char **argv)
{
	static struct model m;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "small"))
		small_ranges(&m);
	else if (!strcmp(argv[1], "strides"))
		small_ranges_with_strides(&m);
	else if (!strcmp(argv[1], "large"))
		large_ranges(&m);
	else if (!strcmp(argv[1], "ranges"))
		ranges_of_sockets(), torn_ranges(), same_ranges();
	else
		return 2;
	printf("%" PRIu64 " checks\n", checks);
	return 0;
}
