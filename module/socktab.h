/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The socket table: a few bits about each socket, in one 64-bit word per socket.
 *
 * A word holds the socket's address. Sockets are aligned to cache lines, so the low six
 * bits are free for state; the top eight, which are the same in all of the kernel's
 * addresses, hold a token while somebody without the socket's lock looks at the socket.
 *
 * Slots are grouped into sets of one cache line, and each socket may be in one of two
 * sets. It is stored in its home slot, else in the next free slot of the first set; once
 * that set is more than half full, in the emptier of the two. The table has twice as many
 * slots as the sockets that it is to hold, so that both sets of a socket are full about
 * once in ten million insertions. Nothing is evicted: a socket that finds no room is not
 * stored. No lock, no allocation, no reference to the socket: the address is a name and
 * is never followed.
 *
 * Only the owner of a socket's lock inserts or removes it, so that no socket is stored
 * twice. State may be changed by anyone, by cmpxchg only. Nothing else needs ordering,
 * whatever the machine's memory model: a slot is all there is to publish. Two events of a
 * socket are ordered by its lock, so the second finds what the first left; the allocator
 * orders the users of a recycled address.
 *
 * A line is written when one of its sockets comes, goes or changes, and only read by
 * the events between: CPUs keep it shared.
 */
#ifndef _TCPLAT_SOCKTAB_H
#define _TCPLAT_SOCKTAB_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/overflow.h>
#include <linux/types.h>
#include <linux/vmalloc.h>

#define TCPLAT_SET_SLOTS	8
#define TCPLAT_STATE_MASK	0x3fUL

/* A socket goes into the emptier of its sets once the first has this many. */
#define TCPLAT_SET_CROWDED	5

#define TCPLAT_TOKEN_SHIFT	56
#define TCPLAT_TOKEN_MASK	(0xffUL << TCPLAT_TOKEN_SHIFT)
#define TCPLAT_ADDRESS_MASK	(~(TCPLAT_TOKEN_MASK | TCPLAT_STATE_MASK))

/**
 * struct tcplat_socktab - the table
 * @slots: sets of TCPLAT_SET_SLOTS slots each, aligned to cache lines
 * @records: for each slot what else is known of its socket, in bytes of the table's user;
 *	written and read under that socket's lock only
 * @shift: what is left of a hash of 64 bits, shifted by this, is the number of a slot
 * @limit: how many sockets it holds at most
 * @used: how many it holds
 */
struct tcplat_socktab {
	u64 *slots;
	void *records;
	unsigned int shift;
	unsigned int limit;
	atomic_t used;
};

