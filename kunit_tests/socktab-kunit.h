/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the socket table.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/sizes.h>

#include "tcplat-kunit.h"

#define SETS	4

static void socktab_give_back(void *tab)
{
	tcplat_socktab_free(tab);
}

static struct tcplat_socktab *socktab_for(struct kunit *test, unsigned int sockets)
{
	struct tcplat_socktab *tab = kunit_new(test, sizeof(*tab));

	tab->record = sizeof(u64);
	tab->held = kunit_new(test, sizeof(*tab->held) << TCPLAT_HELD_BITS);
	KUNIT_ASSERT_EQ(test, tcplat_socktab_alloc(tab, sockets), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, socktab_give_back, tab), 0);
	return tab;
}

static struct tcplat_socktab *socktab(struct kunit *test)
{
	return socktab_for(test, SETS * TCPLAT_SET_SLOTS / 2);
}

static unsigned int socktab_set_of(const struct tcplat_socktab *tab, const u64 *slot)
{
	return (slot - tab->slots) / TCPLAT_SET_SLOTS;
}

/* Returns the @n-th of the addresses whose sets have the indexes @first and @second. */
static u64 socktab_key2(const struct tcplat_socktab *tab, unsigned int first,
			unsigned int second, unsigned int n)
{
	u64 key = 0xffff888012340000;

	for (;; key += TCPLAT_STATE_MASK + 1)
		if (socktab_set_of(tab, tcplat_socktab_home(tab, key)) == first &&
		    socktab_set_of(tab, tcplat_socktab_second(tab, key)) == second && !n--)
			return key;
}

/* The same, for addresses whose two sets both have the index @set. */
static u64 socktab_key(const struct tcplat_socktab *tab, unsigned int set, unsigned int n)
{
	return socktab_key2(tab, set, set, n);
}

static void socktab_clear(struct tcplat_socktab *tab)
{
	memset(tab->slots, 0, tcplat_socktab_slots(tab) * sizeof(*tab->slots));
	memset(tab->held, 0, sizeof(*tab->held) << TCPLAT_HELD_BITS);
}

/* The number of sockets in the table, or -1 if the counts by hash do not add up to it. */
static int socktab_used(const struct tcplat_socktab *tab)
{
	int i, n = tcplat_socktab_count(tab, NULL), held = 0;

	for (i = 0; i < 1 << TCPLAT_HELD_BITS; i++)
		held += atomic_read(&tab->held[i]);
	return held == n ? n : -1;
}

static bool socktab_has(const struct tcplat_socktab *tab, u64 key, u64 state)
{
	u64 word;

	return tcplat_socktab_find(tab, key, &word) && word == (key | state);
}

/* A walk from any slot visits exactly the slots of its set. */
static void socktab_goes_around_its_set(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned long first, i, n;
	u64 seen;

	KUNIT_EXPECT_EQ(test, tcplat_socktab_slots(tab), SETS * TCPLAT_SET_SLOTS);
	KUNIT_EXPECT_EQ(test, (unsigned long)tab->slots % 64, 0);
	for (i = 0; i < tcplat_socktab_slots(tab); i++) {
		KUNIT_EXPECT_PTR_EQ(test, tcplat_socktab_nth(tab->slots + i, 0),
				    tab->slots + i);
		for (n = 0, seen = 0; n < TCPLAT_SET_SLOTS; n++)
			seen |= 1ULL << (tcplat_socktab_nth(tab->slots + i, n) - tab->slots);
		first = i / TCPLAT_SET_SLOTS * TCPLAT_SET_SLOTS;
		KUNIT_EXPECT_EQ(test, seen, 0xffULL << first);
	}
}

/* The socket is found in this slot, and not the nearest addresses that other sockets can have. */
static void socktab_finds(struct kunit *test, const struct tcplat_socktab *tab, u64 key,
			  const u64 *slot, u64 expected)
{
	u64 word;

	KUNIT_ASSERT_PTR_EQ(test, tcplat_socktab_find(tab, key, &word), slot);
	KUNIT_ASSERT_EQ(test, word, expected);
	KUNIT_ASSERT_EQ(test, *slot, expected);
	KUNIT_ASSERT_NULL(test, tcplat_socktab_find(tab, key + 64, &word));
	KUNIT_ASSERT_NULL(test, tcplat_socktab_find(tab, key - 64, &word));
}

