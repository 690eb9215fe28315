/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the delay histogram at each HZ, and of the handlers with times that are too long for
 * other tests.
 */
#include "tcplat-kunit.h"

static const u64 delay_bounds[] = {
	1000, 2000, 4000, 8000, 10000, 20000, 30000, 40000, 50000, 60000,
	80000, 100000, 120000, 160000, 200000,
};

/*
 * A delay is converted before its bucket is chosen. Rounding must not move it across a bound:
 * the bucket must be that of the exact delay.
 */
static void delack_every_delay_in_jiffies(struct kunit *test)
{
	const unsigned int n = ARRAY_SIZE(delay_le_us) + 1;
	u64 j;

	KUNIT_ASSERT_EQ(test, ARRAY_SIZE(delay_le_us), ARRAY_SIZE(delay_bounds));
	KUNIT_EXPECT_MEMEQ(test, delay_le_us, delay_bounds, sizeof(delay_bounds));
	for (j = 0; j <= 2 * HZ; j++) {
		unsigned int bucket = 0;

		while (bucket < ARRAY_SIZE(delay_bounds) &&
		       j * USEC_PER_SEC > delay_bounds[bucket] * HZ)
			bucket++;
		KUNIT_ASSERT_EQ_MSG(test, tcplat_bucket(delay_le_us, n, tcplat_jiffies_to_us(j)),
				    bucket, "%llu jiffies", j);
	}
}

/* debugfs has one line per jiffy up to the longest delay of an ACK, and one beyond. */
static void delack_per_jiffy_file(struct kunit *test)
{
	struct seq_file *seq = kunit_seq(test);
	unsigned int lines = 0;
	char last[16];
	char *c;

	KUNIT_EXPECT_EQ(test, DELAY_JIFFY_BUCKETS, TCP_DELACK_MAX + 2);
	delay_jiffies_show(seq);
	KUNIT_ASSERT_FALSE(test, seq_has_overflowed(seq));
	for (c = seq->buf; *c; c++)
		lines += *c == '\n';
	KUNIT_EXPECT_EQ(test, lines, DELAY_JIFFY_BUCKETS + 1);
	KUNIT_EXPECT_NOT_NULL(test, strstr(seq->buf, "\n0 "));
	snprintf(last, sizeof(last), "\n%u ", TCP_DELACK_MAX);
	KUNIT_EXPECT_NOT_NULL(test, strstr(seq->buf, last));
	snprintf(last, sizeof(last), "\n>%u ", TCP_DELACK_MAX);
	KUNIT_EXPECT_NOT_NULL(test, strstr(seq->buf, last));
}

/* Ages of the last data, from 0 to the largest that 32 bits can hold. */
static const u32 delack_ages[] = {
	0, 1, HZ / 25, HZ, 300 * HZ, 301 * HZ, 0x7ffffffe, 0x7fffffff, 0x80000000,
	0x80000001, U32_MAX - HZ,
};

/* A socket whose delayed-ACK timer is pending. */
static struct sock *delack_sock(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	/* A free word is 0. */
	tcp_sk(sk)->rcv_wup = 0xabcd1234;
	tcp_sk(sk)->rcv_nxt = tcp_sk(sk)->rcv_wup;
	inet_csk(sk)->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
	return sk;
}

/* The ACK is as late as @age, and as much more as has passed since @then. */
static void delack_expect_delay(struct kunit *test, const struct sock *sk, u32 age, u32 then)
{
	bool pieces;
	u32 delay = ack_delay(sk, jiffies, &pieces);

	KUNIT_EXPECT_LE_MSG(test, delay - age, tcp_jiffies32 - then, "%u instead of %u", delay,
			    age);
}

/* Sets the expiry, which the kernel keeps from the first data on. */
static void delack_set_expiry(struct sock *sk, unsigned long expiry)
{
#ifdef TCPLAT_HAVE_ICSK_DELACK_TIMEOUT
	inet_csk(sk)->icsk_delack_timer.expires = expiry;
#else
	inet_csk(sk)->icsk_ack.timeout = expiry;
#endif
}

