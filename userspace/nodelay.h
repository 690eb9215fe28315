/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_NODELAY_H
#define TCPLAT_NODELAY_H

#include <stddef.h>
#include <stdint.h>

/* Whether an option is set on sockets now. */
enum nodelay {
	NODELAY_UNKNOWN,	/* they are gone, or may not be looked at */
	NODELAY_UNSET,		/* on one of them at least */
	NODELAY_SET,		/* on all of them */
};

enum nodelay process_nodelay(uint64_t pid, const uint64_t *cookies, size_t n);

#endif