static void socktab_insert_and_hit(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key = socktab_key(tab, 1, 0);
	u64 state, claim, *slot;

	for (state = 0; state <= TCPLAT_STATE_MASK; state++) {
		slot = tcplat_socktab_insert(tab, key | state);
		KUNIT_ASSERT_NOT_NULL(test, slot);
		socktab_finds(test, tab, key, slot, key | state);
		/* A word with a token still matches its socket, and no other. */
		claim = (key & ~TCPLAT_TOKEN_MASK) | 0x5aULL << TCPLAT_TOKEN_SHIFT | state;
		KUNIT_ASSERT_TRUE(test, tcplat_socktab_change(slot, key | state, claim));
		socktab_finds(test, tab, key, slot, claim);
		KUNIT_ASSERT_EQ(test, socktab_used(tab), 1);
		KUNIT_ASSERT_TRUE(test, tcplat_socktab_may_have(tab->held, (struct sock *)key));
		KUNIT_ASSERT_EQ(test, tcplat_socktab_remove(tab, key), claim);
		KUNIT_ASSERT_EQ(test, tcplat_socktab_remove(tab, key), 0);
		KUNIT_ASSERT_EQ(test, socktab_used(tab), 0);
		KUNIT_ASSERT_FALSE(test, tcplat_socktab_may_have(tab->held, (struct sock *)key));
	}
}

/*
 * Sockets that collide are stored side by side, and stay in full sets, while others are refused. A
 * removed socket's slot is reused.
 */
static void socktab_full_sets_refuse(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key[TCPLAT_SET_SLOTS + 4];
	u64 *freed;
	u64 word;
	int i;

	for (i = 0; i < ARRAY_SIZE(key); i++) {
		key[i] = socktab_key(tab, 2, i);
		KUNIT_ASSERT_EQ(test, !!tcplat_socktab_insert(tab, key[i] | i),
				i < TCPLAT_SET_SLOTS);
	}
	KUNIT_EXPECT_EQ(test, socktab_used(tab), TCPLAT_SET_SLOTS);
	for (i = 0; i < ARRAY_SIZE(key); i++)
		KUNIT_EXPECT_EQ(test, socktab_has(tab, key[i], i), i < TCPLAT_SET_SLOTS);

	freed = tcplat_socktab_find(tab, key[5], &word);
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_remove(tab, key[5]));
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(tab, key[5], &word));
	/* Sockets after the gap are still found. */
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[6], 6));
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[7], 7));

	KUNIT_EXPECT_TRUE(test, tcplat_socktab_insert(tab, key[8] | 9));
	KUNIT_EXPECT_PTR_EQ(test, tcplat_socktab_find(tab, key[8], &word), freed);
	KUNIT_EXPECT_EQ(test, word, key[8] | 9);
	/* A recycled address has a new state. */
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_remove(tab, key[8]));
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_insert(tab, key[8] | 0));
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[8], 0));
}

/*
 * New sockets of a crowded set are stored in their second set. In both, only the socket's own
 * state matches, in any slot; none matches while a token is set.
 */
static void socktab_second_set(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key, state, word, *slot;
	int i, first = 0;

	for (i = 0; i < 2 * TCPLAT_SET_SLOTS; i++) {
		key = socktab_key2(tab, 1, 2, i);
		for (state = 0; state <= TCPLAT_STATE_MASK; state++)
			KUNIT_EXPECT_FALSE(test, tcplat_socktab_is(tab, key, state));
		slot = tcplat_socktab_insert(tab, key | i);
		KUNIT_ASSERT_NOT_NULL(test, slot);
		KUNIT_EXPECT_TRUE(test, socktab_has(tab, key, i));
		for (state = 0; state <= TCPLAT_STATE_MASK; state++)
			KUNIT_EXPECT_EQ(test, tcplat_socktab_is(tab, key, state), state == i);
		first += socktab_set_of(tab, slot) == 1;
		if (i == 2 * TCPLAT_SET_CROWDED - 1)
			KUNIT_EXPECT_EQ(test, first, TCPLAT_SET_CROWDED);
		word = READ_ONCE(*slot);
		*slot = (word & ~TCPLAT_TOKEN_MASK) | 3ULL << TCPLAT_TOKEN_SHIFT;
		KUNIT_EXPECT_FALSE(test, tcplat_socktab_is(tab, key, i));
		*slot = word;
	}
	for (i = 0; i < 2 * TCPLAT_SET_SLOTS; i++) {
		key = socktab_key2(tab, 1, 2, i);
		KUNIT_EXPECT_TRUE(test, tcplat_socktab_is(tab, key, i));
		KUNIT_EXPECT_TRUE(test, tcplat_socktab_remove(tab, key));
	}
	KUNIT_EXPECT_EQ(test, socktab_used(tab), 0);
}

