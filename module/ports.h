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

#endif /* _TCPLAT_PORTS_H */
