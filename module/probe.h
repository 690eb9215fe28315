/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal interfaces of the probe engine. probe.c decides whether ftrace or a kprobe watches
 * a function. tcplat.h has the interfaces that the groups use.
 */
#ifndef _TCPLAT_PROBE_H
#define _TCPLAT_PROBE_H

#include "tcplat.h"

/* probe_ftrace.c, which is not built without TCPLAT_FTRACE: the compiler removes the calls. */
void tcplat_ftrace_init(void);
void tcplat_ftrace_exit(void);
void tcplat_ftrace_arm(struct tcplat_group * const *groups, unsigned int n);
void tcplat_ftrace_disarm(struct tcplat_group * const *groups, unsigned int n);
bool tcplat_ftrace_is_stuck(void);

/* symbols.c */
int tcplat_symbols_find(unsigned int nr_probes);

#endif /* _TCPLAT_PROBE_H */
