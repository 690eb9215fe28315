/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The socket table: a few bits about each socket, in one 64-bit word a socket.
 *
 * A slot holds the socket's address, whose low six bits are zero because the slab
 * aligns sockets to cache lines, with six bits of state in their place. Slots are
 * grouped into sets of one cache line; a socket lives in the set its address hashes
 * to, or nowhere. No lock, no allocation, no reference to the socket: the address
 * is a name and is never followed.
 *
 * Whoever inserts or removes a socket must hold its lock, so that no socket gets in
 * twice; state may be changed by anyone. Slots are changed by cmpxchg only, since
 * another socket of the set may be put in a slot's place at any time. Nothing else
 * needs ordering: a slot is all there is to publish, two events of a socket are
 * ordered by its lock, and a recycled address by the allocator that recycled it,
 * whatever the machine's memory model.
 */
#ifndef _TCPLAT_SOCKTAB_H
#define _TCPLAT_SOCKTAB_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/types.h>

#define TCPLAT_SET_SLOTS	8
#define TCPLAT_STATE_MASK	0x3fUL

/**
 * struct tcplat_socktab - the table
 * @slots: 2^(@set_bits) sets of TCPLAT_SET_SLOTS slots, aligned to cache lines
 * @set_bits: log2 of the number of sets
 */
struct tcplat_socktab {
	u64 *slots;
	unsigned int set_bits;
};

static __always_inline u64 *tcplat_socktab_set(const struct tcplat_socktab *tab,
					       u64 key)
{
	return tab->slots + hash_64(key, tab->set_bits) * TCPLAT_SET_SLOTS;
}

/*
 * The slot of the socket @key, or NULL; *@word is what it held. The word names the
 * socket: (*@word ^ @key) is its state.
 */
static __always_inline u64 *tcplat_socktab_find(const struct tcplat_socktab *tab,
						u64 key, u64 *word)
{
	u64 *slot = tcplat_socktab_set(tab, key);
	u64 *end = slot + TCPLAT_SET_SLOTS;

	for (; slot < end; slot++) {
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
	return (unsigned long)TCPLAT_SET_SLOTS << tab->set_bits;
}

#endif /* _TCPLAT_SOCKTAB_H */
