/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many ports a connect() has tried, out of what can be seen from outside.
 * Values in, values out, no kernel objects: a model of the kernel's loop checks it.
 *
 * The loop of __inet_hash_connect(), which this mirrors, first tries every port of
 * the parity of the range's low end, from a start that depends on a slot of
 * table_perturb, then those of the other parity. A socket with a range of its own
 * has, on newer kernels, one pass over all ports. Reserved ports are skipped but
 * walked over, and so they count. A search that succeeds adds to its slot how far it
 * went in its last pass, or a little more if that was not far.
 */
#ifndef _TCPLAT_PORTS_H
#define _TCPLAT_PORTS_H

#include <linux/types.h>

/**
 * struct tcplat_ports - what a search goes through
 * @low: first port
 * @high: last port
 * @step: 2 for two passes, one a parity; 1 for one pass
 * @scattered: each search picks a random stride, which cannot be known
 */
struct tcplat_ports {
	u32 low;
	u32 high;
	u32 step;
	bool scattered;
};

/* The slot grows by no less than a random one of 1 to this many steps. */
#define TCPLAT_PORTS_JITTER	8

/* Narrow @ports to a socket's own range, as inet_sk_get_local_port_range() does. */
static __always_inline void tcplat_ports_narrow(struct tcplat_ports *ports, u32 low, u32 high)
{
	if (ports->low <= low && low <= ports->high)
		ports->low = low;
	if (ports->low <= high && high <= ports->high)
		ports->high = high;
}

static __always_inline bool tcplat_ports_same(const struct tcplat_ports *a,
					      const struct tcplat_ports *b)
{
	return a->low == b->low && a->high == b->high && a->step == b->step &&
	       a->scattered == b->scattered;
}

/*
 * The number of ports tried by a search that finds none. The last of an odd number
 * is out of reach of two passes. 0 if there is no such range: its two ends were
 * read while they changed.
 */
static __always_inline u32 tcplat_ports_all(const struct tcplat_ports *ports)
{
	u32 all;

	if (ports->low > ports->high)
		return 0;
	all = ports->high - ports->low + 1;
	return ports->step == 2 && all > 1 ? all & ~1U : all;
}

/* The first port to be tried; @offset: the slot's value plus the destination's share. */
static __always_inline u32 tcplat_ports_first(const struct tcplat_ports *ports, u32 offset)
{
	offset %= tcplat_ports_all(ports);
	if (ports->step == 2)
		offset &= ~1U;
	return ports->low + offset;
}

/* Whether a slot grows by @growth when a search succeeds at distance @i in its pass. */
static __always_inline bool tcplat_ports_grows(u32 step, u32 i, u32 growth)
{
	if (i >= TCPLAT_PORTS_JITTER * step)
		return growth == i + step;
	return growth >= i + step && growth <= TCPLAT_PORTS_JITTER * step &&
	       growth % step == 0;
}

/**
 * tcplat_ports_tried() - how many ports a search has tried
 * @ports: what it went through
 * @offset: the slot's value at the search's start, plus the destination's share
 * @growth: by how much the slot has grown, by this search alone
 * @port: the port that was chosen
 *
 * With a random stride the distance between two ports says nothing, save that there
 * is none. The slot's growth is the distance, if it was more than the jitter can be.
 *
 * Context: any.
 * Return: the number, the chosen one included; 0 if what is given does not fit
 * together, or leaves it open
 */
static __always_inline u32 tcplat_ports_tried(const struct tcplat_ports *ports, u32 offset,
					      u32 growth, u32 port)
{
	u32 all = tcplat_ports_all(ports);
	u32 step = ports->step;
	u32 first, second_pass, i;

	if (!all || port < ports->low || port > ports->high)
		return 0;
	second_pass = step == 2 ? (port - ports->low) & 1 : 0;
	first = tcplat_ports_first(ports, offset) + second_pass;

	if (!ports->scattered)
		i = port >= first ? port - first : port + all - first;
	else if (port == first)
		i = 0;
	else if (growth == 2 * step || growth > TCPLAT_PORTS_JITTER * step)
		i = growth - step;
	else
		return 0;

	if (i >= all || i % step || !tcplat_ports_grows(step, i, growth))
		return 0;
	return i / step + 1 + second_pass * (all / 2);
}