/* Data is received at @first and at @last, with no ACK in between. */
static void delack_data(struct sock *sk, u32 first, u32 last)
{
	delack_set_expiry(sk, first + HZ / 25);
	inet_csk(sk)->icsk_ack.lrcvtime = first;
	keep_oldest(sk);
	inet_csk(sk)->icsk_ack.lrcvtime = last;
	tcp_sk(sk)->rcv_nxt += 100;
}

/* The same decision as in tcp_delack_timer_handler(). */
static void delack_sends_ack(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct inet_connection_sock *icsk = inet_csk(sk);
	int state;

	delack_set_expiry(sk, jiffies);
	for (state = TCP_ESTABLISHED; state < TCP_MAX_STATES; state++) {
		sk->sk_state = state;
		icsk->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
		KUNIT_EXPECT_EQ_MSG(test, tcplat_delack_sends_ack(sk),
				    state != TCP_CLOSE && state != TCP_LISTEN, "state %d", state);
		icsk->icsk_ack.pending = ICSK_ACK_SCHED;
		KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
		icsk->icsk_ack.pending = ICSK_ACK_TIMER;
		KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
	}
	/* The timer was set to a later time. */
	sk->sk_state = TCP_ESTABLISHED;
	icsk->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
	KUNIT_EXPECT_TRUE(test, tcplat_delack_sends_ack(sk));
	delack_set_expiry(sk, jiffies + HZ);
	KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
#ifdef TCPLAT_HAVE_TCP_SACK_COMPRESS_SEND_ACK
	/* The timer sends compressed SACKs and returns. */
	delack_set_expiry(sk, jiffies);
	tcp_sk(sk)->compressed_ack = 1;
	KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
#endif
}

static void delack_owes(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct inet_connection_sock *icsk = inet_csk(sk);

	icsk->icsk_ack.lrcvtime = tcp_jiffies32 - 5;
	icsk->icsk_ack.pending = 0;
	KUNIT_EXPECT_FALSE(test, tcplat_delack_owes(sk));
	/* For example, data out of order, which does not set lrcvtime. */
	icsk->icsk_ack.pending = ICSK_ACK_SCHED;
	KUNIT_EXPECT_FALSE(test, tcplat_delack_owes(sk));
	icsk->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
	KUNIT_EXPECT_TRUE(test, tcplat_delack_owes(sk));
}

/* For any age, and across the wrap of 16 and 32 bits. */
static void delack_delay_of_the_oldest(struct kunit *test)
{
	static const u32 ages[] = {
		1, HZ / 25, HZ, 0xfffe, 0xffff, 0x10000, 0x10001, 300 * HZ, 0x7fffffff,
	};
	struct sock *sk = delack_sock(test);
	u32 before;
	int i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		tcp_sk(sk)->rcv_wup++;
		before = tcp_jiffies32;
		delack_data(sk, before - ages[i], before - ages[i] / 2);
		/* Each later segment calls this, too. */
		keep_oldest(sk);
		delack_expect_delay(test, sk, ages[i], before);
	}

	/* Without memory for the ACK, the kernel sets the timer again, up to 120 s ahead. */
	tcp_sk(sk)->rcv_wup++;
	before = tcp_jiffies32;
	delack_data(sk, before - 119 * HZ, before - 118 * HZ);
	delack_set_expiry(sk, before + HZ);
	delack_expect_delay(test, sk, 119 * HZ, before);
}

/*
 * The kernel does not store the time of a FIN without data; the time of the last segment is used.
 * A byte of data is not a FIN. If a FIN follows data, the data is the oldest.
 */
static void delack_delay_of_a_fin(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = tcp_jiffies32;

	inet_csk(sk)->icsk_ack.lrcvtime = before - 300 * HZ;
	tp->rcv_tstamp = before - 3 * HZ;
	tp->rcv_nxt = tp->rcv_wup + 1;
	delack_expect_delay(test, sk, 300 * HZ, before);
	sock_set_flag(sk, SOCK_DONE);
	delack_expect_delay(test, sk, 3 * HZ, before);
	tp->rcv_nxt++;
	delack_expect_delay(test, sk, 300 * HZ, before);
}

