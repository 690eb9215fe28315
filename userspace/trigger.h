/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_TRIGGER_H
#define TCPLAT_TRIGGER_H

#include <stdint.h>

/* A hist trigger of a tracepoint. */
struct trigger {
	const char *event;
	const char *keys;	/* up to three fields, comma-separated */
	const char *value;	/* field to sum up, a time in us or ns; NULL: none */
	const char *filter;	/* NULL: all events */
};

/* One entry. @key has tab-separated values, @ns is 0 if the trigger has no value. */
typedef void (*trigger_fn)(const struct trigger *trigger, const char *key, uint64_t count,
			   uint64_t ns, void *arg);

int trigger_set(const struct trigger *trigger);
uint64_t trigger_read(const struct trigger *trigger, trigger_fn fn, void *arg);

#endif
