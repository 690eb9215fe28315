/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the socket table.
 */
#include <linux/completion.h>
#include <linux/kthread.h>

#include "tcplat-kunit.h"

#define SETS	4

static void socktab_give_back(void *tab)
{
	tcplat_socktab_free(tab);
}

static struct tcplat_socktab *socktab(struct kunit *test)
{
	struct tcplat_socktab *tab = kunit_kzalloc(test, sizeof(*tab), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tab);
	KUNIT_ASSERT_EQ(test, tcplat_socktab_alloc(tab, SETS * TCPLAT_SET_SLOTS), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, socktab_give_back, tab), 0);
	return tab;
}

static unsigned int socktab_set(const struct tcplat_socktab *tab, u64 key)
{
	return (tcplat_socktab_home(tab, key) - tab->slots) / TCPLAT_SET_SLOTS;
}

/* The @n-th address, of as many as one likes, that lives in the set of number @set. */
static u64 socktab_key(const struct tcplat_socktab *tab, unsigned int set, unsigned int n)
{
	u64 key = 0xffff888012340000;

	for (;; key += TCPLAT_STATE_MASK + 1)
		if (socktab_set(tab, key) == set && !n--)
			return key;
}

static unsigned int socktab_used(const struct tcplat_socktab *tab)
{
	unsigned long i;
	unsigned int n = 0;

	for (i = 0; i < tcplat_socktab_slots(tab); i++)
		n += !!tab->slots[i];
	return n;
}

static bool socktab_has(const struct tcplat_socktab *tab, u64 key, u64 state)
{
	u64 word;

	return tcplat_socktab_find(tab, key, &word) && word == (key | state);
}

static void socktab_empty(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 word;
	int i;

	KUNIT_EXPECT_EQ(test, tcplat_socktab_slots(tab), SETS * TCPLAT_SET_SLOTS);
	KUNIT_EXPECT_EQ(test, (unsigned long)tab->slots % 64, 0);
	KUNIT_EXPECT_EQ(test, socktab_used(tab), 0);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_NULL(test, tcplat_socktab_find(tab, socktab_key(tab, i % SETS, i),
							    &word));
}

static void socktab_all_slots_are_homes(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned int i;
	u64 seen = 0;
	long at;

	for (i = 0; i < 1000; i++) {
		at = tcplat_socktab_home(tab, 0xffff888000000000 + i * 64ULL) - tab->slots;
		KUNIT_ASSERT_GE(test, at, 0);
		KUNIT_ASSERT_LT(test, at, tcplat_socktab_slots(tab));
		seen |= 1ULL << at;
	}
	KUNIT_EXPECT_EQ(test, seen, (1ULL << SETS * TCPLAT_SET_SLOTS) - 1);
}

/* From each slot one goes through the others of its set, and no others. */
static void socktab_goes_around_its_set(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned long first, i, n;
	u64 seen;

	for (i = 0; i < tcplat_socktab_slots(tab); i++) {
		KUNIT_EXPECT_PTR_EQ(test, tcplat_socktab_after(tab->slots + i, 0),
				    tab->slots + i);
		for (n = 0, seen = 0; n < TCPLAT_SET_SLOTS; n++)
			seen |= 1ULL << (tcplat_socktab_after(tab->slots + i, n) - tab->slots);
		first = i / TCPLAT_SET_SLOTS * TCPLAT_SET_SLOTS;
		KUNIT_EXPECT_EQ(test, seen, 0xffULL << first);
	}
}

/* Who came to a full set, or first, is where one looks first. */
static void socktab_lives_at_home(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned int i, n = 0;
	u64 word;

	for (i = 0; i < 100; i++) {
		u64 key = socktab_key(tab, 1, i);
		bool first = !*tcplat_socktab_home(tab, key);

		if (!tcplat_socktab_insert(tab, key) && !first)
			continue;
		KUNIT_EXPECT_PTR_EQ(test, tcplat_socktab_find(tab, key, &word),
				    tcplat_socktab_home(tab, key));
		n++;
	}
	KUNIT_EXPECT_GE(test, n, 100 - TCPLAT_SET_SLOTS);
}

static void socktab_insert_and_hit(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key = socktab_key(tab, 1, 0);
	u64 state, word;
	u64 *slot;

	for (state = 0; state <= TCPLAT_STATE_MASK; state++) {
		KUNIT_ASSERT_EQ(test, tcplat_socktab_insert(tab, key | state), 0);
		slot = tcplat_socktab_find(tab, key, &word);
		KUNIT_ASSERT_NOT_NULL(test, slot);
		KUNIT_ASSERT_EQ(test, word, key | state);
		KUNIT_ASSERT_EQ(test, word ^ key, state);
		KUNIT_ASSERT_EQ(test, *slot, word);
		KUNIT_ASSERT_TRUE(test, tcplat_socktab_change(slot, word, 0));
	}
	KUNIT_EXPECT_EQ(test, socktab_used(tab), 0);
}

