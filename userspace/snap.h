/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_SNAP_H
#define TCPLAT_SNAP_H

#include <stdbool.h>
#include <stdint.h>

#include "tcplat.h"
#include "tree.h"

/* The whole tree, read at about the same time. */
struct snap {
	struct tree tree;	/* the groups wanted, with all values */
	struct group clock;
	bool has_clock;
	uint64_t hz;		/* 0: unknown */
	uint64_t tick_ns;	/* 0: unknown */
	uint64_t time_ns;	/* CLOCK_MONOTONIC; 0: unknown */
	uint64_t wall_s;	/* since 1970 */
	char *boot;		/* the kernel's random/boot_id; NULL: unknown */
	uint64_t ino;		/* of the tree; changes with a reload; 0: unknown */
};

bool snap_take(struct snap *snap, const struct place *place, int argc,
	       char **argv);
void snap_free(struct snap *snap);
bool snap_there(const struct place *place);
bool snap_restarted(struct snap *now, struct snap *before);
double snap_seconds(const struct snap *now, const struct snap *before);
void snap_subtract(struct snap *now, struct snap *before);
void snap_sleep(double seconds);

#endif
