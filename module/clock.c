// SPDX-License-Identifier: GPL-2.0
/*
 * clock/: the running kernel's HZ, and TCP's timer constants in jiffies and microseconds.
 */
#include <linux/sysfs.h>
#include <net/tcp.h>

#include "jiffies.h"
#include "tcplat.h"

struct clock_attr {
	struct kobj_attribute attr;
	u64 value;
};

static ssize_t clock_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct clock_attr *clock = container_of(attr, struct clock_attr, attr);

	return sysfs_emit(buf, "%llu\n", clock->value);
}

static ssize_t clock_show_us(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct clock_attr *clock = container_of(attr, struct clock_attr, attr);

	return sysfs_emit(buf, "%llu\n", tcplat_jiffies_to_us(clock->value));
}

#define CLOCK_ATTR(_name, _value)					\
	static struct clock_attr clock_##_name = {			\
		.attr = __ATTR(_name, 0444, clock_show, NULL),		\
		.value = _value,					\
	}

#define CLOCK_JIFFIES(_name, _value)					\
	CLOCK_ATTR(_name, _value);					\
	static struct clock_attr clock_##_name##_us = {			\
		.attr = __ATTR(_name##_us, 0444, clock_show_us, NULL),	\
		.value = _value,					\
	}

CLOCK_ATTR(hz, HZ);
CLOCK_ATTR(tick_ns, TICK_NSEC);
CLOCK_JIFFIES(delack_min, TCP_DELACK_MIN);
CLOCK_JIFFIES(delack_max, TCP_DELACK_MAX);
CLOCK_JIFFIES(ato_min, TCP_ATO_MIN);
CLOCK_JIFFIES(rto_min, TCP_RTO_MIN);
CLOCK_JIFFIES(timewait_len, TCP_TIMEWAIT_LEN);

static struct attribute *clock_attrs[] = {
	&clock_hz.attr.attr,
	&clock_tick_ns.attr.attr,
	&clock_delack_min.attr.attr,
	&clock_delack_min_us.attr.attr,
	&clock_delack_max.attr.attr,
	&clock_delack_max_us.attr.attr,
	&clock_ato_min.attr.attr,
	&clock_ato_min_us.attr.attr,
	&clock_rto_min.attr.attr,
	&clock_rto_min_us.attr.attr,
	&clock_timewait_len.attr.attr,
	&clock_timewait_len_us.attr.attr,
	NULL
};

const struct attribute_group tcplat_clock_attrs = {
	.name = "clock",
	.attrs = clock_attrs,
};

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/clock-kunit.h"
#endif