/* A word is invalid once an ACK was sent, which changes rcv_wup. */
static void delack_oldest_until_the_ack(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 hash = owed_hash(sk);
	const u64 *words = owed_set_of(hash)->words;
	unsigned int i, n = 0;
	u32 before = tcp_jiffies32;

	delack_data(sk, before - 20, before - 3);
	tp->rcv_wup = tp->rcv_nxt;
	delack_expect_delay(test, sk, 3, before);
	before = tcp_jiffies32;
	delack_data(sk, before - 10, before - 3);
	delack_expect_delay(test, sk, 10, before);

	/* The socket's old word was replaced. */
	for (i = 0; i < OWED_SET_WORDS; i++)
		n += words[i] && !((words[i] ^ owed_word(sk, hash)) >> OWED_TAG_SHIFT);
	KUNIT_EXPECT_EQ(test, n, 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_delack, DELAY_EVICTIONS), 0);
}

/* New data goes into word @n of the socket's set; @evictions were counted so far. */
static void delack_goes_into(struct kunit *test, struct sock *sk, unsigned int n, u64 evictions)
{
	u64 hash = owed_hash(sk);
	const u64 *words = owed_set_of(hash)->words;

	delack_data(sk, tcp_jiffies32 - 2, tcp_jiffies32);
	KUNIT_EXPECT_EQ_MSG(test, words[n] >> OWED_WUP_SHIFT,
			    owed_word(sk, hash) >> OWED_WUP_SHIFT, "word %u", n);
	KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(&tcplat_delack, DELAY_EVICTIONS), evictions,
			    "word %u", n);
}

/* A full set evicts its oldest word, and counts that if the word may be in use. */
static void delack_evictions(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	u64 hash = owed_hash(sk);
	u64 *words = owed_set_of(hash)->words;
	u64 other = owed_word(sk, hash) ^ 1ULL << 60;
	u32 now = tcp_jiffies32;
	unsigned int i;

	for (i = 0; i < OWED_SET_WORDS; i++)
		words[i] = (other ^ (u64)i << OWED_TAG_SHIFT) | ((now - i) & OWED_JIFFY_MASK);
	words[3] = (other ^ 3ULL << OWED_TAG_SHIFT) |
		   ((now - OWED_MAX_AGE - 10) & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, 3, 0);

	words[3] = (other ^ 3ULL << OWED_TAG_SHIFT) | (now & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, OWED_SET_WORDS - 1, 1);

	words[2] = 0;
	tcp_sk(sk)->rcv_wup++;
	words[OWED_SET_WORDS - 1] = (other ^ (u64)i << OWED_TAG_SHIFT) | (now & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, 2, 1);
	memset(words, 0, sizeof(*owed));
}

/*
 * Delays across the wrap of TCP's clock: since the last data, or, if only a FIN is to be
 * acknowledged, since the last segment.
 */
static void delack_delay_over_the_wrap(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before;
	int i;

	for (i = 0; i < ARRAY_SIZE(delack_ages); i++) {
		u32 age = delack_ages[i];

		sock_reset_flag(sk, SOCK_DONE);
		tp->rcv_nxt = tp->rcv_wup;
		before = tcp_jiffies32;
		inet_csk(sk)->icsk_ack.lrcvtime = before - age;
		tp->rcv_tstamp = before - age / 2 - 1;
		delack_expect_delay(test, sk, age, before);

		/* Sequence numbers wrap, too. */
		tp->rcv_wup = U32_MAX;
		tp->rcv_nxt = 0;
		sock_set_flag(sk, SOCK_DONE);
		before = tcp_jiffies32;
		tp->rcv_tstamp = before - age;
		inet_csk(sk)->icsk_ack.lrcvtime = before - age / 2 - 1;
		delack_expect_delay(test, sk, age, before);
	}
}