/* The neighbours' addresses differ by the least that two sockets' can. */
static void socktab_neighbours_are_others(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key = socktab_key(tab, 2, 0);
	u64 word;

	tcplat_socktab_insert(tab, key | TCPLAT_STATE_MASK);
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(tab, key + 64, &word));
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(tab, key - 64, &word));
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key, TCPLAT_STATE_MASK));
}

static void socktab_state_changes(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key = socktab_key(tab, 0, 3);
	u64 *slot;
	u64 word;

	tcplat_socktab_insert(tab, key | 1);
	slot = tcplat_socktab_find(tab, key, &word);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_change(slot, key | 1, key | 2));
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key, 2));
	KUNIT_EXPECT_EQ(test, socktab_used(tab), 1);
}

/* Eight that collide live side by side; what is freed is gone and its slot is used again. */
static void socktab_collide_free_reuse(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key[TCPLAT_SET_SLOTS + 1];
	u64 *freed, *slot;
	u64 word;
	int i;

	for (i = 0; i <= TCPLAT_SET_SLOTS; i++)
		key[i] = socktab_key(tab, 3, i);
	for (i = 0; i < TCPLAT_SET_SLOTS; i++)
		KUNIT_EXPECT_EQ(test, tcplat_socktab_insert(tab, key[i] | i), 0);
	for (i = 0; i < TCPLAT_SET_SLOTS; i++)
		KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[i], i));
	KUNIT_EXPECT_EQ(test, socktab_used(tab), TCPLAT_SET_SLOTS);

	freed = tcplat_socktab_find(tab, key[5], &word);
	KUNIT_ASSERT_NOT_NULL(test, freed);
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_change(freed, word, 0));
	KUNIT_EXPECT_NULL(test, tcplat_socktab_find(tab, key[5], &word));
	/* Those behind the gap are still found. */
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[6], 6));
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[7], 7));

	KUNIT_EXPECT_EQ(test, tcplat_socktab_insert(tab, key[8] | 9), 0);
	slot = tcplat_socktab_find(tab, key[8], &word);
	KUNIT_EXPECT_PTR_EQ(test, slot, freed);
	KUNIT_EXPECT_EQ(test, word, key[8] | 9);
	/* A recycled address begins anew. */
	KUNIT_EXPECT_TRUE(test, tcplat_socktab_change(slot, word, 0));
	KUNIT_EXPECT_EQ(test, tcplat_socktab_insert(tab, key[8] | 0), 0);
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, key[8], 0));
}

static void socktab_evicts_one_of_a_full_set(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	u64 key[100];
	u64 other = socktab_key(tab, 1, 0);
	u64 word, out;
	int i, j, gone;

	tcplat_socktab_insert(tab, other | 5);
	for (i = 0; i < ARRAY_SIZE(key); i++) {
		key[i] = socktab_key(tab, 2, i);
		out = tcplat_socktab_insert(tab, key[i] | i % 3);
		KUNIT_ASSERT_TRUE(test, socktab_has(tab, key[i], i % 3));
		KUNIT_ASSERT_EQ(test, !!out, i >= TCPLAT_SET_SLOTS);
		if (!out)
			continue;
		/* One that was there, with its state, is the one that is not there now. */
		for (j = 0, gone = -1; j < i; j++)
			if ((out & ~(u64)TCPLAT_STATE_MASK) == key[j])
				gone = j;
		KUNIT_ASSERT_GE(test, gone, 0);
		KUNIT_ASSERT_EQ(test, out, key[gone] | gone % 3);
		KUNIT_ASSERT_NULL(test, tcplat_socktab_find(tab, key[gone], &word));
		KUNIT_ASSERT_EQ(test, socktab_used(tab), TCPLAT_SET_SLOTS + 1);
	}
	KUNIT_EXPECT_TRUE(test, socktab_has(tab, other, 5));
}

/* Not the same slot each time: a set would be one slot wide then. */
static void socktab_victims_are_spread(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned int slots = 0, i;
	u64 *slot;
	u64 word;

	for (i = 0; i < 200; i++) {
		u64 key = socktab_key(tab, 0, i);

		if (!tcplat_socktab_insert(tab, key))
			continue;
		slot = tcplat_socktab_find(tab, key, &word);
		KUNIT_ASSERT_NOT_NULL(test, slot);
		slots |= 1 << (slot - tab->slots);
	}
	KUNIT_EXPECT_EQ(test, slots, (1 << TCPLAT_SET_SLOTS) - 1);
}

/*
 * A change that comes too late, with the other one between finding and changing: the
 * state was changed, the socket was freed, or another was put in its place.
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
		memset(tab->slots, 0, tcplat_socktab_slots(tab) * sizeof(*tab->slots));
		tcplat_socktab_insert(tab, key);
		slot = tcplat_socktab_find(tab, key, &word);
		KUNIT_ASSERT_NOT_NULL(test, slot);

		WRITE_ONCE(*slot, words[i]);
		KUNIT_EXPECT_FALSE(test, tcplat_socktab_change(slot, word, key | 1));
		KUNIT_EXPECT_FALSE(test, tcplat_socktab_change(slot, word, 0));
		KUNIT_EXPECT_EQ(test, *slot, words[i]);
		/* Looking again tells what to do now. */
		KUNIT_EXPECT_EQ(test, !!tcplat_socktab_find(tab, key, &word), i == 0);
		KUNIT_EXPECT_EQ(test, socktab_used(tab), i != 1);
	}
}

