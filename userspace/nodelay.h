/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_NODELAY_H
#define TCPLAT_NODELAY_H

#include <stddef.h>
#include <stdint.h>

/* Whether TCP_NODELAY is set on sockets now. */
enum nodelay {
	NODELAY_UNKNOWN,	/* the sockets are gone or not accessible */
	NODELAY_UNSET,		/* not set on at least one */
	NODELAY_SET,		/* set on all */
};

enum nodelay process_nodelay(uint64_t pid, const uint64_t *cookies, size_t n);

#endif