/* Whole pages of zeros, or NULL, of which the caller tells and the kernel's log does not. */
static inline void *tcplat_table_alloc(size_t n, size_t size)
{
	return __vmalloc(array_size(n, size), GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
}

/* The mask changes nothing, but kernels with UBSAN would check the shift at each call. */
static __always_inline u64 *tcplat_socktab_slot(const struct tcplat_socktab *tab, u64 hash)
{
	return tab->slots + (hash >> (tab->shift & 63));
}

static __always_inline u64 *tcplat_socktab_home(const struct tcplat_socktab *tab,
						u64 key)
{
	return tcplat_socktab_slot(tab, key * GOLDEN_RATIO_64);
}

/* Where the socket's second set is; another odd multiplier, so that the two are unrelated. */
static __always_inline u64 *tcplat_socktab_second(const struct tcplat_socktab *tab, u64 key)
{
	return tcplat_socktab_slot(tab, key * 0xc2b2ae3d27d4eb4fULL);
}

#define TCPLAT_SET_MASK		(TCPLAT_SET_SLOTS * sizeof(u64) - 1)

/* The set that the slot @slot is in. */
static __always_inline u64 *tcplat_socktab_set(u64 *slot)
{
	return (u64 *)((unsigned long)slot & ~TCPLAT_SET_MASK);
}

/* The @n-th slot of the set that the slot @first is in, counted from @first and around. */
static __always_inline u64 *tcplat_socktab_after(u64 *first, unsigned int n)
{
	return (u64 *)((unsigned long)tcplat_socktab_set(first) |
		       ((unsigned long)(first + n) & TCPLAT_SET_MASK));
}

static __always_inline bool tcplat_socktab_set_is_empty(u64 *first)
{
	const u64 *set = tcplat_socktab_set(first);

	/* Not a loop, which the compiler keeps at five instructions a slot. */
	BUILD_BUG_ON(TCPLAT_SET_SLOTS != 8);
	return !(READ_ONCE(set[0]) | READ_ONCE(set[1]) | READ_ONCE(set[2]) | READ_ONCE(set[3]) |
		 READ_ONCE(set[4]) | READ_ONCE(set[5]) | READ_ONCE(set[6]) | READ_ONCE(set[7]));
}

/* Whether the socket cannot be in the table, by a look at its sets: cheaper than a search. */
static __always_inline bool tcplat_socktab_sets_are_empty(const struct tcplat_socktab *tab,
							  u64 key)
{
	return tcplat_socktab_set_is_empty(tcplat_socktab_home(tab, key)) &&
	       tcplat_socktab_set_is_empty(tcplat_socktab_second(tab, key));
}

static __always_inline bool tcplat_socktab_same(u64 word, u64 key)
{
	return !((word ^ key) & TCPLAT_ADDRESS_MASK);
}

u64 *tcplat_socktab_search(const struct tcplat_socktab *tab, u64 key);
bool tcplat_socktab_has(const struct tcplat_socktab *tab, u64 word);

/* Whether the socket @key is in the table with this state, and nobody is looking at it. */
static __always_inline bool tcplat_socktab_is(const struct tcplat_socktab *tab, u64 key,
					      u64 state)
{
	u64 differs = READ_ONCE(*tcplat_socktab_home(tab, key)) ^ key;

	if (likely(differs == state))
		return true;
	/* It is at home, in another state. */
	if (differs <= TCPLAT_STATE_MASK)
		return false;
	return tcplat_socktab_has(tab, key | state);
}

/*
 * The slot of the socket @key, or NULL; *@word is what it held, whose low bits are the
 * socket's state.
 */
static __always_inline u64 *tcplat_socktab_find(const struct tcplat_socktab *tab,
						u64 key, u64 *word)
{
	u64 *slot = tcplat_socktab_home(tab, key);

	*word = READ_ONCE(*slot);
	if (tcplat_socktab_same(*word, key))
		return slot;
	slot = tcplat_socktab_search(tab, key);
	if (!slot)
		return NULL;
	/* Without the socket's lock, it may have gone meanwhile. */
	*word = READ_ONCE(*slot);
	return tcplat_socktab_same(*word, key) ? slot : NULL;
}

/* Replaces @old by @new; false if the slot is not @old any more. */
static __always_inline bool tcplat_socktab_change(u64 *slot, u64 old, u64 new)
{
	return cmpxchg(slot, old, new) == old;
}

/* Takes the socket in @slot out of the table. Returns what was stored. */
static __always_inline u64 tcplat_socktab_remove_at(struct tcplat_socktab *tab, u64 *slot)
{
	u64 word;

	do {
		word = READ_ONCE(*slot);
	} while (!tcplat_socktab_change(slot, word, 0));
	atomic_dec(&tab->used);
	return word;
}

int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets, size_t record);
void tcplat_socktab_free(struct tcplat_socktab *tab);
void tcplat_socktab_clear(struct tcplat_socktab *tab);
u64 *tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word);
bool tcplat_socktab_remove(struct tcplat_socktab *tab, u64 key, u64 *word);

static inline unsigned long tcplat_socktab_slots(const struct tcplat_socktab *tab)
{
	return 1UL << (64 - tab->shift);
}

static __always_inline unsigned int tcplat_socktab_used(const struct tcplat_socktab *tab)
{
	return atomic_read(&tab->used);
}

#endif /* _TCPLAT_SOCKTAB_H */