/* There are no more ports than this to try. */
#define TCPLAT_PORTS_MOST	65535

/**
 * struct tcplat_tried - how many ports a search has tried
 * @min: no fewer
 * @max: no more; the number is known if this is @min
 */
struct tcplat_tried {
	u32 min;
	u32 max;
};

/**
 * tcplat_ports_by_port() - how many ports a search can have tried before it chose @port
 * @ports: what it went through
 * @port: the port that was chosen
 *
 * The parity of the port tells the pass, and nothing else.
 *
 * Context: any.
 * Return: the bounds
 */
static __always_inline struct tcplat_tried tcplat_ports_by_port(const struct tcplat_ports *ports,
								u32 port)
{
	struct tcplat_tried tried = { 1, TCPLAT_PORTS_MOST };
	u32 all = tcplat_ports_all(ports);

	if (!all || port < ports->low || port > ports->high)
		return tried;
	tried.max = all;
	if (ports->step == 2 && all > 1) {
		tried.max = all / 2;
		if ((port - ports->low) & 1) {
			tried.min += all / 2;
			tried.max += all / 2;
		}
	}
	return tried;
}

/**
 * tcplat_ports_by_growth() - the same, from the growth of the slot alone
 * @ports: what it went through
 * @growth: by how much this search made the slot grow
 * @port: the port that was chosen
 *
 * Beyond the jitter the growth is the distance. Up to it, the growth is an upper bound.
 *
 * Context: any.
 * Return: the bounds; those of the port alone if no search makes a slot grow by @growth
 */
static __always_inline struct tcplat_tried tcplat_ports_by_growth(const struct tcplat_ports *ports,
								  u32 growth, u32 port)
{
	struct tcplat_tried tried = tcplat_ports_by_port(ports, port);
	u32 steps = growth / ports->step;

	if (!steps || growth % ports->step)
		return tried;
	if (steps <= TCPLAT_PORTS_JITTER) {
		if (tried.max - tried.min > steps - 1)
			tried.max = tried.min + steps - 1;
	} else if (steps - 1 <= tried.max - tried.min) {
		tried.min += steps - 1;
		tried.max = tried.min;
	}
	return tried;
}

/**
 * tcplat_ports_by_starts() - the same, if the slot's value at the start is one of several
 * @ports: what it went through
 * @offsets: every value the slot may have had, plus the destination's share
 * @n: how many
 * @growth: by how much this search made the slot grow
 * @port: the port that was chosen
 *
 * A value that contradicts the growth or the port was not the one.
 *
 * Context: any.
 * Return: the bounds; those of the port alone if all values contradict
 */
static __always_inline struct tcplat_tried tcplat_ports_by_starts(const struct tcplat_ports *ports,
								  const u32 *offsets, u32 n,
								  u32 growth, u32 port)
{
	struct tcplat_tried tried = { TCPLAT_PORTS_MOST, 0 };
	u32 i;

	for (i = 0; i < n; i++) {
		u32 number;

		/* The usual case, of nobody else's writes, is worth it. */
		if (i && offsets[i] == offsets[i - 1])
			continue;
		number = tcplat_ports_tried(ports, offsets[i], growth, port);
		/* Left open, not contradicted. */
		if (!number && ports->scattered)
			return tcplat_ports_by_growth(ports, growth, port);
		if (number && number < tried.min)
			tried.min = number;
		if (number > tried.max)
			tried.max = number;
	}
	return tried.max ? tried : tcplat_ports_by_port(ports, port);
}

#endif /* _TCPLAT_PORTS_H */
