// SPDX-License-Identifier: GPL-2.0
/*
 * The socket table's slow side: allocating, inserting. See socktab.h.
 */
#include <linux/kprobes.h>
#include <linux/log2.h>
#include <linux/vmalloc.h>

#include "socktab.h"

/**
 * tcplat_socktab_alloc() - allocate an empty table
 * @tab: the table
 * @sockets: number of slots, a power of two, at least TCPLAT_SET_SLOTS
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM
 */
int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets)
{
	/* Aligned to cache lines. */
	tab->slots = tcplat_table_alloc(sockets, sizeof(*tab->slots));
	tab->shift = 64 - ilog2(sockets);
	return tab->slots ? 0 : -ENOMEM;
}

/**
 * tcplat_socktab_free() - free what tcplat_socktab_alloc() took
 * @tab: the table; nobody uses it any more
 *
 * Context: process, may sleep.
 */
void tcplat_socktab_free(struct tcplat_socktab *tab)
{
	vfree(tab->slots);
	tab->slots = NULL;
}

/**
 * tcplat_socktab_insert() - put a socket in, in another's place if its set is full
 * @tab: the table
 * @word: the socket's address with its state; it must not be in the table
 *
 * Which one has to go is decided by the newcomer's address: as good as any, and
 * it needs no memory of who was used last, which would cost a write at every hit.
 *
 * Context: any, with the socket's lock held.
 * Return: the word that had to go, 0 if none
 */
u64 tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word)
{
	u64 key = word & ~(u64)TCPLAT_STATE_MASK;
	u64 *home = tcplat_socktab_home(tab, key);
	unsigned int i;
	u64 *slot;
	u64 old;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++) {
		slot = tcplat_socktab_after(home, i);
		if (!READ_ONCE(*slot) && tcplat_socktab_change(slot, 0, word))
			return 0;
	}

	do {
		old = READ_ONCE(*home);
	} while (!tcplat_socktab_change(home, old, word));
	return old;
}

NOKPROBE_SYMBOL(tcplat_socktab_insert);

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/socktab-kunit.h"
#endif
