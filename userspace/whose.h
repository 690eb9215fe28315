/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_WHOSE_H
#define TCPLAT_WHOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trigger.h"

/* What was counted of one key of a trigger. */
struct share {
	char *key;		/* as trigger_read() has it, without the cookie */
	uint64_t *cookies;	/* of its sockets, if the last field of the key is that */
	size_t nr_cookies;
	uint64_t count;
	uint64_t ns;		/* 0 if the trigger has no value */
};

/* Whose events they were, the worst first. */
struct whose {
	const struct trigger *trigger;
	bool looked;		/* false: it could not be looked at */
	struct share *shares;
	size_t nr;
};

void whose_watch(int root_fd, const char *user, struct whose *list, size_t nr);
void whose_end(struct whose *list, size_t nr);
void whose_free(struct whose *list, size_t nr);

#endif