/* ---- several at once on one set ---- */

#define PLAYERS		3
#define PLAYER_KEYS	6
#define PLAYER_MOVES	60000

struct player {
	struct tcplat_socktab *tab;
	struct completion done;
	u64 key[PLAYER_KEYS];
	const struct player *all;
	u32 seed;
	unsigned long inserted, removed, evicted, lost, wrong;
};

/* Its own sockets go in and out; anybody's state is changed. */
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

		if (r & 0x100) {
			key = player->all[r % PLAYERS].key[(r >> 16) % PLAYER_KEYS];
			slot = tcplat_socktab_find(tab, key, &word);
			if (slot && !tcplat_socktab_change(slot, word, key | (r >> 26)))
				player->lost++;
			continue;
		}

		key = player->key[(r >> 16) % PLAYER_KEYS];
		if (r & 0x200) {
			slot = tcplat_socktab_find(tab, key, &word);
			if (slot)
				continue;
			player->inserted++;
			word = tcplat_socktab_insert(tab, key | (r >> 26));
			player->evicted += !!word;
			/* An own one that is not in cannot be thrown out. */
			player->wrong += (word & ~(u64)TCPLAT_STATE_MASK) == key;
			continue;
		}

		while ((slot = tcplat_socktab_find(tab, key, &word))) {
			if (tcplat_socktab_change(slot, word, 0)) {
				player->removed++;
				break;
			}
			player->lost++;
		}
		/* Nobody else puts it in again. */
		player->wrong += !!tcplat_socktab_find(tab, key, &word);
	}
	complete(&player->done);
	return 0;
}

static void socktab_many_at_once(struct kunit *test)
{
	struct tcplat_socktab *tab = socktab(test);
	unsigned long inserted = 0, removed = 0, evicted = 0, lost = 0, i, j, k;
	struct player *players;

	players = kunit_kcalloc(test, PLAYERS, sizeof(*players), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, players);
	for (i = 0; i < PLAYERS; i++) {
		players[i].tab = tab;
		players[i].all = players;
		players[i].seed = i + 1;
		init_completion(&players[i].done);
		for (j = 0; j < PLAYER_KEYS; j++)
			players[i].key[j] = socktab_key(tab, 2, i * PLAYER_KEYS + j);
	}
	for (i = 0; i < PLAYERS; i++) {
		struct task_struct *task;

		task = kthread_run(socktab_play, &players[i], "tcplat_kunit/%lu", i);
		/* The others would go on to use the table. */
		if (IS_ERR(task)) {
			KUNIT_FAIL(test, "no thread");
			complete(&players[i].done);
		}
	}
	for (i = 0; i < PLAYERS; i++) {
		wait_for_completion(&players[i].done);
		KUNIT_EXPECT_EQ(test, players[i].wrong, 0);
		inserted += players[i].inserted;
		removed += players[i].removed;
		evicted += players[i].evicted;
		lost += players[i].lost;
	}
	kunit_info(test, "%lu in, %lu out, %lu evicted, %lu lost to others\n",
		   inserted, removed, evicted, lost);
	KUNIT_EXPECT_GT(test, evicted, 0);
	KUNIT_EXPECT_GT(test, removed, 0);
	KUNIT_EXPECT_EQ(test, inserted, removed + evicted + socktab_used(tab));

	/* And nobody is in twice. */
	for (i = 0; i < tcplat_socktab_slots(tab); i++)
		for (j = 0; j < i; j++) {
			k = (tab->slots[i] ^ tab->slots[j]) & ~TCPLAT_STATE_MASK;
			KUNIT_EXPECT_TRUE(test, k || !tab->slots[i]);
		}
}

static struct kunit_case socktab_cases[] = {
	KUNIT_CASE(socktab_empty),
	KUNIT_CASE(socktab_all_slots_are_homes),
	KUNIT_CASE(socktab_goes_around_its_set),
	KUNIT_CASE(socktab_lives_at_home),
	KUNIT_CASE(socktab_insert_and_hit),
	KUNIT_CASE(socktab_neighbours_are_others),
	KUNIT_CASE(socktab_state_changes),
	KUNIT_CASE(socktab_collide_free_reuse),
	KUNIT_CASE(socktab_evicts_one_of_a_full_set),
	KUNIT_CASE(socktab_victims_are_spread),
	KUNIT_CASE(socktab_change_that_lost),
	KUNIT_CASE(socktab_many_at_once),
	{}
};

static struct kunit_suite socktab_suite = {
	.name = "tcplat_socktab",
	.test_cases = socktab_cases,
};

kunit_test_suite(socktab_suite);
