/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Computes how many ports a connect() has tried from what can be observed. These functions use
 * no kernel objects, so that they can be tested against a model of the kernel's loop.
 *
 * The loop is in __inet_hash_connect(). It first tries the ports with the parity of the low end
 * of the range, starting at an offset that depends on a slot of table_perturb, and then the
 * ports with the other parity. On newer kernels, a socket with its own port range makes one pass
 * over all ports. The loop steps over reserved ports one by one, so they count as tried. A
 * successful search adds to its slot the distance that it went in its last pass, or a little
 * more if the distance was short.
 */
#ifndef _TCPLAT_PORTS_H
#define _TCPLAT_PORTS_H

#include <linux/types.h>

/**
 * struct tcplat_ports - the ports that a search goes through
 * @low: first port
 * @high: last port
 * @step: 2 for two passes, one per parity; 1 for one pass
 * @scattered: each search uses a random stride, which cannot be observed
 */
struct tcplat_ports {
	u32 low;
	u32 high;
	u32 step;
	bool scattered;
};

/* The slot grows at least by a random number of steps, from 1 to this. */
#define TCPLAT_PORTS_JITTER	8

/* Narrows @ports to a socket's own range, as inet_sk_get_local_port_range() does. */
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
 * The number of ports tried by a search that finds none. Of an odd number of ports, two passes
 * skip one. 0 if the range is invalid because it changed while it was read.
 */
static __always_inline u32 tcplat_ports_all(const struct tcplat_ports *ports)
{
	u32 all;

	if (ports->low > ports->high)
		return 0;
	all = ports->high - ports->low + 1;
	return ports->step == 2 && all > 1 ? all & ~1U : all;
}

/* The first port that is tried; @offset: the slot's value plus the destination's offset. */
static __always_inline u32 tcplat_ports_first(const struct tcplat_ports *ports, u32 offset)
{
	offset %= tcplat_ports_all(ports);
	if (ports->step == 2)
		offset &= ~1U;
	return ports->low + offset;
}

/* Whether a search that succeeds at distance @i in its pass can make the slot grow by @growth. */
static __always_inline bool tcplat_ports_grows(u32 step, u32 i, u32 growth)
{
	if (i >= TCPLAT_PORTS_JITTER * step)
		return growth == i + step;
	return growth >= i + step && growth <= TCPLAT_PORTS_JITTER * step &&
	       growth % step == 0;
}

/*
 * The number of ports that a search has tried, the chosen @port included. @offset: the slot's value
 * at the start, plus the destination's offset; @growth: growth of the slot by this search alone.
 * 0 if the arguments contradict each other or do not determine the number.
 *
 * With a random stride, the distance between two ports only tells whether they are the same.
 * The growth of the slot then tells the distance, if it exceeds the jitter.
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

/* Maximum number of ports to try. */
#define TCPLAT_PORTS_MOST	65535

/* Bounds of the number of ports that a search has tried, which is known if they are equal. */
struct tcplat_tried {
	u32 min;
	u32 max;
};

/* The bounds that the chosen port tells: its parity is that of the pass in which it was found. */
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

/*
 * The bounds that the growth of the slot by this search alone tells: the distance, if it exceeds
 * the jitter, else an upper bound. If no search makes a slot grow by @growth, the bounds of the
 * port.
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

/*
 * The bounds from @n @offsets, each value that the slot may have had at the start plus the
 * destination's offset. Values that contradict the growth or the port are ruled out; if all are,
 * the bounds of the port.
 */
static __always_inline struct tcplat_tried tcplat_ports_by_starts(const struct tcplat_ports *ports,
								  const u32 *offsets, u32 n,
								  u32 growth, u32 port)
{
	struct tcplat_tried tried = { TCPLAT_PORTS_MOST, 0 };
	u32 i;

	for (i = 0; i < n; i++) {
		u32 number;

		/* Shortcut for the usual case: no other search wrote. */
		if (i && offsets[i] == offsets[i - 1])
			continue;
		number = tcplat_ports_tried(ports, offsets[i], growth, port);
		/* With a random stride, 0 may mean undetermined, not contradicted. */
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
