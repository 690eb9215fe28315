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

#define PORTS		65536
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

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

static uint64_t checks;
static struct tcplat_ports seen;
static struct result result;
static u32 growth;

#define CHECK(condition)						\
	do {								\
		checks++;						\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: not %s; %u-%u: port %d after %u, growth %u\n", \
				__func__, __LINE__, #condition, seen.low, seen.high, \
				result.port, result.tried, growth);	\
			exit(1);					\
		}							\
	} while (0)

/* Checks the bounds that remain if the start is unknown, or one of several. */
static void check_bounds(u32 offset)
{
	u32 starts[] = { offset - growth, offset, offset + 6 * seen.step };
	u32 port = (u32)result.port;
	struct tcplat_tried tried = tcplat_ports_by_port(&seen, port);

	/* A random stride does not make a pass longer. */
	CHECK(tried.min <= result.tried && result.tried <= tried.max);
	tried = tcplat_ports_by_growth(&seen, growth, port);
	CHECK(tried.min <= result.tried && result.tried <= tried.max);
	CHECK(tried.max - tried.min < 8);
	CHECK(growth <= 8 * seen.step || tried.min == tried.max);
	tried = tcplat_ports_by_starts(&seen, starts, 3, growth, port);
	CHECK(tried.min <= result.tried && result.tried <= tried.max);
}

static void check_search(struct model *m)
{
	u32 before = m->perturb, offset = before + m->share, step = (u32)step_of(m);
	u32 port, tried, most;

	seen = (struct tcplat_ports){
		.low = (u32)m->low, .high = (u32)m->high, .step = step, .scattered = m->width > 0,
	};
	result = search(m);
	growth = m->perturb - before;
	if (!result.port) {
		CHECK(tcplat_ports_all(&seen) == result.tried);
		CHECK(!growth);
		return;
	}
	port = (u32)result.port;
	tried = tcplat_ports_tried(&seen, offset, growth, port);

	/* A random stride leaves 1 to 7 steps undetermined, but never gives a wrong number. */
	if (m->width && !tried)
		CHECK(result.i > 0 && result.i < 8 * (int)step && growth != 2 * step);
	else
		CHECK(tried == result.tried);

	/* Another search has written to the slot as well, or it grew by half a step. */
	most = result.i >= 8 * (int)step && !m->width ? 39 : step - 1;
	for (u32 more = 1; more <= most; more++) {
		CHECK(!tcplat_ports_tried(&seen, offset, growth + more, port));
		CHECK(!tcplat_ports_tried(&seen, offset, growth - more, port));
	}
	/* The slot was not written, or the table was filled meanwhile. */
	CHECK(!tcplat_ports_tried(&seen, offset, 0, port));
	CHECK(!tcplat_ports_tried(&seen, offset, growth + 0x12345678, port));
	/* A port outside of the range: the kernel used another range. */
	CHECK(!tcplat_ports_tried(&seen, before, growth, seen.low - 1));
	CHECK(!tcplat_ports_tried(&seen, before, growth, seen.high + 1));
	check_bounds(offset);
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
			for (size_t n = 0; n < ARRAY_SIZE(lows); n++)
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
			for (size_t n = 0; n < ARRAY_SIZE(widths); n++) {
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

	for (size_t n = 0; n < ARRAY_SIZE(ranges); n++) {
		for (int kind = 0; kind < 8; kind++) {
			int size = ranges[n].high - ranges[n].low + 1;

			*m = (struct model){
				.low = ranges[n].low, .high = ranges[n].high,
				.local_ports = kind & 1, .width = kind & 2 ? 300 : 0,
				.perturb = 0xffffff00, .share = next(),
			};
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
static void kernels_own_range(u32 *low, u32 *high, u32 sk_range)
{
	u32 lo = *low, hi = *high;

	if (sk_range) {
		u32 sk_lo = sk_range & 0xffff, sk_hi = sk_range >> 16;

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
	/* Each of the four ends has 14 values. */
	for (u32 n = 0; n < 14 * 14 * 14 * 14; n++) {
		u32 low = n % 14, high = n / 14 % 14, lo = n / 196 % 14, hi = n / 2744;
		struct tcplat_ports ports = { .low = lo, .high = hi };

		if (lo < 1 || lo > hi)
			continue;
		kernels_own_range(&lo, &hi, high << 16 | low);
		tcplat_ports_narrow(&ports, low, high);
		CHECK(ports.low == lo && ports.high == hi);
	}
}

/* The two ends of a range, read while they change, may be the wrong way round. */
static void torn_ranges(void)
{
	for (u32 step = 1; step <= 2; step++) {
		struct tcplat_ports ports = { .low = 50000, .high = 40000, .step = step };

		CHECK(!tcplat_ports_all(&ports));
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 45000));
		ports.high = 49999;
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 49999));
		CHECK(!tcplat_ports_tried(&ports, 1, 2, 50000));
	}
}

static void same_ranges(void)
{
	/* The first and the second differ in nothing, and each other one in one member. */
	static const struct tcplat_ports all[] = {
		{ 1, 2, 2, false }, { 1, 2, 2, false }, { 2, 2, 2, false }, { 1, 3, 2, false },
		{ 1, 2, 1, false }, { 1, 2, 2, true },
	};

	for (size_t n = 0; n < ARRAY_SIZE(all); n++)
		CHECK(tcplat_ports_same(&all[0], &all[n]) == (n < 2));
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
