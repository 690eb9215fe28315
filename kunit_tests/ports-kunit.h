/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of concurrent searches against a copy of the kernel's loop. bats/host/ports_model.c tests
 * single searches.
 */
#include <linux/bitmap.h>

#include "tcplat-kunit.h"

/* Result of the loop: the port, 0 if none; number of ports tried; growth of the slot. */
struct ports_search {
	u32 port;
	u32 tried;
	u32 growth;
};

/*
 * The part of __inet_hash_connect() that chooses the port, with the same variables and statements
 * in the same order. A port is free if it is @only, or if its bit is set in @free. @jitter is the
 * result of get_random_u32_below(8).
 */
static struct ports_search ports_model(const struct tcplat_ports *ports, u32 offset, u32 jitter,
				       u32 only, const unsigned long *free)
{
	struct ports_search search = {};
	bool local_ports = ports->step == 1;
	int step = local_ports ? 1 : 2;
	int i, low = ports->low, high = ports->high;
	u32 remaining;
	int port;

	high++;
	remaining = high - low;
	if (!local_ports && remaining > 1)
		remaining &= ~1U;

	offset %= remaining;
	if (!local_ports)
		offset &= ~1U;
other_parity_scan:
	port = low + offset;
	for (i = 0; i < remaining; i += step, port += step) {
		if (unlikely(port >= high))
			port -= remaining;
		search.tried++;
		if (port == only || (free && test_bit(port, free)))
			goto ok;
	}

	if (!local_ports) {
		offset++;
		if ((offset & 1) && remaining > 1)
			goto other_parity_scan;
	}
	return search;

ok:
	i = max_t(int, i, jitter * step);
	search.growth = i + step;
	search.port = port;
	return search;
}

/* A growth that this search alone cannot have caused is rejected. */
static void ports_growth_must_fit_from(struct kunit *test, const struct tcplat_ports *ports,
				       u32 offset, u32 only)
{
	u32 tried = ports_model(ports, offset, 0, only, NULL).tried;
	unsigned long possible[2] = {};
	u32 growth, jitter;

	for (jitter = 0; jitter < 8; jitter++)
		__set_bit(ports_model(ports, offset, jitter, only, NULL).growth, possible);
	for (growth = 0; growth < 128; growth++)
		KUNIT_ASSERT_EQ(test, tcplat_ports_tried(ports, offset, growth, only),
				test_bit(growth, possible) ? tried : 0);
}

static void ports_growth_must_fit(struct kunit *test)
{
	struct tcplat_ports ports = { .low = 50000, .high = 50059 };
	u32 offset, only;

	for (ports.step = 1; ports.step <= 2; ports.step++)
		for (offset = 0; offset < 60; offset += 7)
			for (only = ports.low; only <= ports.high; only++)
				ports_growth_must_fit_from(test, &ports, offset, only);
	ports.step = 2;
	KUNIT_EXPECT_EQ(test, tcplat_ports_tried(&ports, 0, U32_MAX, 50000), 0);
}

static void ports_growth_of_nobody(struct kunit *test)
{
	const struct tcplat_ports ports = { .low = 50000, .high = 50099, .step = 2 };
	static const u32 rows[] = { 0, 1, 17, 102, 104, U32_MAX, U32_MAX - 1 };

	for_each_row() {
		struct tcplat_tried tried = tcplat_ports_by_growth(&ports, *row, 50001);

		KUNIT_EXPECT_EQ(test, tried.min, 51);
		KUNIT_EXPECT_EQ(test, tried.max, 100);
	}
	KUNIT_EXPECT_EQ(test, tcplat_ports_by_growth(&ports, 100, 50000).min, 50);
	KUNIT_EXPECT_EQ(test, tcplat_ports_by_port(&ports, 49999).max, TCPLAT_PORTS_MOST);
	KUNIT_EXPECT_EQ(test, tcplat_ports_by_port(&ports, 50100).max, TCPLAT_PORTS_MOST);
}

/* ---- concurrent searches, with their steps in any order ---- */

#define RACERS		5
#define RACERS_RANGE	50

enum racer_step {
	RACER_IDLE,
	RACER_STARTS,
	RACER_ANNOUNCES,
	RACER_READS,
	RACER_WRITES,
	RACER_RETURNS,
};

/*
 * A search, with the calls of the module's handlers and the kernel's steps. A stranger is a
 * search whose beginning the module has not seen.
 */
struct racer {
	struct search search;
	struct ports_search result;
	enum racer_step step;
	bool is_stranger;
	u32 slot;
	u32 dst_offset;
	u32 value;
	struct tcp_sock sock;
};