/* With the handler: sums have 64 bits, and delays longer than any bound have a bucket. */
static void delack_handler_counts_any_delay(struct kunit *test)
{
	const struct tcplat_group *group = &tcplat_delack;
	struct sock *sk = delack_sock(test);
	u64 least = 0, most = 0;
	u32 before;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(delack_ages); i++) {
		for (j = 0; j < 3; j++) {
			u32 age = delack_ages[i];

			before = tcp_jiffies32;
			inet_csk(sk)->icsk_ack.lrcvtime = before - age;
			KUNIT_HANDLE(expiry_entry(sk, 0, 0));
			least += age;
			most += age + tcplat_jiffies32_since(tcp_jiffies32, before);
		}
	}
	KUNIT_EXPECT_GT(test, least, 3ULL << 32);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, TIMEOUTS), 3 * ARRAY_SIZE(delack_ages));
	KUNIT_EXPECT_GE(test, tcplat_sum(group, DELAY_JIFFIES), least);
	KUNIT_EXPECT_LE(test, tcplat_sum(group, DELAY_JIFFIES), most);
	KUNIT_EXPECT_GE(test, tcplat_max(group, DELAY_MAX_JIFFIES), U32_MAX - HZ);
	KUNIT_EXPECT_LE(test, tcplat_max(group, DELAY_MAX_JIFFIES), U32_MAX);
	/* All delays but those of 0, 1 and HZ/25 ticks. */
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, DELAY_HIST + ARRAY_SIZE(delay_bounds)),
			3 * (ARRAY_SIZE(delack_ages) - 3));
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, DELAY_JIFFY + DELAY_JIFFY_BUCKETS - 1),
			3 * (ARRAY_SIZE(delack_ages) - 3));
}

/* For any value of jiffies; for a timer that is not late; and never more than the delay. */
static void delack_lateness(struct kunit *test)
{
	static const unsigned long expiries[] = {
		0, 1, HZ, U32_MAX - 300UL * HZ, U32_MAX - 1, U32_MAX, 1UL << 32,
		LONG_MAX - 1, LONG_MAX, LONG_MAX + 1UL, ULONG_MAX - HZ, ULONG_MAX,
	};
	static const unsigned long lates[] = { 0, 1, 7, 8, HZ / 25, HZ, U32_MAX };
	static const u32 asked[] = { 0, 1, HZ / 25, HZ / 5, 4 * HZ };
	int i, j, k;

	for (i = 0; i < ARRAY_SIZE(expiries); i++) {
		unsigned long at = expiries[i];

		for (j = 0; j < ARRAY_SIZE(lates); j++)
			for (k = 0; k < ARRAY_SIZE(asked); k++) {
				u64 delay = lates[j] + asked[k];

				if (delay > U32_MAX)
					continue;
				KUNIT_EXPECT_EQ_MSG(test, tcplat_delack_lateness(at + lates[j], at,
										 delay),
						    (u32)lates[j], "%lx, %u + %lu", at, asked[k],
						    lates[j]);
			}
		/* The data was received after the expiry: all of its delay is late. */
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + 50, at, 20), 20);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + 50, at, 0), 0);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + (1UL << 40), at, U32_MAX),
				U32_MAX);
		/* The timer has not expired yet. */
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at - 1, at, 20), 0);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at - HZ, at, 20), 0);
	}
}

/* Runs the handler within one jiffy: data came @age jiffies ago, the expiry was @late ago. */
static void delack_expires(struct sock *sk, u32 age, u32 late)
{
	unsigned long now;

	preempt_disable();
	do {
		tcplat_counters_reset(&tcplat_delack);
		now = jiffies;
		inet_csk(sk)->icsk_ack.lrcvtime = (u32)now - age;
		delack_set_expiry(sk, now - late);
		expiry_entry(sk, 0, 0);
	} while (time_after(jiffies, now));
	preempt_enable();
}

/* With the handler, exact to the jiffy: on time, a tick late, and deferred by a user. */
static void delack_handler_counts_late(struct kunit *test)
{
	static const struct {
		u32 age, late, counted;
	} rows[] = {
		{ HZ / 25 + 1, 1, 1 },
		{ HZ / 25, 0, 0 },
		{ 0, 0, 0 },
		{ HZ / 10, HZ / 10 - HZ / 25, HZ / 10 - HZ / 25 },
		/* Set again because there was no memory for the ACK: longer than one ATO. */
		{ 3 * HZ, 2, 2 },
		/* A user held the socket at the expiry, and the data was processed after it. */
		{ 3, 60, 3 },
		{ 0, 60, 0 },
	};
	const struct tcplat_group *group = &tcplat_delack;
	struct sock *sk = delack_sock(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		delack_expires(sk, rows[i].age, rows[i].late);
		KUNIT_EXPECT_ROW(test, i, tcplat_sum(group, TIMEOUTS), 1);
		KUNIT_EXPECT_ROW(test, i, tcplat_sum(group, DELAY_JIFFIES), rows[i].age);
		KUNIT_EXPECT_ROW(test, i, tcplat_sum(group, LATE_JIFFIES), rows[i].counted);
		KUNIT_EXPECT_ROW(test, i, tcplat_max(group, LATE_MAX_JIFFIES), rows[i].counted);
	}
}

