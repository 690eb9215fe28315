// SPDX-License-Identifier: GPL-2.0
/* clock/: the running kernel's HZ, and TCP's timer constants in jiffies and microseconds. */
#include <net/tcp.h>

#include "jiffies.h"
#include "tcplat.h"

static u64 read_constant(const struct tcplat_group *group, unsigned int value)
{
	return value;
}

static u64 read_constant_us(const struct tcplat_group *group, unsigned int jiffies)
{
	return tcplat_jiffies_to_us(jiffies);
}

#define CLOCK(_name, _value)	TCPLAT_FILE(_name, read_constant, _value)
#define CLOCK_JIFFIES(_name, _jiffies) \
	CLOCK(_name, _jiffies), TCPLAT_FILE(_name "_us", read_constant_us, _jiffies)

static const struct tcplat_file clock_files[] = {
	CLOCK("hz", HZ),
	CLOCK("tick_ns", TICK_NSEC),
	CLOCK_JIFFIES("delack_min", TCP_DELACK_MIN),
	CLOCK_JIFFIES("delack_max", TCP_DELACK_MAX),
	CLOCK_JIFFIES("ato_min", TCP_ATO_MIN),
	CLOCK_JIFFIES("rto_min", TCP_RTO_MIN),
	CLOCK_JIFFIES("timewait_len", TCP_TIMEWAIT_LEN),
};

/* A directory like a group's. The group counts nothing. */
struct tcplat_group tcplat_clock = {
	.name = "clock",
	.files = clock_files,
	.nr_files = ARRAY_SIZE(clock_files),
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/clock-kunit.h"
#endif