struct race_kind {
	bool see_writes, with_strangers, blind;
	/* Of the searches at least, that are verified. */
	u32 percent;
};

struct race {
	struct kunit *test;
	const struct race_kind *kind;
	struct rnd_state rnd;
	struct tcplat_ports ports;
	unsigned long *free;
	u32 *table;
	struct racer racers[RACERS];
	unsigned long over;
	u32 in_a_row;
	u32 searches;
	u32 verified;
};

static void racer_returns(struct race *race, struct racer *racer)
{
	struct tcplat_tried tried;

	if (racer->is_stranger)
		return;
	tried = end_search(&racer->search, racer->result.port ? 0 : -EADDRNOTAVAIL,
			   racer->result.port);
	race->searches++;
	race->verified += tried.min == tried.max;
	KUNIT_EXPECT_LE(race->test, tried.min, racer->result.tried);
	KUNIT_EXPECT_GE(race->test, tried.max, racer->result.tried);
}

static void racer_goes_on(struct race *race, struct racer *racer)
{
	u32 *slot = &race->table[racer->slot];

	switch (racer->step) {
	case RACER_IDLE:
		racer->is_stranger = race->kind->with_strangers &&
				     prandom_u32_state(&race->rnd) % 16 == 0;
		racer->search.sk = (struct sock *)&racer->sock;
		racer->sock.inet_conn.icsk_bind_hash = NULL;
		racer->search.ports = race->ports;
		if (!racer->is_stranger)
			begin_search(&racer->search, (u64)racer->dst_offset << 32 | racer->slot);
		break;
	case RACER_STARTS:
		racer->result = ports_model(&race->ports, *slot + racer->dst_offset,
					    prandom_u32_state(&race->rnd) % 8, 0, race->free);
		if (!racer->result.port)
			racer->step = RACER_WRITES;
		break;
	case RACER_ANNOUNCES:
		if (racer->is_stranger)
			count_unknown_write();
		else if (sees_writes && !race->kind->blind)
			announce_write(&racer->search);
		break;
	case RACER_READS:
		racer->value = *slot;
		break;
	case RACER_WRITES:
		*slot = racer->value + racer->result.growth;
		if (racer->result.port)
			racer->sock.inet_conn.icsk_bind_hash = (void *)racer;
		break;
	case RACER_RETURNS:
		racer_returns(race, racer);
		racer->step = RACER_IDLE;
		return;
	}
	racer->step++;
}

/*
 * Each search makes @in_a_row steps on average before another one runs. Ends when all have
 * returned. No grace period ends meanwhile, unless the race is blind: then they end at random,
 * and no write is in flight for longer than its search.
 */
static void race_once(struct race *race)
{
	u32 steps = 400, running = 0, i;

	memset(race->racers, 0, sizeof(race->racers));
	bitmap_zero(race->free, 65537);
	/* A wrong start is most likely to be accepted if all ports are free. */
	if (prandom_u32_state(&race->rnd) % 2)
		bitmap_set(race->free, race->ports.low, RACERS_RANGE);
	for (i = 0; i < 1 + prandom_u32_state(&race->rnd) % RACERS_RANGE; i++)
		__set_bit(race->ports.low + prandom_u32_state(&race->rnd) % RACERS_RANGE,
			  race->free);
	for (i = 0; i < RACERS; i++) {
		/* One shares the others' bucket, but not their slot. */
		race->racers[i].slot = i ? 7 : 7 + BUCKETS;
		race->racers[i].dst_offset = 1000003 * (!i + 1);
	}
	rcu_read_lock();
	for (i = 0; i < RACERS || steps; ) {
		struct racer *racer = &race->racers[steps ? running : i];

		if (!steps && racer->step == RACER_IDLE) {
			i++;
			continue;
		}
		racer_goes_on(race, racer);
		if (race->kind->blind && prandom_u32_state(&race->rnd) % 4 == 0)
			unknown_writes.cookie = race->over;
		if (!steps)
			continue;
		steps--;
		if (prandom_u32_state(&race->rnd) % race->in_a_row == 0)
			running = prandom_u32_state(&race->rnd) % RACERS;
	}
	rcu_read_unlock();
}

static void race_forget(void)
{
	memset(buckets, 0, BUCKETS * sizeof(*buckets));
	memset(searching, 0, SEARCHING * sizeof(*searching));
	atomic_set(&unlisted, 0);
	atomic_set(&unknown_writes.count, 0);
}

