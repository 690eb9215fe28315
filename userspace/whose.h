/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_WHOSE_H
#define TCPLAT_WHOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trigger.h"

/* What was counted for one key of a trigger. */
struct share {
	char *key;		/* from trigger_read(), without the cookie */
	uint64_t *cookies;	/* of the sockets, if the last field of the key is cookie */
	size_t nr_cookies;
	uint64_t count;
	uint64_t ns;		/* 0 if the trigger has no value */
};

/* Who caused the events, worst first. */
struct whose {
	const struct trigger *trigger;
	bool looked;		/* false: the trigger could not be set */
	struct share *shares;
	size_t nr;
	uint64_t dropped;	/* events whose keys did not fit */
};

void whose_watch(int root_fd, const char *user, struct whose *list, size_t nr);
void whose_end(struct whose *list, size_t nr);
void whose_free(struct whose *list, size_t nr);

#endif