/* As many sockets as the table is made for find room, in any order of insertion and removal. */
static void socktab_holds_its_limit(struct kunit *test)
{
	const unsigned int limit = 4096;
	struct tcplat_socktab *tab = socktab_for(test, limit);
	struct rnd_state rnd = kunit_random();
	unsigned int i, refused = 0;
	u64 *key = kunit_new(test, limit * sizeof(*key));

	for (i = 0; i < 50 * limit; i++) {
		unsigned int n = i < limit ? i : prandom_u32_state(&rnd) % limit;

		if (key[n])
			KUNIT_ASSERT_TRUE(test, tcplat_socktab_remove(tab, key[n]));
		/* As slabs allocate them: all over memory, in steps of a socket's size. */
		key[n] = 0xffff888000000000 +
			 (u64)(prandom_u32_state(&rnd) % 262144 * limit + n) * 2304;
		if (!tcplat_socktab_insert(tab, key[n])) {
			refused++;
			key[n] = 0;
		}
	}
	kunit_info(test, "%u of %u refused\n", refused, 50 * limit);
	KUNIT_EXPECT_LE(test, refused, 2);
	for (i = 0; i < limit; i++)
		KUNIT_ASSERT_EQ(test, !!key[i], key[i] && socktab_has(tab, key[i], 0));
	KUNIT_EXPECT_GE(test, socktab_used(tab), limit - 2);
}

/*
 * Number of @n sockets, allocated one after the other in slabs of 32 kB, that are not stored in
 * their home slot. @step is the distance of slabs, in slabs.
 */
static unsigned int socktab_away(struct kunit *test, struct tcplat_socktab *tab, unsigned int n,
				 unsigned int size, unsigned int step)
{
	const unsigned int per_slab = SZ_32K / size;
	unsigned int i, away = 0;
	u64 key, slab;

	for (i = 0; i < n; i++) {
		slab = 0xffff888010000000 + (u64)(i / per_slab) * step * SZ_32K;
		key = slab + i % per_slab * size;
		away += tcplat_socktab_insert(tab, key) != tcplat_socktab_home(tab, key);
	}
	KUNIT_EXPECT_EQ(test, socktab_used(tab), n);
	socktab_clear(tab);
	return away;
}

/*
 * With a fifth of the slots in use, most sockets are stored in their home slot, whatever the size
 * of a socket: that differs between kernels. With random hashes, a tenth would not be.
 */
static void socktab_most_live_at_home(struct kunit *test)
{
	const unsigned int limit = 65536, n = 2 * limit / 5;
	struct tcplat_socktab *tab = socktab_for(test, limit);
	unsigned int size, step, away, sum = 0, runs = 0;

	for (step = 1; step <= 2; step++)
		for (size = 2240; size <= 2752; size += 64, runs++) {
			away = socktab_away(test, tab, n, size, step);
			KUNIT_EXPECT_LT_MSG(test, away, n / 4, "size %u, step %u", size, step);
			sum += away;
		}
	kunit_info(test, "%u of %u not at home\n", sum, runs * n);
	KUNIT_EXPECT_LT(test, sum, runs * n / 20);
}

/*
 * A change that loses a race between the lookup and the change: the state was changed, the socket
 * was freed, or another socket was stored in the slot.
 */
static void socktab_change_that_lost(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key = socktab_key(tab, 1, 0), other = socktab_key(tab, 1, 1);
	u64 words[] = { key | 2, 0, other | 1, other | 0 };
	u64 *slot;
	u64 word;
	int i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		socktab_clear(tab);
		tcplat_socktab_insert(tab, key);
		slot = tcplat_socktab_find(tab, key, &word);
		KUNIT_ASSERT_NOT_NULL(test, slot);

		WRITE_ONCE(*slot, words[i]);
		KUNIT_EXPECT_FALSE(test, tcplat_socktab_change(slot, word, key | 1));
		KUNIT_EXPECT_FALSE(test, tcplat_socktab_change(slot, word, 0));
		KUNIT_EXPECT_EQ(test, *slot, words[i]);
		/* Another lookup returns the current contents. */
		KUNIT_EXPECT_EQ(test, !!tcplat_socktab_find(tab, key, &word), i == 0);
		KUNIT_EXPECT_EQ(test, tcplat_socktab_count(tab, NULL), i != 1);
	}
}

