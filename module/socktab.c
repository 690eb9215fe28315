// SPDX-License-Identifier: GPL-2.0
/*
 * The socket table: allocation, insertion, removal and full searches. See socktab.h.
 */
#include <linux/kprobes.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "socktab.h"

/**
 * tcplat_socktab_alloc() - allocate an empty table
 * @tab: the table
 * @sockets: maximum number of sockets, a power of two, at least TCPLAT_SET_SLOTS
 * @record: size of a record, in bytes
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM with nothing allocated
 */
int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets, size_t record)
{
	/* Whole pages, so that sets are aligned to cache lines. */
	tab->slots = tcplat_table_alloc(2UL * sockets, sizeof(*tab->slots));
	tab->shift = 64 - ilog2(2UL * sockets);
	tab->limit = sockets;
	atomic_set(&tab->used, 0);
	if (!tab->slots)
		return -ENOMEM;
	tab->records = tcplat_table_alloc(tcplat_socktab_slots(tab), record);
	if (tab->records)
		return 0;
	tcplat_socktab_free(tab);
	return -ENOMEM;
}

/**
 * tcplat_socktab_free() - free what tcplat_socktab_alloc() allocated
 * @tab: the table, no longer in use
 *
 * Context: process, may sleep.
 */
void tcplat_socktab_free(struct tcplat_socktab *tab)
{
	vfree(tab->records);
	vfree(tab->slots);
	tab->records = NULL;
	tab->slots = NULL;
}

/**
 * tcplat_socktab_clear() - remove all sockets
 * @tab: the table, not in use during the call
 *
 * Context: process, may sleep.
 */
void tcplat_socktab_clear(struct tcplat_socktab *tab)
{
	unsigned long slots = tcplat_socktab_slots(tab);
	unsigned long n, i;

	for (i = 0; i < slots; i += n) {
		n = min(slots - i, 4096UL);
		memset(tab->slots + i, 0, n * sizeof(*tab->slots));
		cond_resched();
	}
	atomic_set(&tab->used, 0);
}

static __always_inline u64 *find_in_set(u64 *first, u64 key)
{
	unsigned int i;
	u64 *slot;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++) {
		slot = tcplat_socktab_nth(first, i);
		if (tcplat_socktab_same(READ_ONCE(*slot), key))
			return slot;
	}
	return NULL;
}

/**
 * tcplat_socktab_search() - look for a socket in all slots of both of its sets
 * @tab: the table
 * @key: the socket's address
 *
 * Context: any.
 * Return: its slot, or NULL if the socket is not in the table
 */
u64 *tcplat_socktab_search(const struct tcplat_socktab *tab, u64 key)
{
	u64 *slot = find_in_set(tcplat_socktab_home(tab, key), key);

	return slot ?: find_in_set(tcplat_socktab_second(tab, key), key);
}

NOKPROBE_SYMBOL(tcplat_socktab_search);

/* Unrolled: each event of a socket that is not in its home slot calls this. */
static __always_inline bool set_has(u64 *slot, u64 word)
{
	const u64 *set = tcplat_socktab_set(slot);

	BUILD_BUG_ON(TCPLAT_SET_SLOTS != 8);
	return READ_ONCE(set[0]) == word || READ_ONCE(set[1]) == word ||
	       READ_ONCE(set[2]) == word || READ_ONCE(set[3]) == word ||
	       READ_ONCE(set[4]) == word || READ_ONCE(set[5]) == word ||
	       READ_ONCE(set[6]) == word || READ_ONCE(set[7]) == word;
}

/**
 * tcplat_socktab_has() - whether a socket is in the table with a given state
 * @tab: the table
 * @word: the socket's address with its state
 *
 * Context: any.
 * Return: true if a slot of the socket's sets holds exactly @word
 */
bool tcplat_socktab_has(const struct tcplat_socktab *tab, u64 word)
{
	u64 key = word & ~(u64)TCPLAT_STATE_MASK;

	return set_has(tcplat_socktab_home(tab, key), word) ||
	       set_has(tcplat_socktab_second(tab, key), word);
}

NOKPROBE_SYMBOL(tcplat_socktab_has);

static unsigned int free_slots(u64 *first)
{
	const u64 *set = tcplat_socktab_set(first);
	unsigned int i, n = 0;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++)
		n += !READ_ONCE(set[i]);
	return n;
}

NOKPROBE_SYMBOL(free_slots);

static u64 *insert_in_set(u64 *first, u64 word)
{
	unsigned int i;
	u64 *slot;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++) {
		slot = tcplat_socktab_nth(first, i);
		if (!READ_ONCE(*slot) && tcplat_socktab_change(slot, 0, word))
			return slot;
	}
	return NULL;
}

NOKPROBE_SYMBOL(insert_in_set);

/**
 * tcplat_socktab_insert() - store a socket, if there is room
 * @tab: the table
 * @word: the socket's address with its state; the socket must not be in the table
 *
 * Context: any, with the socket's lock held.
 * Return: its slot; NULL if the table holds its maximum number of sockets, or if both of the
 * socket's sets are full
 */
u64 *tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word)
{
	u64 key = word & ~(u64)TCPLAT_STATE_MASK;
	u64 *first = tcplat_socktab_home(tab, key);
	u64 *second = tcplat_socktab_second(tab, key);
	unsigned int room;
	u64 *slot;

	/* Read first: sockets beyond the limit get here often and must not write a shared line. */
	if (tcplat_socktab_used(tab) >= tab->limit)
		return NULL;
	if (atomic_inc_return(&tab->used) > tab->limit)
		goto full;

	/* Usual case: the first set is empty. */
	if (tcplat_socktab_set_is_empty(first) && tcplat_socktab_change(first, 0, word))
		return first;

	room = free_slots(first);
	if (room <= TCPLAT_SET_SLOTS - TCPLAT_SET_CROWDED && free_slots(second) > room)
		swap(first, second);
	slot = insert_in_set(first, word) ?: insert_in_set(second, word);
	if (slot)
		return slot;
full:
	atomic_dec(&tab->used);
	return NULL;
}

NOKPROBE_SYMBOL(tcplat_socktab_insert);

/**
 * tcplat_socktab_remove() - remove a socket from the table
 * @tab: the table
 * @key: the socket's address
 * @word: set to the word that was stored, the address with the state
 *
 * Context: any, with the socket's lock held or without other users of the socket.
 * Return: false if the socket was not in the table
 */
bool tcplat_socktab_remove(struct tcplat_socktab *tab, u64 key, u64 *word)
{
	u64 *slot = tcplat_socktab_find(tab, key, word);

	if (!slot)
		return false;
	*word = tcplat_socktab_remove_at(tab, slot);
	return true;
}

NOKPROBE_SYMBOL(tcplat_socktab_remove);

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/socktab-kunit.h"
#endif
