/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The groups, one line each, in the order in which they are armed and shown. No include guard:
 * tcplat.h turns the lines into declarations, main.c into an array of pointers.
 */
#ifdef TCPLAT_GROUP_POINTERS
#define TCPLAT_GROUP(name)	&tcplat_##name,
#else
#define TCPLAT_GROUP(name)	extern struct tcplat_group tcplat_##name;
#endif

TCPLAT_GROUP(delack)
TCPLAT_GROUP(ackmode)
TCPLAT_GROUP(portsearch)
TCPLAT_GROUP(bindsearch)
TCPLAT_GROUP(sndwait)
TCPLAT_GROUP(sndhold)
TCPLAT_GROUP(idlerestart)
TCPLAT_GROUP(loss)
TCPLAT_GROUP(listen)
TCPLAT_GROUP(peerwnd)
TCPLAT_GROUP(answer)

#undef TCPLAT_GROUP
