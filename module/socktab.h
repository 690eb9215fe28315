/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The socket table: a few bits about each socket, in one 64-bit word per socket.
 *
 * A word holds the socket's address. Sockets are aligned to cache lines, so the low six bits are
 * free for the state. The top eight bits, which do not tell sockets apart, hold a token after a
 * CPU without the socket's lock has observed the socket, until the owner of the lock does.
 *
 * Slots are grouped into sets of one cache line; each socket has two sets. It is stored in its
 * home slot, else in the next free slot of its first set, or, once that set is more than half
 * full, of the emptier set. The table has twice as many slots as the number of sockets that it
 * is made for, so that both sets of a socket are full about once in ten million insertions.
 * Nothing is evicted: a socket that finds no room is not stored. The table takes no lock, allocates
 * nothing and holds no reference to a socket: the address is only a key and is never
 * dereferenced.
 *
 * Only the owner of a socket's lock inserts or removes the socket, so that no socket is stored
 * twice. State is changed with cmpxchg only, by any CPU. No other ordering is needed on any
 * architecture, since a slot is the only thing that is published. The socket's lock orders two
 * events of the socket, so the second one sees the slot that the first one wrote. The allocator
 * orders the users of a recycled address.
 *
 * A cache line is written only when one of its sockets is inserted, removed or changed. Events
 * in between only read it, so CPUs can share it.
 *
 * Few sockets are in a table of exceptional sockets. Such a table also has a count of its sockets
 * for each of 4,096 hash values, so that one load usually tells that a socket is not in it.
 */
#ifndef _TCPLAT_SOCKTAB_H
#define _TCPLAT_SOCKTAB_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/types.h>

#include "compat.h"

#define TCPLAT_SET_SLOTS	8
#define TCPLAT_STATE_MASK	0x3fUL

/* A socket is stored in the emptier of its sets once the first one has this many sockets. */
#define TCPLAT_SET_CROWDED	5

#define TCPLAT_TOKEN_SHIFT	56
#define TCPLAT_TOKEN_MASK	(0xffUL << TCPLAT_TOKEN_SHIFT)
#define TCPLAT_ADDRESS_MASK	(~(TCPLAT_TOKEN_MASK | TCPLAT_STATE_MASK))

/* Number of counts in @held of struct tcplat_socktab, as a power of two. */
#define TCPLAT_HELD_BITS	12

/**
 * struct tcplat_socktab - the socket table
 * @slots: sets of TCPLAT_SET_SLOTS slots each, aligned to cache lines; NULL if not allocated
 * @records: for each slot a record of the table's user, written under the socket's lock only
 * @record: size of a record, in bytes
 * @held: 1 << TCPLAT_HELD_BITS counts of sockets by hash, or NULL
 * @shift: a 64-bit hash, shifted right by this, is the index of a slot
 */
struct tcplat_socktab {
	u64 *slots;
	void *records;
	size_t record;
	atomic_t *held;
	unsigned int shift;
};

static __always_inline u64 tcplat_sock_key(const struct sock *sk)
{
	return (unsigned long)sk;
}

/* Whether a slot of a set holds exactly @word. Unrolled, since it runs for each segment. */
static __always_inline bool tcplat_set_has(const u64 *set, u64 word)
{
	BUILD_BUG_ON(TCPLAT_SET_SLOTS != 8);
	return READ_ONCE(set[0]) == word || READ_ONCE(set[1]) == word ||
	       READ_ONCE(set[2]) == word || READ_ONCE(set[3]) == word ||
	       READ_ONCE(set[4]) == word || READ_ONCE(set[5]) == word ||
	       READ_ONCE(set[6]) == word || READ_ONCE(set[7]) == word;
}

/* The mask is a no-op that keeps UBSAN from checking the shift at each call. */
static __always_inline u64 *tcplat_socktab_slot(const struct tcplat_socktab *tab, u64 hash)
{
	return tab->slots + (hash >> (tab->shift & 63));
}

/*
 * Slabs place sockets at regular distances. A search for a multiplier with which few of them share
 * a home slot, whatever the size of a socket, found this one. With the golden ratio, nearly all of
 * the newest sockets of a busy host can be outside of their home slots.
 */
static __always_inline u64 tcplat_socktab_hash(u64 key)
{
	return key * 0xd2a157aa1b39fb6fULL;
}

static __always_inline u64 tcplat_sock_hash(const struct sock *sk)
{
	return tcplat_socktab_hash(tcplat_sock_key(sk));
}