/* ---- several threads on one set ---- */

#define PLAYERS		3
#define PLAYER_KEYS	6
#define PLAYER_MOVES	60000

struct player {
	struct tcplat_socktab *tab;
	struct completion done;
	u64 key[PLAYER_KEYS];
	const struct player *all;
	u32 seed;
	unsigned long inserted, removed, refused, wrong;
};

/* Inserts and removes the thread's own sockets, and changes the state of any socket. */
static int socktab_play(void *data)
{
	struct player *player = data;
	struct tcplat_socktab *tab = player->tab;
	struct rnd_state rnd;
	u64 key, word;
	u64 *slot;
	int i;

	prandom_seed_state(&rnd, player->seed);
	for (i = 0; i < PLAYER_MOVES; i++) {
		u32 r = prandom_u32_state(&rnd);
		const struct player *owner = r & 0x100 ? &player->all[r % PLAYERS] : player;

		key = owner->key[(r >> 16) % PLAYER_KEYS];
		if (r & 0x100) {
			slot = tcplat_socktab_find(tab, key, &word);
			if (slot)
				tcplat_socktab_change(slot, word, key | (r >> 26));
		} else if (!(r & 0x200)) {
			player->removed += !!tcplat_socktab_remove(tab, key);
			/* No other thread inserts the socket again. */
			player->wrong += !!tcplat_socktab_find(tab, key, &word);
		} else if (!tcplat_socktab_find(tab, key, &word)) {
			slot = tcplat_socktab_insert(tab, key | (r >> 26));
			player->inserted += !!slot;
			player->refused += !slot;
		}
	}
	complete(&player->done);
	return 0;
}

static void socktab_many_at_once(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned long inserted = 0, removed = 0, refused = 0, i, j, k;
	struct player *players = kunit_new(test, PLAYERS * sizeof(*players));

	for (i = 0; i < PLAYERS; i++) {
		players[i].tab = tab;
		players[i].all = players;
		players[i].seed = i + 1;
		init_completion(&players[i].done);
		for (j = 0; j < PLAYER_KEYS; j++)
			players[i].key[j] = socktab_key(tab, 2, i * PLAYER_KEYS + j);
	}
	for (i = 0; i < PLAYERS; i++) {
		/* Do not return: the other threads still use the table. */
		if (IS_ERR(kthread_run(socktab_play, &players[i], "tcplat_kunit/%lu", i))) {
			KUNIT_FAIL(test, "no thread");
			complete(&players[i].done);
		}
	}
	for (i = 0; i < PLAYERS; i++) {
		wait_for_completion(&players[i].done);
		KUNIT_EXPECT_EQ(test, players[i].wrong, 0);
		inserted += players[i].inserted;
		removed += players[i].removed;
		refused += players[i].refused;
	}
	KUNIT_EXPECT_GT(test, refused, 0);
	KUNIT_EXPECT_GT(test, removed, 0);
	KUNIT_EXPECT_EQ(test, inserted, removed + socktab_used(tab));

	/* No socket is stored twice. */
	for (i = 0; i < tcplat_socktab_slots(tab); i++)
		for (j = 0; j < i; j++) {
			k = (tab->slots[i] ^ tab->slots[j]) & ~TCPLAT_STATE_MASK;
			KUNIT_EXPECT_TRUE(test, k || !tab->slots[i]);
		}
}

TCPLAT_SUITE(socktab,
	     KUNIT_CASE(socktab_goes_around_its_set),
	     KUNIT_CASE(socktab_insert_and_hit),
	     KUNIT_CASE(socktab_full_sets_refuse),
	     KUNIT_CASE(socktab_second_set),
	     KUNIT_CASE(socktab_holds_its_limit),
	     KUNIT_CASE(socktab_most_live_at_home),
	     KUNIT_CASE(socktab_change_that_lost),
	     KUNIT_CASE(socktab_many_at_once));
