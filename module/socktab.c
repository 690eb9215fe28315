// SPDX-License-Identifier: GPL-2.0
/* The socket table, which socktab.h describes. */
#include <linux/kprobes.h>
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "socktab.h"

/**
 * tcplat_socktab_alloc() - allocate an empty table
 * @tab: the table; its @record and @held are set
 * @sockets: number of sockets that find room, a power of two, at least TCPLAT_SET_SLOTS
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM with nothing allocated
 */
int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets)
{
	/* Whole pages, so that sets are aligned to cache lines. */
	tab->slots = tcplat_table_alloc(2UL * sockets, sizeof(*tab->slots));
	tab->records = tcplat_table_alloc(2UL * sockets, tab->record);
	tab->shift = 64 - ilog2(2UL * sockets);
	if (tab->slots && tab->records)
		return 0;
	tcplat_socktab_free(tab);
	return -ENOMEM;
}

/**
 * tcplat_socktab_free() - forget all sockets, and free what tcplat_socktab_alloc() allocated
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
	if (tab->held)
		memset(tab->held, 0, sizeof(*tab->held) << TCPLAT_HELD_BITS);
}

/**
 * tcplat_socktab_count() - count the sockets in a table
 * @tab: the table, which is not freed meanwhile; it may not be allocated
 * @by_state: if not NULL, four counts, to which the number of sockets is added by the two low
 *	bits of their states
 *
 * Context: process, may sleep.
 * Return: the number of sockets
 */
u64 tcplat_socktab_count(const struct tcplat_socktab *tab, u64 *by_state)
{
	unsigned long slots = tcplat_socktab_slots(tab);
	unsigned long i;
	u64 word, n = 0;

	for (i = 0; i < slots; i++) {
		if (!(i % 4096))
			cond_resched();
		word = READ_ONCE(tab->slots[i]);
		if (!word)
			continue;
		n++;
		if (by_state)
			by_state[word & 3]++;
	}
	return n;
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
__kprobes u64 *tcplat_socktab_search(const struct tcplat_socktab *tab, u64 key)
{
	u64 *slot = find_in_set(tcplat_socktab_home(tab, key), key);

	return slot ?: find_in_set(tcplat_socktab_second(tab, key), key);
}

/**
 * tcplat_socktab_has() - whether a socket is in the table with a given state
 * @tab: the table
 * @word: the socket's address with its state
 *
 * Context: any.
 * Return: true if a slot of the socket's sets holds exactly @word
 */
bool __kprobes tcplat_socktab_has(const struct tcplat_socktab *tab, u64 word)
{
	u64 key = word & ~(u64)TCPLAT_STATE_MASK;

	return tcplat_set_has(tcplat_socktab_set(tcplat_socktab_home(tab, key)), word) ||
	       tcplat_set_has(tcplat_socktab_set(tcplat_socktab_second(tab, key)), word);
}

static unsigned int __kprobes free_slots(u64 *first)
{
	const u64 *set = tcplat_socktab_set(first);
	unsigned int i, n = 0;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++)
		n += !READ_ONCE(set[i]);
	return n;
}

static __kprobes u64 *insert_in_set(u64 *first, u64 word)
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

/**
 * tcplat_socktab_insert() - store a socket, if there is room
 * @tab: the table
 * @word: the socket's address with its state; the socket must not be in the table
 *
 * Context: any, with the socket's lock held.
 * Return: its slot; NULL if both of the socket's sets are full
 */
__kprobes u64 *tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word)
{
	u64 key = word & ~(u64)TCPLAT_STATE_MASK;
	u64 *first = tcplat_socktab_home(tab, key);
	u64 *second = tcplat_socktab_second(tab, key);
	unsigned int room;
	u64 *slot;

	/* Count first, so that the count is never 0 for a socket in the table. */
	if (tab->held)
		atomic_inc(tcplat_socktab_held(tab->held, tcplat_socktab_hash(key)));

	/* Usual case: the first set is empty. */
	if (tcplat_socktab_set_is_empty(first) && tcplat_socktab_change(first, 0, word))
		return first;

	room = free_slots(first);
	if (room <= TCPLAT_SET_SLOTS - TCPLAT_SET_CROWDED && free_slots(second) > room)
		swap(first, second);
	slot = insert_in_set(first, word) ?: insert_in_set(second, word);
	if (!slot && tab->held)
		atomic_dec(tcplat_socktab_held(tab->held, tcplat_socktab_hash(key)));
	return slot;
}

/**
 * tcplat_socktab_remove() - remove a socket from the table
 * @tab: the table
 * @key: the socket's address
 *
 * Context: any, with the socket's lock held or without other users of the socket.
 * Return: the word that was stored, the address with the state; 0 if the socket was not there
 */
u64 __kprobes tcplat_socktab_remove(struct tcplat_socktab *tab, u64 key)
{
	u64 word, *slot = tcplat_socktab_find(tab, key, &word);

	return slot ? tcplat_socktab_remove_at(tab, key, slot) : 0;
}

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/socktab-kunit.h"
#endif