static void ports_race(struct kunit *test)
{
	static const struct race_kind rows[] = {
		{ .see_writes = true, .percent = 20 },
		{ .see_writes = true, .with_strangers = true, .percent = 5 },
		{ .percent = 5 },
		/* The probe on writes is armed, and silent until the first search returns. */
		{ .see_writes = true, .blind = true, .percent = 2 },
	};
	struct race *race = kunit_new(test, sizeof(*race));
	const u32 *kernels = perturb;
	bool saw_one = saw_write, was_blind = is_blind;
	u32 n, switched;

	race->test = test;
	race->free = kunit_new(test, BITS_TO_LONGS(65537) * sizeof(long));
	race->table = kunit_new(test, (BUCKETS + 8) * sizeof(u32));
	race->over = get_state_synchronize_rcu();
	synchronize_rcu();
	perturb = race->table;
	/* The log has the line already. */
	is_blind = true;
	for_each_row() {
		race->kind = row;
		race->rnd = kunit_random();
		race->searches = 0;
		race->verified = 0;
		saw_write = !row->blind;
		for (n = 0, switched = 0; n < 6000; n++) {
			race->ports.low = 40000 + n % 3;
			race->ports.high = race->ports.low + RACERS_RANGE - 1 - n % 2;
			race->ports.step = 1 + (n >> 1) % 2;
			race->in_a_row = 2 << n % 8;
			race->table[7] = prandom_u32_state(&race->rnd);
			race_forget();
			sees_writes = row->see_writes;
			settled = SETTLED;
			race_once(race);
			switched += row->see_writes && !sees_writes;
		}
		kunit_info(test, "%u of %u searches verified\n", race->verified, race->searches);
		KUNIT_EXPECT_ROW(test, race->verified * 100ULL / race->searches >= row->percent,
				 true);
		/* In some rounds, no search finds a port. */
		KUNIT_EXPECT_ROW(test, switched > 5000, row->blind);
	}
	race_forget();
	perturb = kernels;
	saw_write = saw_one;
	is_blind = was_blind;
}

/* The value before the next write is known once it is noted, not once it is announced. */
static void ports_value_not_noted(struct kunit *test)
{
	struct search search = { .slot = 7, .number = 100, .begun = 99 };
	struct perturb_bucket *bucket = &buckets[7];
	u32 value = 5;

	bucket->overlap = 90;
	bucket->noted = 100;
	bucket->values[101 % VALUES] = 6;
	bucket->tags[101 % VALUES] = 0;
	atomic64_set(&bucket->writes, 100 * ANNOUNCED + 1);
	KUNIT_EXPECT_TRUE(test, value_after_write(&search, &value));
	KUNIT_EXPECT_EQ(test, value, 5);
	atomic64_set(&bucket->writes, 101 * ANNOUNCED + 1);
	KUNIT_EXPECT_FALSE(test, value_after_write(&search, &value));
	bucket->noted = 101;
	KUNIT_EXPECT_TRUE(test, value_after_write(&search, &value));
	KUNIT_EXPECT_EQ(test, value, 6);
	/* A value of another slot of the bucket; overlapping writes; an overwritten value. */
	bucket->tags[101 % VALUES] = 1;
	KUNIT_EXPECT_FALSE(test, value_after_write(&search, &value));
	bucket->tags[101 % VALUES] = 0;
	bucket->overlap = 101;
	KUNIT_EXPECT_FALSE(test, value_after_write(&search, &value));
	bucket->overlap = 90;
	search.begun = 101 - VALUES - 1;
	KUNIT_EXPECT_FALSE(test, value_after_write(&search, &value));
	race_forget();
}

/* A start that contradicts the growth changes no bound, wherever it stands. */
static void ports_start_contradicted(struct kunit *test)
{
	static const u32 rows[][2] = { { 0, 4 }, { 4, 0 } };
	const struct tcplat_ports ports = { .low = 32768, .high = 32867, .step = 2 };

	for_each_row() {
		struct tcplat_tried tried = tcplat_ports_by_starts(&ports, *row, 2, 42,
								   ports.low + 40);

		KUNIT_EXPECT_EQ(test, tried.min, 21);
		KUNIT_EXPECT_EQ(test, tried.max, 21);
	}
}

TCPLAT_GROUP_SUITE(portsearch,
		   KUNIT_CASE(ports_growth_must_fit),
		   KUNIT_CASE(ports_growth_of_nobody),
		   KUNIT_CASE(ports_start_contradicted),
		   KUNIT_CASE_SLOW(ports_race),
		   KUNIT_CASE(ports_value_not_noted));