static __always_inline u64 *tcplat_socktab_home(const struct tcplat_socktab *tab, u64 key)
{
	return tcplat_socktab_slot(tab, tcplat_socktab_hash(key));
}

static __always_inline atomic_t *tcplat_socktab_held(atomic_t *held, u64 hash)
{
	return &held[hash >> (64 - TCPLAT_HELD_BITS)];
}

/* If false, the socket is not in the table whose counts are @held. */
static __always_inline bool tcplat_socktab_may_have(atomic_t *held, const struct sock *sk)
{
	return atomic_read(tcplat_socktab_held(held, tcplat_sock_hash(sk)));
}

/* A slot of the socket's second set. Another odd multiplier makes the two sets independent. */
static __always_inline u64 *tcplat_socktab_second(const struct tcplat_socktab *tab, u64 key)
{
	return tcplat_socktab_slot(tab, key * 0xc2b2ae3d27d4eb4fULL);
}

/* The first slot of the set that contains @slot. */
static __always_inline u64 *tcplat_socktab_set(u64 *slot)
{
	return (u64 *)((unsigned long)slot & ~(TCPLAT_SET_SLOTS * sizeof(u64) - 1));
}

/* The @n-th slot of the set of @first, in the order of a walk that begins at @first. */
static __always_inline u64 *tcplat_socktab_nth(u64 *first, unsigned int n)
{
	return (u64 *)((unsigned long)first ^ n * sizeof(u64));
}

static __always_inline bool tcplat_socktab_set_is_empty(u64 *first)
{
	const u64 *set = tcplat_socktab_set(first);

	/* Unrolled, since the compiler's loop takes five instructions per slot. */
	BUILD_BUG_ON(TCPLAT_SET_SLOTS != 8);
	return !(READ_ONCE(set[0]) | READ_ONCE(set[1]) | READ_ONCE(set[2]) | READ_ONCE(set[3]) |
		 READ_ONCE(set[4]) | READ_ONCE(set[5]) | READ_ONCE(set[6]) | READ_ONCE(set[7]));
}

/* If true, the socket is not in the table. Cheaper than a search. */
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

/* Whether the table has the socket @key with exactly this state, and no token. */
static __always_inline bool tcplat_socktab_is(const struct tcplat_socktab *tab, u64 key,
					      u64 state)
{
	u64 differs = READ_ONCE(*tcplat_socktab_home(tab, key)) ^ key;

	if (likely(differs == state))
		return true;
	/* The socket is in its home slot, in another state. */
	if (differs <= TCPLAT_STATE_MASK)
		return false;
	return tcplat_socktab_has(tab, key | state);
}

/*
 * The slot of the socket @key, or NULL. *@word is set to the slot's word, whose low bits are
 * the socket's state.
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
	/* Without the socket's lock, the socket may have been removed meanwhile. */
	*word = READ_ONCE(*slot);
	return tcplat_socktab_same(*word, key) ? slot : NULL;
}

/* Replaces @old by @new; returns false if the slot no longer holds @old. */
static __always_inline bool tcplat_socktab_change(u64 *slot, u64 old, u64 new)
{
	return cmpxchg(slot, old, new) == old;
}

/* Removes the socket @key from @slot. Returns the word that the slot held. */
static __always_inline u64 tcplat_socktab_remove_at(struct tcplat_socktab *tab, u64 key,
						    u64 *slot)
{
	u64 word;

	do {
		word = READ_ONCE(*slot);
	} while (!tcplat_socktab_change(slot, word, 0));
	if (tab->held)
		atomic_dec(tcplat_socktab_held(tab->held, tcplat_socktab_hash(key)));
	return word;
}

int tcplat_socktab_alloc(struct tcplat_socktab *tab, unsigned int sockets);
void tcplat_socktab_free(struct tcplat_socktab *tab);
u64 *tcplat_socktab_insert(struct tcplat_socktab *tab, u64 word);
u64 tcplat_socktab_remove(struct tcplat_socktab *tab, u64 key);
u64 tcplat_socktab_count(const struct tcplat_socktab *tab, u64 *by_state);

/* Number of slots; 0 if the table is not allocated. */
static inline unsigned long tcplat_socktab_slots(const struct tcplat_socktab *tab)
{
	return tab->slots ? 1UL << (64 - tab->shift) : 0;
}

#endif /* _TCPLAT_SOCKTAB_H */