/*
 * Two pieces of data: the time from the first one to the expiry was asked for, and the jiffies
 * after the expiry are late, whichever of the two the delay counts from.
 */
static void delack_late_of_the_oldest(struct kunit *test)
{
	const struct tcplat_group *group = &tcplat_delack;
	struct sock *sk = delack_sock(test);
	u32 late = HZ / 50 + 2, first = HZ / 25 + late;
	unsigned long now;

	preempt_disable();
	do {
		tcplat_counters_reset(&tcplat_delack);
		tcp_sk(sk)->rcv_wup++;
		now = jiffies;
		delack_data(sk, now - first, now - 1);
		delack_set_expiry(sk, now - late);
		expiry_entry(sk, 0, 0);
	} while (time_after(jiffies, now));
	preempt_enable();
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, DELAY_JIFFIES), first);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, LATE_JIFFIES), late);

	/* The time of the first piece is lost: the delay is too short, late is within it. */
	memset(owed_set_of(owed_hash(sk)), 0, sizeof(*owed));
	delack_expires(sk, 1, late);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, DELAY_JIFFIES), 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(group, LATE_JIFFIES), 1);
}

/*
 * Only late ACKs that the peer may have waited for are kept. Unread data counts, unless the
 * program wants to be woken up for more than there is.
 */
static void delack_late_acks(struct kunit *test)
{
	static const struct {
		bool pieces;
		u32 unread, lowat;
		bool late, counted;
	} rows[] = {
		{ false, 0, 1, true, false },
		{ true, 0, 1, false, false },
		{ false, 1, 1, false, true },
		{ true, 1, 1, false, true },
		{ false, 99, 100, true, false },
		{ false, 100, 100, false, true },
	};
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	u32 delay;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		tcplat_counters_reset(&tcplat_delack);
		tp->copied_seq = tp->rcv_nxt - rows[i].unread;
		sk->sk_rcvlowat = rows[i].lowat;
		KUNIT_HANDLE(note_late_ack(sk, 3, rows[i].pieces, tcplat_delack_unread(sk)));
		KUNIT_EXPECT_ROW(test, i, tcplat_is_late(sk), rows[i].late);
		KUNIT_EXPECT_ROW(test, i, tcplat_sum(&tcplat_delack, TIMEOUTS_UNREAD),
				 rows[i].counted);
		tcplat_stall_end(sk, skb, &delay);
		KUNIT_EXPECT_FALSE(test, tcplat_is_late(sk));
	}
	/* The sequence number of a FIN is not unread data. */
	tp->copied_seq = tp->rcv_nxt - 1;
	sk->sk_rcvlowat = 1;
	KUNIT_EXPECT_TRUE(test, tcplat_delack_unread(sk));
	sock_set_flag(sk, SOCK_DONE);
	KUNIT_EXPECT_FALSE(test, tcplat_delack_unread(sk));
}

static struct kunit_case delack_cases[] = {
	KUNIT_CASE(delack_every_delay_in_jiffies),
	KUNIT_CASE(delack_per_jiffy_file),
	KUNIT_CASE(delack_delay_over_the_wrap),
	KUNIT_CASE(delack_handler_counts_any_delay),
	KUNIT_CASE(delack_sends_ack),
	KUNIT_CASE(delack_owes),
	KUNIT_CASE(delack_delay_of_the_oldest),
	KUNIT_CASE(delack_delay_of_a_fin),
	KUNIT_CASE(delack_oldest_until_the_ack),
	KUNIT_CASE(delack_evictions),
	KUNIT_CASE(delack_lateness),
	KUNIT_CASE(delack_handler_counts_late),
	KUNIT_CASE(delack_late_of_the_oldest),
	KUNIT_CASE(delack_late_acks),
	{}
};

TCPLAT_GROUP_SUITE(delack);
