/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_WRITERS_H
#define TCPLAT_WRITERS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether an option is set on sockets now. */
enum nodelay {
	NODELAY_UNKNOWN,	/* they are gone, or may not be looked at */
	NODELAY_UNSET,		/* on one of them at least */
	NODELAY_SET,		/* on all of them */
};

/* Who wrote most of the data that Nagle's algorithm held back. */
struct writer {
	char comm[64];		/* "": not known */
	uint64_t pid;
	enum nodelay nodelay;
};

void writers_watch(int root_fd);
void writers_end(struct writer *writer);

#endif
