/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal interfaces of the probe engine. probe.c decides whether ftrace or a kprobe watches
 * a function; each other file handles one mechanism of the kernel. tcplat.h has the interfaces
 * that the groups use.
 *
 * A hit goes from probe_ftrace.c or probe_kprobe.c straight to the group's handler.
 */
#ifndef _TCPLAT_PROBE_H
#define _TCPLAT_PROBE_H

#include "tcplat.h"

static inline bool tcplat_probe_is_return(const struct tcplat_probe *probe)
{
	return probe->ret;
}

/* probe_ftrace.c */
#ifdef TCPLAT_FTRACE
void tcplat_ftrace_init(void);
void tcplat_ftrace_exit(void);
void tcplat_ftrace_arm(struct tcplat_group * const *groups, unsigned int n);
void tcplat_ftrace_disarm(struct tcplat_group * const *groups, unsigned int n);
void tcplat_ftrace_update_calls(void);
bool tcplat_ftrace_is_stuck(void);
#else
static inline void tcplat_ftrace_init(void)
{
}

static inline void tcplat_ftrace_exit(void)
{
}

static inline void tcplat_ftrace_arm(struct tcplat_group * const *groups, unsigned int n)
{
}

static inline void tcplat_ftrace_disarm(struct tcplat_group * const *groups, unsigned int n)
{
}

static inline void tcplat_ftrace_update_calls(void)
{
}

static inline bool tcplat_ftrace_is_stuck(void)
{
	return false;
}
#endif

/* probe_kprobe.c */
int tcplat_kprobe_init(unsigned int nr_probes);
void tcplat_kprobe_exit(void);
int tcplat_kprobe_arm(struct tcplat_probe *probe);
bool tcplat_kprobe_disable(struct tcplat_probe *probe);
void tcplat_kprobe_unregister_begin(void);
void tcplat_kprobe_unregister_end(void);
u64 tcplat_kprobe_missed(const struct tcplat_probe *probe);
const char *tcplat_kprobe_kind(const struct tcplat_probe *probe);
bool tcplat_kprobe_is_live(const struct tcplat_probe *probe);

/* symbols.c */
int tcplat_symbols_find(unsigned int nr_probes);

#endif /* _TCPLAT_PROBE_H */
