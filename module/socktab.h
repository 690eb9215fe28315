/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The socket table: a few bits about each socket, in one 64-bit word a socket.
 *
 * A slot holds the socket's address, whose low six bits are zero because the slab
 * aligns sockets to cache lines, with six bits of state in their place. Slots are
 * grouped into sets of one cache line. A socket's address hashes to a slot, its home;
 * there it lives, or in the first slot of the set after its home, and around, that was
 * free when it came, or nowhere. Who comes to a full set takes its home from whoever is
 * there, so that it is found at the first look however full the table is. No lock, no
 * allocation, no reference to the socket: the address is a name and is never followed.
 *
 * Whoever inserts or removes a socket must hold its lock, so that no socket gets in
 * twice; state may be changed by anyone. Slots are changed by cmpxchg only, since
 * another socket of the set may be put in a slot's place at any time. Nothing else
 * needs ordering, whatever the machine's memory model: a slot is all there is to
 * publish, and no pointer in it is followed. Two events of a socket are ordered by its
 * lock, so that the second finds what the first left; one without the lock, setting
 * TCP_QUICKACK, may find an older mode, and its cmpxchg fails then. An address that is
 * recycled is ordered by the allocator that recycled it.
 *
 * A line is written when one of its sockets comes, goes or changes, and only read by
 * the events between: CPUs keep it shared.
 */
#ifndef _TCPLAT_SOCKTAB_H
#define _TCPLAT_SOCKTAB_H

#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/overflow.h>
#include <linux/types.h>
#include <linux/vmalloc.h>

#define TCPLAT_SET_SLOTS	8
#define TCPLAT_STATE_MASK	0x3fUL

/**
 * struct tcplat_socktab - the table
 * @slots: sets of TCPLAT_SET_SLOTS slots each, aligned to cache lines
 * @shift: what is left of a hash of 64 bits, shifted by this, is the number of a slot
 */
struct tcplat_socktab {
	u64 *slots;
	unsigned int shift;
};

/* Whole pages of zeros, or NULL, of which the caller tells and the kernel's log does not. */
static inline void *tcplat_table_alloc(size_t n, size_t size)
{
	return __vmalloc(array_size(n, size), GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
}

static __always_inline u64 *tcplat_socktab_home(const struct tcplat_socktab *tab,
						u64 key)
{
	return tab->slots + (key * GOLDEN_RATIO_64 >> tab->shift);
}

#define TCPLAT_SET_MASK		(TCPLAT_SET_SLOTS * sizeof(u64) - 1)

/* The @n-th slot of the set that the slot @home is in. */
static __always_inline u64 *tcplat_socktab_slot(u64 *home, unsigned int n)
{
	return (u64 *)((unsigned long)home & ~TCPLAT_SET_MASK) + n;
}

/* The @n-th slot of the set after the slot @home, and around. */
static __always_inline u64 *tcplat_socktab_after(u64 *home, unsigned int n)
{
	return tcplat_socktab_slot(home, ((unsigned long)(home + n) & TCPLAT_SET_MASK) /
					 sizeof(*home));
}

/* Nobody is in the set of @key, as of most where the table has room. */
static __always_inline bool tcplat_socktab_nobody(const struct tcplat_socktab *tab, u64 key)
{
	u64 *home = tcplat_socktab_home(tab, key);
	unsigned int i;
	u64 any = 0;

	for (i = 0; i < TCPLAT_SET_SLOTS; i++)
		any |= READ_ONCE(*tcplat_socktab_slot(home, i));
	return !any;
}

/*
 * The slot of the socket @key, or NULL; *@word is what it held. The word names the
 * socket: (*@word ^ @key) is its state.
 */
static __always_inline u64 *tcplat_socktab_find(const struct tcplat_socktab *tab,
						u64 key, u64 *word)
{
	u64 *home = tcplat_socktab_home(tab, key);
	u64 *slot = home;
	unsigned int i;

	for (i = 0; i < TCPLAT_SET_SLOTS; slot = tcplat_socktab_after(home, ++i)) {
		*word = READ_ONCE(*slot);
		if ((*word ^ key) <= TCPLAT_STATE_MASK)
			return slot;
	}
	return NULL;
}

/* Replaces @old by @new (0 frees the slot); false if the slot is not @old any more. */
static __always_inline bool tcplat_socktab_change(u64 *slot, u64 old, u64 new)
{
	return cmpxchg(slot, old, new) == old;
}

int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets);
void tcplat_socktab_free(struct tcplat_socktab *tab);
u64 tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word);

static inline unsigned long tcplat_socktab_slots(const struct tcplat_socktab *tab)
{
	return 1UL << (64 - tab->shift);
}

#endif /* _TCPLAT_SOCKTAB_H */
